"""Message passing on several directions: against state evolution, its symmetries, its starts, its refusals."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

import limitlab as ll
from limitlab.algorithms.gamp.matrix import symmetries
from limitlab.algorithms.gamp.output import Nodes, _hermite, output_of
from limitlab.algorithms.gamp.predictions import prediction_errors
from limitlab.errors import AccuracyWarning, InputError
from limitlab.macro.multi.branches import Model
from limitlab.macro.multi.information import evidence, field_law, information
from limitlab.macro.multi.report import _errors
from limitlab.problems.links import link
from limitlab.problems.links.named import Majority
from limitlab.problems.links.seen import seen_through

TWO = ll.MultiIndex(2, "majority", ties="zero")


def problem(teacher, ratio, start=None, variance=0.0, iterations=4, channel=None):
    return ll.Problem(
        teacher=teacher,
        channel=ll.GaussianNoise(variance) if channel is None else channel,
        sample_ratio=ratio,
        start=start,
        algorithm=ll.GAMP(iterations=iterations),
    )


def scores(p, d, replicas, seed=0):
    """The largest |z| over all iterations, entries of M and errors on new samples, and the run.

    Overlaps that decay are compared as long as they exceed those of a random direction, 1/sqrt(d): below, the best
    symmetry of the link makes a positive number of any noise, and the error on new samples, which is even in it, falls.
    """
    sim, pred = ll.simulate(p, d=d, replicas=replicas, seed=seed), ll.predict(p, ll.StateEvolution())
    known = np.trace(pred.M.values[1:], axis1=1, axis2=2) / p.teacher.width > d**-0.5
    assert np.sum(known) >= 4
    largest = 0.0
    for name in ("M", "generalisation_error"):
        seen, told = sim[name].values[1:][known], pred[name].values[1:][known]
        error = seen.std(axis=1, ddof=1) / np.sqrt(replicas)
        largest = max(largest, np.max(np.abs(seen.mean(axis=1) - told) / error))
    return largest, sim, pred


@pytest.mark.parametrize(
    ("words", "width", "variance"),
    [
        pytest.param(Majority("zero"), 2, 0.0, marks=pytest.mark.more),
        (Majority("coin"), 2, 0.0),
        (Majority("coin"), 2, 0.3),
        ("parity", 2, 0.0),
        ("and", 2, 0.3),
        ("sign(z1)", 1, 0.0),
        (seen_through(link("parity"), ll.Sign(flip=0.1), 2), 2, 0.0),
        pytest.param(seen_through(link("z1"), ll.Sign(variance=0.5), 1), 1, 0.0, marks=pytest.mark.more),
    ],
)
def test_the_output_function_is_that_of_the_theory(words, width, variance):
    words = link(words)
    law, V = field_law(words, width, variance), np.array([[0.6, -0.2], [-0.2, 0.7]])[:width, :width]
    w = np.random.default_rng(0).normal(size=(50, width))
    Z, (slope,) = evidence(law, w, V)
    g = output_of(words, width, variance)
    for i in range(0, len(law.labels.y), max(1, len(law.labels.y) // 6)):
        sound = Z[:, i] > 1e-6
        seen = g.g(jnp.full(50, law.labels.y[i]), jnp.asarray(w), jnp.asarray(V))
        assert np.allclose(np.asarray(seen)[sound], (slope[:, i] / Z[:, i, None])[sound], atol=1e-7)


BEHIND = {  # a link, its width, a channel
    "three labels": (Majority("zero"), 2, ll.GaussianNoise()),
    "ties by a coin": (Majority("coin"), 2, ll.GaussianNoise()),
    "a coin and noise": (Majority("coin"), 2, ll.GaussianNoise(0.3)),
    "flips": ("parity", 2, ll.Sign(flip=0.1)),
    "odds": ("product", 2, ll.Logistic()),
    "rectified": ("z1 + z2", 2, ll.Rectified(0.2)),
    "one field": ("z1", 1, ll.Sign(variance=0.4)),
}


@pytest.mark.more_of("odds")
@pytest.mark.parametrize("case", BEHIND)
def test_the_error_on_new_samples_is_that_of_the_theory_where_the_estimate_knows_its_own_error(case):
    words, width, channel = BEHIND[case]
    seen, variance = seen_through(link(words), channel, width), float(channel.added_variance or 0.0)
    M = np.array([[0.45, 0.2], [0.2, 0.4]])[:width, :width]
    model = Model(field_law(seen, width, variance), gaussian=True)
    _, error, kind = _errors(model, M, information(model.law, M))
    one, gone = M[None, None], np.zeros((1, 1), bool)
    V, P = np.eye(width)[None, None] - one, np.eye(width)[None]
    found, name = prediction_errors(output_of(seen, width, variance), one, one, V, P, gone)
    assert name == kind
    assert found[0, 0] == pytest.approx(error, abs=2e-4 if case == "odds" else 1e-4)
    proud, _ = prediction_errors(output_of(seen, width, variance), one, 2 * one, V, P, gone)  # |a| too large
    assert proud[0, 0] > found[0, 0] + (1e-3 if kind == "mean-square error" else -1e-9)


def test_labels_behind_a_channel_are_counted_by_hand():
    """The error of a run's overlaps against labels that are drawn and predicted one by one."""
    rng, channel = np.random.default_rng(4), ll.Logistic()
    seen = seen_through(link("product"), channel, 2)
    M, Q = np.array([[0.5, 0.1], [0.05, 0.3]]), np.array([[0.6, 0.1], [0.1, 0.5]])
    V, P = np.array([[0.4, 0.0], [0.0, 0.6]]), np.eye(2)
    found, _ = prediction_errors(
        output_of(seen, 2, 0.0), M[None, None], Q[None, None], V[None, None], P[None], np.zeros((1, 1), bool)
    )
    both = np.block([[Q, M], [M.T, P]])
    x = rng.normal(size=(400_000, 4)) @ np.linalg.cholesky(both).T
    y = np.where(rng.uniform(size=len(x)) < 1 / (1 + np.exp(-x[:, 2] * x[:, 3])), 1.0, -1.0)
    u, p = np.polynomial.hermite_e.hermegauss(16)
    z = np.sqrt([0.4, 0.6]) * np.array([[a, b] for a in u for b in u])
    weight = np.array([a * b for a in p for b in p]) / p.sum() ** 2
    guess = sum(q * np.tanh((x[:, 0] + a) * (x[:, 1] + b) / 2) for q, (a, b) in zip(weight, z, strict=True))
    wrong = np.mean(y != np.where(guess >= 0, 1.0, -1.0))
    assert abs(found[0, 0] - wrong) < 4 * np.sqrt(wrong * (1 - wrong) / len(x))


