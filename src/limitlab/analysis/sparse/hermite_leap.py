r"""The leap of a polynomial of Gaussian variables, from its Hermite coefficients.

.. math::
    h(z) = \sum_\alpha c_\alpha \prod_i He_{\alpha_i}(z_i), \qquad
    \mathrm{leap} = \min_{\text{orders}} \max_j \sum_{i \notin U_{j-1}} \alpha^{(j)}_i ,

U being the variables of the indices before. Gaussian inputs have no preferred axes, so what counts in the end is the
isotropic leap, the largest leap that a rotation of the variables can give.
"""

import math
import operator
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from limitlab.errors import InputError
from limitlab.text import Record
from limitlab.verbs import verb

__all__ = ["HermiteLeap", "hermite_leap", "sample_order"]

NEGLIGIBLE = 1e-14  # of the largest coefficient
RANK = 1e-9  # of the norm of the tensors: directions seen more weakly are not seen
MAX_ENTRIES = 2**20  # of one Hermite tensor
MAX_DEGREE = 100


@dataclass(frozen=True)
class HermiteLeap(Record):
    """The leap of a polynomial of Gaussian variables.

    Attributes
    ----------
    leap
        In the given axes; 0 for a constant.
    order, new_degrees
        An order of the terms that proves it, and the degree that each has in new variables.
    iso_bounds
        Two numbers between which the isotropic leap lies; equal whenever the degree is at most 2, or if it is 1.
        They rest on ranks of the Hermite tensors, decided to 1e-9.
    iso_leap
        The isotropic leap where the bounds agree, else None.
    sgd_samples
        Order of the sample size for SGD at this isotropic leap (or at its lower bound), a conjecture for leaps above 1.
    """

    leap: int
    order: list[str]
    new_degrees: list[int]
    iso_bounds: tuple[int, int]
    sgd_samples: str

    @property
    def iso_leap(self) -> int | None:
        return self.iso_bounds[0] if self.iso_bounds[0] == self.iso_bounds[1] else None

    @property
    def summary(self) -> str:
        low, high = self.iso_bounds
        iso = f"{low}" if low == high else f"between {low} and {high}"
        shown = ", ".join(self.order[:6] + ["..."] * (len(self.order) > 6))
        return (
            f"Leap {self.leap} in these axes (order: {shown or 'no terms'}); isotropic leap, the worst over rotations, "
            f"{iso}.\nSamples: SGD "
            f"{'' if low == high else 'at least '}{self.sgd_samples}."
        )

    def __str__(self) -> str:
        return self.summary


@verb
def hermite_leap(coefficients: Mapping) -> HermiteLeap:
    """The leap of a polynomial of Gaussian variables, and bounds of its isotropic leap.

    Parameters
    ----------
    coefficients
        {multi-index: coefficient}: ``{(2, 0): 1.0, (1, 1): 0.5}`` is He_2(z1) + 0.5 z1 z2, with He_2(z) = z^2 - 1.

    Notes
    -----
    The leap is exact: taking the cheapest index first is optimal, as for sets. The isotropic leap is 1 if and only if
    the directions that become visible one degree at a time span all that matters; otherwise it lies between the
    smallest and the largest degree of h in the directions that are left. For quadratic h these are both 2.

    Examples
    --------
    >>> import limitlab as ll
    >>> answer = ll.analysis.hermite_leap({(1, 0): 1.0, (0, 1): 1.0, (1, 1): 1.0})  # z1 + z2 + z1 z2
    >>> answer.leap, answer.iso_leap  # the latter after a rotation by 45 degrees
    (1, 2)
    """
    indices, values = _read(coefficients)
    keep = (np.abs(values) > NEGLIGIBLE * np.abs(values).max()) & (indices.sum(axis=1) > 0)
    indices, values = indices[keep], values[keep]
    left = list(np.lexsort((*-indices.T[::-1], indices.sum(axis=1))))
    seen, order, new = np.zeros(indices.shape[1], bool), [], []
    while left:
        costs = indices[left][:, ~seen].sum(axis=1)
        cheapest = int(np.argmin(costs))
        new.append(int(costs[cheapest]))
        order.append(left.pop(cheapest))
        seen |= indices[order[-1]] > 0
    leap = max(new, default=0)
    low, high = _isotropic(indices, values)
    bounds = (max(low, leap), high)
    return HermiteLeap(leap, [_name(indices[i]) for i in order], new, bounds, sample_order(bounds[0]))


