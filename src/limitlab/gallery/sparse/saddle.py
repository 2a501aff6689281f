r"""Leaps: a term that brings l >= 2 new variables at once holds SGD at a saddle, left only at finite dimension.

.. math:: \dot u_i = a\,\mu_l \prod_{j \ne i} u_j, \qquad \mu_l = E\,\sigma^{(l)}(G), \qquad u(0) \sim d^{-1/2}

In infinite dimension u stays at 0 and nothing is learned. At finite d a leap of two grows exponentially and leaves
after :math:`\log d/(2|a\mu_2|)`; a leap of three needs a time like :math:`d^{1/2}`, and steps so small that their
noise, which adds eta t to u^2 and d eta t to the norm of all other weights, stays below the start, 1/d and 1:
:math:`n = t/\eta \sim d^2` samples.
"""

import warnings
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

import limitlab as ll
from limitlab.gallery.entry import Check, Entry, Progress, Quick
from limitlab.gallery.figures import Drawing, new_figure, palette, style_axes
from limitlab.gallery.fits import crossing, power

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["ENTRY", "problem"]

LEVEL = 0.25  # of the target's highest term: learned so much, the saddle is left
WIDTH = 100
TWO, THREE, STAIRS = "z1*z2", "z1*z2*z3", "z1 + z1*z2"
# A square for the leap of two: all units grow at one rate. An error function for the leap of three: its units must be
# bounded, or the few that start largest would be infinite before the others move. a = 3 lets those reach the target.
SHIFT, SIZE = 0.5, 3.0
SQUARE = ll.shifted(ll.hermite(2), SHIFT)
MU_2 = 2.0  # E sigma'' of the square
SELF = 4 + 6 * SHIFT**2  # E[sigma'^2 + sigma sigma'']: a unit slows its own growth by a^2/p times this
SLOPE_SQUARE = 4 * (1 + SHIFT**2)  # E sigma'^2 of the square
ERF_SQUARE = 2 / (np.pi * np.sqrt(3))  # E sigma'^2 of the error function
TWO_D = [30, 100, 300, 10**3, 10**4, 10**5, 10**6, 10**7, 10**8]
SHOWN_D = [10**2, 10**4, 10**6, 10**8]
THREE_D = [25, 50, 100, 10**3, 10**4, 10**5]
SGD_TWO, SGD_THREE = [30, 100, 300], [25, 50, 100]
ASYMPTOTIC = 1000  # from here on corrections in 1/d are below 1 %
RUNS_TWO, RUNS_THREE = 16, 6
NOISE = 0.02  # gamma/(p b) of the leap of two
BATCH = 4
SHARE = 0.1  # of its start that noise adds to u^2 before a leap of three is left
STEP = 0.05  # of time
FLAT_TIMES = np.linspace(0, 20, 21)
RULES = (0, 2)  # seeds of the Sobol points: a prediction at seed s looks at s + 1 as well


