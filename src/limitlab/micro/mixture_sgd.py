"""SGD of two-layer networks on inputs that bring their labels (mixtures, samplers of the user's), at finite size."""

from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from limitlab.algorithms.one_pass.online_sgd import OnlineSGD
from limitlab.algorithms.requirements import check_labelled
from limitlab.errors import InputError
from limitlab.micro.march import advance, blank, check_memory, march
from limitlab.micro.mixture_measure import CHUNK, Points, Seen, how, observe, points
from limitlab.micro.mixture_steps import MixtureRule, Network, mixture_step
from limitlab.micro.steps import Run
from limitlab.numerics.checks import whole_steps
from limitlab.numerics.progress import Progress
from limitlab.numerics.trees import as_arrays, traced
from limitlab.problems.inputs import AbstractLabelledInputs, AnisotropicMixture, CustomInputs
from limitlab.problems.problem import Problem
from limitlab.results.schema import dataset
from limitlab.states.overlaps import start_key

__all__ = ["check_sampler", "make_rule", "run_mixture_sgd"]

MODEST = 2**24  # numbers of r kept in the result (128 MiB); beyond, r, a and b are left out
TESTS = 16384


def run_mixture_sgd(
    problem: Problem,
    d: int,
    times: np.ndarray,
    replicas: int,
    seed: int,
    representation: str,
    progress: Progress | None,
):
    r"""Simulate ``replicas`` independent networks :math:`\frac1p\sum_i a_i\sigma(w_i \cdot x + b_i)` on labelled x.

    Reported by time and replica: ``risk`` (on test points fixed along time; how they were drawn is in the attribute
    ``risk_from``), ``polarisation``, and if they are not too many ``r`` = |w_i|/sqrt(d) (of an anisotropic mixture on
    the informative and on the other coordinates, with their ``alignment``), ``a`` and ``b``.
    """
    name = "simulate with OnlineSGD"
    check_labelled(name, problem, InputError)
    if representation != "weights":
        raise InputError(
            'simulate of labelled inputs needs representation="weights": overlaps do not describe them; got '
            f"{representation!r}. Leave representation out."
        )
    inputs, student, algorithm = problem.inputs, problem.student, problem.algorithm
    assert isinstance(inputs, AbstractLabelledInputs) and student is not None and isinstance(algorithm, OnlineSGD)
    check_sampler(inputs, d)
    p, clock = student.width, algorithm.clock(problem, d)
    steps = whole_steps(times, clock)
    informative = inputs.informative(d) if isinstance(inputs, AnisotropicMixture) else None
    units = len(times) * replicas * p * (1 if informative is None else 2)
    needed = _bytes(problem, d, len(times), replicas, units if units <= MODEST else 0)
    check_memory(
        needed,
        f"The weights take {3 * replicas * p * d * 8 / 2**30:.1f} GiB of it. Use fewer replicas, units or times, or a "
        "smaller d.",
    )

    run = Run(_starts(problem, d, seed, replicas), jnp.ones(replicas, bool), jnp.full(replicas, -1))
    onward = partial(advance, mixture_step, make_rule(problem), jnp.asarray(float(d)), _keys(seed, replicas))
    look = partial(_look, problem, _tests(inputs, seed, replicas, d), informative, units <= MODEST)
    seen, run = march(onward, look, run, steps.tolist(), progress, f"SGD, d = {d}, p = {p}")

    died, lost = np.asarray(run.died), ~np.asarray(run.alive)
    gone = lost[None, :] & (steps[:, None] > died[None, :])  # (time, replica): after the end
    path: Any = jax.tree.map(lambda *x: blank(np.stack(x), gone), *seen)
    return dataset(
        problem,
        {
            **_variables(path, float(problem.channel.variance)),  # type: ignore[attr-defined]
            "status": (("replica",), ["diverged" if x else "ok" for x in lost]),
            "end_time": (("replica",), np.where(lost, died * clock, times[-1])),
        },
        {
            "time": times,
            "step": ("time", steps),
            "samples": ("time", steps * algorithm.batch_size),
            **({"block": ["informative", "other"]} if informative is not None and path.r is not None else {}),
        },
        method="simulate (weights)",
        attrs={
            "d": int(d),
            "seed": int(seed),
            "representation": "weights",
            "bytes_needed": int(needed),
            "risk_from": how(inputs, TESTS),
        },
    )


