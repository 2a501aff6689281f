"""Contracts of inputs, teachers, students and starts."""

import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats

from limitlab._setup import double
from limitlab.errors import InputError
from limitlab.problems.base import CHUNK, AbstractInputs, AbstractStudent, AbstractTeacher
from limitlab.problems.inputs import Gaussian
from limitlab.problems.networks import Committee
from limitlab.problems.starts import AbstractStart, RandomStart
from limitlab.testing.common import Z, broken, check_part, check_pure, close

__all__ = ["check_inputs", "check_start", "check_student", "check_teacher"]

COUNT = 4096
MANY = 40_000  # enough to see the tails of a field


@double
def check_inputs(inputs: AbstractInputs, d: int = 12) -> None:
    """Samples are pure functions of their key, of the right shape and size; what the class says of them is true."""
    check_part(inputs, AbstractInputs)
    inputs.check(d)
    drawn = check_pure(inputs, "draw", lambda key: inputs.draw(key, COUNT, d))
    if isinstance(drawn, tuple) != inputs.labelled or (inputs.labelled and len(drawn) != 2):
        broken(inputs, "draw must give the pair (x, y) if labelled = True, and x alone if not.")
    x, y = drawn if inputs.labelled else (drawn, None)
    if x.shape != (COUNT, d) or (y is not None and y.shape != (COUNT,)):
        broken(inputs, f"draw(key, {COUNT}, {d}) must give x of shape {(COUNT, d)}; got {x.shape}.")
    if np.array_equal(x[0], x[1]):
        broken(inputs, "two samples of one draw are equal.")
    size = float(jnp.mean(jnp.sum(jnp.square(x), axis=1)))
    if not 0.25 < size < 4:
        broken(inputs, f"|x|^2 must be about 1, so that fields are of order 1; got {size:.3g}.")
    if inputs.signs and not np.allclose(np.abs(x), 1 / np.sqrt(d)):
        broken(inputs, "signs = True, but entries are not +-1/sqrt(d).")
    if inputs.normal:
        w = np.concatenate([np.eye(1, d), np.random.default_rng(0).normal(size=(2, d))])  # an entry, sums
        many = inputs.draw(jax.random.key(4), MANY, d)
        many = np.asarray(many[0] if inputs.labelled else many)
        for one in w:
            field = many @ one / (np.linalg.norm(one) / np.sqrt(d))
            flat = (np.mean(field**4) - 3) / np.sqrt(96 / MANY)  # tails: 96 is the variance of the fourth power
            if stats.kstest(field, "norm").pvalue < 1e-5 or abs(flat) > Z:
                broken(inputs, "normal = True, but a field w.x is not normal with variance |w|^2/d.")
    tests = inputs.test_points(jax.random.key(0), 2 * CHUNK, d)
    if len(tests.x) % CHUNK or tests.x.shape[1] != d:
        broken(inputs, f"test_points must come in whole chunks of {CHUNK}; got {tests.x.shape}.")
    if inputs.labelled and tests.y is None:
        broken(inputs, "test_points of labelled inputs must bring their labels.")


@double
def check_teacher(teacher: AbstractTeacher, inputs: AbstractInputs | None = None, d: int = 12) -> None:
    """Weights are pure functions of their key; an output depends on one sample; directions and link belong to it."""
    check_part(teacher, AbstractTeacher)
    inputs = Gaussian() if inputs is None else inputs
    wrong = teacher.misfit(inputs)
    if wrong is not None:
        broken(teacher, f"it needs {wrong[0]}; check it with these inputs.")
    weights = check_pure(teacher, "draw", lambda key: teacher.draw(key, d))
    x = inputs.draw(jax.random.key(3), 16, d)
    z = teacher.output(weights, x)
    if z.shape != (16,) or not np.all(np.isfinite(z)):
        broken(teacher, f"output must give 16 finite numbers for 16 inputs; got shape {z.shape}.")
    alone = jnp.concatenate([teacher.output(weights, x[i : i + 1]) for i in range(16)])
    if not close(alone, z, 1e-9, 1e-12):
        broken(teacher, "the output of a sample depends on the other samples.")
    if not close(jax.jit(lambda w, x: teacher.output(w, x))(weights, x), z, 1e-9, 1e-12):
        broken(teacher, "output gives other numbers when it is compiled.")
    if not close(teacher.live().output(weights, x), z, 1e-12, 1e-14):
        broken(teacher, "live() is another teacher.")
    directions = teacher.directions(weights)
    if directions is not None and (directions.ndim != 2 or directions.shape[1] != d):
        broken(teacher, f"directions must be (k, {d}); got {directions.shape}.")
    if directions is not None and teacher.units not in (0, len(directions)):
        broken(teacher, f"units says {teacher.units} directions; `directions` gives {len(directions)}.")
    if teacher.by_fields:
        if directions is None:
            broken(teacher, "by_fields = True needs directions.")
        if not close(teacher.link(x @ directions.T), z, 1e-9, 1e-12):
            broken(teacher, "link of the fields of its directions is not its output.")


