"""A film: a cloud that moves in time, and its risk with a moving mark beside it. Axes stay where they are."""

from typing import Any

import numpy as np
from nicegui import ui

from limitlab.figures import palette
from limitlab.figures.on_screen import Theme

__all__ = ["film", "player"]

Window = tuple[float, float, float, float]


def film(
    frames: list[list[dict[str, Any]]],
    times: np.ndarray,
    flow: Any,
    runs: Any,
    *,
    words: tuple[str, str, str, str, str],
    window: Window,
    dark: bool,
    narrow: bool,
) -> dict[str, Any]:
    """A figure of Plotly with one frame for every time.

    Parameters
    ----------
    frames
        Of every time the curves of the left panel: ``x``, ``y``, ``label``, ``color``, ``points`` or a line, ``size``.
    flow, runs
        (t, risk) and (t, mean, error) of the right panel, or None.
    words
        Names of the axes and the title of the left panel, then of the axes of the right one.
    window
        Of the left panel: least and largest x, then y.
    """
    theme = Theme.of(dark)
    data = [_curve(curve, theme) for curve in (frames[-1] if frames else [])]
    count = len(data)
    right: dict[str, Any] = {"xaxis": "x2", "yaxis": "y2", "legend": "legend"}
    if flow is not None:
        data.append({**right, "x": _list(flow[0]), "y": _list(flow[1]), "mode": "lines", "name": "risk of the flow"})
        data[-1]["showlegend"] = False
        data[-1]["line"] = {"color": theme.colour(palette[0]), "width": 2}
    if runs is not None:
        t, mean, error = runs
        bars = {} if error is None else {"error_y": {"array": _list(error), "thickness": 1, "width": 0}}
        data.append({**right, **bars, "x": _list(t), "y": _list(mean), "mode": "markers", "name": "risk of the runs"})
        data[-1]["marker"] = {"color": theme.colour(palette[1]), "size": 5}
    moving = flow if flow is not None else runs
    steps = []
    if moving is not None and frames:
        mark = {**right, "mode": "markers", "name": "now", "showlegend": False, "hoverinfo": "skip"}
        mark["marker"] = {"color": theme.ink, "size": 12, "symbol": "circle-open", "line": {"width": 3}}
        data.append({**mark, "x": [float(moving[0][-1])], "y": _list(moving[1][-1:])})
        for k, curves in enumerate(frames):
            now = [{"x": _list(c["x"]), "y": _list(c["y"])} for c in curves]
            now.append({"x": [float(moving[0][k])], "y": _list(moving[1][k : k + 1])})
            steps.append({"name": str(k), "data": now, "traces": [*range(count), len(data) - 1]})
    axis = {"gridcolor": theme.grid, "zeroline": False, "linecolor": theme.ink, "ticks": "outside", "automargin": True}
    low, high, bottom, top = window
    across, up = (((0, 1), (0, 1)), ((0.6, 1), (0, 0.38))) if narrow else (((0, 0.46), (0.56, 1)), ((0, 1), (0, 1)))
    square = bottom == low and top == high
    layout: dict[str, Any] = {
        "paper_bgcolor": theme.paper,
        "plot_bgcolor": theme.paper,
        "font": {"color": theme.ink, "size": 13, "family": "system-ui, sans-serif"},
        "margin": {"l": 56, "r": 12, "t": 34 if narrow else 58, "b": 50},
        "autosize": True,
        "hovermode": "closest" if square else "x unified",
        "legend": {
            "orientation": "h",
            "x": 0,
            "y": -0.12 if narrow else -0.22,
            "yanchor": "top",
            "bgcolor": "rgba(0,0,0,0)",
        },
        "xaxis": {**axis, "domain": across[0], "range": [low, high], "title": {"text": words[0]}},
        "yaxis": {**axis, "domain": up[0], "range": [bottom, top], "title": {"text": words[1]}},
        "xaxis2": {**axis, "domain": across[1], "anchor": "y2", "title": {"text": words[3]}},
        "yaxis2": {**axis, "domain": up[1], "anchor": "x2", "title": {"text": words[4]}, "rangemode": "tozero"},
        "annotations": [_title(words[2], across[0][0], up[0][1]), _title("The risk", across[1][0], up[1][1])],
        "meta": {"times": _list(times), "count": len(frames)},
    }
    if square:
        layout["yaxis"] |= {"scaleanchor": "x", "scaleratio": 1, "constrain": "domain"}
    config = {
        "displaylogo": False,
        "displayModeBar": "hover",
        "modeBarButtonsToRemove": ["lasso2d", "select2d", "toImage"],
    }
    return {"data": data, "layout": layout, "frames": steps, "config": config}


def player(sitting: Any) -> None:
    """Play, pause, scrub and speed: native elements, reached by the keyboard."""
    ui.add_body_html('<script src="/explorer-static/film.js"></script>')
    speeds = "".join(
        f'<option value="{pause}"{" selected" if words == "normal" else ""}>{words}</option>'
        for words, pause in (("slow", 400), ("normal", 150), ("fast", 60))
    )
    ui.html(
        '<button type="button" id="film-play">play</button>'
        '<label for="film-moment">moment</label>'
        '<input type="range" id="film-moment" min="0" max="30" step="1" value="30">'
        '<output id="film-time" for="film-moment"></output>'
        f'<label for="film-speed">speed</label><select id="film-speed">{speeds}</select>',
        sanitize=False,
    ).classes("film").props('role="group" aria-label="Film"')


def _curve(curve: dict[str, Any], theme: Theme) -> dict[str, Any]:
    colour = theme.colour(curve["color"])
    made: dict[str, Any] = {"x": _list(curve["x"]), "y": _list(curve["y"]), "name": curve["label"], "legend": "legend"}
    if curve["points"]:
        return {**made, "mode": "markers", "marker": {"color": colour, "size": curve["size"], "opacity": 0.7}}
    return {**made, "mode": "lines", "line": {"color": colour, "width": 2}}


def _title(words: str, x: float, y: float) -> dict[str, Any]:
    place = {"xref": "paper", "yref": "paper", "x": x, "y": y, "xanchor": "left", "yanchor": "bottom"}
    return {"text": f"<b>{words}</b>", "font": {"size": 13}, "showarrow": False, **place}


def _list(values: Any) -> list[float | None]:
    """Numbers of five digits; None where there is none."""
    return [float(f"{v:.5g}") if np.isfinite(v) else None for v in np.asarray(values, float)]
