"""Real fits on random subsets of a pool: the same subsets for all methods, numbers of samples and penalties."""

from typing import NamedTuple

import numpy as np

from limitlab.data.models import Model
from limitlab.data.rows.moments import losses_of
from limitlab.data.rows.theory import Design
from limitlab.numerics.convex.newton import newton
from limitlab.verbs import tell

__all__ = ["Measured", "measure_fits", "orders"]


class Measured(NamedTuple):
    """Arrays (samples, penalty, label, split); ``argmax`` without label, None of one target; NaN where not ok."""

    risk: np.ndarray
    train_loss: np.ndarray
    error: np.ndarray
    status: np.ndarray
    argmax: np.ndarray | None


def orders(rows: int, splits: int, seed: int) -> np.ndarray:
    """The rows in random order, once for every split: its first n are trained on, the others tested on."""
    return np.stack([np.random.default_rng([seed, k]).permutation(rows) for k in range(splits)])


def measure_fits(model: Model, samples: np.ndarray, splits: int, seed: int) -> Measured:
    """Every fit in turn; n below the number of rows."""
    N, labels = len(model.pool), list(model.targets)
    shape = (len(samples), len(model.penalties), len(labels), splits)
    risk, train, error = (np.full(shape, np.nan) for _ in range(3))
    status = np.full(shape, "undefined", dtype="<U16")
    argmax = np.full((*shape[:2], splits), np.nan) if len(labels) > 1 else None
    Y = np.stack(list(model.targets.values()), axis=1)
    features, total = model.pool.modes.features, len(samples) * splits
    for k, order in enumerate(orders(N, splits, seed)):
        for i, n in enumerate(samples):
            tell(k * len(samples) + i, total, "fits")
            inside, outside = order[:n], order[n:]
            for p, penalty in enumerate(model.penalties):
                outputs, ended = _outputs(model, features, inside, Y, penalty)
                losses = np.stack(
                    [losses_of(model.loss, Y[:, c], outputs[:, c])[0] for c in range(len(labels))], axis=1
                )
                good = ended == "ok"
                risk[i, p, good, k] = losses[outside].mean(axis=0)[good]
                train[i, p, good, k] = losses[inside].mean(axis=0)[good]
                if model.signs:
                    wrong = np.where(outputs[outside] == 0, 0.5, Y[outside] * outputs[outside] < 0).mean(axis=0)
                else:
                    wrong = ((Y - outputs)[outside] ** 2).mean(axis=0)
                error[i, p, good, k] = wrong[good]
                status[i, p, :, k] = ended
                if argmax is not None and np.all(good):
                    argmax[i, p, k] = np.mean(outputs[outside].argmax(1) != Y[outside].argmax(1))
    tell(total, total, "fits")
    return Measured(risk, train, error, status, argmax)


def _outputs(model: Model, features, inside, Y, penalty: float) -> tuple[np.ndarray, np.ndarray]:
    """(rows, label): what a fit on the rows ``inside`` gives for all rows, and how each fit ended."""
    if model.loss.quadratic:
        return _ridge(features, inside, Y, penalty, model.pool.intercept), np.full(Y.shape[1], "ok", dtype="<U16")
    columns, ended = [], []
    design = Design.of(features, penalty, model.pool.intercept)
    X, free = design.Z[inside], int(model.pool.intercept)
    Q = None
    if len(inside) < X.shape[1] - free and penalty > 0:  # the weights lie in the span of the rows
        Q, R = np.linalg.qr(features[inside].T)
        X = Design.of(R.T, penalty, model.pool.intercept).Z
    each = np.full(X.shape[1], penalty)
    each[len(each) - free :] = 0.0
    for y in Y.T:
        t = y[inside]
        signs = t if model.loss.of == "margin" else None
        if signs is not None and len(np.unique(t)) < 2 and free:
            columns.append(np.full(len(Y), np.nan))
            ended.append("undefined")  # one class only: the intercept runs away
            continue
        fit = newton(lambda z, t=t: tuple(losses_of(model.loss, t, z)), X, each, signs)
        w = fit.w if Q is None else np.concatenate([Q @ fit.w[: Q.shape[1]], fit.w[Q.shape[1] :]])
        columns.append(design.Z @ w)
        ended.append(fit.status)
    return np.stack(columns, axis=1), np.array(ended, dtype="<U16")


def _ridge(features, inside, Y, penalty: float, intercept: bool) -> np.ndarray:
    from scipy.linalg import cho_factor, cho_solve

    X, T = features[inside], Y[inside]
    centre, level = (X.mean(axis=0), T.mean(axis=0)) if intercept else (np.zeros(X.shape[1]), np.zeros(T.shape[1]))
    X, T = X - centre, T - level
    n, d = X.shape
    if penalty == 0:
        w = np.linalg.lstsq(X, T, rcond=None)[0]
    elif n >= d:
        w = cho_solve(cho_factor(X.T @ X + penalty * np.eye(d)), X.T @ T)
    else:
        w = X.T @ cho_solve(cho_factor(X @ X.T + penalty * np.eye(n)), T)
    return (features - centre) @ w + level
