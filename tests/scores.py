"""How far off, in standard errors."""

import numpy as np
from scipy import stats

__all__ = ["log_variance_score", "mean_score", "moment_scores", "t_score", "z_scores"]


def z_scores(samples, mean):
    """Of the mean over the first axis, for what moves."""
    samples = np.asarray(samples)
    error = samples.std(0, ddof=1) / np.sqrt(len(samples))
    moving = error > 0
    return ((samples.mean(0) - mean)[moving]) / error[moving]


def t_score(values, exact):
    """The normal score of Student's t: right for a handful of runs too."""
    values = np.asarray(values)
    t = (values.mean(axis=0) - exact) / (values.std(axis=0, ddof=1) / np.sqrt(len(values)))
    return stats.norm.ppf(stats.t.cdf(t, len(values) - 1))


def moment_scores(samples, mean, cov):
    """z-scores of sample mean and of all sample second moments about the known mean."""
    n, centred = len(samples), samples - mean
    second = np.einsum("ni,nj->nij", centred, centred)

    def z(x, target):
        error = x.std(0) / np.sqrt(n)
        moving = error > 1e-9
        return ((x.mean(0) - target)[moving]) / error[moving]

    return z(samples, mean), z(second, cov)


def log_variance_score(x, y):
    """z-score of log(var x / var y), with errors from the fourth moments; one row per path."""
    logs, errors = [], []
    for sample in (x, y):
        centred = sample - sample.mean(0)
        variance = (centred**2).mean(0)
        logs.append(np.log(variance))
        errors.append(((centred**4).mean(0) / variance**2 - 1) / len(sample))
    return (logs[0] - logs[1]) / np.sqrt(errors[0] + errors[1])


def mean_score(x, y):
    return (x.mean(0) - y.mean(0)) / np.sqrt(x.var(0) / len(x) + y.var(0) / len(y))
