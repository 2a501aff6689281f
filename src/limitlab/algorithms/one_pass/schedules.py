r"""How the step changes in the course of learning: a step at time t is :math:`\xi(t)` times the learning rate.

Time itself does not change: t = gamma step/(p d). Whatever moves at the speed :math:`\xi(t)` follows the same path as
at constant speed, on the clock :math:`\Xi(t) = \int_0^t \xi`, and that is how limits use a schedule.
"""

from abc import abstractmethod
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from limitlab._setup import double
from limitlab.errors import InputError
from limitlab.modules import field
from limitlab.numerics.checks import check_number
from limitlab.numerics.gauss.rules import legendre
from limitlab.problems.part import Part

__all__ = ["AbstractSchedule", "CustomSchedule", "PowerSchedule", "on_the_clock", "off_the_clock"]


class AbstractSchedule(Part):
    r"""A speed :math:`\xi(t) \ge 0`."""

    @abstractmethod
    def steps(self, first: jax.Array, clock: jax.Array) -> jax.Array:
        r"""The mean of :math:`\xi` over the step from first * clock to (first + 1) * clock."""

    @abstractmethod
    def elapsed(self, times: np.ndarray) -> np.ndarray:
        r""":math:`\Xi(t) = \int_0^t \xi`."""


class PowerSchedule(AbstractSchedule):
    r""":math:`\xi(t) = (1 + t/t_0)^{-a}` with t_0 = ``onset``, or :math:`t^{-a}` if the onset is 0 (then a < 1)."""

    exponent: float
    onset: float = 1.0

    def __check_init__(self):
        check_number("PowerSchedule", "onset", self.onset, low=0, remedy="Use a positive time, or 0 for t^-exponent.")
        check_number("PowerSchedule", "exponent", self.exponent, low=0, remedy="Use 0 for constant steps.")
        if float(self.onset) == 0 and float(self.exponent) >= 1:
            raise InputError(
                f"PowerSchedule.exponent must be below 1 if onset is 0 (else the first step is infinite); got "
                f"{self.exponent}. Use onset=1.0."
            )

    def steps(self, first, clock):
        # The mean over a step, not the value at its start: t^-a is infinite there at first.
        return (self._integral((first + 1) * clock, jnp) - self._integral(first * clock, jnp)) / clock

    def elapsed(self, times):
        return self._integral(np.asarray(times, float), np)

    def _integral(self, t, xp):
        a, t0 = self.exponent, self.onset
        bare = t ** (1 - a) / xp.where(a == 1, 1.0, 1 - a)
        scale = xp.where(t0 == 0, 1.0, t0)
        x = xp.log1p(t / scale)
        # ((1 + t/t0)^(1-a) - 1) t0/(1-a), without cancellation and with the logarithm at a = 1
        y = (1 - a) * x
        soft = scale * x * xp.where(xp.abs(y) < 1e-8, 1 + y / 2, xp.expm1(y) / xp.where(y == 0, 1.0, y))
        return xp.where(t0 == 0, bare, soft)


class CustomSchedule(AbstractSchedule):
    r"""A ``jax.numpy`` function :math:`\xi(t) \ge 0` of the user's, finite from t = 0 on; from Python only."""

    function: Callable = field(static=True)

    @double
    def __check_init__(self):
        try:
            seen = np.asarray(jax.vmap(self.function)(jnp.linspace(0.0, 100.0, 401)), float)
        except Exception as error:
            raise InputError(
                f"CustomSchedule.function must be a jax.numpy function of one number; it raised "
                f"{type(error).__name__}: {error}."
            ) from error
        if seen.shape != (401,) or not np.all(np.isfinite(seen)) or np.any(seen < 0):
            raise InputError(
                "CustomSchedule.function must be finite and >= 0 at all t >= 0; it is not somewhere in [0, 100]. "
                "Use PowerSchedule for speeds that are infinite at t = 0."
            )

    def steps(self, first, clock):
        return self.function((first + 0.5) * clock)

    def elapsed(self, times):
        nodes, weights = legendre(20)
        edges = np.concatenate([[0.0], np.asarray(times, float)])
        gaps = np.diff(edges)
        parts = 16  # panels between two asked times
        left = (edges[:-1, None] + gaps[:, None] * np.arange(parts) / parts)[..., None]
        half = gaps[:, None, None] / (2 * parts)
        speed = np.asarray(jax.vmap(self.function)(jnp.asarray((left + half * (1 + nodes)).ravel())))
        areas = (speed.reshape(len(gaps), parts, -1) * weights * half).sum(axis=(1, 2))
        return np.cumsum(areas)


def on_the_clock(schedule: AbstractSchedule | None, times: np.ndarray) -> np.ndarray:
    """Times on the clock of the schedule, on which what it drives has constant speed; None is constant speed."""
    return np.asarray(times, float) if schedule is None else schedule.elapsed(times)


def off_the_clock(clock: np.ndarray, times: np.ndarray, end: float) -> float:
    """The time at which the clock, known at ``times``, shows ``end``."""
    return float(np.interp(end, np.append(0.0, clock), np.append(0.0, times)))
