"""Channels: every number follows from one integral, so identities tie them together; then brute force."""

import warnings

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import expit, ndtr

import limitlab as ll
from limitlab.errors import InputError
from limitlab.numerics.trees import traced
from limitlab.problems.channels import BinaryChannel, CustomBinary, CustomChannel
from limitlab.problems.population import response
from limitlab.problems.predictor import Predictor

CHANNELS = [
    ll.Sign(),
    ll.Sign(variance=0.3),
    ll.Sign(flip=0.1),
    ll.Sign(variance=0.2, flip=1e-4),
    ll.GaussianNoise(),
    ll.GaussianNoise(variance=0.4),
    ll.Modulus(),
    ll.Modulus(variance=0.1),
    ll.Modulus(variance=1e-5),
    ll.Rectified(),
    ll.Rectified(variance=0.1),
    ll.Rectified(variance=1e-5),
    ll.Logistic(),
    ll.Door(width=0.6),
    ll.SquaredModulus(),
    ll.SquaredModulus(variance=0.3),
]
SLOW = (ll.SquaredModulus(variance=0.3),)  # fewer places in the default run
PLACES = [(1e-7, 1.3), (0.4, 0.9), (1.3, 1e-3), (1.0, 1e-7)]


@eqx.filter_jit
def _integrals(channel, q, slope, V0, V):
    law = channel.law(q, slope, V0, V)
    out = channel.output(law.y, law.w, V)
    truth = channel.output(law.y, slope * law.w, V0)
    values = (out.g**2, -out.dg, out.log_z, truth.g * out.g, (law.y - channel.mean_label(law.w, V)) ** 2)
    return jnp.stack([jnp.sum(law.weight), *(law.mean(x) for x in values)])


@eqx.filter_jit
def _bayes(channel, m, V):
    return jnp.stack([*channel.bayes(m, V), channel.label_mse(m, V), channel.prediction_error(m + V, m, m, V)])


def _of(function, channel, *numbers):
    return np.asarray(function(traced(channel), *(jnp.asarray(float(x)) for x in numbers)))


@pytest.mark.more_of(
    "Rectified(variance=1e-05)",
    "Modulus(variance=1e-05)",
    "Modulus()",
    "SquaredModulus()",
    "Sign(variance=0.3)",
    "Sign()",
    "Sign(flip=0.1)",
    "Sign(variance=0.2, flip=0.0001)",
    "Rectified()",
    "Modulus(variance=0.1)",
    "Logistic()",
    "Rectified(variance=0.1)",
    "Door(width=0.6)",
    "SquaredModulus(variance=0.3)",
)
@pytest.mark.parametrize("channel", CHANNELS, ids=repr)
def test_the_law_is_normalised_and_on_the_nishimori_line(channel):
    for m, V in PLACES[1:3] if channel in SLOW else PLACES:
        mass, g2, minus_dg, log_z, overlap, label_mse = _of(_integrals, channel, m, 1.0, V, V)
        assert mass == pytest.approx(1, abs=3e-9)
        blur = 1e-15 / V / max(g2 * V, 1e-12)  # dg = (Var/V - 1)/V loses these digits to cancellation
        assert minus_dg == pytest.approx(g2, rel=1e-7 + 10 * blur)
        assert overlap == pytest.approx(g2, rel=1e-12)  # teacher and student see the same
        info, phi, mse, error = _of(_bayes, channel, m, V)
        assert info == pytest.approx(g2, rel=1e-10)
        if not (isinstance(channel, ll.SquaredModulus) and channel.variance == 0):  # log|z| is singular on the nodes
            assert phi == pytest.approx(log_z, rel=1e-10)
        assert mse == pytest.approx(label_mse, rel=1e-6)
        if not isinstance(channel, BinaryChannel):
            assert error == pytest.approx(mse, rel=1e-6)


