"""Two-layer networks whose first layer is drawn once and for all."""

from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from limitlab._setup import double
from limitlab.errors import InputError
from limitlab.modules import field
from limitlab.numerics.checks import check_number
from limitlab.numerics.gauss.rules import panel_nodes
from limitlab.numerics.random import normal
from limitlab.problems.activations import Activation, activation
from limitlab.problems.base import AbstractStudent
from limitlab.problems.inputs.modes import Modes
from limitlab.problems.inputs.spectra import MarchenkoPastur

__all__ = ["Kappas", "RandomFeatures"]

REACH = 9.0


class Kappas(NamedTuple):
    """E sigma(z), E z sigma(z), and the root of what is left of E sigma(z)^2, for z standard normal."""

    mean: float
    linear: float
    rest: float


class RandomFeatures(AbstractStudent):
    r"""Features of random directions, of which only the read-out w is fitted.

    .. math:: f(x) = \frac{1}{\sqrt p} \sum_{j \le p} w_j\, \sigma(f_j \cdot x), \qquad f_{ji} \sim N(0, 1), \quad
              p = \mathrm{width\_ratio}\; d

    Fitted by `ERM`, whose penalty is on w; ``sample_ratio`` is n/d with the dimension d of x. In the limit features are
    as good as normal (Gaussian equivalence),

    .. math:: \sigma(f \cdot x) \simeq \kappa_0 + \kappa_1 f \cdot x + \kappa_* \xi,

    which fails once n or p is of order d^2: then parts of sigma and of the labels beyond the linear one are learned.
    """

    reference: ClassVar[tuple[str, ...]] = ("mei2022generalization", "loureiro2021learning")
    frozen: ClassVar[bool] = True
    always: ClassVar[tuple[str, ...]] = ("activation",)

    width_ratio: float
    activation: Activation = field(converter=activation, default="relu")

    def __check_init__(self):
        check_number("RandomFeatures", "width_ratio", self.width_ratio, low=0, open_low=True, remedy="It is p/d.")

    def width(self, d: int) -> int:
        """The number p of features at dimension d."""
        p = round(float(self.width_ratio) * d)
        if p < 1:
            raise InputError(
                f"RandomFeatures needs at least one feature; width_ratio={self.width_ratio} at d={d} gives none. Use a "
                "larger d."
            )
        return p

    def directions_of(self, key: jax.Array, d: int) -> jax.Array:
        """F (p, d)."""
        return normal(key, (self.width(d), d))

    def features(self, F: jax.Array, x: jax.Array) -> jax.Array:
        """sigma(F x)/sqrt(p) (n, p) at the inputs x (n, d)."""
        return self.activation.unit_functions()[0](x @ F.T) / jnp.sqrt(float(F.shape[0]))

    @double
    def kappas(self) -> Kappas:
        """The moments of the activation."""
        pieces = self.activation.pieces()
        kinks = [] if pieces is None else [x for x in np.asarray(pieces.places).tolist() if abs(x) < REACH]
        z, dz = (np.asarray(x) for x in panel_nodes(np.unique([*np.linspace(-REACH, REACH, 37), *kinks])))
        weight = dz * np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
        value = np.asarray(self.activation(jnp.asarray(z)))
        k0, k1, square = (float(weight @ x) for x in (value, z * value, value**2))
        rest = square - k0**2 - k1**2
        k1 = k1 if abs(k1) > 1e-13 * np.sqrt(square) else 0.0
        k0 = k0 if abs(k0) > 1e-13 * np.sqrt(square) else 0.0
        return Kappas(k0, k1, float(np.sqrt(rest)) if rest > 1e-13 * square else 0.0)

    def equivalent(self, rho: float) -> Modes:
        """The normal features that are as good, with a teacher of variance rho."""
        _, k1, rest = self.kappas()
        if k1 == 0 and rest == 0:
            raise InputError(f"RandomFeatures.activation must not be constant; got {self.activation!r}.")
        law = MarchenkoPastur(float(self.width_ratio)).atoms
        c = k1**2 * law.c + rest**2
        t2 = float(self.width_ratio) * k1**2 * law.c * rho / np.where(c > 0, c, 1.0) ** 2
        return Modes(c, law.h, t2, max(0.0, rho - float(law.h @ (c * t2))), smooth=True)

    def unmoved(self):
        return (
            "a student whose first layer learns",
            self,
            "RandomFeatures are fitted: use algorithm=ERM(penalty=...) and sample_ratio=...",
        )

    def begin(self, key, frame, start, teacher, d):
        raise InputError("RandomFeatures have no start: they are fitted by ERM.")

    def output(self, parameters: Any, x):
        F, w = parameters
        return self.features(F, x) @ w
