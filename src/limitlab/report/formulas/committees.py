"""Formulas of one-pass SGD of committees: exact increments, drifts, projection, exit times, noise, mean fields."""

import math
from dataclasses import replace

import numpy as np
from scipy.special import digamma, erf

import limitlab as ll
from limitlab.report.formulas.formula import Measured, Shelf

__all__ = ["FORMULAS"]

FORMULAS = formula = Shelf("committees")
GAMMA, DELTA, D, T = 0.05, 0.2, 1000, 0.2
OMEGA = np.array([[1.1, 0.3, 0.4], [0.3, 0.8, -0.2], [0.4, -0.2, 1.0]])  # two students, one teacher
STEP = 1e-4


def _escape(m: float, width: int = 1, gamma: float = GAMMA, variance: float = DELTA) -> ll.Problem:
    """Phase retrieval from given overlaps."""
    one = ll.library.escaping_mediocrity(width, gamma, variance)
    return replace(one, start=ll.OverlapStart(Q=np.eye(width), M=np.full((width, 1), m), P=[[1.0]]))


def _committee(activation: str, spherical: bool = False, gamma: float = 0.7, **student) -> ll.Problem:
    """Two units and one teacher unit from the overlaps above."""
    Q, M = OMEGA[:2, :2], OMEGA[:2, 2:]
    if spherical:
        size = np.sqrt(np.diag(Q))
        Q, M = Q / np.outer(size, size), M / size[:, None]
    return ll.Problem(
        teacher=ll.Committee(1, activation),
        channel=ll.GaussianNoise(DELTA),
        student=ll.Committee(2, activation, **student),
        loss=ll.SquareLoss(),
        start=ll.OverlapStart(Q=Q, M=M, P=[[1.0]]),
        algorithm=ll.OnlineSGD(gamma, spherical=spherical),
    )


def _speed(problem: ll.Problem, name: str) -> np.ndarray:
    """d/dt of a variable at the start of the overlap ODE, by three points."""
    values = ll.predict(problem, ll.OverlapODE(rtol=1e-12), STEP * np.arange(3.0))[name].values
    return (-3 * values[0] + 4 * values[1] - values[2]) / (2 * STEP)


def _mean(of, Omega: np.ndarray = OMEGA, nodes: int = 60) -> float:
    """E of a function of the fields and of the noise z, by Gauss-Hermite in all of them."""
    x, w = np.polynomial.hermite_e.hermegauss(nodes)
    few, share = np.polynomial.hermite_e.hermegauss(5)  # of the noise: degree 4 at most
    root = np.linalg.cholesky(Omega + 1e-15 * np.eye(len(Omega)))
    grid = np.stack(np.meshgrid(*[x] * len(Omega), few, indexing="ij"))
    weight = math.prod(np.ix_(*[w / w.sum()] * len(Omega), share / share.sum()))
    return float(np.sum(weight * of(np.tensordot(root, grid[:-1], 1), grid[-1])))


def _sigma(x):
    return erf(x / np.sqrt(2))


def _sigma_prime(x):
    return np.sqrt(2 / np.pi) * np.exp(-(x**2) / 2)


def _erf_error(s, z):
    return _sigma(s[2]) - (_sigma(s[0]) + _sigma(s[1])) / 2 + np.sqrt(DELTA) * z


def _real_step(square: bool) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """Overlaps of real weights before and after a step of the square network, and what the increments are made of."""
    rng = np.random.default_rng(3)
    d, p, gamma, a = 12, 2, 0.8, np.array([1.3, -0.7])
    W, w, x = rng.standard_normal((p, d)), rng.standard_normal(d), rng.standard_normal(d) / np.sqrt(d)
    lam, star = W @ x, w @ x
    error = star**2 - np.mean(a * lam**2) + 0.4
    new = W + gamma / p * (a * 2 * lam * error)[:, None] * x
    parts = {
        "lam": lam,
        "star": star,
        "error": error,
        "a": a,
        "x2": x @ x,
        "rate": gamma / (p * d),
        "square": gamma**2 / (p**2 * d),
    }
    if square:
        return W @ W.T / d, new @ new.T / d, parts
    return W @ w / d, new @ w / d, parts


