r"""The mean motion of the overlaps under one-pass SGD, where it starts, and how well its Gaussian moments are known."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from limitlab.algorithms.settings.one_pass import CommitteeOnePass
from limitlab.errors import AccuracyWarning
from limitlab.modules import filter_jit
from limitlab.numerics.gauss.fields import AbstractFieldSum, FieldMoments
from limitlab.numerics.trees import NUMBERS
from limitlab.states.overlaps import Overlaps, error_coefficients, limit_overlaps
from limitlab.verbs import caution

__all__ = [
    "Crowds",
    "crowds",
    "drift",
    "flow",
    "limit_start",
    "motion",
    "quadrature_error",
    "tolerance",
    "warn_of_error",
]

VISIBLE = 1e-5  # an estimated error of the moments above this is said aloud


@filter_jit
def _moments(sums: AbstractFieldSum, Omega: jax.Array, c: jax.Array, noise: jax.Array | float) -> FieldMoments:
    """Traced once, although an integrator asks for the drift in several places."""
    return sums(Omega, c, noise)


def drift(
    setting: CommitteeOnePass, sums: AbstractFieldSum, overlaps: Overlaps, copies: jax.Array | None = None
) -> Overlaps:
    r"""Mean motion of the overlaps under one-pass SGD.

    .. math::
        \dot M_{ir} &= a_i E[\sigma'(\lambda_i)\, \lambda^*_r\, \mathcal E] \\
        \dot Q_{ij} &= E[(a_i \sigma'(\lambda_i)\lambda_j + a_j \sigma'(\lambda_j)\lambda_i)\, \mathcal E]
                       + \frac{\gamma}{pB}\, a_i a_j E[\sigma'(\lambda_i)\sigma'(\lambda_j)\, \mathcal E^2] \\
        \dot a_i &= \kappa E[\sigma(\lambda_i)\, \mathcal E]

    with (lambda, lambda*) ~ N(0, Omega), batches of B samples, kappa = 0 unless the second layer is trained. On the
    sphere the radial part is taken out: Psi_ir - M_ir Phi_ii/2 (Phi_ii/Q_ii in general). ``copies`` counts how many
    units of the network share each row of the overlaps (see `OverlapODE`).
    """
    c = error_coefficients(setting, overlaps.a if copies is None else overlaps.a * copies)
    return motion(setting, overlaps, _moments(sums, overlaps.omega, c, setting.channel.variance))


def motion(setting: CommitteeOnePass, overlaps: Overlaps, moments: FieldMoments) -> Overlaps:
    """`drift` from its Gaussian moments."""
    student, algorithm = setting.student, setting.algorithm
    a, p, width = overlaps.a, overlaps.a.shape[0], student.width
    flow = a[:, None] * moments.L
    dM = flow[:, p:]
    dQ = flow[:, :p] + flow[:, :p].T
    dQ = dQ + algorithm.learning_rate / (width * algorithm.batch_size) * jnp.outer(a, a) * moments.V
    if algorithm.spherical:
        radial = jnp.diagonal(dQ) / jnp.diagonal(overlaps.Q) / 2
        dM = dM - overlaps.M * radial[:, None]
        dQ = dQ - overlaps.Q * (radial[:, None] + radial[None, :])
    da = algorithm.second_layer_rate * moments.I[:p] if student.second_layer == "trained" else jnp.zeros_like(a)
    # Symmetric to the last bit: on the sphere an antisymmetric part of Q, begun by rounding, would grow.
    return Overlaps((dQ + dQ.T) / 2, dM, jnp.zeros_like(overlaps.P), da)


def flow(overlaps: Overlaps, args: tuple[CommitteeOnePass, AbstractFieldSum, jax.Array]) -> Overlaps:
    """`drift`, as an integrator asks for it."""
    setting, sums, copies = args
    return drift(setting, sums, overlaps, copies)


@functools.partial(jax.jit, static_argnums=0)
def _limit(structure: Any, numbers: list) -> Overlaps:
    return limit_overlaps(jax.tree.unflatten(structure, numbers))


def limit_start(setting: CommitteeOnePass) -> Overlaps:
    """`limit_overlaps`, compiled, as NumPy arrays."""
    numbers, structure = jax.tree.flatten(setting)
    if not all(isinstance(x, NUMBERS) for x in numbers):
        return limit_overlaps(setting)
    return jax.device_get(_limit(structure, [np.asarray(x, float) for x in numbers]))


class Crowds(NamedTuple):
    """Identical units: the first one of each set, and for every unit the number of its set."""

    first: np.ndarray
    member: np.ndarray

    def pick(self, o: Overlaps) -> Overlaps:
        """One unit of each set."""
        one = self.first
        return Overlaps(o.Q[..., one, :][..., one], o.M[..., one, :], o.P, o.a[..., one])

    def spread(self, path: Overlaps) -> Overlaps:
        """All units, along a path (time, ...) of one of each set."""
        return Overlaps(
            path.Q[:, self.member][:, :, self.member], path.M[:, self.member], path.P, path.a[:, self.member]
        )

    @property
    def copies(self) -> np.ndarray:
        """How many units each set has."""
        return np.bincount(self.member).astype(float)


def crowds(start: Overlaps) -> Crowds:
    """The sets of identical units of a start."""
    Q, M, a = (np.asarray(x) for x in (start.Q, start.M, start.a))
    own = np.diag(Q)
    same = (Q == own[:, None]) & (Q == own[None, :]) & (a[:, None] == a[None, :])
    same &= np.all(M[:, None, :] == M[None, :, :], axis=-1)
    return Crowds(*np.unique(np.argmax(same, axis=1), return_inverse=True))


def tolerance(rtol: float, setting: CommitteeOnePass, sums: AbstractFieldSum, start: Overlaps, copies: Any) -> float:
    """Steps finer than the moments are exact would only resolve the kinks of the quadrature, at any cost."""
    c = error_coefficients(setting, start.a * copies)
    blur = float(sums.error(start.omega, c, setting.channel.variance))
    return max(rtol, blur / 10) if blur > VISIBLE else rtol


def warn_of_error(error: float, moments: str) -> None:
    """Say aloud that Gaussian moments are less accurate than one would think."""
    if error > VISIBLE:
        caution(
            f"OverlapODE: the Gaussian moments ({moments}) have an estimated error of {error:.1e}. A function "
            'with a kink loses digits here: use a named activation such as "relu" where there is one.',
            AccuracyWarning,
        )


def quadrature_error(args: tuple[CommitteeOnePass, AbstractFieldSum], path: Overlaps, replica: int) -> float:
    """The largest error estimate of the moments at the first, middle and last finite point of a path."""
    setting, sums = args
    finite = np.nonzero(np.all(np.isfinite(path.Q[:, replica]), axis=(1, 2)))[0]
    worst = 0.0
    for t in {finite[0], finite[len(finite) // 2], finite[-1]} if len(finite) else ():
        here = jax.tree.map(lambda x: x[t, replica], path)  # noqa: B023
        c = error_coefficients(setting, here.a)
        worst = max(worst, float(sums.error(here.omega, c, setting.channel.variance)))
    return worst
