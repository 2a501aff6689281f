r"""Ridge regression on inputs of any spectrum, in raw units: the effective ridge and the errors that follow from it.

Modes have the eigenvalues :math:`s_i` of :math:`E[xx^\top]`; the objective is :math:`\sum_\mu \tfrac12(y - f)^2 +
\tfrac\lambda2|w|^2` over n samples, which are drawn without replacement from N rows (or are new, N infinite):

.. math::
    \frac\lambda\kappa = \frac{n - df_1}{1 - df_1/N}, \qquad L_i = \frac{s_i}{s_i + \kappa}, \qquad
    df_1 = \sum L_i, \quad df_2 = \sum L_i^2, \quad B = \mathrm{noise} + \sum v_i^2 (1 - L_i)^2

    \mathrm{test\ mse} = \frac{nB}{(n - df_1)(1 - df_1/N) + (df_1 - df_2)(1 - n/N)}, \qquad
    \mathrm{train\ mse} = \mathrm{test}\,(1 - df_1/n)^2

:math:`v_i^2` is the squared coefficient of the target on mode i, and the noise whatever the modes do not explain. Modes
without penalty (an intercept: one) count fully in both df. With N infinite the train error obeys generalised
cross-validation; with n = N the test error *is* that of the whole fit, and kappa = lambda/N.
"""

from typing import Any, NamedTuple

import numpy as np

from limitlab.errors import InputError

__all__ = ["SpectralRidge", "effective_ridge", "spectral_ridge"]

BLOCK = 2_000_000  # pairs of a mode and a point that are looked at together
STEPS = 200
CLOSE = 4e-16  # relative change of kappa at which its root is found


class SpectralRidge(NamedTuple):
    """Arrays of the shape of samples and penalties broadcast; errors are mean squares, without a half.

    ``test`` is infinite where n equals the number of modes and there is no penalty. ``bias`` is B.
    """

    kappa: np.ndarray
    df1: np.ndarray
    df2: np.ndarray
    bias: np.ndarray
    test: np.ndarray
    train: np.ndarray


def effective_ridge(
    eigenvalues: Any, samples: Any, penalty: Any, *, counts: Any = 1.0, rows: float = np.inf, free: float = 0.0
) -> np.ndarray:
    """kappa for every pair of samples and penalty (broadcast); 0 without penalty where n is at least the rank.

    Parameters
    ----------
    eigenvalues, counts
        Eigenvalues >= 0 and how many modes each stands for; counts need not be whole (weights of a quadrature, or
        shares of modes if samples are given per dimension too).
    samples, penalty
        n > ``free`` and lambda >= 0, any shapes that broadcast.
    rows
        N, the rows of the pool that the samples are drawn from.
    free
        Modes without penalty.
    """
    s, c = _modes(eigenvalues, counts)
    n, lam = _points(samples, penalty, rows, free)
    flat = [_root(s, c, *block, rows, free) for block in _blocks(n.ravel(), lam.ravel(), len(s))]
    return np.concatenate(flat).reshape(n.shape) if flat else np.zeros(n.shape)


def spectral_ridge(
    eigenvalues: Any,
    signal: Any,
    noise: float,
    samples: Any,
    penalty: Any,
    *,
    counts: Any = 1.0,
    rows: float = np.inf,
    free: float = 0.0,
) -> SpectralRidge:
    """The effective ridge with its degrees of freedom and both errors; arguments as for `effective_ridge`.

    ``signal`` is v^2, summed over the modes that share an eigenvalue.
    """
    s, c = _modes(eigenvalues, counts)
    signal = np.broadcast_to(np.asarray(signal, float), np.shape(eigenvalues))
    unseen = float(noise) + float(signal[np.asarray(eigenvalues, float) <= 0].sum())  # modes that no sample shows
    v2 = signal[np.asarray(eigenvalues, float) > 0]
    n, lam = _points(samples, penalty, rows, free)
    parts = [_errors(s, c, v2, unseen, *block, rows, free) for block in _blocks(n.ravel(), lam.ravel(), len(s))]
    columns = zip(*parts, strict=True) if parts else [[np.zeros(0)]] * len(SpectralRidge._fields)
    return SpectralRidge(*(np.concatenate(column).reshape(n.shape) for column in columns))


