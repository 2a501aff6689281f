r"""SGD on two Gaussians of different spread is a gradient flow of the law of its units, here of their norms.

.. math:: \partial_t \bar\rho = \partial_r\big(\bar\rho\,\partial_r \Psi(r; \bar\rho)\big), \qquad
          \mathrm{risk}_N(t) = \mathrm{risk}(\bar\rho_t) + O(1/N)

Networks of N = 800 units at d = 40, as in the paper. Their finite width raises the risk by a constant over N, seen by
halving N; without it, SGD and the flow are told apart by no more than the scatter of runs.
"""

from typing import TYPE_CHECKING

import numpy as np

import limitlab as ll
from limitlab.gallery.entry import Check, Entry, Progress, Quick
from limitlab.gallery.figures import Drawing, average, new_figure, palette, paper, style_axes

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.animation import FuncAnimation

__all__ = ["ENTRY", "extrapolated", "problem"]

D, WIDTH, REPLICAS = 40, 800, 6
DELTAS = (0.2, 0.4, 0.6)
FILMED = 0.6
TIMES = np.array([0.0, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5])
SHOWN = (0.0, 0.2, 0.5, 1.5)
DENSE = np.unique(np.concatenate([np.linspace(0, 0.3, 16), np.linspace(0.3, 1.5, 25), TIMES]))
FILM = np.round(np.linspace(0, 1.5, 31), 2)
STEP_NOISE, BATCH = 2e-2, 50  # d eta/b = 4e-4: with |sigma'| = 10 the noise of larger steps would inflate the norms
EDGES = np.linspace(0.3, 2.5, 45)


def problem(delta: float, width: int = WIDTH) -> ll.Problem:
    return ll.library.isotropic_mixture(delta, width, STEP_NOISE, BATCH)


def name(kind: str, delta: float) -> str:
    return f"{kind}_{round(100 * delta)}"


