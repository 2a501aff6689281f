r"""The rest of noisy SGD on an isotropic mixture: the minimum of the free energy.

.. math::
    F(\rho) = \mathrm{risk}(\rho) + \tfrac\lambda2 \int |\theta|^2 d\rho - T\,\mathrm{Ent}(\rho), \qquad
    \rho(\theta) \propto e^{-\Psi_\lambda(\theta; \rho)/T}, \quad
    \bar\rho(r) \propto r^{d-1} e^{-\Psi_\lambda(r; \bar\rho)/T}

F is strictly convex, so there is one. With the error e = y - f at the nodes of the data as unknown it is the minimum of
:math:`\tfrac12 E e^2 - E[ye] + T \log\int r^{d-1} e^{(E[e\sigma_{r|x|}] - \lambda r^2/2)/T} dr`, which Newton's
method finds.
"""

import math
from typing import TYPE_CHECKING

import numpy as np

from limitlab.analysis.mixtures.measures import Potentials, as_measure, potentials
from limitlab.errors import ConvergenceError, InputError
from limitlab.macro.mixtures.volumes import entropy
from limitlab.numerics.checks import check_array, check_integer
from limitlab.numerics.machine import Memory, check_memory, relieve
from limitlab.problems.problem import Problem
from limitlab.results.schema import dataset
from limitlab.verbs import Watch, verb

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["radial_density", "stationary_law"]

ROUNDS = 100
WIDER = 40
NOTHING = -60.0  # log of the density at the end of the grid, against its peak


@verb
def stationary_law(problem: Problem, d: int, cells: int = 2000, progress: Watch = None) -> "xr.Dataset":
    """The law of norms at which noisy SGD comes to rest: its density, risk, entropy and free energy.

    Needs temperature > 0 and weight_decay > 0 (without decay noise carries the weights away for ever).
    """
    relieve()
    cells = check_integer("stationary_law", "cells", cells, low=16, remedy="Use 2000.")
    needed = Memory(8 * 1000 * cells, f"It holds {cells} cells at all nodes of the data. Use fewer cells.")
    check_memory(needed, by="stationary_law")
    p = potentials(problem, d)
    if not math.isfinite(d):
        raise InputError(f"stationary_law needs a finite dimension; got d={d}. Noise moves |w|^2 by d.")
    T, decay = p.temperature, p.decay
    if T <= 0 or decay <= 0:
        raise InputError(
            f"stationary_law needs temperature > 0 and weight_decay > 0; got {T:g} and {decay:g}. Without them there "
            "is no law at rest to speak of."
        )
    reach = 1.5 * math.sqrt(T / decay) * (math.sqrt(d) + 8)
    for _ in range(WIDER):
        r = (np.arange(cells) + 0.5) * reach / cells
        masses, log_end = _solve(p, r, T, decay, d)
        if log_end < NOTHING:
            break
        reach *= 1.3
    else:
        raise ConvergenceError("stationary_law found no end of the law: it is not normalisable. Use more weight decay.")
    chaos = float(entropy(masses, r, d))
    risk = p.risk((r, masses))
    free = risk + decay * float(masses @ np.square(r)) / 2 - T * chaos
    return dataset(
        problem,
        {
            "risk": ((), risk),
            "density": (("radius",), masses / (r[1] - r[0])),
            "entropy": ((), chaos),
            "free_energy": ((), free),
            "status": ((), "ok"),
        },
        {"radius": r},
        method="stationary_law",
        reference="mei2018mean",
        attrs={"d": int(d), "cells": cells, "reach": reach},
    )


def _solve(p: Potentials, r: np.ndarray, T: float, decay: float, d: float) -> tuple[np.ndarray, float]:
    """Masses at the norms, and the log of the density at the end."""
    units, w, y = p.units(r), p.weights, p.labels
    base = (d - 1) * np.log(r) - decay * np.square(r) / (2 * T)

    def at(e):
        log = base + units @ (w * e) / T
        top = float(np.max(log))
        masses = np.exp(log - top)
        total = float(np.sum(masses))
        return masses / total, T * (top + math.log(total)) + float(w @ (e * e / 2 - y * e)), float(log[-1] - top)

    e = y.copy()  # one convex problem in all unknowns: Newton with a line search, not a root of one number
    masses, value, end = at(e)
    for _ in range(ROUNDS):
        f = masses @ units
        slope = e - y + f  # over w
        if np.sqrt(w @ np.square(slope)) < 1e-13:
            return masses, end
        spread = (units - f) * np.sqrt(masses)[:, None]
        hessian = np.eye(len(e)) + (spread.T @ spread) * w / T
        move = -np.linalg.solve(hessian, slope)
        decrease, share = float(w @ (slope * move)), 1.0
        while share > 1e-8:
            trial = at(e + share * move)
            if trial[1] <= value + 1e-4 * share * decrease + 1e-14 * abs(value):
                break
            share /= 2
        e, (masses, value, end) = e + share * move, trial
        if share <= 1e-8 or abs(decrease) < 1e-26:
            break
    f = masses @ units
    left = float(np.sqrt(w @ np.square(e - y + f)))
    if left > 1e-9:
        raise ConvergenceError(f"stationary_law did not converge: {left:.1e} is left of its equation.")
    return masses, end


@verb
def radial_density(result: "xr.Dataset", edges) -> "xr.Dataset":
    """The density of the norms r of a result as a histogram between edges, by time and replica.

    The share of norms outside the edges is lost from the density's integral, not spread over it.
    """
    edges = check_array("radial_density.edges", edges)
    if (
        edges.ndim != 1
        or len(edges) < 2
        or not np.all(np.isfinite(edges))
        or np.any(np.diff(edges) <= 0)
        or edges[0] < 0
    ):
        raise InputError(f"radial_density.edges must increase from 0 or more; got {edges.tolist()}.")
    import xarray as xr

    dims = [dim for dim in ("time", "replica") if dim in result.dims]
    shape = [result.sizes[dim] for dim in dims]
    values = np.full((*shape, len(edges) - 1), np.nan)
    for index in np.ndindex(*shape):
        at = result.isel(dict(zip(dims, index, strict=True)))
        if "r" in at and np.any(np.isnan(at["r"].values)):
            continue
        law = as_measure(at)
        values[index] = np.histogram(law.r, edges, weights=law.weight)[0] / np.diff(edges)
    kept = {name: result[name] for name in ("status", "end_time") if name in result}
    coords = {**{dim: result[dim] for dim in dims}, "radius": (edges[1:] + edges[:-1]) / 2}
    out = xr.Dataset({"density": ((*dims, "radius"), values), **kept}, coords)
    return out.assign_attrs(result.attrs)
