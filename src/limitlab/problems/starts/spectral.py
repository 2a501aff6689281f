"""A start made of the data."""

from typing import ClassVar

import jax
import jax.numpy as jnp

from limitlab.errors import InputError
from limitlab.numerics.checks import check_number
from limitlab.numerics.linalg import leading_vector
from limitlab.numerics.random import normal
from limitlab.problems.starts.base import AbstractStart, Evidence

__all__ = ["SpectralStart", "spectral_weights"]

LEAST_WEIGHT = -20.0  # 1 - rho/E[z^2|y] is unbounded below


class SpectralStart(AbstractStart):
    r"""The leading eigenvector u of a matrix made of the data, for channels that do not see the sign of z.

    .. math:: X^T \mathrm{diag}(T(y)) X, \quad T(y) = 1 - \frac{\rho}{E[z^2|y]}, \qquad
              a = \sqrt{\mathrm{overlap}\, \rho\, d}\; u, \quad v = (1 - \mathrm{overlap})\,\rho

    with T kept above -20 (``E[z^2|y]`` may be 0). It needs data: it has no law of overlaps apart from them.

    Parameters
    ----------
    overlap
        The overlap m/rho that the eigenvector is taken to have; between weak and perfect, 0.3 is a fair guess.
    """

    reference: ClassVar[tuple[str, ...]] = ("mondelli2019fundamental",)

    overlap: float = 0.3

    def __check_init__(self):
        check_number(
            "SpectralStart", "overlap", self.overlap, low=0, high=1, open_low=True, open_high=True, remedy="Use 0.3."
        )

    @property
    def blind(self) -> bool:
        return True

    @property
    def random(self) -> bool:
        return True

    def check_estimate(self, by, channel, known, teacher):
        if not channel.even:
            raise InputError(
                f"SpectralStart finds a direction but not its sign, and {channel!r} sees the sign of z. "
                "Leave start out: the prior mean is a good start here."
            )

    def estimate(self, key, evidence):
        d, rho = evidence.X.shape[1], jnp.asarray(evidence.prior.second_moment, float)
        u = leading_vector(evidence.X, spectral_weights(evidence), normal(key, (d,)))
        return jnp.sqrt(self.overlap * rho * d) * u, jnp.full(d, rho * (1 - self.overlap))


def spectral_weights(evidence: Evidence) -> jax.Array:
    r"""T(y) = 1 - V/E[z^2|y] from the output function at omega = 0, where E[z^2|y] = V + V^2 (dg + g^2)."""
    y, squares = evidence.y, evidence.squares
    V = evidence.prior.second_moment * (jnp.sum(squares, axis=1, dtype=float) if squares.ndim == 2 else squares)
    out = evidence.channel.output(y, jnp.zeros_like(y), V + 0 * y)
    second_over_V = 1 + V * (out.dg + jnp.square(out.g))
    return jnp.maximum(1 - 1 / jnp.maximum(second_over_V, 1e-12), LEAST_WEIGHT)
