"""A user's own law of labels, by quadrature."""

from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from limitlab._setup import double
from limitlab.errors import AccuracyWarning, InputError
from limitlab.modules import field
from limitlab.numerics.checks import check_array, check_number
from limitlab.numerics.gauss.normal import HALF_LOG_2PI, log_normal
from limitlab.numerics.gauss.rules import REACH, graded_edges, panel_nodes
from limitlab.problems.channels.base import (
    AbstractChannel,
    Information,
    Law,
    Output,
    teacher_given_student,
    weight_floor,
)
from limitlab.problems.channels.binary import BinaryChannel
from limitlab.text import printable, show
from limitlab.verbs import caution

__all__ = ["CustomBinary", "CustomChannel", "output_by_quadrature"]


NEVER = -1e30  # the logarithm of a probability 0


def output_by_quadrature(log_density, y, w, V, kinks, width, order: int = 8) -> Output:
    r"""log Z, g and dg of any P(y|z) by Gauss-Legendre panels around omega and around its kinks.

    Parameters
    ----------
    log_density
        log P(y|z), elementwise.
    kinks, width
        Places in z where P changes quickly, and the scale of the change (0 for a jump).
    """
    y, w, V = jnp.broadcast_arrays(*(jnp.asarray(x, float) for x in (y, w, V)))

    def one(y, w, V):
        root = jnp.sqrt(V)
        edges = [graded_edges(0.0, 1.0, REACH, 6)]
        for kink in kinks:  # also one far away, which a surprising label may ask for: what lies behind it falls like
            place = (kink - w) / root  # exp(-|place| x)
            edges.append(graded_edges(place, jnp.clip(width / root, 1e-8, 1 / (1 + jnp.abs(place))), 2 * REACH, 8))
        x, dx = panel_nodes(jnp.concatenate(edges), order)
        log_p = log_density(y, w + root * x) - jnp.square(x) / 2
        top = jnp.max(log_p)
        p = dx * jnp.exp(log_p - top)
        total = jnp.sum(p)
        mean = jnp.sum(p * x) / total
        variance = jnp.sum(p * jnp.square(x - mean)) / total
        log_z = top + jnp.log(total) - HALF_LOG_2PI
        return Output(log_z, mean / root, (variance - 1) / V)

    flat = [x.ravel() for x in (y, w, V)]
    out = jax.vmap(one)(*flat)
    return Output(*(x.reshape(y.shape) for x in out))


def _tuple(values: Any) -> tuple[float, ...]:
    return tuple(float(x) for x in np.atleast_1d(check_array("The places of a channel", values)))


def _called(what: str, function: Any, *arguments: jax.Array) -> np.ndarray:
    """A user's function at every element of the arguments; `InputError` if it cannot be called so."""
    try:
        return np.asarray(jax.vmap(function)(*arguments))
    except Exception as error:
        label, numbers = getattr(function, "__name__", show(function)), "number" + "s" * (len(arguments) > 1)
        raise InputError(
            f"{what} must be a jax.numpy function of {len(arguments)} {numbers}; {label} raised "
            f"{type(error).__name__}: {printable(str(error), 300)}. Write it with jax.numpy, jnp.where for if."
        ) from error


