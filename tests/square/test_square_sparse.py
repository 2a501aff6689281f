"""The square for sparse targets: SGD at d = p = 100 against the dimension-free flow with the noise of its steps."""

import numpy as np
import pytest

import limitlab as ll
from limitlab.problems.problem import replaced

TIMES = np.linspace(0, 12, 13)
CASES = {
    "staircase of four": ("z1 + z1*z2 + z1*z2*z3 + z1*z2*z3*z4", "shifted(tanh, 0.5)", 0.0, 1),
    "unequal terms": ("0.8*z1 - z2 + 0.6*z1*z2*z3", "shifted(tanh, 1.0)", 0.0, 1),
    "noise and batches": ("z1 + z1*z2", "shifted(erf, 0.6)", 0.5, 4),
    "relu": ("z1 + 0.7*z1*z2", "shifted(relu, 0.5)", 0.0, 2),
}


def _problem(text, activation, variance, batch):
    problem = ll.library.merged_staircase(text, step_noise=0.05)
    return replaced(
        problem,
        {
            "student.activation": ll.activation(activation),
            "channel.variance": variance,
            "algorithm.batch_size": batch,
        },
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_sgd_follows_the_flow_with_noise(name):
    problem = _problem(*CASES[name])
    times = TIMES if "relu" not in CASES[name][1] else TIMES[:5]
    sim = ll.simulate(problem, 100, times, replicas=16, seed=5)
    flow = ll.predict(problem, ll.DimensionFree(corrected=True), times)
    gap = ll.compare(sim, flow, variables=("fourier", "latent_risk"))
    assert gap.agrees, str(gap)
    plain = ll.predict(problem, ll.DimensionFree(tolerance=1e-4), times)
    near = abs(sim.fourier.mean("replica") - plain.fourier).max()
    assert near < 0.08  # of order d eta = 0.05


@pytest.mark.slow
def test_a_wrong_clock_and_frozen_widths_are_seen():
    problem = _problem(*CASES["unequal terms"])
    sim = ll.simulate(problem, 100, TIMES, replicas=16, seed=5)
    flow = ll.predict(problem, ll.DimensionFree(corrected=True), TIMES)
    late = flow.assign_coords(time=flow.time * 2)
    assert not ll.compare(sim, late, variables="fourier").agrees
    # Without the equation for s: the same neurons with s held at its start.
    import jax.numpy as jnp

    from limitlab.macro.sparse import flow as sparse_flow
    from limitlab.macro.sparse import solve as sparse_solve
    from limitlab.macro.sparse.nodes import start_nodes
    from limitlab.numerics.cube import walsh

    def frozen(x, args):
        moved = sparse_flow.drift(x, args)
        return moved._replace(r=jnp.zeros_like(moved.r))

    setting = ll.DimensionFree().parsed(problem)
    nodes = start_nodes(setting, 4)
    made = sparse_flow.make_flow(setting, nodes.weights, even=True, widest=1.0)
    start = sparse_flow.Particles(*map(jnp.asarray, (nodes.a, nodes.u, np.log(nodes.s))))
    run = sparse_solve.integrate(frozen, start, TIMES, made, rtol=1e-8, solver="explicit")
    f = sparse_solve._outputs(made, *map(jnp.asarray, (run.values.a, run.values.u, np.exp(run.values.r))))
    wrong = flow.assign(fourier=(("time", "term"), walsh(np.asarray(f))))
    assert not ll.compare(sim, wrong, variables="fourier").agrees
