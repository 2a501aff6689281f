"""Descent of any student on a fixed data set: the step, a plain NumPy loop, and one unit as a special case."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import erf, expit

import limitlab as ll
from limitlab.algorithms.data import replica_key
from limitlab.algorithms.descent.network import start_network
from limitlab.algorithms.descent.step import Course, descent_step
from limitlab.algorithms.settings.fixed_data import NetworkDescent
from limitlab.numerics.trees import traced
from limitlab.problems.asked import Asked
from limitlab.states.request import Request

D, WIDTH, ALPHA, STEPS, RUNS = 12, 2, 3.0, 12, 32
FREE = ll.GradientDescent(0.4, spherical=False)


def make(**changes):
    parts = {
        "teacher": ll.Committee(2, "erf"),
        "channel": ll.GaussianNoise(0.1),
        "sample_ratio": ALPHA,
        "student": ll.Committee(WIDTH, "erf"),
        "loss": ll.SquareLoss(),
        "start": ll.RandomStart(),
        "algorithm": FREE,
    }
    return ll.Problem(**(parts | changes))


# --- one step ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "width", [pytest.param(3, marks=pytest.mark.more), pytest.param(9, marks=pytest.mark.more)]
)  # on both sides of the change of layout
def test_a_step_follows_the_gradient_of_the_loss_and_1_over_d_of_it_in_the_second_layer(width):
    student = ll.Committee(width, "tanh", second_layer="trained", bias="trained")
    rule = ll.GradientDescent(0.7, spherical=False, penalty=0.3)
    problem = make(student=student, start=ll.RandomStart(second_layer="gaussian", bias_scale=0.5), algorithm=rule)
    setting = NetworkDescent.to_simulate(problem, Asked("a test"))
    course = Course(*traced((setting.rule, setting.parts.loss, setting.parts.student)))
    asked = Request(D, np.zeros(1), np.zeros(1, int))
    data, run, _ = start_network(setting, course, replica_key(0, 0), 30, asked)
    net = run.state.parameters

    def cost(W, a, b):
        f = jnp.tanh(data.X @ W.T + b) @ a / width
        return jnp.sum(jnp.square(data.y - f)) / 2

    W, a, b = net.rows, net.a, net.b
    slopes = jax.grad(cost, argnums=(0, 1, 2))(W, a, b)
    keep = 1 - 0.7 / width * 0.3
    moved = eqx.filter_jit(descent_step)(course, data, jax.random.key(0), run, jnp.asarray(0)).state.parameters
    np.testing.assert_allclose(moved.rows, keep * W - 0.7 * slopes[0], rtol=1e-12)
    np.testing.assert_allclose(moved.a, keep * a - 0.7 / D * slopes[1], rtol=1e-12)
    np.testing.assert_allclose(moved.b, keep * b - 0.7 / D * slopes[2], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(
    "rule",
    [
        pytest.param(ll.StochasticGD(0.02, 0.5), marks=pytest.mark.more),
        ll.PersistentSGD(0.02, 0.5, 0.1, spherical=False),
        pytest.param(ll.Langevin(0.02, 0.3, spherical=False, penalty=0.4), marks=pytest.mark.more),
    ],
    ids=lambda rule: type(rule).__name__,
)
def test_one_linear_unit_is_one_direction(rule):
    parts = {
        "teacher": ll.SingleIndex(ll.GaussianPrior()),
        "channel": ll.GaussianNoise(0.3),
        "start": ll.InformedStart(1.0),  # the same for both, whatever they draw
        "algorithm": rule,
    }
    unit = ll.Committee(1, "linear", output_weights=[1.0])  # weights of its own: a network, not a direction
    times = [0.0, 0.1, 0.4]
    line, net = (ll.simulate(make(student=s, **parts), 20, times, replicas=2, seed=1) for s in (None, unit))
    same = ll.simulate(make(student=ll.Committee(1, "linear"), **parts), 20, times, replicas=2, seed=1)
    np.testing.assert_array_equal(same.m, line.m)
    for one, other in ((line.m, net.M[..., 0, 0]), (line.q, net.Q[..., 0, 0]), (line.train_loss, net.train_loss)):
        np.testing.assert_allclose(other.values, one.values, rtol=1e-11)
    assert np.all(np.abs(net.risk - line.risk) < 4.5 * net.risk_error + 1e-12)
    assert float(line.m[-1, 0]) != pytest.approx(float(line.m[0, 0]))


# --- a plain loop --------------------------------------------------------------------------------------------

UNITS = {
    "erf": (lambda h: erf(h / np.sqrt(2)), lambda h: np.sqrt(2 / np.pi) * np.exp(-(h**2) / 2)),
    "tanh": (np.tanh, lambda h: 1 - np.tanh(h) ** 2),
    "square": (np.square, lambda h: 2 * h),
}
LABELS = {
    "GaussianNoise": lambda rng, z: z + np.sqrt(0.1) * rng.normal(size=z.shape),
    "Modulus": lambda rng, z: np.abs(z),
    "Sign": lambda rng, z: np.sign(z),
    "Logistic": lambda rng, z: np.where(rng.random(z.shape) < expit(z), 1.0, -1.0),
}
FORCES = {  # the loss and its derivative in f
    "SquareLoss": (lambda y, f: (y - f) ** 2 / 2, lambda y, f: f - y),
    "PseudoHuberLoss": (lambda y, f: np.sqrt(1 + (y - f) ** 2) - 1, lambda y, f: (f - y) / np.sqrt(1 + (f - y) ** 2)),
    "LogisticLoss": (lambda y, f: np.logaddexp(0, -y * f), lambda y, f: -y * expit(-y * f)),
    "HingeLoss": (lambda y, f: np.maximum(0, 1 - y * f), lambda y, f: -y * (y * f < 1)),
}


def inputs_of(problem, rng, n, teacher):
    """x and clean outputs."""
    kind = type(problem.inputs).__name__
    if kind == "IsotropicMixture":
        y = rng.choice([-1.0, 1.0], n)
        return (1 + 0.5 * y)[:, None] * rng.normal(size=(n, D)) / np.sqrt(D), y
    x = rng.normal(size=(n, D)) if kind == "Gaussian" else rng.choice([-1.0, 1.0], (n, D))
    return x / np.sqrt(D), teacher(x / np.sqrt(D))


def teacher_of(problem, rng):
    kind = type(problem.teacher).__name__
    if kind == "SparseTarget":
        return lambda x: (lambda z: z[:, 0] + z[:, 0] * z[:, 1])(np.sqrt(D) * x), None
    if kind == "SingleIndex":
        w = rng.normal(size=(1, D))
        w *= np.sqrt(D) / np.linalg.norm(w)
        return lambda x: x @ w[0], w
    w = np.sqrt(D) * np.linalg.qr(rng.normal(size=(D, 2)))[0].T
    return lambda x: np.mean(erf(x @ w.T / np.sqrt(2)), axis=1), w


def loop(problem, seed, slower=1.0):
    """What one run shows at the end, by NumPy: the update rule and nothing else."""
    rng, rule, student = np.random.default_rng(seed), problem.algorithm, problem.student
    value, slope = UNITS[student.activation.name]
    label, (cost, force) = LABELS[type(problem.channel).__name__], FORCES[type(problem.loss).__name__]
    if problem.inputs.labelled:
        label = lambda rng, z: z  # noqa: E731
    teacher, directions = teacher_of(problem, rng)
    X, z = inputs_of(problem, rng, int(ALPHA * D), teacher)
    y = label(rng, z)
    W, a = rng.normal(size=(WIDTH, D)), np.ones(WIDTH)
    lr = float(rule.learning_rate) * slower
    b, heat = getattr(rule, "batch_fraction", 1.0), getattr(rule, "temperature", 0.0)
    mask = rng.random(len(y)) < b
    if rule.spherical:
        W *= np.sqrt(D) / np.linalg.norm(W, axis=1, keepdims=True)
    for _ in range(STEPS):
        H = X @ W.T
        g = mask / b * force(y, value(H) @ a / WIDTH)
        dW, da = (g[:, None] * a * slope(H)).T @ X / WIDTH, g @ value(H) / WIDTH
        keep = 1 - lr / WIDTH * rule.penalty
        W = keep * W - lr * dW + np.sqrt(2 * heat * lr / WIDTH) * rng.normal(size=W.shape)
        if student.second_layer == "trained":
            a = keep * a - lr / D * da + np.sqrt(2 * heat * lr / WIDTH / D) * rng.normal(size=WIDTH)
        if rule.spherical:
            W *= np.sqrt(D) / np.linalg.norm(W, axis=1, keepdims=True)
        if isinstance(rule, ll.PersistentSGD):
            enter = rule.learning_rate / WIDTH / rule.persistence_time  # on the clock of the width
            mask = rng.random(len(y)) < np.where(mask, 1 - (1 - b) * enter / b, enter)
        else:
            mask = rng.random(len(y)) < b
    new, clean = inputs_of(problem, rng, 3000, teacher)
    seen = {
        "train_loss": np.mean(cost(y, value(X @ W.T) @ a / WIDTH)),
        "risk": np.mean(cost(label(rng, clean), value(new @ W.T) @ a / WIDTH)),
        "norm": np.mean(W**2),
        "a": a.mean(),
    }
    return seen if directions is None else seen | {"M": np.mean((W @ directions.T / D) ** 2)}


def statistics(end):
    """The same of a result at one time, by replica."""
    seen = {"train_loss": end.train_loss, "risk": end.risk}
    if "Q" in end:
        seen["norm"] = end.Q.values.diagonal(axis1=1, axis2=2).mean(1)
        seen["M"] = (end.M**2).mean(["student", "teacher"])
    if "r" in end:
        seen["norm"] = (end.r**2).mean("student")
    if "a" in end:
        seen["a"] = end.a.mean("student")
    return {name: np.asarray(x) for name, x in seen.items()}


NATURE = {
    "normal, committee": {"teacher": ll.Committee(2, "erf")},
    "normal, direction": {"teacher": ll.SingleIndex(ll.GaussianPrior())},
    "signs, committee": {"inputs": ll.Hypercube(), "teacher": ll.Committee(2, "erf")},
    "signs, sparse": {"inputs": ll.Hypercube(), "teacher": ll.SparseTarget("z1 + z1*z2")},
    "mixture": {"inputs": ll.IsotropicMixture(0.5), "teacher": None},
}
PAYMENT = [
    (ll.GaussianNoise(0.1), ll.SquareLoss()),
    (ll.Modulus(), ll.SquareLoss()),
    (ll.GaussianNoise(0.1), ll.PseudoHuberLoss()),
    (ll.Sign(), ll.LogisticLoss()),
    (ll.Logistic(), ll.LogisticLoss()),
    (ll.Sign(), ll.HingeLoss()),
]
RULES = {
    "free": ll.GradientDescent(0.5, spherical=False, penalty=0.2),
    "sphere": ll.StochasticGD(0.5, 0.5),
    "persistent": ll.PersistentSGD(0.4, 0.5, 1.0, spherical=False),
    "hot": ll.Langevin(0.5, 0.2, spherical=False),
}


def drawn_at_random(count):
    rng = np.random.default_rng(14)
    order = [rng.permutation(len(table)) for table in (NATURE, PAYMENT, RULES)]
    for i in range(count):
        nature, pay, rule = (row[i % len(row)] for row in order)
        nature, rule = list(NATURE)[nature], list(RULES)[rule]
        channel, loss = PAYMENT[pay]
        if nature == "mixture":
            channel, loss = ll.GaussianNoise(), (ll.SquareLoss(), ll.LogisticLoss())[i % 2]
        student = ll.Committee(WIDTH, rng.choice(list(UNITS)), second_layer=("fixed", "trained")[i % 2])
        gentle = 0.01 if student.squares else float(RULES[rule].learning_rate)  # squares run away from long steps
        parts = NATURE[nature] | {"channel": channel, "loss": loss, "student": student}
        parts["algorithm"] = dataclasses.replace(RULES[rule], learning_rate=gentle)
        yield f"{nature}, {type(loss).__name__}, {student.activation.name}, {rule}", make(**parts)


CASES = dict(drawn_at_random(5))


def scores(problem, slower=1.0, runs=RUNS):
    clock = float(problem.algorithm.learning_rate) / WIDTH
    end = ll.simulate(problem, D, [STEPS * clock], replicas=runs, seed=2).isel(time=0)
    assert set(end.status.values) == {"ok"}
    plain = [loop(problem, seed, slower) for seed in range(100, 100 + 2 * runs)]
    z = {}
    for name, ours in statistics(end).items():
        theirs = np.array([run[name] for run in plain])
        error = np.sqrt(ours.var(ddof=1) / len(ours) + theirs.var(ddof=1) / len(theirs))
        z[name] = (ours.mean() - theirs.mean()) / max(error, 1e-12)
    return z


@pytest.mark.more_of(
    "signs, committee, LogisticLoss, square, hot",
    "mixture, SquareLoss, square, hot",
    "signs, sparse, PseudoHuberLoss, square, sphere",
    "normal, committee, LogisticLoss, tanh, persistent",
)
@pytest.mark.parametrize("name", CASES)
def test_any_problem_agrees_with_a_plain_loop(name):
    assert max(map(abs, scores(CASES[name]).values())) < 4.5


def test_a_loop_without_the_factor_of_the_width_disagrees():
    assert max(map(abs, scores(make(), slower=1 / WIDTH, runs=3 * RUNS).values())) > 6


# --- what is reported ----------------------------------------------------------------------------------------


@pytest.mark.more
def test_risks_are_exact_where_overlaps_say_it_all_and_measured_elsewhere():
    exact = ll.simulate(make(), D, [0.0, 1.0], replicas=2)
    assert "risk_error" not in exact and "risk_from" not in exact.attrs
    measured = ll.simulate(make(inputs=ll.Hypercube()), D, [0.0, 1.0], replicas=2)
    assert measured.attrs["risk_from"] == "16384 new samples" and np.all(measured.risk_error > 0)
    biased = ll.simulate(make(student=ll.Committee(WIDTH, "erf", bias="trained")), D, [0.0, 1.0], replicas=2)
    assert biased.attrs["risk_from"] == "16384 draws of the fields"
    assert np.all(np.abs(biased.risk[0] - exact.risk[0]) < 4.5 * biased.risk_error[0] + 1e-12)  # no bias at the start
    assert biased.b.dims == ("time", "replica", "student")
    assert exact.P.dims == ("teacher", "teacher_2") and "success" not in measured


@pytest.mark.more
def test_squares_under_any_rule_retrieve_a_phase_as_wide_students_do():
    parts = {
        "teacher": ll.SingleIndex(ll.GaussianPrior()),
        "channel": ll.Modulus(),
        "sample_ratio": 6.0,
        "student": ll.Committee(3, "square"),
        "loss": ll.PhaseRetrievalLoss(),
    }
    times, d = [0.0, 1.0, 20.0], 16
    full = make(**parts, algorithm=ll.StochasticGD(0.06, 1.0, spherical=False))
    net = ll.simulate(full, d, times, replicas=16, seed=1)
    wide = ll.simulate(
        make(**parts, algorithm=ll.GradientDescent(0.06, spherical=False)), d, times, replicas=16, seed=2
    )
    for name in ("error", "risk", "train_loss"):
        gap = net[name].mean("replica") - wide[name].mean("replica")
        spread = np.sqrt((net[name].var("replica", ddof=1) + wide[name].var("replica", ddof=1)) / 16)
        assert np.all(np.abs(gap) < 4.5 * spread + 1e-9), name
    assert net.attrs["success_error"] == wide.attrs["success_error"] == 0.01
    assert net.attrs["success_means"] == wide.attrs["success_means"]
    assert float(net.success.mean()) > 0.5


def test_a_run_that_diverges_says_when():
    wild = make(algorithm=ll.GradientDescent(200.0, spherical=False), student=ll.Committee(WIDTH, "square"))
    result = ll.simulate(wild, D, [0.0, 1e4], replicas=2)
    assert set(result.status.values) == {"diverged"}
    assert np.all(np.isfinite(result.Q[0])) and np.all(np.isnan(result.Q[-1])) and np.all(result.end_time < 1e4)


def test_what_cannot_be_run_is_refused_in_words():
    for changes, words in (
        ({"teacher": ll.SparseTarget("z1")}, "hypercube"),
        ({"sample_ratio": None}, "fixed data set"),
        ({"loss": ll.MaxMargin(), "channel": ll.Sign()}, "a loss with a gradient"),
        ({"student": ll.Committee(2, "sign")}, "gradient"),
        ({"start": None}, "Problem.start"),
        ({"start": ll.SpectralStart()}, "does not know weights"),
        ({"loss": None}, "Problem.loss"),
    ):
        with pytest.raises(ll.errors.InputError, match=words):
            ll.simulate(make(**changes), D, [0.1])


def test_a_start_that_does_not_fit_into_the_dimensions_is_refused():
    pair = ll.Committee(2, "erf")
    start = ll.OverlapStart(Q=np.eye(2), M=0.3 * np.eye(2), P=np.eye(2))
    parts = {"teacher": pair, "student": pair, "loss": ll.SquareLoss(), "start": start, "sample_ratio": 2.0}
    problem = ll.Problem(**parts, algorithm=ll.GradientDescent(0.1, spherical=False))
    with pytest.raises(ll.errors.InputError, match="at least 4, the number of independent directions"):
        ll.simulate(problem, d=3, times=[0.0, 0.1])
    assert ll.simulate(problem, d=4, times=[0.0]).M.values[0, 0] == pytest.approx(0.3 * np.eye(2), abs=1e-12)
