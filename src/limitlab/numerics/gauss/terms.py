r"""Exact Gaussian expectations of products of piecewise polynomials, up to four fields.

.. math::
    E\Big[\prod_a s_a^{n_a} \prod_{c} \mathrm{sgn}(s_c + \tau_c \xi_c) \prod_e \delta(s_e + \tau_e \xi_e)\Big],
    \qquad s \sim N(0, C), \quad \xi \sim N(0, I)

Many activations are sums of such terms: a linear unit is ``s``, a square is ``s**2``, a rectifier is
``s (1 + sgn s)/2``, erf(s/sqrt2) is ``sgn(s + xi)`` averaged over ``xi``, and tanh is a mixture of the last kind
(`logistic_mixture`). One recursion then serves all of them:

* a delta conditions the Gaussian on its argument being zero (a Schur complement);
* a power is removed by Gaussian integration by parts, which either lowers another power or turns a sign into
  a delta;
* what is left is a product of signs: 1, (2/pi) asin(rho), and for four signs one smooth integral over an angle
  (Plackett's identity), done with 20 Gauss-Legendre nodes.

The recursion runs while JAX traces, on covariance entries that may be arrays of any common shape, so that one
trace serves all index tuples of a network.
"""

from collections.abc import Callable, Sequence
from functools import cache
from itertools import product
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from limitlab.numerics.gauss.angles import arcsine
from limitlab.numerics.gauss.rules import legendre

__all__ = [
    "Bent",
    "Blurred",
    "Term",
    "bent",
    "blurred",
    "derivative_terms",
    "expectation",
    "four_signs",
    "logistic_mixture",
    "minor",
    "polynomial_terms",
    "three_determinants",
]

TINY = 1e-300
LAYER = 0.003  # share of the nodes of four signs that is spread evenly
ROUNDING = 1e-15


class Term(NamedTuple):
    """One summand ``coefficient * s**power * kind(s + tau*xi)`` of a function of a scalar field.

    Tuples for ``coefficient`` and ``tau`` stand for the sum over their entries (a mixture).
    """

    coefficient: float | tuple[float, ...]
    power: int = 0
    kind: Literal["one", "sign", "delta"] = "one"
    tau: float | tuple[float, ...] = 0.0

    def scaled(self, by: float) -> "Term":
        c = self.coefficient
        return self._replace(coefficient=tuple(by * x for x in c) if isinstance(c, tuple) else by * c)


def polynomial_terms(coefficients: Sequence[float]) -> tuple[Term, ...]:
    """Terms of ``sum_n coefficients[n] * s**n``."""
    return tuple(Term(float(c), n) for n, c in enumerate(coefficients) if c != 0.0)


def derivative_terms(terms: Sequence[Term]) -> tuple[Term, ...]:
    """Terms of the derivative: d/ds of s**n * sgn(s + tau xi) is n s**(n-1) sgn + 2 s**n delta."""
    out = []
    for term in terms:
        if term.kind == "delta":
            raise ValueError("a delta is not differentiated here")
        if term.power > 0:
            out.append(term.scaled(float(term.power))._replace(power=term.power - 1))
        if term.kind == "sign" and not (term.power > 0 and term.tau == 0.0):  # s * delta(s) = 0
            out.append(term.scaled(2.0)._replace(kind="delta"))
    return tuple(out)


class Blurred(NamedTuple):
    """A constant plus a mixture of error functions: sum_m weights_m E sgn(s + taus_m xi)."""

    constant: float
    weights: tuple[float, ...]
    taus: tuple[float, ...]


class Bent(NamedTuple):
    """A line bent at zero: line * s + bend * |s|."""

    line: float
    bend: float


def blurred(terms: Sequence[Term] | None) -> Blurred | None:
    """The terms as a constant plus error functions; None if they are anything else."""
    constant, weights, taus = 0.0, (), ()
    for term in terms or ():
        tau = term.tau if isinstance(term.tau, tuple) else (term.tau,)
        weight = term.coefficient if isinstance(term.coefficient, tuple) else (term.coefficient,)
        if term.kind == "sign" and term.power == 0 and min(tau) > 0.0:
            weights, taus = weights + weight, taus + tau
        elif term.kind == "one" and term.power == 0:
            constant += sum(weight)
        else:
            return None
    return Blurred(constant, weights, taus) if weights else None


def bent(terms: Sequence[Term] | None) -> Bent | None:
    """The terms as a line with a bend at zero; None if they are anything else."""
    slope = {"one": 0.0, "sign": 0.0}
    for term in terms or ():
        if term.power != 1 or term.kind == "delta" or term.tau != 0.0 or isinstance(term.coefficient, tuple):
            return None
        slope[term.kind] += term.coefficient
    return Bent(slope["one"], slope["sign"]) if terms else None


