r"""SGD with added noise comes to rest: its free energy falls to a minimum, and its norms follow the law found there.

.. math::
    F(\rho) = \mathrm{risk}(\rho) + \tfrac\lambda2 \int |\theta|^2 d\rho - T\,\mathrm{Ent}(\rho), \qquad
    \rho_\infty(\theta) \propto e^{-\Psi_\lambda(\theta; \rho_\infty)/T}

F is convex and falls along the flow, so that there is one law at rest and every start leads to it.
"""

from typing import TYPE_CHECKING

import numpy as np

import limitlab as ll
from limitlab.gallery.entry import Check, Entry, Progress, Quick
from limitlab.gallery.figures import Drawing, average, new_figure, palette, style_axes

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["ENTRY", "problem"]

D, DELTA, WIDTH, REPLICAS = 20, 0.4, 200, 8
TEMPERATURE, DECAY = 0.01, 0.1
STEP_NOISE, BATCH = 0.04, 40  # steps of time 0.002; what the gradient's own noise adds to T is below a percent
SEEN = np.array([0.0, 0.1, 0.3, 0.6, 1.0, 2.0, 4.0, 6.0, 7.0, 8.0])
REST = 6.0  # from here on SGD is at rest
TIMES = np.unique(np.concatenate([np.linspace(0, 1, 21), np.linspace(1, 16, 61), SEEN]))
EDGES = np.linspace(0.4, 2.6, 34)


def problem(temperature: float = TEMPERATURE, scale: float = 0.8) -> ll.Problem:
    return ll.library.isotropic_mixture(
        DELTA, WIDTH, STEP_NOISE, BATCH, scale, weight_decay=DECAY, temperature=temperature
    )


def compute(progress: Progress | None) -> "dict[str, xr.Dataset]":
    # Small implicit steps: those of the default smear the density while it moves fast (not at rest).
    limit = ll.RadialFlow(d=D, cells=1200, reach=4.0, step=2.5e-4)
    return {
        "sgd": ll.simulate(problem(), D, SEEN, REPLICAS, 0, "weights", progress),
        "flow": ll.predict(problem(), limit, TIMES),
        "wide": ll.predict(problem(scale=1.8), limit, TIMES),
        "rest": ll.analysis.stationary_law(problem(), D),
        "hot": ll.analysis.stationary_law(problem(2 * TEMPERATURE), D),
    }


def moments(law: "xr.Dataset") -> "xr.Dataset":
    """Mean and standard deviation of the norms, under names that `compare` knows: q and V."""
    if "r" in law:
        mean, spread = law.r.mean("student"), law.r.var("student", ddof=1) ** 0.5
    else:
        weight = law.density / law.density.sum("radius")
        mean = (weight * law.radius).sum("radius")
        spread = ((weight * law.radius**2).sum("radius") - mean**2) ** 0.5
    kept = law.drop_vars([name for name in law.data_vars if name not in ("status", "end_time")])
    return kept.assign(q=mean, V=spread).drop_vars("radius", errors="ignore").assign_attrs(law.attrs)


def _at_rest(law: "xr.Dataset", times) -> "xr.Dataset":
    return moments(law).drop_vars("status").expand_dims(time=times)


