"""Convex empirical risk minimisation at finite size."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from limitlab.algorithms.erm_requirements import check_erm
from limitlab.errors import InputError
from limitlab.micro.glm_data import DRAW_KEY, check_glm, draw_glm, replica_key
from limitlab.numerics.convex.fit import Fit
from limitlab.numerics.machine import Progress, check_memory
from limitlab.numerics.trees import traced
from limitlab.problems.population import errors
from limitlab.problems.predictor import Predictor
from limitlab.problems.problem import Problem
from limitlab.results.schema import dataset

__all__ = ["draw_data", "run_erm"]

COPIES = 4  # of the n x d inputs, that a solver holds at once


def run_erm(problem: Problem, d: int, replicas: int = 1, seed: int = 0, progress: Progress | None = None):
    r"""Fit ``replicas`` independent data sets of n = round(alpha d) samples and measure each fit.

    .. math:: w = \mathrm{argmin} \sum_{\mu \le n} \ell(y_\mu, w \cdot x_\mu) + \tfrac\lambda2 |w|^2,
              \qquad x \sim N(0, I/d), \quad m = w\cdot w^*/d, \quad q = |w|^2/d

    Errors on new samples are exact population values for the fitted weights: no test set is drawn. A fit that does
    not exist (separable labels without penalty, max margin on labels that are not separable) has NaN and the status
    "undefined"; the reason is in the attribute ``notes``.
    """
    check_erm("simulate with ERM", problem, InputError)
    n = check_glm("simulate with ERM", problem, d)
    needed = 8 * (COPIES * n * d + 3 * min(n, d) ** 2)  # replicas are fitted one after the other
    check_memory(needed, f"It fits n = {n} samples in d = {d} dimensions. Use a smaller d or sample_ratio.")
    penalty = float(problem.algorithm.penalty)  # type: ignore[union-attr]
    loss: Any = problem.loss
    live = traced((problem.channel, loss))
    rows, fits = [], []
    for replica in range(replicas):
        X, y, w_star = draw_data(problem, d, seed, replica)
        found = loss.minimise(X, y, penalty)
        fits.append(found)
        rows.append(_measure(live, found, X, y, w_star))
        if progress is not None:
            progress(replica + 1, replicas, f"ERM, d = {d}")
    values = {name: (("replica",), np.array([row[name] for row in rows])) for name in rows[0]}
    if loss.hard:
        del values["risk"]
    told = sorted({found.words for found in fits if found.words})
    worst = max((found.error for found in fits if np.isfinite(found.error)), default=float("nan"))
    return dataset(
        problem,
        {**values, "status": (("replica",), [found.status for found in fits])},
        method="simulate (ERM)",
        attrs={
            "d": d,
            "n": n,
            "seed": seed,
            "bytes_needed": needed,
            "optimality_error": worst,
            "notes": "; ".join(told) or None,
        },
    )


def draw_data(problem: Problem, d: int, seed: int, replica: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Inputs (n, d), labels and the teacher of one replica: the same data set that `GAMP` sees with the same seed."""
    n = check_glm("simulate with ERM", problem, d)
    prior = problem.teacher.prior  # type: ignore[attr-defined]
    key = jax.random.fold_in(replica_key(seed, replica), DRAW_KEY)
    w_star, X, y = _draw(problem.inputs, prior, problem.channel, key, n, d)
    return np.array(X), np.asarray(y), np.asarray(w_star)


@eqx.filter_jit
def _draw(inputs, prior, channel, key, n: int, d: int):
    return draw_glm(inputs, prior, channel, key, n, d, jnp.float64)


def _measure(live, found: Fit, X, y, w_star) -> dict[str, float]:
    channel, loss = live
    d = len(w_star)
    m, q, rho = (float(x) / d for x in (found.w @ w_star, found.w @ found.w, w_star @ w_star))
    ok = found.status == "ok"
    row = {name: float(x) for name, x in _errors(channel, loss, m, q, rho).items()}
    train = 0.0 if loss.hard else float(np.mean(loss.value(jnp.asarray(y), jnp.asarray(X @ found.w))))
    row |= {"m": m, "q": q, "train_loss": train}
    return row if ok or found.status == "not_converged" else dict.fromkeys(row, float("nan"))


@eqx.filter_jit
def _errors_of(channel, loss, m, q, rho):
    return errors(channel, loss, Predictor.of(m, q, rho))


def _errors(channel, loss, m, q, rho):
    return _errors_of(channel, loss, *(jnp.asarray(x, float) for x in (m, q, rho)))