@formula("the increment of m of one step of real weights is 2 gamma/(p d) E a lambda lambda*")
def increment_of_m() -> Measured:
    before, after, x = _real_step(False)
    printed = 2 * x["rate"] * x["error"] * x["a"] * x["lam"] * x["star"]
    return Measured(float((after - before)[0]), float(printed[0]), 1e-13, float(2 * printed[0]))


@formula("the increment of Q has the linear term and 4 gamma^2/(p^2 d) E^2 |x|^2 a a lambda lambda: E squared")
def increment_of_q() -> Measured:
    before, after, x = _real_step(True)
    pair = np.outer(x["lam"], x["lam"])
    linear = 2 * x["rate"] * x["error"] * np.add.outer(x["a"], x["a"]) * pair
    quadratic = 4 * x["square"] * x["x2"] * np.outer(x["a"], x["a"]) * pair
    right = linear + x["error"] ** 2 * quadratic
    return Measured(
        float((after - before)[0, 1]), float(right[0, 1]), 1e-13, float((linear + x["error"] * quadratic)[0, 1])
    )


@formula("the increment of a is gamma/(p d) E lambda^2: a second-layer rate of gamma/d, not gamma")
def increment_of_a() -> Measured:
    one = _committee("square", second_layer="trained")
    drift = float(_speed(one, "a")[0])
    expected = _mean(lambda s, z: s[0] ** 2 * (s[2] ** 2 - (s[0] ** 2 + s[1] ** 2) / 2 + np.sqrt(DELTA) * z), nodes=6)
    return Measured(drift, expected, 1e-5, D * expected)


@formula("the fields of a sample are jointly normal with covariance Omega")
def fields() -> Measured:
    rng = np.random.default_rng(4)
    d, n = 6, 200_000
    W = np.linalg.cholesky(OMEGA) @ np.linalg.qr(rng.standard_normal((d, 3)))[0].T * np.sqrt(d)
    s = rng.standard_normal((n, d)) / np.sqrt(d) @ W.T
    seen = s[:, 0] ** 2 * s[:, 2] ** 2
    wick = OMEGA[0, 0] * OMEGA[2, 2] + 2 * OMEGA[0, 2] ** 2
    return Measured(float(seen.mean()), wick, float(4 * seen.std() / np.sqrt(n)), OMEGA[0, 0] * OMEGA[2, 2])


@formula("the risk of one unit is 2(1 - m^2) + Delta/2")
def risk_of_one_unit() -> Measured:
    risk = float(ll.predict(_escape(0.6), ll.OverlapODE(), [0.0]).risk[0])
    return Measured(risk, 2 * (1 - 0.36) + DELTA / 2, 1e-12, 2 * (1 - 0.36))


@formula("the risk is E (f - f*)^2/2 + Delta/2: with noisy labels in the mean the noise would count twice")
def risk_counts_noise_once() -> Measured:
    risk = float(ll.predict(_committee("square"), ll.OverlapODE(), [0.0]).risk[0])
    clean = _mean(lambda s, z: (s[2] ** 2 - (s[0] ** 2 + s[1] ** 2) / 2) ** 2 / 2 + 0 * z, nodes=6)
    return Measured(risk, clean + DELTA / 2, 1e-10, clean + DELTA)


@formula("a teacher of two units answers with their mean")
def teacher_is_a_mean() -> Measured:
    pair = ll.Problem(
        teacher=ll.Committee(2, "square"),
        channel=ll.GaussianNoise(DELTA),
        student=ll.Committee(1, "square"),
        loss=ll.SquareLoss(),
        start=ll.OverlapStart(Q=OMEGA[2:, 2:], M=OMEGA[2:, :2], P=OMEGA[:2, :2]),
        algorithm=ll.OnlineSGD(0.7),
    )
    risk = float(ll.predict(pair, ll.OverlapODE(), [0.0]).risk[0])

    def noisy(units: int) -> float:
        return _mean(lambda s, z: (s[2] ** 2 - (s[0] ** 2 + s[1] ** 2) / units) ** 2 / 2 + 0 * z, nodes=6) + DELTA / 2

    return Measured(risk, noisy(2), 1e-10, noisy(1))


