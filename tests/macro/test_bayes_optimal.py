"""Bayes optimum, state evolution, thresholds and landscapes: published numbers, closed forms, and each other."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import cubature, quad
from scipy.special import erfcx, log_ndtr

import limitlab as ll
from cases import glm
from limitlab.errors import InputError, LimitUndefinedError
from limitlab.macro.bayes import fixed_points
from limitlab.macro.bayes.state_evolution import Order, mismatched_step
from limitlab.numerics.trees import traced


def sign_information(m):
    """E g^2 of the noiseless sign at rho = 1, by adaptive quadrature in t."""
    V = 1 - m
    s = np.sqrt(V / m)

    def f(t):
        return np.exp(-(t**2) - log_ndtr(t) - (s * t) ** 2 / 2) / (2 * np.pi) ** 1.5 * s

    return 2 / V * quad(f, -40 / np.sqrt(1 + s**2), 15, epsabs=0, epsrel=1e-12, limit=500, points=(-5, 0, 5))[0]


def test_sign_against_adaptive_quadrature():
    for alpha in (0.05, 0.7, 3.0, 40.0):
        m = 0.5
        for _ in range(2000):
            A = alpha * sign_information(m)
            new = A / (1 + A)
            if abs(new - m) < 1e-14:
                break
            m = new
        got = ll.predict(glm(ll.GaussianPrior(), ll.Sign(), alpha), ll.BayesOptimal())
        assert float(got.m) == pytest.approx(m, rel=1e-9)
        assert float(got.generalisation_error) == pytest.approx(np.arccos(np.sqrt(m)) / np.pi, rel=1e-8)


def test_linear_model_in_closed_form():
    for alpha, noise, rho in ((0.01, 0.3, 2.0), (0.8, 0.01, 1.0), (100.0, 2.0, 0.5)):
        got = ll.predict(glm(ll.GaussianPrior(rho), ll.GaussianNoise(noise), alpha), ll.BayesOptimal())
        # V = rho/(1 + rho A), A = alpha/(V + noise)
        b = noise + rho * alpha - rho
        V = (-b + np.sqrt(b**2 + 4 * rho * noise)) / 2
        assert float(got.V) == pytest.approx(V, rel=1e-11)
        A = float(got.m_hat)
        labels = -(np.log(2 * np.pi * (V + noise)) + 1) / 2
        f = rho * A / 2 - np.log1p(rho * A) / 2 - float(got.m) * A / 2 + alpha * labels
        assert float(got.free_entropy) == pytest.approx(f, rel=1e-10)


def test_noiseless_linear_model_recovers_above_one():
    below, above = (ll.predict(glm(ll.GaussianPrior(), ll.GaussianNoise(), a), ll.BayesOptimal()) for a in (0.7, 1.3))
    assert float(below.m) == pytest.approx(0.7, rel=1e-11)
    assert float(above.mse) == 0 and np.isinf(float(above.free_entropy))


def test_thresholds_scale_with_the_prior():
    """A noiseless modulus does not see the scale of the weights; a noisy one does."""
    a, b = (ll.thresholds(ll.GaussianPrior(v), ll.Modulus()) for v in (1.0, 7.0))
    assert a.algorithmic == pytest.approx(b.algorithmic, rel=1e-9)
    with pytest.raises(InputError, match="a channel such as"):
        ll.thresholds(ll.GaussianPrior(), "sign")  # type: ignore[arg-type]


STEP = eqx.filter_jit(mismatched_step)


def _lobe(y, w, V, D):
    """log weight of z > 0, and d/dw, d^2/dw^2 of it."""
    T = V + D
    t = (w * D + y * V) / np.sqrt(T * V * D)
    h = np.sqrt(2 / np.pi) / erfcx(-t / np.sqrt(2))
    log_p = log_ndtr(t) - (y - w) ** 2 / (2 * T) - np.log(2 * np.pi * T) / 2
    return log_p, (y - w) / T + np.sqrt(D / (T * V)) * h, -1 / T - D / (T * V) * h * (h + t)


def _modulus(y, w, V, D):
    """Z, g and dg of y = |z| + noise."""
    if D == 0:
        u = np.clip(y * w / V, -300, 300)
        Z = (np.exp(-((y - w) ** 2) / (2 * V)) + np.exp(-((y + w) ** 2) / (2 * V))) / np.sqrt(2 * np.pi * V)
        return Z, (y * np.tanh(u) - w) / V, (y**2 / np.cosh(u) ** 2 / V - 1) / V
    (a, ga, da), (b, gb, db) = _lobe(y, w, V, D), _lobe(y, -w, V, D)
    total = np.logaddexp(a, b)
    p, r = np.exp(a - total), np.exp(b - total)
    g = p * ga - r * gb
    return np.exp(total), g, p * (da + ga**2) + r * (db + gb**2) - g**2


def modulus_means(m, q, V, D):
    """E f0 g, E g^2, -E dg at rho = 1 by adaptive cubature over omega > 0 and y."""
    slope, V0, edge = m / q, 1 - m**2 / q, 8 * np.sqrt(D)

    def integrand(x):
        w, y = x[:, 0], x[:, 1]
        (Z, f0, _), (_, g, dg) = _modulus(y, slope * w, V0, D), _modulus(y, w, V, D)
        weight = 2 * Z * np.exp(-(w**2) / (2 * q)) / np.sqrt(2 * np.pi * q)
        return np.stack([weight * f0 * g, weight * g**2, -weight * dg], axis=1)

    far = [9 * np.sqrt(q), 9 * np.sqrt(V0 + D) + 5 * slope * np.sqrt(q)]
    options = {"rule": "gk21", "rtol": 1e-10, "atol": 1e-10, "points": [np.array([0.05, edge])]}
    found = cubature(integrand, [0, -edge], far, max_subdivisions=10_000, **options)
    assert found.status == "converged"
    return found.estimate


def square_means(m, q, V, D):
    """The same for y = z^2 + noise, by the trapezoid rule in all three variables (all is analytic and decays)."""
    dz, dy, dw = 0.012, 0.08, 0.012
    z, y = np.arange(-7, 7, dz), np.arange(-3, 50, dy)
    w = np.arange(dw / 2, 9 * np.sqrt(q), dw)
    P = np.exp(-((y[:, None] - z**2) ** 2) / (2 * D)) / np.sqrt(2 * np.pi * D)

    def output(w, V):
        gap = z[:, None] - w
        field = np.exp(-(gap**2) / (2 * V)) / np.sqrt(2 * np.pi * V) * dz
        Z, first, second = P @ field, P @ (field * gap), P @ (field * gap**2)
        mean, square = (np.where(Z > 1e-250, x / np.maximum(Z, 1e-250), 0) for x in (first, second))
        return Z, mean / V, np.where(Z > 1e-250, (square - mean**2 - V) / V**2, 0)

    (Z, f0, _), (_, g, dg) = output(m / q * w, 1 - m**2 / q), output(w, V)
    weight = 2 * dw * dy * Z * np.exp(-(w**2) / (2 * q)) / np.sqrt(2 * np.pi * q)
    return np.array([np.sum(weight * x) for x in (f0 * g, g**2, -dg)])


@pytest.mark.parametrize(
    ("channel", "state"),
    [
        pytest.param(ll.Modulus(1e-3), (0.237, 1.345, 0.234), marks=pytest.mark.more),
        (ll.Modulus(1e-3), (0.593, 1.646, 0.086)),
        (ll.Modulus(1e-3), (0.7455, 1.0346, 0.0023)),
        (ll.Modulus(1.0), (0.43, 0.765, 1e-4)),
        (ll.Modulus(), (0.525, 0.865, 0.037)),
        pytest.param(ll.SquaredModulus(0.1), (0.25, 0.72, 0.109), marks=pytest.mark.more),
        (ll.SquaredModulus(0.1), (0.59, 1.4, 0.0858)),
    ],
    ids=str,
)
def test_one_mismatched_step_of_an_even_channel(channel, state):
    """The student switches sign on a line oblique to the teacher's kink (it was missed as soon as V < 0.25)."""
    alpha = 4.0
    means = square_means if isinstance(channel, ll.SquaredModulus) else modulus_means
    m_hat, q_hat, A = alpha * means(*state, float(channel.variance))
    V = 1 / (1 + max(A, 1e-10))
    now = Order(*(jnp.asarray(x) for x in state))
    got = STEP(traced(ll.GaussianPrior()), traced(channel), jnp.asarray(alpha), now)
    np.testing.assert_allclose(got, [m_hat * V, (m_hat**2 + q_hat) * V**2, V], rtol=1e-8)