@pytest.mark.more_of("Door(width=0.6)", "SquaredModulus(variance=0.3)")
@pytest.mark.parametrize("channel", CHANNELS, ids=repr)
def test_information_is_the_slope_of_the_free_entropy(channel):
    """2 dPhi_out/dm = E g^2 at fixed rho = m + V."""
    m, V, h = 0.5, 0.7, 2e-4
    values = [_of(_bayes, channel, m + k * h, V - k * h)[1] for k in (-2, -1, 1, 2)]
    slope = (values[0] - 8 * values[1] + 8 * values[2] - values[3]) / (12 * h)
    g2 = _of(_bayes, channel, m, V)[0]
    assert 2 * slope == pytest.approx(g2, rel=1e-7)
    assert not 2 * slope == pytest.approx(_of(_bayes, channel, m, 1.02 * V)[0], rel=1e-3)  # negative control


@pytest.mark.more_of(
    "SquaredModulus(variance=0.3)",
    "Rectified(variance=1e-05)",
    "Rectified(variance=0.1)",
    "Modulus(variance=0.1)",
    "Modulus(variance=1e-05)",
    "Door(width=0.6)",
    "Logistic()",
)
@pytest.mark.parametrize("channel", CHANNELS, ids=repr)
def test_g_and_dg_are_derivatives(channel):
    live = traced(channel)
    y = {"binary": np.array([1.0, -1.0, 1.0, -1.0]), "real": np.array([0.3, 1.2, 2.0, 0.7])}[channel.labels]
    w, V = np.array([0.4, -0.8, 1.7, -2.5]), np.array([0.7, 1.5, 0.2, 0.9])

    @jax.jit
    def both(w, y, V):
        slopes = (jax.vmap(jax.grad(lambda w, y, V, n=n: getattr(live.output(y, w, V), n))) for n in ("log_z", "g"))
        return live.output(y, w, V), *(slope(w, y, V) for slope in slopes)

    out, g, dg = both(w, y, V)
    np.testing.assert_allclose(out.g, g, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(out.dg, dg, rtol=1e-6, atol=1e-8)


def _odds_posterior(y, w, V):
    """log Z, g and dg of a logistic label by 20 nodes on each of many panels, from the posterior's mode outwards."""
    mode = brentq(lambda z: z - w - y * V * expit(-y * z), min(w, w + y * V) - 1, max(w, w + y * V) + 1)
    fan = np.linspace(-14, 14, 113)
    edges = np.unique([mode + np.sqrt(V) * fan, mode + 2 * fan, w + np.sqrt(V) * fan, 4 * fan])
    half, middle = np.diff(edges)[:, None] / 2, (edges[1:] + edges[:-1])[:, None] / 2
    x, dx = np.polynomial.legendre.leggauss(20)
    z = middle + half * x
    log_p = -((z - w) ** 2) / (2 * V) - np.logaddexp(0, -y * z)
    p = half * dx * np.exp(log_p - log_p.max())
    miss, total = expit(-y * z), p.sum()
    mean = np.sum(p * miss) / total
    dg = np.sum(p * ((miss - mean) ** 2 - miss * expit(y * z))) / total
    return log_p.max() + np.log(total) - np.log(2 * np.pi * V) / 2, y * mean, dg


def test_odds_of_labels_far_from_their_fields():
    """Where the posterior is many deviations of the prior from its centre, too."""
    where = [(-1.0, 200.0, 300.0), (1.0, -700.0, 1000.0), (1.0, -50.0, 30.0)]
    spread = [
        (y, k * np.sqrt(V), V) for y in (1.0, -1.0) for k in (0, 1, -1, 3, 10, -10) for V in (1.2, 10.0, 1e4, 1e6)
    ]
    wrong_side = [(y, w, V) for y, w, V in spread if y * w <= 0]
    right_side = [(y, w, V) for y, w, V in spread if y * w > 0]
    y, w, V = np.array(where + wrong_side + right_side).T
    got = np.stack(jax.jit(ll.Logistic().output)(y, w, V))
    exact = np.array([_odds_posterior(*place) for place in zip(y, w, V, strict=True)]).T
    far = len(where) + len(wrong_side)
    np.testing.assert_allclose(got[0], exact[0], rtol=1e-10, atol=1e-11)
    np.testing.assert_allclose(got[1][:far], exact[1][:far], rtol=1e-9)
    np.testing.assert_allclose(got[2][:far], exact[2][:far], rtol=1e-6)
    np.testing.assert_allclose(got[1:, far:], exact[1:, far:], rtol=1e-9, atol=1e-18)
    assert np.all(got[0] <= 0)
    ends = np.stack(jax.jit(ll.Logistic().output)(np.array([1.0, -1.0, 1.0]), np.array([np.inf, np.inf, -np.inf]), 2.0))
    np.testing.assert_allclose(ends[1:], [[0, -1, 1], [0, 0, 0]], atol=1e-12)
    # Negative control: panels that end 9.5 deviations from the centre of the prior, as they once did.
    z = w[:3, None] + np.sqrt(V[:3, None]) * np.linspace(-9.5, 9.5, 20001)
    p = expit(y[:3, None] * z) * np.exp(-((z - w[:3, None]) ** 2) / (2 * V[:3, None]))
    miss = expit(-y[:3, None] * z)
    mean = np.sum(p * miss, 1) / np.sum(p, 1)
    old = np.sum(p * ((miss - mean[:, None]) ** 2 - miss * (1 - miss)), 1) / np.sum(p, 1)
    assert np.all(np.abs(old / exact[2][:3] - 1) > 5e-3)


def _brute(channel, rho, m, q, V):
    """E g^2 for omega ~ N(0, q) by sums over fine grids of z, omega and y, from P(y|z) alone."""
    z = np.linspace(-9, 9, 6001) * np.sqrt(rho)
    w = np.linspace(-8, 8, 241) * np.sqrt(q)
    noise = float(getattr(channel, "variance", 0.0))
    if channel.labels == "binary":
        y = np.array([1.0, -1.0])
        if isinstance(channel, ll.Sign):
            plus = channel.flip + (1 - 2 * channel.flip) * ndtr(z / np.sqrt(noise))
        else:
            plus = expit(z)
        P, dy = np.stack([plus, 1 - plus]), 1.0
    else:
        centre = {"GaussianNoise": z, "Modulus": abs(z), "Rectified": np.maximum(z, 0), "SquaredModulus": z**2}
        centre = centre[type(channel).__name__]
        y = np.linspace(centre.min() - 8 * np.sqrt(noise), np.sort(centre)[-200] + 8 * np.sqrt(noise), 4001)
        P, dy = np.exp(-((y[:, None] - centre) ** 2) / (2 * noise)) / np.sqrt(2 * np.pi * noise), y[1] - y[0]
    slope = m / q
    V0 = rho - m * slope
    field = np.exp(-((z - w[:, None]) ** 2) / (2 * V)) / np.sqrt(2 * np.pi * V) * (z[1] - z[0])
    truth = np.exp(-((z - slope * w[:, None]) ** 2) / (2 * V0)) / np.sqrt(2 * np.pi * V0) * (z[1] - z[0])
    Z, first, teacher = field @ P.T, (field * z) @ P.T, truth @ P.T
    g = np.where(Z > 1e-290, first / np.maximum(Z, 1e-300) - w[:, None], 0.0) / V
    weight = np.exp(-(w**2) / (2 * q)) / np.sqrt(2 * np.pi * q) * (w[1] - w[0])
    return np.sum(weight[:, None] * teacher * g**2) * dy


@pytest.mark.more_of(
    "matched-Logistic()",
    "mismatched-GaussianNoise(variance=0.3)",
    "matched-Rectified(variance=0.2)",
    "mismatched-Rectified(variance=0.2)",
    "mismatched-Modulus(variance=0.2)",
    "matched-Modulus(variance=0.2)",
    "matched-GaussianNoise(variance=0.3)",
    "mismatched-SquaredModulus(variance=0.5)",
    "matched-SquaredModulus(variance=0.5)",
)
@pytest.mark.parametrize(
    "channel",
    [
        ll.Sign(variance=0.3, flip=0.05),
        ll.Logistic(),
        ll.GaussianNoise(variance=0.3),
        ll.Modulus(variance=0.2),
        ll.Rectified(variance=0.2),
        ll.SquaredModulus(variance=0.5),
    ],
    ids=repr,
)
@pytest.mark.parametrize("order", [(1.2, 0.8, 0.8, 0.4), (1.2, 0.3, 0.5, 0.9)], ids=["matched", "mismatched"])
def test_brute_force(channel, order):
    rho, m, q, V = order
    slope = m / q
    g2 = _of(_integrals, channel, q, slope, rho - m * slope, V)[1]
    assert g2 == pytest.approx(_brute(channel, rho, m, q, V), rel=2e-6)


@eqx.filter_jit
def _stein(channel, q, slope, V0, V):
    law = channel.law(q, slope, V0, V)
    out = channel.output(law.y, law.w, V)
    truth = channel.output(law.y, slope * law.w, V0)
    half = channel.even_law(q, slope, V0, V)
    both = (law.mean(out.g**2), half.mean(channel.output(half.y, half.w, V).g ** 2))
    terms = (law.w * out.g, slope * q * truth.g * out.g, q * out.dg)
    return jnp.stack([jnp.sum(law.weight), *(law.mean(x) for x in terms), *both])


@pytest.mark.more_of(
    "Rectified(variance=1e-05)",
    "Modulus(variance=1e-05)",
    "Modulus(variance=1.0)",
    "Logistic()",
    "Rectified(variance=0.1)",
    "Modulus(variance=0.1)",
    "Door(width=0.6)",
    "SquaredModulus(variance=0.3)",
)
@pytest.mark.parametrize("channel", [*CHANNELS, ll.Modulus(1.0), ll.Rectified(1e-3), ll.Door(2.0)], ids=repr)
def test_a_student_who_believes_something_else(channel):
    """E[omega g] = m E[f0 g] + q E[dg] by parts for any belief V: nodes must see where the student changes its mind."""
    states = [(0.237, 1.345, 0.234), (0.7455, 1.0346, 0.0023)]
    states += [] if channel in SLOW else [(0.09, 2.378, 1.2e-3), (0.4299, 0.7652, 1e-5), (0.154, 0.0453, 1e-4)]
    for m, q, V in states:
        slope = m / q
        mass, left, first, second, g2, half = _of(_stein, channel, q, slope, 1 - m * slope, V)
        assert mass == pytest.approx(1, abs=3e-11)
        assert left == pytest.approx(first + second, abs=1e-9 * (abs(left) + abs(first) + abs(second)))
        assert half == pytest.approx(g2, rel=1e-12)


def test_noise_goes_to_zero():
    """The noisy formulas end in the noiseless ones."""
    for sharp, noisy in [
        (ll.Modulus(), ll.Modulus(1e-11)),
        (ll.Rectified(), ll.Rectified(1e-11)),
        (ll.Sign(), ll.Sign(1e-12)),
        (ll.SquaredModulus(), ll.SquaredModulus(1e-9)),
    ]:
        a, b = (_of(_bayes, channel, 0.6, 0.5)[0] for channel in (sharp, noisy))
        assert b == pytest.approx(a, rel=3e-5)


def test_near_perfect_recovery_follows_the_known_laws():
    for V in (1e-6, 1e-10):
        m = 1.0 - V
        assert _of(_bayes, ll.Modulus(), m, V)[0] * V == pytest.approx(1, abs=3 * np.sqrt(V))
        assert _of(_bayes, ll.Rectified(), m, V)[0] * V == pytest.approx(0.5, abs=3 * np.sqrt(V))
        c = 2 / np.sqrt(2 * np.pi) * 0.9031  # of the order of one
        ratio = _of(_bayes, ll.Sign(), m, V)[0] * np.sqrt(V)
        assert 0.5 * c < ratio < 1.5 * c
    # E g^2 sqrt(V) has a limit, 2 phi(0) int phi^2/Phi: two far points agree, and so does the integral
    x = np.linspace(-12, 12, 20001)
    phi = np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi)
    limit = 2 / np.sqrt(2 * np.pi) * np.sum(phi**2 / ndtr(x)) * (x[1] - x[0])
    assert _of(_bayes, ll.Sign(), 1.0, 1e-10)[0] * 1e-5 == pytest.approx(limit, rel=1e-8)