@cache
def logistic_mixture(nodes: int = 10) -> tuple[tuple[float, float], ...]:
    r"""Pairs (weight, tau) with sigmoid(x) = sum_k weight_k Phi(x / tau_k).

    The logistic law is a normal law whose standard deviation is twice a Kolmogorov variable. Gauss quadrature of
    the Kolmogorov density in the logarithm of that variable converges geometrically; the error of sigmoid is
    9e-8, 7e-9, 7e-10 at 8, 10, 12 nodes, uniformly in x.
    """
    # The density vanishes faster than any power at both ends of log x, so equal steps there are spectrally accurate.
    log_x = np.linspace(np.log(0.12), np.log(4.7), 400)  # mass outside: below 1e-12
    x = np.exp(log_x)
    odd = (2 * np.arange(1, 12) - 1.0)[:, None] ** 2 * np.pi**2
    small = np.sqrt(2 * np.pi) * np.sum((odd / (4 * x**4) - x**-2) * np.exp(-odd / (8 * x**2)), axis=0)
    k = np.arange(1, 30.0)[:, None]
    large = 8 * x * np.sum((-1) ** (k - 1) * k**2 * np.exp(-2 * k**2 * x**2), axis=0)
    mass = x * np.where(x < 1.0, small, large)
    # Lanczos on the discretised measure gives the Jacobi matrix whose eigenpairs are the Gauss rule.
    basis, alpha, beta = [np.sqrt(mass / mass.sum())], [], []
    for _ in range(nodes):
        v = log_x * basis[-1]
        alpha.append(basis[-1] @ v)
        for _ in range(2):
            for b in basis:
                v = v - b * (b @ v)
        beta.append(np.linalg.norm(v))
        basis.append(v / beta[-1])
    jacobi = np.diag(alpha) + np.diag(beta[:-1], 1) + np.diag(beta[:-1], -1)
    values, vectors = np.linalg.eigh(jacobi)
    return tuple((float(p), float(2 * np.exp(g))) for p, g in zip(vectors[0] ** 2, values, strict=True))


def _once(method: Callable[..., jax.Array]) -> Callable[..., jax.Array]:
    """What a method of a covariance gives, traced once for each pair of nodes."""

    def known(self: "_Covariance", *nodes: int) -> jax.Array:
        key = (method.__name__, *nodes)
        if key not in self._known:
            self._known[key] = method(self, *nodes)
        return self._known[key]

    return known


class _Covariance:
    """Covariances between nodes, computed on demand; ``given(c)`` conditions on node c being zero."""

    def __init__(self, entry: Callable[[int, int], jax.Array], root: "_Covariance | None" = None):
        self._entry, self._known, self._children = entry, {}, {}
        self._root = self if root is None else root

    def __call__(self, a: int, b: int) -> jax.Array:
        key = (a, b) if a <= b else (b, a)
        if key not in self._known:
            self._known[key] = self._entry(*key)
        return self._known[key]

    @_once
    def variance(self, a: int) -> jax.Array:
        """The variance as a divisor. A field that is (almost) a copy of one conditioned on has nothing left but
        rounding: the floor at rounding level keeps a ratio of two roundings small."""
        floor = TINY if self is self._root else ROUNDING * self._root(a, a) + TINY
        return jnp.maximum(self(a, a), floor)

    @_once
    def determinant(self, a: int, b: int) -> jax.Array:
        """C_aa C_bb - C_ab^2. Angles and conditional variances share it, so that their square roots, which are all
        that is left of two nearly parallel fields, cancel where they must."""
        return jnp.maximum(self(a, a) * self(b, b) - self(a, b) ** 2, 0.0)

    @_once
    def correlation(self, a: int, b: int) -> jax.Array:
        scale = jnp.sqrt(self.variance(a)) * jnp.sqrt(self.variance(b))
        return jnp.clip(self(a, b) / scale, -1.0, 1.0)

    @_once
    def arcsine(self, a: int, b: int) -> jax.Array:
        """asin of the correlation, accurate when it is close to one."""
        determinant = self.determinant(a, b)
        parallel = determinant == 0.0
        root = jnp.where(parallel, 0.0, jnp.sqrt(jnp.where(parallel, 1.0, determinant)))
        angle = jnp.arctan2(self(a, b), jnp.maximum(root, TINY))
        if self is self._root:
            return angle
        # A copy of a field that is known to be 0 is 0 itself: what is left of its covariances is rounding, and
        # their sign means nothing.
        dead = [self(n, n) <= ROUNDING * self._root(n, n) for n in (a, b)]
        return jnp.where(dead[0] | dead[1], 0.0, angle)

    def given(self, c: int) -> "_Covariance":
        if c not in self._children:

            def entry(a: int, b: int) -> jax.Array:
                if a == b:
                    return self.determinant(a, c) / self.variance(c)
                return self(a, b) - self(a, c) * self(b, c) / self.variance(c)

            self._children[c] = _Covariance(entry, self._root)
        return self._children[c]