@formula("three units with output weights learn two parallel teachers: the drift of M needs no simplifying assumption")
def any_committee() -> Measured:
    Omega = np.array([[1.1, 0.3, 0.2, 0.4], [0.3, 0.8, 0.1, -0.2], [0.2, 0.1, 0.9, 0.3], [0.4, -0.2, 0.3, 1.0]])
    a, twice = np.array([1.3, -0.7, 0.4]), [3, 3]  # both teachers are one: P has rank 1, and 2 does not divide 3
    one = ll.Problem(
        teacher=ll.Committee(2, "square"),
        channel=ll.GaussianNoise(DELTA),
        student=ll.Committee(3, "square", output_weights=a),
        loss=ll.SquareLoss(),
        start=ll.OverlapStart(Q=Omega[:3, :3], M=Omega[:3][:, twice], P=Omega[twice][:, twice]),
        algorithm=ll.OnlineSGD(0.7),
    )

    def drift(weight: float) -> float:
        return _mean(
            lambda s, z: (
                weight * 2 * s[0] * s[3] * (s[3] ** 2 - np.tensordot(a, s[:3] ** 2, 1) / 3 + np.sqrt(DELTA) * z)
            ),
            Omega,
            nodes=6,
        )

    return Measured(float(_speed(one, "M")[0, 0]), drift(a[0]), 1e-5, drift(1.0))


@formula("m(t) of one unit solves dm/dt = m [4(1 - 6 gamma)(1 - m^2) - 2 gamma Delta]")
def one_unit_ode() -> Measured:
    time, u0 = 0.6, 0.09
    beta = 4 * (1 - 6 * GAMMA)
    alpha = beta - 2 * GAMMA * DELTA
    exact = alpha * u0 * math.exp(2 * alpha * time) / (alpha + beta * u0 * (math.exp(2 * alpha * time) - 1))
    m = float(ll.predict(_escape(0.3), ll.OverlapODE(rtol=1e-10), [time])["M"].values.item())
    return Measured(
        m**2, exact, 1e-8, beta * u0 * math.exp(2 * beta * time) / (beta + beta * u0 * (math.exp(2 * beta * time) - 1))
    )


@formula("for long times the risk of one unit is above Delta/2 by gamma Delta/(1 - 6 gamma)")
def least_risk() -> Measured:
    risk = float(ll.predict(_escape(0.5), ll.OverlapODE(rtol=1e-10), [30.0]).risk[-1]) - DELTA / 2
    return Measured(risk, GAMMA * DELTA / (1 - 6 * GAMMA), 1e-8, GAMMA * DELTA)


@formula("one unit leaves its random start if gamma < 2/(12 + Delta), which is below 1/6")
def largest_rate() -> Measured:
    rates = np.array([0.99, 1.01]) * 2 / (12 + 1.0)
    speeds = [float(_speed(_escape(1e-3, 1, float(rate), 1.0), "M").item()) for rate in rates]
    return Measured(
        float(np.sign(speeds[0]) - np.sign(speeds[1])),
        2,
        0,
        float(np.sign(1 / 6 - rates[0]) - np.sign(1 / 6 - rates[1])),
    )


@formula("from m = 0 the drift is zero: the random start is a fixed point as d grows")
def start_is_a_fixed_point() -> Measured:
    return Measured(
        abs(float(_speed(_escape(0.0), "M").item())), 0.0, 1e-12, abs(float(_speed(_escape(0.03), "M").item()))
    )


@formula("near the start of p units m^2 grows at the rate 8[1 - gamma/p (1 + 1/p + 4/p^2 + Delta/2)]")
def growth() -> Measured:
    p, gamma, m = 3, 0.4, 1e-4
    rate = 2 * float(_speed(_escape(m, p, gamma), "M")[0, 0]) / m
    c = 1 + 1 / p + 4 / p**2 + DELTA / 2
    return Measured(rate, 8 * (1 - gamma / p * c), 1e-4, 8 * (1 - gamma / p * (c + 4 / p**2)))


def _log_factor(p: int, mu: float, tau: float) -> float:
    return math.log((T * p * (p + 1) * D + (2 * mu * p - tau) * (1 - T)) / (2 * mu * p))


