r"""Where learning starts: weights of a student beside its teacher, a law of their overlaps

.. math:: Q = WW^T/d, \quad M = WW^{*T}/d, \quad P = W^*W^{*T}/d

at every dimension d, and the limit of that law as d grows. What a start does not know it says in words.
"""

from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from limitlab.errors import InputError
from limitlab.numerics.linalg import realised
from limitlab.problems.asked import check_promise
from limitlab.problems.channels.base import AbstractChannel
from limitlab.problems.networks.network import Network
from limitlab.problems.part import Part
from limitlab.problems.priors import AbstractPrior
from limitlab.problems.starts.neurons import Neurons

if TYPE_CHECKING:
    from limitlab.problems.base import AbstractTeacher
    from limitlab.problems.networks.committee import Committee
    from limitlab.problems.problem import Problem

__all__ = ["AbstractStart", "Evidence", "Order"]


class Order(NamedTuple):
    """Overlap m = a.w*/d, squared norm q = a.a/d and believed variance V of an estimate a."""

    m: Any
    q: Any
    V: Any


class Evidence(NamedTuple):
    """What an estimate may start from: the law that is believed in, data, and the teacher where it is known.

    ``squares`` are the squared entries of X (n, d), or their mean times d.
    """

    prior: AbstractPrior
    channel: AbstractChannel
    X: jax.Array
    y: jax.Array
    squares: jax.Array
    teacher: jax.Array | None = None