def compute(progress: Progress | None) -> "dict[str, xr.Dataset]":
    data = {}
    for delta in DELTAS:
        one = problem(delta)
        data[name("flow", delta)] = ll.predict(one, ll.RadialFlow(d=D, tolerance=1e-5, rtol=1e-8), DENSE)
        data[name("sgd", delta)] = ll.simulate(one, D, TIMES, REPLICAS, 0, "weights", progress)
        half = problem(delta, WIDTH // 2)
        data[name("half", delta)] = ll.simulate(half, D, TIMES, REPLICAS, 0, "weights", progress)
    volumes = ll.RadialFlow(d=D, method="volumes", cells=1600, reach=3.0)
    data["density"] = ll.predict(problem(FILMED), volumes, np.unique(np.concatenate([FILM, SHOWN])))
    data["film"] = ll.simulate(problem(FILMED), D, FILM, 1, 1, "weights", progress)
    return data


def extrapolated(data: "dict[str, xr.Dataset]", delta: float) -> "xr.Dataset":
    """SGD's risk at infinite width: twice that of N units less that of N/2, run by run."""
    whole, half = data[name("sgd", delta)], data[name("half", delta)]
    return whole[["status", "end_time"]].assign(risk=2 * whole.risk - half.risk)


def check(data: "dict[str, xr.Dataset]") -> list[Check]:
    checks = []
    for delta in DELTAS:
        flow, sgd = data[name("flow", delta)], data[name("sgd", delta)]
        gap = ll.compare(extrapolated(data, delta), flow, variables="risk")
        raw = ll.compare(sgd, flow, variables="risk")
        excess = WIDTH * float((sgd.risk.mean("replica") - flow.risk).isel(time=-1))
        checks.append(
            Check(
                f"delta = {delta}: SGD's risk, without what finite width adds, is the flow's",
                gap.agrees,
                f"largest |z| {gap.max_z:.2f} over {len(TIMES)} times, {REPLICAS} runs; N = {WIDTH} itself is above by "
                f"{excess:.1f}/N at the end (|z| {raw.max_z:.1f})",
            )
        )
    late = [
        ll.compare(extrapolated(data, delta), _late(data[name("flow", delta)]), variables="risk").max_z
        for delta in DELTAS
    ]
    checks.append(
        Check(
            "control: a clock that is wrong by 2 is noticed",
            bool(np.min(late) > 4),
            f"largest |z| {', '.join(f'{z:.1f}' for z in late)}",
        )
    )
    own = np.max([_distance(data, delta, delta) for delta in DELTAS])
    other = min(_distance(data, here, there) for here in DELTAS for there in DELTAS if here != there)
    checks.append(
        Check(
            "the norms of its units are those of the flow, and of no other delta's",
            bool(own < 0.02 and other > 3 * own),
            f"W2 at most {own:.4f} in the mean over runs (of the order of N^-1/2 times their spread); to another "
            f"delta's flow at least {other:.3f} at the end",
        )
    )
    density, particles = data["density"], data[name("flow", FILMED)]
    apart = float(abs(density.risk - particles.risk).max())
    checks.append(
        Check(
            "the density by finite volumes has the same risk, keeps its mass and is not negative",
            apart < 0.003 and density.attrs["mass_error"] < 1e-12 and float(density.density.min()) >= 0,
            f"risk to {apart:.4f} with {density.attrs['cells']} cells, mass to {density.attrs['mass_error']:.0e}",
        )
    )
    worst = np.max([np.diff(data[name("flow", delta)].risk.values) for delta in DELTAS])
    checks.append(
        Check("the risk falls along every flow", bool(worst < 0), f"largest change between two times {worst:.1e}")
    )
    return checks


def _late(flow: "xr.Dataset") -> "xr.Dataset":
    return flow.assign_coords(time=2 * flow.time)


def _distance(data: "dict[str, xr.Dataset]", here: float, there: float) -> float:
    """W2 of SGD's norms at one delta to the flow at another: the largest over time, or at the end if they differ."""
    sgd = data[name("sgd", here)]
    found = ll.wasserstein(sgd if here == there else sgd.isel(time=[-1]), data[name("flow", there)])
    return float(np.max(found.mean("replica").values))


def figure(data: "dict[str, xr.Dataset]") -> Drawing:
    fig, (left, right, third) = new_figure(3, width=4.8, height=4.4)
    for colour, delta in zip(palette, DELTAS, strict=False):
        flow, sgd = data[name("flow", delta)], data[name("sgd", delta)]
        left.plot(flow.time, flow.risk, color=colour, lw=1.8, label=f"flow, δ = {delta}")
        mean, error = average(sgd.risk.transpose("replica", "time").values)
        left.errorbar(TIMES, mean, error, fmt="o", color=colour, ms=4.5, elinewidth=1, label=f"SGD, δ = {delta}")
        mean, error = average(ll.wasserstein(sgd, flow).transpose("replica", "time").values)
        third.errorbar(TIMES, mean, error, fmt="o-", color=colour, ms=4.5, lw=0.8, capsize=2, label=f"δ = {delta}")
    left.set_ylim(0)
    style_axes(left, x="time t = γ·step/(p·d)", y="risk = ½E(y − f)²")
    left.set_title(f"Risk (bars < points): N = {WIDTH}, d = {D}, {REPLICAS} runs", fontsize="medium", loc="left")
    left.legend(fontsize="small", frameon=False, ncol=3, loc="upper center", bbox_to_anchor=(0.5, -0.14))

    density, sgd = data["density"], data[name("sgd", FILMED)]
    seen = ll.analysis.radial_density(sgd.sel(time=list(SHOWN)), EDGES).density
    for colour, time in zip((palette[4], palette[3], palette[0], palette[2]), SHOWN, strict=True):
        right.plot(density.radius, density.density.sel(time=time), color=colour, lw=1.8, label=f"flow, t = {time:g}")
        mean, error = average(seen.sel(time=time).transpose("replica", "radius").values)
        right.errorbar(seen.radius, np.where(mean > 0, mean, np.nan), error, fmt="o", color=colour, ms=3.5)
    right.errorbar([], [], [], fmt="o", color="0.3", ms=3.5, label="SGD")
    right.set(xlim=(EDGES[0], EDGES[-1]), ylim=(0, None))
    style_axes(right, x="norm r = |w|/√d", y="density of norms")
    right.set_title(f"The law of the units' norms, δ = {FILMED}", fontsize="medium", loc="left")
    right.legend(fontsize="small", frameon=False, ncol=3, loc="upper center", bbox_to_anchor=(0.5, -0.14))
    third.set_ylim(0)
    style_axes(third, x="time t", y="Wasserstein distance W2 of the norms")
    third.set_title("From SGD's norms to the flow's", fontsize="medium", loc="left")
    third.legend(fontsize="small", frameon=False, ncol=3, loc="upper center", bbox_to_anchor=(0.5, -0.14))
    fig.suptitle("SGD is a gradient flow of the law of units: Gaussians of spreads 1 ± δ")
    return fig


def animation(data: "dict[str, xr.Dataset]") -> "FuncAnimation":
    """The law of norms on the left, the risk on the right, at equal times."""
    from matplotlib.animation import FuncAnimation

    density, film, flow = data["density"], data["film"].isel(replica=0), data[name("flow", FILMED)]
    seen = ll.analysis.radial_density(film, EDGES).density
    fig, (left, right) = paper(2, width=4.4, height=3.6)
    bars = left.bar(seen.radius, seen[0], np.diff(EDGES), color=palette[0], alpha=0.35, label=f"SGD, N = {WIDTH}")
    (line,) = left.plot(density.radius, density.density[0], color=palette[1], lw=2, label="flow")
    left.set(xlim=(EDGES[0], EDGES[-1]), ylim=(0, 1.1 * float(density.density.max())))
    left.legend(fontsize="small", frameon=False, loc="upper left")
    style_axes(left, x="norm r = |w|/√d", y="density of norms")
    right.plot(flow.time, flow.risk, color=palette[1], lw=2, label="flow")
    (points,) = right.plot([], [], "o", color=palette[0], ms=4, label="SGD")
    right.set_ylim(0, 1.05 * float(flow.risk[0]))
    right.legend(fontsize="small", frameon=False)
    style_axes(right, x="time t", y="risk")

    def draw(i: int):
        for bar, height in zip(bars, seen[i].values, strict=True):
            bar.set_height(height)
        line.set_ydata(density.density.sel(time=FILM[i]).values)
        points.set_data(FILM[: i + 1], film.risk.values[: i + 1])
        fig.suptitle(f"δ = {FILMED}, d = {D}, t = {FILM[i]:.2f}")
        return (*bars, line, points)

    return FuncAnimation(fig, draw, frames=len(FILM))


ENTRY = Entry(
    name="isotropic",
    title="SGD on two Gaussians is a gradient flow of the law of its units",
    claim="Up to what their finite width adds, the risk of networks of 800 units and the law of their norms follow the "
    "radial flow at d = 40, for deltas on both sides of the critical one.",
    compute=compute,
    check=check,
    figure=figure,
    seconds=55,
    quick=Quick({"REPLICAS": 5, "DELTAS": (0.4, 0.6)}, seconds=25),
    animation=animation,
)
