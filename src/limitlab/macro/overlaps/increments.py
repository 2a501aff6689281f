r"""What one sample does to the overlaps, X, and the covariance of X.

One step of one-pass SGD moves Y = (M, Q, a) by (gamma/(p d)) X, up to O(1/d) inside X:

.. math::
    X_{M,ir} &= a_i \sigma'_i \lambda^*_r \mathcal E \\
    X_{Q,ij} &= (a_i \sigma'_i \lambda_j + a_j \sigma'_j \lambda_i)\, \mathcal E
                + \frac{\gamma}{pB} a_i a_j \sigma'_i \sigma'_j \mathcal E^2 \\
    X_{a,i}  &= \kappa\, \sigma_i \mathcal E

and on the sphere the radial part is taken out, X_M,ir - M_ir X_Q,ii/2 and X_Q,ij - Q_ij (X_Q,ii + X_Q,jj)/2.

Batches: a step averages the linear terms over its B samples, and its quadratic term is
(gamma/p) B^-2 sum_bb' C_b C_b' x_b.x_b'. Inputs of one batch are nearly orthogonal, x_b.x_b' = O(d^-1/2), so only
b = b' counts: the step is the mean of B independent copies of the X above, with gamma/B in its quadratic term,
and its covariance is cov(X)/B.
"""

import jax
import jax.numpy as jnp
import numpy as np

from limitlab.algorithms.settings.one_pass import CommitteeOnePass
from limitlab.numerics.gauss.rules import GaussianRule, hermite, normal_rule, product_rule
from limitlab.numerics.linalg import gram_factor
from limitlab.states.overlaps import Overlaps, error_coefficients

__all__ = [
    "coordinates",
    "covariance",
    "flatten",
    "increment_sum",
    "noise_variance",
    "push",
    "sample_rule",
    "tangent",
    "unflatten",
]

MAX_NODES = 400_000
TRAPEZOID_STEPS = {2: 0.15, 3: 0.4, 4: 0.6}


def noise_variance(setting: CommitteeOnePass, d) -> jax.Array:
    """Variance per unit time of the noise in units of cov(X): gamma/(p d B)."""
    return setting.clock(d) / setting.algorithm.batch_size