SHARP = {  # a link, its width, the noise: narrow beside the fields, or with jumps
    "z1*z2": (2, 0.01),
    "relu(z1) - z2^2": (2, 0.1),
    "sign(z1) + z2": (2, 0.3),
    "z1^2 + sign(z1*z2)": (2, 0.05),
    "z2^2 + sign(z1*z2*z3)": (3, 0.2),
    "z1^2": (1, 0.01),
}


@pytest.mark.more_of("z2^2 + sign(z1*z2*z3)", "sign(z1) + z2")
@pytest.mark.parametrize("words", SHARP)
def test_what_narrow_labels_tell_is_that_of_a_brute_sum(words):
    """24 nodes of Gauss-Hermite an axis had g wrong by as much as its size."""
    width, noise = SHARP[words]
    output, rng = output_of(link(words), width, noise), np.random.default_rng(3)
    A = np.linalg.qr(rng.normal(size=(width, width)))[0]
    V = (A * np.array([0.4, 0.9, 0.6])[:width]) @ A.T
    w, z = 0.6 * rng.normal(size=(8, width)), rng.normal(size=(8, width)) @ np.linalg.cholesky(V).T
    y = output.link.on_host(w + z) + np.sqrt(noise) * rng.normal(size=8)
    seen = np.stack([output.by_nodes(Nodes(output.real, *output.nodes), *one, V, np) for one in zip(y, w, strict=True)])
    axis = np.linspace(-5.5, 5.5, {1: 20_001, 2: 501, 3: 111}[width])
    u = np.stack([x.ravel() for x in np.meshgrid(*[axis] * width)], axis=1)
    u = u[np.sum(u**2, axis=1) < 5.5**2]
    p, root = np.exp(-np.sum(u**2, axis=1) / 2), np.linalg.cholesky(V)

    def told(u, p):
        P = [
            p * np.exp(-((label - output.link.on_host(at + u @ root.T)) ** 2) / (2 * noise))
            for label, at in zip(y, w, strict=True)
        ]
        return np.stack([one @ u / one.sum() for one in P]) @ np.linalg.inv(root)

    right, size = told(u, p), np.sqrt(np.mean(told(u, p) ** 2))
    assert np.sqrt(np.mean((seen - right) ** 2)) < 0.03 * size
    if width < 3:
        rough = told(*_hermite(width))
        assert np.sqrt(np.mean((rough - right) ** 2)) > 0.05 * size
    if words == "sign(z1) + z2":  # compiled, the same
        assert np.allclose(output.g(jnp.asarray(y), jnp.asarray(w), jnp.asarray(V)), seen, atol=1e-9)


