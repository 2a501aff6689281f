"""Teachers with several directions and a fixed data set, as message passing and the Bayes-optimal limits see them."""

from typing import Self

from limitlab.algorithms.checks import check_flat, check_no_features, check_normal
from limitlab.modules import Module, field
from limitlab.problems.asked import Asked
from limitlab.problems.links import AbstractLink
from limitlab.problems.links.labels import real_valued
from limitlab.problems.links.seen import seen_through
from limitlab.problems.networks import MultiIndex
from limitlab.problems.priors import RademacherPrior
from limitlab.problems.problem import Problem
from limitlab.problems.starts import AbstractStart

__all__ = ["CHANNELS", "MultiGLM", "several"]

CHANNELS = "GaussianNoise, Sign, Logistic, Door, Modulus, SquaredModulus, Rectified, CustomBinary"


def several(problem: Problem) -> bool:
    """Whether the teacher has a link of several directions: `MultiGLM` is its setting."""
    return isinstance(problem.teacher, MultiIndex)


class MultiGLM(Module):
    """A multi-index teacher, its link behind the channel, noise that is added to it, and n = alpha d samples."""

    problem: Problem
    teacher: MultiIndex
    link: AbstractLink = field(static=True)
    ratio: float
    variance: float

    @property
    def start(self) -> AbstractStart | None:
        return self.problem.start

    @property
    def gaussian(self) -> bool:
        """Whether weights are Gaussian; else they are +-1."""
        return self.teacher.prior.gaussian

    @classmethod
    def of(cls, problem: Problem, asked: Asked) -> Self:
        check_normal(problem, asked)
        return cls._parsed(problem, asked)

    @classmethod
    def to_simulate(cls, problem: Problem, asked: Asked) -> Self:
        check_flat(problem, asked)
        return cls._parsed(problem, asked)

    @classmethod
    def _parsed(cls, problem: Problem, asked: Asked) -> Self:
        check_no_features(problem, asked)
        needed = "a teacher MultiIndex(width, link)"
        teacher = asked.part(problem.teacher, MultiIndex, needed, 'Use teacher=MultiIndex(2, "sign_sum"), say.')
        link = seen_through(teacher.link, problem.channel, teacher.width)
        if link is None:
            asked.refuse(
                f"a channel whose mean label is known for every value of the link: {CHANNELS}, or your own with a "
                "method `told`",
                problem.channel,
                "Write what happens to the label into the link, or use one of these.",
            )
        if not teacher.prior.gaussian and not isinstance(teacher.prior, RademacherPrior):
            asked.refuse(
                "weights with a GaussianPrior() or a RademacherPrior()",
                teacher.prior,
                "Only these are known in matrix form.",
            )
        if problem.sample_ratio is None:
            asked.refuse(
                "a fixed data set (Problem.sample_ratio = n/d)",
                "sample_ratio=None, which means a fresh sample at every step",
                "Set sample_ratio=3.0, say.",
            )
        added = problem.channel.added_variance
        return cls(problem, teacher, link, float(problem.sample_ratio), 0.0 if added is None else float(added))

    def check_labels(self, asked: Asked, bins: int | None, remedy: str) -> None:
        """Refuse real labels without noise, unless they are put in bins."""
        if self.variance == 0 and bins is None and real_valued(self.link, self.teacher.width):
            asked.refuse(
                "labels with noise, or a few values",
                f"link={self.link!r}, whose noiseless value is a real number",
                remedy,
            )
