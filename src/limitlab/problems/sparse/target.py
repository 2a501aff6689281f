r"""Targets that depend on a few coordinates of the hypercube, written as text: ``z1 + z1*z2 + 0.5*z1*z2*z3``.

The text is read by a small parser of its own and never evaluated.
"""

import functools
import math
import operator
import re
from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from limitlab.errors import InputError
from limitlab.modules import field
from limitlab.numerics.cube import members, walsh
from limitlab.numerics.sets import popcount
from limitlab.problems.base import AbstractTeacher
from limitlab.problems.sparse.text import MAX_VARIABLE, parse

__all__ = ["MAX_VARIABLE", "SparseTarget", "term_name"]

NEGLIGIBLE = 1e-14  # of the largest coefficient of a table: rounding of its transform
_MONOMIAL = re.compile(r"1|z[0-9]+(\*z[0-9]+)*")


def term_name(mask: int, variables: tuple[int, ...] | None = None) -> str:
    """A monomial as it is written: ``z1*z3``, or ``1`` for the constant. Bit i is ``variables[i]``, or i + 1."""
    names = [i + 1 if variables is None else variables[i] for i in members(mask)]
    return "*".join(f"z{i}" for i in names) or "1"


class _Expansion(NamedTuple):
    variables: tuple[int, ...]
    terms: dict[int, float]  # bits over `variables`, by size and then by number


@functools.lru_cache(maxsize=32)
def _expand(text: str) -> _Expansion:
    terms = parse(text)
    masks, values = np.array(list(terms), np.int64), np.array(list(terms.values()))
    if len(masks) == 0:
        raise InputError("SparseTarget is zero everywhere: nothing is left to learn. Check whether its terms cancel.")
    used = members(int(np.bitwise_or.reduce(masks)))
    packed = np.zeros_like(masks)
    for i, number in enumerate(used):
        packed |= (masks >> number & 1) << i
    sort = np.lexsort((packed, popcount(packed)))
    ordered = dict(zip(packed[sort].tolist(), values[sort].tolist(), strict=True))
    return _Expansion(tuple(i + 1 for i in used), ordered)


class _Table(AbstractTeacher):
    """A function of the signs of the first P coordinates, by its 2^P values; as `SparseTarget.from_table` has them."""

    table: jax.Array

    @property
    def latent(self):
        return self.table.shape[0].bit_length() - 1

    def draw(self, key, d):
        """It has no weights: only its coordinates."""
        if d < self.latent:
            raise InputError(
                f"simulate needs d >= {self.latent}, the number of latent coordinates of the target; got d={d}. Use a "
                "larger d or a target of fewer variables."
            )
        return ()

    def output(self, weights, x):
        point = jnp.sum((x[:, : self.latent] < 0) << jnp.arange(self.latent), axis=1)
        return self.table.astype(x.dtype)[point]


