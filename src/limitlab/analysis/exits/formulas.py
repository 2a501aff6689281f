r"""Leaving the plateau of phase retrieval: rates near the random start.

A student of p squares learns one square by projected one-pass SGD (a = 1). With Gamma = gamma/p (over the
batch size),

.. math::
    \frac{d}{dt} \log m_j^2 = 8 (1 - \Gamma c_p), \qquad c_p = 1 + \frac1p + \frac4{p^2} + \frac\Delta2

near m = 0, Q = I (Arnaboldi et al. 2023, arXiv 2305.18502).
"""

import numpy as np

from limitlab.algorithms.settings.one_pass import CommitteeOnePass
from limitlab.modules import Module, field
from limitlab.numerics.machine import Memory, check_memory
from limitlab.problems.asked import Asked
from limitlab.problems.problem import Problem
from limitlab.text import Record
from limitlab.verbs import verb

__all__ = ["Plateau", "plateau", "plateau_in", "plateau_of", "unit_rate"]


class Plateau(Record, Module):
    """The numbers that rule the escape: width p, Gamma = gamma/(p B), label noise Delta."""

    width: int = field(static=True)
    Gamma: float
    variance: float

    @property
    def c(self) -> float:
        """c_p: the plateau is unstable if Gamma c_p < 1."""
        p = self.width
        return 1 + 1 / p + 4 / p**2 + self.variance / 2

    @property
    def growth(self) -> float:
        """Rate of growth of the squared overlaps, 8 (1 - Gamma c_p)."""
        return 8 * (1 - self.Gamma * self.c)

    @property
    def noise_factor(self) -> float:
        r"""F by which the noise of SGD enlarges the squared overlaps of the start.

        Early on m_j is an unstable Ornstein-Uhlenbeck process, dm = (growth/2) m dt + sqrt(Gamma s/d) dB with
        s = 4(10 - 6/p + 8/p^2 + Delta): noise adds Gamma s/(growth d) to m_j^2, whose mean at the start is
        1/d.
        """
        p = self.width
        return 1 + self.Gamma * 4 * (10 - 6 / p + 8 / p**2 + self.variance) / self.growth

    @property
    def pull(self) -> tuple[float, float]:
        """(alpha, beta) of the one-unit equation d(m^2)/dt = 2 m^2 (alpha - beta m^2)."""
        beta = 4 * (1 - 6 * self.Gamma)
        return beta - 2 * self.Gamma * self.variance, beta


@verb
def plateau(problem: Problem) -> Plateau:
    """The numbers that rule how SGD leaves the plateau of phase retrieval: growth, noise factor, critical rate.

    Needs square students and one square teacher on the sphere, as `library.escaping_mediocrity` makes them.
    """
    return plateau_of("plateau", problem)


def plateau_of(by: str, problem: Problem, *, random_start: bool = False) -> Plateau:
    """Reduce a problem to its `Plateau`, or raise `LimitUndefinedError` saying what ``by`` needs."""
    return plateau_in(CommitteeOnePass.of(problem, Asked(by)), Asked(by), random_start=random_start)


def plateau_in(setting: CommitteeOnePass, asked: Asked, *, random_start: bool = False) -> Plateau:
    """The same of a problem that is parsed."""
    student, teacher, algorithm, start = setting.student, setting.teacher, setting.algorithm, setting.start

    def fail(needed: str, came: object) -> None:
        asked.refuse(
            needed,
            came,
            "It is known for library.escaping_mediocrity(...); for other problems use measured_exit_time on a "
            "simulation or a prediction.",
        )

    for name, network in (("student", student), ("teacher", teacher)):
        if network.activation.name != "square":
            fail(f'a {name} with activation "square"', network.activation)
        weights = network.output_weights
        if weights is not None and not np.all(weights == 1):
            fail(f"a {name} with output weights one", weights.tolist())
    if teacher.width != 1:
        fail("a teacher of width 1", f"width {teacher.width}")
    if student.second_layer != "fixed":
        fail('a student with second_layer="fixed"', student.second_layer)
    if not algorithm.spherical:
        fail("OnlineSGD(spherical=True)", "spherical=False")
    if not start.one_layer and student.output_weights is None:
        fail('a start with second_layer="ones" of scale one', str(start).replace("\n", ""))
    needed = Memory(8 * 6 * (student.width + 1) ** 2, f"It looks at the overlaps of {student.width} units. Use fewer.")
    check_memory(needed, asked.by)
    Q, _, P = (np.asarray(x) for x in start.limit(student.width, 1))
    if not (np.allclose(np.diag(Q), 1) and np.allclose(P, 1)):
        came = f"Q_ii = {np.diag(Q).tolist()}, P = {P.tolist()}"
        fail("student and teacher weights of squared norm d", came)
    if random_start and not start.on_sphere:
        fail("RandomStart(sphere=True)", str(start).replace("\n", ""))
    return Plateau(student.width, float(algorithm.learning_rate) / unit_rate(setting), float(setting.channel.variance))


def unit_rate(setting: CommitteeOnePass) -> int:
    """The learning rate at which Gamma is one: p times the batch size."""
    return setting.student.width * setting.algorithm.batch_size
