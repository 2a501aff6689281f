"""At finite size: simulate, and one file per learning rule."""
