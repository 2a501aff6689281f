r"""Two steps on one batch learn what one pass over new samples does not see.

One erf unit, square loss, n = 3 d samples of a polynomial link, from w orthogonal to the teacher. The first step moves
the field of every sample by its own force, so that it depends on the label in a way that is not linear; the second
step, on the same samples, correlates with E[T(y) z], T not linear. The third Hermite polynomial (information exponent
3) is learned in two steps; with n new samples at every step nothing is. Even links need E[z | y], which is zero.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

import limitlab as ll
from limitlab.gallery.descent.success_curves import part_of
from limitlab.gallery.entry import Check, Entry, Progress, Quick
from limitlab.gallery.figures import Drawing, average, new_figure, palette, style_axes

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["ENTRY", "problem", "two_steps"]

ALPHA, D, RUNS, STEPS = 3.0, 800, 16, 8
HE2, HE3 = "0.7071067811865476*(z1^2 - 1)", "0.4082482904638631*(z1^3 - 3*z1)"
LINKS = {  # name -> text, step, words
    "he3": (HE3, 1.0, "He₃, exponent 3"),
    "mixed": (f"0.7071067811865476*({HE2} + {HE3})", 0.5, "He₂ + He₃, exponent 2"),
    "he2": (HE2, 1.0, "He₂, even"),
}
LIMIT = ll.DMFT(trajectories=8192, batches=12)


def problem(link: str = "he3", fresh: bool = False) -> ll.Problem:
    text, rate, _ = LINKS[link]
    return ll.Problem(
        teacher=ll.MultiIndex(1, text),
        sample_ratio=ALPHA,
        student=ll.Committee(1, "erf"),
        loss=ll.SquareLoss(),
        start=ll.OverlapStart(Q=[[1.0]], M=[[0.0]], P=[[1.0]]),
        algorithm=ll.GradientDescent(rate, spherical=False, fresh=fresh),
    )


def two_steps(link: str) -> float:
    """m after two steps on one batch as d grows, exactly: a Gaussian integral over the teacher's field z, h and xi.

    m_1 = -eps alpha E[g z], h' = h + m_1 z - eps (g + K h + sqrt(v) xi), K = alpha E[g'], v = alpha E[g^2].
    """
    from scipy.special import erf

    eps = LINKS[link][1]
    grid = np.linspace(-9, 9, 361)
    density = np.exp(-(grid**2) / 2) / np.sqrt(2 * np.pi) * (grid[1] - grid[0])
    z, h, weight = grid[:, None], grid[None, :], density[:, None] * density[None, :]
    teacher: Any = problem(link).teacher
    y = np.asarray(teacher.link.on_host(z.reshape(-1, 1))).reshape(-1, 1)

    def slope(h):
        return np.sqrt(2 / np.pi) * np.exp(-(h**2) / 2)

    def off(h):
        return erf(h / np.sqrt(2)) - y

    g, J = off(h) * slope(h), slope(h) ** 2 - off(h) * h * slope(h)
    first = -eps * ALPHA * np.sum(weight * g * z)
    K, v = ALPHA * np.sum(weight * J), ALPHA * np.sum(weight * g**2)
    nodes, shares = np.polynomial.hermite_e.hermegauss(24)
    pull = 0.0
    for x, share in zip(nodes, shares / np.sqrt(2 * np.pi), strict=True):
        later = h + first * z - eps * (g + K * h + np.sqrt(v) * x)
        pull += share * np.sum(weight * off(later) * slope(later) * z)
    return float(first - eps * ALPHA * pull)


def times(link: str) -> np.ndarray:
    return LINKS[link][1] * np.arange(STEPS + 1)


def results(d: int, runs: int, limit: ll.DMFT, progress: Progress | None = None) -> "dict[str, xr.Dataset]":
    """Simulations on one batch and on new ones, and the theory: he3, he3_fresh, he3_dmft, ..."""
    data = {}
    for i, link in enumerate(LINKS):
        for j, fresh in enumerate((False, True)):
            told, seed = part_of(progress, 2 * i + j, 2 * len(LINKS)), 2 * i + j  # own data sets for each
            one = problem(link, fresh)
            data[f"{link}_fresh" if fresh else link] = ll.simulate(one, d, times(link), runs, seed, progress=told)
        data[f"{link}_dmft"] = ll.predict(problem(link), limit, times(link))
    return data


def compute(progress: Progress | None) -> "dict[str, xr.Dataset]":
    return results(D, RUNS, LIMIT, progress)


def _overlap(ds: "xr.Dataset") -> "xr.DataArray":
    return ds["M"].isel(student=0, teacher=0).transpose("replica", "time")


def _scores(ds: "xr.Dataset", exact: float) -> np.ndarray:
    """z of the mean of m at all times but the first, against a number."""
    mean, error = average(_overlap(ds).values[:, 1:])
    return (mean - exact) / np.maximum(np.nan_to_num(0.0 if error is None else error), 1e-12)


def check(data: "dict[str, xr.Dataset]") -> list[Check]:
    exact = {link: two_steps(link) for link in LINKS}
    checks = [
        Check(
            "two steps on one batch learn He3 by -0.258948, exactly",
            abs(exact["he3"] + 0.258948) < 1e-5,
            f"{exact['he3']:.6f}",
        )
    ]
    for link, (_, _, words) in LINKS.items():
        sim, theory = data[link], data[f"{link}_dmft"]
        z = float(_scores(theory.isel(time=[0, 2]), exact[link])[0])
        mean = float(_overlap(theory).values[:, 2].mean())
        statement = f"{words}: mean-field theory has the exact overlap after two steps"
        checks.append(Check(statement, abs(z) < 4, f"{mean:.4f}, exact {exact[link]:.4f}, z {z:+.1f}"))
        gap = ll.compare(sim, theory, variables=["train_loss"] if link == "he2" else ["M", "train_loss"])
        told = ", ".join(f"{entry.variable} {entry.z:+.2f}" for entry in gap.entries)
        checks.append(Check(f"{words}: {STEPS} steps on one batch are as the theory says", gap.agrees, f"z: {told}"))
        worst = float(np.max(np.abs(_scores(data[f"{link}_fresh"], 0.0))))
        checks.append(
            Check(f"{words}: new samples at every step teach nothing", worst < 4, f"largest |z| from 0: {worst:.1f}")
        )
    for link in ("he3", "mixed"):
        z = float(np.min(np.abs(_scores(data[link], 0.0)[[1, -1]])))
        statement = f"{LINKS[link][2]}: one batch teaches, after two steps and after {STEPS}"
        checks.append(Check(statement, z > 6, f"least |z| from 0: {z:.0f}"))
    even = float(np.max(np.abs(_scores(data["he2"], 0.0))))
    checks.append(Check("an even link teaches nothing even so", even < 4, f"largest |z| from 0: {even:.1f}"))
    wrong = ll.compare(data["he3_fresh"], data["he3_dmft"], variables="M", check_problem=False)
    statement = "control: the theory of one batch does not describe new samples"
    checks.append(Check(statement, not wrong.agrees, f"|z| {wrong.max_z:.0f}"))
    return checks


def figure(data: "dict[str, xr.Dataset]") -> Drawing:
    fig, panels = new_figure(3, width=4.4, height=3.9)
    lowest = min(float(_overlap(data[link]).mean("replica").min()) for link in LINKS)
    for axes, (link, (_, rate, words)) in zip(panels, LINKS.items(), strict=True):
        steps = np.arange(STEPS + 1)
        mean, _ = average(_overlap(data[f"{link}_dmft"]).values)
        axes.plot(steps, mean, color=palette[0], lw=1.5, label="DMFT, one batch")
        for name, colour, marker, label in (
            (link, palette[0], "o", "simulation, one batch"),
            (f"{link}_fresh", palette[1], "s", "simulation, new samples at each step"),
        ):
            mean, error = average(_overlap(data[name]).values)
            axes.errorbar(steps, mean, error, fmt=marker, color=colour, ms=5, elinewidth=1, capsize=2, label=label)
        axes.plot(2, two_steps(link), "*", color="black", ms=12, zorder=5, label="exact after two steps")
        axes.axhline(0, color="0.6", lw=0.8)
        axes.set_ylim(1.15 * lowest, 0.15)
        style_axes(axes, x="step", y="overlap m with the teacher", title=f"{words}, step size {rate:g}")
    one = data["he3"]
    panels[1].legend(fontsize="small", frameon=False, ncol=2, loc="upper center", bbox_to_anchor=(0.5, -0.18))
    fig.suptitle(
        f"Reusing a batch of n = {ALPHA:g} d samples: an erf unit learns odd links in two steps "
        f"(d = {one.attrs['d']}, mean of {one.sizes['replica']} runs ± standard error)"
    )
    return fig


ENTRY = Entry(
    name="batch-reuse",
    title="What two steps on one batch learn, and new samples at every step do not",
    claim="An erf unit learns He3 (information exponent 3) in two steps on one batch of n = 3 d samples, by the amount "
    "of an exact integral that mean-field theory and simulations share; with new samples at every step, and for even "
    "links, the overlap stays zero.",
    compute=compute,
    check=check,
    figure=figure,
    seconds=40,
    quick=Quick({"D": 400, "RUNS": 32, "LIMIT": ll.DMFT(trajectories=4096, batches=12)}, seconds=25),
)