@eqx.filter_jit
def _three_errors(channel, m, V):
    general = BinaryChannel.classification_error(channel, m, V)
    return jnp.stack([general, channel.classification_error(m, V), channel.prediction_error(m + V, m, m, V)])


@pytest.mark.more
def test_classification_errors():
    """The closed form of Sign against the general integral; the Bayes error is the error of the Bayes rule."""
    for channel in (ll.Sign(0.2, 0.1), ll.Logistic(), ll.Door(0.6)):
        general, own, rule = _of(_three_errors, channel, 0.7, 0.4)
        assert own == pytest.approx(general, rel=1e-9)
        assert rule == pytest.approx(general, rel=1e-8)


@pytest.mark.parametrize("channel", CHANNELS, ids=repr)
def test_samples_follow_the_mean_label(channel):
    w, V, n = 0.35, 0.8, 40_000
    keys = jax.random.split(jax.random.key(3))
    z = w + jnp.sqrt(V) * jax.random.normal(keys[0], (n,))
    y = np.asarray(channel.sample(keys[1], z))
    mean = float(traced(channel).mean_label(jnp.asarray([w]), jnp.asarray([V]))[0])
    score = (y.mean() - mean) / (y.std(ddof=1) / np.sqrt(n))
    assert abs(score) < 4
    channel.check_labels(y, by="test")