def sample_order(leap: int) -> str:
    """Samples that SGD needs at a leap: O(d), d log d, d^(leap - 1)."""
    return {0: "O(1)", 1: "O(d)", 2: "d log d"}.get(leap, f"d^{leap - 1}")


def _read(coefficients: Mapping) -> tuple[np.ndarray, np.ndarray]:
    example = "a table such as {(2, 0): 1.0, (1, 1): 0.5}"
    if not isinstance(coefficients, Mapping) or not coefficients:
        raise InputError(f"hermite_leap needs {example}; got {coefficients!r}.")
    rows, values = [], []
    for key, value in coefficients.items():
        try:
            row, number = [operator.index(i) for i in key], float(value)
        except (TypeError, ValueError):
            raise InputError(f"hermite_leap needs {example}; got the entry {key!r}: {value!r}.") from None
        if min(row, default=0) < 0 or sum(row) > MAX_DEGREE or not math.isfinite(number):
            raise InputError(
                f"hermite_leap: degrees must be 0 or more, {MAX_DEGREE} in all at most, and coefficients finite; got "
                f"{key!r}: {value!r}."
            )
        rows.append(row)
        values.append(number)
    if len({len(row) for row in rows}) > 1:
        raise InputError(
            "hermite_leap: all multi-indices must be equally long. Write 0 for variables that do not occur."
        )
    if not any(values):
        raise InputError("hermite_leap: all coefficients are zero. Give at least one that is not.")
    return np.array(rows, int).reshape(len(rows), -1), np.array(values)


def _name(index: np.ndarray) -> str:
    parts = [f"z{i + 1}" if k == 1 else f"He{k}(z{i + 1})" for i, k in enumerate(index.tolist()) if k]
    return "*".join(parts)


def _isotropic(indices: np.ndarray, values: np.ndarray) -> tuple[int, int]:
    """Bounds of the largest leap over rotations.

    In every basis the variables reached one degree at a time span the closure of U -> U + {E[h z g(z_U)]}; a basis that
    is aligned with the closure reaches no more. There a term costs its degree in the directions that are left.
    """
    if len(values) == 0:
        return 0, 0
    used = np.nonzero(indices.any(axis=0))[0]
    indices, P = indices[:, used], len(used)
    degree = int(indices.sum(axis=1).max())
    if P**degree > MAX_ENTRIES:
        return 1, degree
    tensors = _tensors(indices, values, P)
    scale = max(float(np.linalg.norm(t)) for t in tensors.values())
    known = np.zeros((P, 0))
    while known.shape[1] < P:
        rest = _complement(known)
        seen = np.concatenate(
            [_turn(t, [rest] + [known] * (t.ndim - 1)).reshape(rest.shape[1], -1) for t in tensors.values()], axis=1
        )
        left, size, _ = np.linalg.svd(seen, full_matrices=False)
        found = rest @ left[:, size > RANK * scale]
        if found.shape[1] == 0:
            break
        known = np.concatenate([known, found], axis=1)
    rest = _complement(known)
    degrees = {
        k
        for t in tensors.values()
        for k in range(1, t.ndim + 1)
        if np.linalg.norm(_turn(t, [rest] * k + [known] * (t.ndim - k))) > RANK * scale
    }
    return (min(degrees), max(degrees)) if degrees else (1, 1)


def _tensors(indices: np.ndarray, values: np.ndarray, P: int) -> dict[int, np.ndarray]:
    """Symmetric tensors T_n with h = sum_n <T_n, He_n(z)>; rotating z rotates them."""
    out: dict[int, np.ndarray] = {}
    for index, value in zip(indices, values, strict=True):
        n = int(index.sum())
        t = out.setdefault(n, np.zeros((P,) * n))
        counts = np.stack([sum((axis == i).astype(int) for axis in np.indices(t.shape)) for i in range(P)], axis=-1)
        same = np.all(counts == index, axis=-1)
        t[same] += value / same.sum()
    return out


def _turn(tensor: np.ndarray, bases: list[np.ndarray]) -> np.ndarray:
    """The entries of a tensor in the given bases, one an axis."""
    for base in bases:  # each axis is turned and put last
        tensor = np.tensordot(tensor, base, axes=(0, 0))
    return tensor


def _complement(known: np.ndarray) -> np.ndarray:
    return np.linalg.svd(known, full_matrices=True)[0][:, known.shape[1] :] if known.shape[1] else np.eye(len(known))
