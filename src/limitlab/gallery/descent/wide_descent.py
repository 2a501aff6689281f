r"""Dynamical mean-field theory of committees: two and three units on a fixed data set, step by step.

Two students of phase retrieval beside one direction: two squares by gradient descent, and three by persistent SGD. The
theory has an m x m block for every pair of times. Points are simulations at d = 1000; a unit that begins without
overlap (M = 0) stays without in the limit and is drawn all the same.
"""

from typing import TYPE_CHECKING

import numpy as np

import limitlab as ll
from limitlab.gallery.descent.success_curves import part_of
from limitlab.gallery.entry import Check, Entry, Progress, Quick
from limitlab.gallery.figures import Drawing, Panel, average, new_figure, palette, style_axes

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["ENTRY", "problem", "results"]

ALPHA, EPS = 3.0, 0.01
STARTS = {"two": (0.5, 0.2), "three": (0.5, 0.2, 0.0)}
LABELS = {"two": "two units, gradient descent", "three": "three units, persistent SGD (b = ½, τ = 1)"}
TIMES = np.linspace(0, 1, 11)
D, RUNS = 1000, 16
LIMIT = ll.DMFT(trajectories=4096, batches=8)
SEEN = ("M", "Q", "train_loss", "C")


def problem(case: str = "two") -> ll.Problem:
    M = STARTS[case]
    rate = len(M) * EPS  # on the clock t = learning_rate * step/m
    rule = ll.GradientDescent(rate, spherical=False)
    if case == "three":
        rule = ll.PersistentSGD(rate, batch_fraction=0.5, persistence_time=1.0, spherical=False)
    return ll.Problem(
        teacher=ll.SingleIndex(ll.GaussianPrior()),
        channel=ll.Modulus(),
        sample_ratio=ALPHA,
        student=ll.Committee(len(M), "square"),
        loss=ll.PhaseRetrievalLoss(),
        start=ll.OverlapStart(Q=np.eye(len(M)), M=np.array(M)[:, None], P=[[1.0]]),
        algorithm=rule,
    )


def results(d: int, runs: int, limit: ll.DMFT, progress: Progress | None = None) -> "dict[str, xr.Dataset]":
    """Simulation and theory of both students, each on data sets of its own: two, two_dmft, three, three_dmft."""
    data = {}
    for i, case in enumerate(STARTS):
        one = problem(case)
        data[case] = ll.simulate(one, d, TIMES, runs, i, progress=part_of(progress, i, len(STARTS)))
        data[f"{case}_dmft"] = ll.predict(one, limit, TIMES)
    return data


def compute(progress: Progress | None) -> "dict[str, xr.Dataset]":
    return results(D, RUNS, LIMIT, progress)


def check(data: "dict[str, xr.Dataset]") -> list[Check]:
    checks = []
    for case, label in LABELS.items():
        gap = ll.compare(data[case], data[f"{case}_dmft"], variables=SEEN)
        told = ", ".join(f"{entry.variable} {entry.z:+.2f}" for entry in gap.entries)
        checks.append(Check(f"{label}: M, Q, loss and C(t, t') as the theory says", gap.agrees, f"z: {told}"))
    for case, label in LABELS.items():
        units = data[case].sizes["student"]
        late = data[f"{case}_dmft"].assign_coords(time=TIMES * units, time_2=TIMES * units)
        wrong = ll.compare(data[case], late, variables="M")
        statement = f"control: a clock without 1/m is noticed ({label})"
        checks.append(Check(statement, not wrong.agrees, f"|z| {wrong.max_z:.0f}"))
    two, three = (data[f"{case}_dmft"].isel(student=slice(2), student_2=slice(2)) for case in STARTS)
    apart = float(abs(two.train_loss.mean("replica") - three.train_loss.mean("replica")).max())
    checks.append(Check("the two students do not move alike", apart > 0.02, f"losses differ by up to {apart:.3f}"))
    third = data["three_dmft"]["M"].isel(student=2, teacher=0).transpose("replica", "time")
    mean, error = average(third.values[:, -1:])
    z = float(mean[0] / max(float(np.ravel(0.0 if error is None else error)[0]), 1e-12))
    told = f"{float(mean[0]):.4f}, z {z:+.1f}"
    checks.append(Check("a unit without overlap stays without in the theory", abs(z) < 4, told))
    return checks


def figure(data: "dict[str, xr.Dataset]") -> Drawing:
    fig, panels = new_figure(6, width=4.4, height=3.5)
    for row, (case, label) in enumerate(LABELS.items()):
        overlap, norm, loss = panels[3 * row : 3 * row + 3]
        units = data[case].sizes["student"]
        for a in range(units):
            colour = palette[a]
            _draw(overlap, data, case, lambda ds, a=a: ds["M"].isel(student=a, teacher=0), colour, "o", "-")
            _draw(norm, data, case, lambda ds, a=a: ds["Q"].isel(student=a, student_2=a), colour, "o", "-")
            _draw(norm, data, case, lambda ds, a=a: ds["C"].isel(time_2=0, student=a, student_2=a), colour, "^", "--")
            overlap.plot([], [], "o-", color=colour, ms=4, label=f"unit {a + 1}")
        _draw(norm, data, case, lambda ds: ds["Q"].isel(student=0, student_2=1), "0.4", "s", ":")
        _draw(loss, data, case, lambda ds: ds["train_loss"], "black", "o", "-")
        for marker, words in (("o-", "norm Q_aa(t)"), ("^--", "memory C_aa(t, 0)"), ("s:", "between units, Q_12(t)")):
            norm.plot([], [], marker, color="0.4", ms=4, label=words)
        loss.errorbar([], [], [], fmt="o", color="black", ms=4, label="simulation ± standard error")
        loss.plot([], [], color="black", label="DMFT")
        loss.set_yscale("log")
        style_axes(overlap, x="time t = ε·step", y="overlap M with the teacher", title=label)
        style_axes(norm, x="time t = ε·step", y="overlaps among units", title="norms and memory")
        style_axes(loss, x="time t = ε·step", y="training loss", title="loss on the data set")
        for axes in (overlap, norm, loss):
            axes.legend(fontsize="x-small", frameon=False)
    one = data["two"]
    fig.suptitle(
        f"Committees of squares at α = {ALPHA:g}: mean-field theory (lines) and {one.sizes['replica']} simulations at "
        f"d = {one.attrs['d']} (points)"
    )
    return fig


def _draw(axes: Panel, data: "dict[str, xr.Dataset]", case: str, of, colour: str, marker: str, line: str) -> None:
    theory, sim = (of(data[name]).transpose("replica", "time") for name in (f"{case}_dmft", case))
    axes.plot(theory.time, average(theory.values)[0], line, color=colour, lw=1.4)
    mean, error = average(sim.values)
    axes.errorbar(sim.time, mean, error, fmt=marker, color=colour, ms=4, elinewidth=1, capsize=2)


ENTRY = Entry(
    name="wide-descent",
    title="Mean-field theory of two and three units on a fixed data set",
    claim=f"Two squares by gradient descent and three by persistent SGD at d = {D} follow dynamical mean-field theory "
    "in all overlaps, training loss and two-time correlation, on the clock t = learning_rate * step/m.",
    compute=compute,
    check=check,
    figure=figure,
    seconds=100,
    quick=Quick(
        {"D": 400, "RUNS": 8, "LIMIT": ll.DMFT(trajectories=1024, batches=8)},
        seconds=50,
        full=("control: a clock without 1/m",),
    ),
)
