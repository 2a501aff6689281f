"""A second, slow implementation of the overlap equations in NumPy and SciPy, written from other formulas.

erf: the closed expressions of Saad and Solla. Everything: nested panel quadrature for two fields. Used by tests only.
"""

import numpy as np
from scipy import stats
from scipy.integrate import quad, solve_ivp
from scipy.special import erf


def erf_i2(C):
    return 2 / np.pi * np.arcsin(C[0, 1] / np.sqrt((1 + C[0, 0]) * (1 + C[1, 1])))


def erf_j2(C):
    return 2 / np.pi / np.sqrt((1 + C[0, 0]) * (1 + C[1, 1]) - C[0, 1] ** 2)


def erf_i3(C):
    lam = (1 + C[0, 0]) * (1 + C[2, 2]) - C[0, 2] ** 2
    return 2 / np.pi * (C[1, 2] * (1 + C[0, 0]) - C[0, 1] * C[0, 2]) / ((1 + C[0, 0]) * np.sqrt(lam))


def erf_i4(C):
    c11, c22, c33, c44 = 1 + np.diag(C)
    c12, c13, c14, c23, c24, c34 = C[0, 1], C[0, 2], C[0, 3], C[1, 2], C[1, 3], C[2, 3]
    l4 = c11 * c22 - c12**2
    l0 = l4 * c34 - c23 * c24 * c11 - c13 * c14 * c22 + c12 * c13 * c24 + c12 * c14 * c23
    l1 = l4 * c33 - c23**2 * c11 - c13**2 * c22 + 2 * c12 * c13 * c23
    l2 = l4 * c44 - c24**2 * c11 - c14**2 * c22 + 2 * c12 * c14 * c24
    return 4 / np.pi**2 / np.sqrt(l4) * np.arcsin(l0 / np.sqrt(l1 * l2))


def erf_moments(Omega, c, p, noise):
    """(I, L, V) of numerics.field_sums for erf units, by plain loops."""
    n = len(Omega)

    def sub(*index):
        return Omega[np.ix_(index, index)]

    I = np.array([sum(c[b] * erf_i2(sub(a, b)) for b in range(n)) for a in range(n)])
    L = np.array([[sum(c[e] * erf_i3(sub(i, b, e)) for e in range(n)) for b in range(n)] for i in range(p)])
    V = np.array(
        [
            [
                sum(c[e] * c[f] * erf_i4(sub(i, j, e, f)) for e in range(n) for f in range(n))
                + noise * erf_j2(sub(i, j))
                for j in range(p)
            ]
            for i in range(p)
        ]
    )
    return I, L, V


FUNCTIONS = {
    "erf": (lambda x: erf(x / np.sqrt(2)), lambda x: np.sqrt(2 / np.pi) * np.exp(-(x**2) / 2)),
    "relu": (lambda x: np.maximum(x, 0), lambda x: (x > 0).astype(float)),
    "square": (lambda x: x**2, lambda x: 2 * x),
    "linear": (lambda x: x, np.ones_like),
    "tanh": (np.tanh, lambda x: 1 / np.cosh(x) ** 2),
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), lambda x: 1 / (2 + 2 * np.cosh(x))),
    "abs": (np.abs, np.sign),
    "sign": (np.sign, np.zeros_like),
    "hermite(3)": (lambda x: x**3 - 3 * x, lambda x: 3 * x**2 - 3),
}


def _half_lines(points, scale):
    """Gauss-Legendre panels on (-reach, reach) with an edge at each of ``points``."""
    edges = np.unique(np.concatenate([scale * np.linspace(-9.5, 9.5, 20), points]))
    t, w = np.polynomial.legendre.leggauss(14)
    left, right = edges[:-1, None], edges[1:, None]
    return ((right - left) / 2 * t + (right + left) / 2).ravel(), ((right - left) / 2 * w).ravel()


def two_field_moments(Omega, c, student, teacher, noise):
    """(I, L, V) for p = k = 1: s_1 on panels, and for each of its values s_2 on panels cut at its own kink."""
    (f, df), (g, _) = FUNCTIONS[student], FUNCTIONS[teacher]
    q, m, r = Omega[0, 0], Omega[0, 1], Omega[1, 1]
    x, wx = _half_lines([0.0], np.sqrt(q))
    wx = wx * np.exp(-(x**2) / (2 * q)) / np.sqrt(2 * np.pi * q)
    spread = np.sqrt(r - m**2 / q)
    y, wy = _cut_lines(-m / q * x, spread)  # (s_1, node)
    wy = wx[:, None] * wy * np.exp(-(y**2) / (2 * spread**2)) / np.sqrt(2 * np.pi) / spread
    s1, s2 = x[:, None], m / q * x[:, None] + y
    value, slope, other = f(s1), df(s1), g(s2)
    err = c[0] * value + c[1] * other
    terms = (value * err, other * err, slope * s1 * err, slope * s2 * err, slope**2 * (err**2 + noise))
    total = np.array([np.sum(wy * term) for term in terms])
    return total[:2], total[2:4][None, :], total[4:5][None, :]


def _cut_lines(points, scale):
    """`_half_lines` for many lines at once, each with an edge at its own point."""
    fixed = np.broadcast_to(scale * np.linspace(-9.5, 9.5, 20), (len(points), 20))
    edges = np.sort(np.concatenate([fixed, points[:, None]], axis=1), axis=1)  # a point on an edge: an empty panel
    t, w = np.polynomial.legendre.leggauss(14)
    left, right = edges[:, :-1, None], edges[:, 1:, None]
    shape = (len(points), -1)
    return ((right - left) / 2 * t + (right + left) / 2).reshape(shape), ((right - left) / 2 * w).reshape(shape)


