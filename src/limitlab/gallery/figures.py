"""What entries draw with: figures in the house style and the mean over runs."""

from limitlab.figures import Drawing, Key, Panel, average, new_figure, palette, style_axes
from limitlab.figures.on_paper import paper

__all__ = ["Drawing", "Key", "Panel", "average", "new_figure", "palette", "paper", "style_axes"]
