r"""A wide student of squares finds the signal of phase retrieval with about twice as many samples as weights.

.. math:: \frac{dA}{ds} = S A + A S, \qquad A = WW^T/m, \quad S = \sum_\mu (y_\mu^2 - x_\mu^T A x_\mu)\, x_\mu x_\mu^T

ends at zero loss if m >= d. Whether that is the teacher depends on the data alone: the theorem (Sarao Mannelli,
Vanden-Eijnden, Zdeborova 2020) says never for alpha <= 2 and with a positive probability above, as d grows. Each data
set is looked at twice: by the flow for several widths m, and by a certificate that no other A >= 0 fits it.
"""

import math
from typing import TYPE_CHECKING

import numpy as np

import limitlab as ll
from limitlab.gallery.descent.success_curves import chance, found_of, part_of, success_curve
from limitlab.gallery.entry import Check, Entry, Progress, Quick
from limitlab.gallery.figures import Drawing, new_figure, palette, style_axes

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["ENTRY", "certificates", "curve", "problem"]

D, RUNS = 20, 16
RATIOS = (1.25, 1.5, 2.0, 2.5, 3.0)
WIDTHS = {"m_1": 1, "m_2": 2, "m_d": D, "m_infinite": math.inf}
NAMES = {"m_1": "m = 1", "m_2": "m = 2", "m_d": f"m = d = {D}", "m_infinite": "m = ∞"}
S_MAX = 1e6  # where the teacher is found, the error falls as a power of s
NEVER, ALWAYS = 1.25, 3.0  # at 1.5 about one data set in 200 of d = 20 has one solution, at 1.25 none of 460
THEOREM = 2.0
FITTED = 1e-6  # a loss below this is on its way to zero
CLEAR = 1e-3  # of kappa: below it the flow may take longer than S_MAX
UNLIKELY = 0.01  # the level at which two shares differ
EXACT = 1e-9  # a certificate obeys its constraint to rounding


def problem(alpha: float = ALWAYS) -> ll.Problem:
    return ll.library.wide_phase_retrieval(alpha, width=D)


def curve(width: float, runs: int = RUNS, ratios=RATIOS, progress: Progress | None = None) -> "xr.Dataset":
    """Which data sets a student of this width recovers by s = `S_MAX`."""

    def run(alpha: float, number: int, told: Progress | None) -> "xr.Dataset":
        seen = ll.predict(problem(alpha), ll.MatrixFlow(d=D, width=width, replicas=runs, seed=number), [S_MAX])
        if told is not None:
            told(1, 1, f"flow of A, m = {width:g}, alpha = {alpha:g}")
        return seen

    last = ("error", "train_loss")
    return success_curve(problem(ratios[0]), run, ratios, progress, "MatrixFlow", last, d=D, s_max=S_MAX)


def certificates(runs: int = RUNS, ratios=RATIOS, progress: Progress | None = None) -> "xr.Dataset":
    """kappa of the same data sets, whether that is a proof, and what a lambda in the wrong order would prove."""
    names = ("kappa", "unique", "residual", "wrong_residual")
    columns = {name: np.zeros((len(ratios), runs)) for name in names}
    for i, alpha in enumerate(ratios):
        for replica in range(runs):
            found = ll.uniqueness(problem(alpha), D, i, replica=replica)
            values = found.multipliers
            columns["kappa"][i, replica] = found.kappa
            columns["unique"][i, replica] = found.unique
            columns["residual"][i, replica] = found.verify().residual
            columns["wrong_residual"][i, replica] = 1 if values is None else found.verify(np.roll(values, 1)).residual
        if progress is not None:
            progress(i + 1, len(ratios), f"certificates, alpha = {alpha:g}")
    axes = ("sample_ratio", "data_set")
    return ll.analysis.dataset(
        problem(ratios[0]),
        {name: (axes, column) for name, column in columns.items()},
        {"sample_ratio": list(ratios), "data_set": np.arange(runs)},
        method="uniqueness",
        attrs={"d": D},
    )


