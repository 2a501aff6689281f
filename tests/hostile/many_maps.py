"""A loop over dimensions outside of a sweep, in a process that may have few memory maps; prints what became of them.

How (`minded`, `left alone`, or both in turn, a comma between them), how many rounds of each, how much room.
"""

import json
import sys

import limitlab as ll
from cases import committee
from limitlab.numerics import machine

hows, loops, ROOM = sys.argv[1].split(","), int(sys.argv[2]), int(sys.argv[3])
problem = committee(start=ll.RandomStart())
ll.simulate(problem, 10, [0.0, 0.01])
before = machine.count_maps()
seen = {}
for n, how in enumerate(hows):
    if how == "minded":
        machine.MAPS, machine.LOOK = 1.0, 0.0
        machine.maps_allowed = lambda: before + ROOM
    counts = []
    for d in range(11 + n * loops, 11 + (n + 1) * loops):
        ll.simulate(problem, d, [0.0, 0.01])
        counts.append(machine.count_maps())
    seen[how] = {"before": before, "room": ROOM, "counts": counts}
print(json.dumps(seen))
