"""What a user sees: messages and progress on stderr, tables on stdout."""

import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import xarray as xr
    from rich.console import Console

__all__ = ["Bar", "complain", "duration", "memory", "say", "show", "show_table", "summary", "table"]

PATIENCE = 2.0  # seconds before a bar appears, and between two lines where there is no terminal
SHOWN_TIMES = 6

_live: list["Console"] = []  # of a bar that is on the screen now: messages go above it


def say(text: str) -> None:
    """A line on stdout, never wrapped or marked up."""
    from rich.console import Console

    Console(highlight=False, soft_wrap=True).print(text, markup=False)


def show(thing: Any) -> None:
    """A table or another thing that knows how it looks, on stdout."""
    from rich.console import Console

    Console(highlight=False).print(thing)


def complain(text: str) -> None:
    """A message on stderr, red if that is a terminal."""
    from rich.console import Console

    console = _live[-1] if _live else Console(stderr=True)
    console.print(text, markup=False, highlight=False, soft_wrap=True, style="bold red")


def duration(seconds: float) -> str:
    """Seconds as 0:00:07; a dash if it is not known."""
    if not np.isfinite(seconds):
        return "-"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days = f"{hours // 24} d " if hours >= 24 else ""
    return f"{days}{hours % 24}:{minutes:02d}:{rest:02d}"


def memory(size: float) -> str:
    """Bytes as 1.2 MB."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"


def show_table(title: str, heads: list[str], rows: list[list[str]]) -> None:
    """A plain table under its title (a line of its own: a narrow table would break it)."""
    say(title)
    show(table(heads, rows))


def table(heads: list[str], rows: list[list[str]], narrow: bool = False) -> Any:
    """A plain table; a narrow one has less space between its columns."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    out = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=not narrow, padding=(0, 0, 0, 1) if narrow else (0, 1))
    for head in heads:
        out.add_column(head)
    for row in rows:
        out.add_row(*map(Text, row))
    return out


def _mean(values: "xr.DataArray") -> list[str]:
    """The mean over the replicas still finite and its standard error, as texts; one value is said as it is."""
    from limitlab.figures import average

    runs = np.atleast_1d(values.values)[:, None]
    if len(runs) == 1:  # maybe infinite, which is an answer
        return [f"{runs.item():.6g}", "-"]
    mean, error = average(runs)
    scatter = "-" if error is None or not np.isfinite(error[0]) else f"{error[0]:.2g}"
    return [f"{mean[0]:.6g}", scatter]


def summary(ds: "xr.Dataset") -> None:
    """A result in a few lines: its risk or errors at a few times with standard errors, and how it ended."""
    from limitlab.figures import describe, title

    axis = next((dim for dim in ("time", "iteration") if dim in ds.dims), "")
    if axis:
        name = next((n for n in ("risk", "mse") if n in ds and axis in ds[n].dims), None)
        heads, rows = [axis, name or "", "standard error"], []
        points = ds[axis].values if name else np.array([])
        for i in np.unique(np.linspace(0, len(points) - 1, min(SHOWN_TIMES, len(points))).round().astype(int)):
            rows.append([f"{points[i]:.4g}", *_mean(ds[name].isel({axis: i}))])
    else:
        heads, rows = ["variable", "value", "standard error"], []
    for other in (
        "m",
        "mse",
        "generalisation_error",
        "label_mse",
        "train_loss",
        "risk",
        "free_entropy",
        "m_fixed",
        "mse_fixed",
    ):
        if other in ds and set(ds[other].dims) <= {"replica"}:
            rows.append([other, *_mean(ds[other])])
    show_table(f"{title([ds])}\n{describe(ds)}", heads, rows)
    status = np.atleast_1d(ds["status"].values) if "status" in ds else np.array(["ok"])
    bad = [f"{np.sum(status == word)} of {status.size} {word}" for word in np.unique(status[status != "ok"])]
    if bad:
        when = np.min(np.atleast_1d(ds["end_time"].values)[status != "ok"]) if "end_time" in ds else np.nan
        complain(f"WARNING: {', '.join(bad)}, the first at time {when:.4g}; numbers after that are NaN")
    else:
        say("status: ok")


