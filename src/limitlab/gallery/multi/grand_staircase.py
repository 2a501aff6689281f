r"""The grand staircase: what is learned makes something else learnable.

y = z1^2 + sign(z1 z2 z3). The first direction is found above 0.5752 samples per weight; the product of three signs is
hard by itself, at any number of samples proportional to d, but once z1 is known it is a product of two, found above
pi^2/4. Noise moves both stages.

Message passing climbs the same stairs, iteration by iteration. With a little noise, from an overlap of 0.3 with z1 and
0.01 with z2 and z3, it goes on to find z1 and forgets the others at alpha = 2, where state evolution says how far z1
gets; at alpha = 5 it finds z1 first and then, given z1, the other two.
"""

from typing import TYPE_CHECKING

import numpy as np

import limitlab as ll
from limitlab.gallery.entry import Check, Entry, Progress, Quick
from limitlab.gallery.figures import Drawing, new_figure, palette, style_axes

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["ENTRY"]

TEACHER = ll.MultiIndex(3, "z1^2 + sign(z1*z2*z3)")
NOISES = np.array([0.05, 0.1, 0.2, 0.4])
VARIANCE, START = 0.1, np.diag([0.3, 0.01, 0.01])  # of the runs
BETWEEN, ABOVE = 2.0, 5.0  # sample ratios between both stages, and above
D, REPLICAS, ITERATIONS = 250, 4, 24
AT = 6  # iterations after which runs are compared with state evolution
LINKS = {
    "z1 + z1 z2": ll.MultiIndex(2, "z1 + z1*z2"),
    "z1 z2": ll.MultiIndex(2, "product"),
    "sign(z1 z2)": ll.MultiIndex(2, "parity"),
    "sign(z1) + sign(z1 z2 z3)": ll.MultiIndex(3, "sign(z1) + sign(z1*z2*z3)"),
    "z1² + sign(z1 z2 z3)": TEACHER,
    "sign(z1 z2 z3)": ll.MultiIndex(3, "parity"),
}


def problem(alpha: float = ABOVE, overlap: np.ndarray = START, iterations: int | None = None) -> ll.Problem:
    return ll.Problem(
        teacher=TEACHER,
        channel=ll.GaussianNoise(VARIANCE),
        sample_ratio=alpha,
        start=ll.InformedStart(overlap),
        algorithm=ll.GAMP(iterations=iterations or ITERATIONS),
    )


def compute(progress: Progress | None) -> "dict[str, xr.Dataset]":
    return _stages(progress) | _runs(progress)


def _runs(progress: Progress | None) -> "dict[str, xr.Dataset]":
    """Message passing between both stages and above, and state evolution of z1 alone, the others being unknown."""
    told = problem(BETWEEN, np.diag([START[0, 0], 0.0, 0.0]), AT)
    return {
        "between": ll.simulate(problem(BETWEEN), D, replicas=REPLICAS, seed=1, progress=progress),
        "above": ll.simulate(problem(ABOVE), D, replicas=REPLICAS, seed=2, progress=progress),
        "evolution": ll.predict(told, ll.StateEvolution()),
    }


def _stages(progress: Progress | None) -> "dict[str, xr.Dataset]":
    one, first, last = ll.Problem(teacher=TEACHER), [], []
    for i, teacher in enumerate(LINKS.values()):
        stages = ll.thresholds(teacher).stages
        first.append(stages[0].alpha if stages[0].kind != "hard" else np.inf)
        last.append(stages[-1].alpha)
        if progress is not None:
            progress(i + 1, len(LINKS) + len(NOISES), "links")
    moved = []
    for i, noise in enumerate(NOISES):
        moved.append([stage.alpha for stage in ll.thresholds(TEACHER, ll.GaussianNoise(float(noise))).stages])
        if progress is not None:
            progress(len(LINKS) + i + 1, len(LINKS) + len(NOISES), "noise")
    method, reference = "thresholds", "troiani2024fundamental"
    return {
        "links": ll.analysis.dataset(
            one,
            {"first": ("link", first), "last": ("link", last)},
            {"link": list(LINKS)},
            method=method,
            reference=reference,
        ),
        "noise": ll.analysis.dataset(
            one,
            {"first": ("variance", [m[0] for m in moved]), "last": ("variance", [m[-1] for m in moved])},
            {"variance": NOISES},
            method=method,
            reference=reference,
        ),
    }


