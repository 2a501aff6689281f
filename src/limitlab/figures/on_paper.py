"""Drawings on paper: by matplotlib, in the house style, written whole."""

import io
import os
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from limitlab.errors import InputError
from limitlab.figures.drawing import Drawing, Key, Panel
from limitlab.files import whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["close_figure", "draw_on", "drawn", "house_style", "paper", "png", "save_figure"]


def paper(
    panels: int = 1, *, width: float = 4.4, height: float = 3.6, known: bool = False
) -> "tuple[Figure, list[Axes]]":
    """A figure of matplotlib with so many axes, for what a `Drawing` cannot say: maps, films.

    pyplot knows and shows it only if ``known``.
    """
    columns = panels if panels <= 3 else 2 if panels == 4 else 3
    rows = -(-panels // columns)
    figure = _make(known, figsize=(width * columns, height * rows), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False).ravel()
    for spare in grid[panels:]:
        spare.remove()
    for axes in grid[:panels]:
        house_style(axes)
    return figure, list(grid[:panels])


def drawn(figure: "Drawing | Figure", *, known: bool = False) -> "Figure":
    """The drawing as a figure of matplotlib; one of these stays as it is."""
    if not isinstance(figure, Drawing):
        return figure
    made, axes = paper(len(figure.panels), width=figure.width, height=figure.height, known=known)
    draw_on(axes, figure.panels)
    if figure.keys:
        options: dict[str, Any] = {"loc": figure.place, "ncol": figure.in_a_row, "fontsize": "small", "frameon": False}
        made.legend(handles=_handles(figure.keys), **options)
    if figure.words:
        made.suptitle(_in_lines(figure.words, made.get_figwidth(), figure.size), fontsize=figure.size)
    return made


def _in_lines(words: str, inches: float, size: str) -> str:
    """A title in lines that fit above a figure of this width, which would cut it at both ends."""
    letters = int(inches * (13 if size == "medium" else 11))
    return "\n".join(part for line in words.splitlines() for part in textwrap.wrap(line, letters) or [""])


def draw_on(axes: "Sequence[Axes]", panels: Sequence[Panel]) -> None:
    """Say to axes what was said to panels."""
    for one, panel in zip(axes, panels, strict=True):
        house_style(one)
        for name, args, options in panel.calls:
            if name == "legend" and "handles" in options:
                options = {**options, "handles": _handles(options["handles"])}
            getattr(one, name)(*args, **options)


def house_style(axes: "Axes") -> None:
    """A quiet grid, no frame above and to the right."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25, linewidth=0.6)
    axes.set_axisbelow(True)


def _handles(keys: Sequence[Key]) -> list[Any]:
    from matplotlib.lines import Line2D

    made = []
    for key in keys:
        style: dict[str, Any] = {"linestyle": key.line or "none", "marker": key.marker, "linewidth": key.width}
        made.append(Line2D([], [], color=key.color, label=key.label, **style))
    return made


def save_figure(figure: "Drawing | Figure", path: str | os.PathLike) -> Path:
    """Write a figure, whole or not at all: PNG at 150 dots per inch, or what the name's ending says."""
    path, figure = Path(path), drawn(figure)
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


def png(figure: "Figure") -> bytes:
    """The figure as a notebook shows it."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=100)
    return buffer.getvalue()


def close_figure(figure: Any) -> None:
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

            display(Image(png(self)))
            if _shown_by_pyplot(self):
                close_figure(self)  # it would show the figure again, by this very method, at the end of the cell

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
