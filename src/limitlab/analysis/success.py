"""How often descent finds the teacher, with binomial error bars."""

from typing import TYPE_CHECKING

import numpy as np

from limitlab.errors import InputError
from limitlab.numerics.checks import check_number
from limitlab.states.success import Criterion
from limitlab.verbs import verb

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["success_rate", "wilson"]


@verb
def success_rate(data: "xr.Dataset", threshold: float | None = None, confidence: float = 0.95) -> "xr.Dataset":
    r"""The share of replicas that found the teacher, with Wilson's interval.

    .. math:: \frac{\hat p + z^2/2n \pm z\sqrt{\hat p(1 - \hat p)/n + z^2/4n^2}}{1 + z^2/n}

    Parameters
    ----------
    data
        A result of `simulate` with a rule on a fixed data set, or a sweep of such results: one share for each point.
    threshold
        None: what the simulation counted, a cosine above 0.99 (up to a sign) at any step. A number: a cosine above it
        at one of the asked times, from ``m`` and ``q`` (the teacher having \|w*\|^2 = d).
    confidence
        Of the interval.

    Returns
    -------
    xarray.Dataset
        ``success_rate``, ``success_rate_low``, ``success_rate_high`` and ``runs``; diverged runs count as failures.
    """
    check_number("success_rate", "confidence", confidence, low=0, high=1, open_low=True, open_high=True)
    needed = ("success",) if threshold is None else ("m", "q")
    for name in needed:
        if name not in data or "replica" not in data[name].dims:
            raise InputError(
                f"success_rate needs the variable {name!r} over replicas; the result has "
                f"{', '.join(map(str, data.data_vars))}. Give a result of simulate with GradientDescent, say."
            )
    if threshold is None:
        found = data["success"] > 0
    else:
        check_number("success_rate", "threshold", threshold, low=0, high=1, remedy="It is a cosine.")
        found = (abs(data["m"]) / np.sqrt(data["q"]) > threshold).any("time")
    runs = data.sizes["replica"]
    share = found.mean("replica")
    low, high = wilson(share.values, runs, confidence)
    import xarray as xr

    out = xr.Dataset(
        {
            "success_rate": share,
            "success_rate_low": share.copy(data=low),
            "success_rate_high": share.copy(data=high),
            "runs": xr.full_like(share, runs, dtype=int),
        },
        attrs=data.attrs,
    )
    for name in out.data_vars:
        out[name].attrs["long_name"] = Criterion.variables[str(name)].long_name
    return out


def wilson(share: np.ndarray, runs: int, confidence: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
    """Wilson's interval of a share of ``runs``: it stays in [0, 1] and has a width at 0 and 1 too."""
    from scipy.special import ndtri

    z2 = ndtri((1 + confidence) / 2) ** 2
    centre = share + z2 / (2 * runs)
    half = np.sqrt(z2 * (share * (1 - share) / runs + z2 / (4 * runs**2)))
    return (centre - half) / (1 + z2 / runs), (centre + half) / (1 + z2 / runs)
