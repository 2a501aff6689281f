r"""One step of SGD of a two-layer network on inputs that bring their labels.

.. math::
    f(x) = \frac1p \sum_i a_i\, \sigma(w_i \cdot x + b_i), \qquad \theta_i = (a_i, b_i, w_i/\sqrt d), \qquad
    \tau = \xi(t)\,\frac{\gamma}{p d}

Everything that is trained moves by :math:`-\tau \nabla_\theta \Psi` on average, decays by :math:`\lambda\tau\theta` and
is kicked by :math:`\sqrt{2 T \tau}\,g`. Weights are held as W (d, p), one column a unit.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from limitlab.algorithms.one_pass.schedules import AbstractSchedule
from limitlab.micro.steps import FIELD_BOUND, Run
from limitlab.problems.activations.base import Activation
from limitlab.problems.activations.kinks import unit_functions
from limitlab.problems.inputs import AbstractLabelledInputs

__all__ = ["MixtureRule", "Network", "mixture_step", "move"]

ERROR_BOUND = FIELD_BOUND  # a second layer that diverges shows in the error, not in the fields


class Network(eqx.Module):
    """A two-layer network at finite size: W (d, p), second layer a (p,), biases b (p,)."""

    W: jax.Array
    a: jax.Array
    b: jax.Array


class MixtureRule(eqx.Module):
    """What a step needs to know; plain zeros mean that nothing is drawn or decays."""

    inputs: AbstractLabelledInputs
    activation: Activation
    variance: Any
    learning_rate: Any
    second_layer_rate: Any
    weight_decay: Any
    temperature: Any
    schedule: AbstractSchedule | None
    batch_size: int = eqx.field(static=True)
    trains_a: bool = eqx.field(static=True)
    trains_b: bool = eqx.field(static=True)


def mixture_step(rule: MixtureRule, d: jax.Array, run: Run, keys: jax.Array, step: jax.Array) -> Run:
    r"""One step on a fresh batch, all gradients at the old parameters:

    .. math::
        w_i \mathrel{+}= \tau d\,\langle a_i \sigma'(\lambda_i)\, \mathcal E\, x\rangle, \quad
        b_i \mathrel{+}= \tau\,\langle a_i \sigma'(\lambda_i)\, \mathcal E\rangle, \quad
        a_i \mathrel{+}= \kappa\tau\,\langle \sigma(\lambda_i)\, \mathcal E\rangle, \qquad
        \lambda_i = w_i \cdot x + b_i, \quad \mathcal E = y - f

    and the decay and the noise of the module docstring. ``keys`` is a triple: inputs, label noise, added noise.
    """
    n = run.state.W.shape[0]
    x, y = rule.inputs.draw(jax.random.fold_in(keys[0], step), rule.batch_size, n)
    x = jax.lax.optimization_barrier(x)  # or the compiler draws it once for each of its uses
    if isinstance(rule.variance, jax.Array):
        y = y + jnp.sqrt(rule.variance) * jax.random.normal(jax.random.fold_in(keys[1], step), y.shape)
    return move(rule, d, run, x, y, jax.random.fold_in(keys[2], step), step)


def move(rule: MixtureRule, d: jax.Array, run: Run, x: jax.Array, y: jax.Array, key: jax.Array, step) -> Run:
    """The step of `mixture_step` on given samples."""
    net, p = run.state, run.state.a.shape[0]
    clock = rule.learning_rate / (p * d)
    tau = clock if rule.schedule is None else clock * rule.schedule.steps(step, clock)
    value_of, slope_of = unit_functions(rule.activation)
    lam = x @ net.W
    if rule.trains_b:
        lam = lam + net.b
    value = value_of(lam)
    error = y - value @ net.a / p
    C = (tau / len(x)) * net.a * slope_of(lam) * error[:, None]
    alive = run.alive & (jnp.max(jnp.abs(lam)) < FIELD_BOUND) & (jnp.max(jnp.abs(error)) < ERROR_BOUND)
    alive = alive & jnp.all(jnp.isfinite(C))
    tau, C, error = (jnp.where(alive, v, 0.0) for v in (tau, C, error))
    keep = 1 - rule.weight_decay * tau if isinstance(rule.weight_decay, jax.Array) else 1.0
    dC = d * C
    W = keep * net.W + (x.T * dC if len(x) == 1 else x.T @ dC)  # an outer product fuses with the sum
    a, b = net.a, net.b
    if rule.trains_b:
        b = keep * b + jnp.sum(C, axis=0)
    if rule.trains_a:
        a = keep * a + (rule.second_layer_rate * tau / len(x)) * (error @ jnp.where(alive, value, 0.0))
    if isinstance(rule.temperature, jax.Array):
        W, a, b = _kicked(rule, d, W, a, b, jnp.sqrt(2 * rule.temperature * tau), key)
    died = jnp.where(run.alive & ~alive, step, run.died)
    return Run(Network(W, a, b), alive, died)


def _kicked(rule: MixtureRule, d: jax.Array, W, a, b, size: jax.Array, key: jax.Array):
    """Noise of the given size on all of theta that is trained."""
    key_w, key_a, key_b = jax.random.split(key, 3)
    W = W + jnp.sqrt(d) * size * jax.random.normal(key_w, W.shape)
    if rule.trains_a:
        a = a + size * jax.random.normal(key_a, a.shape)
    if rule.trains_b:
        b = b + size * jax.random.normal(key_b, b.shape)
    return W, a, b
