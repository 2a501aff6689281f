r"""The population risk E loss(y, f) where no formula is known: a mean over test points, with its standard error.

Test points are new to the learner and fixed along time. Where noise adds to the labels and errors are squared, the
noise is averaged exactly: :math:`\tfrac12 \langle (z - f)^2 \rangle + \Delta/2`.
"""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from limitlab.modules import Module, filter_jit
from limitlab.problems.base import CHUNK, AbstractStudent, Points
from limitlab.problems.losses import AbstractLoss
from limitlab.states.view import RUN, AbstractView, Variable

__all__ = ["TestRisk", "mean_and_error", "test_count"]

MOST = 2**14  # test points of a replica
NUMBERS = 2**22  # of test points of a replica (32 MiB)


def test_count(d: int) -> int:
    """How many test points a replica has in d dimensions: whole chunks."""
    return max(2, min(MOST, NUMBERS // d) // CHUNK) * CHUNK


class TestRisk(Module):
    """Test points of every replica (their first axis), labels included."""

    __test__ = False  # not a test, for pytest

    variables: ClassVar[dict[str, Variable]] = {
        **AbstractView.variables,
        "risk_error": Variable(RUN, "standard error of a risk that was measured on test points"),
    }

    tests: Points
    loss: AbstractLoss
    student: AbstractStudent

    @filter_jit
    def __call__(self, parameters: Any) -> tuple[jax.Array, jax.Array]:
        """Mean loss of each replica and its standard error; replicas one after the other, so that memory is bounded."""
        return jax.lax.map(lambda both: self._one(*both), (self.tests, parameters))

    def _one(self, tests: Points, parameters: Any) -> tuple[jax.Array, jax.Array]:
        d = tests.x.shape[-1]
        x, y = tests.x.reshape(-1, min(CHUNK, len(tests.x)), d), tests.y
        y = y.reshape(x.shape[:2])  # type: ignore[union-attr]

        def add(sums, chunk):
            x, y = chunk
            loss = self.loss.value(y, self.student.output(parameters, x))
            if tests.mirrored:
                loss = (loss + self.loss.value(y, self.student.output(parameters, -x))) / 2
            return (sums[0] + jnp.sum(loss), sums[1] + jnp.sum(jnp.square(loss))), None

        (first, second), _ = jax.lax.scan(add, (jnp.zeros(()), jnp.zeros(())), (x, y))
        return mean_and_error(first, second, y.size)


def mean_and_error(first: jax.Array, second: jax.Array, count: int) -> tuple[jax.Array, jax.Array]:
    """The mean and its standard error, from the sums of numbers and of their squares."""
    mean = first / count
    variance = jnp.maximum(second / count - jnp.square(mean), 0.0)
    return mean, jnp.sqrt(variance / (count - 1))
