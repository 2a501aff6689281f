"""Parse, don't validate: how a rule or a limit asks a problem for its parts, and how it says no."""

from typing import Any, NamedTuple, NoReturn, TypeVar

from limitlab.errors import LimitUndefinedError

__all__ = ["Asked"]

T = TypeVar("T")


class Asked(NamedTuple):
    """Who asks, and which error a refusal raises."""

    by: str
    error: type[Exception] = LimitUndefinedError

    def refuse(self, needed: str, came: object, remedy: str) -> NoReturn:
        """Say no in words: what was needed, what came, what to do."""
        raise self.error(f"{self.by} needs {needed}; got {came}. {remedy}")

    def part(self, value: Any, kind: type[T], needed: str, remedy: str, came: object = None) -> T:
        """``value`` if it is of the asked kind, typed as such; ``came`` is how a refusal calls it."""
        if not isinstance(value, kind):
            self.refuse(needed, came or ("none" if value is None else value), remedy)
        return value
