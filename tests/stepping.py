"""Single steps of one-pass rules on states that a test chooses."""

import equinox as eqx
import jax
import jax.numpy as jnp

from limitlab.algorithms.one_pass.base import stepper
from limitlab.algorithms.one_pass.setting import Sample
from limitlab.errors import InputError
from limitlab.numerics.trees import traced
from limitlab.problems.asked import Asked
from limitlab.problems.networks import Network
from limitlab.states.run import Learner, Run

__all__ = ["alive", "learner", "live", "move", "moved", "network", "one_steps"]


def live(problem):
    """(rule, setting) of a problem, as the loop has them."""
    rule = problem.algorithm
    return traced(rule), rule.setting(problem, Asked("a test", InputError)).live()


def alive(state):
    return Run.alone(state)


def learner(problem, net, teacher=()):
    return Learner(net, teacher, problem.algorithm.remember(net))


def moved(both, state, x, y, step=0, heat=None):
    """The state after one step of `live` on given samples."""
    rule, setting = both
    x = jnp.asarray(x)
    return rule.step(setting, x.shape[1], alive(state), Sample(x, jnp.asarray(y), heat), jnp.asarray(step)).state


_moved = eqx.filter_jit(moved)


def move(problem, state, x, y, step=0, heat=None):
    """The state after one step on given samples: one program for all numbers."""
    return _moved(live(problem), state, jnp.asarray(x), jnp.asarray(y), jnp.asarray(step), heat)


def one_steps(problem, state, d, keys, step=0, columns=None):
    """The states after one step from the same state, each with its own random numbers."""
    both, dim = live(problem), d if columns is None else jnp.asarray(float(d))
    steps, run, n = stepper(columns), alive(state), jnp.asarray(step)

    def go(key):
        drawn = jax.tree.map(lambda x: x[0], steps.draw(both, dim, run, key, 1))
        return steps.move(both, dim, run, drawn, n).state

    return jax.jit(jax.vmap(go))(keys)


def network(rows, a, b=None):
    return Network.of(jnp.asarray(rows), jnp.asarray(a), None if b is None else jnp.asarray(b))
