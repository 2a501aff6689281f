"""What a gallery entry is: a computation, a claim about it, the check of that claim, and a figure."""

import base64
import contextlib
import datetime
import platform
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

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

__all__ = ["Check", "Entry", "Progress", "Quick", "Verdict", "run", "sizes_of", "write"]

FIGURE, ANIMATION, VERDICT = "figure.png", "animation.gif", "verdict.txt"
FRAMES_PER_SECOND = 8
AT_FULL_SIZE = "not run at quick size"
_sizing = threading.Lock()  # sizes are constants of a module: one entry at a time has others


class Check(NamedTuple):
    """A statement that follows from the claim, whether it holds in the data, and the numbers that say so."""

    statement: str
    ok: bool
    detail: str


@dataclass(frozen=True)
class Quick:
    """An entry in a fraction of its time: smaller sizes, and what they cannot show.

    Parameters
    ----------
    sizes
        Constants of the entry's module and the values that they have in a quick run.
    seconds
        About how long that takes on two cores.
    full
        Words of the statements whose checks need the full size: a quick run leaves them out, and says so.
    told
        What is smaller, in words; None names every constant with both values.
    """

    sizes: Mapping[str, Any]
    seconds: float
    full: tuple[str, ...] = ()
    told: str | None = None


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
    quick
        What a quick run does with it; None: the same as a full one.
    """

    name: str
    title: str
    claim: str
    compute: "Callable[[Progress | None], dict[str, xr.Dataset]]"
    check: "Callable[[dict[str, xr.Dataset]], list[Check]]"
    figure: "Callable[[dict[str, xr.Dataset]], Drawing | Figure]"
    seconds: float
    animation: "Callable[[dict[str, xr.Dataset]], Animation] | None" = None
    quick: Quick | None = None


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
    left_out
        Statements that need the full size, where a quick run was asked for.
    sizes
        What a quick run had smaller, in words; nothing of a full one.
    """

    ok: bool
    text: str
    folder: Path | None
    claim: str = field(default="", compare=False)
    checks: tuple[Check, ...] = field(default=(), compare=False)
    data: "dict[str, xr.Dataset]" = field(default_factory=dict, compare=False)
    figure: "Figure | None" = field(default=None, compare=False)
    drawing: Drawing | None = field(default=None, compare=False)
    left_out: tuple[str, ...] = field(default=(), compare=False)
    sizes: str = field(default="", compare=False)

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


def run(
    entry: Entry, folder: "str | Path | None" = None, progress: Progress | None = None, quick: bool = False
) -> Verdict:
    """Compute an entry, check its claim, fill a folder: figure.png, a netCDF file per result, verdict.txt.

    An entry with an animation leaves animation.gif too. Nothing is written before everything is computed. Each file
    appears whole or not at all, the verdict last. Without a folder nothing is written. A quick run has the entry's
    quick sizes, and leaves out the checks that need the full ones.
    """
    folder = None if folder is None else Path(folder)
    if folder is not None:
        _check_folder(folder)
    sizes = sizes_of(entry) if quick else ""
    with quick_sizes(entry) if quick else contextlib.nullcontext():
        verdict, film = _made(entry, folder, progress, entry.quick.full if quick and entry.quick else (), sizes)
    if folder is not None:
        write(verdict, folder, film)
    return verdict


def _made(
    entry: Entry, folder: Path | None, progress: Progress | None, full: tuple[str, ...], sizes: str
) -> tuple[Verdict, bytes | None]:
    began = time.perf_counter()
    data = entry.compute(progress)
    for name in data:
        if not name.replace("_", "").replace("-", "").isalnum():
            raise InputError(f"{entry.name}: a result's name must be letters, digits, - and _; got {name!r}.")
    all_checks = entry.check(data)
    checks = [check for check in all_checks if not any(words in check.statement for words in full)]
    left_out = tuple(check.statement for check in all_checks if check not in checks)
    if not checks:
        raise InputError(f"{entry.name} checked nothing. Entry.check must return at least one Check.")
    drawing = entry.figure(data)
    figure = drawn(drawing)
    close_figure(figure)  # of one that was made by `plot`
    film = None if entry.animation is None or folder is None else _gif(entry.animation(data))
    text = _text(entry, checks, left_out, sizes, time.perf_counter() - began)
    verdict = Verdict(
        all(check.ok for check in checks),
        text,
        folder,
        entry.claim,
        tuple(checks),
        data,
        figure,
        drawing if isinstance(drawing, Drawing) else None,
        left_out,
        sizes,
    )
    return verdict, film


@contextlib.contextmanager
def quick_sizes(entry: Entry) -> Iterator[None]:
    """The constants of the entry's module have their quick values inside."""
    module, sizes = vars(sys.modules[entry.compute.__module__]), {} if entry.quick is None else dict(entry.quick.sizes)
    with _sizing:
        before = {name: module[name] for name in sizes}
        module.update(sizes)
        try:
            yield
        finally:
            module.update(before)


def sizes_of(entry: Entry) -> str:
    """What a quick run has smaller: each constant with its quick and its full value."""
    if entry.quick is None:
        return "the same as in a full run"
    if entry.quick.told is not None:
        return entry.quick.told
    module = vars(sys.modules[entry.compute.__module__])
    return "; ".join(f"{name} = {_short(new)}, full {_short(module[name])}" for name, new in entry.quick.sizes.items())


def _short(value: Any) -> str:
    """A size in a few words: an array by its length and ends."""
    if isinstance(value, np.ndarray):
        return f"{value.size} values from {value.min():g} to {value.max():g}"
    if isinstance(value, Mapping) and any(isinstance(one, np.ndarray) for one in value.values()):
        return ", ".join(f"{key}: {_short(one)}" for key, one in value.items())
    return str(value)


def write(verdict: Verdict, folder: Path, film: bytes | None = None) -> None:
    """Fill a folder with what an entry made, the verdict last."""
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


def _text(entry: Entry, checks: list[Check], left_out: tuple[str, ...], sizes: str, seconds: float) -> str:
    good, now = sum(check.ok for check in checks), datetime.datetime.now(datetime.UTC)
    lines = [entry.title, "", f"Claim: {entry.claim}", ""]
    for check in checks:
        lines += [f"[{'ok' if check.ok else 'FAILED'}] {check.statement}", f"    {check.detail}"]
    lines += [f"[{AT_FULL_SIZE}] {statement}" for statement in left_out]
    lines += [
        "",
        f"{'The claim holds' if good == len(checks) else 'THE CLAIM FAILS'}: {good} of {len(checks)} checks.",
        *([f"A quick run: {sizes}."] if sizes else []),
        f"{entry.name}, {seconds:.1f} s, limitlab {__version__}, jax {jax.__version__}, "
        f"Python {platform.python_version()}, {now.isoformat(timespec='seconds')}",
    ]
    return "\n".join(lines) + "\n"
