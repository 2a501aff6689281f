"""A bar that says how far a computation is: in a terminal, in a notebook, or in lines."""

import html
import math
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

from limitlab.aside import computing

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["Bar", "duration", "live"]

PATIENCE = 2.0  # seconds before a bar appears, and between two lines where there is no terminal
REDRAW = 0.25  # seconds between two drawings in a notebook
TICK = 0.02  # seconds: the shortest wait
LEAST = 0.1  # seconds of measured work before a time left is said
COMPILERS = ("jax/_src/compiler.py", "jax/_src/interpreters/partial_eval.py", "jax/_src/interpreters/mlir.py")

live: list["Console"] = []  # of a bar that is on the screen now: messages go above it


def duration(seconds: float) -> str:
    """Seconds as 0:00:07; a dash if it is not known."""
    if not math.isfinite(seconds):
        return "-"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days = f"{hours // 24} d " if hours >= 24 else ""
    return f"{days}{hours % 24}:{minutes:02d}:{rest:02d}"


class Bar:
    """Progress of one computation, called as ``bar(done, total, label)``.

    In a terminal or a notebook a bar with the time left appears after ``wait`` seconds; elsewhere nothing is said,
    unless ``wanted`` is True: then a line every two seconds, fewer as time goes by. ``wanted=False`` is silence
    everywhere. ``counted`` shows how many are done rather than a percentage; ``keep`` leaves the bar where it was.

    While JAX traces or compiles in the thread that opened it, or `aside`, the bar says so. The time left is that of the
    work done since the first call: it does not count compilation, and starts anew when another part of the work begins.
    """

    def __init__(
        self,
        label: str,
        wanted: bool | None = None,
        counted: bool = False,
        wait: float | None = None,
        keep: bool = False,
    ):
        place = "notebook" if _in_notebook() else "terminal" if sys.stderr.isatty() else "lines" if wanted else "none"
        self._mode = "none" if wanted is False else place
        self._wait, self._keep = PATIENCE if wait is None else wait, keep
        self._label, self._done, self._total, self._counted = label, 0, 0, counted
        self._began = self._spoke = self._since = time.monotonic()
        self._from: int | None = None  # what was done at ``_since``
        self._lock, self._ended, self._bar = threading.RLock(), threading.Event(), None
        self._shown: Any = None
        self._thread, self._said = threading.get_ident(), False

    def __enter__(self) -> "Bar":
        self._thread = threading.get_ident()
        if self._mode != "none":
            threading.Thread(target=self._show, daemon=True).start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._ended.set()
        with self._lock:
            if self._bar is not None:
                live.remove(self._bar.console)
                self._bar.stop()
            if self._shown is not None:
                self._draw()

    def __call__(self, done: int, total: int, label: str) -> None:
        with self._lock:
            if self._from is None or done < self._done or total != self._total:
                self._from, self._since = done, time.monotonic()
            self._done, self._total, self._label = done, total, label
            if self._bar is not None:
                self._bar.update(self._bar.task_ids[0], completed=done, total=total)
            elif self._mode == "lines":
                ends = self._said and done == total > 0  # who has read of its beginning reads of its end
                if ends or time.monotonic() - self._spoke >= self._pause():
                    self._line()

    def skip(self, done: int) -> None:
        """So many needed no work: the time left is estimated from those that come after them."""
        with self._lock:
            if done != self._from:
                self._from, self._since = done, time.monotonic()

    def left(self) -> float:
        """Seconds left, if all goes on as it went; infinite if that is not known."""
        made, took = self._done - (self._from or 0), time.monotonic() - self._since
        if made <= 0 or self._total <= 0 or (took < LEAST and self._done < self._total):
            return math.inf
        return took * (self._total - self._done) / made

    def words(self) -> str:
        """What is being done."""
        compiling = not self._ended.is_set() and _compiles(computing(self._thread))
        return f"{self._label}: compiling" if compiling else self._label

    def _pause(self) -> float:
        return max(PATIENCE, (time.monotonic() - self._began) / 20)

    def _show(self) -> None:
        """Runs in a thread of its own: a long compilation, which reports nothing, is seen as well."""
        pause = max(self._wait, PATIENCE) if self._mode == "lines" else self._wait
        while not self._ended.wait(max(pause, TICK)):
            with self._lock:
                if self._ended.is_set():
                    return
                if self._mode == "terminal":
                    self._appear()  # and draws itself from now on
                    return
                if self._mode == "notebook":
                    self._draw()
                elif time.monotonic() - self._spoke >= pause / 2:
                    self._line()
            pause = self._pause() if self._mode == "lines" else REDRAW

    def _appear(self) -> None:
        from rich import progress
        from rich.console import Console
        from rich.table import Column
        from rich.text import Text

        words, left = self.words, self.left

        class Words(progress.ProgressColumn):
            def render(self, task: Any) -> Text:
                return Text(words())

        class Left(progress.ProgressColumn):
            def render(self, task: Any) -> Text:
                return Text(f"left {duration(left())}" if math.isfinite(left()) else "")

        console, whole = Console(stderr=True), Column(no_wrap=True)
        wide = console.width >= 100
        text = Column(no_wrap=True, max_width=max(20, console.width - (48 if wide else 28)) if self._counted else None)
        columns = [
            Words(table_column=text),
            *([progress.BarColumn(10 if self._counted else 40)] if wide or not self._counted else []),
            progress.MofNCompleteColumn(table_column=whole) if self._counted else progress.TaskProgressColumn(),
            *([progress.TimeElapsedColumn(table_column=whole)] if wide or not self._counted else []),
            Left(table_column=Column(no_wrap=True, min_width=len("left 0:00:00"))),
        ]
        self._bar = progress.Progress(*columns, console=console, transient=not self._keep)
        self._bar.start()
        self._bar.add_task(self._label, total=self._total or None, completed=self._done)
        live.append(self._bar.console)

    def _far(self) -> str:
        """How far, for how long, and how long yet: in words."""
        share = self._done / self._total if self._total else 0.0
        far = f"{self._done} of {self._total}" if self._counted else f"{100 * share:.0f} %"
        left, took = self.left(), time.monotonic() - self._began
        return f"{far}, {left:.0f} s left" if left < math.inf else f"{took:.0f} s"

    def _line(self) -> None:
        self._spoke, self._said = time.monotonic(), True
        print(f"{self.words()}: {self._far()}", file=sys.stderr, flush=True)

    def _draw(self) -> None:
        """A bar of HTML in a notebook, drawn over the last one."""
        from IPython.display import display  # pyright: ignore[reportMissingImports]

        text = f"{self.words()}: {self._far()}"
        known = f' value="{self._done}" max="{self._total}"' if self._total and self._done else ""
        value = 'value="1" max="1"' if self._ended.is_set() and not known else known
        seen = {"text/plain": text, "text/html": f"<progress {value}></progress> {html.escape(text)}"}
        if self._shown is None:
            self._shown = display(seen, raw=True, display_id=True)
        else:
            self._shown.update(seen, raw=True)


def _in_notebook() -> bool:
    """Whether this is the kernel of a notebook."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None and hasattr(ipython, "get_ipython") else None
    return shell is not None and hasattr(shell, "kernel")


def _compiles(thread: int) -> bool:
    """Whether JAX is tracing or compiling in a thread now, by the functions that it is in."""
    frame = sys._current_frames().get(thread)
    while frame is not None:
        if frame.f_code.co_filename.replace("\\", "/").endswith(COMPILERS):
            return True
        frame = frame.f_back
    return False
