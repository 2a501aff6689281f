"""SGD of two-layer networks on sparse targets of the hypercube, at finite size."""

from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from limitlab.algorithms.one_pass.layerwise_sgd import LayerwiseSGD
from limitlab.algorithms.requirements import check_sparse_target
from limitlab.errors import InputError
from limitlab.micro.hypercube_measure import Seen, how, observe, workspace
from limitlab.micro.hypercube_steps import CHUNK, Network, Rule, hypercube_step, ridge_second_layer
from limitlab.micro.march import advance, blank, check_memory, march
from limitlab.micro.steps import Run
from limitlab.numerics.checks import whole_steps
from limitlab.numerics.progress import Progress
from limitlab.numerics.trees import traced
from limitlab.problems.problem import Problem
from limitlab.problems.sparse.representable import warn_unreachable
from limitlab.problems.sparse.target import SparseTarget
from limitlab.results.schema import dataset
from limitlab.states.overlaps import start_key

__all__ = ["run_hypercube_sgd"]

MODEST = 2**24  # numbers of u kept in the result (128 MiB); beyond, u and s are left out


class _Plan(NamedTuple):
    """Up to the step ``switch`` the first rule; then the second, or once a ridge fit of so many samples."""

    first: Rule
    switch: int = np.iinfo(np.int64).max
    second: Rule | None = None
    penalty: float | None = None
    ridge_samples: int = 0


def run_hypercube_sgd(
    problem: Problem,
    d: int,
    times: np.ndarray,
    replicas: int,
    seed: int,
    representation: str,
    progress: Progress | None,
):
    r"""Simulate ``replicas`` independent networks learning :math:`h(z)` from :math:`x \in \{-1,1\}^d/\sqrt d`.

    Reported by time and replica: all 2^P Fourier coefficients of :math:`\bar f(z) = E_r f` (``fourier``), the two parts
    of the risk (``latent_risk``, ``residual_risk``; ``risk`` is their sum and the noise floor), ``a``, and if they are
    not too many ``u`` and ``s``, a unit's weights on the latent coordinates and their norm on the others in units of
    inputs +-1 (w/sqrt(d)). How means over the other coordinates were taken is in the attribute ``average``.
    """
    name = f"simulate with {type(problem.algorithm).__name__}"
    check_sparse_target(name, problem, InputError)
    target, student, rule = problem.teacher, problem.student, problem.algorithm
    assert isinstance(target, SparseTarget) and student is not None and rule is not None
    _check_sizes(target, d, representation)
    p, P, clock = student.width, target.latent, rule.clock(problem, d)  # type: ignore[attr-defined]
    steps = whole_steps(times, clock)
    plan = _plan(problem, clock)
    keep_u = len(times) * replicas * p * P <= MODEST
    needed = _bytes(problem, d, len(times), replicas, keep_u)
    check_memory(
        needed,
        f"The 2^{P} coefficients at {len(times)} times of {replicas} replicas take "
        f"{len(times) * replicas * 2**P * 8 / 2**30:.1f} GiB of it, the weights {3 * replicas * p * d * 8 / 2**30:.1f} "
        "GiB. Use fewer replicas, times or latent coordinates, or a smaller d.",
    )
    note = warn_unreachable(problem)

    keys = _keys(seed, replicas)
    start = _starts(
        problem.start, student.output_weights, p, d, jax.vmap(partial(start_key, seed))(jnp.arange(replicas))
    )
    run = Run(start, jnp.ones(replicas, bool), jnp.full(replicas, -1))
    look = partial(_look, student.activation, jnp.asarray(target.values), keys.look, keep_u)
    seen, run = _run(plan, run, keys, steps, jnp.asarray(float(d)), look, progress, f"SGD, d = {d}, P = {P}")

    died, lost = np.asarray(run.died), ~np.asarray(run.alive)
    gone = lost[None, :] & (steps[:, None] > died[None, :])  # (time, replica): after the end
    path: Any = jax.tree.map(lambda *x: blank(np.stack(x), gone), *seen)
    batch = rule.batch_size  # type: ignore[attr-defined]
    samples = steps * batch
    if plan.penalty is not None:
        samples = np.minimum(steps, plan.switch) * batch + np.where(steps > plan.switch, plan.ridge_samples, 0)
    return dataset(
        problem,
        {
            **_variables(path, problem.channel.variance),  # type: ignore[attr-defined]
            "status": (("replica",), ["diverged" if x else "ok" for x in lost]),
            "end_time": (("replica",), np.where(lost, died * clock, times[-1])),
        },
        {
            "time": times,
            "term": target.term_names,
            "step": ("time", steps),
            "samples": ("time", samples),
            **({"latent": [f"z{i}" for i in target.variables]} if keep_u else {}),
        },
        method="simulate (weights)",
        attrs={
            "d": int(d),
            "seed": int(seed),
            "representation": "weights",
            "bytes_needed": int(needed),
            "average": how(student.activation, d, P),
            "note": note,
        },
    )


def _check_sizes(target: SparseTarget, d: int, representation: str) -> None:
    if representation != "weights":
        raise InputError(
            'simulate of a sparse target needs representation="weights": its inputs are signs, and overlaps do not '
            f"describe them; got {representation!r}. Leave representation out."
        )
    if d < target.latent:
        raise InputError(
            f"simulate needs d >= {target.latent}, the number of latent coordinates of the target; got d={d}. Use a "
            "larger d or a target of fewer variables."
        )