def compute(progress: Progress | None) -> "dict[str, xr.Dataset]":
    parts = len(WIDTHS) + 1
    data = {
        name: curve(width, RUNS, RATIOS, part_of(progress, i, parts)) for i, (name, width) in enumerate(WIDTHS.items())
    }
    return data | {"certificate": certificates(RUNS, RATIOS, part_of(progress, parts - 1, parts))}


def check(data: "dict[str, xr.Dataset]") -> list[Check]:
    proof = data["certificate"]
    unique = proof.unique.values > 0
    wide = {NAMES[name]: data[name] for name in ("m_d", "m_infinite")}
    found = {name: ds.success.values > 0 for name, ds in wide.items()}
    clear = unique & (proof.kappa.values > CLEAR)
    middle = RATIOS.index(THEOREM)
    two = data["m_2"].success.values > 0
    other = data["m_infinite"].sel(sample_ratio=THEOREM)
    rivals = two[middle] & ~found["m = ∞"][middle]  # two units recover, many do not
    luck = chance(two[middle], found["m = ∞"][middle])
    below, above = ({name: found_of(ds, alpha) for name, ds in wide.items()} for alpha in (NEVER, ALWAYS))
    row, top = RATIOS.index(NEVER), RATIOS.index(ALWAYS)
    lost = data["m_infinite"].sel(sample_ratio=NEVER)
    one, endless = (ll.success_rate(data[name]).sel(sample_ratio=ALWAYS) for name in ("m_1", "m_infinite"))
    same = float(np.mean(found["m = ∞"] == found[NAMES["m_d"]]))
    return [
        Check(
            f"alpha = {NEVER:g} is never enough for m >= d, and no data set is certified",
            not any(hits[row].any() for hits in found.values()) and not unique[row].any(),
            "; ".join(f"{name}: {text}" for name, text in below.items()) + f"; certified {int(unique[row].sum())}",
        ),
        Check(
            "there the flow fits all the data at another A",
            float(lost.train_loss.max()) < FITTED and float(lost.error.min()) > 0.01,
            f"loss at most {float(lost.train_loss.max()):.0e}, relative error {float(lost.error.min()):.2f} to "
            f"{float(lost.error.max()):.2f}",
        ),
        Check(
            f"alpha = {ALWAYS:g} is always enough for m >= d, and every data set is certified",
            all(hits[top].all() for hits in found.values()) and bool(unique[top].all()),
            "; ".join(f"{name}: {text}" for name, text in above.items()) + f"; certified {int(unique[top].sum())}",
        ),
        Check(
            f"a data set that is certified clearly (kappa > {CLEAR:g}) is recovered, whatever alpha",
            all(bool(hits[clear].all()) for hits in found.values()),
            "; ".join(f"{name}: {int(hits[clear].sum())} of {int(clear.sum())}" for name, hits in found.items())
            + f", by s = {S_MAX:g}; of all certified ones {int(found['m = ∞'][unique].sum())} of {int(unique.sum())}",
        ),
        Check(
            "a width of d is as good as an infinite one",
            same > 0.9,
            f"both succeed or both fail on {same:.1%} of {unique.size} data sets",
        ),
        Check(
            f"one unit is trapped where many are not: alpha = {ALWAYS:g}",
            float(one.success_rate_high) < float(endless.success_rate_low),
            f"m = 1: {found_of(data['m_1'], ALWAYS)}, m = 2: {found_of(data['m_2'], ALWAYS)}, "
            f"m = ∞: {found_of(data['m_infinite'], ALWAYS)}",
        ),
        Check(
            f"two units need fewer samples than many: alpha = {THEOREM:g}",
            luck < UNLIKELY,
            f"m = 2: {found_of(data['m_2'], THEOREM)}, m = ∞: {found_of(data['m_infinite'], THEOREM)} on the same data "
            f"sets; by chance with probability {luck:.1e}",
        ),
        Check(
            "the reason: where many units fail and two do not, many have found another A that fits all the data",
            bool(np.all(other.train_loss.values[rivals] < FITTED) and np.all(other.error.values[rivals] > 0.01)),
            f"{int(rivals.sum())} data sets at alpha = {THEOREM:g}: loss at most "
            f"{float(np.max(other.train_loss.values[rivals], initial=0.0)):.0e}; two units have {2 * D - 1} numbers "
            f"to fit {round(THEOREM * D)} labels with, many have {D * (D + 1) // 2}",
        ),
        Check(
            "control: a certificate obeys its constraint, and its numbers in another order do not",
            float(proof.residual.max()) < EXACT and float(proof.wrong_residual.min()) > 1e-3,
            f"largest residual {float(proof.residual.max()):.0e}, in the wrong order at least "
            f"{float(proof.wrong_residual.min()):.2f}",
        ),
    ]


