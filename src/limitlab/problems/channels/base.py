r"""What a channel is: a law of labels y given the teacher's output z, and its calculus.

Everything that the theory of generalised linear models asks of a channel follows from one integral,

.. math:: Z(y, \omega, V) = \int dz\, N(z; \omega, V)\, P(y|z),

its logarithm and two derivatives in omega, and from the joint law of (omega, y).
"""

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from limitlab.errors import InputError
from limitlab.numerics.checks import check_choice
from limitlab.numerics.gauss.normal import measure
from limitlab.numerics.gauss.rules import REACH, graded_edges, panel_nodes
from limitlab.problems.part import Part
from limitlab.problems.predictor import Fields, Predictor

if TYPE_CHECKING:
    from limitlab.problems.losses.base import AbstractConvexLoss

__all__ = [
    "AbstractChannel",
    "Information",
    "Law",
    "Output",
    "omega_line",
    "teacher_given_student",
    "weight_floor",
]

TINY = 1e-300


class Output(NamedTuple):
    """log Z, g = d/d omega log Z = (E[z|y] - omega)/V, and dg = dg/d omega = (Var[z|y] - V)/V^2."""

    log_z: jax.Array
    g: jax.Array
    dg: jax.Array


class Information(NamedTuple):
    """What the labels tell a Bayes-optimal observer: E g^2 (the conjugate of m is alpha times it) and E log Z."""

    g2: jax.Array
    phi: jax.Array


class Law(NamedTuple):
    """Nodes and weights: E F(y, omega) = sum of weight * F(y, w). ``y`` and ``w`` have one shape."""

    y: jax.Array
    w: jax.Array
    weight: jax.Array

    def mean(self, values: jax.Array) -> jax.Array:
        return jnp.sum(self.weight * values)

    def unfolded(self) -> "Law":
        """The law of an even channel, (y, omega) as likely as (y, -omega), from nodes for either."""
        return Law(*(jnp.stack(pair) for pair in ((self.y,) * 2, (self.w, -self.w), (self.weight / 2,) * 2)))