def solve(moments, Q, M, P, a, a_star, rate, times, *, noise=0.0, spherical=False, kappa=0.0, batch=1):
    """Integrate the overlap equations with SciPy; returns Q, M, a, risk at ``times``."""
    p, k = M.shape

    def unpack(y):
        return y[: p * p].reshape(p, p), y[p * p : p * (p + k)].reshape(p, k), y[p * (p + k) :]

    def at(y):
        Q, M, a = unpack(y)
        c = np.concatenate([-a / p, a_star / k])
        return Q, M, a, c, moments(np.block([[Q, M], [M.T, P]]), c, noise)

    def drift(_, y):
        Q, M, a, _, (I, L, V) = at(y)
        dQ = a[:, None] * L[:, :p] + (a[:, None] * L[:, :p]).T + rate / (p * batch) * np.outer(a, a) * V
        dM = a[:, None] * L[:, p:]
        if spherical:
            half = np.diag(dQ) / np.diag(Q) / 2
            dM, dQ = dM - M * half[:, None], dQ - Q * (half[:, None] + half[None, :])
        return np.concatenate([dQ.ravel(), dM.ravel(), kappa * I[:p]])

    y0 = np.concatenate([Q.ravel(), M.ravel(), a])
    out = solve_ivp(drift, (0, times[-1]), y0, method="DOP853", t_eval=times, rtol=1e-10, atol=1e-12).y.T
    parts = [at(y) for y in out]
    return (
        np.array([x[0] for x in parts]),
        np.array([x[1] for x in parts]),
        np.array([x[2] for x in parts]),
        np.array([0.5 * (x[3] @ x[4][0] + noise) for x in parts]),
    )


def edges(alpha):
    return (1 - np.sqrt(alpha)) ** 2, (1 + np.sqrt(alpha)) ** 2


def spectrum_mean(f, alpha):
    """The mean of f over the law of the eigenvalues of X^T X (Marchenko and Pastur)."""
    low, high = edges(alpha)
    angle = (np.arange(4000) + 0.5) * np.pi / 4000
    x = (low + high) / 2 - (high - low) / 2 * np.cos(angle)
    density = ((high - low) / 2 * np.sin(angle)) ** 2 / (2 * np.pi * x)  # with dx = half the width * sin
    return float(np.sum(density * f(x)) * np.pi / 4000 + max(0.0, 1 - alpha) * f(0.0))


def linear_regression(steps, alpha, eta, m0, variance):
    """m and the training loss of gradient descent on the square loss, from an informed start, free norm."""
    m = [1 - (1 - m0) * spectrum_mean(lambda x, t=t: (1 - eta * x) ** t, alpha) for t in steps]
    signal = [spectrum_mean(lambda x, t=t: x * (1 - eta * x) ** (2 * t), alpha) for t in steps]
    noise = [spectrum_mean(lambda x, t=t: (1 - eta * x) ** (2 * t), alpha) + alpha - 1 for t in steps]
    loss = [((1 - m0) * s + variance / 2 * v) / alpha for s, v in zip(signal, noise, strict=True)]
    return np.array(m), np.array(loss)


def linear_overlaps(steps, alpha, eta, penalty, temperature, variance, m0, q0):
    """m and q after so many steps of Langevin descent on the square loss with a ridge, free norm, teacher of norm 1.

    On an eigenvector of X^T X with eigenvalue x a step multiplies w by a = 1 - eta (penalty + x), adds eta x w*, and
    noise of labels and of heat.
    """

    def powers(x, square=False):
        a = 1 - eta * (penalty + x)
        return sum((a**2 if square else a) ** k for k in range(steps))

    def last(x):
        return (1 - eta * (penalty + x)) ** steps

    m = spectrum_mean(lambda x: m0 * last(x) + eta * x * powers(x), alpha)
    aligned = spectrum_mean(lambda x: (m0 * last(x) + eta * x * powers(x)) ** 2, alpha)
    rest = spectrum_mean(lambda x: (q0 - m0**2) * last(x) ** 2 + variance * x * (eta * powers(x)) ** 2, alpha)
    heat = spectrum_mean(lambda x: 2 * temperature * eta * powers(x, square=True), alpha)
    return m, aligned + rest + heat


# --- state evolution ------------------------------------------------------------------------------------------


def sign_signal(m, alpha):
    """alpha E g^2 of the noiseless sign at overlap m, V = 1 - m: integrate over t = omega/sqrt(V)."""
    V = 1 - m
    if m == 0:
        return alpha * 2 / np.pi

    def integrand(t):
        hazard = np.exp(stats.norm.logpdf(t) - stats.norm.logcdf(t))
        return 2 * stats.norm.pdf(t, scale=np.sqrt(m / V)) * stats.norm.pdf(t) * hazard / V

    return alpha * quad(integrand, -12, 12, limit=200)[0]


def sign_evolution(alpha, iterations):
    m = [0.0]
    for _ in range(iterations):
        A = sign_signal(m[-1], alpha)
        m.append(A / (1 + A))
    return np.array(m)


def binary_evolution(alpha, noise, iterations):
    """+-1 weights seen through y = z + noise."""
    m = [0.0]
    for _ in range(iterations):
        A = alpha / (1 - m[-1] + noise)
        rest = quad(lambda z, A=A: stats.norm.pdf(z) / np.cosh(np.sqrt(A) * z), -12, 12)[0]
        m.append(1 - np.exp(-A / 2) * rest)
    return np.array(m)