@formula("the annealed exit time of p units is the printed one")
def annealed() -> Measured:
    p, gamma = 3, 0.4
    one = ll.library.escaping_mediocrity(p, gamma, DELTA)
    c = 1 + 1 / p + 4 / p**2 + DELTA / 2
    printed = math.log((T * (p + 1) * D + (p + 1) * (1 - T)) / (2 * p)) / (8 * (1 - gamma / p * c))
    return Measured(float(ll.exit_time(one, D, T, "annealed")), printed, 1e-10, printed * 8 / (8 - 48 * gamma / p))


@formula("the annealed exit time of one unit is log[T d + 1 - T]/(8(1 - 6 gamma) - 4 gamma Delta)")
def annealed_of_one() -> Measured:
    one = ll.library.escaping_mediocrity(1, GAMMA, DELTA)
    printed = math.log(T * D + 1 - T) / (8 * (1 - 6 * GAMMA) - 4 * GAMMA * DELTA)
    return Measured(
        float(ll.exit_time(one, D, T, "annealed")), printed, 1e-10, math.log(T * D + 1 - T) / (8 * (1 - 6 * GAMMA))
    )


def _starts(p: int, draws: int) -> tuple[np.ndarray, np.ndarray]:
    """mu_0 and tau_0 of units drawn on the sphere."""
    u = np.random.default_rng(5).standard_normal((draws, p + 1, 200))
    u /= np.linalg.norm(u, axis=2, keepdims=True)
    gram = 200 * np.square(u @ u.transpose(0, 2, 1))
    mu = gram[:, :p, p].sum(axis=1)
    return mu, sum(2 * gram[:, i, j] for i in range(p) for j in range(i + 1, p)) + np.zeros(draws)


@formula("the quenched exit time of p units is the mean of the printed logarithm over the printed law of starts")
def quenched() -> Measured:
    p, gamma, draws = 3, 0.4, 3000
    mu, tau = _starts(p, draws)
    one = ll.library.escaping_mediocrity(p, gamma, DELTA)
    rate = 8 * (1 - gamma / p * (1 + 1 / p + 4 / p**2 + DELTA / 2))
    times = np.array([_log_factor(p, m, t) for m, t in zip(mu, tau, strict=True)]) / rate
    wrong = float(ll.exit_time(one, D, T, "annealed"))
    return Measured(
        float(ll.exit_time(one, D, T, "quenched")), float(times.mean()), float(4 * times.std() / np.sqrt(draws)), wrong
    )


@formula("the quenched exit time of one unit is E log[T d/mu + 1 - T]/(8(1 - 6 gamma) - 4 gamma Delta), mu ~ chi^2(1)")
def quenched_of_one() -> Measured:
    x, w = np.polynomial.legendre.leggauss(400)
    g = 4.5 * (x + 1)  # mu = g^2; the logarithm at g = 0 is mild
    weight = 4.5 * w * 2 * np.exp(-(g**2) / 2) / np.sqrt(2 * np.pi)
    rate = 8 * (1 - 6 * GAMMA) - 4 * GAMMA * DELTA
    printed = float(weight @ np.log(T * D / g**2 + 1 - T)) / rate
    one = ll.library.escaping_mediocrity(1, GAMMA, DELTA)
    return Measured(
        float(ll.exit_time(one, D, T, "quenched")), printed, 2e-3, float(ll.exit_time(one, D, T, "annealed"))
    )


@formula("of the law of starts the mean of mu is p and that of tau is p(p - 1), at every d")
def law_of_starts() -> Measured:
    p, draws = 3, 3000
    mu, tau = _starts(p, draws)
    both = mu + tau
    return Measured(float(both.mean()), p + p * (p - 1), float(4 * both.std() / np.sqrt(draws)), 2 * p)


@formula("quenched is later than annealed by gamma_E + log 2 over the rate for one unit: the map of mu is convex")
def quenched_is_later() -> Measured:
    one, d = ll.library.escaping_mediocrity(1, GAMMA, DELTA), 1e6
    rate = 8 * (1 - 6 * GAMMA) - 4 * GAMMA * DELTA
    later = float(ll.exit_time(one, d, T, "quenched")) - float(ll.exit_time(one, d, T, "annealed"))
    return Measured(rate * later, float(np.euler_gamma) + math.log(2), 1e-3, 0.0)


