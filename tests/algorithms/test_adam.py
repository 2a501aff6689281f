"""Adam: equal to optax's on the same samples, step by step."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import limitlab as ll
from cases import committee
from limitlab.algorithms.loop import LONGEST
from limitlab.algorithms.one_pass.base import begin
from limitlab.numerics.keys import Stream, stream
from stepping import live

D, STEPS = 7, 30


@pytest.mark.more_of("3-True", "3-False", "1-False")
@pytest.mark.parametrize("trained", [False, True])
@pytest.mark.parametrize("batch", [1, 3])
def test_it_is_the_adam_of_optax_on_the_same_samples(trained, batch):
    rule = ll.Adam(0.05, beta1=0.8, beta2=0.95, epsilon=1e-6, batch_size=batch)
    problem = dataclasses.replace(committee(p=3, k=2, variance=0.2, trained=trained), algorithm=rule)
    times = 0.05 * np.array([0, 1, 10, STEPS])
    sim = ll.simulate(problem, D, times, seed=4)
    np.testing.assert_array_equal(sim.step, [0, 1, 10, STEPS])
    alive, setting = live(problem)
    state = jax.tree.map(lambda x: x[0], begin(setting, alive, D, 4, jnp.arange(1), "weights"))
    free = {"W": state.student.rows, "a": state.student.a}
    adam = optax.adam(0.05, b1=0.8, b2=0.95, eps=1e-6)
    memory = adam.init(free)

    def loss(free, x, y):
        return jnp.mean((y - jax.scipy.special.erf(x @ free["W"].T / np.sqrt(2)) @ free["a"] / 3) ** 2) / 2

    key = jax.random.fold_in(stream(4, Stream.STEPS, 0), 0)  # of the first block, which has all steps
    samples = setting.draw(state.teacher, key, LONGEST * batch, D)
    samples = [v.reshape(LONGEST, batch, *v.shape[1:]) for v in samples]

    @jax.jit
    def step(free, memory, n):
        x, y = (v[n] for v in samples)
        update, memory = adam.update(jax.grad(loss)(free, x, y), memory)
        moved = optax.apply_updates(free, update)
        return {"W": moved["W"], "a": moved["a"] if trained else free["a"]}, memory

    seen = []
    for n in range(STEPS + 1):
        if n in (0, 1, 10, STEPS):
            seen.append(jax.tree.map(np.asarray, free))
        free, memory = step(free, memory, n)
    for i, free in enumerate(seen):
        np.testing.assert_allclose(sim.Q[i, 0], free["W"] @ free["W"].T / D, rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(sim.a[i, 0], free["a"], rtol=1e-12)
    assert not np.allclose(sim.Q[-1, 0], sim.Q[0, 0], atol=1e-2)


def test_no_limit_is_claimed():
    problem = dataclasses.replace(committee(), algorithm=ll.Adam(0.01))
    assert not any(words == "applies" for words in ll.limits(problem).values())
    assert problem.algorithm.usual_limit(problem) is None


def test_bad_parameters_are_refused():
    with pytest.raises(ll.errors.InputError, match="beta2"):
        ll.Adam(0.1, beta2=1.0)
    with pytest.raises(ll.errors.InputError, match="epsilon"):
        ll.Adam(0.1, epsilon=0.0)
