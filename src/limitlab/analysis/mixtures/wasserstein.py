r"""How far apart two laws of units are.

.. math:: W_p(\mu, \nu)^p = \min_{\pi \in \Pi(\mu, \nu)} \int |x - y|^p\,\pi(dx, dy)
          = \int_0^1 |F_\mu^{-1}(u) - F_\nu^{-1}(u)|^p\,du \quad \text{in one dimension}
"""

from typing import TYPE_CHECKING

import numpy as np

from limitlab.errors import InputError
from limitlab.numerics.checks import check_number
from limitlab.states.radii import UnitLaw
from limitlab.verbs import Watch, verb

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["line_distance", "wasserstein"]

COORDINATES = ("r", "a", "b", "u", "s")  # of a unit, as far as results have them
MOST_PAIRS = 2**26  # entries of a matrix of costs (512 MiB)


def line_distance(x, x_weight, y, y_weight, p: float = 2.0) -> float:
    """W_p between weighted points on a line, exact: both quantile functions are steps."""
    x, x_weight, y, y_weight = (np.asarray(v, float) for v in (x, x_weight, y, y_weight))
    i, j = np.argsort(x, kind="stable"), np.argsort(y, kind="stable")
    x, y = x[i], y[j]
    F, G = np.cumsum(x_weight[i]) / np.sum(x_weight), np.cumsum(y_weight[j]) / np.sum(y_weight)
    F[-1] = G[-1] = 1.0
    ends = np.union1d(F, G)
    pieces = np.diff(np.append(0.0, ends))
    middle = ends - pieces / 2
    here = x[np.minimum(np.searchsorted(F, middle), len(x) - 1)]
    there = y[np.minimum(np.searchsorted(G, middle), len(y) - 1)]
    return float(np.sum(pieces * np.abs(here - there) ** p) ** (1 / p))


@verb
def wasserstein(a: "xr.Dataset", b: "xr.Dataset", p: float = 2.0, progress: Watch = None) -> "xr.DataArray":
    """The distance W_p between the laws of units of two results, at each time that both have.

    Units are compared by what both results tell of them: the norm r (or its density, as atoms at the centres of the
    cells), the second layer a, the bias b, the latent weights u and the width s. One number a unit: by quantiles,
    exact. Several: the best assignment if there are as many units on both sides and all weigh the same, else the
    optimal plan of `POT <https://pythonot.github.io>`_ (``pip install "limitlab[transport]"``).

    Parameters
    ----------
    a, b
        Results of `simulate` or `predict`. Replicas of one are compared with the other one by one; if both have
        replicas, those of equal number are compared.
    p
        At least 1.
    progress
        True draws a bar; a function is called as progress(done, total, label); None is silent.

    Returns
    -------
    xarray.DataArray
        By time, and by replica if there are any. NaN where a run had ended.
    """
    import xarray as xr

    check_number("wasserstein", "p", p, low=1, remedy="Use 1 or 2.")
    for side, ds in (("first", a), ("second", b)):
        if not isinstance(ds, xr.Dataset):
            raise InputError(f"wasserstein needs results of simulate or predict; the {side} is a {type(ds).__name__}.")
    a, b = _shared_times(a, b)
    names = _coordinates(a, b)
    replicas = [ds["replica"].values for ds in (a, b) if "replica" in ds.dims]
    numbers = np.intersect1d(replicas[0], replicas[-1]) if replicas else [None]
    if len(numbers) == 0:
        raise InputError("wasserstein: the results have no replica of the same number. Use .isel(replica=...).")
    times = a["time"].values if "time" in a.dims else [None]
    values = np.array([[_distance(_cloud(a, names, t, n), _cloud(b, names, t, n), p) for n in numbers] for t in times])
    dims = (["time"] if "time" in a.dims else []) + (["replica"] if replicas else [])
    coords = {dim: {"time": times, "replica": numbers}[dim] for dim in dims}
    shaped = values.reshape([len(coords[dim]) for dim in dims])
    return xr.DataArray(
        shaped,
        coords,
        dims,
        name="wasserstein",
        attrs={"long_name": UnitLaw.variables["wasserstein"].long_name, "p": p},
    )


