"""A few directions and a function of their fields."""

from collections.abc import Callable
from typing import ClassVar

import jax.numpy as jnp
from jax.core import Tracer

from limitlab.errors import InputError
from limitlab.modules import field
from limitlab.numerics.checks import check_integer
from limitlab.numerics.random import normal
from limitlab.numerics.trees import plain
from limitlab.problems.base import AbstractTeacher
from limitlab.problems.links import AbstractLink
from limitlab.problems.links import link as as_link
from limitlab.problems.links.labels import parity
from limitlab.problems.priors import AbstractPrior, GaussianPrior

__all__ = ["MultiIndex"]

MAX_WIDTH = 10_000


class MultiIndex(AbstractTeacher):
    r"""A function of the fields of K directions: the ``link``.

    .. math:: f(x) = g(z_1, \dots, z_K), \qquad z_k = w_k \cdot x, \quad z \sim N(0, I_K)

    The channel acts on its value: `GaussianNoise` of variance 0, the default, leaves it as it is; `Sign`, `Logistic`,
    `Door`, `Modulus`, `SquaredModulus` and `Rectified` do to it what they do to one field.

    Parameters
    ----------
    width
        The number K of directions.
    link
        ``"sign_sum"`` (sum of the signs: K + 1 labels), ``"majority"`` (its sign), ``"parity"`` (sign of the product),
        ``"product"``, ``"squares"`` (mean of squares), ``"and"`` (1 if all fields are positive, else 0); a text such as
        ``"z1^2 + sign(z1*z2*z3)"`` of numbers, z1 to z20, ``+ - * ^``, division by numbers, ``sign``, ``abs``,
        ``relu``, ``tanh`` and ``erf`` (which is erf(x/sqrt(2))); or, from Python, a ``jax.numpy`` function of the K
        fields of one input.
    ties
        What the majority of an even width says to a tie: ``"zero"``, a third label, or ``"coin"``, +-1 with equal
        chances. It has no default: these are different problems.
    prior
        The law of the weights, independent, E w^2 = 1. Gaussian ones are drawn orthonormal (times sqrt(d)), so that
        runs at finite d do not scatter with them; those of other priors are left as drawn.
    """

    width: int = field(static=True)
    link: AbstractLink = field(static=True)
    ties: str | None = field(static=True, default=None)
    prior: AbstractPrior = GaussianPrior()

    by_fields: ClassVar[bool] = True

    def __init__(
        self,
        width: int,
        link: str | AbstractLink | Callable,
        ties: str | None = None,
        prior: AbstractPrior = GaussianPrior(),  # noqa: B008
    ):
        self.width = check_integer(
            "MultiIndex", "width", plain(width), low=1, high=MAX_WIDTH, remedy="It is the number of directions."
        )
        self.link = as_link(link).settled(self.width, ties)
        self.ties, self.prior = ties, prior

    def __check_init__(self):
        if not isinstance(self.prior, AbstractPrior):
            raise InputError(f"MultiIndex.prior must be a prior such as GaussianPrior(); got {self.prior!r}.")
        moment = self.prior.second_moment
        if not isinstance(moment, Tracer) and abs(float(moment) - 1) > 1e-9:
            raise InputError(
                f"MultiIndex.prior must have E w^2 = 1, so that fields have variance 1; {self.prior!r} has "
                f"{float(moment):g}. Put the size into the link."
            )

    @property
    def by_start(self) -> bool:
        """Gaussian directions may be drawn together with the student's."""
        return self.prior.gaussian

    @property
    def units(self):
        return self.width

    @property
    def parity(self):
        return parity(self.link.expected, self.width)

    def draw(self, key, d):
        """The directions (K, d)."""
        if not self.prior.gaussian:
            return self.prior.sample(key, (self.width, d))
        if d < self.width:
            raise InputError(f"MultiIndex needs d >= {self.width}, its number of directions; got d={d}.")
        frame, _ = jnp.linalg.qr(normal(key, (d, self.width)))
        return jnp.sqrt(float(d)) * frame.T

    def with_directions(self, rows):
        return rows

    def output(self, weights, x):
        return self.link(x @ weights.T.astype(x.dtype))

    def directions(self, weights):
        return weights