class AbstractChannel(Part):
    r"""A law of labels given the teacher's output z.

    To add a channel, write one small file like ``sign.py`` with a frozen class that has

    - ``labels``: "binary" (-1, +1) or "real"; ``even``: whether P(y|z) = P(y|-z); ``modulus``: "modulus" if labels
      are \|z\| up to noise, "intensity" if they are z^2;
    - ``sample(key, z)``: labels for an array of outputs;
    - ``output(y, w, V)``: `Output`, elementwise in JAX, stable for V from 1e-12 to 1e12;
    - ``mean_label(w, V)``: E[y] for z ~ N(w, V), the Bayes prediction of a new label;
    - ``law(q, slope, V0, V)``: nodes for the joint law of (omega, y) when omega ~ N(0, q) and y is drawn through
      z ~ N(slope * omega, V0). `BinaryChannel` has it for every binary channel.
    - ``label_mse(m, V)``: E (y - E[y|omega])^2 for omega ~ N(0, m), the least mean-square error on a new label.

    ``fields`` (nodes for a fit that is not Bayesian) follows from ``law``; replace it where fewer nodes do.

    A density without closed forms needs none of this: see `CustomChannel`.
    """

    labels: ClassVar[str]
    modulus: ClassVar[str | None] = None
    on_a_line: ClassVar[bool] = False  # `fields` has so few nodes that many laws fit in memory

    def __check_init__(self):
        check_choice(type(self).__name__, "labels", getattr(self, "labels", None), ("binary", "real"))

    @property
    def even(self) -> bool:
        """True if P(y|z) = P(y|-z)."""
        return False

    @property
    def added_variance(self) -> Any:
        """The variance of the Gaussian noise added to a function of z; None if labels are not made this way."""
        return None

    @property
    def heavy(self) -> bool:
        """True if an integral is slow: coarser grids of fixed points."""
        return False

    @property
    def batch(self) -> int:
        """How many integrals are held in memory at once."""
        return 1 if self.heavy else 16

    @abstractmethod
    def sample(self, key: jax.Array, z: jax.Array) -> jax.Array:
        """Labels for the outputs z."""

    @abstractmethod
    def output(self, y: jax.Array, w: jax.Array, V: jax.Array) -> Output:
        """log Z, g and dg, elementwise."""

    @abstractmethod
    def mean_label(self, w: jax.Array, V: jax.Array) -> jax.Array:
        """E[y] for z ~ N(w, V)."""

    @abstractmethod
    def law(self, q: jax.Array, slope: jax.Array, V0: jax.Array, V: jax.Array) -> Law:
        """Nodes for (omega, y), fine enough for functions that vary as the posterior of variance V does."""

    def told(self, z: Any, xp: Any) -> Any:
        """E[y|z], by ``xp``, which is ``numpy`` or ``jax.numpy``: the label without noise of a channel that adds some.

        With ``added_variance``, or for labels -1 and +1, it says all. None: not known, and links of several directions
        refuse the channel.
        """
        return None

    def even_law(self, q: jax.Array, slope: jax.Array, V0: jax.Array, V: jax.Array) -> Law:
        r"""Like `law`, but of an even channel only for functions of (y, \|omega\|): half the nodes may do."""
        return self.law(q, slope, V0, V)

    def plain_law(self, q: jax.Array, slope: jax.Array, V0: jax.Array, V: jax.Array) -> Law:
        """Like `law`, but for functions of y and omega that do not change where a Bayesian changes its mind."""
        return self.law(q, slope, V0, V)

    @abstractmethod
    def label_mse(self, m: jax.Array, V: jax.Array) -> jax.Array:
        """E (y - E[y|omega])^2 for omega ~ N(0, m), z ~ N(omega, V): accurate also when V is much smaller than m."""

    def least_error(self, m: jax.Array, V: jax.Array) -> jax.Array:
        """The least error on a new label: `label_mse`, or the probability of a wrong one if labels are -1 and +1."""
        return self.label_mse(m, V)

    def label_moments(self, rho: Any) -> tuple[jax.Array, jax.Array, jax.Array]:
        r"""c1 = E[y z]/rho, y2 = E y^2 for z ~ N(0, rho), and what no linear predictor explains, y2 - c1^2 rho."""
        rho, zero = jnp.asarray(rho, float), jnp.zeros(())
        c1 = zero if self.even else jax.grad(lambda w: jnp.sum(self.mean_label(w, rho)))(zero)
        y2 = jnp.square(self.mean_label(zero, rho)) + self.label_mse(zero, rho)
        return c1, y2, y2 - jnp.square(c1) * rho

    def label_error(self, p: Predictor) -> jax.Array:
        r"""E (y - omega)^2 = y2 - c1^2 rho + rho (c1 - m/rho)^2 + sigma^2."""
        c1, _, rest = self.label_moments(p.rho)
        return rest + p.rho * jnp.square(c1 - p.m / p.rho) + jnp.square(p.sigma)

    def fields(self, loss: "AbstractConvexLoss", p: Predictor, V: jax.Array) -> Fields:
        """Nodes for the law of (y, omega), fine where the channel or the proximal map of the loss changes."""
        centres, width = loss.features(V)
        fine = jnp.square(width) if len(centres) and not loss.sharp else p.V0
        law = self.plain_law(p.q, p.slope, p.V0, jnp.minimum(fine, p.V0))
        return Fields(law.y, law.w, self.output(law.y, p.slope * law.w, p.V0).g, law.weight)

    def blind(self, loss: "AbstractConvexLoss") -> bool:
        """True if a fit learns nothing (m = 0: the labels are even in z) and `blind_fields` knows its law."""
        return False

    def blind_fields(self, loss: "AbstractConvexLoss", p: Predictor, V: jax.Array) -> Fields:
        """Like `fields`, for a predictor that is known to have m = 0; p.t is not looked at."""
        return self.fields(loss, p._replace(t=jnp.zeros_like(p.t)), V)

    def bayes(self, m: jax.Array, V: jax.Array) -> Information:
        """E g^2 and Phi_out = E log Z for omega ~ N(0, m), y ~ Z(., omega, V)."""
        law = self.law(m, jnp.ones_like(m), V, V)
        out = self.output(law.y, law.w, V)
        return Information(law.mean(jnp.square(out.g)), law.mean(out.log_z))

    def prediction_error(self, rho: jax.Array, m: jax.Array, q: jax.Array, V: jax.Array) -> jax.Array:
        r"""How wrong the prediction from omega = x.a is on a new label: E (y - E[y|omega, V])^2.

        The estimate a has overlap m with the teacher and squared norm q; it believes in a variance V.
        """
        slope, V0 = teacher_given_student(rho, m, q)
        V = jnp.maximum(V, 1e-12 * rho)
        fine = jnp.minimum(jnp.sqrt(V), jnp.sqrt(V0) / jnp.maximum(jnp.abs(slope), 1e-9))
        w, p = omega_line(q, ((0.0, fine),))
        excess = jnp.square(self.mean_label(slope * w, V0) - self.mean_label(w, V))
        return self.label_mse(m * slope, V0) + jnp.sum(p * excess)

    @property
    def noiseless_rate(self) -> float:
        """d_out of a channel without noise: how fast the free entropy diverges, -d_out/2 log V; 0 with noise."""
        return 0.0

    def check_labels(self, y: Any, *, by: str) -> np.ndarray:
        """Labels as a float array, or `InputError` if the channel could not have made them."""
        try:
            y = np.asarray(y, dtype=float)
        except (TypeError, ValueError, OverflowError):
            raise InputError(
                f"{by}: labels y must be numbers; got {repr(y)[:60]}. Encode classes as -1 and +1."
            ) from None
        name = type(self).__name__
        if not np.all(np.isfinite(y)):
            raise InputError(f"{by}: labels y must be finite; {int(np.sum(~np.isfinite(y)))} of them are not.")
        if self.labels == "binary" and not np.all(np.abs(y) == 1):
            hint = " Turn 0/1 into -1/+1 by 2*y - 1." if np.all((y == 0) | (y == 1)) else ""
            raise InputError(f"{by}: labels of {name} must be -1 or +1; got values such as {_odd(y)}.{hint}")
        return y