@formula("the two formulas meet as p grows: their logarithms differ by log(p/2) - digamma(p/2), about 1/p")
def formulas_meet() -> Measured:
    p = 400
    return Measured(p * (math.log(p / 2) - float(digamma(p / 2))), 1.0, 0.01, math.log(0.5) - float(digamma(0.5)))


@formula("the exit time is where the risk has lost the share T, by the closed solution of one unit")
def exit_by_definition() -> Measured:
    m, gamma = 0.05, 1 / 12
    times = np.linspace(0, 3, 3001)
    excess = ll.predict(_escape(m, 1, gamma, 0.0), ll.OverlapODE(rtol=1e-10), times).risk.values
    seen = float(np.interp(-(1 - T) * excess[0], -excess, times))
    u, beta = m**2, 4 * (1 - 6 * gamma)
    share = T + (1 - T) * u
    exact = math.log(share * (1 - u) / (u * (1 - share))) / (2 * beta)
    return Measured(seen, exact, 1e-5, math.log(T / u) / (2 * beta))


@formula("the number of samples in the linearised formula is least at gamma = p/(2 + 2/p + 8/p^2 + Delta)")
def optimal_rate() -> Measured:
    p = 3
    c = 1 + 1 / p + 4 / p**2 + DELTA / 2
    gammas = np.linspace(0.2, 2 * p / (2 * c), 200_001)[:-1]
    least = float(gammas[np.argmin(1 / (gammas * (1 - gammas / p * c)))])
    best = float(ll.optimal_learning_rate(ll.library.escaping_mediocrity(p, 0.4, DELTA)))
    return Measured(best, least, 1e-4, float(gammas[0]))


@formula("of one unit that is 1/(12 + Delta), and the time itself only grows with gamma")
def optimal_rate_of_one() -> Measured:
    best = float(ll.optimal_learning_rate(ll.library.escaping_mediocrity(1, GAMMA, DELTA)))
    return Measured(best, 1 / (12 + DELTA), 1e-12, 1 / 12)


@formula("at the optimal rates of the formula one unit takes (12 + Delta)/(2 + Delta) of the samples of many")
def gain() -> Measured:
    gains = ll.analysis.overparametrisation_gain(math.inf, DELTA)
    return Measured(gains.at_optimum, (12 + DELTA) / (2 + DELTA), 1e-12, gains.attainable)


@formula("the drift of m with the constraint is Psi - m Phi/2")
def projected_m() -> Measured:
    free, bound = (_committee("square", spherical=True), _committee("square", spherical=True))
    free = replace(free, algorithm=ll.OnlineSGD(0.7))
    m = float(np.asarray(free.start.M)[0, 0])  # pyright: ignore[reportAttributeAccessIssue, reportOptionalMemberAccess]
    Psi, Phi = float(_speed(free, "M")[0, 0]), float(_speed(free, "Q")[0, 0])
    return Measured(float(_speed(bound, "M")[0, 0]), Psi - m * Phi / 2, 1e-5, Psi)


@formula("the drift of Q with the constraint is Phi - Q (Phi_jj + Phi_ll)/2, which keeps Q_jj = 1")
def projected_q() -> Measured:
    bound = _committee("square", spherical=True)
    free = replace(bound, algorithm=ll.OnlineSGD(0.7))
    q = float(np.asarray(free.start.Q)[0, 1])  # pyright: ignore[reportAttributeAccessIssue, reportOptionalMemberAccess]
    Phi, found = _speed(free, "Q"), _speed(bound, "Q")
    value = float(found[0, 1]) + abs(float(found[0, 0]))
    return Measured(value, float(Phi[0, 1] - q * (Phi[0, 0] + Phi[1, 1]) / 2), 1e-5, float(Phi[0, 1]))


@formula("a projected step keeps |w|^2 = d and turns w, as dividing by its norm does")
def projected_step() -> Measured:
    ds = ll.simulate(ll.library.escaping_mediocrity(2, 0.3, DELTA), 40, [0.0, 0.01], 2, 0, "overlaps")
    free = replace(ll.library.escaping_mediocrity(2, 0.3, DELTA), algorithm=ll.OnlineSGD(0.3))
    wrong = float(ll.simulate(free, 40, [0.0, 0.01], 2, 0, "overlaps")["Q"].values[-1, 0, 0, 0])
    return Measured(float(ds["Q"].values[-1, 0, 0, 0]), 1.0, 1e-12, wrong)


