"""Stages of multi-index teachers, specialisation, exponents: published numbers and unseen links."""

import dataclasses

import numpy as np
import pytest

import limitlab as ll
from limitlab.analysis.multi.wide import wide_majority
from limitlab.errors import InputError


def of(link, width, channel=None, **rest):
    return ll.thresholds(ll.MultiIndex(width, link, **rest), channel)


@pytest.mark.parametrize(
    ("link", "width", "rest", "alpha", "tolerance"),
    [
        ("majority", 2, {"ties": "zero"}, 2.05238, 5e-6),
        ("majority", 2, {"ties": "coin"}, 7.15501, 1e-5),
        ("and", 2, {}, 4.22698, 1e-5),
        ("sign_sum", 3, {}, 5.0179, 1e-4),
        ("majority", 7, {}, 128.99, 1e-2),
    ],
)
def test_specialisation(link, width, rest, alpha, tolerance):
    found = of(link, width, **rest)
    assert found.specialisation == pytest.approx(alpha, abs=tolerance)
    assert len(found.trivial) == 1
    assert found.stages[0].directions == pytest.approx(np.full((1, width), width**-0.5), abs=1e-6)
    assert set(found.easy.values()) == {found.specialisation}


def test_a_smooth_committee_specialises_where_the_matrix_engine_says():
    from limitlab.macro.multi.information import field_law, information

    found = of("(erf(z1) + erf(z2))/2", 2, ll.GaussianNoise(0.01)).specialisation
    law, u, v = field_law(ll.MultiIndex(2, "(erf(z1) + erf(z2))/2").link, 2, 0.01), np.ones(2), np.array([1.0, -1.0])
    low, high = 0.929, 0.935

    def growth(lam):
        M = lam * np.outer(u, u) / 2
        alpha = lam / ((1 - lam) * (u @ information(law, M).gg @ u) / 2)
        pushed = [v @ information(law, M + s * 3e-4 * np.outer(v, v) / 2).gg @ v / 2 / (s * 3e-4) for s in (1, 2)]
        return alpha, alpha * (2 * pushed[0] - pushed[1])

    (a, ga), (b, gb) = growth(low), growth(high)
    assert found == pytest.approx(a + (b - a) * (1 - ga) / (gb - ga), rel=1e-3)


@pytest.mark.parametrize(
    ("link", "width", "alpha", "tolerance"),
    [
        ("squares", 4, 2.0, 1e-12),
        ("parity", 2, np.pi**2 / 4, 1e-12),
        ("product", 2, 0.593751, 1e-6),
        ("z1*z2", 2, 0.593751, 1e-6),  # the same link as a text
        ("product", 3, 2.565, 5e-3),
        ("z1^4 - 6*z1^2 + 3", 1, 0.6449, 2e-4),
        ("abs(z1)", 1, 0.5, 2e-5),  # noiseless phase retrieval
    ],
)
def test_links_that_are_learned_in_one_stage(link, width, alpha, tolerance):
    found = of(link, width)
    assert found.trivial == found.hard == ()
    assert list(found.easy.values()) == pytest.approx([alpha] * width, abs=tolerance)
    assert found.accuracy < 5e-3


def test_bins_converge_to_the_closed_form_of_squares_and_of_products():
    """Two fields by bins, as a link without a closed form is done."""
    assert of("z1^2 + z2^2 + 0.0000001*z1*z2", 2).easy["z1"] == pytest.approx(1.0, abs=1e-4)
    assert of("z1*z2 + 0.0000001*z1^2", 2).easy["z1"] == pytest.approx(0.593751, rel=2e-4)


def test_the_grand_staircase():
    found = of("z1^2 + sign(z1*z2*z3)", 3)
    assert [stage.names for stage in found.stages] == [("z1",), ("z2", "z3")]
    assert found.easy["z1"] == pytest.approx(0.575166, abs=5e-5)
    assert found.easy["z2"] == pytest.approx(np.pi**2 / 4, abs=5e-5)
    assert found.stages[1].given == ("z1",)
    assert "z2, z3: above 2.467" in str(found)


