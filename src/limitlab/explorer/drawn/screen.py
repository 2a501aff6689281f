"""Drawings as the browser gets them: small, in its theme, as wide as its window."""

import base64
import math
from typing import Any

import numpy as np

from limitlab.figures import Drawing
from limitlab.figures.on_screen import on_screen

__all__ = ["formula", "to_screen"]

HEAD, PANEL, FOOT, ROW = 30, 235, 58, 20  # pixels of a title, a panel, its axis, and a line of its legend
ROWS = 4  # lines of a legend for which there is room from the start, so that nothing moves when runs arrive
TOOLS = 26  # pixels above the titles, for the buttons that appear when a hand is over the figure
LONG_AXIS = 60  # of a logarithmic axis: from this ratio of its ends on decades are enough
SHORT_AXIS = 8  # below this ratio more than 1, 2 and 5 are named
LONG = 24  # numbers from which on a list is sent as bytes


def to_screen(drawing: Drawing, *, dark: bool, narrow: bool) -> dict[str, Any]:
    """The figure as Plotly takes it, without its title, which stands above it as words."""
    words, columns, rows = drawing.words, drawing.columns, drawing.rows
    drawing.words = ""
    if narrow:
        drawing.columns, drawing.rows = 1, len(drawing.panels)
    try:
        made = on_screen(drawing, dark=dark)
    finally:
        drawing.words, drawing.columns, drawing.rows = words, columns, rows
    layout = made["layout"]
    _settle_axes(made["data"], layout)
    for name in [name for name in layout if name.startswith("legend") and layout[name].get("orientation") == "h"]:
        layout[name]["orientation"] = "v"  # beside each other they would push the panels together
    for trace in made["data"]:
        _pack(trace)
    layout["uirevision"] = "kept"  # a zoom outlives new data
    layout["margin"] |= {"l": 56, "r": 12, "t": layout["margin"]["t"] + TOOLS}
    layout["font"]["family"] = "system-ui, sans-serif"
    if narrow:
        layout["font"]["size"] = 12
        if len(drawing.panels) == 2:
            _stack(made["data"], layout)
    made["config"] = {
        "displaylogo": False,
        "displayModeBar": False if narrow else "hover",
        "modeBarButtonsToRemove": ["lasso2d", "select2d", "toImage"],
        "doubleClick": "reset",
    }
    return made


def _stack(data: list[dict[str, Any]], layout: dict[str, Any]) -> None:
    """Two panels one above the other, each with room for its legend below it; heights are in pixels."""
    rows = [max(ROWS, sum(bool(t.get("showlegend")) and t.get("legend") == f"legend{k}" for t in data)) for k in (2, 3)]
    heights = [HEAD + PANEL + FOOT + ROW * count for count in rows]
    total, top = sum(heights), 0.0
    layout["margin"] |= {"t": 0, "b": 0}
    layout["meta"] = {"height": total}
    for number, height in enumerate(heights, start=1):
        high, low = 1 - (top + HEAD) / total, 1 - (top + HEAD + PANEL) / total
        layout["yaxis" if number == 1 else f"yaxis{number}"]["domain"] = [low, high]
        for note in layout["annotations"]:
            if note.get("name") == f"title{number}":
                note["y"] = high
        if f"legend{number + 1}" in layout:
            layout[f"legend{number + 1}"] |= {"y": low - FOOT / total, "yanchor": "top", "x": 0, "xanchor": "left"}
        top += height


def _settle_axes(data: list[dict[str, Any]], layout: dict[str, Any]) -> None:
    """On a logarithmic axis over several decades only these are named; on a shorter one 1, 2, 5, 10, 20, ..."""
    for letter in "xy":
        for name in [name for name in layout if name.startswith(f"{letter}axis") and layout[name]["type"] == "log"]:
            here = [t for t in data if t.get(f"{letter}axis") == name.replace("axis", "")]
            values = [v for t in here for v in t[letter] if v is not None and v > 0]
            if values and max(values) > LONG_AXIS * min(values):
                layout[name]["dtick"] = 1
            elif values:
                first, last = (math.floor(math.log10(end)) for end in (min(values), max(values)))
                steps = (1, 2, 5) if max(values) > SHORT_AXIS * min(values) else (1, 1.5, 2, 3, 4, 5, 6, 8)
                ticks = [float(f"{m}e{k}") for k in range(first - 1, last + 2) for m in steps]
                layout[name] |= {"tickvals": ticks, "ticktext": [f"{tick:g}" for tick in ticks]}


def _pack(trace: dict[str, Any]) -> None:
    """Long lists as base64, a quarter of their size as text."""
    places = [(trace, name) for name in ("x", "y")] + [(trace.get("error_y", {}), "array")]
    for table, name in places:
        values = table.get(name)
        if isinstance(values, list) and len(values) > LONG:
            array = np.array([np.nan if v is None else v for v in values], "<f4")
            table[name] = {"dtype": "f4", "bdata": base64.b64encode(array.tobytes()).decode()}


def formula(latex: str) -> str:
    """A formula as MathML, which browsers draw by themselves."""
    from latex2mathml.converter import convert  # pyright: ignore[reportMissingImports]

    return convert(latex, display="block")
