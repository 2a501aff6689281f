r"""The moments of `field_sum` for lines bent at zero: :math:`\sigma(s) = a s + b |s|` (relu, abs, linear).

With correlations r of the fields, all scaled to variance 1, Gaussian integration by parts leaves products of
:math:`a + b\,\mathrm{sgn}` and

.. math::
    E[f'_i f'_j f_C f_D] = r_{CD}\, E[G] + \frac2\pi \sum_{k<m} b_k b_m \frac{K_{km}}{\sqrt{1 - r_{km}^2}}
        \Big(a_p a_q + \frac2\pi b_p b_q \arcsin \rho_{pq|km}\Big),
    \qquad G = \prod_{k \in \{i,j,C,D\}} (a_k + b_k\, \mathrm{sgn}_k)

where p and q are the other two fields, :math:`\rho_{pq|km}` is their correlation once k and m are known to be zero,

.. math::
    K_{kD} = r_{Ck} (1 - r_{kD}^2), \quad K_{kC} = r_{Dk} (1 - r_{kC}^2), \quad K_{CD} = 1 - r_{CD}^2, \quad
    K_{ij} = r_{Ci} (r_{Dj} - r_{Di} r_{ij}) + r_{Cj} (r_{Di} - r_{Dj} r_{ij})

and E[G] has arcsines of the correlations themselves and the mean of four signs (`four_signs`). Fields that coincide
share one sign, :math:`(a + b\,\mathrm{sgn})(a' + b'\,\mathrm{sgn}) = aa' + bb' + (ab' + ba')\,\mathrm{sgn}`: the
product goes to one of them and the other keeps a factor one. The mean of four signs does not care which two of four
different fields are i and j, so that it is computed once for each set of four and given to all six pairs.
"""

from functools import reduce
from itertools import combinations
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from limitlab.numerics.gauss.angles import angle, arcsine
from limitlab.numerics.gauss.tables import LANES, TABLE, pieces, summed, symmetric, upper_pairs
from limitlab.numerics.gauss.terms import Bent, four_signs, minor, three_determinants
from limitlab.numerics.trees import as_array

__all__ = ["bent_moments", "bent_values"]

ROUNDING = 1e-15
PLANE = 1e-8  # variance of the noise where fields lie in a plane
TINY = 1e-300
Moments = tuple[jax.Array, jax.Array, jax.Array]


class _Fields(NamedTuple):
    """Sizes d, correlations r, their arcsines and roots of 1 - r^2, and the functions a + b sgn."""

    Omega: jax.Array
    d: jax.Array
    r: jax.Array
    angles: jax.Array
    roots: jax.Array
    line: np.ndarray
    bend: np.ndarray


def _fields(Omega: jax.Array, f: Bent, g: Bent, p: int) -> _Fields:
    n, variance = len(Omega), jnp.diagonal(Omega)
    d = jnp.sqrt(jnp.maximum(variance, TINY))
    product = variance[:, None] * variance
    determinant = jnp.maximum(product - Omega * Omega, 0.0)
    apart = determinant > 0.0
    root = jnp.where(apart, jnp.sqrt(jnp.where(apart, determinant, 1.0)), 0.0)
    scale = 1 / d
    return _Fields(
        Omega,
        d,
        jnp.clip(Omega * scale[:, None] * scale, -1.0, 1.0),
        angle(Omega, jnp.maximum(root, TINY)),
        root * scale[:, None] * scale,
        np.asarray([f.line] * p + [g.line] * (n - p)),
        np.asarray([f.bend] * p + [g.bend] * (n - p)),
    )


def bent_values(Omega: jax.Array, c: jax.Array, f: Bent, g: Bent, p: int) -> jax.Array:
    """I (n,)."""
    return _values(_fields(Omega, f, g, p), c)


def _values(x: _Fields, c: jax.Array) -> jax.Array:
    both = x.bend[:, None] * x.bend
    table = (x.line[:, None] * x.line + 2 / np.pi * both * x.angles) * x.Omega
    table = table + 2 / np.pi * both * x.roots * x.d[:, None] * x.d
    return _with_diagonal(as_array(table), (x.line**2 + x.bend**2) * jnp.diagonal(x.Omega)) @ c


