"""What a rule or a limit asks of a problem, said in one place."""

import numpy as np

from limitlab.algorithms.one_pass.layerwise_sgd import LayerwiseSGD
from limitlab.algorithms.one_pass.online_sgd import OnlineSGD
from limitlab.errors import LimitUndefinedError
from limitlab.problems.channels import GaussianNoise
from limitlab.problems.inputs import AbstractLabelledInputs, Gaussian, Hypercube
from limitlab.problems.losses import SquareLoss
from limitlab.problems.networks import Committee, SingleIndex
from limitlab.problems.problem import Problem
from limitlab.problems.sparse.target import SparseTarget
from limitlab.problems.starts import OverlapStart, RandomStart

__all__ = ["check_labelled", "check_one_pass_committee", "check_single_index", "check_sparse_target"]


def check_one_pass_committee(by: str, problem: Problem, error: type[Exception] = LimitUndefinedError) -> None:
    """Raise unless the problem is one-pass SGD of a committee on Gaussian inputs with the square loss."""

    def fail(needed: str, came: object, remedy: str) -> None:
        raise error(f"{by} needs {needed}; got {came}. {remedy}")

    if not isinstance(problem.inputs, Gaussian):
        fail(
            "Gaussian inputs (Problem.inputs=Gaussian())", problem.inputs, "The fields of other inputs are not normal."
        )
    if not isinstance(problem.teacher, Committee):
        fail("a Committee teacher", problem.teacher, "Describe a single direction as Committee(width=1, ...).")
    if not isinstance(problem.channel, GaussianNoise):
        fail(
            "additive label noise (Problem.channel=GaussianNoise(variance=...))",
            problem.channel,
            'A sign or modulus on the output is a teacher activation here ("sign", "abs", "square").',
        )
    if problem.sample_ratio is not None:
        fail(
            "a fresh sample at every step (Problem.sample_ratio=None)",
            f"sample_ratio={problem.sample_ratio}",
            "For a fixed data set use a rule and a limit at fixed n/d instead.",
        )
    for field, example in (("student", "Committee(width=..., activation=...)"), ("start", "RandomStart()")):
        if getattr(problem, field) is None:
            fail(f"Problem.{field}", "none", f"Add {field}={example}.")
    if not isinstance(problem.loss, SquareLoss):
        fail("the square loss (Problem.loss=SquareLoss())", problem.loss, "Set loss=SquareLoss().")
    if not isinstance(problem.algorithm, OnlineSGD):
        fail(
            "Problem.algorithm=OnlineSGD(...)", problem.algorithm, "Other rules have other limits; see limits(problem)."
        )
    assert problem.student is not None and isinstance(problem.algorithm, OnlineSGD)
    if problem.algorithm.weight_decay:
        fail(
            "OnlineSGD without weight decay on Gaussian inputs",
            f"weight_decay={problem.algorithm.weight_decay}",
            "Use weight_decay=0; weight decay is known for sparse targets and for mixtures.",
        )
    _refuse_extras(by, problem, error)
    start = problem.start
    if problem.algorithm.spherical and isinstance(start, OverlapStart) and np.any(np.diag(start.Q) <= 0):
        fail(
            "student units of non-zero norm for a spherical rule (OverlapStart.Q_ii > 0)",
            f"Q_ii = {np.diag(start.Q).tolist()}",
            "Give every unit a direction, or use spherical=False.",
        )
    if problem.student.activation.flat:
        fail(
            "a student activation with a gradient",
            f"{problem.student.activation!r}, whose derivative is zero almost everywhere",
            'Use "erf" or "tanh" for the student; "sign" is for teachers.',
        )


def _refuse_extras(by: str, problem: Problem, error: type[Exception]) -> None:
    """Biases, temperature and schedules are known for labelled inputs only."""
    student, rule = problem.student, problem.algorithm
    for field, off, came in (
        ('student.bias="none"', "none", getattr(student, "bias", "none")),
        ("algorithm.temperature=0", 0, getattr(rule, "temperature", 0)),
        ("algorithm.schedule=None", None, getattr(rule, "schedule", None)),
    ):
        if came != off:
            raise error(
                f"{by} needs {field}; got {came!r}. Biases, added noise and schedules are known for mixtures "
                "(inputs=IsotropicMixture(...))."
            )


