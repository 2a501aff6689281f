r"""Samples needed against dimension: SGD climbs a staircase with O(d), a kernel method needs about d^P.

SGD: t = gamma step/(p d), so that with batches of b samples at a fixed gamma/(p b) the time t at which the
dimension-free flow reaches a risk makes :math:`n = t\,d\,pb/\gamma`. A kernel that depends on x . x' only is as good
on any product of P coordinates as on the target's, and there are :math:`\binom{d}{P}` of them; it must see about as
many samples.
"""

from math import comb
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

import limitlab as ll
from limitlab.gallery.entry import Check, Entry, Progress, Quick
from limitlab.gallery.figures import Drawing, new_figure, palette, style_axes
from limitlab.gallery.fits import crossing, power

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["ENTRY", "problem"]

TARGETS = {2: "z1 + z1*z2", 3: "z1 + z1*z2 + z1*z2*z3"}
LEVEL = 0.25  # of the risk; half of it is all that is left when only the highest term is missing
WIDTH, BATCH, NOISE = 100, 4, 0.1  # the last is gamma/(p b)
RUNS = 4
SGD_D = [25, 50, 100, 200]
KERNEL_D = {2: [20, 28, 40, 56], 3: [12, 16, 20, 24, 36]}
BEYOND = 36  # where three steps cost the kernel more than SGD: half the runs, for each solves 8000 equations
SHARES = {2: (0.9, 1.1, 1.4), 3: (0.7, 0.9, 1.2)}  # samples tried, per monomial of degree up to P
PENALTY = 1e-8  # labels have no noise: smaller ones change nothing, larger ones do worse
TIMES = {2: np.linspace(7, 10, 16), 3: np.linspace(14, 20, 16)}  # around the one that is looked for


def problem(P: int) -> ll.Problem:
    return ll.Problem(
        inputs=ll.Hypercube(),
        teacher=ll.SparseTarget(TARGETS[P]),
        student=ll.Committee(width=WIDTH, activation=ll.shifted("tanh", 0.5), second_layer="trained"),
        loss=ll.SquareLoss(),
        start=ll.RandomStart(second_layer="uniform"),
        algorithm=ll.OnlineSGD(learning_rate=NOISE * BATCH * WIDTH, batch_size=BATCH),
    )


def monomials(d: int, P: int) -> int:
    """Of degree up to P in d variables."""
    return sum(comb(d, k) for k in range(P + 1))


def compute(progress: Progress | None) -> "dict[str, xr.Dataset]":
    data = {}
    for P in TARGETS:
        one = problem(P)
        data[f"flow_{P}"] = ll.predict(one, ll.DimensionFree(corrected=True, nodes=24, rtol=1e-6), TIMES[P])
        sgd = [ll.simulate(one, d, TIMES[P], RUNS, d, "weights", progress) for d in SGD_D]
        found = [
            [_reached(runs.time.values, risk) * d / NOISE for risk in runs.risk.transpose("replica", "time").values]
            for d, runs in zip(SGD_D, sgd, strict=True)
        ]
        data[f"sgd_{P}"] = _table(one, SGD_D, found, "samples of SGD")
        found = [_kernel(one, d, P, progress) for d in KERNEL_D[P]]
        data[f"kernel_{P}"] = _table(one, KERNEL_D[P], found, "samples of kernel ridge")
    return data


def _reached(x: np.ndarray, risk: np.ndarray) -> float:
    return crossing(x, -risk, -LEVEL)


def _kernel(one: ll.Problem, d: int, P: int, progress: Progress | None) -> list[float]:
    """Samples at which the kernel's risk is the level, between those tried by a power law; of each run."""
    sizes = [round(share * monomials(d, P)) for share in SHARES[P]]
    runs = RUNS if d < BEYOND or P == 2 else RUNS // 2
    fits = ll.analysis.kernel_ridge(one, d, sizes, PENALTY, replicas=runs, seed=d, progress=progress)
    risks = fits.risk.transpose("replica", "samples").values
    return [float(np.exp(crossing(np.log(sizes), -np.log(risk), -np.log(LEVEL)))) for risk in risks]


def _table(one: ll.Problem, dimensions: list[int], samples: list, method: str) -> "xr.Dataset":
    """Mean over runs and its standard error. A run that never got there makes the mean NaN: not reached."""
    rows = [np.asarray(row, float) for row in samples]
    mean = np.array([row.mean() for row in rows])
    return ll.analysis.dataset(
        one,
        {
            "samples_needed": (("d",), mean),
            "stderr": (("d",), [row.std(ddof=1) / np.sqrt(len(row)) for row in rows]),
            "runs": (("d",), [len(row) for row in rows]),
            "status": (("d",), np.where(np.isnan(mean), "not_reached", "ok")),
        },
        {"d": np.asarray(dimensions)},
        method=method,
        attrs={"level": LEVEL},
    )


class _Fit(NamedTuple):
    slope: float
    error: float
    factor: float


def fit(ds: "xr.Dataset") -> _Fit:
    """Power law of the samples in d."""
    return _Fit(*power(ds["d"], ds.samples_needed, ds.stderr / ds.samples_needed))


def flow_samples(data: "dict[str, xr.Dataset]", P: int) -> float:
    """n/d of the dimension-free flow, with its correction for steps of this size."""
    flow = data[f"flow_{P}"]
    return _reached(flow.time.values, flow.risk.values) / NOISE