@pytest.mark.more
def test_random_starts_of_scale_one():
    """Both trajectories by an independent quadrature; the first ran away, the second was said to end at m = 0.73."""
    noisy = glm(ll.GaussianPrior(), ll.Modulus(1e-3), 4.0, start=ll.RandomStart(1.0))
    path = ll.predict(noisy, ll.StateEvolution(d=1000.0, iterations=24))
    wanted = [0.0316, 0.04816, 0.2378, 0.7779, 0.9978, 0.99966, 0.99966]
    np.testing.assert_allclose(path.m.values[::4], wanted, atol=5e-5)
    assert float(path.m_fixed) == pytest.approx(0.99966, abs=1e-5)
    sharp = glm(ll.GaussianPrior(), ll.Modulus(), 2.0, start=ll.RandomStart(1.0))
    path = ll.predict(sharp, ll.StateEvolution(d=2000.0, iterations=60))
    assert np.max(path.m.values) < 0.4 and path.m.values[-1] < 0.1
    assert abs(float(path.m_fixed)) < 1e-20 and str(path.status.values) == "ok"


@pytest.mark.more
def test_random_start_of_an_even_channel():
    problem = glm(ll.GaussianPrior(), ll.Modulus(), 2.0, start=ll.RandomStart(scale=0.3))
    limit = ll.predict(problem, ll.StateEvolution(iterations=60))
    assert np.all(np.abs(limit.m) < 1e-12)
    assert "fixed point of an even channel" in limit.attrs["note"] and "d=1000" in limit.attrs["note"]
    path = ll.predict(problem, ll.StateEvolution(d=2000, iterations=60))
    assert float(path.m[-1]) > 0.99 and "note" not in path.attrs
    assert float(path.m_fixed) == pytest.approx(1, abs=1e-6) and str(path.status.values) == "ok"


