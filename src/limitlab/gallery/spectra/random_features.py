r"""Ridge regression on random relu features: a peak where samples are as many as features, and the end of the theory.

Left: a linear teacher, p = 1.5 d features. In the limit features are as good as normal ones (Gaussian equivalence), and
the error peaks at n = p. Right: the target z + (z^2 - 1)/2. To the equivalent normal features its square is noise; once
n and p are of order d^2 real features learn it, and the equivalence fails.
"""

import dataclasses
import warnings
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

import limitlab as ll
from limitlab.gallery.entry import Check, Entry, Progress, Quick
from limitlab.gallery.figures import Drawing, new_figure, palette, style_axes

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["ENTRY", "problem"]

WIDTH, PENALTY, NOISE = 1.5, 1e-4, 0.1
RATIOS = np.unique(np.concatenate([np.geomspace(0.2, 8, 49), [1.5]]))
FITTED = (0.5, 1.0, 2.25, 5.0)
D, REPLICAS = 120, 24
WIDE, MANY, LABELS = 10.0, 15.0, 0.05
SIZES = (20, 40, 80)


def problem(alpha: float, width: float = WIDTH, penalty: float = PENALTY, noise: float = NOISE) -> ll.Problem:
    return ll.Problem(
        teacher=ll.SingleIndex(ll.GaussianPrior()),
        channel=ll.GaussianNoise(noise),
        sample_ratio=alpha,
        student=ll.RandomFeatures(width_ratio=width, activation="relu"),
        loss=ll.SquareLoss(),
        algorithm=ll.ERM(penalty),
    )


def _curved(z):
    return z + 0.5 * (z**2 - 1)


def _log_density(y, z):
    return -jnp.square(y - _curved(z)) / (2 * LABELS) - 0.5 * jnp.log(2 * jnp.pi * LABELS)


def _draw(key, z):
    return _curved(z) + jnp.sqrt(LABELS) * jax.random.normal(key, z.shape)


def curved() -> ll.Problem:
    """The target beyond its linear part; to the limit the square is noise of variance 1/2."""
    with warnings.catch_warnings():  # it says that theories would lose digits; labels are only drawn here
        warnings.simplefilter("ignore", ll.errors.AccuracyWarning)
        channel = ll.CustomChannel(_log_density, support=(-4.0, 30.0), draw=_draw, label_width=0.1)
    return dataclasses.replace(problem(MANY, WIDE, 1e-3), channel=channel)


def compute(progress: Progress | None) -> "dict[str, xr.Dataset]":
    data = {"limit": ll.ERMAsymptotics().curve(problem(1.0), RATIOS)}
    for k, alpha in enumerate(FITTED):
        data[f"fit_{k}"] = ll.simulate(problem(alpha), D, replicas=REPLICAS, seed=k)
        data[f"limit_{k}"] = ll.predict(problem(alpha))
        if progress is not None:
            progress(k + 1, len(FITTED) + len(SIZES), f"fits at alpha = {alpha:g}")
    data["curved_limit"] = ll.predict(problem(MANY, WIDE, 1e-3, LABELS + 0.5))
    beyond = curved()
    for k, d in enumerate(SIZES):
        with warnings.catch_warnings():  # it says that n and p are not small beside d^2: that is what is shown
            warnings.simplefilter("ignore", ll.errors.AccuracyWarning)
            data[f"curved_{d}"] = ll.simulate(beyond, d, replicas=16, seed=k)
        if progress is not None:
            progress(len(FITTED) + k + 1, len(FITTED) + len(SIZES), f"a curved target, d = {d}")
    return data


def _means(data, name):
    x = data[name].generalisation_error
    return float(x.mean()), float(x.std(ddof=1)) / np.sqrt(x.size)