def _plan(problem: Problem, clock: float) -> _Plan:
    target, student, algorithm = problem.teacher, problem.student, problem.algorithm
    assert isinstance(target, SparseTarget) and student is not None

    def rule(trains: str, interacting: bool = True) -> Rule:
        made = Rule(
            activation=student.activation,
            table=target.values,
            variance=float(problem.channel.variance),  # type: ignore[attr-defined]
            learning_rate=float(algorithm.learning_rate),  # type: ignore[union-attr]
            second_layer_rate=float(algorithm.second_layer_rate),  # type: ignore[union-attr]
            weight_decay=float(getattr(algorithm, "weight_decay", 0.0)),
            batch_size=algorithm.batch_size,  # type: ignore[union-attr]
            trains=trains,
            interacting=interacting,
        )
        return traced(made)  # a plain 0 stays one: no noise is drawn, nothing decays

    if isinstance(algorithm, LayerwiseSGD):
        first, switch = rule("first", algorithm.interacting), round(algorithm.switch_time / clock)
        if algorithm.penalty is None:
            return _Plan(first, switch, rule("second"))
        return _Plan(first, switch, None, float(algorithm.penalty), algorithm.ridge_samples)
    both = student.second_layer == "trained" and algorithm.second_layer_rate > 0  # type: ignore[union-attr]
    return _Plan(rule("both" if both else "first"))


class _Keys(NamedTuple):
    """Streams of every replica: a pair (inputs, label noise) for steps, another for the ridge fit, one to measure."""

    steps: jax.Array
    ridge: jax.Array
    look: jax.Array


def _keys(seed: int, replicas: int) -> _Keys:
    index = jnp.arange(replicas)

    def stream(number: int) -> jax.Array:
        key = jax.random.fold_in(jax.random.key(seed), number)
        return jax.vmap(lambda r: jax.random.split(jax.random.fold_in(key, r)))(index)

    return _Keys(stream(1), stream(3), stream(4)[:, 0])


@eqx.filter_jit
def _starts(start, output_weights, p: int, d: int, keys: jax.Array) -> Network:
    def one(key):
        key_w, key_a = jax.random.split(key)
        W = jax.random.normal(key_w, (d, p))
        if start.sphere:
            W = W * jnp.sqrt(d / jnp.sum(W**2, axis=0))
        a = start.draw_second_layer(key_a, p) if output_weights is None else jnp.asarray(output_weights)
        return Network(start.scale * W, a)

    return jax.vmap(one)(keys)


def _look(activation, table, keys, keep_u: bool, state: Network, step: int) -> Seen:
    seen = observe(activation, table, state, keys, jnp.asarray(step))
    return seen if keep_u else eqx.tree_at(lambda s: (s.u, s.s), seen, (None, None))


def _run(plan: _Plan, run: Run, keys: _Keys, steps: np.ndarray, d, look, progress: Progress | None, label: str):
    """Both phases; times at or before the switch show the first."""
    early, late = steps[steps <= plan.switch].tolist(), steps[steps > plan.switch].tolist()
    total = int(steps[-1]) if plan.penalty is None else min(int(steps[-1]), plan.switch)
    onward = partial(advance, hypercube_step, plan.first, d, keys.steps)
    seen, run = march(onward, look, run, early, progress, label, total=total)
    if not late:
        return seen, run
    now = early[-1] if early else 0
    _, run = march(onward, lambda state, step: (), run, [plan.switch], progress, label, now=now, total=total)
    if plan.second is None:
        run = ridge_second_layer(plan.first, jnp.asarray(plan.penalty), plan.ridge_samples, run, keys.ridge)
        once = jax.tree.map(np.asarray, look(run.state, plan.switch))
        return seen + [once] * len(late), run
    onward = partial(advance, hypercube_step, plan.second, d, keys.steps)
    after, run = march(onward, look, run, late, progress, label, now=plan.switch, total=total)
    return seen + after, run


def _variables(path: Seen, variance: float) -> dict[str, tuple[tuple[str, ...], Any]]:
    at = ("time", "replica")
    out = {
        "risk": (at, path.latent_risk + path.residual_risk + variance / 2),
        "latent_risk": (at, path.latent_risk),
        "residual_risk": (at, path.residual_risk),
        "fourier": ((*at, "term"), path.fourier),
        "a": ((*at, "student"), path.a),
    }
    if path.u is not None:
        out |= {"u": ((*at, "student", "latent"), path.u), "s": ((*at, "student"), path.s)}
    return out


def _bytes(problem: Problem, d: int, times: int, replicas: int, keep_u: bool) -> int:
    """Weights, what is kept, names of terms, and what a measurement or a ridge fit holds at once."""
    target, student, algorithm = problem.teacher, problem.student, problem.algorithm
    assert isinstance(target, SparseTarget) and student is not None
    p, P = student.width, target.latent
    kept = times * replicas * (2**P + p * (P + 2 if keep_u else 1)) * 2  # as pieces, and stacked
    needed = 8 * (3 * replicas * p * d + kept) + 2**P * (100 + 16 * P) + workspace(d, p, P)
    if isinstance(algorithm, LayerwiseSGD) and algorithm.penalty is not None:
        n = algorithm.ridge_samples
        chunk = min(CHUNK, n) * (d + 2 * p)
        needed += 8 * (4 * min(n, p) ** 2 + chunk + (n * p if n < p else 0))
    return needed