@pytest.mark.more
def test_custom_channels_reproduce_the_built_in_ones():
    odds = CustomBinary(jax.nn.sigmoid, width=1.0)
    width = 0.3
    blurred = CustomChannel(
        lambda y, z: -((y - jnp.abs(z)) ** 2) / (2 * width**2) - jnp.log(width * jnp.sqrt(2 * jnp.pi)),
        support=(-3.0, 12.0),
        label_width=width,
        width=width,
        symmetric=True,
    )
    for own, known in ((odds, ll.Logistic()), (blurred, ll.Modulus(width**2))):
        assert own.even == known.even
        a, b = _of(_bayes, own, 0.6, 0.5), _of(_bayes, known, 0.6, 0.5)
        np.testing.assert_allclose(a[:3], b[:3], rtol=1e-7)
    y = np.asarray(blurred.sample(jax.random.key(0), jnp.full(4000, 1.0)))
    assert abs(y.mean() - 1.0) < 4 * width / np.sqrt(4000)


def test_custom_labels_that_surprise():
    """A student far inside the walls who is told that z lies outside: the explanation is many deviations away."""
    own = CustomBinary(lambda z: jnp.where(jnp.abs(z) > 0.6, 1.0, 0.0), kinks=(-0.6, 0.6), width=0.0, symmetric=True)
    for m, q, V in ((0.593, 1.646, 0.086), (0.7455, 1.0346, 0.0023), (0.2256, 0.9356, 1e-4)):
        got, known = (_of(_stein, channel, q, m / q, 1 - m**2 / q, V) for channel in (own, ll.Door(0.6)))
        np.testing.assert_allclose(got, known, rtol=3e-6)


