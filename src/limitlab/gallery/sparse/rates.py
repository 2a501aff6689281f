r"""The bound on SGD's distance from the dimension-free flow, one term at a time.

.. math:: |f_{\rm SGD} - f| \lesssim \sqrt{P/d} + \sqrt{\log M/M} + \sqrt{d\,\eta}, \qquad \eta = \frac{\gamma}{pd},
          \quad M = p

Each term is met alone: a finite dimension with infinitely many units (`MeanField`), M random units in infinite
dimension, and finite steps through two runs of SGD that share their start and nothing else, so that only their noise
parts them. Distances are those of functions, in the mean square over inputs.
"""

from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

import limitlab as ll
from limitlab.gallery.entry import Check, Entry, Progress, Quick
from limitlab.gallery.figures import Drawing, new_figure, palette, style_axes
from limitlab.gallery.fits import power

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["ENTRY", "twins"]

TIME = 2.0  # at which functions are compared
DIMENSIONS = [25, 50, 100, 200, 400, 800]
UNITS, DRAWS = [32, 128, 512], 128
WIDTH, PAIRS = 100, 16
STEPS, AT_D = [0.0125, 0.025, 0.05, 0.1], 100  # d eta, at this d
ETA, SGD_D = 5e-4, [25, 50, 100, 200]
TESTS = 2048  # random inputs that measure the distance of two networks
INPUTS, TARGET, SIGMA = ll.Hypercube(), ll.SparseTarget("z1 + z1*z2"), ll.shifted("tanh", 0.5)


def problem(width: int = WIDTH, second_layer: np.ndarray | None = None) -> ll.Problem:
    """Both layers are trained; the second starts uniform on [-1, 1], or as given."""
    return ll.Problem(
        inputs=INPUTS,
        teacher=TARGET,
        student=ll.Committee(width=width, activation=SIGMA, second_layer="trained", output_weights=second_layer),
        loss=ll.SquareLoss(),
        start=ll.RandomStart(second_layer="uniform"),
        algorithm=ll.OnlineSGD(learning_rate=0.05 * width),
    )


PROBLEM = problem()


def compute(progress: Progress | None) -> "dict[str, xr.Dataset]":
    limit = ll.predict(PROBLEM, ll.DimensionFree(), np.array([0.0, TIME])).fourier.values[-1]

    def tell(done: int, what: str) -> None:
        if progress is not None:
            progress(done, 4, what)

    tell(0, "finite dimension")
    by_d = [
        ll.predict(PROBLEM, ll.MeanField(d=d), np.array([0.0, TIME])).fourier.values[-1] - limit for d in DIMENSIONS
    ]
    tell(1, "finite width")
    rng = np.random.default_rng(0)
    by_width = [[_random_units(M, rng) - limit for _ in range(DRAWS)] for M in UNITS]
    tell(2, "finite steps")
    by_step = [twins(AT_D, each, seed=i) for i, each in enumerate(STEPS)]
    tell(3, "finite steps, other dimensions")
    by_both = [twins(d, d * ETA, seed=100 + i) for i, d in enumerate(SGD_D)]
    tell(4, "finite steps, other dimensions")
    return {
        "dimension": _table("d", DIMENSIONS, np.sum(np.square(by_d), axis=-1)[:, None], "MeanField - DimensionFree"),
        "width": _table("width", UNITS, np.sum(np.square(by_width), axis=-1), "random units - DimensionFree"),
        "step": _table("d_eta", STEPS, by_step, f"SGD - SGD, same start, d = {AT_D}"),
        "step_dimension": _table("d", SGD_D, by_both, f"SGD - SGD, same start, eta = {ETA:g}"),
    }


def _random_units(M: int, rng: np.random.Generator) -> np.ndarray:
    """Fourier coefficients of the dimension-free flow of M units with random second layers."""
    drawn = problem(M, rng.uniform(-1, 1, M))
    return ll.predict(drawn, ll.DimensionFree(rtol=1e-7), np.array([0.0, TIME])).fourier.values[-1]


