"""Links as words: a name, a text, or a function."""

from collections.abc import Callable

from limitlab.errors import InputError
from limitlab.problems.links.base import AbstractLink
from limitlab.problems.links.custom import CustomLink
from limitlab.problems.links.named import And, Majority, Parity, Product, SignSum, Squares
from limitlab.problems.links.text import FUNCTIONS, TextLink
from limitlab.text import did_you_mean, show

__all__ = ["LINKS", "link"]

_WORDS = {one.word: one for one in (SignSum(), Majority(), Parity(), Product(), Squares(), And())}
LINKS = tuple(_WORDS)


def link(value: str | AbstractLink | Callable) -> AbstractLink:
    """Turn a name, a text, an `AbstractLink` or a ``jax.numpy`` function into an `AbstractLink`."""
    if isinstance(value, AbstractLink):
        return value
    if isinstance(value, str):
        text = value.strip()
        if text in _WORDS:
            return _WORDS[text]
        if text.replace("_", "").isalpha() and text not in FUNCTIONS:
            raise InputError(
                f'MultiIndex.link must be one of {", ".join(LINKS)}, a text such as "z1^2 + sign(z1*z2)" or, from '
                f"Python, a jax.numpy function; got {show(text)}.{did_you_mean(text, LINKS)}"
            )
        return TextLink(text)
    if callable(value):
        return CustomLink(value)
    raise InputError(
        f'MultiIndex.link must be one of {", ".join(LINKS)}, a text such as "z1^2 + sign(z1*z2)" or, from Python, a '
        f"jax.numpy function; got {show(value)}."
    )
