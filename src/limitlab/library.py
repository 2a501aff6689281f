"""The papers' own problems, in the papers' own scalings, translated into ours.

This is the only place where another scaling is translated. Each function returns a `Problem`, of public names: what a
problem does not use is not loaded.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

import limitlab as ll
from limitlab.problems.base import AbstractAlgorithm
from limitlab.problems.problem import Problem
from limitlab.problems.starts import AbstractStart

if TYPE_CHECKING:
    from limitlab.algorithms.one_pass.schedules import AbstractSchedule

__all__ = [
    "LIBRARY",
    "anisotropic_mixture",
    "descent_phase_retrieval",
    "dimensionless",
    "escaping_mediocrity",
    "isotropic_mixture",
    "merged_staircase",
    "perceptron",
    "phase_retrieval",
    "soft_committee",
    "wide_phase_retrieval",
]


def escaping_mediocrity(width: int = 1, learning_rate: float = 1 / 12, variance: float = 0.0) -> Problem:
    r"""Phase retrieval by projected one-pass SGD (Arnaboldi, Krzakala, Loureiro, Stephan 2023).

    y = (w*.x)^2 + sqrt(variance) z, a student of ``width`` squares on the sphere, a = 1. The paper's gamma is our
    ``learning_rate`` and its time is ours, t = gamma step/(p d).
    """
    return Problem(
        teacher=ll.Committee(width=1, activation="square"),
        channel=ll.GaussianNoise(variance=variance),
        student=ll.Committee(width=width, activation="square"),
        loss=ll.SquareLoss(),
        start=ll.RandomStart(sphere=True),
        algorithm=ll.OnlineSGD(learning_rate=learning_rate, spherical=True),
    )


def soft_committee(width: int = 2, learning_rate: float = 0.5, tilt: float = 1e-3) -> Problem:
    r"""A soft committee machine learning a teacher of its own size (Saad and Solla 1995).

    The paper's network is a plain sum of units, tau = sum_i g(J_i.xi), with xi ~ N(0, I), |J_i|^2 = Q_ii and a step
    eta/N on the squared error; its time is alpha = step/N. Ours is a mean over p units. Dividing both sides by p
    leaves the same dynamics when our gamma/p a_i equals eta: a_i = p, gamma = eta, hence output weights p for both
    networks, gamma = eta and t = gamma step/(p d) = (eta/p) alpha.

    ``tilt`` breaks the symmetry of the start by that much, so that the plateau is left in finite time; the start is
    Q = I/2, M = tilt on the diagonal.
    """
    ones = np.full(width, float(width))
    return Problem(
        teacher=ll.Committee(width=width, activation="erf", output_weights=ones),
        student=ll.Committee(width=width, activation="erf", output_weights=ones),
        loss=ll.SquareLoss(),
        start=ll.OverlapStart(Q=0.5 * np.eye(width), M=tilt * np.eye(width), P=np.eye(width)),
        algorithm=ll.OnlineSGD(learning_rate=learning_rate),
    )


def dimensionless(
    width: int = 8,
    teacher_width: int = 2,
    activation: str = "square",
    learning_rate: float = 0.1,
    start: AbstractStart | None = None,
) -> Problem:
    r"""The problem on which fixed-width and infinite-width limits are joined (Arnaboldi et al. 2023, arXiv 2302.05882).

    Equal activations, a = a* = 1, Gaussian start unless given; gamma and time as ours.
    """
    return Problem(
        teacher=ll.Committee(width=teacher_width, activation=activation),
        student=ll.Committee(width=width, activation=activation),
        loss=ll.SquareLoss(),
        start=ll.RandomStart() if start is None else start,
        algorithm=ll.OnlineSGD(learning_rate=learning_rate),
    )


def perceptron(sample_ratio: float = 2.0) -> Problem:
    r"""The teacher-student perceptron by message passing: y = sign(w*.x), Gaussian weights.

    Slides of the field use x ~ N(0, I) and z = x.w/sqrt(d); here x ~ N(0, I/d) and z = x.w, the same field.
    """
    return Problem(
        teacher=ll.SingleIndex(ll.GaussianPrior()),
        channel=ll.Sign(),
        sample_ratio=sample_ratio,
        algorithm=ll.GAMP(iterations=30),
    )


def phase_retrieval(sample_ratio: float = 1.5) -> Problem:
    r"""Phase retrieval by message passing from a start near the truth: y = |w*.x|, Gaussian weights.

    The start has overlap 0.1 (a = 0 is a fixed point); ``SpectralStart()`` needs no knowledge of the truth.
    """
    return Problem(
        teacher=ll.SingleIndex(ll.GaussianPrior()),
        channel=ll.Modulus(),
        sample_ratio=sample_ratio,
        start=ll.InformedStart(0.1),
        algorithm=ll.GAMP(iterations=30),
    )


def descent_phase_retrieval(
    sample_ratio: float = 3.0, algorithm: AbstractAlgorithm | None = None, overlap: float | None = None
) -> Problem:
    r"""Phase retrieval by descent on the sphere over a fixed data set (Mignacco, Urbani, Zdeborova 2021).

    y = |w*.x| and the loss (y^2 - h^2)^2/4. The talk has no 1/4, and in its update no 1/b: eta, tau and t of the talk
    are ours divided by 4b (by 4 for full batches). ``algorithm`` is `GradientDescent` with eta = 0.02 unless given;
    the start is random, or has the ``overlap`` with the teacher.
    """
    return Problem(
        teacher=ll.SingleIndex(ll.GaussianPrior()),
        channel=ll.Modulus(),
        sample_ratio=sample_ratio,
        loss=ll.PhaseRetrievalLoss(),
        start=ll.RandomStart() if overlap is None else ll.InformedStart(overlap),
        algorithm=ll.GradientDescent(0.02) if algorithm is None else algorithm,
    )


def wide_phase_retrieval(sample_ratio: float = 3.0, width: int = 20, step: float = 0.02) -> Problem:
    r"""Phase retrieval by gradient descent of ``width`` squares (Sarao Mannelli, Vanden-Eijnden, Zdeborova 2020).

    The paper's flow of L = sum_mu (y_mu^2 - f_mu)^2, f = sum_i (w_i.x)^2/m, slows down as 1/m, and s = 4t/m is the
    clock on which it does not. Ours has L/4 and t = learning_rate * step/m, which is s. ``step`` is what one step adds
    to it; above about 0.05 the stiff directions blow up.
    """
    return Problem(
        teacher=ll.SingleIndex(ll.GaussianPrior()),
        channel=ll.Modulus(),
        sample_ratio=sample_ratio,
        student=ll.Committee(width=width, activation="square"),
        loss=ll.PhaseRetrievalLoss(),
        start=ll.RandomStart(),
        algorithm=ll.GradientDescent(step * width, spherical=False),
    )


def merged_staircase(
    target: str = "z1 + z1*z2 + z1*z2*z3 + z1*z2*z3*z4",
    width: int = 100,
    step_noise: float = 0.02,
    second_layer_scale: float = 1.0,
    second_layer_rate: float = 1.0,
) -> Problem:
    r"""A two-layer network learning a sparse target of the hypercube (Abbe, Boix-Adsera, Misiakiewicz 2022).

    The talk has x of signs +-1, w ~ N(0, I/d), a step eta on (y - f) and time eta * step. Ours is x/sqrt(d) and
    w sqrt(d), the same fields; eta = gamma/(p d), so that ``step_noise`` = d eta = gamma/p and the time is ours. Both
    layers are trained from a ~ Uniform[-1, 1] times ``second_layer_scale``, with tanh(x + 1): tanh itself is odd and
    learns no even term. At scale 1 and rate 1 the coefficients stop short of 1; a second layer that starts larger or
    moves faster lets all of them arrive.
    """
    return Problem(
        inputs=ll.Hypercube(),
        teacher=ll.SparseTarget(target),
        student=ll.Committee(width=width, activation="shifted(tanh, 1.0)", second_layer="trained"),
        loss=ll.SquareLoss(),
        start=ll.RandomStart(second_layer="uniform", second_layer_scale=second_layer_scale),
        algorithm=ll.OnlineSGD(learning_rate=step_noise * width, second_layer_rate=second_layer_rate),
    )


def isotropic_mixture(
    delta: float = 0.8,
    width: int = 800,
    step_noise: float = 1e-3,
    batch_size: int = 1,
    scale: float = 0.8,
    activation: str = "piecewise((0.5, -2.5), (1.5, 7.5))",
    weight_decay: float = 0.0,
    temperature: float = 0.0,
) -> Problem:
    r"""Two centred Gaussians of different spread, told apart by a wide network (Mei, Montanari, Nguyen 2018).

    The paper has x = (1 + y delta) z with z ~ N(0, I), units sigma(w.x) with w ~ N(0, kappa^2 I/d), R without 1/2 and
    a step 2 eps (y - f). Ours is x/sqrt(d) and w sqrt(d), the same fields; kappa = ``scale``, R = 2 risk,
    2 eps = eta = gamma/(p d), so that ``step_noise`` = d eta = gamma/p = 2 d eps and the paper's time is t/2. Its noisy
    steps have lambda = ``weight_decay`` and beta = 1/``temperature``.
    """
    return Problem(
        inputs=ll.IsotropicMixture(delta),
        student=ll.Committee(width=width, activation=activation),
        loss=ll.SquareLoss(),
        start=ll.RandomStart(scale=scale),
        algorithm=ll.OnlineSGD(
            learning_rate=step_noise * width,
            batch_size=batch_size,
            weight_decay=weight_decay,
            temperature=temperature,
        ),
    )


def anisotropic_mixture(
    delta: float = 0.8,
    fraction: float = 0.1875,
    width: int = 800,
    step_noise: float = 1e-3,
    batch_size: int = 1,
    scale: float = 0.4,
    schedule: "AbstractSchedule | None" = None,
) -> Problem:
    r"""As `isotropic_mixture`, but the classes differ on a ``fraction`` of the coordinates; units a relu(w.x + b).

    The paper's figure is at d = 320 with 60 informative coordinates. All of a, b and w are trained, from a = +-1 and
    b = 0. Its speed t^-1/4 is ``schedule=PowerSchedule(0.25, onset=0.0)`` up to a factor, its time being t/2.
    """
    return Problem(
        inputs=ll.AnisotropicMixture(delta, fraction),
        student=ll.Committee(width=width, activation="relu", second_layer="trained", bias="trained"),
        loss=ll.SquareLoss(),
        start=ll.RandomStart(scale=scale, second_layer="rademacher"),
        algorithm=ll.OnlineSGD(learning_rate=step_noise * width, batch_size=batch_size, schedule=schedule),
    )


LIBRARY: dict[str, Callable[..., Problem]] = {
    "escaping-mediocrity": escaping_mediocrity,
    "soft-committee": soft_committee,
    "dimensionless": dimensionless,
    "merged-staircase": merged_staircase,
    "perceptron": perceptron,
    "phase-retrieval": phase_retrieval,
    "descent-phase-retrieval": descent_phase_retrieval,
    "wide-phase-retrieval": wide_phase_retrieval,
    "isotropic-mixture": isotropic_mixture,
    "anisotropic-mixture": anisotropic_mixture,
}
