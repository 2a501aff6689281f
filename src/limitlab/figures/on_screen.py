"""Drawings on a screen: as plain dicts of Plotly, which is not needed to make them.

The same panels, curves, bars, bands and words as on paper. Formulas in words become letters with indices, so that no
script for formulas is needed.
"""

import html
import math
import re
from typing import Any, NamedTuple

import numpy as np

from limitlab.figures.drawing import Call, Drawing, Key, Panel, palette

__all__ = ["Theme", "marked_up", "on_screen"]

DASHES = {"-": "solid", "--": "dash", ":": "dot", "-.": "dashdot", "solid": "solid", "dashed": "dash", "dotted": "dot"}
SYMBOLS = {
    "o": "circle",
    "s": "square",
    "^": "triangle-up",
    "v": "triangle-down",
    "D": "diamond",
    "P": "cross",
    "x": "x-thin-open",
    "+": "cross-thin-open",
    "*": "star",
    ".": "circle",
    "|": "line-ns-open",
    "d": "diamond-tall",
}
NAMES = {"k": "black", "b": "blue", "r": "red", "g": "green", "w": "white"}
DOTS_PER_INCH = 96
DIM, LIGHTER = 100, 0.2  # on dark paper colours that are dimmer are mixed with so much white: the blue of the palette
GAP = (0.2, 0.24)  # of the width and the height of a panel, between two of them
LETTERS = {
    r"\neq": "≠",
    r"\leq": "≤",
    r"\geq": "≥",
    r"\infty": "∞",
    r"\sqrt": "√",
    r"\cdot": "·",
    r"\times": "×",
    r"\pm": "±",
    r"\to": "→",
    r"\langle": "⟨",
    r"\rangle": "⟩",
    r"\ell": "ℓ",
    r"\partial": "∂",
    r"\approx": "≈",
    r"\sim": "∼",
    r"\ast": "*",
    r"\,": " ",
    r"\ ": " ",
    r"\|": "‖",
}
GREEK = "alpha beta gamma delta epsilon zeta eta theta kappa lambda mu nu xi pi rho sigma tau phi chi psi omega".split()
LETTERS |= {f"\\{name}": letter for name, letter in zip(GREEK, "αβγδεζηθκλμνξπρστφχψω", strict=True)}
LETTERS |= {r"\Delta": "Δ", r"\Sigma": "Σ", r"\Phi": "Φ", r"\Psi": "Ψ", r"\Omega": "Ω"}


class Theme(NamedTuple):
    """Colours of paper, ink and grid."""

    paper: str = "#ffffff"
    ink: str = "#222222"
    grid: str = "#e6e6e6"
    dark: bool = False

    @classmethod
    def of(cls, dark: bool) -> "Theme":
        return cls("#16181d", "#e8e8e8", "#33363d", True) if dark else cls()

    def colour(self, name: str) -> str:
        """A colour of the palette on this paper."""
        return _colour(name, self)


def on_screen(figure: Drawing, *, dark: bool = False, sized: bool = False) -> dict[str, Any]:
    """The figure as Plotly takes it: ``{"data": [...], "layout": {...}}``; as large as its place unless ``sized``."""
    theme = Theme.of(dark)
    layout: dict[str, Any] = {
        "paper_bgcolor": theme.paper,
        "plot_bgcolor": theme.paper,
        "font": {"color": theme.ink, "size": 13},
        "margin": {"l": 60, "r": 20, "t": (46 if figure.words else 12) + 18 * _lines(figure), "b": 50},
        "hovermode": "x unified",
        "shapes": [],
        "annotations": [],
        "barmode": "overlay",
        "autosize": not sized,
    }
    if figure.words:
        place = {"x": 0.01, "xanchor": "left", "y": 1.0, "yref": "container", "yanchor": "top", "pad": {"t": 12}}
        layout["title"] = {"text": marked_up(figure.words), **place, "font": {"size": 16}}
    if sized:
        layout["width"] = round(figure.columns * figure.width * DOTS_PER_INCH)
        layout["height"] = round(figure.rows * figure.height * DOTS_PER_INCH) + 40
    data: list[dict[str, Any]] = []
    for number, panel in enumerate(figure.panels, start=1):
        _Sheet(figure, panel, number, theme, data, layout).draw()
    if figure.keys:
        layout["legend"] = {**_legend(theme), "orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"}
        layout["margin"]["t"] += 30
        data += [_key(key, "legend", 1, theme) for key in figure.keys]
    return {"data": data, "layout": layout}


