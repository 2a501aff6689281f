r"""What a second unit brings to phase retrieval by gradient descent from a random start, and what many units bring.

The student is the mean of m squares, the norm is free, all widths move on the clock t = learning_rate * step/m. Success
is a relative error of A = WW^T/m below 0.01 before t_max, which is stated. Failures are told apart by loss and error:
"unfinished", if the error still falls; else "stuck" at a high loss, or "wrong" at none.
"""

from typing import TYPE_CHECKING

import limitlab as ll
from limitlab.gallery.descent.success_curves import part_of
from limitlab.gallery.entry import Check, Entry, Progress, Quick
from limitlab.gallery.figures import Drawing, new_figure, palette, style_axes

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["ENTRY", "problem", "results"]

D, EPS, RUNS, EVERY = 64, 0.02, 40, 50
T_MAX, LONG, AT = 100.0, 400.0, 2.5  # the longer time is given at one ratio
WIDTHS = {"m_1": 1, "m_2": 2, "m_4": 4, "m_d": D}
RATIOS = {"m_1": (2.0, 2.5, 3.0, 4.0, 5.0), "m_2": (2.0, 2.5, 3.0, 4.0), "m_4": (2.0, 2.5, 3.0, 4.0), "m_d": (2.5, 4.0)}
FEW = 6  # runs of the widest student, whose steps cost the most
LABELS = {"m_1": "m = 1", "m_2": "m = 2", "m_4": "m = 4", "m_d": f"m = d = {D}"}
COLOURS = dict(zip(WIDTHS, (palette[1], palette[0], palette[2], palette[3]), strict=True))


def problem(width: int = 2) -> ll.Problem:
    return ll.Problem(
        teacher=ll.SingleIndex(ll.GaussianPrior()),
        channel=ll.Modulus(),
        sample_ratio=AT,
        student=ll.Committee(width, "square"),
        loss=ll.PhaseRetrievalLoss(),
        start=ll.RandomStart(),
        algorithm=ll.GradientDescent(width * EPS, spherical=False),
    )


def results(progress: Progress | None = None) -> "dict[str, xr.Dataset]":
    """Success against alpha by width, and at one ratio for longer: m_1, m_1_long, ..."""
    data, count = {}, 2 * len(WIDTHS) - 1
    for name, width in WIDTHS.items():
        for long in (False, True):
            if long and name == "m_d":
                continue
            told = part_of(progress, len(data), count)
            data[f"{name}_long" if long else name] = ll.success_rate(
                problem(width),
                d=D,
                sample_ratios=[AT] if long else RATIOS[name],
                t_max=LONG if long else T_MAX,
                runs=FEW if name == "m_d" else RUNS,
                seed=int(long),
                every=EVERY,
            )
            if told is not None:
                told(1, 1, f"{LABELS[name]}, t up to {LONG if long else T_MAX:g}")
    return data


def compute(progress: Progress | None) -> "dict[str, xr.Dataset]":
    return results(progress)


def _at(ds: "xr.Dataset", alpha: float = AT) -> "dict[str, float]":
    one = ds.sel(sample_ratio=alpha)
    return {str(name): float(one[name]) for name in one.data_vars}


def _told(p: "dict[str, float]") -> str:
    return f"{p['success_rate']:.2f} [{p['success_rate_low']:.2f}, {p['success_rate_high']:.2f}] by t = {p['t_max']:g}"


