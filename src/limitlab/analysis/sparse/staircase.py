r"""What makes a target on the hypercube easy to learn: the merged-staircase property, the leap, the symmetry floor.

.. math::
    h = \sum_S \hat h(S) \chi_S, \qquad
    \mathrm{leap} = \min_{\text{orders}} \max_j |S_j \setminus (S_1 \cup \dots \cup S_{j-1})|, \qquad
    \text{merged staircase} \iff \mathrm{leap} \le 1 .

In the dimension-free limit all weights on the relevant variables start at u = 0. A variable begins to move only
through a term in which all other variables move already, and the symmetries of h tie or stop variables for good.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, overload

import numpy as np

from limitlab.analysis.sparse.hermite_leap import HermiteLeap, hermite_leap, sample_order
from limitlab.analysis.sparse.words import summary
from limitlab.errors import InputError
from limitlab.numerics.cube import cube_points
from limitlab.numerics.sets import absorb
from limitlab.problems.asked import Asked
from limitlab.problems.inputs import AbstractInputs, Gaussian, Hypercube
from limitlab.problems.problem import Problem
from limitlab.problems.sparse.symmetry import SymmetryGroup, symmetry_group
from limitlab.problems.sparse.target import SparseTarget, term_name
from limitlab.results.schema import dataset
from limitlab.text import Record
from limitlab.verbs import verb

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["Staircase", "leap_of_sets", "staircase"]

ROUNDING = 1e-22  # of E h^2: a smaller floor is zero


@dataclass(frozen=True)
class Staircase(Record):
    r"""How hard a target is for one-pass SGD, and why.

    Attributes
    ----------
    merged_staircase
        True if the terms can be ordered so that each brings at most one new variable.
    leap
        The least, over orders, of the most variables that one term brings; 0 for a constant.
    order, new_variables
        Such an order of all terms but the constant, and how many variables each brings. It takes the cheapest term
        first, so that the terms before the first jump are all that single steps can reach.
    stuck
        Terms that single steps never reach; empty for a merged staircase.
    fourier
        The coefficients by name, the constant ("1") included.
    floor
        :math:`\frac12 E\,\mathrm{Var}(h \mid \mathrm{Proj}\, z)`, half because risk is half the squared error. The
        risk (noise left out) of the dimension-free limit is at or above it at all times, for any activation and any
        rates. Proj projects on the weights u that can ever occur: fixed by all symmetries, and zero for the variables
        that single steps never reach. Zero does not mean that the target is learned.
    symmetry_floor
        The part of it that symmetry alone explains, with Proj on Fix = {u : gu = u}.
    symmetries
        The signed permutations that leave h as it is (`SymmetryGroup`).
    degenerate
        True for a merged staircase whose symmetries tie variables: theorems for generic coefficients do not apply.
    sgd_samples, linear_samples
        Orders of the sample size for SGD on a two-layer network (proved for generic merged staircases, conjectured
        beyond), and of what every linear method needs at least.
    """

    target: SparseTarget
    merged_staircase: bool
    leap: int
    order: list[str]
    new_variables: list[int]
    stuck: list[str]
    fourier: dict[str, float] = field(repr=False)
    floor: float
    symmetry_floor: float
    symmetries: SymmetryGroup
    degenerate: bool
    sgd_samples: str
    linear_samples: str

    @property
    def summary(self) -> str:
        """The answer in a few sentences."""
        return summary(self)

    def __str__(self) -> str:
        return self.summary

    def dataset(self) -> "xr.Dataset":
        """``fourier`` over the terms in the proving order, ``new_variables`` beside it, the rest as attributes."""
        names = [name for name in self.fourier if name == "1"] + self.order
        new = [0] * (len(names) - len(self.order)) + self.new_variables
        out = dataset(
            Problem(inputs=Hypercube(), teacher=self.target),
            {"fourier": ("term", [self.fourier[name] for name in names])},
            {"term": names, "new_variables": ("term", np.array(new, int))},
            method="staircase",
            attrs={
                "merged_staircase": self.merged_staircase,
                "leap": self.leap,
                "floor": self.floor,
                "symmetry_floor": self.symmetry_floor,
                "symmetries": self.symmetries.order,
                "symmetries_complete": self.symmetries.complete,
                "degenerate": self.degenerate,
                "sgd_samples": self.sgd_samples,
                "linear_samples": self.linear_samples,
                "summary": self.summary,
            },
        )
        out["fourier"].attrs["long_name"] = "Fourier coefficient of the target on a monomial"
        return out


def leap_of_sets(masks: np.ndarray) -> tuple[int, np.ndarray]:
    """The leap of a family of sets given as integers, and an order (places in the family) that proves it. Exact."""
    taken = absorb(masks)
    return int(taken.new.max(initial=0)), taken.order


@overload
def staircase(target: "SparseTarget | str | Mapping", inputs: Hypercube | None = None) -> Staircase: ...
@overload
def staircase(target: Mapping, inputs: Gaussian) -> HermiteLeap: ...
@verb
def staircase(
    target: "SparseTarget | str | Mapping", inputs: AbstractInputs | None = None
) -> "Staircase | HermiteLeap":
    """Is a sparse target a merged staircase; if not, how far must one leap?

    Parameters
    ----------
    target
        A `SparseTarget`, its text, or a table {set: coefficient} as for `SparseTarget.from_fourier`.
    inputs
        ``Hypercube()``, the default. With ``Gaussian()`` the target must be a table of Hermite coefficients, and the
        answer is that of `hermite_leap`.

    Examples
    --------
    >>> import limitlab as ll
    >>> ll.staircase("z1 + z1*z2 + z3*z4").leap
    2
    """
    if inputs is not None and inputs.normal:
        if isinstance(target, Mapping):
            return hermite_leap(target)
        raise InputError(
            f"staircase with Gaussian inputs needs Hermite coefficients; got {target!r}, where z^2 = 1 was used. "
            "Give a table of multi-indices such as {(2, 0): 1.0, (1, 1): 0.5}."
        )
    if not (inputs is None or inputs.signs):
        raise InputError(f"staircase.inputs must be Hypercube() or Gaussian(); got {inputs!r}.")
    if isinstance(target, str):
        target = SparseTarget(target)
    elif isinstance(target, Mapping):
        target = SparseTarget.from_fourier(target)
    asked = Asked("staircase", InputError)
    needed = 'a SparseTarget or a text such as "z1 + z1*z2"'
    return _staircase(asked.part(target, SparseTarget, needed, "Give one of them.", repr(target)))


def _staircase(target: SparseTarget) -> Staircase:
    terms = target.terms
    masks = np.array([mask for mask in terms if mask], np.int64)
    taken = absorb(masks)
    leap = int(taken.new.max(initial=0))
    names = {mask: term_name(mask, target.variables) for mask in terms}
    ordered = masks[taken.order]
    jump = int(np.argmax(taken.new > 1)) if leap > 1 else len(ordered)
    reached = np.bitwise_or.reduce(ordered[:jump], initial=0)
    group = symmetry_group(target)
    values = target.values
    symmetry_floor = _floor(values, group, 2**target.latent - 1)
    floor = symmetry_floor if leap <= 1 else _floor(values, group, int(reached))
    merged = leap <= 1
    degenerate = merged and (bool(group.frozen) or any(len(orbit) > 1 for orbit in group.orbits))
    return Staircase(
        target=target,
        merged_staircase=merged,
        leap=leap,
        order=[names[mask] for mask in ordered.tolist()],
        new_variables=taken.new.tolist(),
        stuck=[names[mask] for mask in ordered[(ordered & ~reached) != 0].tolist()],
        fourier={names[mask]: value for mask, value in terms.items()},
        floor=floor,
        symmetry_floor=symmetry_floor,
        symmetries=group,
        degenerate=degenerate,
        sgd_samples=("more than O(d)" if floor > 0 else "O(d) if generic") if degenerate else sample_order(leap),
        linear_samples={0: "1", 1: "d"}.get(target.degree, f"d^{target.degree}"),
    )


def _floor(values: np.ndarray, group: SymmetryGroup, reached: int) -> float:
    """Half the mean variance of h among points with the same projection on the possible weights."""
    everything = 2**group.P - 1
    if reached == everything and not group.frozen and len(group.orbits) == group.P:
        return 0.0
    points = cube_points(group.P)
    key = np.zeros(len(values), np.int64)
    for orbit in group.orbits:
        place = np.abs(orbit) - 1
        if all(reached >> int(i) & 1 for i in place):
            sums = (points[:, place] @ np.sign(orbit) + len(orbit)).astype(np.int64) // 2  # 0 to len(orbit)
            key = key * (len(orbit) + 1) + sums
    _, group_of, size = np.unique(key, return_inverse=True, return_counts=True)
    means = np.bincount(group_of, values) / size
    floor = float(np.mean((values - means[group_of]) ** 2)) / 2
    return floor if floor > ROUNDING * float(np.mean(values**2)) else 0.0
