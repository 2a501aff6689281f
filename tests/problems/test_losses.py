"""Losses: the proximal map and its derivatives, by their defining identities."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import limitlab as ll
from limitlab.problems.losses import (
    AmplitudeLoss,
    CustomLoss,
    HingeLoss,
    HuberLoss,
    LogisticLoss,
    MaxMargin,
    PhaseRetrievalLoss,
    PseudoHuberLoss,
    SquareLoss,
)

SMOOTH = {
    "square": SquareLoss(),
    "logistic": LogisticLoss(),
    "huber": HuberLoss(0.7),
    "pseudo-huber": PseudoHuberLoss(0.3),
    "exponential": CustomLoss(lambda t: jnp.exp(-t)),
}
ALL = SMOOTH | {"hinge": HingeLoss(), "max-margin": MaxMargin()}
VARIANCES = 10.0 ** np.arange(-8, 9)


@eqx.filter_jit
def proximal(loss, s, V):
    return loss.proximal(s, V)


def fields(V, seed=0):
    """Ordinary fields, and fields around every place where a proximal map bends."""
    x = np.random.default_rng(seed).normal(size=(6, 200))
    return np.concatenate([3 * x[0], 100 * x[1], V * x[2], x[3] - V, x[4] - V / 2, 0.3 * V + x[5]])


@pytest.mark.more_of("exponential")
@pytest.mark.parametrize("name", SMOOTH)
def test_proximal_points_solve_their_equation_for_every_variance(name):
    loss = SMOOTH[name]
    for V in VARIANCES:
        s = fields(V)
        s = s[np.abs(s) < 300] if name == "exponential" else s
        point, pull, bend = proximal(loss, jnp.asarray(s), jnp.asarray(V))
        first, second = loss.derivatives(point)
        scale = np.abs(s) + np.abs(point) + V * np.abs(first)
        clear = np.abs(np.abs(point) - 0.7) > 1e-6 if name == "huber" else True
        assert np.max(np.abs(point - s + V * first) / scale * clear) < 5e-15
        np.testing.assert_allclose(pull * clear, -first * clear, rtol=1e-8, atol=1e-15)
        np.testing.assert_allclose(bend * clear, -second / (1 + V * second) * clear, rtol=1e-9)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("V", [0.05, 1.0, 40.0])
def test_pull_is_minus_the_slope_of_the_moreau_envelope(name, V):
    loss, s = ALL[name], np.random.default_rng(1).normal(size=200) * 3
    s = s[np.abs(s - 1) > 1e-2] if name in ("hinge", "max-margin") else s

    def envelope(s):
        point = proximal(loss, jnp.asarray(s), jnp.asarray(V)).point
        # of max margin the loss at the proximal point is zero, on the margin itself
        value = 0.0 if name == "max-margin" else loss.scalar(point)
        return value + (point - s) ** 2 / (2 * V)

    _, pull, bend = proximal(loss, jnp.asarray(s), jnp.asarray(V))
    h = 1e-5
    np.testing.assert_allclose(-(envelope(s + h) - envelope(s - h)) / (2 * h), pull, rtol=2e-6, atol=2e-6)
    slope = jax.jvp(lambda x: proximal(loss, x, jnp.asarray(V)).pull, (jnp.asarray(s),), (jnp.ones(len(s)),))[1]
    np.testing.assert_allclose(slope, bend, rtol=1e-7, atol=1e-12)


@pytest.mark.more_of("exponential")
@pytest.mark.parametrize("name", ALL)
def test_proximal_point_is_the_best_of_a_grid(name):
    loss, V = ALL[name], 0.8
    z = np.linspace(-8, 8, 16001)
    for y, w in ((1.0, -0.4), (-1.0, 0.7), (1.0, 1.7), (-1.0, 3.0)):
        cost = np.asarray(loss.value(y, z)) + (z - w) ** 2 / (2 * V)
        assert abs(float(loss.prox(y, jnp.asarray(w), jnp.asarray(V))) - z[np.argmin(cost)]) < 1.1e-3
        g, dg = loss.output(y, jnp.asarray(w), jnp.asarray(V))
        point = float(loss.prox(y, jnp.asarray(w), jnp.asarray(V)))
        assert abs(float(g) - (point - w) / V) < 1e-12
        assert dg <= 0


def test_a_custom_loss_equals_the_built_in_one():
    s = jnp.linspace(-5, 5, 998)
    for V in (1e-3, 1.0, 1e3):
        for own, ours in (
            (CustomLoss(lambda t: jnp.maximum(0.0, 1 - t), kinks=(1,)), HingeLoss()),
            (CustomLoss(lambda t: jnp.logaddexp(0.0, -t)), LogisticLoss()),
            (CustomLoss(lambda t: t**2 / 2, of="residual"), SquareLoss()),
        ):
            for a, b in zip(proximal(own, s, jnp.asarray(V)), proximal(ours, s, jnp.asarray(V)), strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    ("function", "kinks", "message"),
    [
        (lambda t: -(t**2), (), "must be convex"),
        (lambda t: jnp.cos(t), (), "must be convex"),
        (lambda t: -jnp.abs(t), (0,), "its derivative falls"),
        (lambda t: jnp.maximum(0.0, 1 - t), (), "seems to have a kink near"),
        (lambda t: jnp.sqrt(t), (), "must have a finite derivative"),
    ],
)
def test_a_custom_loss_that_is_not_convex_or_hides_a_kink_is_refused(function, kinks, message):
    with pytest.raises(ll.errors.InputError, match=message):
        CustomLoss(function, kinks=kinks)


def test_bad_parameters_are_refused():
    for make in (lambda: HuberLoss(0.0), lambda: PseudoHuberLoss(-1.0), lambda: CustomLoss(jnp.exp, of="label")):
        with pytest.raises(ll.errors.InputError, match="must be"):
            make()


def test_a_custom_loss_has_a_hash_but_cannot_be_saved(tmp_path):
    def problem(loss):
        return ll.Problem(teacher=ll.SingleIndex(ll.GaussianPrior()), loss=loss)

    first, second = (problem(CustomLoss(f)) for f in (lambda t: jnp.exp(-t), lambda t: jnp.exp(-2 * t)))
    assert ll.spec_hash(first) != ll.spec_hash(second)
    with pytest.raises(ll.errors.SpecError):
        ll.save_spec(first, tmp_path / "problem.toml")
    ll.save_spec(problem(PseudoHuberLoss(0.5)), tmp_path / "problem.toml")
    assert ll.load_spec(tmp_path / "problem.toml").loss == PseudoHuberLoss(0.5)


def test_only_the_phase_retrieval_loss_is_not_convex():
    assert not PhaseRetrievalLoss().convex
    assert all(loss.convex for loss in ALL.values())


# --- labels ------------------------------------------------------------------------------------------------

CHANNELS = {
    "linear": ll.GaussianNoise(variance=0.3),
    "sign": ll.Sign(),
    "logistic": ll.Logistic(),
    "door": ll.Door(0.7),
    "modulus": ll.Modulus(variance=0.1),
    "squares": ll.SquaredModulus(),
    "rectified": ll.Rectified(),
}
SIGNED, BINARY = {"linear", "sign", "logistic", "rectified"}, {"sign", "logistic", "door"}
FITTING = [
    *((loss, SIGNED) for loss in (SquareLoss(), HuberLoss(), PseudoHuberLoss(), CustomLoss(jnp.cosh, of="residual"))),
    *(
        (loss, BINARY)
        for loss in (LogisticLoss(), HingeLoss(), ll.SquaredHingeLoss(), CustomLoss(lambda t: jnp.exp(-t)))
    ),
    (PhaseRetrievalLoss(), {"modulus"}),
    (PhaseRetrievalLoss(labels="intensity"), {"squares"}),
    (AmplitudeLoss(), {"modulus"}),
    (MaxMargin(), set()),
]


@pytest.mark.parametrize(("loss", "fitting"), FITTING, ids=[type(loss).__name__ for loss, _ in FITTING])
def test_a_loss_knows_which_labels_it_fits(loss, fitting):
    assert {name for name, channel in CHANNELS.items() if loss.fits(channel) is None} == fitting
    for name in CHANNELS.keys() - fitting:
        needed, came, remedy = loss.fits(CHANNELS[name])
        assert needed and came and remedy.endswith(".")


def test_a_misfit_says_what_was_needed_what_came_and_what_to_do():
    even = SquareLoss().fits(ll.Door(0.7))
    assert even.needed == "labels that see the sign of z for SquareLoss"
    assert even.came == "Door(width=0.7), from which a linear output learns nothing"
    assert even.remedy == "Use loss=PhaseRetrievalLoss() or AmplitudeLoss()."
    signs = LogisticLoss().fits(ll.Modulus())
    assert signs == (
        "labels -1 and +1 for LogisticLoss",
        ll.Modulus(),
        "Use a channel such as Sign(), or loss=SquareLoss().",
    )
    assert AmplitudeLoss().fits(ll.Sign()).needed == "labels |z| (Problem.channel=Modulus()) for AmplitudeLoss"
    assert MaxMargin().fits(ll.Sign()).needed == "a loss with a gradient"
    assert MaxMargin().reads(ll.Sign()) is None  # a fit needs no gradient
    assert not MaxMargin().differentiable


def test_a_channel_of_the_users_own_is_judged_by_what_it_says_of_itself():
    class Doubled(ll.Modulus):
        """y = 2 |z|: still a modulus to a loss, whatever its class."""

    assert PhaseRetrievalLoss().fits(Doubled()) is None
    assert SquareLoss().fits(Doubled()) is not None


@pytest.mark.parametrize("loss", [PhaseRetrievalLoss(0.7), AmplitudeLoss(0.3)])
@pytest.mark.parametrize("channel", [ll.Modulus(variance=0.2), ll.GaussianNoise(variance=0.2)])
def test_the_risk_of_phase_retrieval_is_the_mean_over_the_law_of_any_labels(loss, channel):
    """In closed form for its own labels, by the law of the channel for others."""
    m, q, rho = 0.5, 0.9, 1.3
    key = jax.random.key(0)
    z = jax.random.multivariate_normal(key, jnp.zeros(2), jnp.asarray([[rho, m], [m, q]]), (400_000,))
    paid = loss.value(channel.sample(jax.random.key(1), z[:, 0]), z[:, 1])
    error = float(jnp.std(paid)) / np.sqrt(len(paid))
    assert abs(float(loss.risk(channel, *map(jnp.asarray, (m, q, rho)))) - float(jnp.mean(paid))) < 4.5 * error