def push(setting: CommitteeOnePass, a: jax.Array, s: jax.Array, z: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    r""":math:`a_i \sigma'(\lambda_{bi})\, \mathcal E_b` (B, p), the error (B,) and the units' values (B, p)."""
    student, teacher = setting.student, setting.teacher
    lam, lam_star = s[:, : student.width], s[:, student.width :]
    value = jax.vmap(jax.vmap(student.activation))(lam)
    other = jax.vmap(jax.vmap(teacher.activation))(lam_star)
    slope = jax.vmap(jax.vmap(student.activation.derivative))(lam)
    c = error_coefficients(setting, a)
    noise = jnp.sqrt(setting.channel.variance) * z
    error = value @ c[: student.width] + other @ c[student.width :] + noise
    return a * slope * error[:, None], error, value


def tangent(overlaps: Overlaps, XM: jax.Array, XQ: jax.Array) -> tuple[jax.Array, jax.Array]:
    """A displacement of (M, Q) with its radial part taken out: what the sphere leaves of it, to first order."""
    radial = jnp.diagonal(XQ) / jnp.diagonal(overlaps.Q) / 2
    return XM - overlaps.M * radial[:, None], XQ - overlaps.Q * (radial[:, None] + radial[None, :])


def increment_sum(
    setting: CommitteeOnePass, overlaps: Overlaps, s: jax.Array, z: jax.Array, weights: jax.Array
) -> Overlaps:
    r""":math:`\sum_b w_b X(s_b, z_b)` for fields s (B, p+k), label noise z (B,) and weights w (B,).

    The sum is made inside, where it is three small matrix products, instead of over B matrices X.
    """
    student, algorithm = setting.student, setting.algorithm
    p = student.width
    force, error, value = push(setting, overlaps.a, s, z)
    pull = weights[:, None] * force
    cross = pull.T @ s[:, :p]
    XM = pull.T @ s[:, p:]
    XQ = cross + cross.T + algorithm.learning_rate / (p * algorithm.batch_size) * (pull.T @ force)
    if algorithm.spherical:
        XM, XQ = tangent(overlaps, XM, XQ)
    Xa = jnp.zeros_like(overlaps.a)
    if student.second_layer == "trained":
        Xa = algorithm.second_layer_rate * ((weights * error) @ value)
    return Overlaps(XQ, XM, jnp.zeros_like(overlaps.P), Xa)


def coordinates(p: int, k: int) -> tuple[str, ...]:
    """Names of the entries of `flatten`: M row by row, the upper triangle of Q, then a."""
    M = [f"M[{i},{r}]" for i in range(p) for r in range(k)]
    Q = [f"Q[{i},{j}]" for i, j in zip(*np.triu_indices(p), strict=True)]
    return (*M, *Q, *(f"a[{i}]" for i in range(p)))


def flatten(overlaps: Overlaps) -> jax.Array:
    """The moving overlaps as one vector, in the order of `coordinates`."""
    rows, columns = np.triu_indices(overlaps.Q.shape[-1])
    return jnp.concatenate([overlaps.M.ravel(), overlaps.Q[rows, columns], overlaps.a])


def unflatten(vector: jax.Array, P: jax.Array) -> Overlaps:
    """The overlaps of which `flatten` made this vector."""
    k, n = P.shape[0], vector.shape[0]
    # n = p k + p (p + 1)/2 + p
    p = round((float(np.sqrt((2 * k + 3) ** 2 + 8 * n)) - (2 * k + 3)) / 2)
    rows, columns = np.triu_indices(p)
    upper = vector[p * k : n - p]
    Q = jnp.zeros((p, p), vector.dtype).at[rows, columns].set(upper).at[columns, rows].set(upper)
    return Overlaps(Q, vector[: p * k].reshape(p, k), P, vector[n - p :])


def _degree(terms) -> int | None:
    """Degree of an activation that is a polynomial, else None."""
    if terms is None or any(term.kind != "one" for term in terms):
        return None
    return max((term.power for term in terms), default=0)


def sample_rule(setting: CommitteeOnePass, twin: bool = False) -> GaussianRule:
    r"""Nodes for expectations of X X^T over (p+k normals, label noise); ``twin`` gives others, for error estimates.

    The error is linear in the label noise z and X quadratic in the error, so three Gauss-Hermite nodes in z are
    exact. Polynomial activations of degree D make X X^T of degree at most 8 D - 4 in the fields: a product of 4 D - 1
    Gauss-Hermite nodes is exact as well. Others take a trapezoid rule, coarser than that of the drift because X X^T
    has many more entries, and beyond four fields Sobol points.
    """
    student, teacher = setting.student, setting.teacher
    n = student.width + teacher.width
    degrees = [_degree(x.activation.terms) for x in (student, teacher)]
    order = None if None in degrees else max(2, 4 * max(d for d in degrees if d is not None) - 1) + int(twin)
    if order is not None and order**n <= MAX_NODES:
        nodes, weights = product_rule(*hermite(order), n)
        name = f"Gauss-Hermite product rule, {order} nodes in each of {n} fields (exact)"
    elif n in TRAPEZOID_STEPS:
        h = TRAPEZOID_STEPS[n] * (0.9 if twin else 1.0)
        half = h * (np.arange(np.ceil(6.5 / h)) + 0.5)  # no node at 0, where activations may have a kink
        x = np.concatenate([-half[::-1], half])
        nodes, weights = product_rule(x, np.exp(-(x**2) / 2), n, 1e-12)
        name = f"trapezoid rule of step {h} in {n} fields"
    else:
        rule = normal_rule(n, twin)
        nodes, weights, name = np.asarray(rule.nodes), np.asarray(rule.weights), rule.name
    z, v = hermite(3)
    nodes = np.concatenate([np.repeat(nodes, 3, axis=0), np.tile(z, len(nodes))[:, None]], axis=1)
    return GaussianRule(nodes, np.repeat(weights, 3) * np.tile(v, len(weights)), name)


def covariance(setting: CommitteeOnePass, overlaps: Overlaps, rule: GaussianRule) -> jax.Array:
    r""":math:`\Sigma = E[XX^T] - E[X]E[X]^T` in the order of `coordinates`, over the nodes of `sample_rule`."""
    n = overlaps.Q.shape[0] + overlaps.P.shape[0]
    factor = gram_factor(overlaps.omega)
    size = 1 + n * (n + 1) // 2 + overlaps.a.shape[0]

    def one(node: jax.Array) -> jax.Array:
        return flatten(increment_sum(setting, overlaps, (factor @ node[:n])[None], node[n:], jnp.ones(1)))

    def add(total, piece):
        nodes, weights = piece
        X = jax.vmap(one)(nodes)
        return (total[0] + weights @ X, total[1] + (X * weights[:, None]).T @ X), None

    # In pieces, so that X at all nodes is never stored.
    piece = max(1, min(len(rule.weights), 2**22 // size))
    fill = -len(rule.weights) % piece
    nodes = jnp.pad(jnp.asarray(rule.nodes), ((0, fill), (0, 0))).reshape(-1, piece, n + 1)
    weights = jnp.pad(jnp.asarray(rule.weights), (0, fill)).reshape(-1, piece)
    D = flatten(overlaps).shape[0]
    (mean, second), _ = jax.lax.scan(add, (jnp.zeros(D), jnp.zeros((D, D))), (nodes, weights))
    return second - jnp.outer(mean, mean)
