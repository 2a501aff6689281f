"""Two-layer networks."""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from limitlab.errors import InputError
from limitlab.modules import field
from limitlab.numerics.checks import check_array, check_choice, check_integer
from limitlab.numerics.random import normal
from limitlab.numerics.trees import as_array, is_zero, plain
from limitlab.problems.activations import Activation, activation
from limitlab.problems.base import AbstractStudent, AbstractTeacher, Pace, Response
from limitlab.problems.networks.network import Network

__all__ = ["Committee"]


def _weights(value) -> np.ndarray | None:
    return None if value is None else check_array("Committee.output_weights", value)


def _nothing(dtype: Any) -> tuple[jax.Array, jax.Array]:
    return jnp.zeros((), dtype), jnp.full((), -jnp.inf, dtype)


def _sum_and_most(a: tuple, b: tuple) -> tuple:
    return a[0] + b[0], jnp.maximum(a[1], b[1])


class Committee(AbstractTeacher, AbstractStudent):
    r"""A two-layer network of ``width`` units.

    .. math:: f(x) = \frac1p \sum_{i=1}^{p} a_i\, \sigma(w_i \cdot x), \qquad |w_i|^2 \approx d, \quad |x|^2 \approx 1

    Parameters
    ----------
    width
        Number of units p (of a student) or k (of a teacher).
    activation
        A name ("erf", "relu", ...), `hermite(k)`, `shifted(name, by)`, `piecewise(knots)`, or a jax.numpy function.
    second_layer
        "fixed", or "trained" together with the first layer (students only).
    bias
        "none", or "trained": units :math:`a_i \sigma(w_i \cdot x + b_i)` whose b_i move at the rate of the weights
        (students only).
    output_weights
        The second layer a: of a teacher, or of a student at time 0. None means all ones (of a student: what the
        start says).
    """

    width: int = field(static=True, converter=plain)
    activation: Activation = field(converter=activation, default="erf")
    second_layer: str = field(static=True, default="fixed")
    output_weights: np.ndarray | None = field(converter=_weights, default=None)
    bias: str = field(static=True, default="none")

    by_start: ClassVar[bool] = True
    by_fields: ClassVar[bool] = True
    always: ClassVar[tuple[str, ...]] = ("activation",)

    def __check_init__(self):
        check_integer("Committee", "width", self.width, low=1, high=2**53, remedy="A network has at least one unit.")
        check_choice("Committee", "second_layer", self.second_layer, ("fixed", "trained"))
        check_choice("Committee", "bias", self.bias, ("none", "trained"))
        a = self.output_weights
        if a is not None and (a.shape != (self.width,) or not np.all(np.isfinite(a))):
            raise InputError(
                f"Committee.output_weights must be {self.width} finite numbers, one per unit (width={self.width}); "
                f"got {np.asarray(a).tolist()!r}. Leave it out for all ones."
            )

    @property
    def units(self) -> int:
        return self.width

    @property
    def linear(self) -> bool:
        plain = self.second_layer == "fixed" and self.bias == "none" and self.output_weights is None
        return plain and self.width == 1 and self.activation.name == "linear"

    @property
    def squares(self) -> bool:
        return self.activation.name == "square"

    @property
    def kinked(self) -> bool:
        """True if the activation has kinks: its slope jumps."""
        pieces = self.activation.pieces()
        return pieces is not None and len(pieces.places) > 0

    @property
    def parity(self) -> int:
        return self.activation.parity

    def unsigned(self, start):
        pairs = ("Q",) if self.width > 1 else ()
        bias = ("b",) if self.bias == "trained" else ()
        if self.activation.parity == 1:
            return ("M", *pairs, *bias)
        if self.activation.parity == -1 and self.output_weights is None and start.random_layer:
            return ("M", *pairs, *bias, "a")  # the second layer is as likely as its negative
        return ()

    @property
    def a_star(self) -> jax.Array | np.ndarray:
        """The second layer of a teacher."""
        given = self.output_weights
        return np.ones(self.width) if given is None else given

    def check_beside(self, problem):
        if self.second_layer == "trained":
            raise InputError(
                'Problem.teacher has second_layer="trained", but a teacher does not move. Use "fixed" for the teacher.'
            )

    def draw(self, key, d):
        """Orthonormal directions, times sqrt(d), of random orientation."""
        frame, _ = jnp.linalg.qr(normal(key, (d, self.width)))
        return self.with_directions(jnp.sqrt(float(d)) * frame.T)

    def with_directions(self, rows):
        return Network.of(rows, as_array(self.a_star))

    def begin(self, key, frame, start, teacher, d):
        return start.network(key, frame, self, teacher, d)

    def output(self, weights: Network, x):
        return self.activation.unit_functions()[0](weights.fields(x)) @ weights.a / self.width

    def link(self, fields):
        return self.activation.unit_functions()[0](fields) @ self.a_star / self.width

    def respond(self, parameters: Network, x):
        net, lam = parameters, parameters.fields(x)
        value_of, slope_of = self.activation.unit_functions()
        value = value_of(lam)

        def back(pull):
            C = net.a * slope_of(lam) * pull[:, None] / self.width
            b = None if net.b is None else jnp.sum(C, axis=0)
            return Network(net.spread(C, x), pull @ value / self.width, b)

        if len(x) == 1:  # both sums in one go: of many units the compiler makes five small programs of them
            f, size = jax.lax.reduce((value * net.a, jnp.abs(lam)), _nothing(lam.dtype), _sum_and_most, (1,))
            return Response(f / self.width, size[0], back)
        return Response(value @ net.a / self.width, jnp.max(jnp.abs(lam)), back)

    def on_sphere(self, parameters: Network):
        return parameters.on_sphere()

    def unmoved(self):
        if not self.activation.flat:
            return None
        return (
            "a student activation with a gradient",
            f"{self.activation!r}, whose derivative is zero almost everywhere",
            'Use "erf" or "tanh" for the student; "sign" is for teachers.',
        )

    def pace(self, parameters: Network, d, second_layer_rate):
        trained = self.second_layer == "trained" and not is_zero(second_layer_rate)
        a = Pace(second_layer_rate / d, 1.0) if trained else None
        b = Pace(1 / d, 1.0) if self.bias == "trained" else None
        return Network(Pace(1.0, jnp.sqrt(d)), a, b)

    def directions(self, weights: Network):
        return weights.rows
