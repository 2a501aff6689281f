"""Kernels as a Dataset of the schema."""

from collections.abc import Mapping

import jax
import numpy as np

from limitlab.algorithms.descent.network import report_of
from limitlab.algorithms.one_pass.views import view_of
from limitlab.algorithms.settings.fixed_data import CommitteeDescent, Descent
from limitlab.macro.dmft.rows import Kernels
from limitlab.numerics.keys import folded
from limitlab.problems.population import population_risk
from limitlab.results.schema import dataset
from limitlab.states.request import Request, second_times
from limitlab.states.view import Report

__all__ = ["report"]

RUN = ("time", "replica")
STUCK = "labels do not see the sign of z, so m = 0 is never left; {remedy}"
BY_DIMENSION = "DMFT(d=1000) starts as a random start at that size does"
BY_OVERLAPS = "OverlapStart(Q, M, P) starts elsewhere"


def report(
    setting: Descent | CommitteeDescent,
    times,
    steps: np.ndarray,
    solved: list[Kernels],
    settled: list[bool],
    reference: str,
    attrs: dict,
):
    """The asked steps of all batches; NaN after a batch diverged."""
    eps, grid = setting.clock, second_times(times)
    P = setting.overlaps(None).P
    seen = [_at(k, steps, steps[grid], eps, np.asarray(P)) for k in solved]
    alive, died = (np.array([np.asarray(getattr(k, name)) for k in solved]) for name in ("alive", "died"))
    last = np.where(alive, steps[-1] + 1, died)
    gone = steps[:, None] > last  # (time, replica)
    values = {name: np.stack([s[name] for s in seen], axis=1) for name in seen[0]}
    for name, array in values.items():
        lost = gone[:, :, None] | gone[grid].T[None] if name in PAIRED else gone
        values[name] = np.where(lost.reshape(*lost.shape, *(1,) * (array.ndim - lost.ndim)), np.nan, array)
    told = _line(setting, values) if isinstance(setting, Descent) else _committee(setting, values, times)
    before = [float(np.max(np.abs(np.asarray(k.before)[: steps[-1] + 1]), initial=0.0)) for k in solved]
    stuck = setting.even and not np.any(np.asarray(solved[0].M)[0])
    remedy = BY_DIMENSION if isinstance(setting, Descent) else BY_OVERLAPS
    status = np.where(alive, np.where(settled, "ok", "not_converged"), "diverged")
    return dataset(
        setting.problem,
        dict(told.variables)
        | {"status": ("replica", status), "end_time": ("replica", np.where(alive, times[-1], died * eps))},
        {"time": times, "time_2": times[grid], "step": ("time", steps)},
        method="DMFT",
        reference=reference,
        attrs=attrs
        | {"tangent_residual": before, "note": STUCK.format(remedy=remedy) if stuck else None}
        | {name: x for name, x in told.attrs.items() if not name.startswith("success")},
    )


PAIRED = ("C", "R", "M_C", "M_R")


def _line(setting: Descent, values: Mapping[str, np.ndarray]) -> Report:
    """One direction: the matrices are numbers."""
    one = {name: x.reshape(x.shape[: 3 if name in PAIRED else 2]) for name, x in values.items()}
    one = {"m": one.pop("M"), "q": one.pop("Q"), **one}
    one["risk"] = population_risk(setting.channel, setting.loss, one["m"], one["q"], setting.rho)
    return Report({name: (RUN if x.ndim == 2 else (*RUN, "time_2"), x) for name, x in one.items()})


def _committee(setting: CommitteeDescent, values: dict[str, np.ndarray], times: np.ndarray) -> Report:
    """Overlaps as a simulation reports them, with their risk and error."""
    first = setting.overlaps(None)
    count, replicas = values["M"].shape[:2]
    lead = (count, replicas)
    path = {
        "Q": values.pop("Q"),
        "M": values.pop("M"),
        "P": np.broadcast_to(first.P, (*lead, *np.shape(first.P))),
        "a": np.broadcast_to(np.asarray(first.a), (*lead, len(first.a))),
    }
    asked = Request(2**20, times, np.zeros(count, int), replicas)
    keys = jax.random.split(folded(0, 0), replicas)
    view = view_of(setting.parts, asked, {name: x[0] for name, x in path.items()}, keys)
    looks = [view.see({name: np.asarray(x[t]) for name, x in path.items()}, 0) for t in range(count)]
    told = report_of(setting, view, {name: np.stack([np.asarray(one[name]) for one in looks]) for name in looks[0]})
    units = ("student", "student_2")
    dims = dict.fromkeys(PAIRED, (*RUN, "time_2", *units)) | {"nu": (*RUN, "student"), "delta_nu": (*RUN, *units)}
    largest = np.max(np.abs(values.pop("residual")), axis=(-1, -2))
    more = {name: (dims.get(name, RUN), x) for name, x in values.items()} | {"residual": (RUN, largest)}
    return Report(dict(told.variables) | more, {}, told.attrs)


def _at(k: Kernels, steps: np.ndarray, others: np.ndarray, eps: float, P: np.ndarray) -> dict[str, np.ndarray]:
    m = k.M.shape[1]
    M, a, Cz, R, K, M_C = (np.asarray(x) for x in (k.M, k.a, k.Cz, k.R, k.K, k.M_C))
    inverse, later = np.linalg.inv(P), (steps[:, None] > others)[:, :, None, None]

    def pairs(X: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Blocks (row, column, m, m)."""
        blocks = X.reshape(len(X) // m, m, len(X) // m, m)
        return blocks[rows[:, None], :, columns[None, :]]

    def own(X: np.ndarray) -> np.ndarray:
        return X.reshape(len(X) // m, m, len(X) // m, m)[steps, :, steps]

    return {
        "M": M[steps],
        "Q": own(Cz) + M[steps] @ inverse @ M[steps].swapaxes(1, 2),
        "train_loss": np.asarray(k.loss)[steps],
        "nu": (1 - a[steps]) / eps,
        "delta_nu": own(K),
        "residual": np.asarray(k.residual)[steps],
        "C": pairs(Cz, steps, others) + np.einsum("tak,kl,sbl->tsab", M[steps], inverse, M[others]),
        "R": np.where(later, -pairs(R, steps, others) / eps, 0.0),
        "M_C": np.where(later, pairs(M_C, steps, others), pairs(M_C, others, steps).transpose(1, 0, 3, 2)),
        "M_R": np.where(later, -pairs(K, steps, others) / eps, 0.0),
    }