def test_bad_channels_and_labels():
    with pytest.raises(InputError, match="normalised"):
        CustomChannel(lambda y, z: -(y**2), support=(-5.0, 5.0))
    with pytest.raises(InputError, match="between 0 and 1"):
        CustomBinary(lambda z: 1.5 + 0 * z)
    with pytest.raises(InputError, match="low < high"):
        CustomChannel(lambda y, z: -(y**2), support=(2.0, 1.0))
    with pytest.raises(InputError, match="2\\*y - 1"):
        ll.Sign().check_labels([0, 1, 1], by="fit")
    with pytest.raises(InputError, match="-1 or \\+1"):
        ll.Logistic().check_labels([0.5, 1], by="fit")
    with pytest.raises(InputError, match=">= 0"):
        ll.Modulus().check_labels([-0.1], by="fit")
    ll.Modulus(0.1).check_labels([-0.1], by="fit")
    with pytest.raises(InputError, match="finite"):
        ll.GaussianNoise().check_labels([np.nan], by="fit")
    for bad in (lambda: ll.Modulus(-1.0), lambda: ll.Door(0.0), lambda: ll.Sign(0.0, 0.5), lambda: ll.Sign(np.nan)):
        with pytest.raises(InputError):
            bad()


def test_a_density_too_narrow_for_the_rule_is_warned_about():
    def noisy_modulus(width):
        return ll.CustomChannel(
            lambda y, z: -((y - jnp.abs(z)) ** 2) / (2 * width**2) - 0.5 * jnp.log(2 * jnp.pi * width**2),
            support=(-4.0, 14.0),
            label_width=0.05,
            symmetric=True,
        )

    def error(custom, width):
        """The same channel exists in closed form."""
        y, w, V = jnp.array([0.3, 1.1, 2.0]), jnp.array([0.2, -0.5, 0.9]), jnp.ones(3)
        return float(jnp.max(jnp.abs(custom.output(y, w, V).g - ll.Modulus(width**2).output(y, w, V).g)))

    with pytest.warns(ll.errors.AccuracyWarning, match="narrower in z") as told:
        narrow = noisy_modulus(0.03)
    assert len(told) == 1 and error(narrow, 0.03) > 1e-5
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        wide = noisy_modulus(0.5)
    assert error(wide, 0.5) < 1e-7


