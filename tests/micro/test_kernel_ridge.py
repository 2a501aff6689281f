"""The kernel baseline: its kernel, its exact population numbers, and the samples that a degree costs."""

import dataclasses

import numpy as np
import pytest

import limitlab as ll
from limitlab.micro.kernel_ridge import _composed, _draw, _levels, _Sparse, _student_values, activation_kernel
from limitlab.numerics.cube import cube_points, walsh
from limitlab.problems.asked import Asked


def problem(text="z1 + z1*z2", activation="shifted(tanh, 0.5)", variance=0.0):
    return ll.Problem(
        inputs=ll.Hypercube(),
        teacher=ll.SparseTarget(text),
        channel=ll.GaussianNoise(variance=variance),
        student=ll.Committee(width=1, activation=activation),
    )


def test_the_kernel_of_known_activations_is_the_known_one():
    rho = np.array([-1, -0.5, 0.0, 0.3, 0.9, 1.0])
    angle = np.arccos(rho)
    arccosine = (np.sin(angle) + (np.pi - angle) * np.cos(angle)) / (2 * np.pi)
    np.testing.assert_allclose(activation_kernel(ll.activation("relu"), 1.0, rho), arccosine, atol=1e-12)
    erf = 2 / np.pi * np.arcsin(1.69 * rho / 2.69)
    np.testing.assert_allclose(activation_kernel(ll.activation("erf"), 1.3, rho), erf, atol=1e-14)


def test_eigenvalues_and_the_composed_kernel_are_those_of_the_matrix_over_all_inputs():
    d, x = 6, cube_points(6)
    values = _student_values(problem(), d)
    K = values[np.rint((d - x @ x.T) / 2).astype(int)]
    hat = walsh(K[0])  # row of the point (1, ..., 1): coefficients are the eigenvalues
    for mask in (0, 1, 0b11, 0b10101, 0b111111):
        assert _levels(values, 6)[mask.bit_count()] == pytest.approx(hat[mask], abs=1e-15)
    np.testing.assert_allclose(_composed(values)[np.rint((d - x @ x.T) / 2).astype(int)], K @ K / 64, rtol=1e-12)


def test_risk_and_coefficients_are_those_over_all_inputs():
    d, n, penalty, one = 7, 40, 1e-3, problem(variance=0.2)
    found = ll.analysis.kernel_ridge(one, d, [n], penalty=penalty, replicas=2, seed=3)
    values, every = _student_values(one, d), cube_points(d)
    h = one.teacher.values[np.arange(2**d) % 4]
    for replica in range(2):
        x, y, _ = _draw(_Sparse.of(one, Asked("a test"), d), [0], n, d, 3, replica)
        gram, cross = (values[np.rint((d - z @ x.T) / 2).astype(int)] for z in (x, every))
        f = cross @ np.linalg.solve(gram + n * penalty * np.eye(n), y)
        assert float(found.risk[0, replica]) == pytest.approx(np.mean((h - f) ** 2) / 2 + 0.1, rel=1e-9)
        hat = walsh(f)
        np.testing.assert_allclose(found.fourier[0, replica].sel(term=["z1", "z1*z2"]), hat[[1, 3]], atol=1e-10)


def test_a_degree_costs_its_power_of_the_dimension():
    """At n = 10 d the linear term is learned, the product of three hardly at all; at n = d^2 that of two in part."""
    found = ll.analysis.kernel_ridge(problem("z1 + z1*z2 + z1*z2*z3"), 20, [200, 400], replicas=2)
    learned = found.fourier.mean("replica")
    assert float(learned.sel(term="z1")[0]) > 0.85
    assert abs(float(learned.sel(term="z1*z2*z3")[0])) < 0.1
    assert 0.3 < float(learned.sel(term="z1*z2")[1]) < 0.95
    assert float(found.risk.mean("replica")[1]) > 0.4


def test_the_chosen_penalty_is_no_worse_than_a_given_one():
    best = ll.analysis.kernel_ridge(problem(), 15, [60], replicas=2)
    assert "least true risk" in best.attrs["penalties"]
    for penalty in (1e-6, 1e-2):
        given = ll.analysis.kernel_ridge(problem(), 15, [60], penalty=penalty, replicas=2)
        assert float(best.risk.mean()) <= float(given.risk.mean()) + 1e-3


def test_a_given_kernel_is_used():
    linear = ll.analysis.kernel_ridge(problem(), 15, [400], kernel=lambda rho: 1 + rho, penalty=1e-6, replicas=1)
    assert float(linear.fourier.sel(term="z1*z2")[0, 0]) == pytest.approx(0, abs=1e-8)
    assert float(linear.fourier.sel(term="z1")[0, 0]) == pytest.approx(1, abs=0.3)


def test_data_do_not_depend_on_the_other_sizes():
    one = ll.analysis.kernel_ridge(problem(), 10, [20, 40], penalty=1e-3, replicas=1)
    two = ll.analysis.kernel_ridge(problem(), 10, [40], penalty=1e-3, replicas=3)
    assert float(one.risk[1, 0]) == float(two.risk[0, 0])


def test_bad_inputs_are_refused_in_words():
    with pytest.raises(ll.errors.InputError, match="SparseTarget"):
        ll.analysis.kernel_ridge(dataclasses.replace(problem(), teacher=ll.Committee(width=1)), 10, [10])
    with pytest.raises(ll.errors.InputError, match="increase strictly"):
        ll.analysis.kernel_ridge(problem(), 10, [20, 10])
    with pytest.raises(ll.errors.InputError, match="positive definite"):
        ll.analysis.kernel_ridge(problem(), 10, [20], kernel=lambda rho: 1 - rho + 1e-9, penalty=1e-9)
    with pytest.raises(ll.errors.InputError, match="GiB"):
        ll.analysis.kernel_ridge(problem(), 10, [10**6])
    with pytest.raises(ll.errors.InputError, match="penalty"):
        ll.analysis.kernel_ridge(problem(), 10, [10], penalty=0.0)
    with pytest.raises(ll.errors.InputError, match="student"):
        ll.analysis.kernel_ridge(dataclasses.replace(problem(), student=None), 10, [10])
