"""Convex fits on inputs with a spectrum: the equations, their identities, and fits at d = 400."""

import dataclasses

import numpy as np
import pytest

import limitlab as ll
from limitlab.algorithms.settings.fixed_data import ConvexFit
from limitlab.macro.erm.erm_asymptotics import solve_erm
from limitlab.problems.asked import Asked

TWO = ll.Spectrum([0.25, 1.75], teacher=[4.0, 0.25])
FLAT = ll.Spectrum([1.0])
NAMES = ("m", "q", "V", "train_loss", "risk", "generalisation_error", "mse")


def fit(spectrum, channel=None, loss=None, alpha=2.0, penalty=0.1, prior=None):
    return ll.Problem(
        inputs=ll.Gaussian(spectrum=spectrum),
        teacher=ll.SingleIndex(ll.GaussianPrior() if prior is None else prior),
        channel=ll.Sign() if channel is None else channel,
        sample_ratio=alpha,
        loss=ll.LogisticLoss() if loss is None else loss,
        algorithm=ll.ERM(penalty),
    )


def solved(*args, **kwargs):
    return ll.predict(fit(*args, **kwargs), ll.ERMAsymptotics())


TABLE = [  # of the formula sheet, by other code
    (TWO, {}, (1.0002119, 2.8494532, 2.7641827, 0.26437159), 0.25366802),
    (
        ll.PowerLaw(1.2, 1.6, modes=400),
        {"channel": ll.GaussianNoise(0.1), "loss": ll.SquareLoss(), "alpha": 0.5, "penalty": 0.05},
        (0.94620818, 0.98496655, 3.0541509, 0.00585752),
        None,
    ),
    (
        ll.PowerLaw(1.0, 1.3, modes=400, unexplained=0.3),
        {"alpha": 1.0, "penalty": 0.02},
        (3.3516710, 15.331872, 13.215987, 0.09328296),
        0.22969498,
    ),
]


@pytest.mark.more_of("spectrum0-case0-numbers0-0.25366802")
@pytest.mark.parametrize(("spectrum", "case", "numbers", "error"), TABLE)
def test_numbers_of_other_code(spectrum, case, numbers, error):
    found = solved(spectrum, **case)
    np.testing.assert_allclose([float(found[name]) for name in NAMES[:4]], numbers, rtol=1e-6)
    if error is not None:
        np.testing.assert_allclose(float(found.generalisation_error), error, rtol=1e-7)
    modes = fit(spectrum).inputs.modes  # fields and norms are sums over modes
    np.testing.assert_allclose((found.share * found.eigenvalue * found.m_mode).sum(), found.m, rtol=1e-9)
    np.testing.assert_allclose((found.share * found.eigenvalue * found.q_mode).sum(), found.q, rtol=1e-9)
    np.testing.assert_allclose((found.share * found.q_mode).sum(), found.squared_norm, rtol=1e-12)
    assert len(found.mode) == modes.count


def test_ridge_has_the_numbers_of_other_code():
    for n, penalty, mse in ((50, 0, 0.78827), (150, 0, 0.92545), (250, 0, 1.0), (200, 0.01, 0.52896)):
        found = solved(
            ll.Spectrum([0.1, 3.7], [0.75, 0.25]),
            ll.GaussianNoise(0.2),
            ll.SquareLoss(),
            alpha=n / 200,
            penalty=penalty,
        )
        np.testing.assert_allclose(2 * float(found.risk), mse, atol=6e-6)


FITS = [  # with noise: one compiled program for each loss
    (ll.LogisticLoss(), ll.Sign(variance=0.2), 1.5, 0.1),
    (ll.HingeLoss(), ll.Sign(variance=0.2), 2.0, 0.3),
    (ll.SquaredHingeLoss(), ll.Sign(variance=0.2), 1.0, 0.05),
    (ll.PseudoHuberLoss(0.5), ll.GaussianNoise(0.3), 1.5, 0.2),
    (ll.HuberLoss(0.7), ll.GaussianNoise(0.3), 0.7, 0.2),
    (ll.SquareLoss(), ll.GaussianNoise(0.3), 0.7, 0.2),
    (ll.SquareLoss(), ll.Sign(variance=0.2), 0.7, 0.0),
    (ll.MaxMargin(), ll.Sign(variance=0.2), 1.0, 0.0),
]