# --- fields of a fit ---------------------------------------------------------------------------------------

FITS = {
    "signs, logistic": (ll.Sign(variance=0.2, flip=0.05), ll.LogisticLoss()),
    "odds, residuals": (ll.Logistic(), ll.PseudoHuberLoss(0.6)),
    "linear": (ll.GaussianNoise(variance=0.3), ll.PseudoHuberLoss(0.6)),
    "rectified": (ll.Rectified(variance=0.2), ll.PseudoHuberLoss(0.6)),
    "modulus": (ll.Modulus(variance=0.2), ll.PseudoHuberLoss(0.6)),
}


@pytest.mark.more_of("odds, residuals", "modulus", "signs, logistic", "rectified")
@pytest.mark.parametrize("name", FITS)
def test_the_response_of_a_fit_is_the_slope_of_its_envelope(name):
    r"""With M the Moreau envelope and (z, omega) ~ N(0, [[rho, m], [m, q]]): dM/d omega = -g, so that

    d/dm E M = -E f0 g and d/dq E M = -E dg / 2, by parts.
    """
    channel, loss = traced(FITS[name][0]), FITS[name][1]
    m, q, rho, V = 0.6, 0.9, 1.3, jnp.asarray(0.8)

    @eqx.filter_jit
    def envelope(m, q):
        _, gg, _, train = response(channel, loss, Predictor.of(m, q, rho), V)
        return train + V * gg / 2

    f0_g, _, bend, _ = response(channel, loss, Predictor.of(m, q, rho), V)
    h = 1e-4
    along_m = (envelope(m + h, q) - envelope(m - h, q)) / (2 * h)
    along_q = (envelope(m, q + h) - envelope(m, q - h)) / (2 * h)
    np.testing.assert_allclose([along_m, along_q], [-f0_g, bend / 2], rtol=2e-6)


@pytest.mark.parametrize(
    "channel", [ll.Modulus(variance=0.2), pytest.param(ll.SquaredModulus(variance=0.2), marks=pytest.mark.more)]
)
def test_a_blind_fit_has_the_law_of_a_fit_that_learned_nothing(channel):
    loss, p = ll.PseudoHuberLoss(0.6), Predictor(jnp.zeros(()), jnp.asarray(0.7), jnp.asarray(1.3))
    assert channel.blind(loss) and not channel.blind(ll.LogisticLoss())
    plain, blind = (response(traced(channel), loss, p, jnp.asarray(0.8), blind) for blind in (False, True))
    np.testing.assert_allclose(plain, blind, rtol=1e-8, atol=1e-9)


def test_label_moments_are_those_of_samples():
    z = 1.2 * jax.random.normal(jax.random.key(0), (400_000,))
    for channel in (ll.GaussianNoise(variance=0.3), ll.Sign(flip=0.1), ll.Rectified(variance=0.1), ll.Modulus()):
        y = channel.sample(jax.random.key(1), z)
        c1, y2, rest = channel.label_moments(1.44)
        np.testing.assert_allclose([jnp.mean(y * z) / 1.44, jnp.mean(y**2)], [c1, y2], rtol=0.01, atol=0.01)
        np.testing.assert_allclose(rest, y2 - 1.44 * c1**2, atol=1e-12)


