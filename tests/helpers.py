"""Problems that tests vary."""

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