@pytest.mark.more
def test_landscape_is_the_potential_of_state_evolution():
    """f'(m) = (alpha E g^2 - A)/2; its maxima are the fixed points; f_RS <= the Bayes free entropy."""
    problem = glm(ll.GaussianPrior(), ll.Modulus(1e-3), 1.132)
    m = np.linspace(0, 1, 401)
    ds = ll.free_entropy(problem, m)
    f = ds.free_entropy.values
    inner = np.nonzero((f[1:-1] > f[:-2]) & (f[1:-1] > f[2:]))[0] + 1
    assert len(inner) == len(ds.attrs["maxima"]) == 2
    np.testing.assert_allclose(m[inner], ds.attrs["maxima"], atol=3e-3)
    best = ll.predict(problem, ll.BayesOptimal())
    assert float(best.free_entropy) == pytest.approx(max(ds.attrs["maxima_free_entropy"]), rel=1e-12)
    assert ds.attrs["bayes_optimal"] == pytest.approx(float(best.m))
    assert ds.attrs["message_passing"] < ds.attrs["bayes_optimal"]
    finite = f[np.isfinite(f)]
    assert np.all(finite <= float(best.free_entropy) + 1e-9)
    for bad in ([0.5, 0.2], [-0.1], [1.5], [np.nan]):
        with pytest.raises(InputError, match="increasing overlaps"):
            ll.free_entropy(problem, bad)