def _odds_by_brute_force(y, w, V):
    """log Z, g, dg of logistic labels, from 20001 nodes in extended precision."""
    x = np.linspace(-14, 14, 20_001, dtype=np.longdouble)
    yz = y * (w + np.sqrt(np.longdouble(V)) * x)
    hit, miss = 1 / (1 + np.exp(-yz)), 1 / (1 + np.exp(yz))
    base = np.exp(-np.square(x) / 2)
    p = base * hit
    mean = np.sum(p * miss) / np.sum(p)
    bent = np.sum(p * (np.square(miss - mean) - miss * hit)) / np.sum(p)
    return np.log(np.sum(p) / np.sum(base)), y * mean, bent


def test_logistic_grid_is_exact_where_it_is_used(monkeypatch):
    """Up to V = 1.1 a few nodes do, to rounding; a grid of 33 would lose two digits; beyond, panels take over."""
    from limitlab.problems.channels import logistic  # its rules are its own business elsewhere

    def worst(V, rule):
        places = [(y, w) for y in (1.0, -1.0) for w in (-30.0, -4.0, -0.7, 0.0, 0.4, 3.0, 12.0)]
        exact = np.array([_odds_by_brute_force(y, w, V)[1:] for y, w in places], float).T
        y, w = jnp.asarray(places).T
        return np.max(np.abs(np.stack(rule(y, w, jnp.asarray(V))[1:]) - exact))

    for V in (1e-12, 0.01, 0.5, 1.0, 1.1):
        assert worst(V, logistic._on_a_grid) < 1e-14
        assert worst(V, ll.Logistic().output) < 1e-14
    assert worst(4.0, logistic._on_a_grid) > 1e-9 > worst(4.0, ll.Logistic().output)
    monkeypatch.setattr(logistic, "GRID", np.linspace(-8.5, 8.5, 33))
    assert worst(1.1, logistic._on_a_grid) > 1e-12


def test_logistic_outputs_take_variances_of_any_shape():
    """One V for all labels, one each, and some beyond the grid: the same numbers."""
    y, w = jnp.asarray([1.0, -1.0, 1.0]), jnp.asarray([0.3, 2.0, -5.0])
    channel = ll.Logistic()
    for V in (0.7, 3.0):
        one, each = channel.output(y, w, jnp.asarray(V)), channel.output(y, w, jnp.full(3, V))
        assert all(np.allclose(a, b, rtol=1e-14, atol=0) and a.shape == (3,) for a, b in zip(one, each, strict=True))
    mixed = channel.output(y, w, jnp.asarray([0.7, 3.0, 0.7]))
    alone = [channel.output(*(x[i] for x in (y, w, jnp.asarray([0.7, 3.0, 0.7])))) for i in range(3)]
    assert np.allclose(np.stack(mixed).T, np.array(alone), rtol=1e-8, atol=0)
    tiny = channel.output(jnp.asarray([1.0, -1.0]), jnp.asarray([-800.0, -800.0]), jnp.asarray(0.5))
    assert np.allclose(tiny.log_z, [-799.75, 0.0]) and np.allclose(tiny.g, [1.0, 0.0]) and np.all(np.isfinite(tiny.dg))


@pytest.mark.parametrize("channel", [*CHANNELS, CustomBinary(lambda z: jnp.clip(0.5 + z, 0.0, 1.0))], ids=repr)
def test_the_mean_label_of_a_value_is_that_of_samples(channel):
    z = np.array([-1.7, -0.2, 0.3, 1.1])
    y = np.asarray(channel.sample(jax.random.key(3), jnp.asarray(np.repeat(z[:, None], 4000, axis=1))))
    told, error = channel.told(z, np), y.std(axis=1) / np.sqrt(4000)
    assert np.all(np.abs(y.mean(axis=1) - told) <= 4.5 * error + 1e-12)
    assert np.allclose(channel.told(jnp.asarray(z), jnp), told)
    assert not np.all(np.abs(y.mean(axis=1) - (0.2 + 0.9 * told)) <= 4.5 * error + 1e-12)