@formula("random starts: d times the variance of m is 1, and of Q_jl is 1")
def random_starts() -> Measured:
    d, draws = 50, 2000
    W = np.random.default_rng(6).standard_normal((draws, 3, d))
    seen = d * np.square(np.einsum("nd,nd->n", W[:, 0], W[:, 1]) / d)
    return Measured(float(seen.mean()), 1.0, float(4 * seen.std() / np.sqrt(draws)), 1 / math.sqrt(d))


@formula("Q_jj of a normal start is 1 up to a variance of 2/d")
def norms_of_starts() -> Measured:
    d, draws = 50, 4000
    norms = np.square(np.random.default_rng(7).standard_normal((draws, d))).mean(axis=1)
    seen = d * np.square(norms - 1)
    return Measured(float(seen.mean()), 2.0, float(4 * seen.std() / np.sqrt(draws)), 0.0)


@formula("the variance of a step of m is that of X_m - m X_Q/2 with their covariance: 42.00 at m = 0.3")
def diffusion() -> Measured:
    m = 0.3

    def steps(s, z):
        error = s[1] ** 2 - s[0] ** 2 + np.sqrt(DELTA) * z
        return 2 * s[0] * s[1] * error, 4 * s[0] ** 2 * error + GAMMA * 4 * s[0] ** 2 * error**2

    def moment(of) -> float:
        return _mean(lambda s, z: of(*steps(s, z)), np.array([[1, m], [m, 1]]), 16)

    mean_m, mean_q = moment(lambda a, b: a), moment(lambda a, b: b)
    var_m, var_q = moment(lambda a, b: a * a) - mean_m**2, moment(lambda a, b: b * b) - mean_q**2
    both = moment(lambda a, b: a * b) - mean_m * mean_q
    printed = (math.sqrt(var_m) - m / 2 * math.sqrt(var_q)) ** 2
    return Measured(var_m - m * both + m**2 / 4 * var_q, 42.00, 5e-3, printed)


# --- the overlap ODE of any committee, and mean fields ---


@formula("dM/dt is E[sigma'(lambda_i) lambda*_r E], here for error functions by quadrature")
def drift_of_m() -> Measured:
    expected = _mean(lambda s, z: _sigma_prime(s[0]) * s[2] * _erf_error(s, z))
    return Measured(float(_speed(_committee("erf"), "M")[0, 0]), expected, 1e-5, -expected)


@formula("dQ/dt is E[(sigma'_i lambda_j + sigma'_j lambda_i) E] + gamma/p E[sigma'_i sigma'_j E^2]")
def drift_of_q() -> Measured:
    def linear(s, z):
        return (_sigma_prime(s[0]) * s[1] + _sigma_prime(s[1]) * s[0]) * _erf_error(s, z)

    def pair(s, z):
        return _sigma_prime(s[0]) * _sigma_prime(s[1]) * _erf_error(s, z) ** 2

    expected = _mean(linear) + 0.7 / 2 * _mean(pair)
    return Measured(float(_speed(_committee("erf"), "Q")[0, 1]), expected, 1e-5, _mean(linear))


@formula("the flow term of Q needs both halves and the error")
def flow_term() -> Measured:
    slow = float(_speed(_committee("erf", gamma=1e-9), "Q")[0, 1])
    half = _mean(lambda s, z: _sigma_prime(s[0]) * s[1] * _erf_error(s, z))
    other = _mean(lambda s, z: _sigma_prime(s[1]) * s[0] * _erf_error(s, z))
    return Measured(slow, half + other, 1e-5, half)


@formula("the noise term of Q has the square of the error, with Delta E[sigma' sigma'] in it")
def noise_term() -> Measured:
    fast, slow = (float(_speed(_committee("erf", gamma=gamma), "Q")[0, 1]) for gamma in (0.7, 1e-9))
    pair = _mean(lambda s, z: _sigma_prime(s[0]) * _sigma_prime(s[1]) * _erf_error(s, z) ** 2)
    wrong = _mean(lambda s, z: _sigma_prime(s[0]) * _sigma_prime(s[1]) * _erf_error(s, z))
    return Measured((fast - slow) / 0.35, pair, 1e-4, wrong)