class Bar:
    """Progress of one computation, called as ``bar(done, total, label)``.

    On a terminal a bar with the time left appears after two seconds; elsewhere nothing is said, unless
    ``wanted`` is True: then a line every two seconds. ``wanted=False`` is silence everywhere. ``counted`` shows
    how many are done rather than a percentage.
    """

    def __init__(self, label: str, wanted: bool | None = None, counted: bool = False):
        terminal = sys.stderr.isatty()
        self._mode = "none" if wanted is False else "bar" if terminal else "lines" if wanted else "none"
        self._label, self._done, self._total, self._counted = label, 0, 0, counted
        self._began = self._spoke = self._since = time.monotonic()
        self._skipped = 0
        self._lock, self._open, self._bar = threading.RLock(), True, None
        self._timer = threading.Timer(PATIENCE, self._appear)
        self._timer.daemon = True

    def __enter__(self) -> "Bar":
        if self._mode != "none":
            self._timer.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._timer.cancel()
        with self._lock:
            self._open = False
            if self._bar is not None:
                _live.remove(self._bar.console)
                self._bar.stop()

    def __call__(self, done: int, total: int, label: str) -> None:
        with self._lock:
            self._done, self._total, self._label = done, total, label
            if self._bar is not None:
                self._bar.update(self._bar.task_ids[0], completed=done, total=total, description=label)
            elif self._mode == "lines" and time.monotonic() - self._spoke >= PATIENCE:
                self._line()

    def skip(self, done: int) -> None:
        """So many needed no work: the time left is estimated from those that come after them."""
        with self._lock:
            if done != self._skipped:
                self._skipped, self._since = done, time.monotonic()

    def left(self) -> float:
        """Seconds left, if all goes on as it went; infinite if that is not known."""
        made = self._done - self._skipped
        if made <= 0 or self._total <= 0:
            return np.inf
        return (time.monotonic() - self._since) * (self._total - self._done) / made

    def _appear(self) -> None:
        """Runs in the timer's thread: a long compilation, which reports nothing, is seen as well."""
        with self._lock:
            if not self._open:
                return
            if self._mode == "lines":
                self._line()
                return
            from rich import progress
            from rich.console import Console
            from rich.table import Column
            from rich.text import Text

            left = self.left

            class Left(progress.ProgressColumn):
                def render(self, task: Any) -> Text:
                    return Text(f"left {duration(left())}")

            console, whole = Console(stderr=True), Column(no_wrap=True)
            wide = console.width >= 100
            text = Column(
                no_wrap=True, max_width=max(20, console.width - (48 if wide else 28)) if self._counted else None
            )
            columns = [
                progress.TextColumn("{task.description}", markup=False, table_column=text),
                *([progress.BarColumn(10 if self._counted else 40)] if wide or not self._counted else []),
                progress.MofNCompleteColumn(table_column=whole) if self._counted else progress.TaskProgressColumn(),
                *([progress.TimeElapsedColumn(table_column=whole)] if wide or not self._counted else []),
                Left(table_column=Column(no_wrap=True, min_width=len("left 0:00:00"))),
            ]
            self._bar = progress.Progress(*columns, console=console, transient=True)
            self._bar.start()
            self._bar.add_task(self._label, total=self._total or None, completed=self._done)
            _live.append(self._bar.console)

    def _line(self) -> None:
        self._spoke = time.monotonic()
        took, share = self._spoke - self._began, self._done / self._total if self._total else 0.0
        far = f"{self._done} of {self._total}" if self._counted else f"{100 * share:.0f} %"
        left = self.left()
        told = f"{far}, {left:.0f} s left" if left < np.inf else f"{took:.0f} s"
        print(f"{self._label}: {told}", file=sys.stderr, flush=True)