def _modes(eigenvalues: Any, counts: Any) -> tuple[np.ndarray, np.ndarray]:
    s = np.asarray(eigenvalues, float)
    if s.ndim != 1 or not np.all(np.isfinite(s)) or np.any(s < 0):
        raise InputError("The eigenvalues of a spectrum must be a list of finite numbers >= 0.")
    c = np.broadcast_to(np.asarray(counts, float), s.shape)
    return s[s > 0], c[s > 0]


def _points(samples: Any, penalty: Any, rows: float, free: float) -> tuple[np.ndarray, np.ndarray]:
    n, lam = np.broadcast_arrays(np.asarray(samples, float), np.asarray(penalty, float))
    if not (np.all(np.isfinite(n)) and np.all(n > free) and np.all(n <= rows)):
        most = f" and at most {rows:g}, the rows of the pool" if np.isfinite(rows) else ""
        raise InputError(f"samples must be more than {free:g}, the modes without penalty{most}.")
    if not (np.all(np.isfinite(lam)) and np.all(lam >= 0)):
        raise InputError("The penalty must be finite and >= 0.")
    return n, lam


def _blocks(n: np.ndarray, lam: np.ndarray, modes: int):
    size = max(1, BLOCK // max(modes, 1))
    return [(n[k : k + size], lam[k : k + size]) for k in range(0, len(n), size)]


def _root(s, c, n, lam, rows: float, free: float) -> np.ndarray:
    """Newton steps in log kappa between lam/n and (trace + lam)/(n - free); halving where they would leave that."""
    kappa = np.zeros(len(n))
    live = (lam > 0) | (n < c.sum() + free)
    if not np.any(live) or not len(s):
        kappa[lam > 0] = lam[lam > 0] / n[lam > 0] * (1 - free / rows) / (1 - free / n[lam > 0])
        return kappa
    n, lam = n[live], lam[live]
    rank, want = c.sum(), n - free
    with np.errstate(divide="ignore"):
        low = np.log(np.where(lam > 0, lam / n, s.min() * (rank - want) / want))
        high = np.log((c @ s + lam) / want)
    x = high.copy()
    for _ in range(STEPS):
        k = np.exp(x)[:, None]
        L = s / (s + k)
        df1, slope = L @ c + free, -(L * (k / (s + k))) @ c  # slope of df1 in log kappa
        ratio = lam / k[:, 0]
        left = _left(s, c, k, rows, free)
        f = df1 + ratio * left - n
        bend = slope * (1 - ratio / rows) - ratio * left
        low, high = np.where(f >= 0, x, low), np.where(f <= 0, x, high)
        with np.errstate(divide="ignore", invalid="ignore"):
            step = x - f / bend
        new = np.where((step > low) & (step < high), step, (low + high) / 2)
        new = np.where(f == 0, x, new)
        done = np.abs(new - x) <= CLOSE * (1 + np.abs(new))
        x = new
        if np.all(done):
            break
    kappa[live] = np.exp(x)
    return kappa


def _left(s, c, k, rows: float, free: float):
    """1 - df1/N, without cancellation."""
    if not np.isfinite(rows):
        return 1.0
    return (rows - c.sum() - free + (k / (s + k)) @ c) / rows


def _errors(s, c, v2, noise, n, lam, rows: float, free: float):
    kappa = _root(s, c, n, lam, rows, free)
    k = kappa[:, None]
    L, miss = s / (s + k), k / (s + k)
    df1, df2, between = L @ c + free, (L * L) @ c + free, (L * miss) @ c
    bias = noise + (miss * miss) @ v2
    left = _left(s, c, k, rows, free)
    with np.errstate(divide="ignore", invalid="ignore"):
        spare = np.where(kappa > 0, lam / kappa * left, np.maximum(n - df1, 0.0))  # n - df1
        test = n * bias / (spare * left + between * (1 - n / rows))
        train = np.where(spare > 0, test * (spare / n) ** 2, 0.0)
    train = np.where(np.isinf(test), 0.0, train)
    return kappa, df1, df2, bias, test, train
