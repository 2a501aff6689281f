r"""The moments of `field_sum` for constants plus mixtures of error functions: erf, tanh, sigmoid.

Such a function is :math:`\sigma(s) = b + \sum_m w_m E\,\mathrm{sgn}(s + \tau_m\xi)`. Every width of every field is a
*node* with the variance :math:`v_A = \Omega_{AA} + \tau_A^2`; two nodes have the covariance of their fields. Then

.. math::
    E[\mathrm{sgn}_A\, \mathrm{sgn}_B] &= \tfrac2\pi \arcsin\frac{\Omega_{AB}}{\sqrt{v_A v_B}}, \qquad
    E[2\delta_i\, s_B\, \mathrm{sgn}_C] = \frac2\pi
        \frac{\Omega_{BC} - \Omega_{iB} \Omega_{iC}/v_i}{\sqrt{v_i v_C - \Omega_{iC}^2}} \\
    E[2\delta_i\, 2\delta_j\, \mathrm{sgn}_C\, \mathrm{sgn}_D] &=
        \frac{4}{\pi^2 \sqrt{D_{ij}}} \arcsin\frac{S_{CD}}{\sqrt{u_C u_D}}, \qquad D_{ij} = v_i v_j - \Omega_{ij}^2

where S and u are what is left of Omega and v once the nodes i and j are known to be zero: for each pair (i, j) a
matrix less two products of vectors, and one arcsine for each pair (C, D).

`erf_moments` does the same for error functions alone, for many problems side by side: they lie along the last axis,
where the processor takes several at once.
"""

from itertools import combinations_with_replacement
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from limitlab.numerics.gauss.angles import angle, arcsine
from limitlab.numerics.gauss.tables import summed, symmetric, upper_pairs
from limitlab.numerics.gauss.terms import Blurred

__all__ = ["Nodes", "erf_moments", "erf_nodes", "node_moments", "node_values"]

ROUNDING = 1e-15
FEW = 2**11  # arcsines that are made and summed in one loop
Moments = tuple[jax.Array, jax.Array, jax.Array]


class Nodes(NamedTuple):
    """The functions of p moving and k fixed fields as nodes, those of a field side by side."""

    p: int
    n: int
    moving: int  # the nodes of moving fields come first
    field: np.ndarray
    weight: np.ndarray
    square: np.ndarray  # tau^2
    constant: np.ndarray  # of every field

    def of_fields(self, x: Any) -> jax.Array:
        """Sums over the nodes of each field, along the first axis."""
        first = x[: self.moving].reshape(self.p, -1, *x.shape[1:]).sum(1)
        if self.p == self.n:
            return first
        return jnp.concatenate([first, x[self.moving :].reshape(self.n - self.p, -1, *x.shape[1:]).sum(1)])

    def of_moving(self, x: Any) -> jax.Array:
        """The same for arrays over the nodes of moving fields."""
        return x.reshape(self.p, -1, *x.shape[1:]).sum(1)


def erf_nodes(f: Blurred, g: Blurred, p: int, k: int) -> Nodes:
    """The nodes of p fields with the function f and k with g."""
    counts = [len(f.weights)] * p + [len(g.weights)] * k
    return Nodes(
        p,
        p + k,
        p * len(f.weights),
        np.repeat(np.arange(p + k), counts),
        np.asarray(f.weights * p + g.weights * k),
        np.square(np.asarray(f.taus * p + g.taus * k)),
        np.asarray([f.constant] * p + [g.constant] * k),
    )


def _spread(Omega: jax.Array, nodes: Nodes) -> tuple[jax.Array, jax.Array]:
    """Covariances and variances of the nodes."""
    Omega = jnp.asarray(Omega)
    if len(nodes.field) > nodes.n:
        Omega = Omega[nodes.field][:, nodes.field]
    return Omega, jnp.diagonal(Omega) + nodes.square


def node_values(Omega: jax.Array, c: jax.Array, nodes: Nodes) -> jax.Array:
    """I (n,)."""
    Omega, v = _spread(Omega, nodes)
    root = jnp.sqrt(v[:, None] * v - Omega * Omega)
    sums = angle(Omega, root) @ (c[nodes.field] * nodes.weight)
    return 2 / np.pi * nodes.of_fields(nodes.weight * sums) + nodes.constant * (nodes.constant @ c)


def node_moments(Omega: jax.Array, c: jax.Array, noise: jax.Array | float, nodes: Nodes) -> Moments:
    """I (n,), L (p, n) and V (p, p)."""
    p, m, field = nodes.p, nodes.moving, nodes.field
    Omega, c = jnp.asarray(Omega), jnp.asarray(c)
    wide, v = _spread(Omega, nodes)
    weight, w = nodes.weight[:m], c[field] * nodes.weight
    pull = w / jnp.sqrt(v[:m, None] * v - wide[:m] * wide[:m])  # (nodes of moving fields, nodes)
    itself = jnp.sum(pull * wide[:m], axis=1) / v[:m]
    each = nodes.of_fields(nodes.of_moving(weight[:, None] * pull).T).T  # (p, fields)
    L = 2 / np.pi * (each @ Omega - nodes.of_moving(weight * itself)[:, None] * Omega[:p])

    floor, a, b = nodes.constant @ c, *upper_pairs(len(field))
    rows = (a, b, wide[a, b], np.where(a == b, 1.0, 2.0) * w[a] * w[b])
    turns = _one_loop if m * (m + 1) // 2 * len(a) <= FEW else _pieces

    def block(i, j):
        determinant = v[i] * v[j] - wide[i, j] * wide[i, j]
        total = 2 / np.pi * turns(wide, v, rows, i, j)
        return 2 / np.pi * (total + noise + floor * floor) / jnp.sqrt(determinant)

    V = weight[:, None] * weight * symmetric(m, block)
    return node_values(Omega, c, nodes), L, nodes.of_moving(nodes.of_moving(V).T)