def test_phase_diagram():
    problem = glm(ll.GaussBernoulliPrior(0.5), ll.GaussianNoise(), 1.0)
    ds = ll.analysis.phase_diagram(problem, "teacher.prior.density", [0.2, 0.4], [0.1, 0.3, 0.5, 0.7])
    assert ds.phase.values.tolist() == [[0, 1, 2, 2], [0, 0, 1, 2]]
    np.testing.assert_allclose(ds.information, [0.2, 0.4])
    assert np.all(ds.mse_bayes <= ds.mse_amp + 1e-12)
    with pytest.raises(InputError, match="is not a field"):
        ll.analysis.phase_diagram(problem, "teacher.prior.sparsity", [0.2], [0.1])


@pytest.mark.parametrize(
    ("channel", "jumps"),
    [
        pytest.param(ll.GaussianNoise(1e-4), True, marks=pytest.mark.more),
        (ll.GaussianNoise(0.1), False),
        pytest.param(ll.Sign(), False, marks=pytest.mark.more),
    ],
    ids=repr,
)
def test_a_rough_diagram_is_close_and_solves_nothing(channel, jumps, monkeypatch):
    """Thresholds and errors to a percent, and no integral beyond those of its grid."""
    asked = (glm(ll.GaussBernoulliPrior(0.3), channel, 1.0), "teacher.prior.density", [0.21], np.linspace(0.1, 1.5, 24))
    exact, integrals, count = ll.analysis.phase_diagram(*asked), [], fixed_points.points
    monkeypatch.setattr(
        fixed_points, "points", lambda prior, channel, A: integrals.append(len(A)) or count(prior, channel, A)
    )
    rough = ll.analysis.phase_diagram(*asked, rough=True)
    assert integrals == [87]
    for name in ("information", "algorithmic") if jumps else ():
        assert float(rough[name].item()) == pytest.approx(float(exact[name].item()), rel=0.01)
    assert np.isnan(rough.algorithmic.item()) == (not jumps) == np.isnan(exact.algorithmic.item())
    assert rough.phase.values.tolist() == exact.phase.values.tolist()
    for name in ("mse_amp", "mse_bayes"):
        off = np.abs(rough[name] - exact[name]).max().item()
        assert 1e-9 < off < 0.01 * 0.21  # of the largest error; no digits of a solution


def test_a_rough_diagram_is_on_the_right_branch_beside_a_spinodal():
    """At 0.48 message passing is stuck until 0.48103; the grid's own maximum is lower than that ratio."""
    asked = (glm(ll.RademacherPrior(), ll.GaussianNoise(1e-3), 1.0), "channel.variance", [1e-3], [0.48])
    exact, rough = ll.analysis.phase_diagram(*asked), ll.analysis.phase_diagram(*asked, rough=True)
    assert rough.phase.item() == exact.phase.item() == 1
    assert rough.mse_amp.item() == pytest.approx(exact.mse_amp.item(), rel=0.1) and exact.mse_amp.item() > 0.3


@pytest.mark.more
def test_phases_of_no_noise_are_those_of_the_channel_without_noise():
    """A value of 0 takes away the noise: it is no noisy channel whose variance happens to vanish."""
    problem = ll.library.phase_retrieval()
    ratios = [0.4, 0.9, 1.05, 1.3]
    made = ll.analysis.phase_diagram(problem, "channel.variance", np.array([0.0, 0.3]), ratios)
    none, some = ll.thresholds(ll.GaussianPrior(), ll.Modulus()), ll.thresholds(ll.GaussianPrior(), ll.Modulus(0.3))
    assert made.algorithmic.values[0] == pytest.approx(none.algorithmic, rel=1e-9)
    assert made.weak_recovery.values.tolist() == pytest.approx([none.weak_recovery, some.weak_recovery], rel=1e-9)
    assert made.phase.values[0].tolist() == [0, 0, 1, 2]


