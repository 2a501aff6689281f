r"""Moments of two functions of two jointly normal fields.

For :math:`(s, t) \sim N(0, \begin{pmatrix} A & C \\ C & B \end{pmatrix})`

.. math::
    \mathrm{value} = E[f(s) g(t)], \qquad \mathrm{slope} = E[f'(s) g'(t)], \qquad
    \mathrm{curvature} = E[f''(s) g(t)]

and with the last two, for any third field b, Stein's identity gives all that a gradient flow needs:
:math:`E[f'(s)\, b\, g(t)] = \mathrm{cov}(b, s)\,\mathrm{curvature} + \mathrm{cov}(b, t)\,\mathrm{slope}`.
Derivatives are taken in the sense of distributions, so a kink or a jump of f' or g is no exception.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from limitlab.numerics.gauss.rules import GaussianRule
from limitlab.numerics.gauss.terms import Term, expectation

__all__ = ["PairMoments", "pair_moments", "pair_numbers"]

FIELD = (Term(1.0, 1),)


class PairMoments(NamedTuple):
    """The three moments of the module docstring, of the common shape of A, B and C."""

    value: jax.Array
    slope: jax.Array
    curvature: jax.Array


def pair_numbers(f: Any, g: Any, rule: GaussianRule | None) -> int:
    """How many numbers one pair occupies while its moments are computed (mixture entries or nodes)."""
    if rule is not None:
        return len(rule.weights)

    def entries(h: Any) -> int:
        return max([len(t.tau) if isinstance(t.tau, tuple) else 1 for t in h.terms], default=1)

    return entries(f) * entries(g)


def pair_moments(
    f: Any,
    g: Any,
    A: jax.Array,
    B: jax.Array,
    C: jax.Array,
    *,
    same: bool = False,
    rule: GaussianRule | None = None,
) -> PairMoments:
    """Exact moments from the terms of f and g, or by a two-dimensional ``rule`` for any functions.

    ``same`` says that s and t are one field (A = B = C), which matters where two sharp signs meet.
    """
    return _exact(f, g, A, B, C, same) if rule is None else _quadrature(f, g, A, B, C, same, rule)


def _exact(f: Any, g: Any, A: jax.Array, B: jax.Array, C: jax.Array, same: bool) -> PairMoments:
    two, three = ([0, 0], [0, 1, 0]) if same else (None, None)
    pair = {(0, 0): A, (0, 1): C, (1, 1): B}
    # E[f'(s) b g(t)] is linear in the covariances of b, whatever they are: 1 with s and 0 with t singles out the
    # curvature. When s and t are one field both are 1 and the slope has to be taken off.
    one = jnp.ones_like(A)
    triple = {(0, 0): A, (0, 2): C, (2, 2): B, (0, 1): one, (1, 1): one, (1, 2): one if same else 0 * one}
    slope = expectation([f.derivative_terms, g.derivative_terms], lambda a, b: pair[a, b], two)
    third = expectation([f.derivative_terms, FIELD, g.terms], lambda a, b: triple[a, b], three)
    return PairMoments(
        expectation([f.terms, g.terms], lambda a, b: pair[a, b], two), slope, third - slope if same else third
    )


def _quadrature(
    f: Any, g: Any, A: jax.Array, B: jax.Array, C: jax.Array, same: bool, rule: GaussianRule
) -> PairMoments:
    r"""Write s = l z_1, t = b z_1 + e z_2; then slope = E[f' z_2 g]/e and curvature = (E[f' z_1 g] - b slope)/l.

    Only g itself is used, never g', so that jumps of g count. If t is a copy of s there is no second direction:
    the slope is then reported as 0 and its part put into the curvature, which is right because a third field has
    proportional covariances with the two.
    """

    def at(h: Any, x: jax.Array) -> jax.Array:
        return jax.vmap(h)(x.ravel()).reshape(x.shape)

    A, B, C = jnp.broadcast_arrays(A, B, C)
    z1, z2, w = jnp.asarray(rule.nodes)[:, 0], jnp.asarray(rule.nodes)[:, 1], jnp.asarray(rule.weights)
    l = jnp.sqrt(jnp.maximum(A, 1e-300))
    b = l if same else C / l
    e = jnp.sqrt(jnp.maximum(B - b**2, 1e-300))
    s = l[..., None] * z1
    other = at(g.function, s if same else b[..., None] * z1 + e[..., None] * z2)
    slopes = at(f.derivative, s) * other
    value = (at(f.function, s) * other) @ w
    first, second = slopes @ (w * z1), slopes @ (w * z2)
    distinct = e > 1e-7 * jnp.sqrt(jnp.maximum(B, 1e-300)) if not same else jnp.zeros(e.shape, bool)
    slope = jnp.where(distinct, second / jnp.where(distinct, e, 1.0), 0.0)
    return PairMoments(value, slope, (first - b * slope) / l)
