r"""Gradient rules on a fixed data set of n samples.

.. math:: G = \sum_\mu \sigma_\mu \ell'(y_\mu, w \cdot x_\mu)\, x_\mu, \qquad
          w \leftarrow (1 - \eta\lambda)\, w - \eta G + \sqrt{2T\eta}\, N(0, I_d)

with eta = ``learning_rate``, lambda = ``penalty``, masks sigma_mu and a temperature T that depend on the rule; then, if
``spherical``, w is put back on the sphere :math:`|w|^2 = d`. Clock of all: t = learning_rate * step.

A student of m units moves by the same rule at eps = learning_rate/m, on the clock t = eps * step:

.. math:: w_a \leftarrow (1 - \epsilon\lambda)\, w_a - \epsilon \sum_\mu \sigma_\mu g_{a,\mu} x_\mu
          + \sqrt{2T\epsilon}\, N(0, I_d), \qquad g_{a,\mu} = m\, \frac{\partial \ell(y_\mu, f(x_\mu))}{\partial h_a},
          \quad h_a = w_a \cdot x_\mu

and every unit is put back on its sphere; masks that persist do so on this clock, with eps in place of eta. A trained
second layer moves by its own gradient at 1/d of that pace, as in `OnlineSGD` with ``second_layer_rate=1``,
:math:`a_i \leftarrow (1 - \epsilon\lambda)\, a_i - \tfrac{\epsilon m}{d} \sum_\mu \sigma_\mu
\partial\ell/\partial a_i + \sqrt{2T\epsilon/d}\, N(0, 1)`; biases likewise.

With ``fresh`` the n samples are new ones at every step.
"""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from limitlab.algorithms.checks import SPHERE, check_rate
from limitlab.errors import InputError
from limitlab.modules import AbstractVar
from limitlab.numerics.checks import check_number
from limitlab.problems.base import AbstractAlgorithm

__all__ = ["AbstractDescent", "check_descent_rule"]


class AbstractDescent(AbstractAlgorithm):
    """The law of a step, which simulations and limits share: masks, their scale and thermal noise."""

    learning_rate: AbstractVar[float]
    spherical: AbstractVar[bool]
    penalty: AbstractVar[float]
    fresh: AbstractVar[bool]
    ADDED: ClassVar[tuple[str, ...]] = ("fresh",)
    masked: ClassVar[bool] = False
    takes: ClassVar[str] = "a fixed data set, all of it at every step"
    clock_words: ClassVar[str] = "t = γ·step/m"

    def clock(self, problem, d):
        """Macroscopic time per step, gamma/m for a student of m units."""
        return self.learning_rate / (1 if problem.student is None else problem.student.units)

    def clock_in_words(self, problem):
        return "t = γ·step" if problem.student is None else self.clock_words

    def references(self):
        return (*self.reference, *SPHERE) if self.spherical else self.reference

    def usual_limit(self, problem):
        """Squares from a random start have M = 0 in the limit of DMFT: `MatrixFlow` follows them."""
        student, start = problem.student, problem.start
        lost = student is not None and student.squares and start is not None and start.random
        return "MatrixFlow" if lost else "DMFT"

    @property
    def heat(self) -> Any:
        """The temperature T of the added noise; None if there is none by declaration, which is another formula."""
        return None

    @property
    def factor(self):
        """What the force of a sample in the batch is multiplied by."""
        return 1.0

    def first_mask(self, key: jax.Array, count: int) -> jax.Array:
        """Which of ``count`` samples are in the batch at step 0."""
        return jnp.ones(count, bool)

    def next_mask(self, key: jax.Array, mask: jax.Array, width: int = 1) -> jax.Array:
        """Which samples are in the batch at the next step, of time learning_rate/width."""
        return mask

    def batch_after(self, key: jax.Array, mask: jax.Array, width: int) -> jax.Array:
        """`next_mask`; of one unit it is asked without a width, which a rule of a user's own need not know."""
        return self.next_mask(key, mask) if width == 1 else self.next_mask(key, mask, width)


def check_descent_rule(rule: AbstractDescent) -> None:
    name = type(rule).__name__
    check_rate(rule)
    check_number(name, "penalty", rule.penalty, low=0, remedy="Use 0 for none.")
    if not isinstance(rule.fresh, bool):
        raise InputError(f"{name}.fresh must be True (n new samples at every step) or False; got {rule.fresh!r}.")
    if rule.spherical and float(rule.penalty) > 0:
        raise InputError(
            f"{name}.penalty acts on the norm of w, which spherical=True keeps fixed; got penalty={rule.penalty:g}. "
            "Use spherical=False, or penalty=0."
        )
