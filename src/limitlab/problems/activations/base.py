r"""Named scalar functions :math:`\sigma` with their derivative and, where known, their exact Gaussian calculus.

"erf" is :math:`\mathrm{erf}(x/\sqrt2)`, "hermite(k)" the probabilists' :math:`He_k`, "shifted(tanh, 0.5)" is
:math:`\tanh(x + 0.5)`, "piecewise((x0, y0), (x1, y1), ...)" joins its knots by straight lines and is constant
outside. Any function of ``jax.numpy`` may be given from Python; it has no name and cannot be put in a file.
"""

import re
from collections.abc import Callable
from functools import cache, lru_cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from limitlab.errors import InputError
from limitlab.numerics.checks import check_integer, check_number
from limitlab.numerics.gauss.terms import Term, derivative_terms, logistic_mixture, polynomial_terms
from limitlab.text import did_you_mean

__all__ = ["ACTIVATIONS", "Activation", "activation", "hermite", "piecewise", "shifted"]

MAX_NAME = 4000  # characters of an activation's text; a longer one is refused before it is read
MAX_SHIFTS = 8  # of an activation that is shifted several times, as text
MANY = 1024  # activations that are kept for when they are asked for again

_NUMBER = r"\s*([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)\s*"
_KNOT = re.compile(rf"\s*[(\[]{_NUMBER},{_NUMBER}[)\]]\s*(?:,\s*|\Z)")


class Activation(eqx.Module):
    r"""A scalar function :math:`\sigma`, its derivative, and its terms for exact Gaussian moments (or None)."""

    name: str = eqx.field(static=True)
    function: Callable = eqx.field(static=True)
    derivative: Callable = eqx.field(static=True)
    terms: tuple[Term, ...] | None = eqx.field(static=True, default=None)
    named: bool = eqx.field(static=True, default=True)
    base: "Activation | None" = eqx.field(static=True, default=None)  # of a shifted activation: the one that was moved,
    by: float = eqx.field(static=True, default=0.0)  # and how far
    knots: tuple[tuple[float, float], ...] | None = eqx.field(static=True, default=None)  # of a piecewise linear one
    power: tuple[float, ...] | None = eqx.field(static=True, default=None)  # of a polynomial, lowest first

    @property
    def derivative_terms(self) -> tuple[Term, ...] | None:
        return None if self.terms is None else derivative_terms(self.terms)

    @property
    def flat(self) -> bool:
        """True if the derivative vanishes almost everywhere, so that no gradient rule can train it."""
        grid = jnp.linspace(-6.03, 6.01, 1201)
        return not bool(jnp.any(jnp.abs(jax.vmap(self.derivative)(grid)) > 0))

    @property
    def reference(self) -> tuple[str, ...]:
        """Keys of ``references.bib``: tanh and sigmoid enter exact Gaussian moments as mixtures of erf."""
        return ("stefanski1991normal",) if self.name in ("tanh", "sigmoid") else ()

    def __call__(self, x):
        return self.function(x)

    def __repr__(self) -> str:
        return f'"{self.name}"'


def _mixture(scale: float) -> Term:
    weights, widths = zip(*logistic_mixture(), strict=True)
    return Term(weights, 0, "sign", tuple(scale * w for w in widths))


def _gauss(x):
    return jnp.sqrt(2 / jnp.pi) * jnp.exp(-(x**2) / 2)


_TABLE: dict[str, tuple[Callable, Callable, tuple[Term, ...]]] = {
    "erf": (lambda x: jax.scipy.special.erf(x / jnp.sqrt(2.0)), _gauss, (Term(1.0, 0, "sign", 1.0),)),
    "relu": (
        lambda x: jnp.maximum(x, 0.0),
        lambda x: jnp.where(x > 0, 1.0, 0.0),
        (Term(0.5, 1), Term(0.5, 1, "sign")),
    ),
    "square": (lambda x: x**2, lambda x: 2 * x, (Term(1.0, 2),)),
    "linear": (lambda x: x, lambda x: jnp.ones_like(x), (Term(1.0, 1),)),
    # 2 sigmoid(2x) - 1 and sigmoid(x) = (1 + E sgn(x + width xi))/2 over the mixture of widths
    "tanh": (jnp.tanh, lambda x: 1 - jnp.tanh(x) ** 2, (_mixture(0.5),)),
    "sigmoid": (
        jax.nn.sigmoid,
        lambda x: jax.nn.sigmoid(x) * jax.nn.sigmoid(-x),
        (Term(0.5), _mixture(1.0).scaled(0.5)),
    ),
    "sign": (jnp.sign, lambda x: jnp.zeros_like(x), (Term(1.0, 0, "sign"),)),
    "abs": (jnp.abs, jnp.sign, (Term(1.0, 1, "sign"),)),
}

ACTIVATIONS = tuple(_TABLE)


