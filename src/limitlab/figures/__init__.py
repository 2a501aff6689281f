"""Figures: described once, drawn on paper (matplotlib) or on a screen (Plotly)."""

from limitlab.figures.drawing import (
    Drawing,
    Key,
    Panel,
    early_end,
    legend_below,
    mark_end,
    new_figure,
    palette,
    style_axes,
)
from limitlab.figures.on_paper import close_figure, draw_on, drawn, png, save_figure
from limitlab.figures.words import average, describe, short, time_label, title

__all__ = [
    "Drawing",
    "Key",
    "Panel",
    "average",
    "close_figure",
    "describe",
    "draw_on",
    "drawn",
    "early_end",
    "legend_below",
    "mark_end",
    "new_figure",
    "palette",
    "png",
    "save_figure",
    "short",
    "style_axes",
    "time_label",
    "title",
]