class SparseTarget(AbstractTeacher):
    r"""A polynomial of a few of the d coordinates, each +-1: :math:`h(z) = \sum_S \hat h(S) \prod_{i \in S} z_i`.

    Parameters
    ----------
    text
        Such as ``"z1 + z1*z2 + 0.5*z1*z2*z3"``: numbers, z1 to z20, ``+ - *``, parentheses and whole powers, reduced by
        z^2 = 1. `from_fourier` and `from_table` write it for you.

    Notes
    -----
    Inputs are +-1/sqrt(d) here, and z_i = sqrt(d) x_i. Which coordinates carry the z_i is of no matter; only the
    variables that are left after reduction count as latent.
    """

    text: str = field(static=True)

    def draw(self, key, d):
        return self.live().draw(key, d)

    def output(self, weights, x):
        return self.live().output(weights, x)

    def live(self):
        return _Table(jnp.asarray(self.values))

    def misfit(self, inputs):
        if inputs.signs:
            return None
        return (
            "inputs on the hypercube (Problem.inputs=Hypercube())",
            inputs,
            "The z_i are signs, and the text is reduced by z^2 = 1.",
        )

    def __check_init__(self):
        if not isinstance(self.text, str):
            raise InputError(f"SparseTarget.text must be a text such as 'z1 + z1*z2'; got {self.text!r}.")
        _expand(self.text)

    @classmethod
    def from_fourier(cls, coefficients: Mapping) -> "SparseTarget":
        """From a table {set: coefficient}; a set is a text ("z1*z2", "1") or a tuple of numbers ((1, 2), ())."""
        if not isinstance(coefficients, Mapping) or not coefficients:
            raise InputError(f"SparseTarget.from_fourier needs a table such as {{(1, 2): 0.5}}; got {coefficients!r}.")
        parts = []
        for key, value in coefficients.items():
            name = key if isinstance(key, str) else _monomial(key)
            number = _finite(value, name)
            parts.append(f"{number!r}*{name if _MONOMIAL.fullmatch(name) else f'({name})'}")
        return cls(" + ".join(parts))

    @classmethod
    def from_table(cls, values) -> "SparseTarget":
        """From its 2^P values: entry b is h at z_i = -1 where bit i - 1 of b is set, +1 elsewhere."""
        try:
            table = np.asarray(values, float)
        except (TypeError, ValueError, OverflowError):
            table = np.zeros(0)
        if table.ndim != 1 or table.size == 0 or table.size & (table.size - 1) or table.size > 2**MAX_VARIABLE:
            raise InputError(
                f"SparseTarget.from_table needs 2^P numbers in a row, P at most {MAX_VARIABLE}; got shape "
                f"{table.shape}."
            )
        if not np.all(np.isfinite(table)):
            raise InputError("SparseTarget.from_table needs finite numbers; some are not.")
        hat = walsh(table)
        keep = np.nonzero(np.abs(hat) > NEGLIGIBLE * np.max(np.abs(hat)))[0]
        if len(keep) == 0:
            raise InputError("SparseTarget is zero everywhere: nothing is left to learn.")
        return cls(" + ".join(f"{float(hat[mask])!r}*{term_name(int(mask))}" for mask in keep))

    @property
    def variables(self) -> tuple[int, ...]:
        """The numbers of the variables that occur, in order; bit i of a set stands for the i-th of them."""
        return _expand(self.text).variables

    @property
    def latent(self) -> int:
        """P, the number of latent coordinates."""
        return len(self.variables)

    @property
    def terms(self) -> dict[int, float]:
        """The coefficients that are not zero, by set."""
        return dict(_expand(self.text).terms)

    @property
    def degree(self) -> int:
        return max(mask.bit_count() for mask in self.terms)

    @property
    def coefficients(self) -> np.ndarray:
        """All 2^P Fourier coefficients."""
        hat = np.zeros(2**self.latent)
        for mask, value in _expand(self.text).terms.items():
            hat[mask] = value
        return hat

    @property
    def values(self) -> np.ndarray:
        """h at all 2^P points (`limitlab.numerics.cube`)."""
        hat = self.coefficients
        return np.asarray(walsh(hat)) * len(hat)

    @property
    def monomials(self) -> tuple[str, ...]:
        """The names of the terms that are not zero."""
        return tuple(term_name(mask, self.variables) for mask in self.terms)

    @property
    def term_names(self) -> list[str]:
        """The names of all 2^P monomials."""
        return [term_name(mask, self.variables) for mask in range(2**self.latent)]


def _monomial(key) -> str:
    try:
        return "*".join(f"z{operator.index(i)}" for i in key) or "1"
    except TypeError:
        raise InputError(
            "SparseTarget.from_fourier: a set is a text such as 'z1*z2' or a tuple of numbers such as (1, 2); "
            f"got {key!r}."
        ) from None


def _finite(value, name: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise InputError(
            f"SparseTarget.from_fourier: the coefficient of {name!r} must be a finite number; got {value!r}."
        )
    return number
