"""SGD in a million dimensions on a laptop.

The overlaps of one-pass SGD on Gaussian inputs are a Markov chain of their own, so they can be simulated exactly
without ever drawing an input. Here a million steps are made at d = 10^6, in law exactly those of a network with four
million weights; drawing the inputs alone would take 10^12 Gaussians per replica. At this size a single run is
the limiting ODE to three digits, and the spread over replicas is that of the theory, O(d^-1/2).
"""

import numpy as np

import limitlab as ll

problem = ll.Problem(
    teacher=ll.Committee(width=2, activation="erf"),
    student=ll.Committee(width=2, activation="erf"),
    loss=ll.SquareLoss(),
    start=ll.InformedStart(overlap=0.2),
    algorithm=ll.OnlineSGD(learning_rate=2.0),
)
d, times = 10**6, np.linspace(0, 1, 11)

sim = ll.simulate(problem, d, times, replicas=8, seed=0, representation="overlaps")
pred = ll.predict(problem, ll.OverlapODE(), times)

print(f"d = {d:,}: {int(sim.samples[-1]):,} samples per replica")
print("spread of M_00 over replicas at t = 1:", float(sim.M[-1, :, 0, 0].std()))
print(ll.compare(sim, pred))
ll.plot(sim, pred).savefig("million_dimensions.png", dpi=150)