def check(data: "dict[str, xr.Dataset]") -> list[Check]:
    links, noise = data["links"], data["noise"]

    def at(name, stage):
        return float(links[stage].sel(link=name))

    stairs = "z1² + sign(z1 z2 z3)"
    runs, told = data["between"].M.values[AT, :, 0, 0], float(data["evolution"].M[AT, 0, 0])
    z = (runs.mean() - told) / (runs.std(ddof=1) / np.sqrt(runs.size))
    lost, found = (data[name].M_singular_values.values[-1, :, 1:].mean(axis=0) for name in ("between", "above"))
    first, second = (_passed(data["above"], k) for k in (0, 1))
    return [
        Check("z1 is found above 0.57517", abs(at(stairs, "first") - 0.575166) < 5e-5, f"{at(stairs, 'first'):.6f}"),
        Check(
            "then z2 and z3 above pi^2/4", abs(at(stairs, "last") - np.pi**2 / 4) < 5e-5, f"{at(stairs, 'last'):.6f}"
        ),
        Check("alone, three signs are hard", at("sign(z1 z2 z3)", "first") == np.inf, "never with O(d) samples"),
        Check(
            "two signs are found above pi^2/4, the product of two fields above 0.593751",
            abs(at("sign(z1 z2)", "last") - np.pi**2 / 4) < 1e-9 and abs(at("z1 z2", "last") - 0.593751) < 1e-6,
            f"{at('sign(z1 z2)', 'last'):.6f}, {at('z1 z2', 'last'):.6f}",
        ),
        Check("z1 + z1 z2 has both at once: E[z|y] counts, not E[y z]", at("z1 + z1 z2", "last") == 0, "trivial"),
        Check(
            "noise makes both stages later",
            bool(np.all(np.diff(noise["first"]) > 0) and np.all(np.diff(noise["last"]) > 0)),
            f"{float(noise['first'][0]):.3f} to {float(noise['first'][-1]):.3f}, {float(noise['last'][0]):.3f} to "
            f"{float(noise['last'][-1]):.3f}",
        ),
        Check(
            f"message passing at alpha = {BETWEEN:g}: z1 is as far as state evolution says after {AT} iterations, the "
            "others are forgotten",
            abs(z) < 4 and float(lost.max()) < 0.01,
            f"z1 {runs.mean():.3f}, theory {told:.3f}, z {z:+.1f}; the others {lost[0]:.4f} in the end",
        ),
        Check(
            f"at alpha = {ABOVE:g} all three are found, z1 first",
            float(found.min()) > 0.3 and bool(np.all(first < second)),
            f"overlaps of the others {found[0]:.2f} and {found[1]:.2f}; half-way after {np.median(first):g} and "
            f"{np.median(second):g} iterations",
        ),
    ]


def _passed(ds: "xr.Dataset", k: int) -> np.ndarray:
    """The first iteration of each run at which the singular value k of M is half of its last."""
    path = ds.M_singular_values.values[..., k]
    return np.argmax(path > path[-1] / 2, axis=0)


def figure(data: "dict[str, xr.Dataset]") -> Drawing:
    fig, (left, middle, right) = new_figure(3, width=4.7, height=4.2)
    top = 4.0
    for k, name in enumerate(LINKS):
        first, last = (float(data["links"][stage].sel(link=name)) for stage in ("first", "last"))
        reached = [alpha for alpha in (first, last) if np.isfinite(alpha)]
        steps = [0.0] + [alpha for alpha in reached for _ in range(2)] + [top]
        heights = [0.0, 0.0] + ([0.25, 0.25, 0.5, 0.5] if len(reached) == 2 else [])
        colour = palette[k % len(palette)]
        left.plot(steps, [k + h for h in heights[: len(steps)]], color=colour, lw=2)
        words = "both at once" if last == 0 else "never" if np.isinf(last) else f"all above {last:.3f}"
        left.text(0.08, k + 0.62, f"{name}: {words}", fontsize="small", color=colour)
    left.set_xlim(-0.08, top)
    left.set_ylim(-0.3, len(LINKS) + 0.1)
    left.set_yticks([])
    style_axes(left, x="samples per weight α = n/d", y="what is found: a line rises by a stage")
    left.set_title("Stages of six links, no noise", fontsize="medium", loc="left")
    x = data["noise"].variance.values
    middle.plot(x, data["noise"]["last"].values, "o-", color=palette[1], label="z2 and z3, given z1")
    middle.plot(x, data["noise"]["first"].values, "o-", color=palette[0], label="z1")
    for alpha, marker in ((BETWEEN, "v"), (ABOVE, "^")):
        middle.plot(VARIANCE, alpha, marker, color="0.3", ms=9, label=f"runs at α = {alpha:g}")
    middle.legend(fontsize="small", frameon=False)
    style_axes(middle, x="variance of the noise", y="α where it is found")
    middle.set_title("z1² + sign(z1 z2 z3) with noise", fontsize="medium", loc="left")
    for name, marker, alpha in (("between", "v", BETWEEN), ("above", "^", ABOVE)):
        values = data[name].M_singular_values.values
        each = values[..., 0], values[..., 1:].mean(axis=-1)
        for k, path in enumerate(each):
            mean, error = path.mean(axis=1), path.std(axis=1, ddof=1) / np.sqrt(path.shape[1])
            shape = {"fmt": marker + "-", "ms": 4, "lw": 1, "capsize": 2, "color": palette[k]}
            label = f"{('z1', 'z2 and z3')[k]}, α = {alpha:g}"
            right.errorbar(np.arange(len(mean)), mean, error, label=label, **shape)
    path = data["evolution"].M.values[:, 0, 0]
    right.plot(np.arange(len(path)), path, "--", color="black", lw=2, label=f"state evolution of z1, α = {BETWEEN:g}")
    right.set_ylim(-0.04, 1.75)
    right.legend(fontsize="small", frameon=False, loc="upper left")
    style_axes(right, x="iteration", y="overlap (singular value of M)")
    right.set_title(f"Message passing climbs them, d = {data['above'].attrs['d']}", fontsize="medium", loc="left")
    fig.suptitle("The grand staircase: what is learned makes something else learnable")
    return fig


ENTRY = Entry(
    name="grand-staircase",
    title="The grand staircase of z1^2 + sign(z1 z2 z3)",
    claim="z1 is found above 0.5752 samples per weight, then z2 and z3 above pi^2/4, although the sign of the product "
    "of three fields is hard by itself; noise makes both stages later, and message passing finds z1 alone between "
    "them, z1 and then the others above.",
    compute=compute,
    check=check,
    figure=figure,
    seconds=200,
    quick=Quick(
        {"NOISES": np.array([0.2, 0.4]), "D": 60, "REPLICAS": 2, "ITERATIONS": 4, "AT": 2},  # the runs are only drawn
        seconds=50,
        full=("message passing at alpha", "at alpha = 5"),
    ),
)
