r"""Interacting units in d dimensions, driven by population gradients: the mean-field flow without any reduction.

.. math:: d\theta = -\big(\nabla\Psi(\theta; \rho) + \lambda\theta\big)\,dt + \sqrt{2T}\,dB, \qquad
          \theta = (a, b, w/\sqrt d)

on the clock of the schedule. Without noise by an adaptive integrator, with noise by Euler and Maruyama's steps.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from limitlab.algorithms.settings.one_pass import LabelledOnePass
from limitlab.errors import InputError
from limitlab.macro.mixtures.closed import ClosedField, closed_field, closed_pull, closed_risk, has_closed_form
from limitlab.macro.mixtures.samples import SampleField, sample_field, sample_pull, sample_risk
from limitlab.macro.mixtures.start import Units, draw_clouds
from limitlab.modules import Module, filter_jit
from limitlab.numerics.keys import Stream, root
from limitlab.numerics.machine import Memory
from limitlab.numerics.ode.integrate import integrate
from limitlab.numerics.random import normal
from limitlab.numerics.shapes import along_rows
from limitlab.numerics.trees import as_array
from limitlab.problems.inputs.labelled import Widths
from limitlab.verbs import Pace, tick, turns

__all__ = ["PARTICLES", "Plan", "mixture_memory", "mixture_variables", "solve_mixture"]

PARTICLES = 200
MOST_CLOSED = 256  # particles; beyond, pairs cost more than samples
FEWEST = 8
# Of the integrator: relative, and absolute. A kink that passes a sample makes the mean over samples jump; resolving
# each of these jumps takes hundreds of steps and moves the norms by 1e-5 (4096 samples).
TOLERANCES = {"closed": (1e-7, 1e-9), "samples": (1e-3, 1e-3)}
BOUND = 1e8


class Plan(NamedTuple):
    """How a flow is to be computed; the fields are those of `MeanField`."""

    d: int
    particles: int | None
    gradients: str
    samples: int
    rtol: float | None
    step: float
    seed: int


class _Flow(Module):
    """What acts on the two clouds (along the first axis), and the rates of what is trained."""

    fields: ClosedField | SampleField
    rate_a: jax.Array
    moves_a: jax.Array
    moves_b: jax.Array
    decay: jax.Array
    temperature: jax.Array


class MixturePath(NamedTuple):
    """Clouds at the asked times of the schedule's clock, their risk, and how it ended."""

    clouds: Units
    risk: np.ndarray
    status: str
    end: float
    attrs: dict[str, Any]


def _pull(field: ClosedField | SampleField, cloud: Units) -> Units:
    return closed_pull(field, cloud) if isinstance(field, ClosedField) else sample_pull(field, cloud)


def _risk(field: ClosedField | SampleField, clouds: Units) -> jax.Array:
    return closed_risk(field, clouds) if isinstance(field, ClosedField) else sample_risk(field, clouds)


def drift(clouds: Units, flow: _Flow) -> Units:
    """The motion of both clouds."""
    pull = jax.lax.map(lambda both: _pull(*both), (flow.fields, clouds))
    return Units(
        flow.rate_a * pull.a - flow.moves_a * flow.decay * clouds.a,
        flow.moves_b * (pull.b - flow.decay * clouds.b),
        pull.theta - flow.decay * clouds.theta,
    )


def solve_mixture(setting: LabelledOnePass, clock: np.ndarray, plan: Plan) -> MixturePath:
    """The flow through the asked times of the schedule's clock."""
    inputs, rule = setting.inputs, setting.algorithm
    inputs.check(plan.d)
    asked = PARTICLES if plan.particles is None else plan.particles
    if asked < FEWEST:
        raise InputError(f"MeanField.particles must be at least {FEWEST} for mixtures; got {asked}. Use 200.")
    pairs, closed, images = _layout(setting, plan)
    road, noisy = "closed" if closed else "samples", float(rule.temperature) > 0
    flow, test = _make_flow(setting, plan, inputs.widths() if closed else None, images)
    start = draw_clouds(setting, plan.d, pairs, images, plan.seed)
    if noisy:
        key = root(plan.seed, Stream.POOL)
        clouds, status, end, steps = _noisy(flow, start, clock, plan.step, key)
        pace = {"step": plan.step}
    else:
        rtol, atol = TOLERANCES[road] if plan.rtol is None else (plan.rtol, 1e-2 * plan.rtol)
        run = integrate(drift, start, clock, flow, rtol=rtol, atol=atol, bound=BOUND, solver="explicit")
        clouds, status, end, steps, pace = run.values, run.status, run.end_time, run.steps, {"rtol": rtol}
    noise = float(setting.channel.variance)
    risk = _risks(test, clouds) + noise / 2
    attrs = {
        "gradients": road,
        "samples": None if closed else plan.samples,
        "particles": 4 * pairs,
        "risk_from": "two halves of the particles, " + ("closed form" if closed else inputs.test_words(plan.samples)),
        "steps": steps,
        **pace,
    }
    return MixturePath(clouds, risk, status, end, attrs)