def _one_loop(wide: jax.Array, v: jax.Array, rows: tuple, i: Any, j: Any) -> jax.Array:
    """The sum over pairs (C, D) of arcsin(...), for pairs (i, j), if there are few: terms are summed as they are made.

    The nodes come last, as they lie in memory: 2 to 3 times faster than pieces.
    """
    C, D, covariance, weight = rows
    both, one, two = wide[i, j][:, None], v[i][:, None], v[j][:, None]
    first, second, scale = _left(wide[i], wide[j], both, one, two, v)
    rho = covariance * scale[:, C] * scale[:, D] - first[:, C] * first[:, D] - second[:, C] * second[:, D]
    return jnp.sum(weight * arcsine(rho), axis=1)


def _pieces(wide: jax.Array, v: jax.Array, rows: tuple, i: Any, j: Any) -> jax.Array:
    """The same in pieces, pairs (i, j) side by side in the last axis."""
    first, second, scale = _left(wide[:, i], wide[:, j], wide[i, j], v[i], v[j], v[:, None])

    def term(C, D, covariance, weight):
        rho = covariance[:, None] * scale[C] * scale[D] - first[C] * first[D] - second[C] * second[D]
        return weight @ arcsine(rho)

    return summed(rows, len(i), term)


def _left(first, second, both, one, two, v) -> tuple[jax.Array, jax.Array, jax.Array]:
    r"""Of all nodes, given that i and j are zero: what correlations lose by i, and by j, and the scale 1/sqrt(u)."""
    determinant = one * two - both * both
    # What is left of all nodes given i, then j: one after the other keeps more digits than both at once.
    rest = jnp.maximum(determinant, 0.0) / one
    left = (v * one - first * first) / one
    second = second - first * (both / one)
    left = (left * rest - second * second) / rest
    scale = 1 / jnp.sqrt(jnp.maximum(left, ROUNDING * v))
    return first * (scale / jnp.sqrt(one)), second * (scale / jnp.sqrt(rest)), scale


def erf_moments(Omega: jax.Array, c: jax.Array, noise: jax.Array, p: int) -> Moments:
    """I (n, lanes), L (p, n, lanes) and V (p, p, lanes) from Omega (n, n, lanes), c (n, lanes) and noise (lanes,)."""
    n, moving = Omega.shape[0], Omega[:p]
    v = 1 + jnp.stack([Omega[A, A] for A in range(n)])
    scale = 1 / jnp.sqrt(v)
    pairs = arcsine(Omega * scale[:, None] * scale[None, :])
    weight = c[None] / jnp.sqrt(v[:p, None] * v[None, :] - moving * moving)  # (p, C)
    values = sum((pairs[:, C] * c[C] for C in range(n)), start=jnp.zeros(()))
    along = sum(weight[:, None, C] * Omega[None, :, C] for C in range(n))  # (p, B)
    on_itself = sum(weight[:, C] * moving[:, C] for C in range(n))
    slopes = along - moving * (on_itself / v[:p])[:, None]
    pair = {ij: m for m, ij in enumerate(combinations_with_replacement(range(p), 2))}
    upper = _four_fields(Omega, v, c, noise, list(pair))
    V = [jnp.stack([upper[pair[min(i, j), max(i, j)]] for j in range(p)]) for i in range(p)]
    return 2 / np.pi * values, 2 / np.pi * slopes, jnp.stack(V)


def _four_fields(Omega: jax.Array, v: jax.Array, c: jax.Array, noise: jax.Array, pairs: list) -> jax.Array:
    """V for every pair (i, j). Rows are picked one by one: a gather would take number after number."""

    def picked(x: jax.Array, side: int) -> jax.Array:
        return jnp.stack([x[pair[side]] for pair in pairs])

    n, first, second = len(v), picked(Omega, 0), picked(Omega, 1)  # (ij, C)
    one, two, both = picked(v, 0), picked(v, 1), jnp.stack([Omega[pair] for pair in pairs])
    determinant = one * two - both * both
    # As in `node_moments`: what is left given i, then j.
    one, both, rest = one[:, None], both[:, None], (determinant / one)[:, None]
    second = second - first * (both / one)
    left = ((v[None] * one - first * first) / one * rest - second * second) / rest
    scale = 1 / jnp.sqrt(left)
    first, second = first * (scale / jnp.sqrt(one)), second * (scale / jnp.sqrt(rest))
    total = jnp.zeros_like(determinant)
    for C in range(n):
        rho = Omega[C, C:][None] * scale[:, C, None] * scale[:, C:]
        rho = rho - first[:, C, None] * first[:, C:] - second[:, C, None] * second[:, C:]
        turn = arcsine(rho)
        total = total + c[C] * c[C] * turn[:, 0] + sum(2 * c[C] * c[D] * turn[:, D - C] for D in range(C + 1, n))
    return (4 / np.pi**2 * total + 2 / np.pi * noise) / jnp.sqrt(determinant)