def test_refusals():
    good = glm(ll.GaussianPrior(), ll.Sign(), 2.0)
    with pytest.raises(InputError, match="sample_ratio"):
        glm(ll.GaussianPrior(), ll.Sign(), 0.0)
    with pytest.raises(InputError, match="Leave times out"):
        ll.predict(good, ll.BayesOptimal(), times=[1.0])
    with pytest.raises(LimitUndefinedError, match="fixed data set"):
        ll.predict(glm(ll.GaussianPrior(), ll.Sign(), None), ll.BayesOptimal())
    with pytest.raises(LimitUndefinedError, match="message passing"):
        ll.predict(glm(ll.GaussianPrior(), ll.Sign(), 2.0, algorithm=ll.ERM(1.0)), ll.StateEvolution())
    with pytest.raises(LimitUndefinedError, match="undamped"):
        ll.predict(glm(ll.GaussianPrior(), ll.Sign(), 2.0, algorithm=ll.GAMP(0.3)), ll.StateEvolution())
    with pytest.raises(InputError, match="uninformed"):
        ll.StateEvolution(start="cold")
    with pytest.raises(InputError, match=r"\[0, 1\]"):
        ll.StateEvolution(start=1.5)
    for bad in ([0.0, -1.0, np.nan], [], [[1.0]], [np.inf], "many", None):
        with pytest.raises(InputError, match=r"BayesOptimal.curve: alphas must be"):
            ll.BayesOptimal().curve(good, bad)
    assert ll.BayesOptimal().curve(good, [1, 2]).sizes == {"sample_ratio": 2}
    answers = ll.limits(good)
    assert answers["BayesOptimal"] == "applies" and "Committee" in answers["OverlapODE"]


@pytest.mark.more
def test_curves_point_by_point_and_at_once():
    problem = glm(ll.LaplacePrior(0.6), ll.Sign(flip=0.05), 1.0)
    alphas = [0.3, 2.0]
    whole = ll.sweep(ll.predict, problem, {"sample_ratio": alphas}, limit=ll.BayesOptimal())
    for i, alpha in enumerate(alphas):
        one = ll.predict(glm(ll.LaplacePrior(0.6), ll.Sign(flip=0.05), alpha), ll.BayesOptimal())
        assert float(one.m) == pytest.approx(float(whole.m[i]), rel=1e-11)
    ll.plot(whole)


@pytest.mark.parametrize(
    ("channel", "limit"),
    [(ll.Modulus(0.3), 1 / 0.3), pytest.param(ll.Rectified(0.5), 1.0, marks=pytest.mark.more)],
    ids=["modulus", "rectified"],
)
def test_noise_on_real_labels_leaves_an_error_to_binary_weights(channel, limit):
    """E g^2 tends to 1/Delta (|z|) or 1/(2 Delta) (relu): A = alpha E g^2 is finite, and so is V."""
    t = ll.thresholds(ll.RademacherPrior(), channel)
    assert t.algorithmic is None and not t.perfect
    ds = ll.predict(glm(ll.RademacherPrior(), channel, 60.0), ll.BayesOptimal())
    assert float(ds.m_hat) == pytest.approx(60 * limit, rel=1e-6)
    assert 0 < float(ds.V) < 1e-13


@pytest.mark.more
def test_binary_weights_under_noise_in_closed_form():
    """V is nothing: f = alpha E log N(y; |z|, Delta) - log 2 (it was off by 3e-7 where V < 1e-20)."""
    noise, alpha = 0.02, 20.0
    exact = -alpha * np.log(2 * np.pi * np.e * noise) / 2 - np.log(2)
    for channel in (ll.Modulus(noise), ll.GaussianNoise(noise)):
        ds = ll.predict(glm(ll.RademacherPrior(), channel, alpha), ll.BayesOptimal())
        assert float(ds.free_entropy) == pytest.approx(exact, abs=1e-9)
        assert float(ds.m_hat) == pytest.approx(alpha / noise, rel=1e-9)
