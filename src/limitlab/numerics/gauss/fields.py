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
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from limitlab.numerics.gauss.bent import bent_moments, bent_values
from limitlab.numerics.gauss.erf import Nodes, erf_nodes, node_moments, node_values
from limitlab.numerics.gauss.rules import SOBOL_POINTS, GaussianRule, normal_rule, trapezoid_steps
from limitlab.numerics.gauss.tables import LANES, TABLE
from limitlab.numerics.gauss.terms import Bent, Term, bent, blurred, expectation
from limitlab.numerics.linalg import gram_factor

__all__ = ["AbstractFieldSum", "FieldMoments", "field_sum", "field_sum_bytes"]

FIELD = (Term(1.0, 1),)
CHUNK = 2**22  # numbers held at once by one table of four-field moments (32 MiB)
ROW = 200  # bytes of a row of field indices, and of its copies while they are compiled
MIXTURE = "closed form (logistic functions as mixtures of 10 error functions, error below 2e-8)"
MIXTURE_ERROR = 2e-8
NUMBERS = 60  # numbers held at once for an entry of such a table


class FieldMoments(NamedTuple):
    """The moments I (p+k,), L (p, p+k) and V (p, p) of the module docstring."""

    I: jax.Array
    L: jax.Array
    V: jax.Array


class AbstractFieldSum(eqx.Module):
    """A way to compute the moments for functions (f, g), p moving and k fixed fields.

    ``f`` and ``g`` have attributes ``function``, ``derivative``, ``terms`` and ``derivative_terms``.
    """

    f: eqx.AbstractVar[Any]
    g: eqx.AbstractVar[Any]
    p: eqx.AbstractVar[int]
    k: eqx.AbstractVar[int]

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
        return _table_bytes(len(ErfSum(f, g, p, k).nodes.field), 8)
    if method != "quadrature" and _both(bent, f, g):
        return _table_bytes(n, 60)
    if method != "quadrature" and f.terms is not None and g.terms is not None:
        fours, threes = p * (p + 1) * n * (n + 1) // 4, p * n**2
        mixture = max(len(t.tau) if isinstance(t.tau, tuple) else 1 for t in (*f.terms, *g.terms))
        rows = min(fours * mixture**4, CHUNK) if mixture > 1 else min(fours, CHUNK)
        return ROW * fours + ROW * threes + 8 * NUMBERS * rows
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

    f: Any = eqx.field(static=True)
    g: Any = eqx.field(static=True)
    p: int = eqx.field(static=True)
    k: int = eqx.field(static=True)

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


def _both(kind: Callable[[Any], Any], f: Any, g: Any) -> bool:
    """Whether both functions are of a kind."""
    return kind(f.terms) is not None and kind(g.terms) is not None


class ErfSum(AbstractFieldSum):
    """Both functions are constants plus mixtures of error functions (`numerics.gauss.erf`)."""

    f: Any = eqx.field(static=True)
    g: Any = eqx.field(static=True)
    p: int = eqx.field(static=True)
    k: int = eqx.field(static=True)

    @property
    def nodes(self) -> Nodes:
        f, g = blurred(self.f.terms), blurred(self.g.terms)
        assert f is not None and g is not None
        return erf_nodes(f, g, self.p, self.k)

    @property
    def mixed(self) -> bool:
        """Whether a function is a mixture of several error functions."""
        return len(self.nodes.field) > self.p + self.k

    @property
    def name(self) -> str:
        return MIXTURE if self.mixed else "closed form"

    @property
    def size(self) -> int:
        return 8 * len(self.nodes.field) ** 2

    def error(self, Omega, c, noise):
        return MIXTURE_ERROR if self.mixed else 0.0

    def values(self, Omega, c):
        return node_values(Omega, c, self.nodes)

    def __call__(self, Omega, c, noise):
        return FieldMoments(*node_moments(Omega, c, noise, self.nodes))