def test_hard_easy_and_trivial_directions_are_told_apart():
    assert of("parity", 3).hard == ("z1", "z2", "z3")
    assert of("sign(z1*z2*z3)", 3).stages[0].alpha == np.inf
    assert of("z1^3 - 3*z1", 1).trivial == ("z1",)  # E[z|y], not E[y z]
    assert of("z1 + z1*z2", 2).trivial == ("z1", "z2")
    mixed = of("sign(z1) + sign(z1*z2*z3)", 3)
    assert mixed.trivial == ("z1",)
    assert mixed.easy == pytest.approx({"z2": np.pi**2 / 4, "z3": np.pi**2 / 4}, rel=1e-6)


def test_noise_makes_learning_later_and_problems_are_taken_whole():
    clean, noisy = (of("sign(z1*z2)", 2, channel).easy["z1"] for channel in (None, ll.GaussianNoise(0.5)))
    assert noisy > clean * 1.2
    problem = ll.Problem(teacher=ll.MultiIndex(2, "and"), sample_ratio=3.0)
    assert ll.thresholds(problem).specialisation == pytest.approx(4.22698, abs=1e-5)


@pytest.mark.parametrize(
    ("link", "channel", "alpha"),
    [
        ("product", ll.Sign(), np.pi**2 / 4),
        ("sign_sum", ll.Modulus(), np.pi**2 / 4),  # of 0 and 2: the parity
        ("parity", ll.Sign(flip=0.1), np.pi**2 / 4 / 0.8**2),
        ("parity", ll.Logistic(), np.pi**2 / 4 / np.tanh(0.5) ** 2),
    ],
)
def test_channels_act_on_the_value_of_the_link(link, channel, alpha):
    found = of(link, 2, channel)
    assert found.easy == pytest.approx({"z1": alpha, "z2": alpha}, rel=1e-6)
    assert found.accuracy < 1e-5


def test_committees_behind_a_channel_specialise_later():
    clean = of("sign_sum", 3)
    for channel in (ll.Logistic(), ll.GaussianNoise(0.5), ll.Rectified(0.1)):
        behind = of("sign_sum", 3, channel)
        assert behind.trivial == clean.trivial
        assert behind.specialisation > 1.05 * clean.specialisation
    assert of("sign_sum", 3, ll.GaussianNoise(1e-3)).specialisation == pytest.approx(clean.specialisation, rel=1e-6)
    assert of("majority", 11, ll.Sign(flip=0.1)).information is None  # 7.68 K is for labels without noise


def test_the_majority_of_many_signs():
    wide = wide_majority()
    assert wide.ratio == pytest.approx(7.6802, abs=1e-4)
    assert wide.q == pytest.approx(0.9364, abs=1e-4)
    eleven = of("majority", 11)
    assert eleven.information == pytest.approx(11 * wide.ratio)
    assert eleven.information < eleven.specialisation
    assert of("sign_sum", 11).information is None


@pytest.mark.parametrize(
    ("target", "generative", "information"),
    [
        ("hermite(3)", 1, 3),
        ("hermite(2)", 2, 2),
        ("hermite(4)", 2, 4),
        ("abs", 2, 2),
        ("sign(z1*z2)", 2, 2),
        ("sign(z1*z2*z3)", 3, 3),
        ("z1*z2*z3", 2, 3),
        (ll.MultiIndex(4, "parity"), 4, 4),
    ],
)
def test_exponents(target, generative, information):
    found = ll.generative_exponent(target)
    assert found == generative
    assert found.information == information
    assert f"exponent {generative}" in found.words


def test_refusals():
    with pytest.raises(InputError, match="at most 3 directions"):
        of("z1 + z2*z3*z4", 4)
    with pytest.raises(InputError, match="constant"):
        of("and", 2, ll.Sign())
    own = ll.CustomChannel(lambda y, z: -((y - z) ** 2) / 2 - 0.9189385332046727, (-12.0, 12.0), label_width=0.3)
    with pytest.raises(InputError, match="method `told`"):
        of("and", 2, own)
    with pytest.raises(InputError, match="such as Sign"):
        of("and", 2, "sign")
    with pytest.raises(InputError, match="GaussianPrior"):
        of("and", 2, prior=ll.RademacherPrior())
    with pytest.raises(InputError, match="alone"):
        ll.thresholds(ll.Problem(teacher=ll.MultiIndex(2, "and")), ll.GaussianNoise(0.1))
    with pytest.raises(InputError, match="Raise degree"):
        ll.generative_exponent("sign(z1*z2*z3)", degree=2)
    with pytest.raises(InputError, match="constant"):
        ll.thresholds(dataclasses.replace(ll.Problem(teacher=ll.MultiIndex(2, "and")), channel=ll.Sign()))