def check_labelled(by: str, problem: Problem, error: type[Exception] = LimitUndefinedError) -> None:
    """Raise unless the problem is one-pass SGD of a two-layer network on inputs that bring their labels."""

    def fail(needed: str, came: object, remedy: str) -> None:
        raise error(f"{by} needs {needed}; got {came}. {remedy}")

    if not isinstance(problem.inputs, AbstractLabelledInputs):
        fail("labelled inputs", repr(problem.inputs), "Use inputs=IsotropicMixture(delta=0.8) and no teacher.")
    if not isinstance(problem.channel, GaussianNoise):
        fail("additive label noise (GaussianNoise(variance=...))", problem.channel, "Leave the channel out for none.")
    if problem.sample_ratio is not None:
        fail("a fresh sample at every step", f"sample_ratio={problem.sample_ratio}", "Leave sample_ratio out.")
    if problem.student is None:
        fail(
            "Problem.student",
            "none",
            'Add student=Committee(width=800, activation="piecewise((0.5, -2.5), (1.5, 7.5))").',
        )
    if not isinstance(problem.loss, SquareLoss):
        fail("the square loss (Problem.loss=SquareLoss())", problem.loss, "Set loss=SquareLoss().")
    if not isinstance(problem.start, RandomStart) or problem.start.P is not None:
        fail("a random start without P", problem.start, "Use start=RandomStart(scale=0.8).")
    rule = problem.algorithm
    if not isinstance(rule, OnlineSGD) or rule.spherical:
        fail("OnlineSGD(spherical=False)", rule, "Use algorithm=OnlineSGD(learning_rate=...).")
    assert problem.student is not None
    if problem.student.activation.flat:
        fail(
            "a student activation with a gradient",
            f"{problem.student.activation!r}, whose derivative is zero almost everywhere",
            'Use "relu" or piecewise(...).',
        )


def check_single_index(by: str, problem: Problem, error: type[Exception] = LimitUndefinedError) -> None:
    """Raise unless the problem is a generalised linear model: one direction, n = alpha d samples."""
    if not isinstance(problem.inputs, Gaussian):
        raise error(
            f"{by} needs Gaussian inputs (Problem.inputs=Gaussian()); got {type(problem.inputs).__name__}. The "
            "fields of other inputs are not normal in general."
        )
    if not isinstance(problem.teacher, SingleIndex):
        raise error(
            f"{by} needs a single direction with a prior; got a {type(problem.teacher).__name__}. Use "
            "teacher=SingleIndex(prior=GaussianPrior()) and a channel such as Sign()."
        )
    if problem.sample_ratio is None:
        raise error(
            f"{by} needs a fixed data set (Problem.sample_ratio = n/d); got none. Add sample_ratio=2.0, say; a fresh "
            "sample at every step belongs to OverlapODE."
        )


def check_sparse_target(by: str, problem: Problem, error: type[Exception] = LimitUndefinedError) -> None:
    """Raise unless the problem is one-pass SGD of a two-layer network on a sparse target of the hypercube."""

    def fail(needed: str, came: object, remedy: str) -> None:
        raise error(f"{by} needs {needed}; got {came}. {remedy}")

    if not isinstance(problem.teacher, SparseTarget):
        fail("a sparse target", type(problem.teacher).__name__, 'Use teacher=SparseTarget("z1 + z1*z2").')
    if not isinstance(problem.inputs, Hypercube):
        fail("inputs on the hypercube (Problem.inputs=Hypercube())", problem.inputs, "The z_i are signs.")
    if not isinstance(problem.channel, GaussianNoise):
        fail("additive label noise (GaussianNoise(variance=...))", problem.channel, "Leave the channel out for none.")
    if problem.sample_ratio is not None:
        fail("a fresh sample at every step", f"sample_ratio={problem.sample_ratio}", "Leave sample_ratio out.")
    if problem.student is None:
        fail("Problem.student", "none", 'Add student=Committee(width=100, activation="shifted(tanh, 0.5)").')
    if not isinstance(problem.loss, SquareLoss):
        fail("the square loss (Problem.loss=SquareLoss())", problem.loss, "Set loss=SquareLoss().")
    if not isinstance(problem.start, RandomStart) or problem.start.P is not None:
        fail(
            "a random start (Problem.start=RandomStart(...) without P)",
            problem.start,
            'Use start=RandomStart(second_layer="uniform").',
        )
    rule = problem.algorithm
    if not isinstance(rule, (OnlineSGD, LayerwiseSGD)) or getattr(rule, "spherical", False):
        fail("OnlineSGD(spherical=False) or LayerwiseSGD", rule, "Other rules have other limits; see limits(problem).")
    assert problem.student is not None
    _refuse_extras(by, problem, error)
    if problem.student.activation.flat:
        fail(
            "a student activation with a gradient",
            f"{problem.student.activation!r}, whose derivative is zero almost everywhere",
            'Use "shifted(tanh, 0.5)".',
        )
