"""How long computations report where they are."""

from typing import Protocol

__all__ = ["Progress"]


class Progress(Protocol):
    """Called as ``progress(done, total, label)`` a few times per second; ``None`` in its place means silence."""

    def __call__(self, done: int, total: int, label: str) -> None: ...
