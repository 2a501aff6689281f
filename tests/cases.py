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
