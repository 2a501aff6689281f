"""How points are put together: in compiled calls where they differ in numbers only, in tasks where they are many."""

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable

from limitlab.sweep.engine.work import Chunk
from limitlab.sweep.job import Task

__all__ = ["chunks_of", "widths_of"]

LANES = 64  # of a compiled call: wide enough to amortise it, narrow enough that a slow lane keeps few waiting
LARGEST = 64  # points of a task
SHARES = 32  # tasks per process at least, where there are enough points: the last ones end together


def widths_of(tasks: Iterable[Task]) -> dict[Hashable, int]:
    """The lanes of every family, from all its points in the grid, stored ones included.

    So a point is always computed in a call of the same width, and its last bits do not depend on what is left to do.
    """
    sizes = Counter(task.family for task in tasks if task.family is not None)
    return {own: min(LANES, 1 << (size - 1).bit_length()) for own, size in sizes.items() if size >= own.smallest}


def chunks_of(tasks: list[Task], widths: dict[Hashable, int], processes: int) -> list[Chunk]:
    """Chunks of the points that are to be computed; in several processes the costly ones come first."""
    families, single = defaultdict(list), []
    for task in tasks:
        # What has served its purpose, and may not travel, is left behind.
        plain = task if processes == 0 else dataclasses.replace(task, family=None, asked=None)
        (families[task.family] if task.family in widths else single).append(plain)
    chunks = []
    for family, members in families.items():
        width = widths[family]
        chunks += [Chunk(tuple(members[i : i + width]), width) for i in range(0, len(members), width)]
    if processes == 0:
        return chunks + [Chunk((task,)) for task in single]
    single.sort(key=lambda task: -task.cost)  # a stable sort: equal costs stay in the order of the grid
    bound = sum(task.cost for task in single) / (SHARES * processes)
    largest = max(1, min(LARGEST, len(single) // (SHARES * processes)))
    group: list[Task] = []
    for task in single:
        if group and (len(group) >= largest or sum(t.cost for t in group) + task.cost > bound):
            chunks.append(Chunk(tuple(group)))
            group = []
        group.append(task)
    if group:
        chunks.append(Chunk(tuple(group)))
    return sorted(chunks, key=lambda chunk: -chunk.cost)
