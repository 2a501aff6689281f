"""Parse, don't validate: how a rule or a limit asks a problem for its parts, and how it says no."""

from typing import Any, NamedTuple, NoReturn, TypeVar

from limitlab.errors import InputError, LimitUndefinedError

__all__ = ["Asked", "check_promise", "has_own"]

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


def has_own(part: Any, base: type, method: str) -> bool:
    """Whether a part has a method of its own, by its class or as a field, in place of that of the abstract class."""
    return method in vars(part) or getattr(type(part), method) is not getattr(base, method)


def check_promise(part: Any, base: type, says: str, *methods: str) -> None:
    """`InputError` if a part says of itself what the methods of its class do not keep."""
    for method in methods if getattr(part, says) else ():
        if not has_own(part, base, method):
            name = type(part).__name__
            raise InputError(
                f"{name} says {says} = True, which needs a `{method}` of its own; got none. Give {name} one, or leave "
                f"{says} out."
            )