@pytest.mark.more_of(
    "HuberLoss-GaussianNoise-float-float",
    "PseudoHuberLoss-GaussianNoise-float-float",
    "MaxMargin-Sign-float-float",
    "HingeLoss-Sign-float-float",
    "SquaredHingeLoss-Sign-float-float",
    "LogisticLoss-Sign-float-float",
)
@pytest.mark.parametrize(("loss", "channel", "alpha", "penalty"), FITS, ids=lambda x: type(x).__name__)
def test_a_flat_spectrum_is_none(loss, channel, alpha, penalty):
    plain, flat, split = (
        solved(s, channel, loss, alpha, penalty, ll.GaussianPrior(1.3))
        for s in (None, FLAT, ll.Spectrum([1.0, 1.0], [0.3, 0.7]))
    )
    for name in NAMES:
        if name in plain:
            np.testing.assert_allclose(flat[name], plain[name], rtol=1e-8, err_msg=name)
            np.testing.assert_allclose(split[name], plain[name], rtol=1e-8, err_msg=name)
    np.testing.assert_allclose(flat.squared_norm, plain.q, rtol=1e-8)


@pytest.mark.more_of(
    "MaxMargin-Sign-float-float",
    "HingeLoss-Sign-float-float",
    "SquaredHingeLoss-Sign-float-float",
    "PseudoHuberLoss-GaussianNoise-float-float",
    "HuberLoss-GaussianNoise-float-float",
    "SquareLoss-Sign-float-float",
)
@pytest.mark.parametrize(("loss", "channel", "alpha", "penalty"), FITS, ids=lambda x: type(x).__name__)
def test_scale_split_and_unexplained(loss, channel, alpha, penalty):
    one = solved(TWO, channel, loss, alpha, penalty)
    scaled = solved(ll.Spectrum([0.75, 5.25], teacher=[4 / 3, 0.25 / 3]), channel, loss, alpha, 3 * penalty)
    split = solved(ll.Spectrum([0.25, 1.75, 1.75], [0.5, 0.1, 0.4], [4.0, 0.25, 0.25]), channel, loss, alpha, penalty)
    spread = solved(ll.Spectrum([0.25, 1.75]), channel, loss, alpha, penalty, ll.GaussianPrior(2.125))
    names = [name for name in ("m", "q", "train_loss", "generalisation_error") if name in one]
    for name in names:
        if not loss.hard:  # its penalty is 1 and cannot be scaled with the rest
            np.testing.assert_allclose(scaled[name], one[name], rtol=1e-8, atol=1e-12, err_msg=name)
        np.testing.assert_allclose(split[name], one[name], rtol=1e-8, atol=1e-12, err_msg=name)
    np.testing.assert_allclose(split.q_mode.values, one.q_mode.values[[0, 1, 1]], rtol=1e-8)
    assert abs(float(spread.m) / float(one.m) - 1) > 0.05  # the same norm of the teacher, evenly: another problem
    hidden = dataclasses.replace(TWO, unexplained=0.4)
    noisier = dataclasses.replace(channel, variance=channel.variance + 0.4)
    np.testing.assert_allclose(
        [solved(hidden, channel, loss, alpha, penalty)[name] for name in names],
        [solved(TWO, noisier, loss, alpha, penalty)[name] for name in names],
        rtol=1e-7,
        atol=1e-12,
    )


def objective(problem, penalties):
    """min objective/d, and the two norms."""
    setting = ConvexFit.of(problem, Asked("a test"))
    values, status, _ = solve_erm(setting, np.full(len(penalties), setting.ratio), np.asarray(penalties))
    assert set(status) == {"ok"}
    return setting.ratio * values["train_loss"] + penalties * values["squared_norm"] / 2, values


