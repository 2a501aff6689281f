"""One-pass stochastic gradient descent."""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from limitlab.algorithms.checks import check_rate
from limitlab.algorithms.one_pass.base import AbstractOnePass
from limitlab.algorithms.one_pass.schedules import AbstractSchedule
from limitlab.errors import InputError
from limitlab.modules import field
from limitlab.numerics.checks import check_integer, check_number
from limitlab.numerics.trees import is_zero, plain
from limitlab.states.run import Learner

__all__ = ["OnlineSGD"]


class OnlineSGD(AbstractOnePass):
    r"""One-pass stochastic gradient descent: fresh samples at every step.

    .. math::
        w_i \leftarrow w_i + \frac{\gamma}{p}\, \langle a_i \sigma'(\lambda_i)\, \mathcal E\, x \rangle, \qquad
        a_i \leftarrow a_i + \kappa \frac{\gamma}{p d}\, \langle \sigma(\lambda_i)\, \mathcal E \rangle,
        \qquad \mathcal E = -\partial_f\, \ell(y, f)

    with the mean over ``batch_size`` samples, gamma = ``learning_rate``, kappa = ``second_layer_rate``; of the square
    loss E = y - f. With ``spherical=True`` every w_i is put on the sphere of radius sqrt(d) at the start and after
    each step. Weight decay lambda multiplies all that is trained by 1 - lambda gamma/(p d) at each step (-lambda theta
    on the clock); a ``temperature`` T adds Gaussian noise of variance 2 T gamma/(p d) to all of theta = (a_i, b_i,
    w_i/sqrt(d)), whose law then tends to exp(-Psi/T). With kappa = 0 the second layer is frozen: it has neither decay
    nor noise. A ``schedule`` multiplies gamma at each step by the mean of xi over that step, in all these places, and
    leaves the clock as it is. Clock: t = gamma * step / (p d).
    """

    clock_words: ClassVar[str] = "t = γ·step/(p·d)"
    reference: ClassVar[tuple[str, ...]] = ("saad1995online",)
    chained: ClassVar[bool] = True

    learning_rate: float
    spherical: bool = field(static=True, default=False)
    batch_size: int = field(static=True, converter=plain, default=1)
    second_layer_rate: float = 1.0
    weight_decay: float = 0.0
    temperature: float = 0.0
    schedule: AbstractSchedule | None = None

    def __check_init__(self):
        check_rate(self)
        check_integer("OnlineSGD", "batch_size", self.batch_size, low=1, remedy="Each step needs a sample.")
        check_number(
            "OnlineSGD", "second_layer_rate", self.second_layer_rate, low=0, remedy="Use 0 to freeze the second layer."
        )
        check_number("OnlineSGD", "weight_decay", self.weight_decay, low=0, remedy="Use 0 for none.")
        check_number("OnlineSGD", "temperature", self.temperature, low=0, remedy="Use 0 for SGD without added noise.")
        if self.schedule is not None and not isinstance(self.schedule, AbstractSchedule):
            raise InputError(
                f"OnlineSGD.schedule must be a schedule such as PowerSchedule(0.25), or None; got {self.schedule!r}."
            )

    @property
    def heated(self):
        return self.temperature is not None and not is_zero(self.temperature)

    @property
    def on_sphere(self):
        return self.spherical

    def speed(self, size: Any, n: jax.Array) -> Any:
        """By how much the schedule multiplies step n; ``size`` is p d."""
        return 1.0 if self.schedule is None else self.schedule.steps(n, self.learning_rate / size)

    def keep(self, size: Any, n: jax.Array) -> Any:
        """What weight decay leaves of a parameter."""
        if is_zero(self.weight_decay):
            return 1.0
        return 1 - self.weight_decay * self.learning_rate * self.speed(size, n) / size

    def move(self, setting, d, state, gradient, sample, n):
        size = setting.student.units * d
        speed, keep = self.speed(size, n), self.keep(size, n)
        rate = self.learning_rate * speed
        kick = jnp.sqrt(2 * self.temperature * rate / size) if self.heated else None

        def moved(theta, slope, pace, heat=None):
            if pace is None:
                return theta
            new = keep * theta - (rate * pace.rate) * slope
            return new if kick is None else new + (kick * pace.spread) * heat

        pace = setting.student.pace(state.student, float(d), self.second_layer_rate)
        heat = () if sample.heat is None else (sample.heat,)
        student = jax.tree.map(moved, state.student, gradient, pace, *heat)
        return Learner(setting.student.on_sphere(student) if self.spherical else student, state.teacher)