def _with_diagonal(table: Any, diagonal: Any) -> jax.Array:
    return jnp.where(np.eye(*table.shape, dtype=bool), diagonal[: len(table), None], table)


def bent_moments(Omega: jax.Array, c: jax.Array, noise: jax.Array | float, f: Bent, g: Bent, p: int) -> Moments:
    """I (n,), L (p, n) and V (p, p)."""
    Omega, c = jnp.asarray(Omega), jnp.asarray(c)
    x = _fields(Omega, f, g, p)
    a, b = x.line, x.bend
    # E[f'_i s_B f_C] = Omega_iB E[2 b_i delta_i f_C] + Omega_CB E[f'_i f'_C], and for C = i a multiple of Omega_iB.
    slopes = _with_diagonal(as_array(a[:p, None] * a + 2 / np.pi * b[:p, None] * b * x.angles[:p]), a**2 + b**2)
    pull = 2 / np.pi * b[:p, None] * b * x.roots[:p] * x.d
    pull = _with_diagonal(as_array(pull), np.zeros(len(a))) @ c / x.d[:p]
    L = (slopes * c) @ Omega + pull[:, None] * Omega[:p]
    V = _four_fields(x, c, p) + noise * slopes[:, :p]
    if f.bend != 0.0:
        V = V + _four_signs(x, c, p)
    return _values(x, c), L, V


def _merged(a, b, other_a, other_b, where):
    """(a + b sgn)(a' + b' sgn) where the two signs are one."""
    return jnp.where(where, a * other_a + b * other_b, a), jnp.where(where, a * other_b + b * other_a, b)


def _four_fields(x: _Fields, c: jax.Array, p: int) -> jax.Array:
    """sum_CD c_C c_D E[f'_i f'_j f_C f_D] without the means of four signs."""
    C, D = upper_pairs(len(x.d))
    same = C == D
    line, bend = _merged_rows(x, C, D)
    rows = (
        C,
        D,
        *line,
        *bend,
        jnp.where(same, 1.0, x.r[C, D]),
        x.angles[C, D],
        x.roots[C, D],
        np.where(same, 1.0, 2.0) * (c * x.d)[C] * (c * x.d)[D],
    )

    def block(i, j):
        one, two = i == j, i != j
        i, j = jnp.asarray(i), jnp.asarray(j)
        line, bend = jnp.asarray(x.line), jnp.asarray(x.bend)
        aj, bj = _merged(line[j], bend[j], line[i], bend[i], one)
        ai, bi = jnp.where(two, line[i], 1.0), jnp.where(two, bend[i], 0.0)
        r_i, r_j, angle_i, angle_j, root_i, root_j = (
            table[:, side] for table in (x.r, x.angles, x.roots) for side in (i, j)
        )
        between = x.r[i, j], x.angles[i, j]

        def term(C, D, aC, aD, bC, bD, r_CD, angle_CD, root_CD, weight):
            C, D = (jnp.asarray(side)[:, None] for side in (C, D))
            aC, aD, bC, bD, r_CD, angle_CD, root_CD = (
                jnp.asarray(y)[:, None] for y in (aC, aD, bC, bD, r_CD, angle_CD, root_CD)
            )
            a, b = [ai, aj, aC, aD], [bi, bj, bC, bD]
            free = []
            for slot, side in ((0, i), (1, j)):
                in_C = side == C
                in_D = (side == D) & ~in_C
                a[2], b[2] = _merged(a[2], b[2], a[slot], b[slot], in_C)
                a[3], b[3] = _merged(a[3], b[3], a[slot], b[slot], in_D)
                free.append(~(in_C | in_D))
                a[slot], b[slot] = jnp.where(free[slot], a[slot], 1.0), jnp.where(free[slot], b[slot], 0.0)
            C, D = C[:, 0], D[:, 0]
            r = {
                (0, 1): jnp.where(free[0] & free[1], between[0], 0.0),
                (0, 2): jnp.where(free[0], r_i[C], 0.0),
                (0, 3): jnp.where(free[0], r_i[D], 0.0),
                (1, 2): jnp.where(free[1], r_j[C], 0.0),
                (1, 3): jnp.where(free[1], r_j[D], 0.0),
                (2, 3): r_CD,
            }
            angles = {
                (0, 1): between[1],
                (0, 2): angle_i[C],
                (0, 3): angle_i[D],
                (1, 2): angle_j[C],
                (1, 3): angle_j[D],
                (2, 3): angle_CD,
            }
            roots = {(0, 2): root_i[C], (0, 3): root_i[D], (1, 2): root_j[C], (1, 3): root_j[D], (2, 3): root_CD}
            return weight @ _parts(a, b, r, angles, roots)

        return summed(rows, len(i), term)

    return symmetric(p, block)