def _lines(figure: Drawing) -> int:
    """Lines of the longest title of a panel in the first row."""
    titles = (c.args[0] for panel in figure.panels[: figure.columns] for c in panel.calls if c.name == "set_title")
    return max((1 + str(words).count("\n") for words in titles if words), default=0)


def marked_up(words: str) -> str:
    """Words with formulas between dollars, as HTML."""
    parts = str(words).split("$")
    return "".join(html.escape(part) if k % 2 == 0 else _formula(part) for k, part in enumerate(parts)).replace(
        "\n", "<br>"
    )


def _formula(text: str) -> str:
    for word, letter in sorted(LETTERS.items(), key=lambda pair: -len(pair[0])):
        text = re.sub(re.escape(word) + r"(?![a-zA-Z])" if word[-1].isalpha() else re.escape(word), letter, text)
    text = re.sub(r"\\(?:mathrm|mathbf|hat|bar|text|mathcal|tilde)\s*\{([^{}]*)\}", r"\1", text)
    text = html.escape(text)
    for sign, tag in (("_", "sub"), ("^", "sup")):
        text = re.sub(re.escape(sign) + r"\{([^{}]*)\}", rf"<{tag}>\1</{tag}>", text)
        text = re.sub(re.escape(sign) + r"([^<{\s])", rf"<{tag}>\1</{tag}>", text)
    return re.sub(r"\\[a-zA-Z]+", "", text).replace("{", "").replace("}", "")


def _colour(name: Any, theme: Theme, alpha: float | None = None) -> str:
    """A colour of matplotlib as rgb; black and greys turn over on dark paper, and dark colours become lighter."""
    name = NAMES.get(str(name), str(name))
    if re.fullmatch(r"0?\.\d+|0|1|1\.0", name):
        level = float(name)
        level = 1 - 0.85 * level if theme.dark else level
        rgb = (round(255 * level),) * 3
    elif re.fullmatch(r"#[0-9a-fA-F]{6}", name):
        rgb = tuple(int(name[i : i + 2], 16) for i in (1, 3, 5))
    elif re.fullmatch(r"C\d", name):
        return _colour(palette[int(name[1])], theme, alpha)
    else:
        rgb = {"black": (0, 0, 0), "white": (255, 255, 255), "grey": (128,) * 3, "gray": (128,) * 3}.get(name)
        if rgb is None:
            return name
    if theme.dark and max(rgb) < 40:
        rgb = (232, 232, 232)
    elif theme.dark and 0.3 * rgb[0] + 0.59 * rgb[1] + 0.11 * rgb[2] < DIM and len(set(rgb)) > 1:
        rgb = tuple(round(part + LIGHTER * (255 - part)) for part in rgb)
    return f"rgba({rgb[0]},{rgb[1]},{rgb[2]},{1 if alpha is None else alpha:g})"


def _legend(theme: Theme) -> dict[str, Any]:
    return {"bgcolor": _colour(theme.paper, theme._replace(dark=False), 0.75), "font": {"size": 12}}


def _key(key: Key, legend: str, number: int, theme: Theme) -> dict[str, Any]:
    mode = "+".join(word for word, there in (("lines", key.line), ("markers", key.marker)) if there)
    trace: dict[str, Any] = {"type": "scatter", "x": [None], "y": [None], "mode": mode or "lines", "legend": legend}
    trace |= {"name": marked_up(key.label), "showlegend": True, "hoverinfo": "skip"}
    trace |= {"xaxis": _axis("x", number), "yaxis": _axis("y", number)}
    trace["line"] = {"color": _colour(key.color, theme), "width": key.width, "dash": DASHES.get(key.line, "solid")}
    trace["marker"] = {"color": _colour(key.color, theme), "symbol": SYMBOLS.get(key.marker, "circle"), "size": 7}
    return trace


def _axis(letter: str, number: int) -> str:
    return letter if number == 1 else f"{letter}{number}"