class CustomBinary(BinaryChannel):
    r"""Labels +-1 with :math:`P(y = +1 | z)` = ``probability(z)``, any jax.numpy function.

    Parameters
    ----------
    probability
        z -> P(+1|z), between 0 and 1.
    kinks, width
        Where the probability jumps or bends quickly, and over which width (0 for a jump). Panels are put there.
    symmetric
        True if P(+1|z) = P(+1|-z): then an estimate of 0 learns nothing.
    """

    probability: Callable = field(static=True)
    kinks: tuple[float, ...] = field(static=True, converter=_tuple, default=(0.0,))
    width: float = field(static=True, default=0.1)
    symmetric: bool = field(static=True, default=False)

    @double
    def __check_init__(self):
        z = jnp.linspace(-30.0, 30.0, 601)
        p = _called("CustomBinary.probability", self.probability, z)
        if p.shape != z.shape or not np.all((p >= 0) & (p <= 1)):
            raise InputError(
                "CustomBinary.probability must map a number z to a probability between 0 and 1; on [-30, 30] it gave "
                f"values from {np.min(p):g} to {np.max(p):g}. Return P(y = +1 | z)."
            )
        check_number("CustomBinary", "width", self.width, low=0, remedy="Use 0 for a jump.")

    @property
    def even(self):
        return self.symmetric

    def sample(self, key, z):
        return jnp.where(jax.random.uniform(key, z.shape) < self.probability(z), 1.0, -1.0).astype(z.dtype)

    def told(self, z, xp):
        p = jax.vmap(self.probability)(jnp.ravel(z)).reshape(jnp.shape(z))
        return xp.asarray(2 * p - 1)

    def output(self, y, w, V):
        def log_p(y, z):
            p = self.probability(z)
            p = jnp.where(y > 0, p, 1 - p)
            return jnp.where(p > 0, jnp.log(jnp.maximum(p, 1e-300)), NEVER)

        return output_by_quadrature(log_p, y, w, V, self.kinks, self.width)

    def mean_label(self, w, V):
        return 2 * jnp.exp(self.output(jnp.ones_like(w), w, V).log_z) - 1

    def features(self, V):
        return self.kinks, jnp.sqrt(V + self.width**2)

    def switches(self, V):
        pairs = zip(self.kinks[:-1], self.kinks[1:], strict=True) if len(self.kinks) > 1 else ()
        return tuple(((a + b) / 2, (V + self.width**2) / max(b - a, 1e-12)) for a, b in pairs)


