"""Learning curves of pools: theory, real fits beside it, and what a reader must know."""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from limitlab.data.beyond import Further, beyond, no_kernel
from limitlab.data.curve import ENOUGH, LearningCurve, assemble
from limitlab.data.fits import Measured, measure_fits
from limitlab.data.models import Model
from limitlab.data.rows.general import Fields, general_rows
from limitlab.data.rows.square import square_rows
from limitlab.data.rows.theory import Design, RowTheory
from limitlab.errors import InputError
from limitlab.numerics.checks import check_choice, check_integer, check_seed
from limitlab.numerics.spectral_ridge import SpectralRidge, spectral_ridge
from limitlab.text import show
from limitlab.verbs import tell

if TYPE_CHECKING:
    from limitlab.data.pool import Pool

__all__ = ["Predicted", "check_samples", "curve_of_pool", "pool_formula", "predict_rows"]

BAND = 0.03
MANY = 0.1  # share of rows that repeat others
FEW, FEW_OF_CLASS, LEVERAGE = 20, 10, 0.9
CLASS_BAND = ((60, 0.005), (0, 0.01))  # of a class error: from so many samples, so much


class Predicted(NamedTuple):
    """Arrays (samples, penalty, label); ``rows`` the row theories in the same order, empty of the pool formula."""

    risk: np.ndarray
    train_loss: np.ndarray
    error: np.ndarray
    status: np.ndarray
    rounds: np.ndarray
    rows: dict[tuple[int, int, int], RowTheory]


def curve_of_pool(
    pool: "Pool",
    loss: Any,
    penalty: Any,
    *,
    samples: Any,
    theory: str | None = None,
    fits: int = 20,
    seed: int = 0,
    noise: Any = None,
) -> LearningCurve:
    """The answer of a `Pool` to the verb `learning_curve`."""
    if noise is not None:
        raise InputError("learning_curve: a pool has the noise of its own labels. Leave noise out.")
    theory = check_choice("learning_curve", "theory", "rows" if theory is None else theory, ("rows", "pool"))
    fits = check_integer("learning_curve", "fits", fits, low=0, remedy="Use 20 subsets, or 0 for no fits.")
    seed = check_seed("learning_curve", seed)
    model = Model.of(pool, loss, penalty)
    n = check_samples(samples, model, fits)
    pool, N = model.pool, len(model.pool)
    within, more = n[n <= N], n[n > N]
    if theory == "pool" and not model.loss.quadratic:
        raise InputError(
            f'learning_curve: theory="pool" is for ridge; got {type(model.loss).__name__}. Use theory="rows".'
        )
    formula = _by_pool(model, within) if model.loss.quadratic else None
    predicted = formula if theory == "pool" and formula is not None else predict_rows(model, within)
    measured = measure_fits(model, within, fits, seed) if fits and len(within) else None
    further = _further(model, more, within, measured) if len(more) else None
    notes = [*model.notes, *_notes(model, within, predicted, fits)]
    bands = _bands(model, within, predicted, formula)
    return assemble(model, theory, n, predicted, bands, formula, measured, further, tuple(notes), seed)


def check_samples(samples: Any, model: Model, fits: int) -> np.ndarray:
    """n as whole numbers that increase, more than the free parameters."""
    try:
        n = np.atleast_1d(np.asarray(samples, dtype=float))
    except (TypeError, ValueError):
        n = np.array([np.nan])
    least, N = 2 + int(model.pool.intercept), len(model.pool)
    if n.ndim != 1 or not len(n) or np.any(n != np.round(n)) or np.any(np.diff(n) <= 0) or n[0] < least:
        raise InputError(
            f"learning_curve.samples must be whole numbers that increase, {least} at least; got {show(samples)}."
        )
    if fits and np.any(n == N):
        raise InputError(
            f"learning_curve: {N} samples are the whole pool, and no row is left to test on. Ask for at most {N - 1}; "
            "with fits=0 the theory at the whole pool is that of leaving one out."
        )
    if model.pool.X is None and n[-1] > N:
        raise InputError(no_kernel(N, int(n[-1])))
    return n.astype(int)


def pool_formula(pool: "Pool", y: np.ndarray, samples: np.ndarray, penalties: np.ndarray) -> SpectralRidge:
    """(samples, penalty): ridge from the spectrum of the pool alone."""
    modes = pool.modes
    t = y - y.mean() if pool.intercept else y
    v2 = (modes.U.T @ t) ** 2 / len(y)
    noise = max(float(np.mean(t**2) - v2.sum()), 0.0)
    return spectral_ridge(
        modes.eigenvalues, v2, noise, samples[:, None], penalties, rows=len(y), free=float(pool.intercept)
    )


def _by_pool(model: Model, samples: np.ndarray) -> Predicted:
    parts = [pool_formula(model.pool, y, samples, model.penalties) for y in model.targets.values()]
    test, train = (np.stack([getattr(part, name) for part in parts], axis=-1) for name in ("test", "train"))
    status = np.where(np.isfinite(test), "ok", "diverged")
    test = np.where(np.isfinite(test), test, np.nan)
    error = np.full_like(test, np.nan) if model.signs else test
    return Predicted(test / 2, train / 2, error, status, np.zeros(test.shape, int), {})


