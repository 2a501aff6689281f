r"""Gaussian moments of a weighted sum of functions of fields.

For fields :math:`s \sim N(0, \Omega)`, the first p of one kind ("moving", function f) and the other k of another
("fixed", function g), and the sum :math:`\bar{\mathcal E} = \sum_A c_A \sigma_A(s_A)`:

.. math::
    I_A = E[\sigma_A \bar{\mathcal E}], \qquad
    L_{iB} = E[\sigma'_i\, s_B\, \bar{\mathcal E}], \qquad
    V_{ij} = E[\sigma'_i \sigma'_j (\bar{\mathcal E}^2 + \Delta)]

with i, j moving, A any field, B a field. Five ways to compute them, chosen by `field_sum`: formulas for squares, for
error functions and their mixtures, and for lines bent at zero; exact terms (`expectation`) for other named functions;
and quadrature for any other function.
"""

from abc import abstractmethod
from collections.abc import Callable
from functools import cache
from itertools import combinations_with_replacement, product
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from limitlab.modules import AbstractVar, Module, field, filter_jit
from limitlab.numerics.gauss.bent import bent_moments, bent_values
from limitlab.numerics.gauss.erf import Nodes, erf_nodes, node_moments, node_values
from limitlab.numerics.gauss.rules import SOBOL_POINTS, GaussianRule, normal_rule, trapezoid_steps
from limitlab.numerics.gauss.tables import LANES, TABLE, summed, symmetric
from limitlab.numerics.gauss.terms import Bent, Term, bent, blurred, expectation
from limitlab.numerics.linalg import gram_factor

__all__ = ["AbstractFieldSum", "FieldMoments", "field_sum", "field_sum_bytes"]

FIELD = (Term(1.0, 1),)
# Which of the fields i, j, C, D are one, for i != j (in the second row also with i and j exchanged), and for i = j.
APART = ("ijCD", "ijCC", "ijij")
EITHER = ("ijiD", "ijii")
ALONE = ("iiCD", "iiCC", "iiiD", "iiii")
MIXTURE = "closed form (logistic functions as mixtures of 10 error functions, error below 2e-8)"
MIXTURE_ERROR = 2e-8


class FieldMoments(NamedTuple):
    """The moments I (p+k,), L (p, p+k) and V (p, p) of the module docstring."""

    I: jax.Array
    L: jax.Array
    V: jax.Array


class AbstractFieldSum(Module):
    """A way to compute the moments for functions (f, g), p moving and k fixed fields.

    ``f`` and ``g`` have attributes ``function``, ``derivative``, ``terms`` and ``derivative_terms``.
    """

    f: AbstractVar[Any]
    g: AbstractVar[Any]
    p: AbstractVar[int]
    k: AbstractVar[int]

    @abstractmethod
    def values(self, Omega: jax.Array, c: jax.Array) -> jax.Array:
        """I alone; E of the squared sum is ``c @ I``."""

    @abstractmethod
    def __call__(self, Omega: jax.Array, c: jax.Array, noise: jax.Array | float) -> FieldMoments:
        """All three moments; ``noise`` is Delta."""

    @property
    @abstractmethod
    def name(self) -> str:
        """What was done, in words."""

    @property
    @abstractmethod
    def size(self) -> int:
        """How many numbers ``values`` holds at once; callers batch by it to bound memory."""

    def error(self, Omega: jax.Array, c: jax.Array, noise: jax.Array | float) -> float:
        """Estimated absolute error of the moments at this Omega."""
        return 0.0


def field_sum(f: Any, g: Any, p: int, k: int, method: str = "auto") -> AbstractFieldSum:
    """Choose the best method for the functions; ``method`` may force "closed" or "quadrature"."""
    if method != "quadrature":
        if f.name == g.name == "square" and method == "auto":
            return SquareSum(f, g, p, k)
        if f.terms is not None and g.terms is not None:
            kind = ErfSum if _both(blurred, f, g) else BentSum if _both(bent, f, g) else ClosedSum
            return kind(f, g, p, k)
        if method == "closed":
            raise ValueError(f"no closed form for {f.name} and {g.name}")
    few = p + k in trapezoid_steps
    return QuadratureSum(f, g, p, k, normal_rule(p + k), None if few else normal_rule(2))


