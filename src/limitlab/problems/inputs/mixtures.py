"""Two classes of normal inputs that differ in width."""

import jax
import jax.numpy as jnp
import numpy as np

from limitlab.numerics.checks import check_number
from limitlab.numerics.random import normal
from limitlab.problems.base import CHUNK, Points
from limitlab.problems.inputs.labelled import AbstractLabelledInputs, Widths

__all__ = ["AnisotropicMixture", "IsotropicMixture"]


def _halves(key: jax.Array, count: int, d: int):
    """Normal points z, mirror images left out, labels in turn, and one uniform number in each quantile for a class."""
    half = -(-count // (2 * CHUNK)) * CHUNK
    key_z, key_u = jax.random.split(key)
    y = jnp.where(jnp.arange(half) % 2 == 0, 1.0, -1.0)
    z = normal(key_z, (half, d)) / jnp.sqrt(float(d))
    return z, y, (np.arange(half) // 2 + np.asarray(jax.random.uniform(key_u, (half,)))) / (half / 2)


def _check_delta(mixture) -> None:
    name = type(mixture).__name__
    check_number(name, "delta", mixture.delta, low=0, high=1, open_high=True, remedy="Use 0 <= delta < 1.")


class IsotropicMixture(AbstractLabelledInputs):
    r""":math:`y = \pm 1` with equal odds, :math:`x = (1 + y\,\mathrm{delta})\,z`, :math:`z \sim N(0, I_d/d)`."""

    delta: float

    def __check_init__(self):
        _check_delta(self)

    def draw(self, key, count, d, dtype=float):
        key_y, key_z = jax.random.split(key)
        y = jax.random.rademacher(key_y, (count,), dtype=dtype)
        z = jax.lax.optimization_barrier(normal(key_z, (count, d), dtype))
        return ((1 + self.delta * y) / jnp.sqrt(float(d)))[:, None] * z, y

    def test_points(self, key, count, d):
        """Half of each class, lengths stratified (one in each quantile of their law): directions alone are random."""
        from scipy.special import gammaincinv

        z, y, u = _halves(key, count, d)
        length = np.sqrt(2 * gammaincinv(d / 2, u) / d)
        z = z * (jnp.asarray(length) / jnp.sqrt(jnp.sum(z**2, axis=1)))[:, None]
        return Points((1 + self.delta * y[:, None]) * z, y, mirrored=True)

    def test_words(self, count):
        return f"{count} new points, half of each class, stratified lengths, mirrored directions"

    def widths(self):
        return Widths((1 + float(self.delta), 1 - float(self.delta)))


class AnisotropicMixture(AbstractLabelledInputs):
    r"""As `IsotropicMixture` on a ``fraction`` of the coordinates; the others have variance 1/d in both classes.

    At dimension d these are the first round(fraction d) coordinates.
    """

    delta: float
    fraction: float

    def __check_init__(self):
        _check_delta(self)
        check_number(
            "AnisotropicMixture", "fraction", self.fraction, low=0, high=1, remedy="It is a share of coordinates."
        )

    def informative(self, d: int) -> int:
        """How many coordinates tell the classes apart."""
        return round(float(self.fraction) * d)

    def draw(self, key, count, d, dtype=float):
        key_y, key_z = jax.random.split(key)
        y = jax.random.rademacher(key_y, (count,), dtype=dtype)
        z = jax.lax.optimization_barrier(normal(key_z, (count, d), dtype))
        scale = jnp.where(jnp.arange(d) < jnp.round(self.fraction * d), 1 + self.delta * y[:, None], 1.0)
        return scale * z / jnp.sqrt(float(d)), y

    def test_points(self, key, count, d):
        """Half of each class, mirrored."""
        z, y, _ = _halves(key, count, d)
        stretch = jnp.where(jnp.arange(d) < self.informative(d), 1 + self.delta * y[:, None], 1.0)
        return Points(stretch * z, y, mirrored=True)

    def test_words(self, count):
        return f"{count} new points, half of each class, mirrored"

    def blocks(self, d):
        return self.informative(d)

    def widths(self):
        return Widths((1 + float(self.delta), 1 - float(self.delta)), float(self.fraction))
