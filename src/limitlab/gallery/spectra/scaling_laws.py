r"""Power laws in, power laws out: exponents of ridge regression and of one-pass SGD, and what compute buys.

Eigenvalues k^-a and signal k^-b, infinitely many modes. Ridge regression without noise or penalty falls as
n^-min(b-1, 2a); one-pass SGD as steps^-min((b-1)/a, 2-1/a); the least error for a given compute, modes times steps, as
compute^-(b-1)/(1+a).
"""

from typing import TYPE_CHECKING

import numpy as np

import limitlab as ll
from limitlab.gallery.entry import Check, Entry, Progress
from limitlab.gallery.figures import Drawing, new_figure, palette, style_axes

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["ENTRY"]

RIDGE = ((1.5, 1.8), (2.0, 3.0), (1.5, 6.0))
SGD = ((1.5, 1.5), (1.5, 2.5), (1.5, 4.5), (2.0, 1.6))
SAMPLES = np.geomspace(10, 1e5, 33)
STEPS = np.geomspace(10, 1e7, 49).round()
WIDTHS = [int(2**k) for k in range(3, 12)]
RATE = 0.3
DECLARED = {
    "excess": ll.extending.Variable((), "mean squared error on a new sample without its noise"),
    "fitted": ll.extending.Variable((), "fitted exponent"),
    "predicted": ll.extending.Variable((), "predicted exponent"),
    "kept": ll.extending.Variable((), "modes that are best at this compute"),
}


def _problem(a: float, b: float) -> ll.Problem:
    """A finite stand-in for the stamp of a result: what is drawn has infinitely many modes."""
    return ll.Problem(
        inputs=ll.Gaussian(spectrum=ll.PowerLaw(a, b, modes=1000)),
        teacher=ll.SingleIndex(ll.GaussianPrior()),
        student=ll.Committee(width=1, activation="linear"),
        loss=ll.SquareLoss(),
        start=ll.RandomStart(),
        algorithm=ll.OnlineSGD(RATE),
    )


def _table(a, b, axis, x, excess, fitted, predicted, **more) -> "xr.Dataset":
    variables = {"excess": ((axis,), excess), "fitted": ((), fitted), "predicted": ((), predicted), **more}
    return ll.analysis.dataset(
        _problem(a, b), variables, {axis: x}, method="power law, infinitely many modes", declared=DECLARED
    )


def compute(progress: Progress | None) -> "dict[str, xr.Dataset]":
    data = {}
    for k, (a, b) in enumerate(RIDGE):
        curve = ll.PowerLaw(a, b).learning_curve(penalty=0.0, samples=SAMPLES)
        data[f"ridge_{k}"] = _table(
            a, b, "samples", SAMPLES, curve.excess, curve.fitted_exponent, curve.predicted_exponent
        )
    for k, (a, b) in enumerate(SGD):
        law = ll.scaling_law(ll.PowerLaw(a, b), RATE, STEPS)
        data[f"sgd_{k}"] = _table(a, b, "steps", STEPS, law.excess[0], law.fitted_exponent, law.predicted_exponent)
        if progress is not None:
            progress(k + 1, len(SGD) + 1, "one-pass SGD")
    a, b = SGD[0]
    law = ll.scaling_law(ll.PowerLaw(a, b), RATE, STEPS, modes=WIDTHS)
    for k in range(len(WIDTHS)):
        data[f"width_{k}"] = _table(a, b, "compute", law.compute[k], law.excess[k], np.inf, np.inf)
    data["frontier"] = _table(
        a,
        b,
        "compute",
        law.frontier[:, 0],
        law.frontier[:, 1],
        law.compute_exponent,
        law.predicted_compute_exponent,
        kept=(("compute",), law.frontier[:, 2]),
    )
    data["frontier"].attrs["width_exponents"] = [law.width_exponent, law.predicted_width_exponent]
    return data


def check(data: "dict[str, xr.Dataset]") -> list[Check]:
    checks = []
    for what, cases, name in (("ridge regression", RIDGE, "ridge"), ("one-pass SGD", SGD, "sgd")):
        for k, (a, b) in enumerate(cases):
            ds = data[f"{name}_{k}"]
            fitted, predicted = float(ds.fitted), float(ds.predicted)
            checks.append(
                Check(
                    f"{what}, a = {a:g}, b = {b:g}: the exponent is {predicted:.4f}",
                    abs(fitted / predicted - 1) < 0.02,
                    f"fitted {fitted:.4f}",
                )
            )
    front = data["frontier"]
    fitted, predicted = float(front.fitted), float(front.predicted)
    checks.append(
        Check(
            f"the least error falls as compute to the power {predicted:.3f}",
            abs(fitted / predicted - 1) < 0.08,
            f"fitted {fitted:.3f}",
        )
    )
    fitted, predicted = front.attrs["width_exponents"]
    checks.append(
        Check(
            f"where the best number of modes grows as compute to the power {predicted:.2f}",
            abs(fitted / predicted - 1) < 0.15,
            f"fitted {fitted:.3f} on a grid of factors of 2",
        )
    )
    return checks


def figure(data: "dict[str, xr.Dataset]") -> Drawing:
    fig, (left, middle, right) = new_figure(3, width=4.6, height=4.2)
    for axes, cases, name, axis in ((left, RIDGE, "ridge", "samples"), (middle, SGD, "sgd", "steps")):
        for k, ((a, b), colour) in enumerate(zip(cases, palette, strict=False)):
            ds = data[f"{name}_{k}"]
            x, y, slope = ds[axis].values, ds.excess.values, float(ds.predicted)
            label = f"a = {a:g}, b = {b:g}: {float(ds.fitted):.3f} ({slope:.3f})"
            axes.plot(x, y, color=colour, label=label)
            late = x > np.sqrt(x[0] * x[-1])
            axes.plot(x[late], 0.6 * y[-1] * (x[late] / x[-1]) ** slope, "--", color=colour, lw=1)
    for k in range(len(WIDTHS)):
        ds = data[f"width_{k}"]
        right.plot(ds["compute"], ds.excess, color="0.75", lw=1, label="a given number of modes" if k == 0 else None)
    front = data["frontier"]
    right.plot(
        front["compute"],
        front.excess,
        color=palette[1],
        lw=2.5,
        label=f"best: {float(front.fitted):.3f} ({float(front.predicted):.3f})",
    )
    for axes, x in ((left, "samples n"), (middle, "steps of SGD"), (right, "compute: modes times steps")):
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.legend(fontsize="x-small", frameon=False, loc="lower left")
        style_axes(axes, x=x, y="excess error")
    left.set_title("Ridge regression, no penalty", fontsize="medium", loc="left")
    middle.set_title("One-pass SGD", fontsize="medium", loc="left")
    right.set_title("Compute-optimal width, a = b = 1.5", fontsize="medium", loc="left")
    fig.suptitle("Eigenvalues k^-a, signal k^-b: fitted exponents, and those of theory in brackets (dashed)")
    return fig


ENTRY = Entry(
    name="scaling-laws",
    title="Scaling laws of power-law spectra: samples, steps and compute",
    claim="The error of ridge regression falls as n^-min(b-1, 2a), that of one-pass SGD as steps^-min((b-1)/a, 2-1/a), "
    "and the least error that a given compute buys as compute^-(b-1)/(1+a).",
    compute=compute,
    check=check,
    figure=figure,
    seconds=15,
)