def _merged_rows(x: _Fields, C: np.ndarray, D: np.ndarray) -> tuple[tuple, tuple]:
    """The functions at C and D; where they are one field, C has the product of both signs."""
    same = C == D
    a, b = x.line, x.bend
    aC, bC = np.where(same, a[C] * a[C] + b[C] * b[C], a[C]), np.where(same, 2 * a[C] * b[C], b[C])
    return (aC, np.where(same, 1.0, a[D])), (bC, np.where(same, 0.0, b[D]))


def _parts(a: list, b: list, r: dict, angles: dict, roots: dict) -> Any:
    """The formula of the module docstring, for variances one and without the mean of four signs."""
    determinants, noise = three_determinants(r), _noise_of_three(r)
    noisy, alive = _noisy(r, determinants)
    scale = [
        jnp.where(ok, 1 / jnp.sqrt(jnp.where(ok, jnp.maximum(x, 0.0) + noisy * (s + 3 * noisy), 1.0)), 0.0)
        for x, s, ok in zip(determinants, noise, alive, strict=True)
    ]
    crossed = r[0, 2] * (r[1, 3] - r[0, 3] * r[0, 1]) + r[1, 2] * (r[0, 3] - r[1, 3] * r[0, 1])
    share = {
        (0, 1): crossed / jnp.sqrt(jnp.maximum(1 - r[0, 1] * r[0, 1], ROUNDING)),
        (0, 2): r[0, 3] * roots[0, 2],
        (0, 3): r[0, 2] * roots[0, 3],
        (1, 2): r[1, 3] * roots[1, 2],
        (1, 3): r[1, 2] * roots[1, 3],
        (2, 3): roots[2, 3],
    }
    signs = a[0] * a[1] * a[2] * a[3]
    total = 0.0
    for (k, m), part in share.items():
        p, q = (s for s in range(4) if s not in (k, m))
        lines, bends = a[p] * a[q], b[p] * b[q]
        left = minor(r, k, m, p, q) + noisy * (_noise_of_two(r, k, m, p, q) + noisy * r[p, q])
        between = arcsine(left * scale[p] * scale[q])
        total = total + b[k] * b[m] * part * (lines + 2 / np.pi * bends * between)
        signs = signs + 2 / np.pi * b[k] * b[m] * lines * angles[k, m]
    return r[2, 3] * signs + 2 / np.pi * total


def _noisy(r: dict, determinants: list) -> tuple[Any, list]:
    r"""How much noise the four fields are given, and in which three of them no field follows from the two others.

    In a plane two fields are both zero where two others are, and the correlation of what is left of them depends on how
    the plane is approached; the sum over all pairs does not. So all fields get independent noise of one small variance
    there, as little as makes rounding harmless (1e-8, and next to nothing where no two fields are lost at once). A
    single field that follows from the other two keeps no correlation with the one that does not: that needs no noise.
    """
    lost, r, determinants = 1.0, *jax.lax.stop_gradient((r, determinants))
    for left, other in combinations(range(4), 2):  # of three: without one of these two, which are the fields p, q
        k, m = (s for s in range(4) if s not in (left, other))
        apart = 1 - r[k, m] * r[k, m]
        known = apart > ROUNDING
        spread = jnp.maximum(determinants[left], determinants[other]) / jnp.where(known, apart, 1.0)
        lost = jnp.minimum(lost, jnp.where(known, spread, 1.0))
    noisy = jnp.minimum(PLANE, ROUNDING / 10 / jnp.maximum(lost, TINY))
    alive = []
    for left, determinant in enumerate(determinants):
        widest = reduce(jnp.minimum, (x * x for pair, x in r.items() if left not in pair))
        alive.append((determinant > ROUNDING * (1 - widest)) | (noisy >= PLANE))
    return noisy, alive