@formula("SGD's scatter about the ODE is of order sqrt(gamma/(p d)): d times the variance does not depend on d")
def scatter() -> Measured:
    one = _committee("erf", gamma=2.0)
    spread = []
    for d in (200, 800):
        M = ll.simulate(one, d, [0.0, 0.5], 400, d, "overlaps")["M"].values[-1, :, 0, 0]
        spread.append(d * M.var(ddof=1))
    error = math.sqrt(2 / 399) * math.hypot(*spread)
    return Measured(spread[1], spread[0], 4 * error, 4 * spread[0])


def _perpendicular() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Real weights of students and teachers, and the overlaps M and P."""
    rng = np.random.default_rng(8)
    W, star = rng.standard_normal((3, 9)), rng.standard_normal((2, 9))
    return W, star, W @ star.T / 9, star @ star.T / 9


@formula("W - M P^-1 W* is orthogonal to every teacher")
def decomposition() -> Measured:
    W, star, M, P = _perpendicular()
    rest, wrong = W - M @ np.linalg.inv(P) @ star, W - M @ star
    return Measured(float(abs(rest @ star.T).max()), 0.0, 1e-13, float(abs(wrong @ star.T).max()))


@formula("the overlaps of these parts are Q - M P^-1 M^T")
def perpendicular_overlaps() -> Measured:
    W, star, M, P = _perpendicular()
    rest, Q = W - M @ np.linalg.inv(P) @ star, W @ W.T / 9
    expected, wrong = Q - M @ np.linalg.inv(P) @ M.T, Q - M @ M.T
    return Measured(float((rest @ rest.T / 9)[0, 1]), float(expected[0, 1]), 1e-13, float(wrong[0, 1]))


@formula("dQ_perp/dt is E[(sigma'_i lambda_j_perp + sigma'_j lambda_i_perp) E] for small steps")
def perpendicular_drift() -> Measured:
    M = OMEGA[:2, 2]
    one = _committee("erf", gamma=1e-9)
    speed_m = _speed(one, "M")[:, 0]
    found = float(_speed(one, "Q")[0, 1] - speed_m[0] * M[1] - M[0] * speed_m[1])

    def term(s, z):
        rest = s[:2] - M[:, None, None, None, None] * s[2]
        return (_sigma_prime(s[0]) * rest[1] + _sigma_prime(s[1]) * rest[0]) * _erf_error(s, z)

    return Measured(found, _mean(term), 1e-5, float(_speed(one, "Q")[0, 1]))


@formula("g.g' of two directions in n dimensions has the variance 1/n")
def law_of_xi() -> Measured:
    n, draws = 7, 40_000
    g = np.random.default_rng(9).standard_normal((draws, 2, n))
    g /= np.linalg.norm(g, axis=2, keepdims=True)
    seen = np.einsum("di,di->d", g[:, 0], g[:, 1]) ** 2
    return Measured(float(seen.mean()), 1 / n, float(4 * seen.std() / np.sqrt(draws)), 1 / (n + 1))


@formula("the mean-field risk is the risk with Q_ij = S_ij + sqrt(q_i q_j) xi in it, averaged over xi (squares)")
def mean_field_risk() -> Measured:
    p, d = 4, 10
    Q, M = np.eye(p), np.full((p, 1), 0.3)
    one = ll.library.dimensionless(p, 1, "square", 1e-6, start=ll.OverlapStart(Q=Q, M=M, P=[[1.0]]))
    found = float(ll.predict(one, ll.HighDimMeanField(d=d), [0.0]).risk[0])
    S, v = M @ M.T, (1 - 0.09) ** 2 / (d - 1)
    squares = S**2 + v * (1 - np.eye(p))
    squares[np.diag_indices(p)] = 1
    plain = S**2
    plain[np.diag_indices(p)] = 1

    def risk(q2):  # t1 = 0 here
        return 1 - 2 / p * np.sum(M**2) + q2.sum() / p**2

    return Measured(found, float(risk(squares)), 1e-10, float(risk(plain)))


@formula("the information exponent of a square is 2, of an error function 1")
def information_exponent() -> Measured:
    return Measured(float(ll.information_exponent("square")), 2, 0, float(ll.information_exponent("erf")))
