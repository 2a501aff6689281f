r"""What a loss is: a convex function of one number, and its proximal calculus.

A classification loss is a function of the margin t = y z, a regression loss one of the residual t = y - z. Both
roads, finite size and limit, ask for

.. math:: P_V(s) = \mathrm{argmin}_t\ \ell(t) + \frac{(t - s)^2}{2V}, \qquad
          G_V(s) = \frac{P_V(s) - s}{V} = -\ell'(P_V(s)), \qquad
          G_V'(s) = -\frac{\ell''}{1 + V\ell''}.
"""

from abc import abstractmethod
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from limitlab.modules import filter_jit
from limitlab.numerics.checks import check_choice
from limitlab.numerics.convex.fit import Fit, in_span, undefined
from limitlab.numerics.convex.newton import newton
from limitlab.numerics.convex.splitting import splitting
from limitlab.numerics.roots import proximal_point
from limitlab.problems.channels.base import AbstractChannel
from limitlab.problems.part import Part
from limitlab.problems.predictor import Predictor

__all__ = ["AbstractConvexLoss", "AbstractLoss", "Misfit", "Proximal", "newton_prox"]


class Proximal(NamedTuple):
    """The proximal point, its pull G = (point - s)/V, and the derivative of the pull in s."""

    point: jax.Array
    pull: jax.Array
    bend: jax.Array


class Misfit(NamedTuple):
    """Why a loss makes no sense of a channel's labels: what it needs, what came, what to do."""

    needed: str
    came: object
    remedy: str


class AbstractLoss(Part):
    """A loss per sample, paid for the output z when the label is y; ``differentiable`` if descent can follow it."""

    convex: ClassVar[bool] = False
    differentiable: ClassVar[bool] = True

    @property
    def smooth(self) -> bool:
        """True if the loss has no kinks."""
        return True

    @abstractmethod
    def value(self, y: jax.Array, z: jax.Array) -> jax.Array:
        """The loss, elementwise."""

    @abstractmethod
    def gradient(self, y: jax.Array, z: jax.Array) -> tuple[jax.Array, jax.Array]:
        """First and second derivative of the loss in z, elementwise (beside a kink, if there is one)."""

    def reads(self, channel: AbstractChannel) -> Misfit | None:
        """None if the channel's labels are of the kind that the loss is a function of; otherwise why not."""
        return None

    def learns(self, channel: AbstractChannel) -> bool:
        """Whether a linear output can learn a direction from such labels; by default, if they see the sign of z."""
        return not channel.even

    def fits(self, channel: AbstractChannel) -> Misfit | None:
        """None if descent of a linear output on this loss makes sense of the channel's labels; otherwise why not.

        A limit asks before it trusts its equations. A simulation need not: any labels and any gradient run.
        """
        if not self.differentiable:
            return Misfit("a loss with a gradient", self, "Use SquaredHingeLoss() or LogisticLoss().")
        if (wrong := self.reads(channel)) is not None:
            return wrong
        if self.learns(channel):
            return None
        return Misfit(
            f"labels that see the sign of z for {type(self).__name__}",
            f"{channel}, from which a linear output learns nothing",
            "Use loss=PhaseRetrievalLoss() or AmplitudeLoss().",
        )

    @property
    def quartic(self) -> Any:
        """c if the force grows as c z^3: long steps overshoot far out; 0 if it does not."""
        return 0.0

    def of_squares(self) -> "AbstractLoss":
        """The loss of an output that stands for the square of a field (a student of squares)."""
        return self

    def squares_prefactor(self, channel: AbstractChannel) -> Any:
        r"""kappa if such an output f pays :math:`\kappa (z^2 - f)^2` for labels of the channel; else None."""
        return None

    def risk(self, channel: AbstractChannel, m: jax.Array, q: jax.Array, rho: jax.Array) -> jax.Array:
        r"""E loss(y, omega) on a new sample: omega = w.x, m = w.w*/d, q = \|w\|^2/d, rho = \|w*\|^2/d."""
        p = Predictor.of(m, q, rho)
        law = channel.plain_law(p.q, p.slope, p.V0, p.V0)
        return law.mean(self.value(law.y, law.w))


