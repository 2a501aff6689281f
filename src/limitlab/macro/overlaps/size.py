"""How much memory and time the overlap equations take, before any of it is asked for."""

from limitlab.algorithms.settings.one_pass import CommitteeOnePass
from limitlab.numerics.gauss.fields import AbstractFieldSum, field_sum_bytes
from limitlab.numerics.machine import fits
from limitlab.states.overlaps import Overlaps

__all__ = ["is_cheap", "jacobian_bytes", "overlap_bytes", "path_bytes", "solver_for", "start_bytes"]

STAGES = 20  # states that an explicit step holds
CHEAP = 2**13  # numbers in the moments of a drift, of which one takes 1 to 30 ns
COPIES = 4  # of the path: as integrated, of all units, stacked, and in the result


def _state(p: int, k: int) -> int:
    """Numbers in the overlaps of p student and k teacher units."""
    return p * (p + k + 1) + k * k


def start_bytes(p: int, k: int) -> int:
    """Of a start, and of the search for identical units in it."""
    return 8 * 6 * _state(p, k) + p * p * (k + 3)


def path_bytes(p: int, k: int, looks: int) -> int:
    """Of the overlaps at so many times and replicas."""
    return 8 * COPIES * looks * _state(p, k)


def overlap_bytes(setting: CommitteeOnePass, units: int, method: str) -> int:
    """Of a step, with so many different student units: its stages, and the Gaussian moments of a drift."""
    student, teacher = setting.student, setting.teacher
    moments = field_sum_bytes(student.activation, teacher.activation, units, teacher.width, method)
    return moments + 8 * STAGES * _state(units, teacher.width)


def jacobian_bytes(p: int, k: int) -> int:
    """Of an implicit step: its matrix, the factors of it, and the columns on their way there."""
    return 8 * 4 * _state(p, k) ** 2


def is_cheap(sums: AbstractFieldSum) -> bool:
    """Whether a hundred steps take a small part of a second."""
    return sums.p**2 * sums.size <= CHEAP


def solver_for(asked: str, start: Overlaps) -> str:
    """The solver that was asked for; explicit steps alone where implicit ones do not fit into memory."""
    p, k = start.M.shape
    return "explicit" if asked == "auto" and not fits(jacobian_bytes(p, k)) else asked