class AbstractStart(Part):
    """Where the student's weights are at time 0.

    A start of a user's own has `weights`; with ``joint = True`` and `draw` (and `limit`) it also serves teachers whose
    directions are known by overlaps only, and the limits that follow overlaps. With ``alone = True`` it has
    `direction`, `direction_overlaps`, `order` and `estimate`: it serves rules that look for one direction.
    """

    joint: ClassVar[bool] = False  # knows the overlaps of student and teacher
    alone: ClassVar[bool] = False  # knows the overlap of one direction with a teacher, whatever the data

    def __check_init__(self):
        check_promise(self, AbstractStart, "joint", "draw", "limit")
        check_promise(self, AbstractStart, "alone", "direction", "direction_overlaps", "order", "estimate")

    def check_beside(self, problem: "Problem") -> None:
        """`InputError` if the start does not go with the problem's other parts; a `Problem` asks."""

    def draw(self, key: jax.Array, d: Any, p: int, k: int) -> tuple[jax.Array, jax.Array, jax.Array]:
        """One draw of (Q, M, P) at dimension d >= k; exact in law."""
        raise InputError(f"{type(self).__name__} does not know overlaps at finite d.")

    def limit(self, p: int, k: int) -> tuple[jax.Array, jax.Array, jax.Array]:
        """(Q, M, P) as d goes to infinity."""
        raise InputError(f"{type(self).__name__} does not know overlaps in the limit.")

    def weights(self, key: jax.Array, p: int, d: int, directions: jax.Array | None) -> jax.Array:
        """Weights (p, d) of a student beside the teacher's directions (k, d), or beside none."""
        raise InputError(
            f"{type(self).__name__} does not know weights beside a given teacher. Use RandomStart() or "
            "InformedStart(overlap)."
        )

    def direction(self, key: jax.Array, teacher: jax.Array, spherical: bool) -> jax.Array:
        """One direction w (d,) beside the teacher's, |w|^2 = d if ``spherical``."""
        raise InputError(f"{type(self).__name__} does not know a direction beside a given teacher. Use RandomStart().")

    def direction_overlaps(self, rho: float, spherical: bool, d: float | None = None) -> tuple[float, float]:
        r"""m = w.w*/d and q = \|w\|^2/d of `direction`, rho = \|w*\|^2/d: at dimension d, or in the limit (None)."""
        raise InputError(f"{type(self).__name__} does not know the overlap of a direction. Use InformedStart(overlap).")

    def order(self, rho: float, d: float | None = None) -> Order:
        """The order parameters of `estimate`: at dimension d, or in the limit (None)."""
        raise InputError(f"{type(self).__name__} does not know the overlap of an estimate. Use InformedStart(overlap).")

    def check_estimate(self, by: str, channel: AbstractChannel, known: str, teacher: bool) -> None:
        """Raise `InputError` unless message passing can leave from here and get anywhere.

        ``known`` names the starts that it can leave from; ``teacher``: whether the teacher is known.
        """
        raise InputError(f"{by} can start from {known} or None, the prior mean; got {self!r}.")

    def estimate(self, key: jax.Array, evidence: Evidence) -> tuple[jax.Array, jax.Array]:
        """Means a (d,) and variances v (d,) of the weights before the first iteration of message passing."""
        raise InputError(f"{type(self).__name__} does not know an estimate of the weights. Use SpectralStart().")

    def matrix_overlap(self, K: int) -> np.ndarray:
        """The overlap M (K, K) of `matrix_estimate` with K directions, in the limit."""
        raise InputError(f"{type(self).__name__} does not know overlaps of several estimates. Use InformedStart(M).")

    def matrix_estimate(self, key: jax.Array, directions: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Means a (d, K) and their covariance V (K, K) before the first iteration of message passing."""
        raise InputError(f"{type(self).__name__} does not know several estimates. Use InformedStart(M).")

    def draw_second_layer(self, key: jax.Array, p: int) -> jax.Array:
        """One draw of the student's second layer."""
        return jnp.ones(p)

    def draw_bias(self, key: jax.Array, p: int) -> jax.Array:
        """One draw of the student's biases."""
        return jnp.zeros(p)

    @property
    def blind(self) -> bool:
        """True if turning a unit around, of the student or of the teacher, does not change the law of the start."""
        return False

    @property
    def random(self) -> bool:
        """True if two draws differ."""
        return False

    @property
    def one_layer(self) -> bool:
        """True if the second layer starts as ones."""
        return True

    def network(
        self, key: jax.Array, frame: jax.Array, student: "Committee", teacher: "AbstractTeacher | None", d: int
    ) -> tuple[Network, Any]:
        """A committee at time 0 and the weights of its teacher (None without a teacher).

        Equal keys give equal starts, whoever asks.
        """
        key_w, key_a, key_b, key_t = (*jax.random.split(key), *(jax.random.fold_in(key, i) for i in (2, 3)))
        p = student.width
        a = self.draw_second_layer(key_a, p) if student.output_weights is None else jnp.asarray(student.output_weights)
        b = self.draw_bias(key_b, p) if student.bias == "trained" else None
        if teacher is not None and teacher.by_start and self.joint:
            Q, M, P = self.draw(key_w, d, p, teacher.units)
            both = realised(jnp.block([[Q, M], [M.T, P]]), frame, d)
            return Network.of(both[:p], a, b), teacher.with_directions(both[p:])
        seen = None if teacher is None else teacher.draw(key_t, d)
        directions = None if teacher is None else teacher.directions(seen)
        return Network.of(self.weights(key_w, p, d, directions), a, b), seen

    @property
    def random_layer(self) -> str:
        """The law of the second layer in a word if its draws differ, else ""."""
        return ""

    @property
    def on_sphere(self) -> bool:
        """True if every unit is uniform on a sphere, apart from all others."""
        return False

    @property
    def isotropic(self) -> bool:
        """True if units are alike, independent, and know no direction: the start has `neurons`."""
        return False

    @property
    def given_norms(self) -> np.ndarray | None:
        """The squared norms |w_i|^2/d (p,) if they are given numbers, else None."""
        return None

    def neurons(self, student: "Committee") -> Neurons:
        """The law of one unit."""
        raise InputError(
            f"{type(self).__name__} does not know the law of a single unit: its units know a direction or each other. "
            "Use RandomStart()."
        )