def check(data: "dict[str, xr.Dataset]") -> list[Check]:
    curve = data["limit"].generalisation_error.values
    peak = float(RATIOS[int(np.argmax(curve))])
    checks = [
        Check("the error peaks where n = p", peak == WIDTH, f"at n/d = {peak:g}, error {curve.max():.3g}"),
    ]
    for k, alpha in enumerate(FITTED):
        mean, error = _means(data, f"fit_{k}")
        z = (mean - float(data[f"limit_{k}"].generalisation_error)) / error
        checks.append(
            Check(f"real features at n/d = {alpha:g} agree with the limit", abs(z) < 4, f"{mean:.4f}, z = {z:.2f}")
        )
    limit = float(data["curved_limit"].generalisation_error)
    gaps = [1 - _means(data, f"curved_{d}")[0] / limit for d in SIZES]
    checks.append(
        Check(
            "where n and p are of order d^2 real features beat the limit by far",
            gaps[0] > 0.4,
            f"{gaps[0]:.0%} less error at d = {SIZES[0]}, n = {MANY * SIZES[0]:g}",
        )
    )
    checks.append(
        Check(
            "and less and less as d grows at the same n/d and p/d",
            bool(np.all(np.diff(gaps) < 0)) and gaps[-1] < 0.5 * gaps[0],
            ", ".join(f"{gap:.0%} at d = {d}" for gap, d in zip(gaps, SIZES, strict=True)),
        )
    )
    return checks


def figure(data: "dict[str, xr.Dataset]") -> Drawing:
    fig, (left, right) = new_figure(2, width=5.4, height=4.2)
    left.plot(RATIOS, data["limit"].generalisation_error, color=palette[0], label="limit: equivalent normal features")
    left.axvline(WIDTH, color="0.8", lw=1)
    for k, alpha in enumerate(FITTED):
        mean, error = _means(data, f"fit_{k}")
        words = f"real relu features, d = {D}" if k == 0 else None
        left.errorbar(alpha, mean, error, fmt="o", ms=4, color=palette[1], capsize=2, label=words)
    left.annotate(" n = p", (WIDTH, 0.03), xycoords=("data", "axes fraction"), va="bottom", ha="left", color="0.4")
    limit = float(data["curved_limit"].generalisation_error)
    right.axhline(limit, color=palette[0], label="limit")
    for k, d in enumerate(SIZES):
        mean, error = _means(data, f"curved_{d}")
        words = "real relu features" if k == 0 else None
        right.errorbar(MANY / d, mean, error, fmt="o", ms=4, color=palette[1], capsize=2, label=words)
        right.annotate(f"d = {d}", (MANY / d, mean), xytext=(6, 4), textcoords="offset points", fontsize="small")
    right.set_ylim(0, 1.15 * limit)
    left.set_ylim(0.3, 40)
    left.set_xscale("log")
    left.set_yscale("log")
    right.set_xscale("log")
    right.set_xlim(0.15, 1.0)
    for axes, ticks in ((left, [0.2, 0.5, 1, 2, 5]), (right, [0.2, 0.4, 0.8])):
        axes.set_xticks(ticks, [f"{x:g}" for x in ticks])
        axes.set_xticks([], minor=True)
        axes.legend(fontsize="small", frameon=False, loc="upper left" if axes is left else "lower left")
    style_axes(left, x="samples per input n/d", y="mean squared error on a new label")
    style_axes(right, x="n/d², at n = 15 d and p = 10 d", y="mean squared error on a new label")
    left.set_title("A linear teacher", fontsize="medium", loc="left")
    right.set_title("A curved one: the theory ends at n of order d²", fontsize="medium", loc="left")
    fig.suptitle("Random features: a peak at n = p, and where Gaussian equivalence fails")
    return fig


ENTRY = Entry(
    name="random-features",
    title="Random features: double descent, and where Gaussian equivalence fails",
    claim="Ridge regression on random relu features follows the limit of equivalent normal features through its peak "
    "at n = p; once n and p are of order d^2 a curved target is learned better than that limit says.",
    compute=compute,
    check=check,
    figure=figure,
    seconds=60,
    quick=Quick({"REPLICAS": 12, "D": 80}, seconds=30),
)
