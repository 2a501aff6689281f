"""Certificates that the teacher is the only positive matrix that fits the data."""

import numpy as np
import pytest

import limitlab as ll
from limitlab.algorithms.descent.wide import draw_instance
from limitlab.algorithms.settings.fixed_data import PhaseData
from limitlab.errors import InputError
from limitlab.problems.asked import Asked


def phase(alpha, **changes):
    parts = {"teacher": ll.SingleIndex(ll.GaussianPrior()), "channel": ll.Modulus(), "sample_ratio": alpha}
    return ll.Problem(**(parts | changes))


def plain_kappa(X, w, values):
    """The certificate written out: project x, sum, take the lowest eigenvalue on the space orthogonal to w."""
    n, d = X.shape
    values = values / np.linalg.norm(values)
    u = w / np.linalg.norm(w)
    Z = X - np.outer(X @ u, u)
    F = sum(v * np.outer(z, z) for v, z in zip(values, Z, strict=True))
    eigenvalues = np.linalg.eigvalsh(F + 1e6 * np.outer(u, u))  # lift the direction of w out of the way
    return eigenvalues[0] * d / np.sqrt(n), np.linalg.norm((values * (X @ w)) @ X)


def test_the_certificate_holds_when_recomputed_by_hand():
    found = ll.uniqueness(phase(3.0), d=20, seed=0)
    X, b, w = found.instance
    np.testing.assert_allclose(b, (X @ w) ** 2, rtol=1e-12)
    kappa, residual = plain_kappa(X, w, found.multipliers)
    assert found.verdict == "unique" and found.unique
    assert kappa == pytest.approx(found.kappa, rel=1e-8) and kappa > 0.01
    assert residual < 1e-12
    again = found.verify()
    assert again.valid and again.kappa == pytest.approx(kappa, rel=1e-8)
    assert "unique" in str(found)


def test_a_corrupted_certificate_is_rejected():
    found = ll.uniqueness(phase(3.0), d=20, seed=0)
    assert not found.verify(found.multipliers + 1e-6 * np.random.default_rng(0).normal(size=60)).valid  # infeasible
    assert not found.verify(-found.multipliers).valid  # feasible, but not positive
    ones = found.verify(np.ones(60))
    assert ones.kappa > 0 and not ones.valid
    for bad in (np.ones(59), np.zeros(60), np.full(60, np.nan)):
        with pytest.raises(InputError, match="60 finite numbers"):
            found.verify(bad)


def test_the_data_are_those_of_the_flow():
    problem = phase(3.0)
    found = ll.uniqueness(problem, d=8, seed=3, replica=2)
    np.testing.assert_array_equal(
        found.instance.X, draw_instance("a test", PhaseData.of(problem, Asked("a test")), 8, 3, 2).X
    )
    squared = ll.uniqueness(phase(3.0, channel=ll.SquaredModulus()), d=8, seed=3, replica=2)
    np.testing.assert_allclose(squared.kappa, found.kappa, rtol=1e-6)


def test_a_second_solution_is_found_and_is_one():
    found = ll.uniqueness(phase(1.5), d=20, seed=0, replica=2, confirm=True)
    assert found.verdict == "not unique" and found.kappa < 0
    A, (X, b, w) = found.second.A, found.instance
    assert np.max(np.abs(np.einsum("ni,ij,nj->n", X, A, X) - b)) < 1e-12
    assert np.linalg.eigvalsh(A)[0] > -1e-12
    assert np.sum((A - np.outer(w, w)) ** 2) / 20**2 == pytest.approx(found.second.error, rel=1e-9)
    assert found.second.error > 0.1 and not found.verify().valid


def test_confirming_a_unique_solution_leads_back_to_the_teacher():
    found = ll.uniqueness(phase(3.0), d=10, seed=0, confirm=True)
    assert found.verdict == "unique" and not found.second.distinct and found.second.error < 1e-6


@pytest.mark.parametrize("alpha", [0.5, 1.0])
def test_too_few_samples_leave_no_multipliers(alpha):
    found = ll.uniqueness(phase(alpha), d=10, confirm=True)
    assert found.kappa == -np.inf and found.multipliers is None and not found.verify().valid
    assert found.verdict == "not unique" and found.second.error > 0.1
    assert ll.uniqueness(phase(alpha), d=10).verdict == "not shown unique"
    assert "no lambda" in str(found)


def test_a_curve_of_certificates_is_one_sweep():
    ds = ll.sweep(ll.uniqueness, phase(2.0), {"sample_ratio": [1.0, 3.5], "seed": [0, 1]}, d=10)
    assert ds.unique.values.tolist() == [[False, False], [True, True]]
    assert np.all(ds.kappa.sel(sample_ratio=3.5) > 0)


@pytest.mark.parametrize(
    ("problem", "arguments", "words"),
    [
        (phase(3.0, channel=ll.Sign()), {}, "noiseless labels without a sign"),
        (phase(3.0, channel=ll.Modulus(variance=0.1)), {}, "noiseless"),
        (phase(None), {}, "fixed data set"),
        (phase(3.0), {"d": 1}, "uniqueness.d"),
        (phase(3.0), {"seed": -1}, "uniqueness.seed"),
        (phase(3.0), {"s": 0.0, "confirm": True}, "uniqueness.s"),
        ("a problem", {}, "needs a Problem"),
    ],
)
def test_bad_input_is_said_in_words(problem, arguments, words):
    with pytest.raises(InputError, match=words):
        ll.uniqueness(problem, **arguments)