def predict_rows(model: Model, samples: np.ndarray) -> Predicted:
    """The row theory at every n, penalty and label; each begins where the one before ended."""
    shape = (len(samples), len(model.penalties), len(model.targets))
    risk, train, error = (np.full(shape, np.nan) for _ in range(3))
    status, rounds = np.full(shape, "ok", dtype="<U16"), np.zeros(shape, int)
    rows: dict[tuple[int, int, int], RowTheory] = {}
    features, done = model.pool.modes.features, 0
    for c, y in enumerate(model.targets.values()):
        for p, penalty in enumerate(model.penalties):
            _check_penalty(model, penalty, samples)
            design, start = Design.of(features, penalty, model.pool.intercept), None
            for i, n in enumerate(samples):
                tell(done, risk.size, "row theory")
                found, start = _rows(model, design, y, n / len(y), start)
                done, rounds[i, p, c], status[i, p, c] = done + 1, found.rounds, found.status
                if found.status != "ok":
                    start = None
                    continue
                rows[i, p, c] = found
                risk[i, p, c], train[i, p, c] = found.test_loss.mean(), found.train_loss.mean()
                error[i, p, c] = found.wrong(y).mean() if model.signs else 2 * _square(found, y)
    tell(risk.size, risk.size, "row theory")
    return Predicted(risk, train, error, status, rounds, rows)


def _square(found: RowTheory, y: np.ndarray) -> float:
    return float(np.mean((y - found.mean) ** 2 + found.sd**2)) / 2


def _rows(model: Model, design: Design, y, share: float, start: Fields | None) -> tuple[RowTheory, Fields | None]:
    if model.loss.quadratic:
        return square_rows(design, y, share), None
    found, fields = general_rows(model.loss, design, y, share, start)
    if found.status != "ok" and start is not None:  # the one before was no good place to start
        again, fields = general_rows(model.loss, design, y, share)
        found = again._replace(rounds=found.rounds + again.rounds)
    return found, fields


def _check_penalty(model: Model, penalty: float, samples: np.ndarray) -> None:
    needed = len(model.pool.modes.eigenvalues) + int(model.pool.intercept)
    if penalty > 0 or (model.loss.quadratic and np.all(samples > needed)):
        return
    what = f"more than {needed} samples, or a penalty > 0" if model.loss.quadratic else "a penalty > 0"
    raise InputError(
        f'learning_curve: theory="rows" needs {what} for {type(model.loss).__name__}. Use a small one such as 1e-6'
        + (', or theory="pool".' if model.loss.quadratic else ".")
    )


def _bands(model: Model, n: np.ndarray, predicted: Predicted, formula: Predicted | None) -> dict[str, np.ndarray]:
    """max(3 %, |rows - pool|), and what is usual for class errors."""
    bands = {}
    for name in ("risk", "train_loss", "error"):
        values = getattr(predicted, name)
        apart = 0.0 if formula is None else np.nan_to_num(np.abs(values - getattr(formula, name)))
        bands[name] = np.maximum(BAND * np.abs(values), apart)
    if model.signs:
        usual = np.select([n >= low for low, _ in CLASS_BAND], [size for _, size in CLASS_BAND])
        bands["error"] = np.maximum(bands["error"], usual[:, None, None])
    return bands


def _notes(model: Model, n: np.ndarray, predicted: Predicted, fits: int) -> list[str]:
    """Where the theory is known to be less sure."""
    notes, pool = [], model.pool
    if fits and fits < ENOUGH:
        notes.append(f"{fits} fit{'s are' if fits > 1 else ' is'} too few for an error bar: ask for 20")
    if len(n) and n[0] < FEW:
        notes.append(f"below {FEW} samples the theory is off by 5 to 15 %")
    if model.signs:
        least = min(float(np.mean(y == sign)) for y in model.targets.values() for sign in (-1.0, 1.0))
        if len(n) and n[0] * least < FEW_OF_CLASS:
            at = int(np.ceil(FEW_OF_CLASS / least))
            notes.append(f"below {at} samples fewer than {FEW_OF_CLASS} of the rarest class are seen")
    if pool.duplicates:
        many = pool.duplicates > MANY * len(pool)
        words = ", and how often each is drawn is no mean: the theory may be off by a third" if many else ""
        notes.append(f"{pool.duplicates} rows repeat others: a test row may have been trained on{words}")
    if pool.X is not None and (same := int(np.sum(np.ptp(pool.X, axis=0) == 0))):
        notes.append(
            f"{same} column{'s are' if same > 1 else ' is'} constant and tell{'' if same > 1 else 's'} nothing"
        )
    high = [key[0] for key, found in predicted.rows.items() if found.leverage.max() > LEVERAGE]
    if high:
        others = " and others" if len(set(high)) > 1 else ""
        notes.append(f"single rows decide their own fit (leverage above {LEVERAGE:g}) at n = {n[min(high)]}{others}")
    bad = np.unique(n[np.nonzero(predicted.status != "ok")[0]]) if len(n) else []
    if len(bad):
        notes.append(f"no theory at n = {', '.join(map(str, bad[:5]))}: see status")
    return notes


def _further(model: Model, more: np.ndarray, within: np.ndarray, measured: Measured | None) -> Further:
    names = ("risk", "train_loss", "error")
    runs = None if measured is None else {name: getattr(measured, name) for name in names}
    return beyond(model, more, within, runs)