@jax.jit
def _sgd(W: jax.Array, a: jax.Array, key: jax.Array, d_eta: jax.Array, steps: jax.Array) -> tuple[jax.Array, jax.Array]:
    """SGD of f(x) = a.sigma(Wx)/p on fresh samples: w += d eta a sigma'(w.x) (y - f) x, a += eta sigma(w.x) (y - f)."""
    d, p = W.shape

    def step(n, net):
        W, a = net
        x = jax.lax.optimization_barrier(INPUTS.draw(jax.random.fold_in(key, n), 1, d))  # drawn once, not at each use
        lam = x @ W
        value, slope = SIGMA(lam), jax.vmap(jax.vmap(SIGMA.derivative))(lam)
        error = TARGET.output((), x) - value @ a / p
        return W + x.T * (d_eta * a * slope * error), a + d_eta / d * error @ value

    return jax.lax.fori_loop(0, steps, step, (W, a))


def twins(d: int, d_eta: float, pairs: int = PAIRS, seed: int = 0) -> np.ndarray:
    """Mean squared difference, over random inputs, of two networks from one start on independent data; of many pairs.

    `simulate` draws a new start with each seed, so its steps are taken here by hand.
    """
    key_w, key_a, key_steps, key_x = jax.random.split(jax.random.key(seed), 4)
    W = jnp.repeat(jax.random.normal(key_w, (pairs, d, WIDTH)), 2, axis=0)
    a = jnp.repeat(jax.random.uniform(key_a, (pairs, WIDTH), minval=-1.0, maxval=1.0), 2, axis=0)
    keys = jax.random.split(key_steps, 2 * pairs)
    W, a = jax.vmap(_sgd, (0, 0, 0, None, None))(W, a, keys, d_eta, round(TIME * d / d_eta))
    x = INPUTS.draw(key_x, TESTS, d)
    f = jax.lax.map(lambda net: SIGMA(x @ net[0]) @ net[1] / WIDTH, (W, a))
    return np.asarray(jnp.mean(jnp.square(f[::2] - f[1::2]), axis=1))


def _table(name: str, values: list, squares, method: str) -> "xr.Dataset":
    """Root of the mean squared distance, and the relative standard error of it (0 of a prediction)."""
    squares = np.asarray(squares)
    mean, runs = squares.mean(axis=1), squares.shape[1]
    error = squares.std(axis=1, ddof=1) / mean / np.sqrt(runs) / 2 if runs > 1 else np.zeros(len(mean))
    columns = {"distance": ((name,), np.sqrt(mean)), "relative_error": ((name,), error)}
    return ll.analysis.dataset(
        PROBLEM, columns, {name: np.asarray(values)}, method=method, attrs={"time": TIME, "runs": runs}
    )


def check(data: "dict[str, xr.Dataset]") -> list[Check]:
    gaps = data["dimension"].distance.values
    local = np.diff(np.log(gaps)) / np.diff(np.log(DIMENSIONS))
    checks = [
        Check(
            "dimension: the error falls faster than the bound's d^(-1/2), and in the end like 1/d",
            bool(np.all(local < -0.5) and np.all(np.diff(local) < 0) and abs(local[-1] + 1) < 0.02),
            f"exponents between neighbours {', '.join(f'{x:.3f}' for x in local)} (d = {DIMENSIONS[0]} to "
            f"{DIMENSIONS[-1]})",
        )
    ]
    for name, x, words, expected in (
        ("width", UNITS, "width: the error falls like M^(-1/2)", -0.5),
        ("step", STEPS, f"steps: the error grows like eta^(1/2) at d = {AT_D}", 0.5),
        ("step_dimension", SGD_D, f"steps: the error grows like d^(1/2) at eta = {ETA:g}", 0.5),
    ):
        slope, error, _ = power(x, data[name].distance, data[name].relative_error)
        checks.append(
            Check(
                f"{words}, as the bound; exponent to 0.1",
                abs(slope - expected) < 0.1 and error < 0.03,
                f"exponent {slope:+.3f} +- {error:.3f}",
            )
        )
    level = data["step"].distance.values / np.sqrt(STEPS)
    spread = float(level.max() / level.min() - 1)
    checks.append(
        Check(
            "steps: one factor c in c sqrt(d eta) serves all step sizes",
            spread < 0.15,
            f"c = {level.mean():.3f}, from {level.min():.3f} to {level.max():.3f}",
        )
    )
    return checks


