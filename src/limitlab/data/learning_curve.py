"""The verb `learning_curve`: how the error falls with the number of samples."""

from typing import Any

from limitlab.errors import InputError
from limitlab.numerics.machine import relieve
from limitlab.text import show
from limitlab.verbs import Watch, verb

__all__ = ["learning_curve"]


@verb
def learning_curve(
    source: Any,
    loss: Any = None,
    penalty: Any = None,
    *,
    samples: Any = None,
    theory: str | None = None,
    fits: int = 20,
    seed: int = 0,
    noise: float | None = None,
    progress: Watch = None,
) -> Any:
    r"""The error after learning from n samples, for every n asked: theory, and real fits beside it.

    .. math:: \min_w \sum_{\mu=1}^n \ell(y_\mu, w\cdot x_\mu + b) + \tfrac\lambda2|w|^2

    Parameters
    ----------
    source
        A `Pool` of your own rows: the mean over random subsets of n, tested on the rows left out. Or anything with a
        method ``learning_curve``.
    loss, penalty
        A convex loss and its penalty (or a list of penalties); left out, the square loss and penalty 1. For a pool an
        estimator of scikit-learn may stand in their place: Ridge, KernelRidge, LogisticRegression, or a Pipeline that
        ends in one of these, whose other steps are then fitted on the whole pool.
    samples
        n, whole numbers that increase.
    theory
        "rows" (any rows, row by row; the default of a pool) or "pool" (ridge only, from the spectrum alone: at once for
        all n and penalties).
    fits
        Random subsets on which real fits are run beside the theory; 0 for none.
    seed
        Of the subsets: the same for all n and penalties.
    noise
        Variance of the noise, for sources that have none of their own.

    Returns
    -------
    LearningCurve
        ``prediction`` and ``fits`` (Datasets over ``samples``), ``rows``, ``samples_for(error=...)``, notes in words.
    """
    relieve()
    answer = getattr(source, "learning_curve", None)
    if answer is None or isinstance(source, type):
        raise InputError(
            f"learning_curve needs a source of samples such as Pool(X, y); got {show(source)}. Write "
            "learning_curve(Pool(X, y), loss=SquareLoss(), penalty=0.1, samples=[50, 100, 200])."
        )
    if samples is None:
        raise InputError("learning_curve needs samples, the numbers n of the curve, such as samples=[50, 100, 200].")
    more = {} if noise is None else {"noise": noise}
    return answer(loss, penalty, samples=samples, theory=theory, fits=fits, seed=seed, **more)
