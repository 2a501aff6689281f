"""The search for the signed permutations that keep a function on the hypercube, given its Fourier coefficients."""

import numpy as np

from limitlab.numerics.cube import members
from limitlab.numerics.sets import absorb, basis, null_space, popcount, solve_parities

__all__ = ["Search", "Signed"]

EQUAL, ROUNDING = 1e-12, 1e-14  # of a coefficient, of the largest: smaller differences are rounding

Signed = tuple[int, ...]  # entry i - 1 is +-j: the i-th variable becomes +- the j-th


class Search:
    """The state of one search. Variables are renumbered so that sets are complete as early as possible."""

    def __init__(self, P: int, masks: np.ndarray, values: np.ndarray, budget: int):
        self.P, self.budget = P, float(budget)
        self.variable = _arrival(masks, P)
        renumbered = np.zeros_like(masks)
        for k, v in enumerate(self.variable):
            renumbered |= (masks >> v & 1) << k
        sort = np.argsort(renumbered)
        masks, values = renumbered[sort], values[sort]
        self.kind = np.zeros(2**P, np.int32)  # equal modulus, equal number; 0 where there is no term
        self.kind[masks] = _classes(np.abs(values))
        self.negative = np.zeros(2**P, bool)
        self.negative[masks] = values < 0
        self.inside = _inside(self.kind, P)
        self.colour = _colours(self.kind[masks], masks, P)
        places, parts = basis(masks)
        self.rows = [int(masks[i]) for i in places]
        edges = np.searchsorted(masks, 2 ** np.arange(P + 1))
        self.levels = []
        for k in range(P):  # the sets whose last variable is k
            here = slice(edges[k], edges[k + 1])
            bits = (masks[here, None] >> np.arange(k + 1) & 1).astype(np.float32)  # exact: images are below 2^20
            new = [(j, int(i) - int(edges[k])) for j, i in enumerate(places) if edges[k] <= i < edges[k + 1]]
            self.levels.append((masks[here], bits, parts[here], new))

    def run(self) -> tuple[list[Signed], int]:
        """Generators, and the number of symmetries."""
        P = self.P
        found = [self.signed(list(range(P)), flips) for flips in null_space(self.rows, P)]
        order = 2 ** len(found)
        permutations: list[list[int]] = []
        for k in reversed(range(P)):  # those that fix the first k variables
            deeper = list(permutations)
            orbit, hopeless = {k}, set()
            for j in range(k + 1, P):
                if j in orbit or j in hopeless or self.colour[j] != self.colour[k]:
                    continue
                images = [*range(k), j]
                signs = self.fits(k, images, 0)
                answer = None if signs is None else self.extend(images, signs)
                if answer is None:
                    hopeless |= _orbit(j, deeper)
                else:
                    permutations.append(answer[0])
                    found.append(self.signed(answer[0], answer[1]))
                    orbit = _orbit(k, permutations)
            order *= len(orbit)
        return found, order

    def extend(self, images: list[int], signs: int) -> tuple[list[int], int] | None:
        """The first symmetry that begins with these images: all images, and the set of flipped variables."""
        k = len(images)
        if k == self.P:
            right = [signs >> j & 1 for j in range(len(self.rows))]
            return images, solve_parities(self.rows, right)
        for j in (k, *range(self.P)):
            if j in images or self.colour[j] != self.colour[k]:
                continue
            if self.budget <= 0:
                return None
            longer = [*images, j]
            more = self.fits(k, longer, signs)
            answer = None if more is None else self.extend(longer, more)
            if answer is not None:
                return answer
        return None

    def fits(self, k: int, images: list[int], signs: int) -> int | None:
        """The signs of the basis sets so far if the sets that end with k keep their coefficients, else None."""
        masks, bits, parts, new = self.levels[k]
        self.budget -= 1 + len(masks) / 2000
        if self.inside[(1 << k + 1) - 1] != self.inside[sum(1 << j for j in images)]:
            return None
        with np.errstate(invalid="ignore"):  # a flag that other threads leave behind; the numbers are exact
            image = (bits @ (2.0 ** np.array(images)).astype(np.float32)).astype(np.int64)
        if np.any(self.kind[image] != self.kind[masks]):
            return None
        flipped = self.negative[image] ^ self.negative[masks]
        for j, place in new:
            signs |= int(flipped[place]) << j
        return signs if np.all((popcount(parts & signs) & 1) == flipped) else None

    def signed(self, images: list[int], flips: int) -> Signed:
        out = [0] * self.P
        for k, j in enumerate(images):
            out[self.variable[k]] = (int(self.variable[j]) + 1) * (-1 if flips >> k & 1 else 1)
        return tuple(out)


def _arrival(masks: np.ndarray, P: int) -> list[int]:
    """The variables in the order in which absorption meets them."""
    taken = absorb(masks)
    out: list[int] = []
    for place in taken.order[taken.new > 0]:
        out += [v for v in members(int(masks[place])) if v not in out]
    return out + [v for v in range(P) if v not in out]


def _classes(sizes: np.ndarray) -> np.ndarray:
    """Numbers from 1 on, the same for sizes that differ by rounding only."""
    if len(sizes) == 0:
        return np.zeros(0, np.int32)
    sort = np.argsort(sizes)
    steps = np.diff(sizes[sort], prepend=-np.inf) > EQUAL * sizes[sort] + ROUNDING * sizes.max()
    out = np.empty(len(sizes), np.int32)
    out[sort] = np.cumsum(steps)
    return out


def _mix(x: np.ndarray) -> np.ndarray:
    """Scatter integers over 64 bits. A collision only makes the search longer."""
    x = (np.asarray(x).astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    return x ^ (x >> np.uint64(32))


def _inside(kind: np.ndarray, P: int) -> np.ndarray:
    """A fingerprint of the terms within each set of variables; symmetries keep it."""
    out = np.where(kind > 0, _mix(kind), np.uint64(0))
    for i in range(P):
        pairs = out.reshape(-1, 2, 2**i)
        pairs[:, 1] += pairs[:, 0]
    return out


def _colours(kinds: np.ndarray, masks: np.ndarray, P: int) -> np.ndarray:
    """A number for each variable, refined until it settles: symmetries map colours to themselves."""
    colour = np.zeros(P, np.uint64)
    member = [(masks >> i & 1).astype(bool) for i in range(P)]
    for _ in range(P):
        shared = _mix(kinds)
        for i in range(P):
            shared[member[i]] += _mix(colour[i : i + 1])[0]
        shared = _mix(shared)
        finer = np.array([shared[member[i]].sum(dtype=np.uint64) for i in range(P)], np.uint64)
        finer = _mix(finer) + colour
        if len(np.unique(finer)) == len(np.unique(colour)):
            break
        colour = finer
    return colour


def _orbit(start: int, permutations: list[list[int]]) -> set[int]:
    orbit, new = {start}, [start]
    while new:
        here = new.pop()
        for images in permutations:
            if images[here] not in orbit:
                orbit.add(images[here])
                new.append(images[here])
    return orbit