@pytest.mark.parametrize(
    ("loss", "channel"),
    [pytest.param(ll.LogisticLoss(), ll.Sign(), marks=pytest.mark.more), (ll.SquareLoss(), ll.Sign())],
)
def test_the_penalty_weighs_the_norm_of_the_weights_and_not_that_of_fields(loss, channel):
    penalties = np.array([0.099, 0.1, 0.101])
    least, values = objective(fit(TWO, channel, loss), penalties)
    slope = (least[2] - least[0]) / 0.002
    np.testing.assert_allclose(slope, values["squared_norm"][1] / 2, rtol=1e-4)
    assert abs(slope / (values["q"][1] / 2) - 1) > 0.1  # with q it fails


def test_ridge_obeys_generalised_cross_validation():
    spectrum, alpha, penalty = ll.PowerLaw(1.2, 1.6, modes=400), 0.5, 0.05
    found = solved(spectrum, ll.GaussianNoise(0.1), ll.SquareLoss(), alpha, penalty)
    df1 = float(found.V / (1 + found.V)) * alpha  # V = df1/(n - df1)
    np.testing.assert_allclose(found.train_loss / (1 - df1 / alpha) ** 2, found.risk, rtol=1e-12)
    c, h = found.eigenvalue.values, found.share.values
    kappa = penalty / (alpha - df1)
    np.testing.assert_allclose(np.sum(h * c / (c + kappa)), df1, rtol=1e-12)


@pytest.mark.more
def test_ridge_in_closed_form_is_the_fixed_point():
    square = ll.CustomLoss(lambda t: t**2 / 2, of="residual")
    for spectrum in (TWO, ll.Spectrum([0.0, 0.5, 3.0], [0.2, 0.5, 0.3], unexplained=0.2)):
        case = {"channel": ll.GaussianNoise(0.3), "alpha": 0.7, "penalty": 0.2}
        closed, iterated = solved(spectrum, loss=ll.SquareLoss(), **case), solved(spectrum, loss=square, **case)
        for name in (*NAMES, "squared_norm", "q_mode", "m_mode"):
            np.testing.assert_allclose(iterated[name], closed[name], rtol=1e-8, atol=1e-12, err_msg=name)


def test_least_squares_diverges_where_samples_are_as_many_as_seen_directions():
    dim = ll.Spectrum([0.0, 1.0, 2.0], [0.5, 0.25, 0.25])
    with pytest.raises(ll.errors.ConvergenceError, match=r"sample_ratio = 0\.5"):
        solved(dim, ll.GaussianNoise(0.1), ll.SquareLoss(), 0.5, 0.0)
    assert float(solved(dim, ll.GaussianNoise(0.1), ll.SquareLoss(), 0.4, 0.0).train_loss) == 0
    with pytest.raises(ll.errors.LimitUndefinedError, match="infinitely many weights"):
        solved(dim, ll.GaussianNoise(0.1), ll.HuberLoss(1.0), 0.5, 0.0)


def test_separability_sees_rank_and_what_is_unexplained():
    sign = ll.Sign(flip=0.1)
    plain = ll.separability_threshold(sign)
    np.testing.assert_allclose(ll.separability_threshold(sign, spectrum=TWO), plain, rtol=1e-9)
    dim = ll.Spectrum([0.0, 1.0, 3.0], [0.5, 0.25, 0.25])
    np.testing.assert_allclose(ll.separability_threshold(sign, spectrum=dim), plain / 2, rtol=1e-9)
    hidden = ll.Spectrum([0.5, 1.5], unexplained=0.4)
    np.testing.assert_allclose(
        ll.separability_threshold(sign, spectrum=hidden),
        ll.separability_threshold(ll.Sign(variance=0.4, flip=0.1)),
        rtol=1e-8,
    )
    threshold = ll.separability_threshold(sign, spectrum=hidden)
    with pytest.raises(ll.errors.LimitUndefinedError, match="separable"):
        solved(hidden, sign, alpha=0.9 * threshold, penalty=0.0)
    assert float(solved(hidden, sign, alpha=1.3 * threshold, penalty=0.0).m) > 0