def _odd(y: np.ndarray) -> list[float]:
    return np.unique(y[np.abs(y) != 1])[:3].tolist()


def weight_floor(q: jax.Array) -> jax.Array:
    """sqrt(q), kept off zero so that ratios to it are finite."""
    return jnp.sqrt(jnp.maximum(q, TINY))


def teacher_given_student(rho, m, q):
    """slope and V0 of the teacher's field z given the student's omega: z ~ N(slope * omega, V0)."""
    slope = jnp.where(q > 0, m / jnp.where(q > 0, q, 1.0), 1.0)
    return slope, jnp.maximum(rho - m * slope, 1e-12 * rho)  # below, the difference is rounding


def omega_line(q, features, cuts=()):
    """Nodes and probabilities of omega ~ N(0, q), graded towards features (place, width), with edges at ``cuts``."""
    sd = weight_floor(q)
    edges = [graded_edges(0.0, 1.0, REACH), *(jnp.asarray(cut, float)[None] / sd for cut in cuts)]
    for place, width in features:
        place = jnp.clip(place / sd, -REACH, REACH)
        edges.append(graded_edges(place, jnp.clip(width / sd, 1e-14, 1.0), 2 * REACH))
    v, dv = panel_nodes(jnp.clip(jnp.concatenate(edges), -REACH, REACH))
    return sd * v, measure(v, dv)