def check(data: "dict[str, xr.Dataset]") -> list[Check]:
    checks, slopes = [], {}
    for P, text in TARGETS.items():
        sgd, kernel = fit(data[f"sgd_{P}"]), fit(data[f"kernel_{P}"])
        slopes[P] = sgd, kernel
        checks.append(
            Check(
                f"{text}: SGD needs samples like d, exponent to 0.1",
                abs(sgd.slope - 1) < 0.1 and sgd.error < 0.03,
                f"exponent {sgd.slope:.3f} +- {sgd.error:.3f}, d = {SGD_D[0]} to {SGD_D[-1]}",
            )
        )
        last, expected = data[f"sgd_{P}"].isel(d=-1), flow_samples(data, P)
        ratio = float(last.samples_needed) / SGD_D[-1] / expected
        checks.append(
            Check(
                f"{text}: as many as the dimension-free flow says, to 5 % at d = {SGD_D[-1]}",
                abs(ratio - 1) < 0.05,
                f"n/d = {ratio * expected:.1f} +- {float(last.stderr) / SGD_D[-1]:.1f}, flow {expected:.1f}",
            )
        )
        d = KERNEL_D[P]
        count = power(d, [monomials(x, P) for x in d])[0]
        checks.append(
            Check(
                f"{text}: the kernel needs samples like d^{P}, exponent to 0.25",
                abs(kernel.slope - P) < 0.25 and kernel.error < 0.1,
                f"exponent {kernel.slope:.3f} +- {kernel.error:.3f}, d = {d[0]} to {d[-1]} (number of monomials of "
                f"degree up to {P}: {count:.3f})",
            )
        )
        checks.append(
            Check(
                f"{text}: for the kernel d is not enough",
                kernel.slope - sgd.slope > 10 * float(np.hypot(kernel.error, sgd.error)),
                f"exponents differ by {kernel.slope - sgd.slope:.2f}; fits meet at d = {_equal(sgd, kernel):.0f}",
            )
        )
    kernel, sgd = data["kernel_3"].sel(d=BEYOND), fit(data["sgd_3"])
    needed, there = float(kernel.samples_needed), sgd.factor * BEYOND**sgd.slope
    checks.append(
        Check(
            f"{TARGETS[3]}: at d = {BEYOND} the kernel needs more samples than SGD, at d = {KERNEL_D[3][0]} fewer",
            needed > there + 4 * float(kernel.stderr)
            and float(data["kernel_3"].samples_needed[0]) < sgd.factor * KERNEL_D[3][0] ** sgd.slope,
            f"{needed:.0f} +- {float(kernel.stderr):.0f} against {there:.0f}",
        )
    )
    return checks


def _equal(sgd: _Fit, kernel: _Fit) -> float:
    """Where the two power laws meet: infinitely far off if the kernel's is not the steeper."""
    steeper = kernel.slope - sgd.slope
    return float(np.exp(np.log(sgd.factor / kernel.factor) / steeper)) if steeper > 0.01 else np.inf


def figure(data: "dict[str, xr.Dataset]") -> Drawing:
    fig, panels = new_figure(2, width=5.2, height=4.3)
    for axes, (P, text) in zip(panels, TARGETS.items(), strict=True):
        reach = np.array([10.0, 500.0])
        for name, colour, marker, words in (
            ("sgd", palette[0], "o", "SGD"),
            ("kernel", palette[1], "s", "kernel ridge"),
        ):
            ds = data[f"{name}_{P}"]
            slope = fit(ds).slope
            axes.errorbar(
                ds["d"],
                ds.samples_needed,
                ds.stderr,
                fmt=marker,
                color=colour,
                ms=5,
                capsize=3,
                label=f"{words}, {RUNS} runs: exponent {slope:.2f}",
            )
        axes.plot(reach, flow_samples(data, P) * reach, color=palette[0], label="dimension-free flow: n ∝ d")
        kernel = data[f"kernel_{P}"].isel(d=-1)
        end = float(kernel.samples_needed) * (reach / float(kernel["d"])) ** P
        axes.plot(reach, end, "--", color=palette[1], label=f"d$^{P}$ through the last point")
        meet = _equal(fit(data[f"sgd_{P}"]), fit(data[f"kernel_{P}"]))
        axes.axvline(meet, color="0.6", lw=1, ls=":")
        words = "measured" if meet < KERNEL_D[P][-1] else "extrapolated"
        axes.text(meet, 1e2, f" as many at d ≈ {meet:.0f}\n ({words})", fontsize="small", color="0.35")
        axes.set(xscale="log", yscale="log")
        axes.legend(fontsize="small", frameon=False, loc="upper left")
        style_axes(axes, x="input dimension d", y=f"samples n until the risk is {LEVEL:g}")
        axes.set_title(text, fontsize="medium", loc="left")
    fig.suptitle("SGD needs samples like d; a kernel like d to the power of the degree, more from some d on")
    return fig


ENTRY = Entry(
    name="linear-vs-sgd",
    title="Samples needed by SGD and by a kernel method, against the dimension",
    claim="To learn a staircase of P steps SGD needs a number of samples proportional to d, and kernel ridge "
    "regression one that grows like d^P: fewer in small dimension, more from d = 36 on for three steps.",
    compute=compute,
    check=check,
    figure=figure,
    seconds=75,
    quick=Quick(
        {"SGD_D": [25, 50, 100], "KERNEL_D": {2: [20, 28, 40], 3: [12, 16, 20, 24]}, "BEYOND": 24},
        seconds=25,
        full=("the kernel needs more samples than SGD",),
    ),
)
