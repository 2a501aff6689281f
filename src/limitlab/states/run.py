"""The microstate of a run in the course of learning."""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from limitlab.modules import Module, field
from limitlab.states.view import RUN, Variable

__all__ = ["FIELD_BOUND", "OUTPUT_BOUND", "Learner", "Run", "after_the_end", "whole"]

FIELD_BOUND = 1e4  # a field of an O(1) problem; its square is the bound on overlaps in the limits
OUTPUT_BOUND = FIELD_BOUND**2  # a second layer that diverges shows in the output, not in the fields


def whole(x: Any) -> jax.Array:
    """Whole numbers of one type, whatever they come from: for another type everything would be compiled anew."""
    return jnp.asarray(x, int)


class Learner(Module):
    """A student's parameters, the weights of its teacher, and what the rule remembers of earlier steps."""

    variables: ClassVar[dict[str, Variable]] = {  # parameters that are reported as they are
        "a": Variable((*RUN, "student", "particle"), "student second layer"),
        "b": Variable((*RUN, "student", "particle"), "bias of a unit"),
    }

    student: Any
    teacher: Any
    memory: Any = None


class Run(Module):
    """A microstate, and the step at which the run died; -1 while it is alive."""

    variables: ClassVar[dict[str, Variable]] = {
        "status": Variable(RUN, "how the computation ended"),
        "end_time": Variable(("replica",), "time up to which the computation went"),
    }

    state: Any
    died: jax.Array = field(converter=whole)

    @classmethod
    def alone(cls, state: Any) -> "Run":
        """One run that begins with ``state``."""
        return cls(state, jnp.asarray(-1))

    @classmethod
    def of(cls, state: Any, replicas: int) -> "Run":
        """Runs that begin with ``state``, whose first axis is that of replicas."""
        return cls(state, jnp.full(replicas, -1))

    @property
    def alive(self) -> jax.Array:
        return self.died < 0

    def onward(self, state: Any, sound: jax.Array, step: jax.Array) -> "Run":
        """The next state if it is sound; else the run dies at this step and keeps the state that it had."""
        died = jnp.where(self.alive & ~sound, step, self.died)
        alive = died < 0
        kept = jax.tree.map(lambda new, old: old if new is old else jnp.where(alive, new, old), state, self.state)
        return Run(kept, died)


def after_the_end(run: Run, steps: np.ndarray) -> np.ndarray:
    """(..., time, replica): whether a run had died before it was looked at, at the ``steps`` (..., time)."""
    died = np.asarray(run.died)[..., None, :]
    return (died >= 0) & (steps[..., :, None] > died)