def test_the_best_penalty_of_ridge():
    case = {"channel": ll.GaussianNoise(0.3), "loss": ll.SquareLoss(), "alpha": 0.8}
    for spectrum in (ll.Spectrum([0.25, 1.75]), ll.Spectrum([0.1, 3.7], [0.75, 0.25])):  # the same for every spectrum
        best = ll.optimal_penalty(fit(spectrum, prior=ll.GaussianPrior(2.0), **case))
        np.testing.assert_allclose(best.penalty, 0.15, rtol=1e-9)
        assert float(best.within[0]) < 0.15 < float(best.within[1])
    aligned = ll.Spectrum([0.25, 1.75], teacher=[0.1, 2.0])
    best = ll.optimal_penalty(fit(aligned, **case))
    near = [float(solved(aligned, penalty=best.penalty * f, **case).risk) for f in (0.97, 1.0, 1.03)]
    assert near[1] <= min(near) + 1e-12 and abs(best.penalty / (0.3 / 1.05) - 1) > 0.2


@pytest.mark.slow
def test_the_best_penalty_of_other_losses():
    aligned = ll.Spectrum([0.25, 1.75], teacher=[0.1, 2.0])
    best = ll.optimal_penalty(fit(aligned))
    near = [float(solved(aligned, penalty=best.penalty * f).generalisation_error) for f in (0.9, 1.0, 1.1)]
    assert near[1] <= min(near) + 1e-9


@pytest.mark.more
def test_a_curve_has_the_points():
    problem = fit(TWO)
    curve = ll.ERMAsymptotics().curve(problem, [1.0, 2.0], [0.1, 0.3])
    assert curve.q_mode.dims == ("sample_ratio", "algorithm.penalty", "mode")
    alone = ll.predict(problem)
    for name in ("m", "squared_norm", "q_mode"):
        np.testing.assert_allclose(curve[name].sel(sample_ratio=2.0).values[0], alone[name], rtol=1e-9)


NOISY = ll.Sign(variance=0.2)
AT_FINITE_SIZE = {
    "logistic": fit(TWO),
    "power law": fit(*TABLE[1][:1], **TABLE[1][1]),
    "unexplained": fit(*TABLE[2][:1], **TABLE[2][1]),
    "hinge": fit(TWO, NOISY, ll.HingeLoss(), 1.5, 0.3),
    "squared hinge": fit(ll.Spectrum([0.25, 1.75]), NOISY, ll.SquaredHingeLoss(), 1.5, 0.3),
    "rank": fit(
        ll.Spectrum([0.0, 0.25, 2.75], [0.2, 0.4, 0.4], unexplained=0.2),
        ll.GaussianNoise(0.1),
        ll.PseudoHuberLoss(0.5),
        1.5,
    ),
    "smooth": fit(ll.MarchenkoPastur(1.5), ll.GaussianNoise(0.1), ll.SquareLoss(), 1.5),
    "max margin": fit(TWO, NOISY, ll.MaxMargin(), 1.0),
    "signs": fit(ll.Spectrum([0.25, 1.75]), prior=ll.RademacherPrior()),
}


@pytest.mark.more_of("signs", "squared hinge", "unexplained", "max margin", "rank", "hinge")
@pytest.mark.parametrize("case", AT_FINITE_SIZE)
def test_fits_agree(case):
    problem = AT_FINITE_SIZE[case]
    sim, pred = ll.simulate(problem, d=400, replicas=24, seed=1), ll.predict(problem)
    seen = [name for name in ("m", "q", "squared_norm", "train_loss", "mse", "generalisation_error") if name in sim]
    for name in seen:
        error = float(sim[name].std("replica", ddof=1)) / np.sqrt(24)
        if error > 0:
            assert abs(float(sim[name].mean()) - float(pred[name])) < 4 * error, name
    gap = ll.compare(sim, pred)
    assert gap.verdict != "disagree", gap
    if case == "logistic":  # the same norm of the teacher, spread evenly: seen at once
        other = ll.predict(fit(ll.Spectrum([0.25, 1.75]), prior=ll.GaussianPrior(2.125)))
        assert abs(float(sim.m.mean()) - float(other.m)) > 10 * float(sim.m.std(ddof=1)) / np.sqrt(24)