class BentSum(AbstractFieldSum):
    """Both functions are lines bent at zero (`numerics.gauss.bent`)."""

    f: Any = eqx.field(static=True)
    g: Any = eqx.field(static=True)
    p: int = eqx.field(static=True)
    k: int = eqx.field(static=True)

    @property
    def lines(self) -> tuple[Bent, Bent]:
        f, g = bent(self.f.terms), bent(self.g.terms)
        assert f is not None and g is not None
        return f, g

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
    """Exact terms. Four-field moments are evaluated for all index tuples (i <= j, C <= D) at once."""

    f: Any = eqx.field(static=True)
    g: Any = eqx.field(static=True)
    p: int = eqx.field(static=True)
    k: int = eqx.field(static=True)

    @property
    def name(self) -> str:
        return MIXTURE if any(isinstance(t.tau, tuple) for t in (*self.f.terms, *self.g.terms)) else "closed form"

    @property
    def size(self) -> int:
        return 8 * (self.p + self.k) ** 2 * (100 if self.name == MIXTURE else 1)

    def error(self, Omega, c, noise):
        return MIXTURE_ERROR if self.name == MIXTURE else 0.0

    def _moments(self, Omega: jax.Array, tuples: np.ndarray, roles: str) -> jax.Array:
        """E of a product over slots, for every row of field indices. Roles: s(lope), v(alue), x (the field itself).

        Rows are grouped by which functions they involve and, where a function has a sharp sign, by which of their
        indices coincide; each group is one vectorised expression.
        """
        kind = (tuples >= self.p).astype(int)
        kind[:, [r == "x" for r in roles]] = 0
        sharp = any(t.kind == "sign" and t.tau == 0.0 for t in (*self.f.terms, *self.g.terms))
        signature = kind
        if sharp:
            first = np.stack([np.argmax(tuples == tuples[:, [s]], axis=1) for s in range(len(roles))], axis=1)
            signature = np.concatenate([kind, first], axis=1)
        out = jnp.zeros(len(tuples))
        for row in np.unique(signature, axis=0):
            members = np.nonzero(np.all(signature == row, axis=1))[0]
            functions = [(self.f, self.g)[i] for i in row[: len(roles)]]
            slots = [
                FIELD if r == "x" else (h.terms if r == "v" else h.derivative_terms)
                for r, h in zip(roles, functions, strict=True)
            ]
            labels = row[len(roles) :].tolist() if sharp else None
            out = out.at[members].set(_chunked(Omega, tuples[members], slots, labels))
        return out

    def values(self, Omega, c):
        n = self.p + self.k
        a, b = np.triu_indices(n)
        upper = self._moments(Omega, np.stack([a, b], axis=1), "vv")
        table = jnp.zeros((n, n)).at[a, b].set(upper).at[b, a].set(upper)
        return table @ c

    def __call__(self, Omega, c, noise):
        p, n = self.p, self.p + self.k
        triples = np.stack(np.meshgrid(np.arange(p), np.arange(n), np.arange(n), indexing="ij"), axis=-1)
        L = self._moments(Omega, triples.reshape(-1, 3), "sxv").reshape(p, n, n) @ c
        i, j = np.triu_indices(p)
        a, b = np.triu_indices(n)
        weight = jnp.where(a == b, 1.0, 2.0) * c[a] * c[b]
        quads = np.concatenate(
            [np.repeat(np.stack([i, j], axis=1), len(a), axis=0), np.tile(np.stack([a, b], axis=1), (len(i), 1))],
            axis=1,
        )
        upper = self._moments(Omega, quads, "ssvv").reshape(len(i), len(a)) @ weight
        upper = upper + noise * self._moments(Omega, np.stack([i, j], axis=1), "ss")
        V = jnp.zeros((p, p)).at[i, j].set(upper).at[j, i].set(upper)
        return FieldMoments(self.values(Omega, c), L, V)


def _chunked(Omega: jax.Array, tuples: np.ndarray, slots: list, labels: list[int] | None) -> jax.Array:
    """`expectation` over rows of indices; split into equal pieces when a mixture makes the table too large."""
    mixture = int(np.prod([max(len(t.tau) if isinstance(t.tau, tuple) else 1 for t in s) for s in slots]))

    def at(rows: jax.Array | np.ndarray) -> jax.Array:
        return expectation(slots, lambda a, b: Omega[rows[:, a], rows[:, b]], labels)

    if len(tuples) * mixture <= CHUNK:
        return at(tuples)
    size = max(1, CHUNK // mixture)
    padded = np.concatenate([tuples, np.repeat(tuples[-1:], -len(tuples) % size, axis=0)])
    return jax.lax.map(at, jnp.asarray(padded.reshape(-1, size, tuples.shape[1]))).ravel()[: len(tuples)]


class QuadratureSum(AbstractFieldSum):
    """Any functions. Up to four fields: one trapezoid rule for all fields at once.

    More fields: I and L need pairs of fields only (two-dimensional trapezoid rule, ``pair_rule``); V is averaged
    over scrambled Sobol points in all fields.
    """

    f: Any = eqx.field(static=True)
    g: Any = eqx.field(static=True)
    p: int = eqx.field(static=True)
    k: int = eqx.field(static=True)
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
        here, there = self(Omega, c, noise), twin(Omega, c, noise)
        return float(max(jnp.max(jnp.abs(x - y)) for x, y in zip(here, there, strict=True)))

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
