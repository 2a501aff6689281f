r"""More samples than the pool has rows.

Linear ridge with many more rows than columns: what the pool's fit leaves over underestimates the noise, and its
coefficients hold some of it,

.. math:: \hat\sigma^2 = \mathrm{noise}\,\frac{N}{N - d - 1}, \qquad \hat v_i^2 = v_i^2 - \hat\sigma^2/N,

after which samples are new ones. How far that can be trusted is shown by half pools: the scatter of what they say is
that of the whole pool's answer over other pools. Elsewhere a power law is fitted to real fits, which is no theory.
"""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from limitlab.data.models import Model
from limitlab.errors import InputError
from limitlab.numerics.spectral_ridge import spectral_ridge

if TYPE_CHECKING:
    from limitlab.data.pool import Pool

__all__ = ["CORRECTED", "FITTED", "LEAST", "Further", "beyond", "no_kernel"]

CORRECTED, FITTED = "ridge beyond the pool", "power law fitted to fits"
HALVES = 12
SPARE = 1.5  # rows per column that a half pool needs
LEAST = 4  # values of n with fits that three parameters need


class Further(NamedTuple):
    """Test mean squares or losses over (samples, penalty, label), their bands, and where they come from."""

    risk: np.ndarray
    train_loss: np.ndarray
    error: np.ndarray
    risk_band: np.ndarray
    train_loss_band: np.ndarray
    error_band: np.ndarray
    kind: str


def no_kernel(rows: int, asked: int) -> str:
    """Why a kernel stays within its rows."""
    return (
        f"learning_curve: samples must be at most {rows}, the rows of the kernel; got {asked}. A kernel of full rank "
        "fits every label, so that nothing is known of its noise; of one of low rank give the features, Pool(X, y)."
    )


def beyond(model: Model, more: np.ndarray, samples: np.ndarray, fitted: dict[str, np.ndarray] | None) -> Further:
    """What is expected for n above the rows; ``fitted`` has the real fits at ``samples`` within, replicas last."""
    pool = model.pool
    if pool.X is None:
        raise InputError(no_kernel(len(pool), int(more.max())))
    rows, columns = len(pool), len(pool.modes.eigenvalues)
    if model.loss.quadratic and not model.signs and rows > 2 * SPARE * (columns + 2):
        return _ridge(model, more)
    if fitted is None or len(samples) < LEAST:
        raise InputError(
            f"learning_curve: samples above {rows}, the rows of the pool, are reached by a power law fitted to real "
            f"fits. Ask for fits at {LEAST} or more values of n below {rows} as well."
        )
    shape = (len(more), len(model.penalties), len(model.targets))
    values, bands = {}, {}
    for name, runs in fitted.items():
        values[name], bands[name] = (np.empty(shape) for _ in range(2))
        for p, c in np.ndindex(shape[1:]):
            law, band = _power_law(samples, runs[:, p, c], more)
            values[name][:, p, c] = law
            # another pool of as many rows has another error: that of a count, and as much for a loss
            pool = law * np.sqrt(np.maximum(1 / np.minimum(np.maximum(law, 1 / rows), 0.5) - 1, 1.0) / rows)
            bands[name][:, p, c] = np.hypot(np.maximum(band, 0.1 * law), pool)
    return Further(**values, **{f"{name}_band": band for name, band in bands.items()}, kind=FITTED)


def _ridge(model: Model, more: np.ndarray) -> Further:
    y = model.targets[""]
    test, train = _corrected(model.pool, y, more, model.penalties)
    halves = []
    for k in range(HALVES):
        some = np.random.default_rng([k, 11]).permutation(len(y))[: len(y) // 2]
        half = model.pool.replaced(X=model.pool.X[some], y=y[some])
        halves.append(_corrected(half, y[some], more, model.penalties)[0])
    band = np.std(halves, axis=0, ddof=1)[..., None]
    test, train = test[..., None], train[..., None]
    return Further(test / 2, train / 2, test, band / 2, np.maximum(band, 0.03 * train) / 2, band, CORRECTED)


def _corrected(pool: "Pool", y: np.ndarray, n: np.ndarray, penalties: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    modes, N = pool.modes, len(y)
    t = y - y.mean() if pool.intercept else y
    v2 = (modes.U.T @ t) ** 2 / N
    noise = (np.mean(t**2) - v2.sum()) * N / (N - len(v2) - 1)
    got = spectral_ridge(modes.eigenvalues, v2 - noise / N, noise, n[:, None], penalties, free=float(pool.intercept))
    return got.test, got.train


def _power_law(n: np.ndarray, runs: np.ndarray, more: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """floor + factor n^-power, falling or rising, at ``more``, and how far it may be off.

    Least squares of the means in units of their standard errors (or of what the law leaves over, if that is more). The
    band carries these errors through the three parameters; few values of n leave them free, and it is then wide.
    """
    from scipy.optimize import least_squares
    from scipy.special import stdtrit

    with np.errstate(invalid="ignore"):
        values, error = runs.mean(axis=-1), runs.std(axis=-1, ddof=1) / np.sqrt(runs.shape[-1])
    good = np.isfinite(values) & (values > 0) & np.isfinite(error)
    if good.sum() < LEAST:
        raise InputError(f"learning_curve: fewer than {LEAST} values of n have fits that ended well. Ask for more.")
    n, values, error = n[good], values[good], np.maximum(error[good], 1e-3 * values[good])
    x, further, size = np.log(n / n[-1]), np.log(more / n[-1]), max(float(values[-1]), 1e-300)

    def law(a, at, sign):
        return np.exp(a[0]) + sign * np.exp(a[1] - np.exp(a[2]) * at)

    def fitted(sign):
        begin = [np.log(size * (1 - sign / 2)), np.log(size / 2), np.log(0.5)]
        return least_squares(lambda a: (law(a, x, sign) - values) / error, begin)

    found = {sign: fitted(sign) for sign in (1.0, -1.0)}
    sign = min(found, key=lambda sign: found[sign].cost)
    a, free = found[sign].x, len(n) - 3
    spread = max(1.0, 2 * found[sign].cost / free)
    floor, change = np.exp(a[0]), sign * np.exp(a[1] - np.exp(a[2]) * further)
    slope = np.stack([np.full(len(more), floor), change, -np.exp(a[2]) * further * change], axis=1)
    _, sizes, right = np.linalg.svd(found[sign].jac, full_matrices=False)
    sizes = np.maximum(sizes, 1e-6 * sizes[0])  # a direction that the fits do not see at all
    band = np.sqrt(spread) * np.linalg.norm(slope @ right.T / sizes, axis=1) * stdtrit(free, 0.84)
    return law(a, further, sign), np.minimum(band, np.maximum(10 * size, law(a, further, sign)))