@cache
def _plackett_nodes() -> tuple[np.ndarray, np.ndarray]:
    """Angles from the end u = cos(angle) = 1 and their weights.

    They crowd there, where the integrand has a layer as wide as the smallest angle between fields: with 20 equal ones
    the error was 3e-4 for fields within 1 % of each other and 1e-8 for independent ones; now it is below 1e-7 and
    1e-11.
    """
    t, w = legendre(28)
    t, w = (1 + t) / 2, w / 2
    return np.pi / 2 * (LAYER * t + (1 - LAYER) * t**3), np.pi / 2 * (LAYER + 3 * (1 - LAYER) * t**2) * w


def four_signs(r: dict[tuple[int, int], jax.Array]) -> jax.Array:
    r"""E[sgn s_0 sgn s_1 sgn s_2 sgn s_3] from the six correlations.

    (4/pi^2) int_0^1 du sum_{i<j} R_ij (1 - u^2 R_ij^2)^{-1/2} asin(rho_{kl.ij}(u)), u = cos(angle), where rho is
    the correlation of the other two fields given s_i = s_j = 0 when all correlations are multiplied by u.
    """
    angles, weights = _plackett_nodes()

    def add(total: jax.Array, node) -> tuple[jax.Array, None]:
        u, weight = node
        scaled = {pair: u * x for pair, x in r.items()}
        determinants = three_determinants(scaled)
        root = [1 / jnp.sqrt(jnp.maximum(d, 1e-30)) for d in determinants]
        value = jnp.zeros_like(total)
        for (i, j), x in scaled.items():
            k, l = (n for n in range(4) if n not in (i, j))
            rho = minor(scaled, i, j, k, l) * root[k] * root[l]
            value += r[i, j] / jnp.sqrt(1 - x * x) * arcsine(rho)
        return total + weight * value, None

    shape = jnp.broadcast_shapes(*(jnp.shape(v) for v in r.values()))
    start = jnp.zeros(shape, jnp.result_type(*r.values()))
    nodes = jnp.asarray(np.cos(angles)), jnp.asarray(weights * np.sin(angles))
    return 4 / jnp.pi**2 * jax.lax.scan(add, start, nodes)[0]


def three_determinants(r: dict[tuple[int, int], jax.Array]) -> list[jax.Array]:
    """The determinant of the correlations of three of four fields, by the one that is left out."""

    def of(a: int, b: int, c: int) -> jax.Array:
        x, y, z = r[a, b], r[a, c], r[b, c]
        return (1 - x * x) * (1 - y * y) - (z - x * y) * (z - x * y)

    return [of(1, 2, 3), of(0, 2, 3), of(0, 1, 3), of(0, 1, 2)]


def minor(r: dict[tuple[int, int], jax.Array], i: int, j: int, k: int, l: int) -> jax.Array:
    """The covariance of k and l given i and j, times 1 - r_ij^2."""

    def at(a: int, b: int) -> jax.Array:
        return r[(a, b) if a < b else (b, a)]

    x = at(i, j)
    crossed = at(k, i) * at(l, j) + at(k, j) * at(l, i)
    return (1 - x * x) * at(k, l) - (at(k, i) * at(l, i) + at(k, j) * at(l, j) - x * crossed)


def _signs(cov: _Covariance, signs: tuple[int, ...]) -> jax.Array | float:
    if not signs:
        return 1.0
    if len(signs) == 2:
        return 2 / jnp.pi * cov.arcsine(*signs)
    if len(signs) == 4:
        index = [(i, j) for i in range(4) for j in range(i + 1, 4)]
        return four_signs({(i, j): cov.correlation(signs[i], signs[j]) for i, j in index})
    raise ValueError(f"at most four sign factors are supported, got {len(signs)}")