def check(data: "dict[str, xr.Dataset]") -> list[Check]:
    sgd, flow, wide, rest, hot = (data[name] for name in ("sgd", "flow", "wide", "rest", "hot"))
    least = float(rest.free_energy)
    worst = float(np.max([np.diff(ds.free_energy.values) for ds in (flow, wide)]))
    ends = [float(ds.free_energy[-1]) - least for ds in (flow, wide)]
    late = moments(sgd.sel(time=slice(REST, None)))
    times = late.time.values
    path = ll.compare(moments(sgd), moments(flow), variables=("q", "V"))
    still = ll.compare(late, _at_rest(rest, times), variables=("q", "V"))
    wrong = ll.compare(late, _at_rest(hot, times), variables=("q", "V"), check_problem=False)
    near = float(ll.wasserstein(sgd, flow).mean("replica").max())
    excess = float(sgd.risk.sel(time=slice(REST, None)).mean() - rest.risk)
    return [
        Check(
            "the free energy falls all the time, from two starts",
            worst < 1e-12,
            f"largest change between two times {worst:.1e}; starts of norm 0.8 and 1.8",
        ),
        Check(
            "it ends at the minimum, whose law was found without following the flow",
            all(-1e-7 < end < 1e-5 for end in ends),
            f"{' and '.join(f'{end:.1e}' for end in ends)} above F = {least:.6f} at t = {TIMES[-1]:g}",
        ),
        Check(
            "mass is conserved and the density never negative",
            max(flow.attrs["mass_error"], wide.attrs["mass_error"]) < 1e-11 and float(flow.density.min()) >= 0,
            f"mass to {max(flow.attrs['mass_error'], wide.attrs['mass_error']):.0e}, least density "
            f"{float(flow.density.min()):.0e}",
        ),
        Check(
            "mean and spread of SGD's norms follow the flow",
            path.agrees,
            f"largest |z| {path.max_z:.2f}; {REPLICAS} runs of N = {WIDTH}; W2 of a run at most {near:.3f}",
        ),
        Check(
            f"at rest (t >= {REST:g}) they are those of the stationary law",
            still.agrees,
            f"largest |z| {still.max_z:.2f}; mean {float(late.q.mean()):.4f} ({float(moments(rest).q):.4f}), spread "
            f"{float(late.V.mean()):.4f} ({float(moments(rest).V):.4f}); risk above by "
            f"{excess:.4f} = {excess * WIDTH:.1f}/N",
        ),
        Check(
            "control: a temperature that is wrong by 2 is noticed", not wrong.agrees, f"largest |z| {wrong.max_z:.1f}"
        ),
    ]


def figure(data: "dict[str, xr.Dataset]") -> Drawing:
    sgd, flow, wide, rest, hot = (data[name] for name in ("sgd", "flow", "wide", "rest", "hot"))
    fig, (left, right) = new_figure(2, width=5.6, height=4.4)
    for colour, ds, scale in ((palette[0], flow, 0.8), (palette[1], wide, 1.8)):
        above = ds.free_energy - rest.free_energy
        left.plot(ds.time, above.where(above > 1e-8), color=colour, label=f"started at r = {scale}")
    left.set(yscale="log", ylim=(1e-8, 3))
    style_axes(left, x="time t = γ·step/(p·d)", y="free energy above its minimum")
    left.set_title("F falls to the minimum from every start", fontsize="medium", loc="left")
    left.legend(fontsize="small", frameon=False, title="Fokker–Planck flow", title_fontsize="small")

    for colour, time in zip((palette[4], palette[2]), (0.0, 0.3), strict=True):
        _histogram(right, sgd.sel(time=[time]), colour)
        right.plot(flow.radius, flow.density.sel(time=time), color=colour, lw=1.8, label=f"t = {time:g}")
    _histogram(right, sgd.sel(time=slice(REST, None)), palette[0])
    right.plot(rest.radius, rest.density, color=palette[0], lw=2.2, label="at rest: exp(−Ψ/T)")
    right.plot(hot.radius, hot.density, "--", color="0.5", lw=1.5, label="at rest at 2T (wrong)")
    right.errorbar([], [], [], fmt="o", color="0.3", ms=4, label=f"SGD, N = {WIDTH}, {REPLICAS} runs")
    right.set(xlim=(EDGES[0], EDGES[-1]), ylim=(0, None))
    style_axes(right, x="norm r = |w|/√d", y="density of norms")
    right.set_title("Norms of SGD's units on the predicted laws", fontsize="medium", loc="left")
    right.legend(fontsize="small", frameon=False, ncol=3, loc="upper center", bbox_to_anchor=(0.5, -0.14))
    fig.suptitle(f"Noisy SGD comes to rest at the minimum of the free energy: T = {TEMPERATURE}, λ = {DECAY}, d = {D}")
    return fig


def _histogram(axes, runs: "xr.Dataset", colour: str) -> None:
    """SGD's histogram, averaged over the times, with standard errors over runs."""
    seen = ll.analysis.radial_density(runs, EDGES).density.mean("time").transpose("replica", "radius")
    mean, error = average(seen.values)
    axes.errorbar(seen.radius, np.where(mean > 0, mean, np.nan), error, fmt="o", color=colour, ms=4, elinewidth=1)


ENTRY = Entry(
    name="noisy",
    title="Noisy SGD comes to rest at the minimum of a free energy",
    claim="With weight decay and temperature the free energy falls along the flow to a minimum that does not depend on "
    "the start, and the norms of SGD's units follow the law exp(-Psi/T) found there.",
    compute=compute,
    check=check,
    figure=figure,
    seconds=25,
    quick=Quick({"REPLICAS": 4}, seconds=15),
)