@double
def check_student(student: AbstractStudent, d: int = 12) -> None:
    """The gradient that `respond` gives is that of `output`; every parameter has a pace."""
    check_part(student, AbstractStudent)
    start = RandomStart()
    parameters, _ = student.begin(jax.random.key(0), jax.random.key(1), start, None, d)
    again, _ = student.begin(jax.random.key(0), jax.random.key(1), start, None, d)
    if not close(parameters, again, 0, 0):
        broken(student, "begin is not pure: equal keys give different parameters.")
    x, pull = jax.random.normal(jax.random.key(2), (8, d)) / np.sqrt(d), jax.random.normal(jax.random.key(3), (8,))
    f, size, back = student.respond(parameters, x)
    if f.shape != (8,) or not close(f, student.output(parameters, x), 1e-9, 1e-12):
        broken(student, "respond and output give different outputs.")
    alone = jnp.concatenate([student.output(parameters, x[i : i + 1]) for i in range(8)])
    if not close(alone, f, 1e-9, 1e-12):
        broken(student, "the output of a sample depends on the other samples.")
    if np.shape(size) != ():
        broken(student, "respond must give the size of the largest field as one number.")
    right = jax.grad(lambda p: jnp.sum(pull * student.output(p, x)))(parameters)
    if not close(back(pull), right, 1e-6, 1e-9):
        broken(student, "back(pull) of respond is not the gradient of sum_mu pull_mu f(x_mu).")
    try:
        jax.tree.map(lambda theta, pace: None, parameters, student.pace(parameters, float(d), 1.0))
    except ValueError as error:
        broken(student, f"pace must have a Pace or None in the place of every parameter: {error}")
    W = student.directions(parameters)
    if W is not None and W.shape[1] != d:
        broken(student, f"directions must be (p, {d}); got {W.shape}.")


@double
def check_start(start: AbstractStart, p: int = 2, k: int = 2, d: int = 24) -> None:
    """Weights and overlaps are pure functions of their key; what is realised has the overlaps that were drawn."""
    check_part(start, AbstractStart)
    student, teacher = Committee(p, "erf"), Committee(k, "erf")
    draw = lambda key: start.network(key, jax.random.fold_in(key, 9), student, teacher, d)  # noqa: E731
    net, star = check_pure(start, "network", draw)
    if net.rows.shape != (p, d) or net.a.shape != (p,):
        broken(start, f"the student must have weights ({p}, {d}) and second layer ({p},); got {net.rows.shape}.")
    if not start.joint:
        return
    key = jax.random.split(jax.random.key(0))[0]
    Q, M, P = jax.jit(lambda key: start.draw(key, d, p, k))(key)
    seen = net.rows @ net.rows.T / d, net.rows @ star.rows.T / d, star.rows @ star.rows.T / d
    if not close(seen, (Q, M, P), 1e-6, 1e-8):
        broken(start, "the weights at time 0 do not have the overlaps (Q, M, P) that `draw` gives for the same key.")
    large, count = 10**6, 64
    keys = jax.random.split(jax.random.key(5), count)
    drawn = jax.jit(lambda keys: jax.lax.map(lambda key: start.draw(key, float(large), p, k), keys))(keys)
    for name, values, limit in zip("QMP", drawn, start.limit(p, k), strict=True):
        gap = np.abs(np.mean(np.asarray(values), axis=0) - np.asarray(limit))
        scale = max(1.0, float(np.max(np.abs(limit))))
        if np.max(gap) > Z * 3 * scale / np.sqrt(large * count) + 1e-5 * scale:
            broken(start, f"limit gives another {name} than draws at d = {large}.")
    _check_beside(start, p, k)
    one, two = ([x[n] for x in drawn] for n in (0, 1))
    if not start.random and not close(one, two, 0, 0):
        broken(start, "random = False, but two draws differ.")


def _check_beside(start: AbstractStart, p: int, k: int, d: int = 4000) -> None:
    """Beside directions that are given, `weights` has the overlaps of the limit, up to the size of O(d^-1/2)."""
    Q, M, P = (np.asarray(x) for x in start.limit(p, k))
    given = np.linalg.cholesky(P + 1e-12 * np.eye(k)) @ np.linalg.qr(np.random.default_rng(0).normal(size=(d, k)))[0].T
    rows = jnp.asarray(given * np.sqrt(d))
    try:
        W = np.asarray(start.weights(jax.random.key(7), p, d, rows))
    except InputError:  # refused in words: it goes with teachers that are known by overlaps only
        return
    scale = max(1.0, float(np.max(np.abs(Q))))
    for name, seen, limit in (("Q", W @ W.T / d, Q), ("M", W @ np.asarray(rows).T / d, M)):
        if np.max(np.abs(seen - limit)) > Z * 2 * scale / np.sqrt(d):
            broken(start, f"beside given directions `weights` has another {name} than the limit.")