class AbstractConvexLoss(AbstractLoss):
    r"""A convex loss of the margin t = y z or of the residual t = y - z.

    To add a loss, write a small frozen class like those of ``margin.py`` with

    - ``of``: "margin" (labels -1, +1) or "residual";
    - ``scalar(t)``: the loss as a function of one number, in JAX;
    - ``proximal(s, V)``: `Proximal`, elementwise, stable for V from 1e-8 to 1e8. Leave it out if the loss has two
      derivatives: then `newton_prox` finds it;
    - ``features(V)``: the places s where the pull changes quickly, and over which width (where quadrature panels
      must be fine); ``sharp = True`` if they are kinks between pieces that are smooth on every scale;
    - ``smooth``, a property that is False if the loss itself has kinks: Newton's method on the weights would fail;
    - ``even = True`` for a residual loss that does not see the sign of the residual.

    From Python, `CustomLoss` takes a function and needs no class.
    """

    convex: ClassVar[bool] = True
    sharp: ClassVar[bool] = False
    even: ClassVar[bool] = False
    hard: ClassVar[bool] = False  # a constraint and no price: no penalty weighs against it, and no risk is finite
    quadratic: ClassVar[bool] = False  # t^2/2: ridge regression, in closed form
    if_separable: ClassVar[str] = "the minimiser is not unique"  # without penalty
    of: ClassVar[str]

    def __check_init__(self):
        check_choice(type(self).__name__, "of", getattr(self, "of", None), ("margin", "residual"))

    @abstractmethod
    def scalar(self, t: jax.Array) -> jax.Array:
        """The loss as a function of the margin or residual t."""

    @abstractmethod
    def features(self, V: jax.Array) -> tuple[tuple, jax.Array | float]:
        """Centres in s, and the width of the change there."""

    def proximal(self, s: jax.Array, V: jax.Array) -> Proximal:
        """The proximal point of s, its pull and the derivative of the pull."""
        return newton_prox(self.derivatives, s, V)

    def derivatives(self, t: jax.Array) -> tuple[jax.Array, jax.Array]:
        """First and second derivative of `scalar`, elementwise."""
        first = jax.grad(self.scalar)
        flat = jnp.ravel(t)
        a, b = jax.vmap(first)(flat), jax.vmap(jax.grad(first))(flat)
        return a.reshape(jnp.shape(t)), b.reshape(jnp.shape(t))

    def variable(self, y: jax.Array, z: jax.Array) -> jax.Array:
        """The margin or residual of an output z."""
        return y * z if self.of == "margin" else y - z

    def value(self, y, z):
        return self.scalar(self.variable(y, z))

    def prox(self, y: jax.Array, w: jax.Array, V: jax.Array) -> jax.Array:
        """argmin over z of loss(y, z) + (z - w)^2/(2V)."""
        point = self.proximal(self.variable(y, w), V).point
        return y * point if self.of == "margin" else y - point

    def output(self, y: jax.Array, w: jax.Array, V: jax.Array) -> tuple[jax.Array, jax.Array]:
        """g = (prox - w)/V and its derivative in w."""
        _, pull, bend = self.proximal(self.variable(y, w), V)
        return (y * pull if self.of == "margin" else -pull), bend

    def gradient(self, y, z):
        first, second = self.derivatives(self.variable(y, z))
        return (y * first if self.of == "margin" else -first), second

    def reads(self, channel):
        if self.of == "residual" or channel.labels == "binary":
            return None
        name = type(self).__name__
        return Misfit(f"labels -1 and +1 for {name}", channel, "Use a channel such as Sign(), or loss=SquareLoss().")

    def learns(self, channel):
        return self.of == "margin" or super().learns(channel)

    def risk(self, channel, m, q, rho):
        y, w, _, weight = channel.fields(self, Predictor.of(m, q, rho), jnp.asarray(1e-300))
        return jnp.sum(weight * self.value(y, w))

    def minimise(self, X: np.ndarray, y: np.ndarray, penalty: float) -> Fit:
        r"""argmin over w of :math:`\sum_\mu \ell(y_\mu, w\cdot x_\mu) + \tfrac\lambda2 |w|^2` over the rows of X."""
        n, d = X.shape
        if self.of == "residual" and penalty == 0 and n <= d:
            return undefined(d, "without penalty infinitely many weights fit all labels (n <= d). Use a penalty > 0.")
        return in_span(lambda rows: self.minimise_tall(rows, y, penalty), X)

    def minimise_tall(self, X: np.ndarray, y: np.ndarray, penalty: float) -> Fit:
        """Like `minimise`, for n >= d: by Newton's method, or by the proximal map alone if there are kinks."""
        labels = jnp.asarray(y)
        if not self.smooth:
            return splitting(lambda z, V: np.asarray(_prox(self, labels, jnp.asarray(z), V)), X, penalty)
        return newton(
            lambda z: tuple(map(np.asarray, _terms(self, labels, jnp.asarray(z)))),
            X,
            penalty,
            signs=y if self.of == "margin" else None,
        )


@filter_jit
def _terms(loss: AbstractConvexLoss, y: jax.Array, z: jax.Array):
    return loss.value(y, z), *loss.gradient(y, z)


@filter_jit
def _prox(loss: AbstractConvexLoss, y: jax.Array, z: jax.Array, V: Any):
    return loss.prox(y, z, V)


def newton_prox(derivatives, s: jax.Array, V: jax.Array) -> Proximal:
    """The proximal point of any convex loss with two derivatives, by Newton steps kept inside a bracket."""
    s, V = jnp.broadcast_arrays(jnp.asarray(s, float), jnp.asarray(V, float))
    p = proximal_point(derivatives, s, V)
    first, second = derivatives(p)
    return Proximal(p, -first, -second / (1 + V * second))
