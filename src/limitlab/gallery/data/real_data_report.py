"""How good the row theory is on real data: ten pools, three losses, no parameter fitted."""

from typing import TYPE_CHECKING, Any

import numpy as np

import limitlab as ll
from limitlab.gallery.entry import Check, Entry, Progress, Quick
from limitlab.gallery.figures import Drawing, new_figure, palette, style_axes
from limitlab.gallery.pools import cancer, diabetes, digits, friedman, heavy, iris, moons, wine

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["ENTRY"]

FITS = 60
NS = (30, 60, 120, 240, 480)
SHARE = 0.75  # of the rows at most: with fewer left to test on, the fits scatter
RIDGE: dict[str, Any] = {
    "diabetes": diabetes,
    "cancer": cancer,
    "digits": digits,
    "wine": wine,
    "iris": iris,
    "friedman": friedman,
    "moons": moons,
    "heavy": heavy,
}
CLASSES: dict[str, Any] = {
    "cancer": cancer,
    "digits": digits,
    "three_or_eight": lambda: digits(3, 8),
    "wine": wine,
    "iris": iris,
    "moons": moons,
}
LOSSES: dict[str, Any] = {"logistic": ll.LogisticLoss(), "squared_hinge": ll.SquaredHingeLoss()}
PENALTIES = {"ridge": (0.1, 0.01), "logistic": (0.1, 0.01), "squared_hinge": (0.1,)}


def compute(progress: Progress | None) -> "dict[str, xr.Dataset]":
    data: dict[str, xr.Dataset] = {}
    work = [("ridge", name, make, ll.SquareLoss()) for name, make in RIDGE.items()]
    work += [(kind, name, make, loss) for kind, loss in LOSSES.items() for name, make in CLASSES.items()]
    for k, (kind, name, make, loss) in enumerate(work):
        if progress is not None:
            progress(k, len(work), f"{kind}, {name}")
        pool = ll.Pool(*make())
        ns = [n for n in NS if n <= SHARE * len(pool)]
        curve = ll.learning_curve(pool, loss, list(PENALTIES[kind]), samples=ns, fits=FITS, seed=k)
        data[f"{kind}-{name}"], data[f"{kind}-{name}-fits"] = curve.prediction, curve.fits
    return data


def gaps(data: "dict[str, xr.Dataset]", kinds: tuple[str, ...], variable: str, relative: bool = True) -> np.ndarray:
    """Theory against the mean of the fits at every point: (n, gap), gaps relative or plain."""
    found = []
    for name, theory in data.items():
        if name.endswith("-fits") or not name.startswith(kinds):
            continue
        mean = data[f"{name}-fits"][variable].mean("replica", skipna=True).transpose(*theory[variable].dims)
        gap = theory[variable] / mean - 1 if relative else theory[variable] - mean
        n = theory["samples"].values[:, None] + 0 * gap.values
        found.append(np.stack([n.ravel(), gap.values.ravel()], axis=1))
    return np.concatenate(found)


def check(data: "dict[str, xr.Dataset]") -> list[Check]:
    ridge = np.abs(gaps(data, ("ridge",), "risk")[:, 1])
    loss = np.abs(gaps(data, tuple(LOSSES), "risk")[:, 1])
    errors = gaps(data, tuple(LOSSES), "generalisation_error", relative=False)
    error = np.abs(errors[errors[:, 0] >= 60, 1])
    names = {name.split("-")[1] for name in data}
    bad = sum(int((ds["status"] != "ok").sum()) for name, ds in data.items() if not name.endswith("-fits"))
    return [
        Check("at least eight pools", len(names) >= 8, ", ".join(sorted(names))),
        Check("the theory converges everywhere", bad == 0, f"{bad} points without"),
        Check("ridge: median gap at most 3 %", bool(np.median(ridge) <= 0.03), f"{np.median(ridge):.2%}"),
        Check(
            "ridge: 90 % of the points within 8 %",
            bool(np.quantile(ridge, 0.9) <= 0.08),
            f"90 % within {np.quantile(ridge, 0.9):.1%}, worst {ridge.max():.1%}, {len(ridge)} points",
        ),
        Check(
            "logistic and squared hinge: median gap of the test loss at most 3 %",
            bool(np.median(loss) <= 0.03),
            f"{np.median(loss):.2%}, worst {loss.max():.1%}, {len(loss)} points",
        ),
        Check(
            "class error within 0.01 for n >= 60",
            bool(error.max() <= 0.01),
            f"at most {error.max():.4f}, median {np.median(error):.4f}",
        ),
    ]


def figure(data: "dict[str, xr.Dataset]") -> Drawing:
    fig, (left, right) = new_figure(2, width=5.2, height=4.4)
    for axes, variable, kinds in ((left, "risk", ("ridge", *LOSSES)), (right, "generalisation_error", tuple(LOSSES))):
        ends = [np.inf, 0.0]
        for kind in kinds:
            colour = palette[("ridge", *LOSSES).index(kind)]
            for name, theory in data.items():
                if name.endswith("-fits") or not name.startswith(kind):
                    continue
                runs = data[f"{name}-fits"][variable].transpose(..., "replica")
                mean, error = runs.mean("replica"), runs.std("replica", ddof=1) / np.sqrt(FITS)
                x, y = theory[variable].values.ravel(), mean.transpose(*theory[variable].dims).values.ravel()
                spread = error.transpose(*theory[variable].dims).values.ravel()
                axes.errorbar(x, y, spread, fmt="o", ms=3, color=colour, elinewidth=0.8)
                ends = [min(ends[0], float(np.min(x[x > 0]))), max(ends[1], float(np.max(x)))]
            axes.plot([], [], "o", color=colour, label=kind.replace("_", " "))
        axes.plot(ends, ends, color="0.5", lw=1)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.tick_params(which="minor", labelbottom=False, labelleft=False)
        axes.legend(fontsize="small", frameon=False)
    style_axes(left, x="row theory: test loss", y=f"mean of {FITS} real fits")
    style_axes(right, x="row theory: class error", y=f"mean of {FITS} real fits")
    fig.suptitle("Real data, no parameter fitted: every point is a pool, a loss, a penalty, an n")
    return fig


ENTRY = Entry(
    name="real-data-report",
    title="How good the row theory is on real data",
    claim="Over nine pools of scikit-learn, with no parameter fitted: ridge within 3 % in the median and 8 % in nine "
    "of ten points, logistic and squared-hinge loss within 3 % in the median, class error within 0.01 from n = 60 on.",
    compute=compute,
    check=check,
    figure=figure,
    seconds=80,
    quick=Quick({"FITS": 20, "NS": (60, 240)}, seconds=25, full=("class error within",)),
)
