r"""Classes that differ on some coordinates only: units that vote for the wider class turn to these, the others away.

.. math:: x = \mathrm{diag}((1 + y\delta) I_{\gamma d}, I_{(1-\gamma) d})\,z, \qquad
          f = \frac1N \sum_i a_i (w_i \cdot x + b_i)_+

In infinite dimension a unit is four numbers, a, b and its norms r1, r2 on the two kinds of coordinates, and conserves
a^2 - b^2 - r1^2 - r2^2. Networks whose width, samples and dimension grow together approach that flow like 1/d.
"""

from typing import TYPE_CHECKING

import numpy as np

import limitlab as ll
from limitlab.gallery.entry import Check, Entry, Progress, Quick
from limitlab.gallery.figures import Drawing, average, new_figure, palette, style_axes
from limitlab.gallery.fits import power

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["ENTRY", "extrapolated", "problem"]

DELTA, SCALE = 0.8, 0.8
TIMES = np.array([0.0, 0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
DENSE = np.unique(np.concatenate([np.linspace(0, 6, 61), TIMES]))
# Width and 1/(d eta/b) are proportional to d, so that all that separates SGD from the limit is proportional to 1/d.
SIZES = {40: (50, 0.08, 4, 24), 80: (100, 0.04, 8, 24), 160: (200, 0.02, 16, 12)}  # d: width, d eta/b, b, runs
LARGEST = 320, (200, 0.02, 32, 3)  # the paper's dimension, at a width and steps that we can afford
NEAR = 0.03


def problem(width: int = 200, noise: float = 0.02, batch: int = 16) -> ll.Problem:
    return ll.library.anisotropic_mixture(
        DELTA,
        width=width,
        step_noise=noise * batch,
        batch_size=batch,
        scale=SCALE,
        schedule=ll.PowerSchedule(0.25, onset=0.0),
    )


def compute(progress: Progress | None) -> "dict[str, xr.Dataset]":
    data = {"flow": ll.predict(problem(), ll.RadialFlow(), DENSE)}
    for d, (width, noise, batch, runs) in (*SIZES.items(), LARGEST):
        data[f"sgd_{d}"] = ll.simulate(problem(width, noise, batch), d, TIMES, runs, d, "weights", progress)
    return data


def _mean(ds: "xr.Dataset", name: str = "risk") -> tuple[np.ndarray, np.ndarray]:
    mean, error = average(ds[name].transpose("replica", "time").values)
    return mean, np.zeros_like(mean) if error is None else error


def extrapolated(small: "xr.Dataset", large: "xr.Dataset", name: str = "risk") -> tuple[np.ndarray, np.ndarray]:
    """To infinite size, from two sizes a factor of 2 apart; and the standard error."""
    (one, one_error), (two, two_error) = _mean(small, name), _mean(large, name)
    return 2 * two - one, np.hypot(2 * two_error, one_error)


def aligned(ds: "xr.Dataset", sign: float) -> "xr.DataArray":
    """The informative share of the squared weights of units that vote for one class (a > 0 at the start, or < 0)."""
    unit = "student" if "student" in ds.dims else "particle"
    square = ds.r**2
    share = square.sel(block="informative") / square.sum("block")
    return share.where(sign * ds.a.isel(time=0) > 0).mean(unit)


def conserved(ds: "xr.Dataset") -> "xr.DataArray":
    return ds.a**2 - ds.b**2 - (ds.r**2).sum("block")


def check(data: "dict[str, xr.Dataset]") -> list[Check]:
    flow, d = data["flow"], np.array(list(SIZES))
    at = flow.sel(time=TIMES)
    drift = float(abs(conserved(flow) - conserved(flow).isel(time=0)).max())
    gaps = np.array([_mean(data[f"sgd_{n}"])[0] - at.risk.values for n in d])
    errors = np.array([_mean(data[f"sgd_{n}"])[1] for n in d])
    slope, error, _ = power(d[1:], gaps[1:, -1], (errors / gaps)[1:, -1])
    z = {}
    for name in ("risk", "alignment"):
        mean, spread = extrapolated(data["sgd_80"], data["sgd_160"], name)
        z[name] = float(np.max(np.abs(mean - at[name].values) / spread))
    mean, spread = extrapolated(data["sgd_80"], data["sgd_160"])
    early = np.interp(TIMES / 2, flow.time, flow.risk)
    wrong = float(np.max(np.abs(mean - early) / spread))
    largest = data[f"sgd_{LARGEST[0]}"]
    far = float(np.max(np.abs(_mean(largest)[0] - at.risk.values)))
    towards, away = aligned(flow, 1), aligned(flow, -1)
    return [
        Check(
            "the flow conserves a^2 - b^2 - r1^2 - r2^2 of every unit, and its risk falls",
            drift < 1e-8 and float(np.max(np.diff(flow.risk.values))) < 0,
            f"to {drift:.0e}; risk {float(flow.risk[0]):.3f} to {float(flow.risk[-1]):.3f}",
        ),
        Check(
            "units with a > 0 turn to the informative coordinates, those with a < 0 away from them",
            bool(np.all(np.diff(towards) > 0) and np.all(np.diff(away) < 0) and towards[-1] > 0.95 and away[-1] < 0.05),
            f"informative share from {float(towards[0]):.3f} to {float(towards[-1]):.3f} and {float(away[-1]):.3f}",
        ),
        Check(
            "SGD's risk is above the flow's by a multiple of 1/d from d = 80 on, if N and 1/(d eta/b) grow with d",
            abs(slope + 1) < 4 * error and error < 0.1,
            f"exponent {slope:.3f} +- {error:.3f}; d times the gap at t = {TIMES[-1]:g}: "
            + ", ".join(f"{n * g:.2f} +- {n * e:.2f}" for n, g, e in zip(d, gaps[:, -1], errors[:, -1], strict=True)),
        ),
        Check(
            "extrapolated from d = 80 and 160 to infinite size, it is the flow's",
            bool(np.max(list(z.values())) < 4),
            f"largest |z| {z['risk']:.2f} (risk), {z['alignment']:.2f} (alignment) over {len(TIMES)} times",
        ),
        Check("control: a clock that is wrong by 2 is noticed", wrong > 4, f"largest |z| {wrong:.0f}"),
        Check(
            f"at d = {LARGEST[0]} it is within {NEAR} of the flow without extrapolation",
            far < NEAR,
            f"largest difference {far:.4f}; {LARGEST[1][3]} runs of N = {LARGEST[1][0]}",
        ),
    ]


def figure(data: "dict[str, xr.Dataset]") -> Drawing:
    flow, (top, sizes) = data["flow"], LARGEST
    largest = data[f"sgd_{top}"]
    fig, (left, middle, right) = new_figure(3, width=4.6, height=4.4)
    left.plot(flow.time, flow.risk, color="0.2", lw=1.8, label="flow at d = ∞")
    for colour, d in zip((palette[5], palette[2], palette[0], palette[1]), (*SIZES, top), strict=True):
        mean, error = _mean(data[f"sgd_{d}"])
        width = (SIZES | {top: sizes})[d][0]
        left.errorbar(TIMES, mean, error, fmt="o", color=colour, ms=4.5, label=f"SGD, d = {d}, N = {width}")
    mean, error = extrapolated(data["sgd_80"], data["sgd_160"])
    left.errorbar(TIMES, mean, error, fmt="D", mfc="none", color="0.2", ms=6, label="extrapolated to infinite size")
    style_axes(left, x="time t = γ·step/(p·d)", y="risk")
    left.set_ylim(0)
    left.set_title("SGD nears the flow as d grows", fontsize="medium", loc="left")
    left.legend(fontsize="small", frameon=False)

    for colour, sign, word in ((palette[0], 1, "a > 0"), (palette[1], -1, "a < 0")):
        middle.plot(flow.time, aligned(flow, sign), color=colour, lw=1.8, label=f"flow, units with {word}")
        mean, error = average(aligned(largest, sign).transpose("replica", "time").values)
        middle.errorbar(TIMES, mean, error, fmt="o", color=colour, ms=4.5, label=f"SGD, d = {top}")
    middle.set_ylim(0, 1.02)
    style_axes(middle, x="time t", y="informative share of |w|²")
    middle.set_title("Units turn to what matters, or away", fontsize="medium", loc="left")
    middle.legend(fontsize="small", frameon=False)

    d = np.array(list(SIZES))
    final = [_mean(data[f"sgd_{n}"]) for n in d]
    gap = np.array([mean[-1] for mean, _ in final]) - float(flow.risk[-1])
    error = np.array([e[-1] for _, e in final])
    right.errorbar(d, gap, error, fmt="o", color=palette[0], ms=6, capsize=3, label="SGD, N = 5d/4, dη/b = 3.2/d")
    level = float(np.average((gap * d)[1:], weights=(error * d)[1:] ** -2))
    right.plot(d, level / d, ":", color="0.3", label=f"{level:.2f}/d")
    right.set(xscale="log", yscale="log")
    right.set_xticks(d, [str(n) for n in d])
    right.set_yticks([0.015, 0.03, 0.06], ["0.015", "0.03", "0.06"])
    right.minorticks_off()
    style_axes(right, x="input dimension d", y=f"risk − flow's risk at t = {TIMES[-1]:g}")
    right.set_title("What is missing falls like 1/d", fontsize="medium", loc="left")
    right.legend(fontsize="small", frameon=False)
    fig.suptitle(
        f"Classes that differ on 3/16 of the coordinates, δ = {DELTA}: a·relu(w·x + b), steps like t$^{{-1/4}}$"
    )
    return fig


ENTRY = Entry(
    name="anisotropic",
    title="An anisotropic mixture: units find the informative coordinates",
    claim="SGD of a relu(w.x + b) on classes that differ on a part of the coordinates follows the flow of four numbers "
    "a unit in infinite dimension, up to 1/d: units with a > 0 turn to the informative coordinates, the others away.",
    compute=compute,
    check=check,
    figure=figure,
    seconds=50,
    quick=Quick(
        {"SIZES": {d: (*one[:3], one[3] // 2) for d, one in SIZES.items()}, "LARGEST": (320, (200, 0.02, 32, 1))},
        seconds=25,
    ),
)
