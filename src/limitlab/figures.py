"""Figures in the house style, written whole; and words for their labels."""

import io
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from limitlab.errors import InputError
from limitlab.files import whole

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "average",
    "close_figure",
    "describe",
    "new_figure",
    "palette",
    "png",
    "save_figure",
    "short",
    "style_axes",
    "time_label",
    "title",
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


def new_figure(
    panels: int = 1, *, width: float = 4.4, height: float = 3.6, known: bool = False
) -> "tuple[Figure, list[Axes]]":
    """A figure of so many panels (three to a row, four as a square); pyplot knows and shows it only if ``known``."""
    columns = panels if panels <= 3 else 2 if panels == 4 else 3
    rows = -(-panels // columns)
    figure = _make(known, figsize=(width * columns, height * rows), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False).ravel()
    for spare in grid[panels:]:
        spare.remove()
    return figure, list(grid[:panels])


def style_axes(axes: "Axes", *, x: str = "", y: str = "", title: str = "") -> "Axes":
    """The house style: named axes, a quiet grid, no frame above and to the right."""
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.set_title(title, fontsize="small", loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25, linewidth=0.6)
    axes.set_axisbelow(True)
    return axes


def save_figure(figure: "Figure", path: str | os.PathLike) -> Path:
    """Write a figure, whole or not at all: PNG at 150 dots per inch, or what the name's ending says."""
    path = Path(path)
    kind = path.suffix.lstrip(".").lower() or "png"
    known = sorted(figure.canvas.get_supported_filetypes())
    if kind not in known:
        raise InputError(
            f"The figure's name must end in one of {', '.join('.' + k for k in known)}; got {path.name!r}. "
            "Use .png if in doubt."
        )
    buffer = io.BytesIO()
    figure.savefig(buffer, format=kind, dpi=150)
    with whole(path) as part:
        part.write_bytes(buffer.getvalue())
    return path


def average(runs: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    """Mean over the runs still finite and its standard error (NaN of one survivor, None of one run)."""
    finite = np.isfinite(runs)
    count = finite.sum(axis=0)
    mean = np.where(count > 0, np.where(finite, runs, 0.0).sum(axis=0) / np.maximum(count, 1), np.nan)
    if len(runs) == 1:
        return mean, None
    variance = np.where(finite, (runs - mean) ** 2, 0.0).sum(axis=0) / np.maximum(count - 1, 1)
    return mean, np.where(count > 1, np.sqrt(variance / np.maximum(count, 1)), np.nan)


def short(value: Any) -> str:
    """A number with four digits; anything else as it is."""
    return f"{value:.4g}" if isinstance(value, (float, np.floating)) else str(value)


def describe(ds: "xr.Dataset", where: str = "") -> str:
    """A result in a few words for a legend: method, dimension, runs, where in a sweep, and how it ended."""
    words = [str(ds.attrs.get("method", "result"))]
    if "d" in ds.attrs:
        words.append(f"d = {ds.attrs['d']:g}")
    if "replica" in ds.dims:
        words.append(f"{ds.sizes['replica']} runs" if ds.sizes["replica"] > 1 else "1 run")
    if where:
        words.append(where)
    return ", ".join(words) + _ending(ds)


def title(datasets: "list[xr.Dataset]") -> str:
    """The problem in a line; nothing if the results are of several problems."""
    if len({ds.attrs.get("spec_hash") for ds in datasets}) > 1:
        return ""
    problem, words = _problem(datasets[0]), []
    for part, size in (("student", "p"), ("teacher", "k")):
        network = problem.get(part, {})
        if "width" in network:
            activation = network.get("activation", "")
            name = activation if isinstance(activation, str) else "custom"
            words.append(f"{name} {part}, {size} = {network['width']}")
    rule, noise = problem.get("algorithm", {}), problem.get("channel", {}).get("variance")
    if isinstance(rate := rule.get("learning_rate"), (int, float)):
        words.append(f"γ = {rate:.4g}" + (" on the sphere" if rule.get("spherical") else ""))
    if isinstance(noise, (int, float)) and noise:
        words.append(f"noise variance {noise:.4g}")
    return "; ".join(words)


def time_label(datasets: "list[xr.Dataset]", axis: str = "time") -> str:
    """The name of the time axis with its clock, if the results share one (those of old versions do not say it)."""
    clocks = {words if isinstance(words := ds.attrs.get("clock"), str) else None for ds in datasets}
    if axis != "time" or len(clocks) > 1 or None in clocks:
        return {"time": "time t"}.get(axis, axis)
    return f"time {clocks.pop()}"


def _ending(ds: "xr.Dataset") -> str:
    """How the runs ended, if not well: a mean over the survivors must not look like a mean over all."""
    status = np.atleast_1d(ds["status"].values) if "status" in ds else np.array(["ok"])
    bad = status != "ok"
    if not np.any(bad):
        return ""
    first = f" from t = {np.min(np.atleast_1d(ds['end_time'].values)[bad]):.3g}" if "end_time" in ds else ""
    count = f"{np.sum(bad)} of {status.size} " if status.size > 1 else ""
    return f" ({count}{'/'.join(sorted(set(status[bad].tolist())))}{first})"


def _problem(ds: "xr.Dataset") -> dict:
    return json.loads(ds.attrs.get("problem", "{}"))


def png(figure: "Figure") -> bytes:
    """The figure as a notebook shows it."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=100)
    return buffer.getvalue()


def close_figure(figure: "Figure") -> None:
    """Make pyplot forget the figure, if it knows it; it can still be written."""
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close(figure)


def _make(known: bool, **settings: Any) -> "Figure":
    """A Figure that a notebook shows once, whether pyplot knows it or not."""
    from matplotlib.figure import Figure

    class NotebookFigure(Figure):
        def _repr_png_(self) -> bytes:
            return png(self)

        def _ipython_display_(self) -> None:
            from IPython.display import Image, display  # pyright: ignore[reportMissingImports]

            if not _shown_by_pyplot(self):
                display(Image(png(self)))

    if not known:
        return NotebookFigure(**settings)
    import matplotlib.pyplot as plt

    try:
        return plt.figure(FigureClass=NotebookFigure, **settings)
    except ImportError:  # a backend was chosen that cannot run here, such as one without a screen
        return NotebookFigure(**settings)


def _shown_by_pyplot(figure: "Figure") -> bool:
    """Whether the notebook's backend shows the figure at the end of the cell by itself."""
    from matplotlib import get_backend
    from matplotlib._pylab_helpers import Gcf

    known = any(manager.canvas.figure is figure for manager in Gcf.get_all_fig_managers())
    return known and "inline" in get_backend().lower()