def problem(text: str, noise: float = NOISE, batch: int = BATCH) -> ll.Problem:
    """gamma/(p b) = noise; the second layer is +-1, or +-3 for the leap of three, and fixed."""
    deep = text == THREE
    return ll.Problem(
        inputs=ll.Hypercube(),
        teacher=ll.SparseTarget(text),
        student=ll.Committee(
            width=WIDTH,
            activation="erf" if deep else SQUARE,
            output_weights=np.tile([SIZE, -SIZE] if deep else [1.0, -1.0], WIDTH // 2),
        ),
        loss=ll.SquareLoss(),
        start=ll.RandomStart(),
        algorithm=ll.OnlineSGD(learning_rate=noise * batch * WIDTH, batch_size=batch),
    )


def compute(progress: Progress | None) -> "dict[str, xr.Dataset]":
    data = {
        f"flat_{name}": ll.predict(problem(text), ll.DimensionFree(), FLAT_TIMES) for name, text in _leaps().items()
    }
    for d in SHOWN_D:
        data[f"path_{d}"] = ll.predict(problem(TWO), ll.MeanField(d=d), np.linspace(0, 8, 161))
    data["two"] = _exits(problem(TWO), TWO_D, [_mean_field(TWO, d) for d in TWO_D])
    data["stairs"] = _exits(problem(STAIRS), TWO_D, [_mean_field(STAIRS, d) for d in TWO_D])
    deep = [[_mean_field(THREE, d, seed) for seed in RULES] for d in THREE_D]
    data["three"] = _exits(problem(THREE), THREE_D, deep)
    data["two_sgd"] = _exits(problem(TWO), SGD_TWO, [_sgd_two(d, progress) for d in SGD_TWO])
    data["three_sgd"] = _exits(problem(THREE), SGD_THREE, [_sgd_three(d, progress) for d in SGD_THREE])
    return data


def _leaps() -> dict[str, str]:
    return {"two": TWO, "three": THREE}


def _guess(text: str, d: int) -> float:
    """About when the level is reached, from below."""
    return {TWO: np.log(d) / (2 * MU_2), STAIRS: 0.6, THREE: 1.25 * np.sqrt(d)}[text]


def _top(text: str) -> str:
    return THREE if text == THREE else TWO


def _mean_field(text: str, d: int, seed: int = 0) -> float:
    times = np.linspace(0, 1.4, 141) * (_guess(text, d) + (0 if text == THREE else 0.2))
    limit = ll.MeanField(d=d, particles=1024, rtol=1e-6, seed=seed) if text == THREE else ll.MeanField(d=d)
    with warnings.catch_warnings():
        # Each unit leaves at its own time, so that f is accurate to a percent only; what that does to the exit time is
        # seen by a second set of points.
        warnings.simplefilter("ignore", ll.errors.AccuracyWarning)
        path = ll.predict(problem(text), limit, times)
    return crossing(times, path.fourier.sel(term=_top(text)).values, LEVEL)


def _sgd_two(d: int, progress: Progress | None) -> list[float]:
    times = np.linspace(0, 1.5 * _guess(TWO, d) + 0.3, 101)
    return _left(ll.simulate(problem(TWO), d, times, RUNS_TWO, d, "weights", progress), TWO)


def _sgd_three(d: int, progress: Progress | None) -> list[float]:
    guess = _guess(THREE, d)
    noise = SHARE / (SIZE**2 * ERF_SQUARE * guess)
    batch = int(np.ceil(STEP * d / noise))
    times = np.arange(0, 1.5 * guess, 4 * STEP)
    return _left(ll.simulate(problem(THREE, noise, batch), d, times, RUNS_THREE, d, "weights", progress), THREE)


def _left(runs: "xr.Dataset", term: str) -> list[float]:
    values = runs.fourier.sel(term=term).transpose("replica", "time").values
    return [crossing(runs.time.values, each, LEVEL) for each in values]


def _exits(problem: ll.Problem, dimensions: list[int], times: list) -> "xr.Dataset":
    """Exit times by dimension, and by run if there are several: SGD's replicas, or two sets of quadrature points."""
    values = np.asarray(times, float)
    dims = ("d", "replica")[: values.ndim]
    status = np.where(np.isnan(values), "not_reached", "ok")
    return ll.analysis.dataset(
        problem,
        {"exit_time": (dims, values), "status": (dims, status)},
        {"d": np.asarray(dimensions)},
        method="exit times",
        attrs={"level": LEVEL},
    )


class _Mean(NamedTuple):
    d: np.ndarray
    time: np.ndarray
    error: np.ndarray


def _mean(ds: "xr.Dataset") -> _Mean:
    """Mean over runs and its standard error; a run that stayed makes both NaN, and the checks fail."""
    times = ds.exit_time.values
    if times.ndim == 1:
        return _Mean(ds["d"].values, times, np.zeros_like(times))
    return _Mean(ds["d"].values, times.mean(axis=1), times.std(axis=1, ddof=1) / np.sqrt(times.shape[1]))


def theory_two(data: "dict[str, xr.Dataset]", d) -> np.ndarray:
    r"""When SGD of this width and step leaves a leap of two, to first order in 1/p and gamma/(p b):
    the flow's exit time over :math:`1 - E[\sigma'^2 + \sigma\sigma'']/(p\mu_2)`, earlier by log(F)/(2 mu_2) with
    :math:`F = 1 + \frac{\gamma}{pb} E\sigma'^2/(2\mu_2)`, what noise adds to the start."""
    flow = data["two"].exit_time.sel(d=d).values
    return flow / (1 - SELF / (WIDTH * MU_2)) - np.log1p(NOISE * SLOPE_SQUARE / (2 * MU_2)) / (2 * MU_2)


def check(data: "dict[str, xr.Dataset]") -> list[Check]:
    two, three, stairs = (_mean(data[name]) for name in ("two", "three", "stairs"))
    sgd_two, sgd_three = _mean(data["two_sgd"]), _mean(data["three_sgd"])
    moved = max(float(np.max(np.abs(data[f"flat_{name}"].risk - 0.5))) for name in _leaps())
    checks = [
        Check(
            f"in infinite dimension the risk of {TWO} and of {THREE} never moves",
            moved < 1e-12,
            f"up to t = {FLAT_TIMES[-1]:g} by at most {moved:.0e}",
        )
    ]
    late, decade = two.d >= ASYMPTOTIC, np.log(10) / (2 * MU_2)
    steps = np.diff(two.time[late]) / np.diff(np.log10(two.d[late]))
    checks.append(
        Check(
            f"a leap of two: each factor of ten in d costs log(10)/(2 mu_2), to 1 % from d = {ASYMPTOTIC} on",
            bool(np.all(np.abs(steps / decade - 1) < 0.01)),
            f"{', '.join(f'{x:.4f}' for x in steps)} against {decade:.4f}",
        )
    )
    grown, held = two.time[-1] - two.time[late][0], stairs.time[-1] - stairs.time[late][0]
    checks.append(
        Check(
            f"without a leap ({STAIRS}) the time does not grow with d",
            abs(held) < 0.02 * stairs.time[-1] and abs(held) < 0.05 * grown,
            f"from d = {ASYMPTOTIC} to {two.d[-1]:.0e}: {held:+.4f} on {stairs.time[-1]:.3f}; {TWO} {grown:+.3f}",
        )
    )
    late = three.d >= ASYMPTOTIC
    slope = power(three.d[late], three.time[late])[0]
    each = [power(three.d[late], data["three"].exit_time.values[late, i])[0] for i in range(len(RULES))]
    checks.append(
        Check(
            f"a leap of three: the time grows like d^(1/2), exponent to 0.02 from d = {ASYMPTOTIC} on",
            abs(slope - 0.5) < 0.02,
            f"exponent {slope:.4f}; with two sets of quadrature points {each[0]:.4f} and {each[1]:.4f}",
        )
    )
    expected = theory_two(data, SGD_TWO)
    z = (sgd_two.time - expected) / sgd_two.error
    checks.append(
        Check(
            f"SGD leaves the leap of two with the flow, slowed by 1/p as computed (p = {WIDTH})",
            bool(np.all(np.abs(z) < 4)),
            "; ".join(
                f"d = {d}: t = {t:.3f} +- {e:.3f}, flow {f:.3f}, with width and noise {x:.3f}, z = {s:+.2f}"
                for d, t, e, f, x, s in zip(
                    SGD_TWO,
                    sgd_two.time,
                    sgd_two.error,
                    data["two"].exit_time.sel(d=SGD_TWO).values,
                    expected,
                    z,
                    strict=True,
                )
            ),
        )
    )
    flow = data["three"].exit_time.sel(d=SGD_THREE).mean("replica").values
    checks.append(
        Check(
            "SGD of that width leaves the leap of three within 10 % of the flow, given n ~ d^2 samples",
            bool(np.all(np.abs(sgd_three.time / flow - 1) < 0.1)),
            "; ".join(
                f"d = {d}: t = {t:.2f} +- {e:.2f}, flow {f:.2f}, n = {_samples(d, t):.1e}"
                for d, t, e, f in zip(SGD_THREE, sgd_three.time, sgd_three.error, flow, strict=True)
            ),
        )
    )
    slope, error, _ = power(SGD_THREE, sgd_three.time, sgd_three.error / sgd_three.time)
    expected = power(SGD_THREE, flow, sgd_three.error / sgd_three.time)[0]
    leap_two = power(SGD_TWO, sgd_two.time, sgd_two.error / sgd_two.time)[0]
    checks.append(
        Check(
            "and its time grows with the flow's power of d at these sizes",
            abs(slope - expected) < 4 * error and error < 0.1,
            f"exponent {slope:.3f} +- {error:.3f}, flow {expected:.3f} at the same d (leap of two: {leap_two:.3f})",
        )
    )
    return checks


def _samples(d: int, time: float) -> float:
    return time * d * SIZE**2 * ERF_SQUARE * _guess(THREE, d) / SHARE


def figure(data: "dict[str, xr.Dataset]") -> Drawing:
    fig, (left, middle, right) = new_figure(3, width=4.6, height=4.2)
    for d, colour in zip(SHOWN_D, (palette[5], palette[0], palette[2], palette[4]), strict=True):
        path = data[f"path_{d}"]
        left.plot(path.time, path.risk, color=colour, label=f"d = 10$^{{{round(np.log10(d))}}}$")
    flat = data["flat_two"].sel(time=slice(0, 8))
    left.plot(flat.time, flat.risk, "k--", label="d = ∞")
    left.legend(fontsize="small", frameon=False, title="infinitely wide network", title_fontsize="small")
    style_axes(left, x="time t = γ·step/(p·d)", y="risk R")
    left.set_title(f"{TWO}: stuck, and longer at larger d", fontsize="medium", loc="left")

    two, sgd, stairs = _mean(data["two"]), _mean(data["two_sgd"]), _mean(data["stairs"])
    middle.plot(two.d, two.time, color=palette[0], label=f"{TWO}, mean field at d")
    guide = two.time[-1] + 0.3 + np.log(two.d / two.d[-1]) / (2 * MU_2)
    middle.plot(two.d, guide, ":", color="0.3", label="log(d)/(2μ$_2$) + constant")
    _points(middle, sgd, palette[0], f"SGD, p = {WIDTH}, {RUNS_TWO} runs")
    middle.plot(stairs.d, stairs.time, color=palette[1], label=f"{STAIRS} (no leap)")
    middle.set_xscale("log")
    middle.set_ylim(0)
    middle.legend(fontsize="small", frameon=False)
    style_axes(middle, x="input dimension d", y=f"time to learn {LEVEL:.0%} of {TWO}")
    middle.set_title("A leap of two costs log d", fontsize="medium", loc="left")

    three, sgd = _mean(data["three"]), _mean(data["three_sgd"])
    right.plot(three.d, three.time, color=palette[0], label=f"{THREE}, mean field at d")
    late = three.d[2:]
    right.plot(late, 1.5 * three.time[-1] * np.sqrt(late / late[-1]), ":", color="0.3", label="d$^{1/2}$")
    _points(right, sgd, palette[0], f"SGD, p = {WIDTH}, {RUNS_THREE} runs")
    right.set(xscale="log", yscale="log")
    right.legend(fontsize="small", frameon=False)
    style_axes(right, x="input dimension d", y=f"time to learn {LEVEL:.0%} of {THREE}")
    right.set_title("A leap of three costs a power of d", fontsize="medium", loc="left")
    fig.suptitle("Targets that are no staircase hold SGD at a saddle: for log d (leap of two) or √d (leap of three)")
    return fig


def _points(axes, found: _Mean, colour: str, label: str) -> None:
    axes.errorbar(found.d, found.time, found.error, fmt="o", color=colour, ms=5, capsize=3, label=label)


ENTRY = Entry(
    name="saddle",
    title="Targets that are no staircase: how long SGD stays at the saddle",
    claim="A term that brings two new variables at once is learned after a time that grows by log(10)/(2 mu_2) with "
    "each factor of ten in d, one that brings three after a time like the square root of d; in infinite dimension "
    "neither is ever learned, and a staircase takes no longer at larger d.",
    compute=compute,
    check=check,
    figure=figure,
    seconds=75,
    quick=Quick({"RUNS_TWO": 8, "RUNS_THREE": 3, "SGD_THREE": [25, 50], "THREE_D": [25, 50, 10**3, 10**4]}, seconds=25),
)
