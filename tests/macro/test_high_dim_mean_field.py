"""HighDimMeanField: exact where it must be, and as close to OverlapODE elsewhere as 1/p and 1/d allow."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from limitlab.algorithms.one_pass.online_sgd import OnlineSGD
from limitlab.errors import InputError, LimitUndefinedError
from limitlab.macro.committees import particles
from limitlab.macro.committees.high_dim_mean_field import HighDimMeanField
from limitlab.macro.committees.particles import Cloud, cloud_risk, drift, interaction
from limitlab.macro.overlaps.drift import drift as overlap_drift
from limitlab.macro.overlaps.overlap_ode import OverlapODE
from limitlab.macro.predict import predict
from limitlab.numerics.gauss.rules import gegenbauer_rule
from limitlab.numerics.linalg import pseudo_inverse
from limitlab.numerics.trees import as_arrays
from limitlab.problems.activations import shifted
from limitlab.problems.channels import GaussianNoise
from limitlab.problems.losses import SquareLoss
from limitlab.problems.networks import Committee
from limitlab.problems.problem import Problem
from limitlab.problems.starts import InformedStart, OverlapStart, RandomStart
from limitlab.states.overlaps import Overlaps, error_sum, risk

P = np.array([[1.2, 0.3], [0.3, 0.8]])
TINY_RATE = 1e-14  # the learning-rate-squared term of OverlapODE is then below rounding
jit_drift, jit_risk = eqx.filter_jit(drift), eqx.filter_jit(cloud_risk)


def make(p=3, k=2, f="erf", g=None, *, start=None, a_star=None, a=None, trained=False, **rule):
    layer = "trained" if trained else "fixed"
    return Problem(
        teacher=Committee(width=k, activation=g or f, output_weights=a_star),
        channel=GaussianNoise(0.1),
        student=Committee(width=p, activation=f, second_layer=layer, output_weights=a),
        loss=SquareLoss(),
        start=start or RandomStart(),
        algorithm=OnlineSGD(**{"learning_rate": TINY_RATE, **rule}),
    )


def draw(p=3, k=2, seed=0) -> Cloud:
    rng = np.random.default_rng(seed)
    m, q, a = 0.5 * rng.normal(size=(p, k)), rng.uniform(0.3, 1.2, p), rng.uniform(-1, 2, p)
    return Cloud(jnp.asarray(m), jnp.asarray(q), jnp.asarray(a))


def overlaps_of(cloud: Cloud, gram, Xi) -> Overlaps:
    """The network whose orthogonal parts have the correlations Xi."""
    S = cloud.m @ pseudo_inverse(jnp.asarray(gram)) @ cloud.m.T
    root = jnp.sqrt(cloud.q)
    return Overlaps(S + root[:, None] * root * Xi, cloud.m, jnp.asarray(gram), cloud.a)


def exact_drift(problem, sums, overlaps: Overlaps) -> Cloud:
    """The motion of (m, q, a) by OverlapODE: q is the diagonal of Q - M P^-1 M^T."""
    move = overlap_drift(problem, sums, overlaps)
    inner = jnp.einsum("ir,rs,is->i", move.M, pseudo_inverse(overlaps.P), overlaps.M)
    return Cloud(move.M, jnp.diagonal(move.Q) - 2 * inner, move.a)


def gap(one: Cloud, two: Cloud) -> float:
    return max(float(jnp.max(jnp.abs(x - y))) for x, y in zip(one, two, strict=True))


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


def test_pair_quadrature_agrees_with_exact_terms():
    problem, cloud = make(p=2, f="erf", g="square", trained=True), draw(2)
    exact, nodes = (interaction(problem, P, 5, nodes=3, method=method) for method in ("auto", "quadrature"))
    assert exact.rule is None
    assert nodes.rule is not None
    assert gap(jit_drift(problem, exact, cloud), jit_drift(problem, nodes, cloud)) < 1e-10
    assert abs(jit_risk(problem, exact, cloud) - jit_risk(problem, nodes, cloud)) < 1e-10


@pytest.mark.parametrize(
    ("f", "g", "own"),
    [("erf", "relu", False), ("relu", "sign", True), ("hermite(3)", "square", False)],
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


@pytest.mark.parametrize(
    ("f", "g"), [("erf", "erf"), ("relu", "relu"), ("tanh", "tanh"), ("square", "square"), ("erf", "relu")]
)
def test_drift_equals_overlap_ode_where_orthogonal_parts_are_orthogonal(f, g):
    problem, cloud = make(2, f=f, g=g, a_star=[0.7, -1.3], trained=True, second_layer_rate=0.3), draw(2)
    sums, links = error_sum(problem), interaction(problem, P, None)
    alone = interaction(problem, P, None, own=False)

    @eqx.filter_jit
    def both(cloud):
        network = overlaps_of(cloud, P, jnp.eye(2))
        exact = exact_drift(problem, sums, network), risk(problem, network, sums)
        found = drift(problem, links, cloud), cloud_risk(problem, links, cloud)
        return exact, found, drift(problem, alone, cloud)

    exact, found, without_self = both(cloud)
    assert gap(found[0], exact[0]) < 1e-12
    assert abs(found[1] - exact[1]) < 1e-12
    assert gap(without_self, exact[0]) > 1e-2


def test_drift_with_random_xi_is_another_flow():
    """The control of the identity above: at d = 5 the average over xi counts."""
    problem, cloud = make(f="square"), draw()
    infinite, five = (jit_drift(problem, interaction(problem, P, d), cloud) for d in (None, 5))
    assert gap(infinite, five) > 1e-2


def test_drift_on_the_sphere_equals_overlap_ode_and_keeps_the_norm():
    problem, cloud = make(f="square", trained=True, spherical=True), draw()
    exact = exact_drift(problem, error_sum(problem), overlaps_of(cloud, P, jnp.eye(3)))
    links = interaction(problem, P, None)
    found = jit_drift(problem, links, cloud)
    assert gap(found, exact) < 1e-12
    norm = found.q + 2 * jnp.einsum("ir,rs,is->i", found.m, links.P_inverse, cloud.m)
    assert float(jnp.max(jnp.abs(norm))) < 1e-12
    free = replace(problem, algorithm=OnlineSGD(learning_rate=TINY_RATE))
    assert gap(jit_drift(free, links, cloud), exact) > 1e-2


def test_a_single_unit_follows_overlap_ode_exactly():
    """One unit has no partner: nothing is dropped but the learning-rate-squared term."""
    start = OverlapStart(Q=[[1.0]], M=[[0.3]], P=[[1.2]])
    problem = make(1, 1, "square", start=start, trained=True, spherical=True, second_layer_rate=0.5)
    times = np.array([0.0, 0.5, 3.0, 20.0])
    one, two = predict(problem, OverlapODE(), times), predict(problem, HighDimMeanField(), times)
    assert np.max(np.abs(one.risk - two.risk)) < 1e-7
    assert np.max(np.abs(one.M.values - two.M.values)) < 1e-7
    assert np.max(np.abs(one.a.values - two.a.values)) < 1e-7
    assert np.max(np.abs(two.q.values + two.M.values[..., 0] ** 2 / 1.2 - one.Q.values[..., 0])) < 1e-7
    assert float(one.risk[0] - one.risk[-1]) > 0.005


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


def test_average_over_xi_is_the_mean_of_overlap_ode_over_random_orthogonal_parts():
    """n = 1: all signs; n = 2: a grid of angles; n = 3: random directions, by z-score; one compiled batch for all."""
    problem, cloud, gram, size = make(2, 1, "relu", trained=True), draw(2, 1), np.eye(1), 4096
    sums = error_sum(problem)
    batched = eqx.filter_jit(jax.vmap(lambda Xi: exact_drift(problem, sums, overlaps_of(cloud, gram, Xi))))

    def sample(g):  # (size, 2, n) unit vectors
        return batched(jnp.einsum("bin,bjn->bij", g, g))

    def predicted(n):
        return jit_drift(problem, interaction(problem, gram, n + 1), cloud)

    mean = lambda batch: jax.tree.map(lambda x: jnp.mean(x, axis=0), batch)  # noqa: E731
    coin = mean(sample(jnp.tile(jnp.array([[1.0, 1.0], [1.0, -1.0]]), (size // 2, 1))[..., None]))
    assert gap(coin, predicted(1)) < 1e-12

    grid = 2 * np.pi * np.arange(size) / size
    angles = np.stack([0 * grid, grid], axis=1)
    circle = mean(sample(jnp.stack([jnp.cos(angles), jnp.sin(angles)], axis=-1)))
    assert gap(circle, predicted(2)) < 1e-6

    g = np.random.default_rng(5).normal(size=(size, 2, 3))
    random = sample(jnp.asarray(g / np.linalg.norm(g, axis=-1, keepdims=True)))

    def z(n):
        scores = jax.tree.map(lambda x, y: (x.mean(0) - y) / (x.std(0, ddof=1) / np.sqrt(size)), random, predicted(n))
        return max(float(jnp.max(jnp.abs(s))) for s in scores)

    assert z(3) < 4.5
    assert z(2) > 6
    assert z(6) > 6


def test_error_of_the_rule_in_xi_is_reported():
    problem = make(p=2, k=1, f="relu")
    coarse, fine = (predict(problem, HighDimMeanField(d=6, nodes=nodes), np.array([0.0])) for nodes in (2, 24))
    true = abs(float(coarse.risk[0] - fine.risk[0]))
    assert fine.attrs["quadrature_error"] < 1e-6 < coarse.attrs["quadrature_error"]
    assert true > 0
    assert true < 10 * coarse.attrs["quadrature_error"]


# -- nesting ----------------------------------------------------------------------------------------------------

TIMES = np.linspace(0, 4, 21)


def nesting(p, d, xi, seeds=range(2)):
    """Largest difference of the risk from OverlapODE over time, mean over random starts; squares, k = 2.

    With ``xi`` "random" it is that of MF, with "zero" that of HDMF, both started from the same overlaps.
    """
    errors = []
    for seed in seeds:
        weights = np.random.default_rng(seed).normal(size=(p + 2, d))
        weights[p:] = np.sqrt(d) * np.linalg.qr(weights[p:].T)[0].T  # an orthonormal teacher
        Omega = weights @ weights.T / d
        start = OverlapStart(Q=Omega[:p, :p], M=Omega[:p, p:], P=Omega[p:, p:])
        problem = make(p, f="square", start=start)
        truth = predict(problem, OverlapODE(rtol=1e-6), TIMES)
        found = predict(problem, HighDimMeanField(d=d if xi == "random" else None, rtol=1e-6), TIMES)
        errors.append(np.max(np.abs(found.risk.values - truth.risk.values)))
    return np.mean(errors)


def test_mean_field_error_falls_with_width_and_hdmf_has_a_floor_in_d():
    narrow, wide, floor = nesting(32, 10, "random"), nesting(128, 10, "random"), nesting(32, 10, "zero")
    assert 5e-3 < narrow < 3e-2
    assert 2 < narrow / wide < 8  # 1/p gives 4
    assert 0.05 < floor < 0.12
    assert floor > 3 * narrow


@pytest.mark.slow
def test_mean_field_error_is_of_order_one_over_p_and_hdmf_of_order_one_over_d():
    widths = (32, 128, 512)
    errors = [nesting(p, 10, "random") for p in widths]
    slope = np.polyfit(np.log(widths), np.log(errors), 1)[0]
    assert -1.25 < slope < -0.75
    assert slope < HighDimMeanField.rate["p"]
    floors = {d: nesting(256, d, "zero") for d in (10, 40)}
    assert floors[10] > 0.7 * nesting(32, 10, "zero")  # xi = 0 does not get better with width
    slope = np.log(floors[40] / floors[10]) / np.log(4)
    assert -1.3 < slope < HighDimMeanField.rate["d"]


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
