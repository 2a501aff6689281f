"""Where message passing starts: the prior mean, or what a start makes of the data."""

import jax
import jax.numpy as jnp

from limitlab.algorithms.gamp.iteration import Data, Model
from limitlab.errors import InputError
from limitlab.problems.starts.base import AbstractStart, Evidence

__all__ = ["check_start", "start_from"]


def check_start(by: str, model: Model, start: AbstractStart | None, *, teacher: bool) -> None:
    """Raise `InputError` unless the iteration can leave from ``start`` and get anywhere."""
    known = "SpectralStart(), RandomStart(0.01)" + (", InformedStart(overlap)" if teacher else "")
    if start is not None:
        start.check_estimate(by, model.channel, known, teacher)
    elif model.channel.even:
        raise InputError(
            f"{by} with the even channel {model.channel!r} needs a start: the prior mean a = 0 is an exact fixed "
            f"point, because these labels do not see the sign of z. Add start={known.replace(', ', ' or ')}."
        )


def start_from(
    model: Model, data: Data, start: AbstractStart | None, key: jax.Array, teacher: jax.Array | None = None
) -> tuple[jax.Array, jax.Array]:
    """The means a and variances v before the first iteration; without a start a = 0, v = rho."""
    if start is not None:
        return start.estimate(key, Evidence(*model, *data, teacher))
    d = data.X.shape[1]
    return jnp.zeros(d), jnp.full(d, jnp.asarray(model.prior.second_moment, float))