def hermite(k: int) -> Activation:
    r"""The probabilists' Hermite polynomial :math:`He_k` (leading coefficient one)."""
    k = check_integer("hermite", "k", k, low=0, remedy="Hermite polynomials have degree 0, 1, 2, ...")
    if k > 12:
        raise InputError(f"hermite.k must be at most 12; got {k}. Higher degrees lose all digits in float64.")
    return _hermite(k)


@cache
def _hermite(k: int) -> Activation:
    power = np.polynomial.hermite_e.herme2poly([0.0] * k + [1.0])
    slope = np.polynomial.polynomial.polyder(power) if k else np.zeros(1)
    return Activation(
        name=f"hermite({k})",
        function=lambda x: jnp.polyval(jnp.asarray(power[::-1]), x),
        derivative=lambda x: jnp.polyval(jnp.asarray(slope[::-1]), x),
        terms=polynomial_terms(power.tolist()),
        power=tuple(power.tolist()),
    )


def shifted(name: "str | Activation", by: float) -> Activation:
    r"""The activation moved to the left: :math:`\sigma(x + \mathrm{by})`."""
    return _shifted(activation(name), check_number("shifted", "by", by, remedy="Give a finite shift."))


@lru_cache(MANY)
def _shifted(base: Activation, by: float) -> Activation:
    return Activation(
        name=f"shifted({base.name}, {by!r})",
        function=lambda x: base.function(x + by),
        derivative=lambda x: base.derivative(x + by),
        named=base.named,
        base=base,
        by=by,
    )


def piecewise(*knots) -> Activation:
    """Straight lines through the knots (x, y), constant to the left of the first and right of the last."""
    if len(knots) == 1 and np.ndim(knots[0]) == 2:
        knots = tuple(knots[0])  # a list of knots as a single argument
    try:
        table: np.ndarray = np.asarray(knots, dtype=float)
    except (TypeError, ValueError):
        table = np.array(float("nan"))
    if table.ndim != 2 or table.shape[1] != 2 or len(table) < 2:
        raise InputError(f"piecewise.knots must be at least two pairs (x, y); got {knots!r}.")
    if not np.all(np.isfinite(table)) or np.any(table[1:, 0] <= table[:-1, 0]):
        raise InputError(f"piecewise.knots must be finite with increasing x; got {knots!r}. Sort them by x.")
    with np.errstate(over="ignore", invalid="ignore"):
        x, y = np.diff(table, axis=0).T
        if not np.all(np.isfinite(y / x) & np.isfinite(x)):
            raise InputError(f"piecewise.knots must have finite slopes between them; got {knots!r}. Move them apart.")
    return _piecewise(tuple((float(x), float(y)) for x, y in table))


@lru_cache(MANY)
def _piecewise(knots: tuple[tuple[float, float], ...]) -> Activation:
    table = np.asarray(knots)
    x, y = table.T
    slopes = np.concatenate([[0.0], np.diff(y) / np.diff(x), [0.0]])
    inside = ", ".join(f"({a!r}, {b!r})" for a, b in table.tolist())
    return Activation(
        name=f"piecewise({inside})",
        function=lambda s: jnp.interp(s, jnp.asarray(x), jnp.asarray(y)),
        derivative=lambda s: jnp.asarray(slopes)[jnp.searchsorted(jnp.asarray(x), s)],
        knots=knots,
    )


@cache
def _custom(function: Callable) -> Activation:
    label = getattr(function, "__name__", type(function).__name__)
    try:
        slope = jax.grad(lambda x: jnp.sum(function(x)))
        slope(jnp.asarray(0.3))
    except Exception as error:
        raise InputError(
            f"activation must be a differentiable jax.numpy function of one scalar; {label} raised "
            f"{type(error).__name__}: {error}. Write it with jax.numpy instead of numpy."
        ) from error
    return Activation(name=f"custom:{label}", function=function, derivative=slope, named=False)


def _unknown(text: str) -> InputError:
    return InputError(
        f"activation must be one of {', '.join(ACTIVATIONS)}, hermite(k), shifted(name, by), "
        f"piecewise((x, y), ...) or, from Python, a jax.numpy function; got {text[:80]!r}."
        + did_you_mean(text[:80], ACTIVATIONS)
    )


def activation(value: "str | Activation | Callable") -> Activation:
    """Turn a name, an `Activation` or a ``jax.numpy`` function into an `Activation`."""
    if isinstance(value, Activation):
        return value
    if not isinstance(value, str):
        if callable(value):
            return _custom(value)
        raise _unknown(repr(value))
    if len(value) > MAX_NAME:
        raise InputError(
            f"activation must be at most {MAX_NAME} characters of text; got {len(value)}. Use fewer knots."
        )
    text = value.strip()
    if text in _TABLE:
        function, derivative, terms = _TABLE[text]
        power = {"square": (0.0, 0.0, 1.0), "linear": (0.0, 1.0)}.get(text)
        return Activation(name=text, function=function, derivative=derivative, terms=terms, power=power)
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
