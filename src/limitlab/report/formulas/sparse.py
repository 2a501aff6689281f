"""Formulas of sparse targets on the hypercube: the update, the two limits, Fourier coefficients, staircases."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
from scipy.stats import binom

import limitlab as ll
from limitlab.report.formulas.formula import Measured, Shelf

__all__ = ["FORMULAS"]

FORMULAS = formula = Shelf("sparse")
CLIMB = "z1 + z1*z2"
MSP = ("z1 + z1*z2 + z1*z2*z3 + z1*z2*z3*z4", "z1 + z1*z2 + z2*z3 + z3*z4 + z3*z4*z5")
NOT_MSP = ("z1 + z1*z2*z3 + z1*z2*z3*z4", "z1 + z1*z2 + z3*z4 + z3*z4*z5")


@formula("the printed update is M/2 times the gradient step of the printed risk, not M times")
def update_is_half_the_gradient() -> Measured:
    rng = np.random.default_rng(0)
    M, d, y = 5, 7, 0.3
    a, W, x = rng.standard_normal(M), rng.standard_normal((M, d)), rng.choice([-1.0, 1.0], d)

    def network(W):
        return jnp.mean(a * jnp.tanh(W @ x + 0.5))

    slope = jax.grad(lambda W: (y - network(W)) ** 2)(W)
    field = W @ x + 0.5
    printed = (y - float(network(W))) * (a / np.cosh(field) ** 2)[:, None] * x
    ratio = float(np.mean(-printed / np.asarray(slope)))
    return Measured(ratio, M / 2, 1e-12, M)


def _path(target: str = CLIMB, at: float = 1.0, step: float = 1e-3):
    problem = ll.library.merged_staircase(target)
    return ll.predict(problem, ll.DimensionFree(nodes=48, rtol=1e-10), np.array([0.0, at - step, at, at + step])), step


@formula("along the dimension-free flow the risk E(h - f)^2 falls at twice the mean squared speed of the units")
def dissipation() -> Measured:
    ds, step = _path()
    speed = (
        sum(
            float(
                ds.weight.values
                @ np.square(np.diff(ds[name].values[[1, 3]], axis=0)[0]).reshape(ds.sizes["particle"], -1).sum(1)
            )
            for name in ("a", "u", "s")
        )
        / (2 * step) ** 2
    )
    falls = -2 * float(np.diff(ds.risk.values[[1, 3]])[0]) / (2 * step)  # our risk has a half
    return Measured(falls, 2 * speed, 1e-5 * speed, speed)


@formula("the dimension-free flow starts at u = 0 and s = kappa")
def start_of_the_flow() -> Measured:
    ds, _ = _path()
    off = float(abs(ds.u.values[0]).max() + abs(ds.s.values[0] - 1).max())
    return Measured(off, 0.0, 0.0, 1 / np.sqrt(100))


@formula("units of finite number depend on r too: M E Var_r f is that of one unit, and not zero")
def finite_width_depends_on_r() -> Measured:
    rng = np.random.default_rng(1)
    r = np.array(list(itertools.product([-1.0, 1.0], repeat=8)))

    def spread(M: int, draws: int) -> np.ndarray:
        a, v = rng.uniform(-1, 1, (draws, M)), rng.standard_normal((draws, M, 8)) / 3
        f = np.mean(a[..., None] * np.tanh(v @ r.T + 0.5), axis=1)
        return M * f.var(axis=1)

    one, many = spread(1, 4000), spread(8, 4000)
    error = float(np.hypot(one.std(), many.std()) / np.sqrt(4000))
    return Measured(float(many.mean()), float(one.mean()), 4 * error, 0.0)


@formula("a sum over many signs smooths as a normal does, up to -(sum v^4)/12 times the fourth derivative")
def smoothing() -> Measured:
    n, m, s = 98, 0.7, 1.0
    k = np.arange(n + 1)
    exact = float(binom.pmf(k, n, 0.5) @ np.tanh(m + s * (2 * k - n) / np.sqrt(n)))
    g = np.linspace(-9, 9, 2001)
    density = np.exp(-(g**2) / 2) / np.sqrt(2 * np.pi) * (g[1] - g[0])
    plain = float(density @ np.tanh(m + s * g))
    fourth = density @ (np.tanh(m + s * g) * (g**4 - 6 * g**2 + 3))  # E sigma'''' by parts
    return Measured(exact, plain - s**4 / (12 * n) * float(fourth), 2e-5, plain)


@formula("Fourier coefficients of a target are E[h chi_S] over the cube")
def fourier() -> Measured:
    text, z = "1.5*z1 - 0.25*z1*z3 + z2", np.array(list(itertools.product([-1.0, 1.0], repeat=3)))
    h = 1.5 * z[:, 0] - 0.25 * z[:, 0] * z[:, 2] + z[:, 1]
    return Measured(ll.staircase(text).fourier["z1*z3"], float(np.mean(h * z[:, 0] * z[:, 2])), 1e-14, 0.25)


@formula("a target is the sum of its Fourier terms: their squares add up to E h^2")
def parseval() -> Measured:
    target = "z1 + 0.5*z1*z2 - 2*z2*z3*z4"
    z = np.array(list(itertools.product([-1.0, 1.0], repeat=4))).T
    h = z[0] + 0.5 * z[0] * z[1] - 2 * z[1] * z[2] * z[3]
    total = sum(value**2 for value in ll.staircase(target).fourier.values())
    return Measured(total, float(np.mean(h**2)), 1e-13, 1 + 0.5 + 2)


@formula("the property as defined, over all orders of the terms, is what the closure by one new variable decides")
def msp_definition() -> Measured:
    rng = np.random.default_rng(2)
    wrong = other = 0
    for _ in range(60):
        family = list({tuple(sorted(rng.choice(5, rng.integers(1, 4), replace=False))) for _ in range(4)})
        text = " + ".join("*".join(f"z{i + 1}" for i in term) for term in family)
        by_orders = any(_climbs(order, 1) for order in itertools.permutations(family))
        wrong += by_orders != ll.staircase(text).merged_staircase
        other += any(_climbs(order, 2) for order in itertools.permutations(family)) != by_orders
    return Measured(wrong, 0, 0, other)


def _climbs(order, most: int) -> bool:
    known: set[int] = set()
    for term in order:
        if len(set(term) - known) > most:
            return False
        known |= set(term)
    return True


@formula("both printed examples of merged staircases are ones")
def msp_examples() -> Measured:
    return Measured(_merged(MSP), 2, 0, _merged(NOT_MSP))


@formula("neither printed counter-example is one: their leap is 2")
def non_msp_examples() -> Measured:
    leaps = float(np.mean([ll.staircase(text).leap for text in NOT_MSP]))
    return Measured(leaps, 2, 0, float(np.mean([ll.staircase(text).leap for text in MSP])))


def _merged(texts: tuple[str, ...]) -> int:
    return sum(ll.staircase(text).merged_staircase for text in texts)