def _shared_times(a: "xr.Dataset", b: "xr.Dataset") -> "tuple[xr.Dataset, xr.Dataset]":
    if ("time" in a.dims) != ("time" in b.dims):
        one = a if "time" in a.dims else b
        if one.sizes["time"] > 1:
            raise InputError("wasserstein: one result has times and the other none. Select one with .isel(time=-1).")
        return (a.squeeze("time"), b) if one is a else (a, b.squeeze("time"))
    if "time" not in a.dims:
        return a, b
    shared = np.intersect1d(a["time"].values, b["time"].values)
    if len(shared) == 0:
        raise InputError("wasserstein: the results share no time. Ask both for the same times.")
    return a.sel(time=shared), b.sel(time=shared)


def _coordinates(a: "xr.Dataset", b: "xr.Dataset") -> list[str]:
    """What both results tell of a unit."""

    def told(ds):
        own = {name for name in COORDINATES if name in ds}
        return own | ({"r"} if "density" in ds else set())

    shared = [name for name in COORDINATES if name in told(a) & told(b)]
    if not shared:
        raise InputError(
            f"wasserstein needs results that tell of single units ({', '.join(COORDINATES)} or density); the first has "
            f"{', '.join(map(str, a.data_vars))}, the second {', '.join(map(str, b.data_vars))}."
        )
    still = [name for name in shared if name in ("a", "b") and not any(_varies(ds, name) for ds in (a, b))]
    return [name for name in shared if name not in still] or shared


def _varies(ds: "xr.Dataset", name: str) -> bool:
    values = ds[name].values
    return bool(np.nanmax(values) > np.nanmin(values)) if np.any(np.isfinite(values)) else False


def _cloud(ds: "xr.Dataset", names: list[str], time, number) -> tuple[np.ndarray, np.ndarray]:
    """Points (n, k) and weights of the units of one run at one time."""
    at = ds if time is None else ds.sel(time=time)
    at = at.sel(replica=number) if "replica" in at.dims else at
    if "density" in at:
        return at["radius"].values[:, None], at["density"].values
    unit = next(dim for dim in ("particle", "student") if dim in at[names[0]].dims)
    columns = []
    for name in names:
        array = at[name]
        columns.append(array.transpose(unit, ...).values.reshape(at.sizes[unit], -1))
    points = np.concatenate(columns, axis=1)
    weight = at["weight"].values if "weight" in at and unit == "particle" else np.ones(len(points))
    return points, weight


def _distance(one, two, p: float) -> float:
    (x, x_weight), (y, y_weight) = one, two
    if any(np.any(np.isnan(v)) for v in (x, x_weight, y, y_weight)):
        return float("nan")
    if x.shape[1] != y.shape[1]:
        raise InputError(
            f"wasserstein: the units of the results have {x.shape[1]} and {y.shape[1]} numbers. Compare like with like."
        )
    if x.shape[1] == 1:
        return line_distance(x[:, 0], x_weight, y[:, 0], y_weight, p)
    if len(x) * len(y) > MOST_PAIRS:
        raise InputError(f"wasserstein would need a plan of {len(x)} x {len(y)} units. Use fewer particles.")
    return float(_least_cost(x, x_weight, y, y_weight, p) ** (1 / p))


def _least_cost(x, x_weight, y, y_weight, p: float) -> float:
    """Of all plans that carry the one cloud to the other; among equal weights a permutation is the best."""
    from scipy.spatial.distance import cdist

    costs = cdist(x, y) ** p
    if len(x) == len(y) and _even(x_weight) and _even(y_weight):
        from scipy.optimize import linear_sum_assignment

        return float(np.mean(costs[linear_sum_assignment(costs)]))
    try:
        import ot
    except ImportError as error:
        raise InputError(
            f"wasserstein between {len(x)} and {len(y)} units of several numbers each, with weights of their own, "
            'needs the optimal plans of POT. Install it with pip install "limitlab[transport]".'
        ) from error
    plan = ot.emd2(x_weight / x_weight.sum(), y_weight / y_weight.sum(), costs, numItermax=10**7)
    return max(float(np.asarray(plan)), 0.0)


def _even(weight: np.ndarray) -> bool:
    return bool(np.ptp(weight) <= 1e-13 * np.max(weight))
