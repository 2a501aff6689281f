"""The penalty of least expected loss on a pool."""

from typing import TYPE_CHECKING, Any

import numpy as np

from limitlab.data.models import Model
from limitlab.data.on_pools import check_samples, pool_formula, predict_rows
from limitlab.errors import ConvergenceError, InputError
from limitlab.numerics.checks import check_choice
from limitlab.verbs import tell

if TYPE_CHECKING:
    from limitlab.data.pool import Pool

__all__ = ["best_penalty"]

LOW, HIGH = 1e-8, 1e4  # in units of the mean square norm of a row
COARSE, FINE = 13, 400
NEAR = 1.001


def best_penalty(
    pool: "Pool", loss: Any = None, samples: Any = None, theory: str | None = None
) -> tuple[float, float, tuple[float, float], str]:
    """Penalty, error there, range within 0.1 % of the least loss, note; at one number of samples."""
    if samples is None or np.ndim(samples) != 0:
        raise InputError("optimal_penalty needs one number of samples for a pool, such as samples=100.")
    model = Model.of(pool, loss, None if hasattr(loss, "fit") else 1.0)
    theory = check_choice("optimal_penalty", "theory", "rows" if theory is None else theory, ("rows", "pool"))
    n = check_samples(samples, model, 0)
    if len(model.targets) > 1:
        raise InputError("optimal_penalty needs two classes or numbers. Ask for one class against the rest: y == 3.")
    if n[0] > len(model.pool):
        raise InputError(f"optimal_penalty: samples must be at most {len(model.pool)}, the rows of the pool.")
    size = float(np.sum(model.pool.modes.eigenvalues))
    if theory == "pool":
        if not model.loss.quadratic:
            raise InputError('optimal_penalty: theory="pool" is for the square loss. Use theory="rows".')
        grid = np.linspace(np.log(LOW * size), np.log(HIGH * size), FINE)
        y = model.targets[""]
        risk = pool_formula(model.pool, y, n, np.exp(grid)).test[0] / 2
        return _read(model, grid, risk, 2 * risk)
    grid = np.linspace(np.log(1e-5 * size), np.log(1e2 * size), COARSE)
    known: dict[float, tuple[float, float]] = {}
    for turn in range(2):  # a coarse look, then between the neighbours of the best
        for k, x in enumerate(grid):
            tell(turn * len(grid) + k, 2 * len(grid), "penalties")
            if x not in known:
                known[x] = _at(model, n, float(np.exp(x)))
        xs = np.array(sorted(known))
        risk = np.array([known[x][0] for x in xs])
        if not np.any(np.isfinite(risk)):
            raise ConvergenceError("optimal_penalty: the row theory converged at no penalty.", risk)
        best = int(np.nanargmin(risk))
        grid = np.linspace(xs[max(best - 1, 0)], xs[min(best + 1, len(xs) - 1)], 9)[1:-1]
    tell(1, 1, "penalties")
    xs = np.array(sorted(known))
    values = np.array([known[x] for x in xs])
    good = np.isfinite(values[:, 0])
    return _read(model, xs[good], values[good, 0], values[good, 1])


def _at(model: Model, n: np.ndarray, penalty: float) -> tuple[float, float]:
    found = predict_rows(model._replace(penalties=np.array([penalty])), n)
    return float(found.risk.ravel()[0]), float(found.error.ravel()[0])


def _read(model: Model, grid, risk, error) -> tuple[float, float, tuple[float, float], str]:
    from scipy.interpolate import PchipInterpolator

    fine = np.linspace(grid[0], grid[-1], 4001)
    smooth = PchipInterpolator(grid, risk)(fine)
    k = int(np.argmin(smooth))
    inside = fine[smooth <= NEAR * smooth[k]]
    at = float(PchipInterpolator(grid, error)(fine[k]))
    low = 0.0 if inside[0] == fine[0] else float(np.exp(inside[0]))
    high = np.inf if inside[-1] == fine[-1] else float(np.exp(inside[-1]))
    note = "It makes the expected loss least, not the wrong signs. " if model.signs else ""
    if k == 0:
        return 0.0, at, (0.0, high), f"{note}The loss falls all the way to no penalty.".strip()
    if k == len(fine) - 1:
        return np.inf, at, (low, np.inf), f"{note}The loss falls all the way to an infinite penalty.".strip()
    return float(np.exp(fine[k])), at, (low, high), note.strip()
