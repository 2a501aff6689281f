"""report: the whole gallery and all formulas through the sweep engine, and the page of what came out."""

import datetime
import os
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from limitlab import library
from limitlab.errors import ResultFileError
from limitlab.files import whole
from limitlab.gallery import ENTRIES
from limitlab.gallery.entry import VERDICT
from limitlab.report.browser import print_pdf
from limitlab.report.claims import Seed, read_claims
from limitlab.report.formulas import FORMULAS
from limitlab.report.judge import FAILS, Row, judged
from limitlab.report.page import PAGE, Made, html_report
from limitlab.report.points import Outcome, measured, named, outcome_of
from limitlab.sweep import sweep
from limitlab.verbs import Watch, main_verb, told

__all__ = ["Report", "report"]

FLAGS = "XLA_FLAGS"
FAST = "--xla_backend_optimization_level=1 --xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
POINTS, ENTRY_FILES, PDF = "points", "entries", "report.pdf"


@dataclass(frozen=True)
class Report:
    """Every claim with its verdict, what was run for it, and where the page is.

    Attributes
    ----------
    ok
        Whether no check failed, of a claim or of an entry, and nothing broke.
    page, pdf
        The HTML file, and the PDF if a browser was there to print it.
    rows, outcomes
        The claims as judged, and the entries and formulas by name.
    """

    ok: bool
    page: Path
    pdf: Path | None
    rows: tuple[Row, ...]
    outcomes: dict[str, Outcome]

    def __str__(self) -> str:
        counts = Counter(row.state for row in self.rows)
        told = ", ".join(f"{number} {state}" for state, number in counts.items())
        return f"{len(self.rows)} claims: {told}"


@main_verb
def report(
    folder: str | Path,
    quick: bool = False,
    names: Sequence[str] | None = None,
    workers: int | None = None,
    progress: Watch = None,
) -> Report:
    """Run the gallery and the checks of formulas, and write ``report.html`` (and ``report.pdf``) into a folder.

    Every entry and formula is a point of a sweep, kept in ``points`` in the folder as soon as it is done: a report that
    was killed goes on where it was. A point is computed again when any code of limitlab has changed, or when it
    failed. ``entries/NAME`` receives figure, data and verdict of every entry, as ``limitlab run NAME`` does.

    Parameters
    ----------
    folder
        Receives the page, the store of points, and the files of entries.
    quick
        Entries at their quick sizes, which the page states; checks that need the full ones are left out, and said
        to be.
    names
        Only these entries and formulas, and the claims that rest on nothing else; all if left out.
    workers
        Local processes; None computes in this one.
    progress
        True draws a bar; a function is called as progress(done, total, label); None is silent.
    """
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ResultFileError(f"{folder} could not be made: {error.strerror}. Choose another place.") from error
    seeds, claims = read_claims()
    if names is not None:
        claims = tuple(one for one in claims if one.checks and all(asked.name in names for asked in one.checks))
    chosen = list(names) if names is not None else [*FORMULAS, *ENTRIES]
    began = datetime.datetime.now(datetime.UTC)
    outcomes = _computed(chosen, folder / POINTS, quick, workers)
    rows = tuple(judged(claim, outcomes) for claim in claims)
    broken = any(one.reason or not all(check.ok for check in one.checks) for one in outcomes.values())
    ok = not broken and not any(row.state == FAILS for row in rows)
    for name, one in outcomes.items():
        _write_files(folder / ENTRY_FILES / name, one)
    page = _write(folder, seeds, rows, outcomes, Made(quick, began, ok, names is not None))
    return Report(ok, page, print_pdf(page, folder / PDF), rows, outcomes)


@contextmanager
def _compiled_fast() -> Iterator[None]:
    """Workers that start meanwhile compile fast rather than for speed: at quick sizes most programs run once."""
    before = os.environ.get(FLAGS)
    os.environ.setdefault(FLAGS, FAST)
    try:
        yield
    finally:
        if before is None:
            del os.environ[FLAGS]


def _computed(names: list[str], store: Path, quick: bool, workers: int | None) -> dict[str, Outcome]:
    """All points at once, and then each as the store has it: their checks are of different number and length."""
    points, problem = {name: named(name, quick) for name in names}, library.escaping_mediocrity()
    with _compiled_fast() if quick else nullcontext():
        sweep(
            measured,
            problem,
            {"point": list(points.values())},
            store=store,
            workers=workers,
            retry_failed=True,
            progress=told(),
        )
    with warnings.catch_warnings():  # a point that failed is told by the page, and was by the sweep
        warnings.simplefilter("ignore", UserWarning)
        return {
            name: outcome_of(name, sweep(measured, problem, {"point": [point]}, store=store))
            for name, point in points.items()
        }


def _write_files(folder: Path, one: Outcome) -> None:
    """Figure, data and verdict, the verdict last; of an entry that broke an old verdict goes."""
    if one.reason:
        (folder / VERDICT).unlink(missing_ok=True)
    for name, content in sorted(one.files.items(), key=lambda item: item[0] == VERDICT):
        folder.mkdir(parents=True, exist_ok=True)
        with whole(folder / name) as part:
            part.write_bytes(content)


def _write(
    folder: Path, seeds: tuple[Seed, ...], rows: tuple[Row, ...], outcomes: dict[str, Outcome], made: Made
) -> Path:
    path = folder / PAGE
    with whole(path) as part:
        part.write_text(html_report(seeds, rows, outcomes, made), encoding="utf-8", newline="\n")
    return path