def figure(data: "dict[str, xr.Dataset]") -> Drawing:
    fig, (left, right) = new_figure(2, width=5.6, height=4.4)
    styles = zip(NAMES.items(), (palette[1], palette[4], palette[0], palette[2]), "^Dso", strict=True)
    for i, ((name, label), colour, marker) in enumerate(styles):
        rate = ll.success_rate(data[name])
        share = rate.success_rate.values
        bars = [share - rate.success_rate_low.values, rate.success_rate_high.values - share]
        x = rate.sample_ratio.values + 0.03 * (i - 1.5)
        left.errorbar(x, share, bars, fmt=f"{marker}-", color=colour, ms=5, lw=1, capsize=2, label=f"flow, {label}")
    proof = data["certificate"]
    share = proof.unique.mean("data_set").values
    low, high = ll.analysis.wilson(share, proof.sizes["data_set"])
    left.fill_between(proof.sample_ratio, low, high, color="0.5", alpha=0.25, lw=0, label="certified unique (95 %)")
    _theorem(left)
    left.set_ylim(-0.03, 1.03)
    left.legend(fontsize="small", frameon=False, ncol=3, loc="upper center", bbox_to_anchor=(0.5, -0.16))
    style_axes(left, x="samples per weight α = n/d", y=f"share of {RUNS} data sets recovered by s = 10⁶")
    left.set_title("Two units have fewer wrong ways to fit the data than many", fontsize="medium", loc="left")

    scatter = np.random.default_rng(0).uniform(-0.09, 0.09, proof.kappa.shape)
    x, kappa = proof.sample_ratio.values[:, None] + scatter, proof.kappa.values
    hit = data["m_infinite"].success.values > 0
    for chosen, colour, marker, label in (
        (hit, palette[2], "o", "m = ∞ recovers the teacher by s = 10⁶"),
        (~hit, palette[1], "x", "it does not"),
    ):
        some = chosen & np.isfinite(kappa)
        right.plot(x[some], kappa[some], marker, color=colour, ms=4.5, label=label)
    right.axhline(0, color="0.5", lw=0.8)
    right.set_yscale("symlog", linthresh=0.002, linscale=0.5)
    right.set_ylim(-0.6, 0.6)
    for axes in (left, right):
        axes.set_xlim(float(proof.sample_ratio[0]) - 0.2, float(proof.sample_ratio[-1]) + 0.2)
    _theorem(right)
    right.legend(fontsize="small", frameon=False, ncol=2, loc="upper center", bbox_to_anchor=(0.5, -0.16))
    style_axes(right, x="samples per weight α = n/d", y="κ: above 0 proves that the teacher is unique")
    right.set_title(f"The certificate of each data set (d = {D})", fontsize="medium", loc="left")
    fig.suptitle("Phase retrieval by a wide network: success is decided by whether the data have one solution")
    return fig


def _theorem(axes) -> None:
    axes.axvline(THEOREM, color="0.3", ls="--", lw=1.3, label="theorem, d → ∞: α = 2")


ENTRY = Entry(
    name="over-parametrised",
    title="Over-parametrised phase retrieval: success against the sample ratio for several widths",
    claim=f"At d = {D} a student of m >= d squares recovers the teacher on no data set at alpha = {NEVER:g}, on all at "
    f"alpha = {ALWAYS:g}; success goes with a certificate that the data have one solution. One unit is often trapped, "
    "and at alpha = 2 two units recover more data sets than many do, because many can fit the data in other ways.",
    compute=compute,
    check=check,
    figure=figure,
    seconds=50,
    quick=Quick({"RUNS": 40, "RATIOS": (1.25, 2.0, 3.0)}, seconds=45),
)
