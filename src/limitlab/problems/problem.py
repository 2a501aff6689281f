"""The Problem: everything on which a simulation and a prediction must agree."""

import dataclasses
from collections.abc import Mapping
from dataclasses import KW_ONLY
from typing import Any

from limitlab._setup import double
from limitlab.errors import InputError
from limitlab.numerics.checks import check_number
from limitlab.numerics.trees import changed_fields
from limitlab.problems.base import AbstractAlgorithm, AbstractStudent, AbstractTeacher
from limitlab.problems.channels import AbstractChannel, GaussianNoise
from limitlab.problems.inputs import AbstractInputs, Gaussian
from limitlab.problems.losses import AbstractLoss
from limitlab.problems.part import Part, right_name
from limitlab.problems.starts import AbstractStart
from limitlab.text import show

__all__ = ["Problem", "replaced"]

_KINDS: dict[str, tuple[type, str]] = {
    "inputs": (AbstractInputs, "inputs such as Gaussian()"),
    "teacher": (AbstractTeacher, "a teacher such as Committee(width=2, activation='erf')"),
    "channel": (AbstractChannel, "a channel such as GaussianNoise(variance=0.1)"),
    "student": (AbstractStudent, "a Committee(width=..., activation=...)"),
    "loss": (AbstractLoss, "a loss such as SquareLoss()"),
    "start": (AbstractStart, "a start such as RandomStart()"),
    "algorithm": (AbstractAlgorithm, "a learning rule such as OnlineSGD(learning_rate=0.5)"),
}
_ELSEWHERE = {  # where fields are that one may look for in the problem itself
    "learning_rate": "algorithm=OnlineSGD",
    "batch_size": "algorithm=OnlineSGD",
    "momentum": "algorithm=Momentum",
    "penalty": "algorithm=ERM",
    "temperature": "algorithm=Langevin",
    "width": "student=Committee",
    "activation": "student=Committee",
    "second_layer": "student=Committee",
    "variance": "channel=GaussianNoise",
    "prior": "teacher=SingleIndex",
    "overlap": "start=InformedStart",
    "scale": "start=RandomStart",
}


class Problem(Part):
    r"""A learning problem: nature (inputs, teacher, channel, how many samples) and learner (the rest).

    Parameters
    ----------
    inputs, teacher, channel
        Labels are drawn as y ~ channel(teacher(x)), x ~ inputs. Mixtures bring their labels: they have no teacher.
    sample_ratio
        alpha = n/d, the size of a fixed data set; None means a fresh sample at every step.
    student, loss, start, algorithm
        The learner. Leave out what a rule does not use.

    Notes
    -----
    The dimension d is not here: the same problem lives at every d and in its limits. Widths are.
    """

    _: KW_ONLY
    inputs: AbstractInputs = Gaussian()
    teacher: AbstractTeacher | None = None
    channel: AbstractChannel = GaussianNoise()
    sample_ratio: float | None = None
    student: AbstractStudent | None = None
    loss: AbstractLoss | None = None
    start: AbstractStart | None = None
    algorithm: AbstractAlgorithm | None = None

    @double
    def __check_init__(self):
        for field, (kind, example) in _KINDS.items():
            value = getattr(self, field)
            optional = field in ("student", "loss", "start", "algorithm", "teacher")
            if not (isinstance(value, kind) or (optional and value is None)):
                raise InputError(f"Problem.{field} must be {example}; got {value!r}.")
        if self.inputs.labelled != (self.teacher is None):
            who = f"for {type(self.inputs).__name__}"
            if self.inputs.labelled:
                raise InputError(
                    f"Problem.teacher must be left out {who}: its samples bring their labels; got {self.teacher!r}."
                )
            raise InputError(f"Problem.teacher must be {_KINDS['teacher'][1]} {who} inputs; got none.")
        if self.sample_ratio is not None:
            check_number(
                "Problem",
                "sample_ratio",
                self.sample_ratio,
                low=0,
                open_low=True,
                remedy="It is n/d; use None for a fresh sample at every step.",
            )
        if self.teacher is not None:
            self.teacher.check_beside(self)
        modes = self.inputs.modes
        wrong = None if modes is None or self.teacher is None else self.teacher.off_spectrum(modes)
        if wrong is not None:
            raise InputError(f"Problem.inputs needs {wrong[0]}; got {wrong[1]}. {wrong[2]}")
        for part in (self.start, self.algorithm):
            if part is not None:
                part.check_beside(self)

    @classmethod
    def hint(cls, name, value, given):
        if name in ("d", "times", "replicas", "seed"):
            return f"It is no part of a problem: give it to a verb, as in simulate(problem, {name}={show(value)})."
        if name in ("n", "n_samples", "samples"):
            return "Write Problem(sample_ratio=...), the number of samples over the dimension."
        right = name if name in _ELSEWHERE else None
        if right is None and right_name(name, [field.name for field in dataclasses.fields(cls)]) is None:
            right = right_name(name, _ELSEWHERE)
        if right is None:
            return super().hint(name, value, given)
        return f"Write Problem({_ELSEWHERE[right]}({right}={show(value)}))."

    def need(self, *fields: str, by: str) -> tuple[Any, ...]:
        """Return the named parts, or raise `InputError` in words if one was left out."""
        for field in fields:
            if getattr(self, field) is None:
                raise InputError(f"{by} needs Problem.{field}, which was left out. Add {_KINDS[field][1]}.")
        return tuple(getattr(self, field) for field in fields)


def replaced(problem: Problem, changes: Mapping[str, Any]) -> Problem:
    """The problem with some fields changed, named by their paths: ``{"channel.variance": 0.1}``."""
    for path in changes:
        part: Any = problem
        for name in path.split("."):
            known = [field.name for field in dataclasses.fields(part)] if dataclasses.is_dataclass(part) else []
            if name not in known:
                raise InputError(
                    f"{path!r} is not a field of the problem: {type(part).__name__} has {', '.join(known) or 'none'}. "
                    'Write a path such as "channel.variance".'
                )
            part = getattr(part, name)
    paths = {tuple(path.split(".")): value for path, value in changes.items()}
    return dataclasses.replace(problem, **changed_fields(vars(problem), paths))
