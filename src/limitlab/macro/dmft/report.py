"""Kernels as a Dataset of the schema."""

import numpy as np

from limitlab.algorithms.settings.fixed_data import Descent
from limitlab.macro.dmft.rows import Kernels
from limitlab.problems.population import population_risk
from limitlab.results.schema import dataset
from limitlab.states.request import second_times

__all__ = ["report"]

STUCK = (
    "labels do not see the sign of z, so m = 0 is never left; DMFT(d=1000) starts as a random start at that size does"
)


def report(
    setting: Descent, times, steps: np.ndarray, solved: list[Kernels], settled: list[bool], reference: str, attrs: dict
):
    """The asked steps of all batches; NaN after a batch diverged."""
    eta, rho = float(setting.rule.learning_rate), setting.rho
    grid = second_times(times)
    seen = [_at(k, steps, steps[grid], eta, rho) for k in solved]
    alive, died = (np.array([np.asarray(getattr(k, name)) for k in solved]) for name in ("alive", "died"))
    last = np.where(alive, steps[-1] + 1, died)
    gone = steps[:, None] > last  # (time, replica)
    values = {name: np.stack([s[name] for s in seen], axis=1) for name in seen[0]}
    for name, array in values.items():
        lost = gone if array.ndim == 2 else gone[:, :, None] | gone[grid].T[None]
        values[name] = np.where(lost, np.nan, array)
    values["risk"] = population_risk(setting.channel, setting.loss, values["m"], values["q"], rho)
    before = [float(np.max(np.abs(np.asarray(k.before)[: steps[-1] + 1]), initial=0.0)) for k in solved]
    stuck = setting.channel.even and float(np.asarray(solved[0].m)[0]) == 0
    status = np.where(alive, np.where(settled, "ok", "not_converged"), "diverged")
    run = ("time", "replica")
    return dataset(
        setting.problem,
        {name: (run if array.ndim == 2 else (*run, "time_2"), array) for name, array in values.items()}
        | {"status": ("replica", status), "end_time": ("replica", np.where(alive, times[-1], died * eta))},
        {"time": times, "time_2": times[grid], "step": ("time", steps)},
        method="DMFT",
        reference=reference,
        attrs=attrs | {"tangent_residual": before, "note": STUCK if stuck else None},
    )


def _at(k: Kernels, steps: np.ndarray, others: np.ndarray, eta: float, rho: float) -> dict[str, np.ndarray]:
    m, a, Cz, R, K, M_C = (np.asarray(x) for x in (k.m, k.a, k.Cz, k.R, k.K, k.M_C))
    pairs, later = np.ix_(steps, others), steps[:, None] > others
    return {
        "m": m[steps],
        "q": Cz[steps, steps] + m[steps] ** 2 / rho,
        "train_loss": np.asarray(k.loss)[steps],
        "nu": (1 - a[steps]) / eta,
        "delta_nu": K[steps, steps],
        "residual": np.asarray(k.residual)[steps],
        "C": Cz[pairs] + np.outer(m[steps], m[others]) / rho,
        "R": np.where(later, -R[pairs] / eta, 0.0),
        "M_C": np.where(later, M_C[pairs], M_C.T[pairs]),
        "M_R": np.where(later, -K[pairs] / eta, 0.0),
    }
