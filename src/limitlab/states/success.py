"""When a learner counts as having found its teacher: criteria, each with its words."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from limitlab.states.view import Variable

__all__ = ["COSINE", "ERROR", "OUTPUT", "Criterion", "cosine", "first_below"]


class Criterion(NamedTuple):
    """A number that a result is measured by, and what success means in words."""

    attribute: str
    threshold: float
    means: str

    variables = {  # noqa: RUF012 (a field, if it had a type)
        "success": Variable(("replica",), "whether the teacher was found"),
        "success_time": Variable(("replica",), "time at which the teacher was found, infinite if it was not"),
        "success_rate": Variable((), "share of runs that found the teacher"),
        "success_rate_low": Variable((), "lower end of the interval of confidence of the share"),
        "success_rate_high": Variable((), "upper end of the interval of confidence of the share"),
        "runs": Variable((), "number of runs"),
        "median_time": Variable((), "median time of the runs that found the teacher, infinite if none did"),
        "t_max": Variable((), "longest time that a run was given"),
        "stuck": Variable((), "share of runs that failed, with a high loss and an error that falls no more"),
        "wrong": Variable((), "share of runs that failed: they fit their data, and their error falls no more"),
        "unfinished": Variable((), "share of runs that failed, but still approach the teacher"),
        "diverged": Variable((), "share of runs that diverged"),
        "exit_time": Variable(("replica",), "time at which the threshold is first reached"),
    }

    @property
    def attrs(self) -> dict[str, Any]:
        """What a result says about its variable ``success``."""
        return {self.attribute: self.threshold, "success_means": self.means}


COSINE = Criterion(
    "success_overlap", 0.99, "cosine between w and the teacher above 0.99, up to a sign, at any step up to the last"
)
ERROR = Criterion("success_error", 1e-2, "relative error |A - A*|^2/|A*|^2 of A = WW^T/m below 0.01 at an asked time")
OUTPUT = Criterion("success_error", 1e-2, "relative error E (f - f*)^2/E f*^2 of outputs below 0.01 at an asked time")


def cosine(w: jax.Array, teacher: jax.Array) -> jax.Array:
    """Between two directions, up to a sign."""
    return jnp.abs(w @ teacher) / jnp.sqrt((w @ w) * (teacher @ teacher))


def first_below(error: np.ndarray, times: np.ndarray) -> dict[str, tuple[str, Any]]:
    """``success`` and ``success_time`` of errors (time, replica); NaN is no success."""
    below = np.nan_to_num(error, nan=np.inf) < ERROR.threshold
    found = below.any(axis=0)
    first = np.where(found, times[np.argmax(below, axis=0)], np.inf)
    return {"success": ("replica", found), "success_time": ("replica", first)}
