"""Problems that tests vary."""

import numpy as np

import limitlab as ll


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