class CustomChannel(AbstractChannel):
    r"""Real labels with a density of the user's: ``log_density(y, z)`` = log P(y|z), any jax.numpy function.

    Parameters
    ----------
    log_density
        (y, z) -> log P(y|z), normalised over ``support``.
    support
        (low, high): the labels that can occur; integrals over y run over it.
    draw
        (key, z) -> labels, for simulations. None: by inverting the distribution on a grid.
    kinks, width
        Where P(y|z) bends quickly in z, and over which width. ``label_width`` is the scale on which it varies in y.
    symmetric
        True if P(y|z) = P(y|-z).

    The normalisation is checked when the channel is made: a density that does not integrate to 1 is refused.
    """

    labels: ClassVar[str] = "real"

    log_density: Callable = field(static=True)
    support: tuple[float, ...] = field(static=True, converter=_tuple)
    draw: Callable | None = field(static=True, default=None)
    kinks: tuple[float, ...] = field(static=True, converter=_tuple, default=(0.0,))
    width: float = field(static=True, default=0.1)
    label_width: float = field(static=True, default=0.1)
    symmetric: bool = field(static=True, default=False)

    @double
    def __check_init__(self):
        if len(self.support) != 2 or not (np.all(np.isfinite(self.support)) and self.support[0] < self.support[1]):
            raise InputError(f"CustomChannel.support must be (low, high) with low < high; got {self.support!r}.")
        check_number("CustomChannel", "width", self.width, low=0, remedy="Use 0 for a jump.")
        check_number("CustomChannel", "label_width", self.label_width, low=0, open_low=True, remedy="Use a scale of y.")
        y, dy = self._labels()
        _called("CustomChannel.log_density", self.log_density, y, jnp.zeros_like(y))
        for z in (-2.0, -0.3, 0.4, 1.7):
            mass = float(jnp.sum(dy * jnp.exp(self.log_density(y, jnp.asarray(z)))))
            if not abs(mass - 1) < 1e-6:
                raise InputError(
                    f"CustomChannel.log_density must be normalised: its integral over y in {self.support} at z = {z:g} "
                    f"is {mass:.8g}, not 1. Widen support, lower label_width, or divide by the integral."
                )

        self._check_resolution()

    def _check_resolution(self):
        """Warn if P(y|z) is too narrow in z for the inner rule: twice its nodes must give the same."""
        y, _ = self._labels()
        z = jnp.asarray([-1.3, -0.4, 0.7, 1.9])
        likely = y[jnp.argmax(jax.vmap(lambda z: self.log_density(y, z))(z), axis=1)]
        arguments = (self.log_density, likely, jnp.full(4, 0.2), jnp.ones(4), self.kinks, self.width)
        plain, fine = (output_by_quadrature(*arguments, order=order) for order in (8, 24))
        gap = float(jnp.max(jnp.abs(plain.g - fine.g) / (1 + jnp.abs(fine.g))))
        if not gap < 1e-5:
            caution(
                f"CustomChannel: log_density is narrower in z than the rule can resolve (error {gap:.0e} of a mean). "
                "Results have no more digits than that. Add kinks and a width where it is narrow, or use more noise.",
                AccuracyWarning,
            )

    @property
    def heavy(self):
        return True

    def _labels(self):
        low, high = self.support
        count = int(min(400, max(40, (high - low) / self.label_width)))
        return panel_nodes(jnp.linspace(low, high, count + 1), 6)

    @property
    def even(self):
        return self.symmetric

    def sample(self, key, z):
        if self.draw is not None:
            return self.draw(key, z)
        y, dy = self._labels()

        def one(u, z):
            p = dy * jnp.exp(self.log_density(y, z))
            mass = jnp.cumsum(p) - p / 2  # up to the node itself
            return jnp.interp(u * jnp.sum(p), mass, y)

        return jax.vmap(one)(jax.random.uniform(key, z.ravel().shape), z.ravel()).reshape(z.shape)

    def output(self, y, w, V):
        return output_by_quadrature(self.log_density, y, w, V, self.kinks, self.width)

    def _moments(self, w, V):
        """E[y] and E[y^2] for z ~ N(w, V), w and V of one dimension."""
        y, dy = self._labels()

        def one(pair):
            p = dy * jnp.exp(self.output(y, *pair).log_z)
            return jnp.sum(p * y), jnp.sum(p * y**2)

        return jax.lax.map(one, (w, V))

    def mean_label(self, w, V):
        w, V = jnp.broadcast_arrays(w, V)
        return self._moments(w.ravel(), V.ravel())[0].reshape(w.shape)

    def _line(self, q, V):
        """Nodes of omega ~ N(0, q) and their probabilities."""
        sd = weight_floor(q)
        edges = [graded_edges(0.0, 1.0, REACH, 8)]
        for kink in self.kinks:
            fine = jnp.clip(jnp.sqrt(V + self.width**2) / sd, 1e-14, 1.0)
            edges.append(graded_edges(jnp.clip(kink / sd, -REACH, REACH), fine, 2 * REACH, 10))
        v, dv = panel_nodes(jnp.clip(jnp.concatenate(edges), -REACH, REACH), 6)
        return sd * v, dv * jnp.exp(log_normal(v, 0.0, 1.0))

    def law(self, q, slope, V0, V):
        w, p = self._line(q, jnp.minimum(V, V0))
        y, dy = self._labels()
        density = jax.lax.map(lambda x: jnp.exp(self.output(y, slope * x, V0).log_z), w)
        w, y = jnp.broadcast_arrays(w[:, None], y)
        return Law(y, w, p[:, None] * dy * density)

    def bayes(self, m, V):
        w, p = self._line(m, V)
        y, dy = self._labels()

        def one(x):
            out = self.output(y, x, V)
            density = dy * jnp.exp(out.log_z)
            return jnp.sum(density * jnp.square(out.g)), jnp.sum(density * out.log_z)

        return Information(*(jnp.sum(p * x) for x in jax.lax.map(one, w)))

    def label_mse(self, m, V):
        w, p = self._line(m, V)
        mean, square = self._moments(w, V + 0 * w)
        return jnp.sum(p * (square - jnp.square(mean)))

    def prediction_error(self, rho, m, q, V):
        slope, V0 = teacher_given_student(rho, m, q)
        w, p = self._line(q, jnp.minimum(V, V0))
        mean, square = self._moments(slope * w, V0 + 0 * w)
        guess, _ = self._moments(w, V + 0 * w)
        return jnp.sum(p * (square - 2 * mean * guess + jnp.square(guess)))
