"""The door of every verb: 64-bit numbers inside, and somebody who may be told how far it is.

The logger ``limitlab`` is here too, silent unless a user asks for it. ``DEBUG`` has a line when a verb begins and one
when it ends, with its seconds; ``INFO`` one when a sweep ends: points found, done and failed; ``WARNING`` what a sweep
has to wait for. Nothing else is said: errors are raised, and what a user must know is a warning of Python. To see it::

    logging.basicConfig()
    logging.getLogger("limitlab").setLevel(logging.DEBUG)
"""

import contextlib
import contextvars
import functools
import inspect
import logging
import math
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Any, Protocol, TypeAlias, TypeVar

from limitlab._setup import in_double
from limitlab.aside import aside
from limitlab.bar import Bar
from limitlab.errors import InputError

__all__ = ["Pace", "Progress", "Watch", "caution", "logger", "main_verb", "tell", "tick", "told", "turns", "verb"]

AT_ONCE = 0.3  # seconds before the bar of progress=True appears
FINE = 1000  # parts of what is told as a share
BETWEEN = 0.1  # seconds between two shares that are told
CALL, FASTER = 0.25, 64  # seconds that a compiled call shall take, and the most by which its steps grow

logger = logging.getLogger("limitlab")
logger.addHandler(logging.NullHandler())

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")


class Progress(Protocol):
    """Called as ``progress(done, total, label)`` a few times per second; ``None`` in its place means silence."""

    def __call__(self, done: int, total: int, label: str) -> None: ...


Watch: TypeAlias = "Progress | bool | None"  # what a user may give: a function, or True for a bar

_caller: contextvars.ContextVar["FrameType | None"] = contextvars.ContextVar("limitlab_caller", default=None)
_watched: contextvars.ContextVar["_Watched | None"] = contextvars.ContextVar("limitlab_progress", default=None)


class _Watched:
    """Hands ticks of one verb on, and knows whether there were any."""

    def __init__(self, progress: Progress):
        self._progress, self.told, self.label = progress, False, ""
        self.part, self._last = (0.0, 1.0), -math.inf  # where the part of the work begins that is done now, its length

    def __call__(self, done: int, total: int, label: str) -> None:
        self.told, self.label = self.told or done > 0, label
        self._progress(done, total, label)

    def share(self, share: float) -> None:
        """A share of the present part is done: handed on a few times per second."""
        begin, length = self.part
        if time.perf_counter() - self._last >= BETWEEN:
            self._last = time.perf_counter()
            self(round(FINE * (begin + length * share)), FINE, self.label)


def told() -> Progress | None:
    """Who is told how far the verb is that is being computed; None if nobody asked."""
    return _watched.get()


def tell(done: int, total: int, label: str) -> None:
    """Say how far the verb is that is being computed, from anywhere inside it.

    What the user's function raises ends the verb.
    """
    watched = _watched.get()
    if watched is not None:
        watched(done, total, label)


def tick(share: float) -> None:
    """Say what share of the work is done: of all that was told last, or of the present one of `turns`."""
    watched = _watched.get()
    if watched is not None:
        watched.share(share)


def turns(items: Sequence[T]) -> Iterator[T]:
    """The items one by one, each an equal part of the work: a `tick` is a share of the present one."""
    watched = _watched.get()
    begin, length = (0.0, 1.0) if watched is None else watched.part
    for i, item in enumerate(items):
        if watched is not None:
            watched.part = (begin + length * i / len(items), length / len(items))
            watched.share(0.0)
        yield item
    if watched is not None:
        watched.part = (begin, length)


class Pace:
    """How many steps a compiled call takes to last a part of a second: between calls one can be told, and stop."""

    def __init__(self, first: int):
        self._steps, self._began = first, time.perf_counter()
        self._from: int | None = None

    def upto(self, done: int) -> int:
        """The step at which the next call shall stop, when so many are done."""
        now = time.perf_counter()
        if self._from is not None and done > self._from:
            each = (now - self._began) / (done - self._from)
            self._steps = int(min(max(CALL / each, 1), FASTER * self._steps))
        self._began, self._from = now, done
        return done + self._steps


def caution(words: str, category: type[Warning]) -> None:
    """Warn whoever called the verb that is being computed: the warning shows their line."""
    frame = _caller.get()
    if frame is None:
        warnings.warn(words, category, stacklevel=3)
        return
    names, registry = frame.f_globals, frame.f_globals.setdefault("__warningregistry__", {})
    place = frame.f_code.co_filename, frame.f_lineno, names.get("__name__")
    warnings.warn_explicit(words, category, *place, registry)


def verb(function: F) -> F:
    """Make a function a verb: it computes in 64 bits, and what it tells reaches its argument ``progress``.

    The function itself need not look at that argument: `tell` and `told` know. A verb that is called by another one
    has its own progress, or none. One that tells nothing but its beginning tells that it is done. Whoever takes
    ``progress`` may take long, and is computed `aside`, so that Ctrl-C ends it at any moment.
    """
    return _door(function, "progress" in inspect.signature(function).parameters)


def main_verb(function: F) -> F:
    """A `verb` that minds signals itself, or starts what only the main thread may start: it stays there."""
    return _door(function, False)


def _door(function: F, apart: bool) -> F:
    signature = inspect.signature(function)
    order = [name for name, x in signature.parameters.items() if x.kind is not inspect.Parameter.KEYWORD_ONLY]
    place = order.index("progress") if "progress" in order else None

    @functools.wraps(function)
    def door(*args: Any, **kwargs: Any) -> Any:
        progress = args[place] if place is not None and len(args) > place else kwargs.get("progress")
        began, name = time.perf_counter(), function.__name__

        def compute(progress: Any) -> Any:
            with in_double(), _watching(name, progress):
                return function(*args, **kwargs)

        logger.debug("%s begins", name)
        outermost = _caller.get() is None
        token = _caller.set(sys._getframe(1)) if outermost else None
        try:
            with _listener(name, progress) as listener:
                return aside(compute, listener) if apart and outermost else compute(listener)
        finally:
            if token is not None:
                _caller.reset(token)
            logger.debug("%s ends after %.3f s", name, time.perf_counter() - began)

    return door  # pyright: ignore[reportReturnType]


@contextlib.contextmanager
def _listener(name: str, progress: Any) -> Iterator[Any]:
    """Who is told, by the argument ``progress``: a function, a bar if it is True, nobody if it is None or False.

    A bar ends with the call, also if that is given up and the computation goes on.
    """
    if progress is not None and not isinstance(progress, bool) and not callable(progress):
        raise InputError(
            f"{name}.progress must be True, or a function of (done, total, label), or None; got {progress!r}."
        )
    if progress is True:
        with Bar(name, wanted=True, wait=AT_ONCE, keep=True) as bar:
            yield bar
    else:
        yield progress if callable(progress) else None


@contextlib.contextmanager
def _watching(name: str, told: Any) -> Iterator[None]:
    """What is told inside reaches this function."""
    watched = None if told is None else _Watched(told)
    token = _watched.set(watched)
    try:
        yield
    finally:
        _watched.reset(token)
    if watched is not None and not watched.told:
        watched(1, 1, watched.label or name)