def test_labels_too_narrow_for_any_nodes_are_warned_of():
    with pytest.warns(AccuracyWarning, match=r"known to \d+% only.*larger variance"):
        output_of(link("z1*z2*z3"), 3, 1e-3)


@pytest.mark.more
def test_nodes_agree_with_a_brute_average():
    smooth, V = output_of(link("tanh(z1) + z2"), 2, 0.4), np.array([[0.6, -0.2], [-0.2, 0.7]])
    rng = np.random.default_rng(2)
    w = rng.normal(size=(20, 2))
    y = np.tanh(w[:, 0]) + w[:, 1] + 0.7 * rng.normal(size=20)
    z = w[:, None] + rng.normal(size=(200_000, 2)) @ np.linalg.cholesky(V).T
    P = np.exp(-((y[:, None] - np.tanh(z[..., 0]) - z[..., 1]) ** 2) / 0.8)
    mean = np.einsum("ni,nik->nk", P, z) / P.sum(axis=1)[:, None]
    seen = np.asarray(smooth.g(jnp.asarray(y), jnp.asarray(w), jnp.asarray(V)))
    assert np.max(np.abs(seen - (mean - w) @ np.linalg.inv(V))) < 0.05


def test_runs_follow_state_evolution():
    z, sim, _ = scores(problem(TWO, 3.0, ll.InformedStart([[0.3, 0.2], [0.2, 0.25]])), d=400, replicas=12)
    assert z < 4
    assert set(sim.status.values) == {"ok"}
    wrong = ll.predict(  # two labels in place of three: rejected
        problem(ll.MultiIndex(2, "majority", ties="coin"), 3.0, ll.InformedStart([[0.3, 0.2], [0.2, 0.25]])),
        ll.StateEvolution(),
    )
    M = sim.M.values[-1]
    assert np.max(np.abs(M.mean(axis=0) - wrong.M.values[-1]) / (M.std(axis=0, ddof=1) / np.sqrt(12))) > 6


def test_equal_columns_never_specialise_and_small_random_ones_do():
    p = problem(TWO, 4.0, iterations=40)
    free = ll.simulate(p, d=400, replicas=4, seed=1)
    assert np.all(free.M_singular_values.values[-1, :, 1] > 0.3)
    assert np.all(np.einsum("rkk->r", free.M.values[-1]) > 1.2)  # estimate k is the one of direction k
    stuck = ll.simulate(dataclasses.replace(p, start=ll.InformedStart(0.0)), d=400, replicas=4, seed=1)
    assert np.all(stuck.M_singular_values.values[20, :, 1] < 1e-7)  # later rounding tells the columns apart
    fixed = ll.predict(p, ll.BayesOptimal())
    assert np.mean(free.M.values[-1, :, 0, 0]) == pytest.approx(float(fixed.M[0, 0]), abs=0.05)


