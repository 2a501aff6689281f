r"""Symmetries of a target on the hypercube: signed permutations g of its variables with :math:`h(gz) = h(z)`.

.. math::
    (gz)_i = \epsilon_i z_{\pi(i)}, \qquad
    h \circ g = h \iff \hat h(\pi S) = \hat h(S) \prod_{i \in S} \epsilon_i \text{ for every set } S .

Learning that starts at u = 0 keeps :math:`g u = u` for all of them, so it sees z only through its projection on
Fix = {u : gu = u}. Permutations are found by backtracking along a stabiliser chain (so that a group of 16! elements
costs a few hundred steps), their signs by linear algebra over GF(2).
"""

import functools
from dataclasses import dataclass

import numpy as np

from limitlab.problems.sparse.search import Search, Signed
from limitlab.problems.sparse.target import SparseTarget
from limitlab.text import Record

__all__ = ["SymmetryGroup", "fixed_projection", "symmetry_group"]

BUDGET = 20_000  # steps of the search, about a second


@dataclass(frozen=True)
class SymmetryGroup(Record):
    """The symmetries of a target of P variables, numbered 1 to P in the order of ``target.variables``.

    Attributes
    ----------
    order
        Number of symmetries (the identity included).
    generators
        Signed permutations that generate them all; entry i - 1 is +-j where the i-th variable becomes +- the j-th.
    orbits
        Variables tied together, with signs: (1, 2, -3) means u1 = u2 = -u3. A free variable is alone.
    frozen
        Variables whose u must be 0.
    complete
        False if the search was cut. What was found is true; Fix may be smaller than ``projection`` says.
    """

    P: int
    order: int
    generators: tuple[Signed, ...]
    orbits: tuple[tuple[int, ...], ...]
    frozen: tuple[int, ...]
    complete: bool

    @property
    def projection(self) -> np.ndarray:
        """The orthogonal projector on Fix, the mean of all g (P, P)."""
        out = np.zeros((self.P, self.P))
        for orbit in self.orbits:
            place, sign = np.abs(orbit) - 1, np.sign(orbit)
            out[np.ix_(place, place)] = np.outer(sign, sign) / len(orbit)
        return out


def fixed_projection(target: SparseTarget) -> np.ndarray:
    """The orthogonal projector on Fix = {u : gu = u for every symmetry g of the target} (P, P).

    If the search for symmetries was cut, it projects on a larger space that contains Fix.
    """
    return symmetry_group(target).projection


def symmetry_group(target: SparseTarget, budget: int = BUDGET) -> SymmetryGroup:
    """All signed permutations of the variables that leave a target as it is.

    Parameters
    ----------
    budget
        Steps after which the search gives up and returns what it has, with ``complete=False``.
    """
    return _group(target.text, budget)


@functools.lru_cache(maxsize=64)
def _group(text: str, budget: int) -> SymmetryGroup:
    target = SparseTarget(text)
    P, terms = target.latent, target.terms
    masks = np.array([mask for mask in terms if mask], np.int64)
    values = np.array([value for mask, value in terms.items() if mask])
    search = Search(P, masks, values, budget)
    found, order = search.run()
    orbits, frozen = _orbits(P, found)
    return SymmetryGroup(P, order, tuple(found), orbits, frozen, search.budget > 0)


def _orbits(P: int, generators: list[Signed]) -> tuple[tuple[tuple[int, ...], ...], tuple[int, ...]]:
    """Variables tied by gu = u, with signs relative to the first; and those for which only u = 0 is left."""
    sign: dict[int, int] = {}
    orbits, frozen = [], []
    for start in range(P):
        if start in sign:
            continue
        sign[start], orbit, new, possible = 1, [start], [start], True
        while new:
            here = new.pop()
            for g in generators:  # u_here = epsilon u_there
                there, relative = abs(g[here]) - 1, (1 if g[here] > 0 else -1) * sign[here]
                if there not in sign:
                    sign[there] = relative
                    orbit.append(there)
                    new.append(there)
                possible = possible and sign[there] == relative
        signed = tuple((i + 1) * sign[i] for i in sorted(orbit))
        if possible:
            orbits.append(signed)
        else:
            frozen += [abs(i) for i in signed]
    return tuple(orbits), tuple(sorted(frozen))
