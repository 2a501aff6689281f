"""A loop over dimensions outside of a sweep, in a process that may have few memory maps; prints what became of them."""

import json
import sys

import limitlab as ll
from cases import committee
from limitlab.numerics import machine

ROOM, LOOPS = 600, 5
problem = committee(start=ll.RandomStart())
ll.simulate(problem, 10, [0.0, 0.01])
before = machine.count_maps()
if sys.argv[1] == "minded":
    machine.MAPS, machine.LOOK = 1.0, 0.0
    machine.maps_allowed = lambda: before + ROOM
counts = []
for d in range(11, 11 + LOOPS):
    ll.simulate(problem, d, [0.0, 0.01])
    counts.append(machine.count_maps())
print(json.dumps({"before": before, "room": ROOM, "counts": counts}))