@pytest.mark.more
def test_symmetries_of_links():
    assert len(symmetries(Majority("zero"), 2)) == 2  # the exchange
    assert len(symmetries(link("parity"), 2)) == 4
    assert len(symmetries(link("parity"), 3)) == 24
    assert len(symmetries(link("z1 + z2*z3"), 3)) == 4
    p = problem(ll.MultiIndex(2, "squares"), 3.0, ll.RandomStart(0.05), variance=0.05, iterations=25)
    seen = ll.simulate(p, d=150, replicas=2)
    M = seen.M.values[-1]
    assert np.allclose(M, np.swapaxes(M, 1, 2), atol=1e-8)  # the best rotation makes it symmetric


@pytest.mark.more
def test_weights_of_signs_are_found():
    p = problem(dataclasses.replace(TWO, prior=ll.RademacherPrior()), 3.0, ll.InformedStart(0.7), iterations=25)
    seen = ll.simulate(p, d=200, replicas=4)
    assert np.mean(seen.mse.values[-1]) < 0.02  # a finite run may leave single weights wrong


def test_refusals():
    real = problem(ll.MultiIndex(2, "product"), 2.0)
    with pytest.raises(InputError, match="variance > 0"):
        ll.simulate(real, d=50)
    with pytest.raises(InputError, match="scalar"):
        ll.simulate(dataclasses.replace(problem(TWO, 2.0), algorithm=ll.GAMP(variances="vector")), d=50)
    with pytest.raises(InputError, match="does not know"):
        ll.simulate(problem(TWO, 2.0, ll.SpectralStart()), d=50)
    with pytest.raises(InputError, match="2 x 2 matrix"):
        ll.simulate(problem(TWO, 2.0, ll.InformedStart(np.eye(3) / 2)), d=50)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("teacher", "ratio", "start", "channel"),
    [
        (TWO, 1.5, None, None),
        (TWO, 3.0, [[0.3, 0.2], [0.2, 0.25]], None),
        (ll.MultiIndex(2, "parity"), 3.5, [[0.3, 0.05], [0.05, 0.2]], None),
        (ll.MultiIndex(2, "parity"), 1.8, [[0.4, 0.0], [0.0, 0.4]], None),
        (ll.MultiIndex(2, "and"), 3.0, [[0.3, 0.05], [0.05, 0.2]], None),
        (ll.MultiIndex(3, "sign_sum"), 4.0, None, None),
        (TWO, 3.0, [[0.3, 0.2], [0.2, 0.25]], ll.Sign(flip=0.1)),
        (ll.MultiIndex(2, "product"), 6.0, [[0.5, 0.1], [0.1, 0.4]], ll.Logistic()),
        (ll.MultiIndex(2, "z1 + z2^2"), 2.0, [[0.3, 0.0], [0.0, 0.3]], ll.Rectified(0.3)),
        (ll.MultiIndex(2, "majority", ties="coin"), 3.0, [[0.3, 0.2], [0.2, 0.25]], ll.GaussianNoise(0.3)),
        (ll.MultiIndex(2, "z1*z2"), 2.0, [[0.4, 0.1], [0.1, 0.3]], ll.GaussianNoise(0.05)),
        (ll.MultiIndex(2, "z1^2 + sign(z1*z2)"), 3.0, [[0.4, 0.1], [0.1, 0.3]], ll.GaussianNoise(0.1)),
    ],
)
def test_runs_follow_state_evolution_at_large_size(teacher, ratio, start, channel):
    start = None if start is None else ll.InformedStart(start)
    p = problem(teacher, ratio, start, iterations=15, channel=channel)
    assert scores(p, d=1000, replicas=16)[0] < 4