def check(data: "dict[str, xr.Dataset]") -> list[Check]:
    long = {name: _at(data[f"{name}_long"]) for name in ("m_1", "m_2", "m_4")}
    soon = {name: _at(data[name]) for name in ("m_1", "m_2", "m_4", "m_d")}
    one, two, four = (long[name] for name in ("m_1", "m_2", "m_4"))
    gain = two["success_rate"] - one["success_rate"]
    more = four["success_rate"] - two["success_rate"]
    return [
        Check(
            f"at alpha = {AT:g} two units succeed more often than one, beyond 95 % intervals",
            two["success_rate_low"] > one["success_rate_high"],
            f"{_told(two)} against {_told(one)}",
        ),
        Check(
            "the second unit is a larger gain than the third and fourth together",
            gain > more,
            f"{gain:+.2f} and {more:+.2f}",
        ),
        Check(
            "failures of four units are unfinished rather than stuck or wrong",
            four["unfinished"] > four["stuck"] + four["wrong"],
            f"{four['unfinished']:.2f} unfinished, {four['stuck']:.2f} stuck, {four['wrong']:.2f} wrong",
        ),
        Check(
            "failures of one unit are stuck rather than unfinished",
            one["stuck"] > one["unfinished"],
            f"{one['stuck']:.2f} stuck, {one['wrong']:.2f} wrong, {one['unfinished']:.2f} unfinished",
        ),
        Check(
            "four units gain from more time",
            four["success_rate"] > soon["m_4"]["success_rate"],
            f"{_told(soon['m_4'])}, {_told(four)}",
        ),
        Check(
            f"as many units as dimensions are not done at alpha = {AT:g} by t = {T_MAX:g}, and none is stuck",
            soon["m_d"]["success_rate"] < 0.5 and soon["m_d"]["stuck"] == 0,
            f"{_told(soon['m_d'])}; {soon['m_d']['unfinished']:.2f} unfinished, {soon['m_d']['stuck']:.2f} stuck",
        ),
        Check(
            "control: with few samples (alpha = 2) no width succeeds in half of its runs",
            max(_at(data[name], 2.0)["success_rate"] for name in ("m_1", "m_2", "m_4")) < 0.5,
            ", ".join(f"{LABELS[name]}: {_at(data[name], 2.0)['success_rate']:.2f}" for name in ("m_1", "m_2", "m_4")),
        ),
    ]


def figure(data: "dict[str, xr.Dataset]") -> Drawing:
    fig, (curves, ends) = new_figure(2, width=5.6, height=4.2)
    for i, (name, label) in enumerate(LABELS.items()):
        ds = data[name]
        p = ds.success_rate.values
        bars = [p - ds.success_rate_low.values, ds.success_rate_high.values - p]
        x = ds.sample_ratio.values + 0.03 * (i - 1.5)
        told = f"{label} ({int(ds.runs[0])} runs)"
        curves.errorbar(x, p, bars, fmt="o-", color=COLOURS[name], ms=5, lw=1.2, elinewidth=1, capsize=2, label=told)
    style_axes(curves, x="samples per weight α = n/d", y="share of runs that succeed", title=f"by t = {T_MAX:g}")
    curves.set_ylim(-0.05, 1.05)
    curves.legend(fontsize="small", frameon=False)
    rows = [key for name in WIDTHS for key in (name, f"{name}_long") if key in data]
    kinds = (
        ("success_rate", "success", palette[2]),
        ("unfinished", "unfinished", palette[5]),
        ("wrong", "wrong fit", palette[3]),
        ("stuck", "stuck", palette[1]),
    )
    for y, key in enumerate(rows):
        one, left = _at(data[key]), 0.0
        for kind, _, colour in kinds:
            ends.bar(y, one[kind], bottom=left, color=colour, width=0.7)
            left += one[kind]
    for _, words, colour in kinds:
        ends.plot([], [], "s", color=colour, label=words)
    words = [f"{LABELS[key.removesuffix('_long')]}\nt ≤ {float(data[key].t_max):g}" for key in rows]
    ends.set_xticks(range(len(rows)), words, fontsize="x-small")
    style_axes(ends, x="width and longest time", y="share of runs", title=f"how runs end at α = {AT:g}")
    ends.grid(visible=False, axis="x")
    ends.legend(fontsize="small", frameon=False, ncol=4, loc="upper center", bbox_to_anchor=(0.5, 1.0))
    ends.set_ylim(0, 1.15)
    fig.suptitle(f"Phase retrieval by gradient descent of m squares from a random start, d = {D} (95 % intervals)")
    return fig


ENTRY = Entry(
    name="second-unit",
    title="Success of gradient descent by width: the second unit is the largest gain",
    claim=f"At alpha = {AT:g} and d = {D} a second unit raises the share of successes beyond its error, more than "
    "further units do; failures of one unit are stuck, those of four are on their way and need more time.",
    compute=compute,
    check=check,
    figure=figure,
    seconds=60,
    quick=Quick({"RUNS": 20, "LONG": 200.0, "FEW": 2}, seconds=25),
)
