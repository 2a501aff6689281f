r"""Activations as texts: "erf", "hermite(3)", "shifted(tanh, 0.5)", "piecewise((x0, y0), (x1, y1), ...)".

Any function of ``jax.numpy`` may be given from Python; it has no name and cannot be put in a file.
"""

import re
from collections.abc import Callable

import jax
import jax.numpy as jnp

from limitlab.errors import InputError
from limitlab.numerics.checks import check_number
from limitlab.problems.activations.base import Activation
from limitlab.problems.activations.custom import Custom
from limitlab.problems.activations.named import Abs, Erf, Relu, Sigmoid, Sign, Tanh
from limitlab.problems.activations.piecewise import piecewise
from limitlab.problems.activations.polynomial import Linear, Square, hermite
from limitlab.problems.activations.shifted import Shifted
from limitlab.text import did_you_mean

__all__ = ["ACTIVATIONS", "activation", "shifted"]

MAX_NAME = 4000  # characters of an activation's text; a longer one is refused before it is read
MAX_SHIFTS = 8  # of an activation that is shifted several times, as text

_NUMBER = r"\s*([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)\s*"
_KNOT = re.compile(rf"\s*[(\[]{_NUMBER},{_NUMBER}[)\]]\s*(?:,\s*|\Z)")
_WORDS = {a.name: a for a in (Erf(), Relu(), Square(), Linear(), Tanh(), Sigmoid(), Sign(), Abs())}

# Functions of JAX that are ours. Its erf is not: erf(x), where ours is erf(x/sqrt(2)).
_KNOWN = (
    (jax.nn.relu, "relu"),
    (jax.nn.sigmoid, "sigmoid"),
    (jax.scipy.special.expit, "sigmoid"),
    (jax.lax.logistic, "sigmoid"),
    (jnp.tanh, "tanh"),
    (jax.nn.tanh, "tanh"),
    (jax.lax.tanh, "tanh"),
    (jnp.abs, "abs"),
    (jnp.absolute, "abs"),
    (jnp.fabs, "abs"),
    (jax.lax.abs, "abs"),
    (abs, "abs"),
    (jnp.sign, "sign"),
    (jax.lax.sign, "sign"),
    (jnp.square, "square"),
    (jax.lax.square, "square"),
    (jnp.positive, "linear"),
    (getattr(jax.nn, "identity", jnp.positive), "linear"),  # newer than our oldest JAX
)

ACTIVATIONS = tuple(_WORDS)


def shifted(name: str | Activation, by: float) -> Activation:
    r"""The activation moved to the left: :math:`\sigma(x + \mathrm{by})`."""
    return Shifted(activation(name), check_number("shifted", "by", by, remedy="Give a finite shift."))


def _unknown(text: str) -> InputError:
    return InputError(
        f"activation must be one of {', '.join(ACTIVATIONS)}, hermite(k), shifted(name, by), "
        f"piecewise((x, y), ...) or, from Python, a jax.numpy function; got {text[:80]!r}."
        + did_you_mean(text[:80], ACTIVATIONS)
    )


def activation(value: str | Activation | Callable) -> Activation:
    """Turn a name, an `Activation` or a ``jax.numpy`` function into an `Activation`.

    Functions of JAX that have a name here (``jax.nn.relu``, ``jnp.tanh``, ...) are taken for it.
    """
    if isinstance(value, Activation):
        return value
    if not isinstance(value, str):
        if callable(value):
            word = next((word for function, word in _KNOWN if function is value), None)
            return Custom(value) if word is None else _WORDS[word]
        raise _unknown(repr(value))
    if len(value) > MAX_NAME:
        raise InputError(
            f"activation must be at most {MAX_NAME} characters of text; got {len(value)}. Use fewer knots."
        )
    text = value.strip()
    if text in _WORDS:
        return _WORDS[text]
    found = _read(text)
    if len(found.name) > MAX_NAME:  # numbers written out may be longer than they came
        raise InputError(
            f"activation must be at most {MAX_NAME} characters of text; got {len(found.name)} with all digits. "
            "Use fewer knots."
        )
    return found


def _read(text: str) -> Activation:
    """An activation with arguments. Its numbers are read one by one; nothing is evaluated."""
    match = re.fullmatch(r"(hermite|shifted|piecewise)\((.*)\)", text, re.DOTALL)
    if match is None:
        raise _unknown(text)
    kind, inside = match[1], match[2].strip()
    if kind == "hermite" and re.fullmatch(r"[0-9]{1,9}", inside):
        return hermite(int(inside))
    if kind == "shifted":
        name, _, by = inside.rpartition(",")
        if inside.count("shifted(") >= MAX_SHIFTS:
            raise InputError(
                f"activation may be shifted at most {MAX_SHIFTS} times; got {text[:80]!r}. Add the shifts up."
            )
        if number := re.fullmatch(_NUMBER, by):
            return shifted(name.strip().strip("'\""), float(number[1]))
    if kind == "piecewise":
        if re.match(r"[(\[]\s*[(\[]", inside):  # a list of knots as a single argument
            inside = inside[1:-1]
        knots = []
        while inside and (knot := _KNOT.match(inside)):
            knots.append((float(knot[1]), float(knot[2])))
            inside = inside[knot.end() :]
        if knots and not inside:
            return piecewise(*knots)
    raise _unknown(text)