def check_sampler(inputs: AbstractLabelledInputs, d: int) -> None:
    """Raise `InputError` unless a sampler of the user's gives finite samples of the right shape."""
    if not isinstance(inputs, CustomInputs):
        return
    draw = jax.jit(lambda key: inputs.draw(key, 16, d))
    (x, y), (x2, y2) = draw(jax.random.key(0)), draw(jax.random.key(1))
    if np.array_equal(x, x2) and np.array_equal(y, y2):
        raise InputError(
            "CustomInputs.sampler must draw from its key with jax.random: compiled, it gives the same samples for "
            "every key (NumPy's random numbers are drawn once and for all when a step is compiled)."
        )
    if not (np.all(np.isfinite(x)) and np.all(np.isfinite(y))):
        raise InputError(
            f"CustomInputs.sampler must return finite x and y; 16 samples at d={d} have {np.sum(~np.isfinite(x))} and "
            f"{np.sum(~np.isfinite(y))} entries that are not. Mend the sampler."
        )


def make_rule(problem: Problem) -> MixtureRule:
    """The numbers of a step, traced; a plain 0 stays one."""
    student, rule = problem.student, problem.algorithm
    assert student is not None and isinstance(rule, OnlineSGD) and isinstance(problem.inputs, AbstractLabelledInputs)
    made = MixtureRule(
        inputs=as_arrays(problem.inputs),
        activation=student.activation,
        variance=float(problem.channel.variance),  # type: ignore[attr-defined]
        learning_rate=float(rule.learning_rate),
        second_layer_rate=float(rule.second_layer_rate),
        weight_decay=float(rule.weight_decay),
        temperature=float(rule.temperature),
        schedule=as_arrays(rule.schedule),
        batch_size=rule.batch_size,
        trains_a=student.second_layer == "trained" and float(rule.second_layer_rate) > 0,
        trains_b=student.bias == "trained",
    )
    return traced(made)


def _keys(seed: int, replicas: int) -> jax.Array:
    """Three streams a replica: inputs, label noise, added noise."""
    key = jax.random.fold_in(jax.random.key(seed), 1)
    return jax.vmap(lambda r: jax.random.split(jax.random.fold_in(key, r), 3))(jnp.arange(replicas))


def _starts(problem: Problem, d: int, seed: int, replicas: int) -> Network:
    student = problem.student
    assert student is not None
    keys = jax.vmap(partial(start_key, seed))(jnp.arange(replicas))
    return _drawn(problem.start, student.output_weights, student.bias == "trained", student.width, d, keys)


@eqx.filter_jit
def _drawn(start, output_weights, bias: bool, p: int, d: int, keys: jax.Array) -> Network:
    def one(key):
        key_w, key_a, key_b = jax.random.split(key, 3)
        W = jax.random.normal(key_w, (d, p))
        if start.sphere:
            W = W * jnp.sqrt(d / jnp.sum(W**2, axis=0))
        a = start.draw_second_layer(key_a, p) if output_weights is None else jnp.asarray(output_weights)
        b = start.bias_scale * jax.random.normal(key_b, (p,)) if bias else jnp.zeros(p)
        return Network(start.scale * W, a, b)

    return jax.vmap(one)(keys)


def _tests(inputs: AbstractLabelledInputs, seed: int, replicas: int, d: int) -> Points:
    key = jax.random.fold_in(jax.random.key(seed), 4)
    drawn = [points(inputs, jax.random.fold_in(key, r), TESTS, d) for r in range(replicas)]
    return jax.tree.map(lambda *x: jnp.stack(x), *drawn)


def _look(problem: Problem, tests: Points, informative: int | None, keep: bool, state: Network, step: int) -> Seen:
    student = problem.student
    assert student is not None
    seen = observe(student.activation, tests, informative, state)
    moves = student.second_layer == "trained" or student.output_weights is not None
    moves = moves or problem.start.second_layer != "ones"  # type: ignore[union-attr]
    return seen._replace(
        r=seen.r if keep else None,
        a=seen.a if keep and moves else None,
        b=seen.b if keep and student.bias == "trained" else None,
    )


def _variables(path: Seen, variance: float) -> dict[str, tuple[tuple[str, ...], Any]]:
    at = ("time", "replica")
    out: dict[str, tuple[tuple[str, ...], Any]] = {
        "risk": (at, path.risk + variance / 2),
        "polarisation": (at, path.polarisation),
    }
    if path.alignment is not None:
        out["alignment"] = (at, path.alignment)
    if path.r is not None:
        out["r"] = ((*at, "student"), path.r) if path.r.ndim == 3 else ((*at, "student", "block"), path.r)
    for name in ("a", "b"):
        if getattr(path, name) is not None:
            out[name] = ((*at, "student"), getattr(path, name))
    return out


def _bytes(problem: Problem, d: int, times: int, replicas: int, kept: int) -> int:
    """Weights (with noise, and the next ones), test points, what is kept, and what a step and a measurement hold."""
    student, rule = problem.student, problem.algorithm
    assert student is not None and isinstance(rule, OnlineSGD)
    p, batch = student.width, rule.batch_size
    step = replicas * (batch * (2 * d + 4 * p) + 3 * p * d)
    return 8 * (step + replicas * TESTS * d + 6 * kept + 4 * CHUNK * p + 4 * times * replicas)
