"""What a gallery entry is: a computation, a claim about it, the check of that claim, and a figure."""

import base64
import datetime
import platform
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import jax

from limitlab import __version__
from limitlab.errors import InputError, ResultFileError
from limitlab.figures import Drawing, close_figure, drawn, png, save_figure
from limitlab.files import whole
from limitlab.numerics.machine import Progress
from limitlab.results.files import save
from limitlab.text import html_table

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.animation import Animation
    from matplotlib.figure import Figure

__all__ = ["Check", "Entry", "Progress", "Verdict", "run"]

FIGURE, ANIMATION, VERDICT = "figure.png", "animation.gif", "verdict.txt"
FRAMES_PER_SECOND = 8


class Check(NamedTuple):
    """A statement that follows from the claim, whether it holds in the data, and the numbers that say so."""

    statement: str
    ok: bool
    detail: str


@dataclass(frozen=True)
class Entry:
    """One figure of the literature, made anew.

    Parameters
    ----------
    name, title
        The word on the command line, and a line that says what is seen.
    claim
        What the figure shows, in a sentence that could be false.
    compute
        ``compute(progress)`` gives named results; it alone takes time.
    check
        ``check(data)`` puts the claim to the test: a list of `Check`, at least one.
    figure
        ``figure(data)`` draws the results.
    seconds
        About how long it takes on two cores.
    animation
        ``animation(data)`` shows them in motion, if that helps.
    """

    name: str
    title: str
    claim: str
    compute: "Callable[[Progress | None], dict[str, xr.Dataset]]"
    check: "Callable[[dict[str, xr.Dataset]], list[Check]]"
    figure: "Callable[[dict[str, xr.Dataset]], Drawing | Figure]"
    seconds: float
    animation: "Callable[[dict[str, xr.Dataset]], Animation] | None" = None


@dataclass(frozen=True, repr=False)
class Verdict:
    """Whether the claim holds, and all that was made to say so.

    Attributes
    ----------
    ok
        Whether every check holds.
    text
        The text of verdict.txt; the verdict prints as it, and in a notebook with its figure.
    folder
        Where figure and data were written; None if nowhere.
    claim, checks
        What was claimed, and every `Check` of it.
    data
        The results by their names.
    figure
        The figure, not known to pyplot.
    drawing
        The same before it was drawn, None of maps.
    """

    ok: bool
    text: str
    folder: Path | None
    claim: str = field(default="", compare=False)
    checks: tuple[Check, ...] = field(default=(), compare=False)
    data: "dict[str, xr.Dataset]" = field(default_factory=dict, compare=False)
    figure: "Figure | None" = field(default=None, compare=False)
    drawing: Drawing | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return self.text.rstrip()

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        rows = [("ok" if check.ok else "FAILED", f"{check.statement}\n{check.detail}") for check in self.checks]
        page = html_table(f"{self.text.splitlines()[0]}\n{self.claim}", rows)
        if self.figure is None:
            return page
        return f'<img src="data:image/png;base64,{base64.b64encode(png(self.figure)).decode()}">{page}'


def run(entry: Entry, folder: "str | Path | None" = None, progress: Progress | None = None) -> Verdict:
    """Compute an entry, check its claim, fill a folder: figure.png, a netCDF file per result, verdict.txt.

    An entry with an animation leaves animation.gif too. Nothing is written before everything is computed. Each file
    appears whole or not at all, the verdict last. Without a folder nothing is written.
    """
    folder = None if folder is None else Path(folder)
    if folder is not None:
        _check_folder(folder)
    began = time.perf_counter()
    data = entry.compute(progress)
    for name in data:
        if not name.replace("_", "").replace("-", "").isalnum():
            raise InputError(f"{entry.name}: a result's name must be letters, digits, - and _; got {name!r}.")
    checks = entry.check(data)
    if not checks:
        raise InputError(f"{entry.name} checked nothing. Entry.check must return at least one Check.")
    drawing = entry.figure(data)
    figure = drawn(drawing)
    close_figure(figure)  # of one that was made by `plot`
    film = None if entry.animation is None or folder is None else _gif(entry.animation(data))
    ok, text = all(check.ok for check in checks), _text(entry, checks, time.perf_counter() - began)
    verdict = Verdict(
        ok, text, folder, entry.claim, tuple(checks), data, figure, drawing if isinstance(drawing, Drawing) else None
    )
    if folder is not None:
        _write(verdict, folder, film)
    return verdict


def _write(verdict: Verdict, folder: Path, film: bytes | None) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ResultFileError(f"{folder} could not be made: {error.strerror}. Choose another place.") from error
    for name, dataset in verdict.data.items():
        save(dataset, folder / f"{name}.nc")
    if verdict.figure is not None:
        save_figure(verdict.figure, folder / FIGURE)
    if film is not None:
        with whole(folder / ANIMATION) as part:
            part.write_bytes(film)
    with whole(folder / VERDICT) as part:
        part.write_text(verdict.text, encoding="utf-8", newline="\n")


def _check_folder(folder: Path) -> None:
    """Better before the computation than after it."""
    if folder.exists() and not folder.is_dir():
        raise ResultFileError(f"{folder} is a file; a folder was needed for figure and data. Choose another name.")


def _gif(animation: "Animation") -> bytes:
    from matplotlib.animation import PillowWriter

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / ANIMATION
        animation.save(path, writer=PillowWriter(fps=FRAMES_PER_SECOND), dpi=100)
        return path.read_bytes()


def _text(entry: Entry, checks: list[Check], seconds: float) -> str:
    good, now = sum(check.ok for check in checks), datetime.datetime.now(datetime.UTC)
    lines = [entry.title, "", f"Claim: {entry.claim}", ""]
    for check in checks:
        lines += [f"[{'ok' if check.ok else 'FAILED'}] {check.statement}", f"    {check.detail}"]
    lines += [
        "",
        f"{'The claim holds' if good == len(checks) else 'THE CLAIM FAILS'}: {good} of {len(checks)} checks.",
        f"{entry.name}, {seconds:.1f} s, limitlab {__version__}, jax {jax.__version__}, "
        f"Python {platform.python_version()}, {now.isoformat(timespec='seconds')}",
    ]
    return "\n".join(lines) + "\n"