def _moment(cov: _Covariance, powers: tuple[tuple[int, int], ...], signs: tuple[int, ...], memo: dict):
    """E[prod s_a^n_a prod sgn s_c] by integration by parts; zero when the integrand is odd."""
    powers = tuple((a, n) for a, n in powers if n > 0)
    if (sum(n for _, n in powers) + len(signs)) % 2:
        return 0.0
    if not powers:
        return _signs(cov, signs)
    key = (id(cov), powers, signs)
    if key in memo:
        return memo[key][1]
    (a, n), others = powers[0], powers[1:]
    rest = ((a, n - 1), *others)
    total = 0.0
    for b, nb in rest:
        if nb > 0:
            lowered = tuple((e, ne - (e == b)) for e, ne in rest)
            total = total + nb * cov(a, b) * _moment(cov, lowered, signs, memo)
    for c in signs:
        if any(e == c and ne > 0 for e, ne in rest):
            continue  # s_c * delta(s_c) = 0
        inner = _moment(cov.given(c), rest, tuple(e for e in signs if e != c), memo)
        if not (isinstance(inner, float) and inner == 0.0):
            total = total + 2 * cov(a, c) / jnp.sqrt(2 * jnp.pi * cov.variance(c)) * inner
    memo[key] = (cov, total)  # the covariance is kept alive so that its id stays its own
    return total


def expectation(
    slots: Sequence[Sequence[Term]],
    cov: Callable[[int, int], jax.Array],
    labels: Sequence[int] | None = None,
) -> jax.Array:
    """Expectation of a product of functions, one per slot, over jointly Gaussian fields.

    Parameters
    ----------
    slots
        ``slots[a]`` holds the terms of the function applied to field a.
    cov
        ``cov(a, b)``, a <= b, is the covariance of the fields in slots a and b: arrays of any common shape.
    labels
        Slots with equal labels hold the *same* field. This matters only where two sharp signs meet
        (sgn(s)**2 = 1); a singular covariance is otherwise allowed.
    """
    labels = list(range(len(slots))) if labels is None else list(labels)
    first = [labels.index(lab) for lab in labels]  # the slot that stands for each field
    # Each mixture gets an axis of its own behind the axes of the covariance.
    mixed = [a for a, terms in enumerate(slots) if any(isinstance(t.tau, tuple) for t in terms)]
    behind = tuple(range(-len(mixed), 0))
    batch = jnp.broadcast_shapes(*(jnp.shape(cov(a, b)) for a in range(len(slots)) for b in range(a, len(slots))))

    def spread(slot: int, value: float | tuple[float, ...]):
        if not isinstance(value, tuple):
            return value
        return jnp.asarray(value).reshape([-1 if a == slot else 1 for a in mixed])

    # Node a < len(slots) is the bare field of slot a; a blurred node (tau > 0) is made per factor.
    blurred: list[tuple[int, float | tuple[float, ...]]] = []
    nodes: dict[tuple[int, float | tuple[float, ...]], int] = {}

    def node(slot: int, tau: float | tuple[float, ...]) -> int:
        if tau == 0.0:
            return first[slot]
        if (slot, tau) not in nodes:
            nodes[slot, tau] = len(slots) + len(blurred)
            blurred.append((slot, tau))
        return nodes[slot, tau]

    def entry(a: int, b: int) -> jax.Array:
        n = len(slots)
        i, j = (x if x < n else blurred[x - n][0] for x in (a, b))
        value = jnp.expand_dims(cov(min(i, j), max(i, j)), behind)
        return value + spread(*blurred[a - n]) ** 2 if a == b and a >= n else value

    root, memo = _Covariance(entry), {}
    total = jnp.zeros(batch)
    for choice in product(*slots):
        factor, powers, signs, deltas = 1.0, {}, set(), []
        for slot, term in enumerate(choice):
            factor = factor * spread(slot, term.coefficient)
            if term.power:
                powers[first[slot]] = powers.get(first[slot], 0) + term.power
            if term.kind == "sign":
                signs ^= {node(slot, term.tau)}  # sgn(s)**2 = 1
            elif term.kind == "delta":
                deltas.append(node(slot, term.tau))
        if any(powers.get(e, 0) for e in deltas):
            continue  # s * delta(s) = 0
        here = root
        for e in deltas:
            factor = factor / jnp.sqrt(2 * jnp.pi * here.variance(e))
            here = here.given(e)
        value = _moment(here, tuple(sorted(powers.items())), tuple(sorted(signs)), memo)
        if not (isinstance(value, float) and value == 0.0):
            value = jnp.asarray(factor * value)
            # An unused mixture axis has length one, so the sum runs over the mixtures of this choice only.
            value = value.reshape((1,) * (len(batch) + len(mixed) - value.ndim) + value.shape)
            total = total + jnp.sum(value, axis=behind)
    return total
