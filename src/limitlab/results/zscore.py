r"""One z-score per trajectory.

.. math::
    y_r = \frac1T \sum_t \frac{x_r(t) - \hat x(t)}{s(t)}, \qquad
    \tau = \frac{\bar y}{\mathrm{std}(y)/\sqrt R}, \qquad z = \Phi^{-1}(F_{R-1}(\tau))

for the trajectory x_r of one scalar in replica r, its prediction, and the spread s(t) over replicas. The
points of one trajectory are correlated, replicas are not: there is one number per replica, and Student's law
F for those.
"""

import numpy as np

__all__ = ["trajectory_z"]

ROUNDING = 1e-9  # relative; spreads and gaps below are rounding
# Degrees of freedom lent to s(t)^2 by its geometric mean over time. Without them a chance coincidence of few
# replicas at one time has unbounded weight: with 2 replicas |z| passed 4 in 2-14 % of trials under the null
# (depending on how correlated the times are), with them in about 1e-4.
PRIOR = 4


def trajectory_z(x: np.ndarray, y: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """The z-score of each component of trajectories x (replica, time, component) against y, laid out alike.

    If y has a single replica it counts as exact; with more, it is a second sample (Welch). Times at which
    nothing fluctuates and both are equal, to rounding of ``scale`` (component,), are left out; where nothing
    fluctuates and they differ, z is infinite. Components without any time left give NaN.
    """
    if len(x) == 1:  # roles swapped: it is y that fluctuates
        return -trajectory_z(y, x, scale)
    centre = np.mean(y, axis=0)
    n, m = len(x), len(y)
    variance = np.var(x, axis=0, ddof=1)
    if m > 1:
        variance = ((n - 1) * variance + (m - 1) * np.var(y, axis=0, ddof=1)) / (n + m - 2)
    gap = np.mean(x, axis=0) - centre
    still = np.sqrt(variance) <= ROUNDING * scale
    wrong = still & (np.abs(gap) > ROUNDING * scale)
    weight = _weights(variance, still, n + m - 2 if m > 1 else n - 1)
    u = np.einsum("rtc,tc->rc", x - centre, weight)
    error, freedom = np.var(u, axis=0, ddof=1) / n, np.full(u.shape[1], n - 1.0)
    mean = np.mean(u, axis=0)
    if m > 1:
        v = np.einsum("rtc,tc->rc", y - centre, weight)
        other = np.var(v, axis=0, ddof=1) / m
        total = np.where(error + other > 0, error + other, 1.0)
        freedom = total**2 / np.maximum(error**2 / (n - 1) + other**2 / (m - 1), 1e-300)
        mean, error = mean - np.mean(v, axis=0), error + other
    z = _normal_score(mean, np.sqrt(error), freedom)
    z = np.where(np.all(still, axis=0), np.nan, z)
    sign = np.sign(np.sum(np.where(wrong, gap, 0.0), axis=0))
    return np.where(np.any(wrong, axis=0), np.where(sign < 0, -np.inf, np.inf), z)


def _weights(variance: np.ndarray, still: np.ndarray, freedom: int) -> np.ndarray:
    """1/(T s(t)) at the times that fluctuate, 0 at the others."""
    alive = np.maximum(np.sum(~still, axis=0), 1)
    safe = np.where(still, 1.0, variance)
    usual = np.exp(np.sum(np.where(still, 0.0, np.log(safe)), axis=0) / alive)
    shrunk = (PRIOR * usual + freedom * safe) / (PRIOR + freedom)
    return np.where(still, 0.0, 1 / np.sqrt(shrunk)) / alive


def _normal_score(mean: np.ndarray, error: np.ndarray, freedom: np.ndarray) -> np.ndarray:
    """The normal quantile as rare as mean/error is under Student's law."""
    from scipy.special import ndtri_exp
    from scipy.stats import t as student

    tau = np.abs(mean) / np.where(error > 0, error, 1.0)
    tail = student.sf(tau, freedom)
    # Where the tail is below the smallest float: sf(tau) -> tau pdf(tau)/freedom
    far = student.logpdf(tau, freedom) + np.log(np.maximum(tau, 1.0) / freedom)
    log_tail = np.where(tail > 0, np.log(np.where(tail > 0, tail, 1.0)), far)
    z = np.where(error > 0, -ndtri_exp(log_tail), np.where(mean == 0, 0.0, np.inf))
    return np.sign(mean) * np.where(mean == 0, 0.0, z)
