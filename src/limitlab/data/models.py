"""What is fitted to a pool: a loss with penalties, or an estimator of scikit-learn translated into these."""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from limitlab.errors import InputError
from limitlab.problems.losses.base import AbstractConvexLoss
from limitlab.problems.losses.margin import LogisticLoss, SquaredHingeLoss
from limitlab.problems.losses.residual import PseudoHuberLoss, SquareLoss
from limitlab.text import code, show

if TYPE_CHECKING:
    from limitlab.data.pool import Pool

__all__ = ["MODELS", "Model"]

FEW = 20  # whole numbers from 0 up that may be names of classes
KNOWN = "Ridge, KernelRidge, LogisticRegression, or a Pipeline that ends in one of these"


MODELS = {  # as the command line calls them
    "ridge": SquareLoss,
    "logistic": LogisticLoss,
    "squared-hinge": SquaredHingeLoss,
    "pseudo-huber": PseudoHuberLoss,
}


class Model(NamedTuple):
    """A pool with what is fitted to it.

    Attributes
    ----------
    penalties, single
        All penalties, and whether one was asked for rather than a list.
    targets
        label -> numbers to fit, of all rows; the label is "" if there is one target only.
    signs
        Whether targets are -1 and +1, so that there are wrong signs.
    """

    pool: "Pool"
    loss: AbstractConvexLoss
    penalties: np.ndarray
    single: bool
    targets: dict[str, np.ndarray]
    signs: bool
    notes: tuple[str, ...]

    @classmethod
    def of(cls, pool: "Pool", loss: Any, penalty: Any) -> "Model":
        notes: list[str] = []
        if hasattr(loss, "get_params") and hasattr(loss, "fit"):
            if penalty is not None:
                raise InputError("learning_curve: an estimator brings its own penalty. Leave penalty out.")
            pool, loss, penalty = _translated(pool, loss, notes)
        loss = SquareLoss() if loss is None else loss
        if not isinstance(loss, AbstractConvexLoss) or loss.hard or not loss.smooth:
            raise InputError(
                "learning_curve.loss must be a convex loss without kinks, such as SquareLoss(), LogisticLoss(), "
                f"SquaredHingeLoss() or PseudoHuberLoss(), or an estimator ({KNOWN}); got {show(loss)}."
            )
        single = np.ndim(1.0 if penalty is None else penalty) == 0
        try:
            penalties = np.atleast_1d(np.asarray(1.0 if penalty is None else penalty, dtype=float))
        except (TypeError, ValueError):
            penalties = np.array([np.nan])
        if penalties.ndim != 1 or not len(penalties) or not np.all(np.isfinite(penalties) & (penalties >= 0)):
            raise InputError(f"learning_curve.penalty must be a number >= 0 or a list of them; got {show(penalty)}.")
        targets, signs = _targets(pool, loss, notes)
        return cls(pool, loss, penalties, single, targets, signs, tuple(notes))

    @property
    def table(self) -> dict[str, Any]:
        """The identity of what is fitted."""
        return {"pool": self.pool.table, "loss": code(self.loss), "penalty": self.penalties.tolist()}


def _targets(pool: "Pool", loss: AbstractConvexLoss, notes: list[str]) -> tuple[dict[str, np.ndarray], bool]:
    numbers = pool.numbers
    if loss.of == "residual" and numbers is not None:
        classes = pool.classes
        if classes is not None and 2 < len(classes) <= FEW and list(classes) == list(range(len(classes))):
            notes.append(
                f"the targets 0 to {len(classes) - 1} are fitted as numbers; if they name classes, use LogisticLoss(), "
                "or texts in y"
            )
        return {"": numbers}, set(np.unique(numbers)) == {-1.0, 1.0}
    classes = pool.classes
    if classes is None:
        raise InputError(
            f"{type(loss).__name__} needs labels of classes in Pool.y; got {len(np.unique(pool.y))} different numbers. "
            "Use SquareLoss() or PseudoHuberLoss(), or make classes of y."
        )
    values = np.unique(pool.y)
    if len(classes) == 2:
        return {"": np.where(pool.y == values[1], 1.0, -1.0)}, True
    notes.append(
        f"{len(classes)} classes, each against the rest: theory gives one curve per class; the error of the largest "
        "output (argmax_error) is measured by fits only"
    )
    return {_name(value): np.where(pool.y == value, 1.0, -1.0) for value in values}, True


def _name(value: Any) -> str:
    return f"{value:g}" if isinstance(value, (float, np.floating)) else str(value)


def _translated(pool: "Pool", estimator: Any, notes: list[str]) -> "tuple[Pool, AbstractConvexLoss, float]":
    """alpha and C as our penalty, fit_intercept as the pool's; steps before the last are fitted on the pool."""
    from sklearn.kernel_ridge import KernelRidge
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.pipeline import Pipeline

    if isinstance(estimator, Pipeline):
        if pool.X is None:
            raise InputError("learning_curve: a Pipeline transforms columns; this pool is a kernel. Use Pool(X, y).")
        steps, last = estimator[:-1], estimator[-1]
        if len(steps):
            from sklearn.base import clone

            fresh: Any = clone(steps)
            columns = fresh.fit_transform(pool.X, pool.y)
            columns = columns.toarray() if hasattr(columns, "toarray") else columns
            pool = pool.replaced(X=columns)
            notes.append("the Pipeline's transformers were fitted on the whole pool, tested rows as well")
        return _translated(pool, last, notes)
    asked = estimator.get_params()
    if isinstance(estimator, KernelRidge):
        from sklearn.metrics.pairwise import pairwise_kernels

        if np.ndim(asked["alpha"]) != 0:
            raise InputError("learning_curve: KernelRidge.alpha must be one number.")
        if pool.X is not None and asked["kernel"] != "precomputed":
            extra = asked["kernel_params"] or {k: asked[k] for k in ("gamma", "degree", "coef0")}
            K = pairwise_kernels(pool.X, metric=asked["kernel"], filter_params=True, **extra)
            pool = pool.replaced(X=None, kernel=K, intercept=False)
        return pool.replaced(intercept=False), SquareLoss(), float(asked["alpha"])
    if isinstance(estimator, Ridge):
        if np.ndim(asked["alpha"]) != 0 or asked.get("positive"):
            raise InputError("learning_curve: Ridge must have one alpha and no bound on its signs.")
        return pool.replaced(intercept=bool(asked["fit_intercept"])), SquareLoss(), float(asked["alpha"])
    if isinstance(estimator, LogisticRegression):
        plain = asked.get("penalty") in ("l2", "deprecated", None) and not asked.get("l1_ratio")
        if not plain or asked["class_weight"] is not None or asked["solver"] == "liblinear":
            raise InputError(
                "learning_curve: LogisticRegression must have the l2 penalty, no class_weight, and a solver other than "
                "liblinear, which penalises the intercept."
            )
        none = asked.get("penalty", "l2") is None or not np.isfinite(asked["C"])
        pool = pool.replaced(intercept=bool(asked["fit_intercept"]))
        return pool, LogisticLoss(), 0.0 if none else 1 / float(asked["C"])
    raise InputError(f"learning_curve knows the estimators {KNOWN}; got {type(estimator).__name__}.")