def figure(data: "dict[str, xr.Dataset]") -> Drawing:
    fig, panels = new_figure(3, width=4.5, height=4.1)
    left, middle, right = panels
    _panel(left, DIMENSIONS, data["dimension"], palette[0], "mean field at d, p = ∞, η → 0", last=3)
    _bound(left, DIMENSIONS, 2.2 * data["dimension"].distance.values[0], -0.5, "slope of the bound, d$^{-1/2}$")
    style_axes(left, x="input dimension d", y="distance from the dimension-free f")
    left.set_title("Dimension: better than the bound", fontsize="medium", loc="left")
    _panel(middle, UNITS, data["width"], palette[0], f"M random units, d = ∞, {DRAWS} draws")
    many = np.asarray(UNITS, float)
    first = 2.2 * data["width"].distance.values[0]
    root = np.sqrt(np.log(many) / many)
    middle.plot(many, first * root / root[0], "k:", label="slope of the bound, (log M/M)$^{1/2}$")
    style_axes(middle, x="width M", y="distance from the dimension-free f")
    middle.set_title("Width: as the bound", fontsize="medium", loc="left")
    _panel(right, STEPS, data["step"], palette[0], f"SGD pairs, η varies at d = {AT_D}")
    _panel(right, np.asarray(SGD_D) * ETA, data["step_dimension"], palette[1], f"SGD pairs, d varies at η = {ETA:g}")
    reach = [STEPS[0], SGD_D[-1] * ETA]
    _bound(right, reach, 1.8 * data["step"].distance.values[0], 0.5, "slope of the bound, (dη)$^{1/2}$")
    style_axes(right, x="step noise d·η = γ/p", y="distance of two runs from one start")
    right.set_title("Steps: as the bound", fontsize="medium", loc="left")
    right.set_ylim(0.5 * float(data["step"].distance.min()))  # room for the legend
    for axes in panels:
        axes.set(xscale="log", yscale="log")
        ticks = DIMENSIONS if axes is left else UNITS if axes is middle else STEPS
        axes.set_xticks(ticks, [f"{x:g}" for x in ticks])
        axes.set_xticks([], minor=True)
        lowest, highest = axes.reach(1)
        ticks = [x for k in range(-4, 1) for x in (10.0**k, 2 * 10.0**k, 5 * 10.0**k) if lowest < x < highest]
        axes.set_yticks(ticks, [f"{x:g}" for x in ticks])
        axes.set_yticks([], minor=True)
        axes.legend(fontsize="small", frameon=False, loc="lower right" if axes is right else "lower left")
    fig.suptitle(f"The three errors of the dimension-free flow, each alone (z1 + z1*z2, tanh(x + 0.5), t = {TIME:g})")
    return fig


def _panel(axes, x, ds: "xr.Dataset", colour: str, label: str, last: int | None = None) -> None:
    """Points with error bars and the fitted power (of the ``last`` points if given)."""
    x, y, error = np.asarray(x, float), ds.distance.values, ds.relative_error.values
    axes.errorbar(x, y, y * error, fmt="o", color=colour, ms=5, capsize=3, label=label)
    some = slice(None) if last is None else slice(-last, None)
    slope, _, factor = power(x[some], y[some], error[some] if np.all(error > 0) else None)
    axes.plot(x, factor * x**slope, color=colour, lw=1, label=f"fit: exponent {slope:.2f}")


def _bound(axes, x, first: float, exponent: float, label: str) -> None:
    x = np.asarray(x, float)
    axes.plot(x, first * (x / x[0]) ** exponent, "k:", label=label)


ENTRY = Entry(
    name="rates",
    title="How fast SGD approaches the dimension-free flow",
    claim="Of the bound sqrt(P/d) + sqrt(log M/M) + sqrt(d eta) the second and the third term are what is measured; "
    "the first is not tight: the error of a finite dimension falls like 1/d.",
    compute=compute,
    check=check,
    figure=figure,
    seconds=45,
    quick=Quick({"DRAWS": 96, "PAIRS": 8, "STEPS": [0.025, 0.05, 0.1], "SGD_D": [50, 100, 200]}, seconds=20),
)
