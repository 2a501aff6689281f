"""HighDimMeanField: exact where it must be, and as close to OverlapODE elsewhere as 1/p and 1/d allow."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cases import gentle as make
from limitlab.errors import InputError, LimitUndefinedError
from limitlab.macro.committees import particles
from limitlab.macro.committees.high_dim_mean_field import HighDimMeanField
from limitlab.macro.committees.particles import Cloud, cloud_risk, drift, interaction
from limitlab.macro.overlaps.overlap_ode import OverlapODE
from limitlab.macro.predict import predict
from limitlab.numerics.gauss.rules import gegenbauer_rule
from limitlab.numerics.trees import as_arrays
from limitlab.problems.activations import shifted
from limitlab.problems.channels import GaussianNoise
from limitlab.problems.starts import InformedStart, OverlapStart, RandomStart
from neurons import GRAM as P
from neurons import draw, gap, jit_drift, jit_risk

# -- identities -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("d", [None, 7])
def test_squares_by_matrix_formula_equal_squares_by_pairs(d, own):
    problem, cloud = make(f="square", a_star=[0.7, -1.3], trained=True), draw()
    matrix, pairs = (interaction(problem, P, d, own=own, method=method) for method in ("auto", "pairs"))
    assert matrix.square
    assert not pairs.square
    one, two = jit_drift(problem, matrix, cloud), jit_drift(problem, pairs, cloud)
    assert gap(one, two) < 1e-12
    assert float(jnp.min(jnp.abs(one.q))) > 1e-3
    assert abs(jit_risk(problem, matrix, cloud) - jit_risk(problem, pairs, cloud)) < 1e-12


@pytest.mark.more
def test_pair_quadrature_agrees_with_exact_terms():
    problem, cloud = make(p=2, f="erf", g="square", trained=True), draw(2)
    exact, nodes = (interaction(problem, P, 5, nodes=3, method=method) for method in ("auto", "quadrature"))
    assert exact.rule is None
    assert nodes.rule is not None
    assert gap(jit_drift(problem, exact, cloud), jit_drift(problem, nodes, cloud)) < 1e-10
    assert abs(jit_risk(problem, exact, cloud) - jit_risk(problem, nodes, cloud)) < 1e-10


@pytest.mark.parametrize(
    ("f", "g", "own"),
    [
        pytest.param("erf", "relu", False, marks=pytest.mark.more),
        pytest.param("relu", "sign", True, marks=pytest.mark.more),
        ("hermite(3)", "square", False),
    ],
)
def test_the_flow_is_the_gradient_of_the_risk(f, g, own):
    """dw/dt = -p d grad_w R means dm = -p (dR/dm) P, dq = -4 p q dR/dq, da = -kappa p dR/da."""
    problem, cloud = make(f=f, g=g, a_star=[0.7, -1.3], trained=True, second_layer_rate=0.3), draw()
    links = interaction(problem, P, 6, own=own, nodes=5)
    slope = eqx.filter_jit(jax.grad(lambda c: cloud_risk(problem, links, c)))(cloud)
    expected = Cloud(-3 * slope.m @ P, -12 * cloud.q * slope.q, -0.3 * 3 * slope.a)
    found = jit_drift(problem, links, cloud)
    assert gap(found, expected) < 1e-9
    assert min(float(jnp.max(jnp.abs(x))) for x in found) > 1e-3


def test_equal_teacher_units_act_as_one():
    """P of rank one: two copies of a teacher unit are one unit."""
    single, double = make(k=1), make(k=2)
    cloud = draw(3, 1)
    twice = Cloud(jnp.tile(cloud.m, (1, 2)), cloud.q, cloud.a)
    links, copies = interaction(single, [[0.9]], None), interaction(double, np.full((2, 2), 0.9), None)
    one, two = jit_drift(single, links, cloud), jit_drift(double, copies, twice)
    assert gap(Cloud(jnp.tile(one.m, (1, 2)), one.q, one.a), two) < 1e-12
    assert abs(jit_risk(single, links, cloud) - jit_risk(double, copies, twice)) < 1e-12


def test_crowds_are_the_limit_of_many_equal_units():
    """r units per atom with independent orthogonal parts: the self term falls like 1/r, exactly."""
    cloud = draw()
    many = Cloud(*(jnp.repeat(x, 4, axis=0) for x in cloud))
    few, wide = make(trained=True), make(p=12, trained=True)
    unit = jit_drift(few, interaction(few, P, 6, nodes=5), cloud)
    crowd = jit_drift(few, interaction(few, P, 6, nodes=5, own=False), cloud)
    quarter = jit_drift(wide, interaction(wide, P, 6, nodes=5), many)
    mixed = jax.tree.map(lambda x, y: jnp.repeat(y + (x - y) / 4, 4, axis=0), unit, crowd)
    assert gap(quarter, mixed) < 1e-12
    assert gap(unit, crowd) > 1e-2


def test_pieces_of_the_pair_table_give_the_whole(monkeypatch):
    problem, cloud = make(p=5, f="square", trained=True), draw(5)
    links = interaction(problem, P, 6, nodes=4, method="pairs")
    assert links.xi.size == 2
    whole = jit_drift(problem, links, cloud)
    monkeypatch.setattr(particles, "CHUNK", 14)  # 7 pairs at a time: 25 pairs do not divide
    assert gap(eqx.filter_jit(lambda c: drift(problem, links, c))(cloud), whole) < 1e-13


# -- the average over xi ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 3, 8, 10**6])
def test_rule_in_xi_has_the_moments_of_a_coordinate_on_the_sphere(n):
    x, w = gegenbauer_rule(n)
    assert abs(w.sum() - 1) < 1e-12
    assert abs(w @ x) < 1e-12
    assert abs(n * (w @ x**2) - 1) < 1e-10
    assert abs(n * (n + 2) * (w @ x**4) / 3 - 1) < 1e-10


def test_error_of_the_rule_in_xi_is_reported():
    problem = make(p=2, k=1, f="relu")
    coarse, fine = (predict(problem, HighDimMeanField(d=6, nodes=nodes), np.array([0.0])) for nodes in (2, 24))
    true = abs(float(coarse.risk[0] - fine.risk[0]))
    assert fine.attrs["quadrature_error"] < 1e-6 < coarse.attrs["quadrature_error"]
    assert true > 0
    assert true < 10 * coarse.attrs["quadrature_error"]


# -- nesting ----------------------------------------------------------------------------------------------------


def test_sampled_particles_have_the_law_of_the_start():
    n, d = 500, 12
    _, cloud, gram = HighDimMeanField(particles=n, d=d, seed=3)._cloud(make(start=RandomStart(P=P)))
    assert np.allclose(gram, P)
    assert np.all(np.abs(cloud.m.T @ cloud.m / n * d - P) < 5 * np.sqrt(2 * 1.2**2 / n))
    degrees = d - 2
    assert abs(float(jnp.mean(cloud.q)) * d - degrees) < 5 * np.sqrt(2 * degrees / n)
    assert abs(float(jnp.var(cloud.q)) * d**2 - 2 * degrees) < 5 * np.sqrt(10 / n) * 2 * degrees


def test_same_seed_starts_where_overlap_ode_starts():
    problem = make(p=4, f="square", start=RandomStart(P=P))
    _, cloud, _ = HighDimMeanField(d=20, seed=7)._cloud(problem)
    full = OverlapODE(d=20, seed=7).start(problem, 0)
    assert np.max(np.abs(cloud.m - full.M)) < 1e-15
    assert np.max(np.abs(cloud.q - jnp.diagonal(full.Q - full.M @ np.linalg.inv(P) @ full.M.T))) < 1e-14


# -- contract ---------------------------------------------------------------------------------------------------


def test_result_carries_its_labels_and_what_was_dropped():
    problem = make(p=2, k=1, f=shifted("tanh", 0.3), start=InformedStart(0.4), learning_rate=0.5, batch_size=2)
    result = predict(problem, HighDimMeanField(rtol=1e-5), np.array([0.0, 1.0]))
    assert result.risk.dims == ("time",)
    assert result.M.dims == ("time", "particle", "teacher")
    assert result.q.dims == ("time", "particle")
    assert result.a.dims == ("time", "particle")
    assert str(result.status.values) == "ok"
    assert float(result.end_time) == 1.0
    assert result.attrs["dropped_term"] == 0.5 / 4
    assert result.attrs["reference"] == HighDimMeanField.reference
    assert "quadrature" in result.attrs["gaussian_moments"]
    assert result.attrs["quadrature_error"] < 1e-6
    assert float(result.risk[1]) < float(result.risk[0])


def test_random_second_layer_without_d_is_sampled_by_particles():
    problem = make(p=4, f="square", start=RandomStart(second_layer="rademacher"), trained=True)
    with pytest.raises(LimitUndefinedError, match=r"particles=None.*Give a number of particles"):
        HighDimMeanField().check(problem)
    HighDimMeanField(particles=64).check(problem)
    result = predict(problem, HighDimMeanField(particles=64), np.array([0.0]))
    assert set(result.a.values[0]) == {-1.0, 1.0}
    assert result.attrs["particle_is"] == "a crowd of units"


def test_what_it_cannot_do_is_said_in_words():
    given = OverlapStart(Q=np.eye(3), M=np.zeros((3, 2)), P=np.eye(2))
    for limit, problem, words in (
        (HighDimMeanField(particles=5), make(start=given), "units \\(3\\).*OverlapStart.*particles=5"),
        (HighDimMeanField(particles=5), make(start=InformedStart(0.1)), "InformedStart.*Leave particles out"),
        (
            HighDimMeanField(particles=5),
            make(a=[1.0, 2.0, 3.0]),
            "multiple of the student's width 3.*particles=5",
        ),
        (HighDimMeanField(d=2), make(), "above the teacher's width 2.*d=2"),
        (HighDimMeanField(), replace(make(), sample_ratio=2.0), "fresh sample"),
    ):
        with pytest.raises(LimitUndefinedError, match=words):
            limit.check(problem)
    for limit in (HighDimMeanField(particles=3), HighDimMeanField()):
        limit.check(make(start=given))
    HighDimMeanField(particles=6, d=3).check(make(a=[1.0, 2.0, 3.0]))
    for arguments in ({"particles": 0}, {"d": 2.5}, {"d": 0}, {"rtol": 1.0}, {"nodes": 1}):
        with pytest.raises(InputError, match=next(iter(arguments))):
            HighDimMeanField(**arguments)


def test_one_compilation_serves_all_values():
    count = 0

    @eqx.filter_jit
    def counted(problem, links, cloud):
        nonlocal count
        count += 1
        return drift(problem, links, cloud)

    for noise, d in ((0.0, 5), (0.3, 9)):
        problem = replace(make(), channel=GaussianNoise(noise))
        counted(as_arrays(problem), interaction(problem, P, d), draw())
    assert count == 1
