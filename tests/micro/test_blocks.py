"""Random numbers drawn for blocks of steps: the same wherever a run is cut, and however replicas are grouped."""

import dataclasses
import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import limitlab as ll
from cases import committee
from limitlab.algorithms import loop
from limitlab.algorithms.one_pass.base import begin, stepper
from limitlab.numerics.keys import Stream, keys_of
from limitlab.states.run import Learner, Run
from stepping import live

D, REPLICAS, STEPS = 9, 3, 70


class Turning(ll.OnlineSGD):
    """The teacher moves too: labels cannot be known before a step."""

    def move(self, setting, d, state, gradient, sample, n):
        new = super().move(setting, d, state, gradient, sample, n)
        return Learner(new.student, jax.tree.map(lambda w: 0.99 * w, state.teacher))


class Choosy(ll.OnlineSGD):
    """Inputs depend on what was learned."""

    def sample(self, setting, d, state, key):
        drawn = super().sample(setting, d, state, key)
        return drawn._replace(x=drawn.x * jnp.sign(state.student.rows[0] @ drawn.x[0]))


def with_rule(rule):
    return dataclasses.replace(committee(p=2, k=1, variance=0.2), algorithm=rule)


CASES = {
    "noise": (committee(p=2, k=1, variance=0.2), None),
    "batches, heat": (committee(p=2, k=1, trained=True, batch_size=3, temperature=0.1), None),
    "overlaps": (committee(p=2, k=1, variance=0.2), 3),
    "a teacher that moves": (with_rule(Turning(0.5)), None),
    "inputs that follow the student": (with_rule(Choosy(0.5)), None),
}


def started(problem, columns):
    both, index = live(problem), jnp.arange(REPLICAS)
    start = begin(both[1], both[0], D, 0, index, "weights" if columns is None else "overlaps")
    return both, keys_of(0, Stream.STEPS, index), Run.of(start, REPLICAS)


def follow(problem, columns, cuts=(0, STEPS)):
    """The runs after all steps, and how they were planned; traced anew, whatever the sizes are now."""
    both, keys, run = started(problem, columns)
    dim, steps = D if columns is None else jnp.asarray(float(D)), stepper(columns)
    go = eqx.filter_jit(loop.advance.__wrapped__)
    for first, last in itertools.pairwise(cuts):
        run = go(steps, both, dim, keys, run, jnp.asarray(first), jnp.asarray(last))
    return run, loop._plan(steps, both, dim, keys, run)


def one_by_one(problem, columns, length):
    """The block of every step drawn anew just before it is made, from the state that it finds."""
    both, keys, run = started(problem, columns)
    dim, steps = D if columns is None else jnp.asarray(float(D)), stepper(columns)

    @jax.jit
    def step(run, n):
        def one(run, key):
            block = steps.draw(both, dim, run, jax.random.fold_in(key, n // length), length)
            drawn = jax.tree.map(lambda x: x[n % length], block)
            return steps.move(both, dim, run, drawn, n)

        return jax.vmap(one)(run, keys)

    for n in range(STEPS):
        run = step(run, jnp.asarray(n))
    return run


def same(one, two):
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(two), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-12)


@pytest.mark.more_of("inputs that follow the student", "noise", "batches, heat", "overlaps")
@pytest.mark.parametrize("name", CASES)
def test_a_run_is_the_same_however_it_is_cut(name):
    problem, columns = CASES[name]
    run, plan = follow(problem, columns, (0, 1, 30, STEPS))
    same(run, one_by_one(problem, columns, plan.length))
    assert (plan.length > 1) == ("that" not in name)
    before, after = (jax.tree.leaves(r.state)[0] for r in (started(problem, columns)[2], run))
    assert not np.allclose(before, after)


@pytest.mark.parametrize("together", [1, 2])
def test_groups_of_replicas_change_nothing(together, monkeypatch):
    """One by one, and in two groups of which the second is filled up."""
    problem, columns = CASES["noise"]
    monkeypatch.setattr(loop, "BLOCK", 4 * 8 * (D + 1))
    wanted, _ = follow(problem, columns)
    each = loop._bytes(started(problem, columns)[2]) // REPLICAS + 8 * (D + 1)
    monkeypatch.setattr(loop, "CROWD", 2)
    monkeypatch.setattr(loop, "SIDE_BY_SIDE", together * each)
    run, plan = follow(problem, columns)
    assert plan == (-(-REPLICAS // together), together, 4)
    same(run, wanted)


@pytest.mark.parametrize(("d", "batch"), [(10, 1), (1000, 1), (4000, 1), (1000, 50), (10**5, 1)])
def test_a_block_is_bounded_in_bytes(d, batch):
    """Whatever the problem: a block, or a single step if that alone is more."""
    problem = committee(p=2, k=1, batch_size=batch)
    both, index = live(problem), jnp.arange(1)
    run = jax.eval_shape(lambda: Run.of(begin.__wrapped__(both[1], both[0], d, 0, index, "weights"), 1))
    keys = jax.eval_shape(lambda: keys_of(0, Stream.STEPS, index))
    plan = loop._plan(stepper(None), both, d, keys, run)
    a_step = 8 * batch * (d + 1)
    assert plan.length == 1 or plan.length * a_step <= loop.BLOCK
    assert plan.length == loop.LONGEST or 2 * plan.length * a_step > loop.BLOCK


@pytest.mark.parametrize("representation", [pytest.param("weights", marks=pytest.mark.more), "overlaps"])
def test_results_do_not_depend_on_replica_count_or_saved_times(representation):
    problem = committee(p=2, k=2, variance=0.1)
    few = ll.simulate(problem, 50, [0.5], replicas=2, seed=4, representation=representation)
    many = ll.simulate(problem, 50, [0.1, 0.13, 0.3, 0.5], replicas=5, seed=4, representation=representation)
    np.testing.assert_allclose(few.Q.isel(time=-1), many.Q.isel(time=-1, replica=slice(2)), rtol=1e-12)
