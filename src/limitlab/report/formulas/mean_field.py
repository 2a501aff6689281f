"""Formulas of wide networks as laws of units: expansion of the risk, potentials, speeds, transport."""

import math

import jax
import jax.numpy as jnp
import numpy as np
from scipy.stats import norm

import limitlab as ll
from limitlab.report.formulas.formula import Measured, Shelf

__all__ = ["FORMULAS"]

FORMULAS = formula = Shelf("mean-field")
DELTA, D = 0.4, 40
N, POINTS = 6, 9


def _units(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """theta = (a, b, w) of N units in two dimensions, and a small population (x, y) of equal weights."""
    rng = np.random.default_rng(seed)
    return rng.standard_normal((N, 4)), rng.standard_normal((POINTS, 2)), rng.standard_normal(POINTS)


def _unit(theta, x):
    """sigma_*(x; theta) = a tanh(w.x + b), units by rows and points by columns."""
    return theta[:, :1] * jnp.tanh(theta[:, 2:] @ x.T + theta[:, 1:2])


def _risk(theta, x, y):
    return jnp.mean((y - jnp.mean(_unit(theta, x), axis=0)) ** 2)


@formula("the population risk of N units is E y^2 + 2 mean V + mean U, V = -E[y sigma_*], U = E[sigma_* sigma_*']")
def expansion() -> Measured:
    theta, x, y = _units()
    s = np.asarray(_unit(theta, x))
    V, U = -s @ y / POINTS, s @ s.T / POINTS
    square = float(np.mean(y**2))
    return Measured(
        float(_risk(theta, x, y)), square + 2 * V.mean() + U.mean(), 1e-12, square / N + 2 * V.mean() + U.mean()
    )


@formula("the mean over pairs of units is the double integral over their empirical law, the diagonal included")
def empirical_law() -> Measured:
    theta, x, _ = _units()
    s = np.asarray(_unit(theta, x))
    U = s @ s.T / POINTS
    without = (U.sum() - np.trace(U)) / (N * (N - 1))
    return Measured(float(np.mean(np.mean(s, axis=0) ** 2)), float(U.mean()), 1e-12, float(without))


@formula("the gradient of one sample is the gradient of the risk on average")
def unbiased() -> Measured:
    theta, x, y = _units()
    slope = jax.grad(_risk)
    each = np.mean([np.asarray(slope(theta, x[i : i + 1], y[i : i + 1])) for i in range(POINTS)], axis=0)
    one = np.asarray(slope(theta, x[:1], y[:1]))
    return Measured(float(each[0, 0]), float(slope(theta, x, y)[0, 0]), 1e-12, float(one[0, 0]))


@formula("-N/2 times the gradient of a sample's risk is (y - f) grad sigma_*: the step needs 2 s (y - f) grad sigma_*")
def update() -> Measured:
    theta, x, y = _units()
    slope = np.asarray(jax.grad(_risk)(theta, x[:1], y[:1]))[0, 0]
    s = np.asarray(_unit(theta, x[:1]))
    printed = (y[0] - s.mean()) * s[0, 0] / theta[0, 0]
    return Measured(-N * float(slope), 2 * float(printed), 1e-12, float(printed))


@formula("Psi = V + int U d rho is half the first variation of R; with 2V + 2 int U it is all of it")
def first_variation() -> Measured:
    p = ll.analysis.potentials(ll.library.isotropic_mixture(DELTA), D)
    here, there, eps = 1.5, 2.5, 1e-5

    def risk(share: float) -> float:  # R = 2 risk, of a law with a share of its units at another norm
        return 2 * p.risk(ll.analysis.Measure(np.array([here, there]), np.array([1 - share, share])))

    slope = (risk(eps) - risk(0.0)) / eps
    psi = float(p.psi(there, here)[0] - p.psi(here, here)[0])
    return Measured(slope, 2 * psi, 1e-3 * abs(psi), psi)


@formula("R(rho) = E y^2 + 2 int V d rho + int int U d rho d rho, of two spheres of units")
def risk_of_a_law() -> Measured:
    p = ll.analysis.potentials(ll.library.isotropic_mixture(DELTA), D)
    r, w = np.array([1.0, 2.0]), np.array([0.3, 0.7])
    value = 2 * p.risk(ll.analysis.Measure(r, w))
    plain, pairs = float(w @ p.V(r)), float(w @ p.U(r, r) @ w)
    return Measured(value, 1 + 2 * plain + pairs, 1e-10, 1 + plain + pairs)


@formula("V of norm r in infinite dimension is -[q((1 + delta) r) - q((1 - delta) r)]/2, q(s) = E sigma(s G)")
def potential() -> Measured:
    def q(s):
        return -2.5 + 10 * sum(sign * (s * norm.pdf(t / s) - t * norm.sf(t / s)) for sign, t in ((1, 0.5), (-1, 1.5)))

    r, p = 1.4, ll.analysis.potentials(ll.library.isotropic_mixture(DELTA), math.inf)
    exact = -(q((1 + DELTA) * r) - q((1 - DELTA) * r)) / 2
    return Measured(float(p.V(r)[0]), float(exact), 1e-8, float(-exact))


@formula("inputs (1 + y delta) z have norms 1 + delta and 1 - delta times sqrt(d) in the two classes")
def inputs() -> Measured:
    rng = np.random.default_rng(1)
    y = rng.choice([-1.0, 1.0], 4000)
    x = (1 + y * DELTA)[:, None] * rng.standard_normal((4000, 20))
    seen = (x**2).mean(axis=1)[y > 0]
    error = 4 * seen.std() / np.sqrt(len(seen))
    return Measured(float(seen.mean()), (1 + DELTA) ** 2, float(error), (1 - DELTA) ** 2)


@formula("a unit moves at minus the slope of Psi: the flow of its norm has the opposite sign of dPsi/dr")
def speed() -> Measured:
    one, r, h = ll.library.isotropic_mixture(DELTA, scale=1.2), 1.2, 1e-4
    p = ll.analysis.potentials(one, math.inf)
    slope = float(p.psi(r + h, r)[0] - p.psi(r - h, r)[0]) / (2 * h)
    path = ll.predict(one, ll.RadialFlow(d=math.inf), np.array([0.0, h, 2 * h])).r.values.reshape(3, -1)[:, 0]
    found = float(-3 * path[0] + 4 * path[1] - path[2]) / (2 * h)
    return Measured(found, -slope, 1e-2 * abs(slope), slope)


@formula("in one dimension what leaves a cell enters its neighbour: the flux is rho v at the walls, and mass is kept")
def balance() -> Measured:
    edges = np.linspace(0, 1, 11)
    density, v = 1 + edges**2, np.sin(3 * edges)
    flux = density * v
    flux[[0, -1]] = 0
    kept, wrong = float(np.sum(flux[:-1] - flux[1:])), float(np.sum(-flux[:-1] - flux[1:]))
    return Measured(kept, 0.0, 1e-14, wrong)


@formula("the minimiser of F(z') + |z - z'|^2/(2 eps) is an implicit step of the gradient flow")
def proximal_step() -> Measured:
    z, eps = 1.3, 0.1
    grid = np.linspace(0.5, 1.5, 2_000_001)
    least = float(grid[np.argmin(grid**4 / 4 + (z - grid) ** 2 / (2 * eps))])
    return Measured(least + eps * least**3, z, 1e-5, z - eps * z**3 + eps * least**3)


@formula("minimising movements in the Wasserstein metric follow the flow of the particles, first order in their step")
def minimising_movement() -> Measured:
    one, times = ll.library.isotropic_mixture(DELTA), np.array([0.0, 0.1])
    exact = float(ll.predict(one, ll.RadialFlow(d=D, nodes=12), times).risk[-1])
    gaps = [
        abs(float(ll.predict(one, ll.RadialFlow(d=D, nodes=12, method="jko", step=h), times).risk[-1]) - exact)
        for h in (0.01, 0.005)
    ]
    return Measured(gaps[0] / gaps[1], 2.0, 0.2, 1.0)


@formula("W2 is the root of the least mean square: of 0 and a fair coin of 0 and 1 it is sqrt(1/2), not 1/2")
def transport() -> Measured:
    one = ll.library.isotropic_mixture(DELTA)

    def law(r: list[float]):
        ds = ll.predict(one, ll.RadialFlow(d=D, nodes=12), [0.0]).isel(particle=slice(0, len(r)))
        shares = np.full(len(r), 1 / len(r))
        return ds.assign(r=(("time", "particle"), [r]), weight=("particle", shares))

    return Measured(float(ll.wasserstein(law([0.0, 0.0]), law([0.0, 1.0])).values.item()), math.sqrt(0.5), 1e-12, 0.5)


@formula("independent copies of units are above their law by (1/N)[int U(theta, theta) - int int U], never below")
def price_of_width() -> Measured:
    rng = np.random.default_rng(2)
    theta, x, y = _units()
    s, draws = np.asarray(_unit(theta, x)), 20_000
    U = s @ s.T / POINTS
    chosen = s[rng.integers(N, size=(draws, 4))].mean(axis=1)
    risks = np.mean((y - chosen) ** 2, axis=1)
    law = float(np.mean((y - s.mean(axis=0)) ** 2))
    expected = law + (np.trace(U) / N - U.mean()) / 4
    return Measured(float(risks.mean()), float(expected), float(4 * risks.std() / np.sqrt(draws)), law)
