"""The door of every verb: 64-bit numbers inside, and somebody who may be told how far it is."""

import contextlib
import contextvars
import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeAlias, TypeVar

from limitlab._setup import in_double
from limitlab.bar import Bar
from limitlab.errors import InputError

__all__ = ["Progress", "Watch", "tell", "told", "verb"]

AT_ONCE = 0.3  # seconds before the bar of progress=True appears

F = TypeVar("F", bound=Callable[..., Any])


class Progress(Protocol):
    """Called as ``progress(done, total, label)`` a few times per second; ``None`` in its place means silence."""

    def __call__(self, done: int, total: int, label: str) -> None: ...


Watch: TypeAlias = "Progress | bool | None"  # what a user may give: a function, or True for a bar

_watched: contextvars.ContextVar["_Watched | None"] = contextvars.ContextVar("limitlab_progress", default=None)


class _Watched:
    """Hands ticks of one verb on, and knows whether there were any."""

    def __init__(self, progress: Progress):
        self._progress, self.told, self.label = progress, False, ""

    def __call__(self, done: int, total: int, label: str) -> None:
        self.told, self.label = self.told or done > 0, label
        self._progress(done, total, label)


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


def verb(function: F) -> F:
    """Make a function a verb: it computes in 64 bits, and what it tells reaches its argument ``progress``.

    The function itself need not look at that argument: `tell` and `told` know. A verb that is called by another one
    has its own progress, or none. One that tells nothing but its beginning tells that it is done.
    """
    signature = inspect.signature(function)
    order = [name for name, x in signature.parameters.items() if x.kind is not inspect.Parameter.KEYWORD_ONLY]
    place = order.index("progress") if "progress" in order else None

    @functools.wraps(function)
    def door(*args: Any, **kwargs: Any) -> Any:
        progress = args[place] if place is not None and len(args) > place else kwargs.get("progress")
        with in_double(), _watching(function.__name__, progress):
            return function(*args, **kwargs)

    return door  # pyright: ignore[reportReturnType]


@contextlib.contextmanager
def _watching(name: str, progress: Any) -> Iterator[None]:
    """What is told inside reaches ``progress``: a function, a bar if it is True, nobody if it is None or False."""
    if progress is not None and not isinstance(progress, bool) and not callable(progress):
        raise InputError(
            f"{name}.progress must be True, or a function of (done, total, label), or None; got {progress!r}."
        )
    with contextlib.ExitStack() as stack:
        if isinstance(progress, bool):
            bar = Bar(name, wanted=progress, wait=AT_ONCE, keep=True)
            progress = stack.enter_context(bar) if progress else None
        told: Any = progress
        watched = None if told is None else _Watched(told)
        token = _watched.set(watched)
        try:
            yield
        finally:
            _watched.reset(token)
        if watched is not None and not watched.told:
            watched(1, 1, watched.label or name)
