"""Drawings as the browser gets them: small, in its theme, as wide as its window."""

import base64
from typing import Any

import numpy as np

from limitlab.figures import Drawing
from limitlab.figures.on_screen import on_screen

__all__ = ["formula", "to_screen"]

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
    layout["margin"] |= {"l": 56, "r": 12}
    layout["font"]["family"] = "system-ui, sans-serif"
    if narrow:
        layout["font"]["size"] = 12
        if len(drawing.panels) == 2:
            _stack(layout)
    made["config"] = {
        "displaylogo": False,
        "displayModeBar": False if narrow else "hover",
        "modeBarButtonsToRemove": ["lasso2d", "select2d", "toImage"],
        "doubleClick": "reset",
    }
    return made


def _stack(layout: dict[str, Any]) -> None:
    """Two panels one above the other, each with room for its legend below it."""
    for number, (low, high) in enumerate(((0.68, 1.0), (0.17, 0.49)), start=1):
        layout["yaxis" if number == 1 else f"yaxis{number}"]["domain"] = [low, high]
        for note in layout["annotations"]:
            if note.get("name") == f"title{number}":
                note["y"] = high
        if f"legend{number + 1}" in layout:
            layout[f"legend{number + 1}"] |= {"y": low - 0.07, "yanchor": "top", "x": 0, "xanchor": "left"}


def _settle_axes(data: list[dict[str, Any]], layout: dict[str, Any]) -> None:
    """On a logarithmic axis over several decades only these are named."""
    for letter in "xy":
        for name in [name for name in layout if name.startswith(f"{letter}axis") and layout[name]["type"] == "log"]:
            here = [t for t in data if t.get(f"{letter}axis") == name.replace("axis", "")]
            values = [v for t in here for v in t[letter] if v is not None and v > 0]
            if values and max(values) > 30 * min(values):
                layout[name]["dtick"] = 1


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
