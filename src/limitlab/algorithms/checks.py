"""What rules and settings check alike, and cite alike."""

from typing import Any

from limitlab.numerics.checks import check_number
from limitlab.problems.asked import Asked
from limitlab.problems.base import AbstractStudent
from limitlab.problems.problem import Problem

__all__ = [
    "SPHERE",
    "check_flat",
    "check_fresh",
    "check_no_features",
    "check_normal",
    "check_normal_fields",
    "check_rate",
    "check_sphere",
]

SPHERE = ("benarous2021online", "arnaboldi2023escaping")  # of rules that keep the norm of the weights


def check_rate(rule: Any) -> None:
    check_number(
        type(rule).__name__,
        "learning_rate",
        rule.learning_rate,
        low=0,
        open_low=True,
        remedy="Use a positive learning rate.",
    )


def check_fresh(problem: Problem, asked: Asked) -> None:
    """Refuse a fixed data set."""
    if problem.sample_ratio is not None:
        asked.refuse(
            "a fresh sample at every step (Problem.sample_ratio=None)",
            f"sample_ratio={problem.sample_ratio}",
            "For a fixed data set use a rule and a limit at fixed n/d instead.",
        )


def check_flat(problem: Problem, asked: Asked) -> None:
    """Refuse inputs with a spectrum."""
    if problem.inputs.modes is not None:
        asked.refuse(
            "inputs without a spectrum (Problem.inputs=Gaussian())",
            f"{type(problem.inputs).__name__} with a spectrum",
            "With one the theory is known of ERM (ERMAsymptotics) and of OnlineSGD (OverlapODE).",
        )


def check_no_features(problem: Problem, asked: Asked) -> None:
    """Refuse a student with features that are drawn."""
    if problem.student is not None and problem.student.frozen:
        asked.refuse(
            "a student that is not RandomFeatures", problem.student, "Those are fitted: use algorithm=ERM(penalty=...)."
        )


def check_normal_fields(problem: Problem, asked: Asked) -> None:
    """Refuse inputs whose fields are not normal, with or without a spectrum."""
    if problem.inputs.modes is None:
        check_normal(problem, asked)


def check_normal(problem: Problem, asked: Asked) -> None:
    """Refuse inputs whose fields are not normal with covariance w.w'/d."""
    check_flat(problem, asked)
    if not problem.inputs.normal:
        asked.refuse(
            "Gaussian inputs (Problem.inputs=Gaussian())",
            problem.inputs,
            "The fields of other inputs are not normal in general.",
        )


def check_sphere(student: AbstractStudent, spherical: bool, asked: Asked) -> None:
    """Refuse a student that a spherical rule cannot put on the sphere."""
    words = student.off_sphere() if spherical else None
    if words is not None:
        asked.refuse(*words)
