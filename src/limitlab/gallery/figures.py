"""What entries draw with: figures in the house style and the mean over runs."""

from limitlab.figures import average, new_figure, palette, style_axes

__all__ = ["average", "new_figure", "palette", "style_axes"]