def field_sum_bytes(f: Any, g: Any, p: int, k: int, method: str = "auto") -> int:
    """Bytes that all moments of `field_sum` with the same arguments hold at once, without making it.

    The place to change with the way moments are computed; measured on compiled programs.
    """
    n = p + k
    if f.name == g.name == "square" and method == "auto":
        return 8 * 12 * n**2
    if method != "quadrature" and _both(blurred, f, g):
        return _table_bytes(ErfSum(f, g, p, k).count, 8)
    if method != "quadrature" and _both(bent, f, g):
        return _table_bytes(n, 60)
    if method != "quadrature" and f.terms is not None and g.terms is not None:
        return _table_bytes(n, 120 * max(1, -(-_widest(f, g) // TABLE)))
    nodes = 3 * SOBOL_POINTS if n not in trapezoid_steps else 400_000
    return 8 * (6 * n * nodes + 3 * p * n**2)


def _table_bytes(n: int, tables: int) -> int:
    """Bytes of matrices and of pairs of n fields, of a block of pairs, and of so many tables of a piece."""
    return 8 * (24 * n**2 + 8 * LANES * n + tables * TABLE)


class SquareSum(AbstractFieldSum):
    r"""Both functions are squares: with A = diag(c), t1 = tr(A Omega), t2 = tr(A Omega A Omega),

    E[s s^T E] = t1 Omega + 2 Omega A Omega and
    E[s s^T E^2] = (t1^2 + 2 t2) Omega + 4 t1 Omega A Omega + 8 Omega A Omega A Omega.
    """

    f: Any = field(static=True)
    g: Any = field(static=True)
    p: int = field(static=True)
    k: int = field(static=True)

    @property
    def name(self) -> str:
        return "closed form (matrix formula for squares)"

    @property
    def size(self) -> int:
        return 4 * (self.p + self.k) ** 2

    def values(self, Omega, c):
        OA = Omega * c
        return jnp.trace(OA) * jnp.diagonal(Omega) + 2 * jnp.einsum("ab,ba->a", OA, Omega)

    def __call__(self, Omega, c, noise):
        OA = Omega * c
        OAO = OA @ Omega
        t1, t2 = jnp.trace(OA), jnp.einsum("ab,ba->", OA, OA)
        G = t1 * Omega + 2 * OAO
        H = (t1**2 + 2 * t2 + noise) * Omega + 4 * t1 * OAO + 8 * OA @ OAO
        return FieldMoments(jnp.diagonal(G), 2 * G[: self.p], 4 * H[: self.p, : self.p])


Kind = TypeVar("Kind")


def _both(kind: Callable[[Any], Any], f: Any, g: Any) -> bool:
    """Whether both functions are of a kind."""
    return kind(f.terms) is not None and kind(g.terms) is not None


def _known(kind: Callable[[Any], Kind | None], f: Any) -> Kind:
    """A function as the kind that it is of."""
    found = kind(f.terms)
    if found is None:
        raise TypeError(f"{f} is of another kind.")
    return found


class ErfSum(AbstractFieldSum):
    """Both functions are constants plus mixtures of error functions (`numerics.gauss.erf`)."""

    f: Any = field(static=True)
    g: Any = field(static=True)
    p: int = field(static=True)
    k: int = field(static=True)

    @property
    def nodes(self) -> Nodes:
        return erf_nodes(_known(blurred, self.f), _known(blurred, self.g), self.p, self.k)

    @property
    def count(self) -> int:
        """How many nodes there are, without making them."""
        return self.p * len(_known(blurred, self.f).weights) + self.k * len(_known(blurred, self.g).weights)

    @property
    def mixed(self) -> bool:
        """Whether a function is a mixture of several error functions."""
        return self.count > self.p + self.k

    @property
    def name(self) -> str:
        return MIXTURE if self.mixed else "closed form"

    @property
    def size(self) -> int:
        return 8 * self.count**2

    def error(self, Omega, c, noise):
        return MIXTURE_ERROR if self.mixed else 0.0

    def values(self, Omega, c):
        return node_values(Omega, c, self.nodes)

    def __call__(self, Omega, c, noise):
        return FieldMoments(*node_moments(Omega, c, noise, self.nodes))


class BentSum(AbstractFieldSum):
    """Both functions are lines bent at zero (`numerics.gauss.bent`)."""

    f: Any = field(static=True)
    g: Any = field(static=True)
    p: int = field(static=True)
    k: int = field(static=True)

    @property
    def lines(self) -> tuple[Bent, Bent]:
        return _known(bent, self.f), _known(bent, self.g)

    @property
    def name(self) -> str:
        return "closed form"

    @property
    def size(self) -> int:
        return 8 * (self.p + self.k) ** 2

    def values(self, Omega, c):
        return bent_values(Omega, c, *self.lines, self.p)

    def __call__(self, Omega, c, noise):
        return FieldMoments(*bent_moments(Omega, c, noise, *self.lines, self.p))


class ClosedSum(AbstractFieldSum):
    """Exact terms of any two functions that have them.

    Expressions for V are made for blocks of pairs (i, j) times pieces of the pairs (C, D). Where a function has a
    sharp sign it matters which of the four fields are one, sgn(s)^2 = 1: every pattern is an expression of its own.
    """

    f: Any = field(static=True)
    g: Any = field(static=True)
    p: int = field(static=True)
    k: int = field(static=True)

    @property
    def name(self) -> str:
        return MIXTURE if max(_mixture(self.f), _mixture(self.g)) > 1 else "closed form"

    @property
    def size(self) -> int:
        return 8 * (self.p + self.k) ** 2 * (100 if self.name == MIXTURE else 1)

    def error(self, Omega, c, noise):
        return MIXTURE_ERROR if self.name == MIXTURE else 0.0

    @property
    def sharp(self) -> bool:
        return any(t.kind == "sign" and t.tau == 0.0 for t in (*self.f.terms, *self.g.terms))

    @property
    def kinds(self) -> list[tuple[Any, np.ndarray]]:
        """The different functions, and the fields that have them."""
        n = self.p + self.k
        if self.f.terms == self.g.terms or self.k == 0:
            return [(self.f, np.arange(n))]
        return [(self.f, np.arange(self.p)), (self.g, np.arange(self.p, n))]

    def values(self, Omega, c):
        def one(A: Any, B: Any, cov: Callable, labels: list[int] | None) -> tuple[jax.Array]:
            return (expectation([A.terms, B.terms], cov, labels),)

        moving = self._pairs(Omega, one, self.f, np.arange(self.p))[0]
        if self.k == 0:
            return moving @ c
        fixed = self._pairs(Omega, one, self.g, np.arange(self.p, self.p + self.k))[0]
        return jnp.concatenate([moving, fixed]) @ c

    def _pairs(self, Omega: jax.Array, each: Callable, first: Any, fields: np.ndarray) -> tuple[jax.Array, ...]:
        """Tables of what ``each`` gives for the function ``first`` of ``fields`` and that of any field."""
        mixture = _mixture(first) * max(_mixture(self.f), _mixture(self.g))

        def row(A: jax.Array) -> tuple[jax.Array, ...]:
            parts = []
            for second, members in self.kinds:
                entry = {(0, 0): Omega[A, A], (0, 1): Omega[A, members], (1, 1): jnp.diagonal(Omega)[members]}
                here = each(first, second, lambda a, b: jnp.broadcast_to(entry[a, b], members.shape), None)  # noqa: B023
                if self.sharp and first.terms == second.terms:
                    alone = each(first, second, lambda a, b: Omega[A, A], [0, 0])
                    here = tuple(jnp.where(members == A, x, y) for x, y in zip(alone, here, strict=True))
                parts.append(here)
            return tuple(jnp.concatenate(x) for x in zip(*parts, strict=True))

        batch = max(1, TABLE // (len(Omega) * mixture))
        return jax.lax.map(row, jnp.asarray(fields), batch_size=min(batch, len(fields)))

    def _slopes(self, Omega: jax.Array, c: jax.Array) -> jax.Array:
        """L: E[f'_i b f_C] is linear in the covariances of a field b with s_i and s_C."""

        def one(A: Any, B: Any, cov: Callable, labels: list[int] | None) -> tuple[jax.Array, ...]:
            return tuple(_third(A, B, cov, labels, along) for along in ((1.0, 0.0), (0.0, 1.0)))

        first, second = self._pairs(Omega, one, self.f, np.arange(self.p))
        return (second * c) @ Omega + (first @ c)[:, None] * Omega[: self.p]

    def _patterns(self, pattern: str) -> list[tuple[dict[str, Any], tuple[np.ndarray, ...]]]:
        """The functions of all fields named in a pattern, and the free fields C and D, kind by kind."""
        out = []
        free = sorted(set(pattern) & {"C", "D"})
        for chosen in combinations_with_replacement(range(len(self.kinds)), len(free)):
            members = [self.kinds[kind][1] for kind in chosen]
            if self.sharp:  # fields with different names are different
                need = [chosen.count(0) + len(set(pattern) & {"i", "j"}), chosen.count(1)]
                have = [self.p + self.k] if len(self.kinds) == 1 else [self.p, self.k]
                if any(x > y for x, y in zip(need, have, strict=False)):
                    continue
            rows = [x.ravel() for x in np.meshgrid(*members, indexing="ij")] if free else [np.zeros(1, int)]
            if len(free) == 2:
                ordered = rows[0] < rows[1] if self.sharp else rows[0] <= rows[1]
                rows = [x[ordered] for x in rows]
            functions = {name: self.kinds[kind][0] for name, kind in zip(free, chosen, strict=True)}
            out.append(({**functions, "i": self.f, "j": self.f}, tuple(rows)))
        return out

    def _four(self, Omega: jax.Array, c: jax.Array, pattern: str, i: Any, j: Any) -> jax.Array:
        """The sum over the free fields of a pattern such as "ijCD" or "iiiD", for vectors of i and j."""
        labels = [pattern.index(name) for name in pattern] if self.sharp else None
        total = jnp.zeros(len(i))
        for functions, rows in self._patterns(pattern):
            slots = [functions[name].derivative_terms for name in pattern[:2]]
            slots += [functions[name].terms for name in pattern[2:]]
            mixture = int(np.prod([_mixture(functions[name]) for name in pattern]))
            twice = np.full(len(rows[0]), 1.0 if pattern[2] == pattern[3] else 2.0)
            if not self.sharp:
                twice = np.where(rows[0] == rows[-1], 1.0, 2.0)

            def term(*rows, slots=slots):
                *free, weight = (jnp.asarray(x)[:, None] for x in rows)
                index = {"i": jnp.asarray(i)[None], "j": jnp.asarray(j)[None], "C": free[0], "D": free[-1]}
                shape = (len(weight), len(i))
                valid = jnp.ones(shape, bool)
                for x, y in product(sorted(set(pattern) & {"i", "j"}), sorted(set(pattern) & {"C", "D"})):
                    valid &= (index[x] != index[y]) | (not self.sharp)

                @cache
                def between(x: str, y: str) -> jax.Array:
                    return jnp.where(valid, Omega[index[x], index[y]], float(x == y))

                def cov(a: int, b: int) -> jax.Array:
                    return between(*sorted((pattern[a], pattern[b])))

                value = jnp.where(valid, expectation(slots, cov, labels), 0.0)
                return jnp.sum(weight * c[index[pattern[2]]] * c[index[pattern[3]]] * value, axis=0)

            total = total + summed((*rows, twice), len(i) * mixture, term)
        return total

    def __call__(self, Omega, c, noise):
        Omega, c = jnp.asarray(Omega), jnp.asarray(c)
        slope = self.f.derivative_terms

        def block(i, j):
            entry = {(0, 0): Omega[i, i], (0, 1): Omega[i, j], (1, 1): Omega[j, j]}
            two = expectation([slope, slope], lambda a, b: entry[a, b])
            if not self.sharp:
                return noise * two + self._four(Omega, c, "ijCD", i, j)
            both = jnp.concatenate([jnp.asarray(i), j]), jnp.concatenate([jnp.asarray(j), i])
            turned = sum((self._four(Omega, c, pattern, *both) for pattern in EITHER), start=jnp.zeros(2 * len(i)))
            apart = sum(self._four(Omega, c, pattern, i, j) for pattern in APART)
            return noise * two + apart + turned[: len(i)] + turned[len(i) :]

        def diagonal(i):
            two = expectation([slope, slope], lambda a, b: Omega[i, i], [0, 0])
            return noise * two + sum(self._four(Omega, c, pattern, i, i) for pattern in ALONE)

        lanes = max(1, min(LANES, TABLE // _widest(self.f, self.g)))
        V = symmetric(self.p, block, diagonal if self.sharp else None, lanes)
        return FieldMoments(self.values(Omega, c), self._slopes(Omega, c), V)


def _mixture(f: Any) -> int:
    """How many error functions a function is a mixture of."""
    return max((len(t.tau) if isinstance(t.tau, tuple) else 1 for t in f.terms), default=1)


def _widest(f: Any, g: Any) -> int:
    """Entries of a four-field moment as a product of mixtures."""
    return (_mixture(f) * max(_mixture(f), _mixture(g))) ** 2


def _third(A: Any, B: Any, cov: Callable, labels: list[int] | None, along: tuple[float, float]) -> jax.Array:
    """E[A'(s) b B(t)] of a field b of variance one, whose covariances with s and t are ``along``."""
    if labels is not None:  # s and t are one field
        along = (along[0], along[0])
    entry = {(0, 0): cov(0, 0), (0, 2): cov(0, 1), (2, 2): cov(1, 1) if labels is None else cov(0, 0)}
    one = jnp.ones_like(entry[0, 0])
    entry |= {(0, 1): along[0] * one, (1, 1): one, (1, 2): along[1] * one}
    slots = [A.derivative_terms, FIELD, B.terms]
    return expectation(slots, lambda a, b: entry[a, b], None if labels is None else [0, 1, 0])


@filter_jit
def _difference(one: AbstractFieldSum, other: AbstractFieldSum, Omega: jax.Array, c: jax.Array, noise: jax.Array):
    """The largest difference between any of their moments."""
    both = zip(one(Omega, c, noise), other(Omega, c, noise), strict=True)
    return jnp.max(jnp.stack([jnp.max(jnp.abs(x - y)) for x, y in both]))


class QuadratureSum(AbstractFieldSum):
    """Any functions. Up to four fields: one trapezoid rule for all fields at once.

    More fields: I and L need pairs of fields only (two-dimensional trapezoid rule, ``pair_rule``); V is averaged
    over scrambled Sobol points in all fields.
    """

    f: Any = field(static=True)
    g: Any = field(static=True)
    p: int = field(static=True)
    k: int = field(static=True)
    rule: GaussianRule
    pair_rule: GaussianRule | None

    @property
    def name(self) -> str:
        pairs = "" if self.pair_rule is None else f", and for terms of two fields the {self.pair_rule.name}"
        return f"quadrature: {self.rule.name}{pairs}"

    @property
    def size(self) -> int:
        return 4 * (self.p + self.k) * (self.rule if self.pair_rule is None else self.pair_rule).nodes.shape[0]

    def error(self, Omega, c, noise):
        pair = None if self.pair_rule is None else normal_rule(2, twin=True)
        twin = QuadratureSum(self.f, self.g, self.p, self.k, normal_rule(self.p + self.k, twin=True), pair)
        return float(_difference(self, twin, Omega, c, jnp.asarray(noise, float)))

    def _at_nodes(self, Omega: jax.Array, c: jax.Array):
        s = jnp.asarray(self.rule.nodes) @ gram_factor(Omega).T
        value = jnp.concatenate(
            [jax.vmap(jax.vmap(self.f.function))(s[:, : self.p]), jax.vmap(jax.vmap(self.g.function))(s[:, self.p :])],
            axis=1,
        )
        slope = jax.vmap(jax.vmap(self.f.derivative))(s[:, : self.p])
        return s, value, slope, value @ c, jnp.asarray(self.rule.weights)

    def _pairs(self, Omega: jax.Array, c: jax.Array) -> tuple[jax.Array, jax.Array]:
        r"""I and L from pairs (i, C): write s_i = l z_1, s_C = b z_1 + e z_2; then for any third field
        E[sigma'_i s_B sigma_C] = cov(s_B, z_1) E[sigma'_i z_1 sigma_C] + cov(s_B, z_2) E[sigma'_i z_2 sigma_C]."""
        assert self.pair_rule is not None
        n, w = self.p + self.k, jnp.asarray(self.pair_rule.weights)
        z1, z2 = jnp.asarray(self.pair_rule.nodes).T
        variance = jnp.diagonal(Omega)
        scale = jnp.sqrt(jnp.maximum(variance, 1e-300))

        def pair(i: jax.Array, C: jax.Array, first: Any, second: Any) -> jax.Array:
            b = Omega[i, C] / scale[i]
            e = jnp.sqrt(jnp.maximum(variance[C] - b**2, 0.0))
            other = w * jax.vmap(second.function)(b * z1 + e * z2)
            value = jnp.sum(jax.vmap(first.function)(scale[i] * z1) * other)
            slope = jax.vmap(first.derivative)(scale[i] * z1) * other
            return jnp.stack([value, jnp.sum(slope * z1), jnp.sum(slope * z2), b, e])

        def table(rows: np.ndarray, columns: np.ndarray, first: Any, second: Any) -> jax.Array:
            i, C = (jnp.asarray(x.ravel()) for x in np.meshgrid(rows, columns, indexing="ij"))
            out = jax.lax.map(lambda ic: pair(ic[0], ic[1], first, second), (i, C))
            return out.reshape(len(rows), len(columns), 5)

        moving, fixed = np.arange(self.p), np.arange(self.p, n)
        top = jnp.concatenate(
            [table(moving, moving, self.f, self.f), table(moving, fixed, self.f, self.g)], axis=1
        )  # (p, n, 5)
        corner = table(fixed, fixed, self.g, self.g)[..., 0]
        values = jnp.concatenate([top[..., 0], jnp.concatenate([top[:, self.p :, 0].T, corner], axis=1)], axis=0)
        t1, t2, b, e = (top[..., m] for m in range(1, 5))
        on_first = Omega[: self.p] / scale[: self.p, None]  # cov(s_B, z_1): (p, n)
        safe = jnp.where(e > 1e-7 * scale[None, :], e, jnp.inf)  # s_C a copy of s_i: no second direction
        on_second = (Omega[None, :, :] - b[..., None] * on_first[:, None, :]) / safe[..., None]  # (p, C, B)
        L = jnp.einsum("ic,c,ib->ib", t1, c, on_first) + jnp.einsum("ic,c,icb->ib", t2, c, on_second)
        return values @ c, L

    def values(self, Omega, c):
        if self.pair_rule is not None:
            return self._pairs(Omega, c)[0]
        _, value, _, total, w = self._at_nodes(Omega, c)
        return (w * total) @ value

    def __call__(self, Omega, c, noise):
        s, value, slope, total, w = self._at_nodes(Omega, c)
        V = (slope * (w * (total**2 + noise))[:, None]).T @ slope
        if self.pair_rule is not None:
            return FieldMoments(*self._pairs(Omega, c), V)
        weighted = (w * total)[:, None]
        return FieldMoments((w * total) @ value, (slope * weighted).T @ s, V)