def _list(values: Any) -> list[Any]:
    """Numbers for JSON: None where there is none."""
    flat = np.ravel(np.asarray(values, dtype=float)) if not isinstance(values, np.ndarray) else values.ravel()
    return [float(x) if math.isfinite(x) else None for x in flat.tolist()]


class _Sheet:
    """One panel on its way to the screen."""

    def __init__(self, figure: Drawing, panel: Panel, number: int, theme: Theme, data: list, layout: dict):
        self.panel, self.number, self.theme, self.data, self.layout = panel, number, theme, data, layout
        self.x, self.y = _axis("x", number), _axis("y", number)
        row, column = divmod(number - 1, figure.columns)
        wide, high = 1 / figure.columns, 1 / figure.rows
        self.left, self.right = wide * (column + GAP[0] / 2), wide * (column + 1 - GAP[0] / 2)
        self.low, self.high = 1 - high * (row + 1 - GAP[1] / 2), 1 - high * (row + GAP[1] / 2)
        if figure.columns == 1:
            self.left, self.right = 0.0, 1.0
        if figure.rows == 1:
            self.low, self.high = 0.0, 1.0
        line = {
            "color": theme.ink,
            "gridcolor": theme.grid,
            "zeroline": False,
            "showline": True,
            "linecolor": theme.grid,
            "exponentformat": "power",
        }
        self.axis = {
            "x": {**line, "domain": [self.left, self.right], "anchor": self.y, "type": "linear"},
            "y": {**line, "domain": [self.low, self.high], "anchor": self.x, "type": "linear"},
        }
        self.legend = f"legend{number + 1}"
        self.counted = 0

    def draw(self) -> None:
        drawers = {
            "plot": self._plot,
            "errorbar": self._errorbar,
            "step": self._step,
            "bar": self._bar,
            "barh": self._barh,
            "fill_between": self._band,
            "axhline": self._line_across,
            "axvline": self._line_across,
            "axhspan": self._span,
            "axvspan": self._span,
            "text": self._text,
            "annotate": self._annotate,
            "legend": self._legend,
        }
        for call in self.panel.calls:  # scales first: words on a logarithmic axis are placed by logarithms
            self._settle(call)
        for call in self.panel.calls:
            if call.name in drawers:
                drawers[call.name](call)
        if not self.panel.named:  # as on paper: labels alone make no legend
            for trace in self.data:
                if trace.get("legend") == self.legend:
                    trace["showlegend"] = False
        for letter in "xy":
            self.layout[f"{letter}axis{'' if self.number == 1 else self.number}"] = self.axis[letter]

    # --- scales and words -----------------------------------------------------------------------------------------

    def _settle(self, call: Call) -> None:
        name, args, options = call.name, list(call.args), call.options
        if name == "set":
            for key, value in options.items():
                self._settle(Call(f"set_{key}", value if isinstance(value, tuple) else (value,), {}))
        elif name in ("set_xscale", "set_yscale"):
            self.axis[name[4]]["type"] = "log" if args[0] in ("log", "symlog") else "linear"
        elif name in ("set_xlabel", "set_ylabel"):
            self.axis[name[4]]["title"] = {"text": marked_up(args[0]), "standoff": 8}
        elif name in ("set_xlim", "set_ylim"):
            ends = args[0] if len(args) == 1 and np.ndim(args[0]) else (*args, None)[:2]
            self.axis[name[4]]["limits"] = tuple(ends)
        elif name in ("set_xticks", "set_yticks") and len(args) > 1 and not options.get("minor"):
            self.axis[name[4]] |= {"tickvals": _list(args[0]), "ticktext": [marked_up(t) for t in args[1]]}
        elif name == "set_title" and args[0]:
            words = {"text": f"<b>{marked_up(args[0])}</b>", "xref": "paper", "yref": "paper", "showarrow": False}
            words |= {"x": self.left, "y": self.high, "xanchor": "left", "yanchor": "bottom", "font": {"size": 13}}
            words["align"] = "left"
            self.layout["annotations"] = [
                note for note in self.layout["annotations"] if note.get("name") != f"title{self.number}"
            ] + [{**words, "name": f"title{self.number}"}]
        elif name == "invert_yaxis":
            self.axis["y"]["autorange"] = "reversed"
        elif name == "grid" and (args == [False] or options.get("visible") is False):
            for letter in options.get("axis", "xy").replace("both", "xy"):
                self.axis[letter]["showgrid"] = False
        if "limits" in self.axis["x"] or "limits" in self.axis["y"]:
            self._limit()

    def _limit(self) -> None:
        for letter in "xy":
            ends = self.axis[letter].get("limits")
            if ends is None:
                continue
            shown = [
                None if e is None else math.log10(e) if self.axis[letter]["type"] == "log" and e > 0 else e
                for e in ends
            ]
            self.axis[letter]["range"] = [None if e is None else float(e) for e in shown]
            self.axis[letter].setdefault("autorange", None)

    def _place(self, letter: str, value: float) -> float:
        """Where words stand: on a logarithmic axis by the logarithm."""
        return math.log10(value) if self.axis[letter]["type"] == "log" and value > 0 else float(value)

    # --- curves ---------------------------------------------------------------------------------------------------

    def _trace(self, x: Any, y: Any, mode: str, options: dict[str, Any], **more: Any) -> dict[str, Any]:
        label, alpha = options.get("label"), options.get("alpha")
        name = str(label) if label and not str(label).startswith("_") else ""
        colour = _colour(self._ink(options), self.theme, alpha)
        trace: dict[str, Any] = {"type": "scatter", "x": _list(x), "y": _list(y), "mode": mode}
        trace |= {"xaxis": self.x, "yaxis": self.y, "name": marked_up(name), "showlegend": bool(name)}
        trace |= {"legend": self.legend, "hoverlabel": {"namelength": -1}}
        line = options.get("ls", options.get("linestyle", "-"))
        trace["line"] = {"color": colour, "width": float(options.get("lw", options.get("linewidth", 1.8)))}
        trace["line"]["dash"] = DASHES.get(str(line), "solid")
        size = 1.3 * float(options.get("ms", options.get("markersize", 6)))  # points of 1/72 inch
        trace["marker"] = {"color": colour, "size": size, "symbol": SYMBOLS.get(options.get("marker", "o"), "circle")}
        if "mfc" in options or "markerfacecolor" in options:
            trace["marker"] |= {"color": self.theme.paper, "line": {"color": colour, "width": 1.3}}
        return {**trace, **more}

    def _ink(self, options: dict[str, Any]) -> Any:
        ink = options.get("color", options.get("c"))
        if ink is None:
            ink = palette[self.counted % len(palette)]
            self.counted += 1
        return ink

    def _plot(self, call: Call, **more: Any) -> None:
        args, options = list(call.args), dict(call.options)
        shape = args.pop() if args and isinstance(args[-1], str) else options.pop("fmt", "")
        line, marker, ink = _parsed(shape)
        if ink and "color" not in options:
            options["color"] = ink
        marker = marker or options.get("marker", "")
        if shape and not line and marker and "ls" not in options and "linestyle" not in options:
            line = ""
        else:
            line = line or str(options.get("ls", options.get("linestyle", "-")))
        line = "" if line.lower() in ("none", " ") else line
        y = np.asarray(args[-1], dtype=float)
        x = np.asarray(args[0], dtype=float) if len(args) > 1 else np.arange(len(y), dtype=float)
        options |= {"ls": line or "-", "marker": marker or "o"}
        mode = "+".join(word for word, there in (("lines", line), ("markers", marker)) if there) or "lines"
        columns = y.reshape(len(y), -1).T if y.ndim > 1 else [y]
        for k, column in enumerate(columns):
            self.data.append(
                self._trace(x, column, mode, {**options, "label": options.get("label") if k == 0 else None}, **more)
            )

    def _errorbar(self, call: Call) -> None:
        args, options = list(call.args), dict(call.options)
        names = ("x", "y", "yerr", "xerr", "fmt")
        given = {**dict(zip(names, args, strict=False)), **{k: options.pop(k) for k in names if k in options}}
        bars = {}
        for axis in "xy":
            error = given.get(f"{axis}err")
            if error is not None and np.size(error):
                error = np.abs(np.asarray(error, dtype=float))
                shape = np.broadcast_to(error, np.shape(given["y"])) if error.ndim < 2 else error
                both = (
                    {"array": _list(shape)}
                    if error.ndim < 2
                    else {"array": _list(error[1]), "arrayminus": _list(error[0])}
                )
                look = {"color": _colour(options.get("color", palette[0]), self.theme, options.get("alpha"))}
                bars[f"error_{axis}"] = {"type": "data", **both, "thickness": 1, "width": 2, **look}
        fmt = given.get("fmt", "o-" if "fmt" not in given else "")
        self._plot(Call("plot", (given["x"], given["y"], str(fmt)), options), **bars)

    def _step(self, call: Call) -> None:
        options = dict(call.options)
        where = options.pop("where", "pre")
        trace = self._trace(call.args[0], call.args[1], "lines", options)
        trace["line"]["shape"] = {"pre": "vh", "post": "hv", "mid": "hvh"}[where]
        self.data.append(trace)

    def _bar(self, call: Call) -> None:
        self._bars(call, "v")

    def _barh(self, call: Call) -> None:
        self._bars(call, "h")

    def _bars(self, call: Call, way: str) -> None:
        names = ("at", "size", "width")
        given = dict(zip(names, call.args, strict=False))
        options = dict(call.options)
        at = np.atleast_1d(np.asarray(given["at"], dtype=float))
        size = np.broadcast_to(np.asarray(given["size"], dtype=float), at.shape)
        thick = np.broadcast_to(
            np.asarray(given.get("width", options.get("height", options.get("width", 0.8))), float), at.shape
        )
        x, y = (at, size) if way == "v" else (size, at)
        trace = self._trace(x, y, "lines", options)
        for key in ("mode", "line"):
            del trace[key]
        trace |= {"type": "bar", "orientation": way, "width": _list(thick)}
        trace["marker"] = {"color": trace["marker"]["color"]}
        base = options.get("bottom" if way == "v" else "left")
        if base is not None:
            trace["base"] = _list(np.broadcast_to(np.asarray(base, dtype=float), at.shape))
        self.data.append(trace)

    def _band(self, call: Call) -> None:
        x, low, high = (*call.args, 0.0)[:3]
        shape = np.shape(x)
        low, high = (np.broadcast_to(np.asarray(v, dtype=float), shape) for v in (low, high))
        options = {**call.options, "alpha": call.options.get("alpha", 1.0)}
        under = self._trace(x, low, "lines", {**options, "label": None}, hoverinfo="skip")
        over = self._trace(x, high, "lines", options, hoverinfo="skip")
        fill = _colour(options.get("color", palette[0]), self.theme, options["alpha"])
        for trace in (under, over):
            trace["line"] = {"width": 0, "color": fill}
        self.data += [under, {**over, "fill": "tonexty", "fillcolor": fill}]

    # --- lines across, regions, words -----------------------------------------------------------------------------

    def _line_across(self, call: Call) -> None:
        flat = call.name == "axhline"
        at = float(call.args[0] if call.args else call.options.get("y" if flat else "x", 0.0))
        colour = _colour(self._ink({"color": "0.4", **call.options}), self.theme, call.options.get("alpha"))
        dash = DASHES.get(str(call.options.get("ls", call.options.get("linestyle", "-"))), "solid")
        width = float(call.options.get("lw", call.options.get("linewidth", 1.2)))
        ends = {"y0": at, "y1": at, "x0": 0, "x1": 1} if flat else {"x0": at, "x1": at, "y0": 0, "y1": 1}
        refs = {"xref": f"{self.x} domain", "yref": self.y} if flat else {"xref": self.x, "yref": f"{self.y} domain"}
        line = {"color": colour, "width": width, "dash": dash}
        self.layout["shapes"].append({"type": "line", **ends, **refs, "line": line, "layer": "below"})
        label = call.options.get("label")
        if label and not str(label).startswith("_"):
            style = next(sign for sign, word in DASHES.items() if word == dash)
            self.data.append(
                _key(Key(str(label), self._ink(call.options), style, width=width), self.legend, self.number, self.theme)
            )

    def _span(self, call: Call) -> None:
        flat = call.name == "axhspan"
        one, two = float(call.args[0]), float(call.args[1])
        ends = {"y0": one, "y1": two, "x0": 0, "x1": 1} if flat else {"x0": one, "x1": two, "y0": 0, "y1": 1}
        refs = {"xref": f"{self.x} domain", "yref": self.y} if flat else {"xref": self.x, "yref": f"{self.y} domain"}
        colour = _colour(self._ink(call.options), self.theme, call.options.get("alpha"))
        box = {"type": "rect", **ends, **refs, "fillcolor": colour, "line": {"width": 0}, "layer": "below"}
        self.layout["shapes"].append(box)
        label = call.options.get("label")
        if label:
            key = Key(str(label), self._ink(call.options), "", "s")
            self.data.append(
                {**_key(key, self.legend, self.number, self.theme), "opacity": call.options.get("alpha", 1.0)}
            )

    def _text(self, call: Call) -> None:
        x, y, words = call.args[:3]
        self._note(words, x, y, call.options)

    def _annotate(self, call: Call) -> None:
        words, (x, y) = call.args[0], call.args[1]
        start = call.options.get("xytext", call.args[2] if len(call.args) > 2 else None)
        if start is not None and "arrowprops" in call.options and not call.options.get("textcoords"):
            arrow = call.options["arrowprops"]
            note = {
                "x": self._place("x", x),
                "y": self._place("y", y),
                "ax": start[0],
                "ay": start[1],
                "showarrow": True,
            }
            note |= {"xref": self.x, "yref": self.y, "axref": self.x, "ayref": self.y, "text": marked_up(words)}
            note |= {"ax": self._place("x", start[0]), "ay": self._place("y", start[1]), "arrowwidth": 1.5}
            note["arrowcolor"] = _colour(arrow.get("color", "0.3"), self.theme)
            self.layout["annotations"].append(note)
            return
        coords = call.options.get("xycoords", "data")
        inside = coords[1] == "axes fraction" if isinstance(coords, tuple) else False
        shift = start if call.options.get("textcoords") == "offset points" and start is not None else (0, 0)
        self._note(words, x, y, call.options, inside, shift)

    def _note(self, words: Any, x: Any, y: Any, options: dict, inside: bool = False, shift: tuple = (0, 0)) -> None:
        if not str(words).strip():
            return
        across = {"left": "left", "right": "right", "center": "center"}[options.get("ha", "left")]
        up = {"top": "top", "bottom": "bottom", "baseline": "bottom"}.get(options.get("va", "baseline"), "middle")
        note = {"text": marked_up(words), "showarrow": False, "xref": self.x, "xanchor": across, "yanchor": up}
        note |= {"yref": f"{self.y} domain" if inside else self.y, "x": self._place("x", float(x))}
        note |= {"y": float(y) if inside else self._place("y", float(y)), "xshift": shift[0], "yshift": shift[1]}
        note["font"] = {"size": 12, "color": _colour(options.get("color", self.theme.ink), self.theme)}
        self.layout["annotations"].append(note)

    def _legend(self, call: Call) -> None:
        keys = call.options.get("handles")
        if keys is not None:
            for trace in self.data:
                if trace.get("legend") == self.legend:
                    trace["showlegend"] = False
            self.data += [_key(key, self.legend, self.number, self.theme) for key in keys]
        where = str(call.options.get("loc", "upper right"))
        below = "bbox_to_anchor" in call.options and call.options["bbox_to_anchor"][1] < 0
        made: dict[str, Any] = _legend(self.theme)
        if below:
            made |= {"orientation": "h", "x": self.left, "xanchor": "left", "y": self.low - 0.16, "yanchor": "top"}
        else:
            low, left = "lower" in where, "left" in where
            made |= {"x": self.left + 0.01 if left else self.right - 0.01, "xanchor": "left" if left else "right"}
            made |= {"y": self.low + 0.02 if low else self.high - 0.02, "yanchor": "bottom" if low else "top"}
        if call.options.get("title"):
            made["title"] = {"text": marked_up(call.options["title"])}
        self.layout[self.legend] = made


def _parsed(shape: str) -> tuple[str, str, str]:
    """Line, marker and colour in a text such as "o--" or "k:"."""
    line = next((sign for sign in ("--", "-.", "-", ":") if sign in shape), "")
    rest = shape.replace(line, "", 1) if line else shape
    marker = next((sign for sign in rest if sign in SYMBOLS), "")
    ink = next((sign for sign in rest if sign in NAMES), "")
    return line, marker, ink