def _make_flow(
    setting: LabelledOnePass, plan: Plan, widths: Widths | None, images: int
) -> tuple[_Flow, ClosedField | SampleField]:
    """What drives the clouds, and what their risk is measured on: closed forms where widths are given."""
    rule = setting.algorithm
    if widths is not None:
        first = second = test = closed_field(setting, widths, plan.d, mirrored=images == 1)
    else:
        keys = jax.random.split(root(plan.seed, Stream.KICKS), 3)
        first, second, test = (sample_field(setting, plan.d, plan.samples, key) for key in keys)
    trained = setting.trained and float(rule.second_layer_rate) > 0
    numbers = (
        float(rule.second_layer_rate) if trained else 0.0,
        float(trained),
        float(setting.biased),
        float(rule.weight_decay),
        float(rule.temperature),
    )
    fields = jax.tree.map(lambda *x: np.stack(x), first, second)
    return _Flow(fields, *map(as_array, numbers)), test


@along_rows
@filter_jit
def _risks(field: ClosedField | SampleField, path: Units) -> jax.Array:
    return jax.lax.map(lambda clouds: _risk(field, clouds), path)


@filter_jit
def _kicked_steps(flow: _Flow, clouds: Units, step: Any, first: Any, count: Any, key) -> Units:
    """Euler and Maruyama's steps first, ..., first + count - 1."""
    size = jnp.sqrt(2 * flow.temperature * step)
    moves = Units(flow.moves_a, flow.moves_b, jnp.ones(()))

    def one(k, x):
        keys = Units(*jax.random.split(jax.random.fold_in(key, k), 3))
        return jax.tree.map(
            lambda x, dx, key, on: x + step * dx + on * size * normal(key, x.shape),
            x,
            drift(x, flow),
            keys,
            moves,
        )

    return jax.lax.fori_loop(first, first + count, one, clouds)


def _noisy(flow: _Flow, start: Units, clock: np.ndarray, step: float, key: jax.Array):
    """Whole steps of at most the given length between the asked times; NaN after a cloud has run away."""
    path, state, now, done, status, pace = [], start, 0.0, 0, "ok", Pace(1)
    for target in turns(clock.tolist()):
        count = int(np.ceil((target - now) / step - 1e-9))
        if count and status == "ok":
            length, first = np.asarray((target - now) / count), done
            while first < done + count:
                upto = min(done + count, pace.upto(first))
                state = _kicked_steps(flow, state, length, np.asarray(first), np.asarray(upto - first), key)
                jax.block_until_ready(state)
                first = upto
                tick((first - done) / count)
            if not all(bool(jnp.all(jnp.abs(x) < BOUND)) for x in state):
                status, state = "diverged", jax.tree.map(lambda x: x * jnp.nan, state)
        if status == "ok":
            now, done = float(target), done + count
        path.append(jax.tree.map(np.asarray, state))
    return jax.tree.map(lambda *x: np.stack(x), *path), status, now, done


def _layout(setting: LabelledOnePass, plan: Plan) -> tuple[int, bool, int]:
    """Pairs of units in a cloud, whether gradients are closed, and images of a unit that are followed."""
    asked = PARTICLES if plan.particles is None else plan.particles
    closed = plan.gradients == "closed" or (
        plan.gradients == "auto" and has_closed_form(setting) and asked <= MOST_CLOSED
    )
    noisy = float(setting.algorithm.temperature) > 0
    return -(-asked // 4), closed, 1 if closed and not noisy else 2  # noise parts a unit from its image


def mixture_memory(setting: LabelledOnePass, times: int, plan: Plan) -> Memory:
    """What `solve_mixture` holds: two clouds along the path, and pairs of units or samples."""
    pairs, closed, images = _layout(setting, plan)
    units = images * pairs
    road = 40 * units**2 * 8 if closed else 2 * plan.samples * (3 * plan.d + 2 * units)
    return Memory(
        8 * (2 * units * plan.d * (3 * times + 20) + road), "Use fewer particles, samples or times, or a smaller d."
    )


def mixture_variables(setting: LabelledOnePass, path: MixturePath) -> tuple[dict[str, Any], dict[str, Any]]:
    """Variables and coordinates of a result: of images that move alike one is reported."""
    a, b, theta = (x.reshape(len(x), -1, *x.shape[4:]) for x in path.clouds)
    square, coords = np.square(theta), {}
    at = ("time", "particle")
    variables: dict[str, Any] = {"risk": (("time",), path.risk), "status": ((), path.status)}
    k = setting.inputs.blocks(theta.shape[2])
    if k is not None:
        parts = np.stack([square[..., :k].sum(axis=2), square[..., k:].sum(axis=2)], axis=2)
        variables["r"] = ((*at, "block"), np.sqrt(parts))
        variables["alignment"] = (("time",), np.mean(parts[..., 0] / np.maximum(parts.sum(axis=2), 1e-300), axis=1))
        coords["block"] = ["informative", "other"]
    else:
        variables["r"] = (at, np.sqrt(square.sum(axis=2)))
    variables["weight"] = (("particle",), np.full(a.shape[1], 1 / a.shape[1]))
    if setting.trained or np.ptp(a[0]) > 0:
        variables["a"] = (at, a)
    if setting.biased:
        variables["b"] = (at, b)
    return variables, coords
