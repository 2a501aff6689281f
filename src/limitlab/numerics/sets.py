r"""Families of sets, each an integer whose bits are its members: sizes, absorption orders, bases over GF(2)."""

from typing import NamedTuple

import numpy as np

__all__ = ["Absorption", "absorb", "basis", "null_space", "popcount", "solve_parities"]

_COUNTS = np.zeros(1, np.uint8)
for _ in range(16):
    _COUNTS = np.concatenate([_COUNTS, _COUNTS + 1])


def popcount(masks: np.ndarray) -> np.ndarray:
    """The number of members of each set, below 2^32 (NumPy has its own only from version 2 on)."""
    masks = np.asarray(masks, np.int64)
    return _COUNTS[masks & 0xFFFF] + _COUNTS[masks >> 16 & 0xFFFF]


class Absorption(NamedTuple):
    """An order of the sets (as places in the family), and how many new members each brings."""

    order: np.ndarray
    new: np.ndarray


def absorb(masks: np.ndarray) -> Absorption:
    r"""An order that minimises :math:`\max_j |S_j \setminus (S_1 \cup \dots \cup S_{j-1})|`.

    Always taking the set with the fewest new members is exact: the first set of a best order that is not yet taken has
    all its predecessors inside what is taken, so it costs at most the best maximum. Ties go to the smaller set, then to
    the smaller integer. O(P n).
    """
    masks = np.asarray(masks, np.int64)
    left = np.lexsort((masks, popcount(masks)))
    covered, order, new = np.int64(0), [], []
    while len(left):
        cost = popcount(masks[left] & ~covered)
        inside = cost == 0
        order.append(left[inside])
        new.append(np.zeros(len(order[-1]), int))
        left, cost = left[~inside], cost[~inside]
        if len(left):
            cheapest = int(np.argmin(cost))
            order.append(left[[cheapest]])
            new.append(np.array([cost[cheapest]], int))
            covered = covered | masks[left[cheapest]]
            left = np.delete(left, cheapest)
    if not order:
        return Absorption(np.zeros(0, int), np.zeros(0, int))
    return Absorption(np.concatenate(order), np.concatenate(new))


def basis(masks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Places of the first sets that span all the others over GF(2), and for every set the bits of the basis it sums.

    A set is the sum of basis sets that stand before it (or is one of them).
    """
    rest = np.array(masks, np.int64)
    parts, places = np.zeros_like(rest), []
    while np.any(rest):
        first = int(np.argmax(rest != 0))
        row, part = rest[first], parts[first] ^ (1 << len(places))
        hit = (rest & (row & -row)) != 0
        rest[hit] ^= row
        parts[hit] ^= part
        parts[first] = 1 << len(places)
        places.append(first)
    return np.array(places, int), parts


def solve_parities(rows: list[int], right: list[int]) -> int:
    """A set e with |row & e| of the given parity for every one of some independent rows."""
    reduced: list[tuple[int, int, int]] = []  # row, its right side, its pivot
    for row, value in zip(rows, right, strict=True):
        for other, bit, pivot in reduced:
            if row & pivot:
                row, value = row ^ other, value ^ bit
        reduced.append((row, value, row & -row))
    found = 0
    for row, value, pivot in reversed(reduced):
        if ((row & ~pivot & found).bit_count() + value) & 1:
            found |= pivot
    return found


def null_space(rows: list[int], size: int) -> list[int]:
    """A basis of the sets e within the first ``size`` elements with |row & e| even for all (independent) rows."""
    reduced: list[int] = []
    for row in rows:
        for other in reduced:
            row = row ^ other if row & (other & -other) else row
        reduced = [other ^ row if other & (row & -row) else other for other in reduced] + [row]
    pivots = {row & -row: row for row in reduced}
    free = [1 << i for i in range(size) if 1 << i not in pivots]
    return [bit | sum(pivot for pivot, row in pivots.items() if row & bit) for bit in free]