def _noise_of_three(r: dict) -> list:
    """What noise of variance one on each of three fields adds to `three_determinants`, to first order."""
    return [sum(1 - x * x for pair, x in r.items() if left not in pair) for left in range(4)]


def _noise_of_two(r: dict, k: int, m: int, p: int, q: int) -> Any:
    """What it adds to `minor`: the covariance of p and q, once k and m are known with noise."""

    def at(a: int, b: int) -> Any:
        return r[(a, b) if a < b else (b, a)]

    return 2 * at(p, q) - at(p, k) * at(k, q) - at(p, m) * at(m, q)


def _four_signs(x: _Fields, c: jax.Array, p: int) -> jax.Array:
    """What the means of four signs add to V: for each set i < j < C < D to all six pairs of it."""
    n = len(x.d)
    if n < 4 or p < 2:
        return jnp.zeros((p, p))
    # Pairs (i, j) with j growing, pairs (C, D) with C falling: those with C > j come first for every i, j.
    j, i = np.tril_indices(p, -1)
    C, D = (side[::-1] for side in np.triu_indices(n, 1))
    blocks, lanes = pieces(len(i), LANES)
    chunks, length = pieces(len(C), max(1, TABLE // lanes))
    i, j = (np.concatenate([side, np.full(blocks * lanes - len(i), n)]).reshape(blocks, lanes) for side in (i, j))
    C, D = (np.concatenate([side, np.full(chunks * length - len(C), -1)]).reshape(chunks, length) for side in (C, D))
    needed = [(m, q) for m in range(blocks) for q in range(chunks) if np.max(C[q]) > np.min(j[m])]

    pairs, others = [jnp.asarray(side) for side in (i, j)], [jnp.asarray(side) for side in (C, D)]

    def piece(total: jax.Array, where) -> tuple[jax.Array, None]:
        (i, j), (C, D) = (side[where[0]] for side in pairs), (side[where[1]] for side in others)
        here = (j[None] < C[:, None]) & (j[None] < n)
        i, j, C, D = jnp.minimum(i, n - 1), jnp.minimum(j, n - 1), jnp.maximum(C, 0), jnp.maximum(D, 0)
        fields = (i, j, C, D)

        def at(table: jax.Array, k: int, m: int) -> jax.Array:
            first = table[:, fields[k]] if k < 2 else None
            if m < 2:
                return table[fields[k], fields[m]][None]
            if first is None:
                return table[fields[k], fields[m]][:, None]
            return first[fields[m]]

        mean = four_signs({km: jnp.where(here, at(x.r, *km), 0.0) for km in combinations(range(4), 2)})
        bend = jnp.asarray(x.bend)
        mean = jnp.where(here, mean, 0.0) * (bend[i] * bend[j]) * (bend[C] * bend[D])[:, None]
        strength = c[:, None] * c * x.Omega
        to = [jax.nn.one_hot(side, n, dtype=mean.dtype) for side in fields]
        # strength of the other two fields, summed into the row of the one and the column of the other
        total = total + (to[0] * (at(strength, 2, 3)[:, 0] @ mean)[:, None]).T @ to[1]
        total = total + (to[2] * (mean @ at(strength, 0, 1)[0])[:, None]).T @ to[3]
        for k, m in ((0, 2), (0, 3), (1, 2), (1, 3)):
            total = total + to[k].T @ (at(strength, 1 - k, 5 - m) * mean).T @ to[m]
        return total, None

    total = jax.lax.scan(piece, jnp.zeros((n, n)), jnp.asarray(needed))[0]
    return 2 * (total + total.T)[:p, :p]
