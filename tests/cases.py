"""Problems that tests vary."""

import numpy as np

import limitlab as ll
from limitlab.algorithms.settings.one_pass import LabelledOnePass
from limitlab.problems.asked import Asked


def committee(
    student="erf",
    teacher="erf",
    p=2,
    k=2,
    learning_rate=0.5,
    variance=0.0,
    start=None,
    trained=False,
    output_weights=None,
    teacher_weights=None,
    **algorithm,
):
    """A one-pass committee problem."""
    return ll.Problem(
        teacher=ll.Committee(width=k, activation=teacher, output_weights=teacher_weights),
        channel=ll.GaussianNoise(variance=variance),
        student=ll.Committee(
            width=p,
            activation=student,
            second_layer="trained" if trained else "fixed",
            output_weights=output_weights,
        ),
        loss=ll.SquareLoss(),
        start=ll.InformedStart(overlap=0.3) if start is None else start,
        algorithm=ll.OnlineSGD(learning_rate=learning_rate, **algorithm),
    )


def spread(count=8, seed=0, **fixed):
    """Problems that differ in rate, noise and start."""
    rng = np.random.default_rng(seed)
    return [
        committee(
            **{
                "learning_rate": rng.uniform(0.1, 0.6),
                "variance": rng.uniform(0, 0.5) * (n > 0),
                "start": ll.InformedStart(overlap=rng.uniform(0.1, 0.9)),
                **fixed,
            }
        )
        for n in range(count)
    ]


TINY_RATE = 1e-14  # the learning-rate-squared term of OverlapODE is then below rounding


def gentle(p=3, k=2, f="erf", g=None, *, start=None, a_star=None, a=None, **more):
    """A committee that learns without the noise of its steps; same functions f and g unless told otherwise."""
    rule = {"learning_rate": TINY_RATE, **more}
    start = ll.RandomStart() if start is None else start
    return committee(f, g or f, p, k, variance=0.1, start=start, output_weights=a, teacher_weights=a_star, **rule)


def projected(m=0.3, learning_rate=0.05, variance=0.2, spherical=True):
    """The p = k = 1 problem of squares on which the formula sheet has closed forms."""
    start = ll.InformedStart(overlap=m)
    return committee("square", "square", 1, 1, learning_rate, variance, start, spherical=spherical)


SKEW = ll.OverlapStart(Q=[[1.0, 0.2], [0.2, 1.0]], M=[[0.4], [-0.1]], P=[[1.0]])


def skewed(learning_rate=1.0, start=SKEW, trained=True, **algorithm):
    """Two error functions that differ, and their second layer."""
    return committee("erf", "erf", 2, 1, learning_rate, 0.2, start, trained=trained, **algorithm)


def sparse(
    text="z1 + z1*z2",
    activation="shifted(tanh, 0.5)",
    p=100,
    law="uniform",
    trained=True,
    variance=0.0,
    scale=1.0,
    algorithm=None,
    output_weights=None,
    **rule,
):
    """A sparse target on the hypercube."""
    return ll.Problem(
        inputs=ll.Hypercube(),
        teacher=ll.SparseTarget(text),
        channel=ll.GaussianNoise(variance),
        student=ll.Committee(
            width=p,
            activation=activation,
            second_layer="trained" if trained else "fixed",
            output_weights=output_weights,
        ),
        loss=ll.SquareLoss(),
        start=ll.RandomStart(scale=scale, second_layer=law),
        algorithm=algorithm or ll.OnlineSGD(**({"learning_rate": 5.0} | rule)),
    )


def glm(prior, channel, alpha, **rest):
    """Labels of a single direction, as many per dimension as ``alpha`` says."""
    return ll.Problem(teacher=ll.SingleIndex(prior), channel=channel, sample_ratio=alpha, **rest)


def messages(prior, channel, alpha, start=None, iterations=12, **rule):
    """The same, learned by message passing."""
    return glm(prior, channel, alpha, start=start, algorithm=ll.GAMP(iterations=iterations, **rule))


def fit(loss, channel=None, alpha=2.0, penalty=0.1, rho=1.0, prior=None):
    """The same, learned by a convex fit; noiseless signs unless told otherwise."""
    prior = ll.GaussianPrior(variance=rho) if prior is None else prior
    return glm(prior, ll.Sign() if channel is None else channel, alpha, loss=loss, algorithm=ll.ERM(penalty=penalty))


LANES = 8  # one compiled shape for all curves


def fit_curve(problem, alphas):
    """The asymptotics of a fit at a few sample ratios, always with the same number of lanes."""
    padded = np.resize(np.asarray(alphas, float), LANES)
    return ll.ERMAsymptotics().curve(problem, padded).isel(sample_ratio=slice(len(alphas)))


def wide(alpha=3.0, width=40, step=0.02, prefactor=0.25, **changes):
    """Phase retrieval by ``width`` squares; ``step`` is that of the clock, learning_rate/width."""
    parts = {
        "teacher": ll.SingleIndex(ll.GaussianPrior()),
        "channel": ll.Modulus(),
        "sample_ratio": alpha,
        "student": ll.Committee(width=width, activation="square"),
        "loss": ll.PhaseRetrievalLoss(prefactor=prefactor),
        "start": ll.RandomStart(),
        "algorithm": ll.GradientDescent(learning_rate=step * width, spherical=False),
    }
    return ll.Problem(**(parts | changes))


def descent(rule, alpha=3.0, start=None, loss=None, channel=None, rho=1.0, **more):
    """Descent on labels of a single-index teacher; phase retrieval unless told otherwise."""
    return ll.Problem(
        teacher=ll.SingleIndex(ll.GaussianPrior(rho)),
        channel=ll.Modulus() if channel is None else channel,
        sample_ratio=alpha,
        loss=ll.PhaseRetrievalLoss() if loss is None else loss,
        start=ll.InformedStart(0.5) if start is None else start,
        algorithm=rule,
        **more,
    )


MMN = "piecewise((0.5, -2.5), (1.5, 7.5))"


def mixture(p=8, activation=MMN, inputs=None, student=None, start=None, variance=0.0, **rule):
    return ll.Problem(
        inputs=ll.IsotropicMixture(delta=0.5) if inputs is None else inputs,
        channel=ll.GaussianNoise(variance=variance),
        student=ll.Committee(width=p, activation=activation, **(student or {})),
        loss=ll.SquareLoss(),
        start=ll.RandomStart(**({"scale": 0.8} | (start or {}))),
        algorithm=ll.OnlineSGD(**({"learning_rate": 0.4} | rule)),
    )


KNOTS = ((0.5, -2.5), (1.5, 7.5))


def radial(delta=0.5, scale=0.8, knots=KNOTS, activation=None, student=(), rule=(), start=(), inputs=None, noise=0.0):
    return ll.Problem(
        inputs=ll.IsotropicMixture(delta) if inputs is None else inputs,
        channel=ll.GaussianNoise(noise),
        student=ll.Committee(width=800, activation=activation or ll.piecewise(*knots), **dict(student)),
        loss=ll.SquareLoss(),
        start=ll.RandomStart(scale=scale, **dict(start)),
        algorithm=ll.OnlineSGD(**{"learning_rate": 1.0, **dict(rule)}),
    )


def parsed(problem, limit=None):
    """The problem as a limit sees it; `OverlapODE` unless told otherwise."""
    return (ll.OverlapODE() if limit is None else limit).parsed(problem)


def labelled(problem):
    """One-pass SGD on labelled inputs, as all its limits see it."""
    return LabelledOnePass.of(problem, Asked("the test"))
