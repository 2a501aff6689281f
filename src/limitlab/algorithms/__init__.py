"""How it is learned: one rule, one file."""
