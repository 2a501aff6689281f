"""A figure before it is drawn: panels and what is in them. `on_paper` draws by matplotlib, `on_screen` by Plotly."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

__all__ = [
    "SPOKEN",
    "Call",
    "Drawing",
    "Key",
    "Panel",
    "early_end",
    "legend_below",
    "mark_end",
    "new_figure",
    "palette",
    "style_axes",
]

# Okabe and Ito's colours, told apart with every kind of colour vision; those faint on white come last.
palette: tuple[str, ...] = (
    "#0072B2",  # blue
    "#D55E00",  # vermilion
    "#009E73",  # green
    "#CC79A7",  # purple
    "#E69F00",  # orange
    "#56B4E9",  # sky
    "#000000",  # black
    "#F0E442",  # yellow
)
SPOKEN = frozenset(
    "plot errorbar step bar barh fill_between axhline axvline axhspan axvspan text annotate legend set set_title "
    "set_xlabel set_ylabel set_xscale set_yscale set_xlim set_ylim set_xticks set_yticks minorticks_off tick_params "
    "grid invert_yaxis".split()
)


class Call(NamedTuple):
    """Something that was said of a panel: the word, and what came with it."""

    name: str
    args: tuple[Any, ...]
    options: dict[str, Any]


class Key(NamedTuple):
    """A line of a legend that stands for no curve in particular."""

    label: str
    color: str
    line: str = "-"
    marker: str = ""
    width: float = 1.5


class Panel:
    """One pair of axes. It speaks the part of matplotlib's language that both drawers know: what is said is kept."""

    def __init__(self) -> None:
        self.calls: list[Call] = []

    def __getattr__(self, name: str) -> Callable[..., None]:
        if name not in SPOKEN:
            raise AttributeError(
                f"A panel has no {name!r}; it knows {', '.join(sorted(SPOKEN))}. For more draw on `on_paper.paper`."
            )

        def said(*args: Any, **options: Any) -> None:
            kept = {key: _plain(value) for key, value in options.items()}
            self.calls.append(Call(name, tuple(map(_plain, args)), kept))

        return said

    def reach(self, axis: int) -> tuple[float, float]:
        """The least and the largest finite x (0) or y (1) of its curves."""
        curves = [np.ravel(c.args[axis]) for c in self.calls if c.name in ("plot", "errorbar") and len(c.args) > 1]
        values = np.concatenate([np.asarray(x, float) for x in curves])
        values = values[np.isfinite(values)]
        return float(values.min()), float(values.max())

    @property
    def named(self) -> bool:
        """Whether it has a legend."""
        return any(call.name == "legend" for call in self.calls)


class Drawing:
    """Panels in rows, a title above, and a legend for all of them."""

    def __init__(self, panels: int, width: float, height: float):
        self.columns = panels if panels <= 3 else 2 if panels == 4 else 3
        self.rows = -(-panels // self.columns)
        self.width, self.height = width, height
        self.panels = [Panel() for _ in range(panels)]
        self.words, self.size = "", "large"
        self.keys: list[Key] = []
        self.place, self.in_a_row = "outside upper left", 1

    def suptitle(self, words: str, fontsize: str = "large") -> None:
        """The sentence above all panels."""
        self.words, self.size = words, fontsize

    def legend(self, keys: list[Key], place: str = "outside upper left", columns: int = 1) -> None:
        """A legend for all panels."""
        self.keys, self.place, self.in_a_row = list(keys), place, columns


def new_figure(panels: int = 1, *, width: float = 4.4, height: float = 3.6) -> tuple[Drawing, list[Panel]]:
    """A figure of so many panels (three to a row, four as a square), each of that many inches."""
    made = Drawing(panels, width, height)
    return made, made.panels


def style_axes(axes: Any, *, x: str = "", y: str = "", title: str = "") -> Any:
    """Names of the axes and of the panel (or of axes of matplotlib)."""
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.set_title(title, fontsize="small", loc="left")
    return axes


def legend_below(panel: Any, columns: int = 1) -> None:
    """The legend under the panel, in so many columns."""
    panel.legend(fontsize="small", frameon=False, ncol=columns, loc="upper center", bbox_to_anchor=(0.5, -0.16))


def early_end(ds: Any) -> tuple[float, str] | None:
    """When the first run of a result ended before its time, and how in words; None if none did."""
    if ds is None or "status" not in ds or "end_time" not in ds:
        return None
    status = np.atleast_1d(ds["status"].values)
    bad = status != "ok"
    if not bad.any():
        return None
    first = float(np.min(np.atleast_1d(ds["end_time"].values)[bad]))
    return first, f"{' / '.join(sorted(set(status[bad].tolist())))} from t = {first:.3g}"


def mark_end(panel: Any, ds: Any) -> None:
    """A line where a result ended before its time, with the word for it; nothing if it did not."""
    if (end := early_end(ds)) is not None:
        panel.axvline(end[0], color="0.3", lw=1.2, ls=":", label=end[1])


def _plain(value: Any) -> Any:
    """Arrays without their labels, so that nothing changes them afterwards."""
    if hasattr(value, "dims") and hasattr(value, "values"):
        return np.array(value.values)
    return np.array(value) if isinstance(value, np.ndarray) or hasattr(value, "__jax_array__") else value
