r"""Roots of functions of one number, many at once: :math:`F(x) = 0` elementwise over arrays.

* `newton`: so many steps, where they are known to fall (or rise) to the root from the start;
* `bracketed_newton`: Newton steps kept inside a bracket, for any increasing function with a derivative;
* `bisect`: where only the sign is to be trusted;
* `illinois`: bracketed secant steps, where a value is expensive and has no derivative;
* `crossing`: the same for one number, where the function may be minus infinity on one side;
* `implicit_root`: the derivative of a root in what the function depends on.

Unknowns that hang together (weights of a network, a density) are solved where their equations are written, by Newton's
method with a line search on what is minimised. One root of one function is SciPy's ``brentq``.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

__all__ = ["bisect", "bracketed_newton", "crossing", "illinois", "implicit_root", "newton", "proximal_point"]

Either = TypeVar("Either", np.ndarray, jax.Array)
Equation = Callable[..., tuple[jax.Array, jax.Array]]


def implicit_root(solve: Callable[..., jax.Array], step: Equation, *arguments) -> jax.Array:
    """A root p of F, differentiable in the arguments to first order.

    ``solve(*arguments)`` finds p without derivatives; ``step(p, *arguments)`` gives (F, dF/dp). One last Newton step,
    whose slope is held fixed, carries the derivatives -dF/dx / dF/dp.
    """
    p = jax.lax.stop_gradient(solve(*map(jax.lax.stop_gradient, arguments)))
    value, slope = step(p, *arguments)
    return p - value / jax.lax.stop_gradient(slope)


def newton(equation: Equation, start: jax.Array, steps: int) -> jax.Array:
    """``steps`` Newton steps; ``equation(p)`` gives (F, dF/dp).

    From below the root of an increasing concave function, or above that of a convex one, they never step over it.
    """

    def move(_, p):
        value, slope = equation(p)
        return p - value / slope

    return jax.lax.fori_loop(0, steps, move, start)


def bracketed_newton(
    equation: Equation,
    low: jax.Array,
    high: jax.Array,
    size: jax.Array | float = 0.0,
    tolerance: float = 1e-15,
    steps: int = 200,
) -> jax.Array:
    """The root of an increasing function between ``low`` and ``high``, to ``tolerance`` of itself and of ``size``.

    A Newton point is taken only strictly inside the bracket and only if steps shrink at least by half; otherwise the
    bracket is halved.
    """

    def body(state):
        p, low, high, last, _, n = state
        f, slope = equation(p)
        low, high = jnp.where(f <= 0, p, low), jnp.where(f >= 0, p, high)
        point = p - f / slope
        good = (point > low) & (point < high) & (2 * jnp.abs(f) <= jnp.abs(last * slope))
        new = jnp.where(f == 0, p, jnp.where(good, point, _middle(low, high)))
        move = new - p
        open_ = jnp.any(jnp.abs(move) > tolerance * (jnp.abs(new) + size + 1e-280))
        return new, low, high, move, open_, n + 1

    state = (_middle(low, high), low, high, high - low, jnp.asarray(True), 0)
    return jax.lax.while_loop(lambda state: state[4] & (state[5] < steps), body, state)[0]


def _middle(low, high):
    """Between two numbers: halfway, or halfway in orders of magnitude if they are far apart."""
    far = high - low > 100 * (1 + jnp.minimum(jnp.abs(low), jnp.abs(high)))
    return jnp.where(far, jnp.sinh((jnp.arcsinh(low) + jnp.arcsinh(high)) / 2), (low + high) / 2)


def proximal_point(derivatives: Equation, s: jax.Array, V: jax.Array) -> jax.Array:
    r"""argmin over p of :math:`\ell(p) + (p - s)^2/2V` of a convex function with two derivatives, which are given.

    It lies between s and s - V l'(s), and is differentiable in s and V.
    """

    def equation(p, s, V):
        first, second = derivatives(p)
        return p - s + V * first, 1 + V * second

    def solve(s, V):
        other = s - V * derivatives(s)[0]
        low, high = jnp.minimum(s, other), jnp.maximum(s, other)
        return bracketed_newton(lambda p: equation(p, s, V), low, high, jnp.abs(s) * 1e-3)

    return implicit_root(solve, equation, s, V)


def bisect(above: Callable[[Either], Any], low: Either, high: Either, steps: int = 60) -> tuple[Either, Either]:
    """The brackets halved ``steps`` times; ``above(x)`` says where the root lies above x. Either kind of array."""
    if isinstance(low, jax.Array):

        def halve(_, bracket):
            low, high = bracket
            middle = (low + high) / 2
            up = above(middle)
            return jnp.where(up, middle, low), jnp.where(up, high, middle)

        return jax.lax.fori_loop(0, steps, halve, (low, high))
    for _ in range(steps):
        middle = (low + high) / 2
        up = above(middle)
        low, high = np.where(up, middle, low), np.where(up, high, middle)
    return low, high


def illinois(
    function: Callable[[np.ndarray], tuple[np.ndarray, Any]],
    bracket: tuple[np.ndarray, np.ndarray],
    values: tuple[np.ndarray, np.ndarray],
    tolerance: float = 1e-13,
    steps: int = 60,
) -> tuple[np.ndarray, Any]:
    """The roots of increasing functions in brackets at whose ends their values are known, by bracketed secant steps.

    ``function(x)`` gives the values and anything else that was computed on the way; the roots come back with it. The
    value at an end that stays put twice is halved.
    """
    (x0, x1), (f0, f1) = bracket, values
    x, side, rest = x0.copy(), np.zeros(len(x0)), None
    for _ in range(steps):
        with np.errstate(all="ignore"):
            step = np.where(f1 != f0, x0 - f0 * (x1 - x0) / (f1 - f0), (x0 + x1) / 2)
        inside = (step >= np.minimum(x0, x1)) & (step <= np.maximum(x0, x1))
        x = np.where(inside, step, (x0 + x1) / 2)
        f, rest = function(x)
        if np.all((np.abs(f) < tolerance) | (np.abs(x1 - x0) < tolerance)):
            break
        up = f > 0
        f0, f1 = np.where(up & (side == 1), f0 / 2, f0), np.where(~up & (side == -1), f1 / 2, f1)
        x1, f1 = np.where(up, x, x1), np.where(up, f, f1)
        x0, f0 = np.where(up, x0, x), np.where(up, f0, f)
        side = np.where(up, 1, -1)
    return x, rest


def crossing(
    function: Callable[[float], float],
    low: float,
    high: float,
    at_high: float,
    tolerance: float = 1e-11,
    rounding: float = 1e-13,
    steps: int = 80,
) -> tuple[float, float]:
    """Where a function turns positive between ``low`` and ``high``, and how far off that may be.

    Secant steps as long as both ends have finite values, which are positive at ``high`` and may be minus infinity
    towards ``low``; halving otherwise, and where the secant creeps along one end. A value below ``rounding`` is zero.
    """
    x0, x1, f0, f1 = low, high, -np.inf, at_high
    x, f = x1, f1
    for _ in range(steps):
        secant = x1 - f1 * (x1 - x0) / (f1 - f0) if np.isfinite(f0) and np.isfinite(f1) else np.nan
        x = secant if x0 < secant < x1 else (x0 + x1) / 2
        if np.isfinite(f0) and min(x - x0, x1 - x) < 1e-3 * (x1 - x0):
            x = (x0 + x1) / 2 if x1 - x0 > 1e-6 * x1 else x
        f = function(x)
        if f > 0:
            x1, f1 = x, f
        else:
            x0, f0 = x, f
        if x1 - x0 < tolerance * x1 or abs(f) < rounding:
            break
    return float(x), x1 - x0 if abs(f) >= rounding else 0.0
