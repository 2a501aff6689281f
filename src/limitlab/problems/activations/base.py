r"""What an activation is: a scalar function :math:`\sigma` of one field, and what the two roads ask of it.

A simulation asks for values and slopes; a limit for averages over a Gaussian, exactly by ``terms`` or smoothed.
"""

import dataclasses
from abc import abstractmethod
from collections.abc import Callable
from functools import lru_cache
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from limitlab._setup import double
from limitlab.numerics.gauss.smoothing import AbstractSmoother, PiecewiseSmoother, TrapezoidSmoother
from limitlab.numerics.gauss.terms import Term, derivative_terms
from limitlab.problems.part import Part
from limitlab.text import code

__all__ = ["AbstractActivation", "Activation", "Pieces"]

FEW = 8  # ramps; with more, the table of knots is the faster one
MAX_KINKS = 32


class Pieces(NamedTuple):
    r"""(i, b, t, g) with :math:`\sigma(x) = i + bx + \sum_k g_k (x - t_k)_+`: straight lines with kinks at t."""

    level: np.ndarray
    tilt: np.ndarray
    places: np.ndarray
    bends: np.ndarray

    def moved(self, by: float) -> "Pieces":
        r"""Those of :math:`\sigma(x + \mathrm{by})`."""
        return Pieces(self.level + self.tilt * by, self.tilt, self.places - by, self.bends)


class AbstractActivation(Part):
    r"""A scalar function :math:`\sigma`, its derivative, and its exact Gaussian calculus where it is known.

    To add one, write a small frozen class like those of ``named.py`` with

    - ``name``: the text by which a problem file knows it;
    - ``function(x)`` and ``derivative(x)``, elementwise in JAX;
    - ``terms``: its terms for exact Gaussian moments, or None: then moments are taken by quadrature;
    - ``pieces()``: its straight lines, if it is made of these. Left out, they are looked for among its values;
    - ``smoothed(by, widest)``: its average over a Gaussian, if there is a closed form.

    Two activations of one class and equal fields are equal, so that what was compiled for one serves the other.
    """

    reference: ClassVar[tuple[str, ...]] = ()  # keys of ``references.bib``

    @property
    @abstractmethod
    def name(self) -> str:
        """The text of a problem file."""

    @abstractmethod
    def function(self, x: jax.Array) -> jax.Array:
        """sigma(x), elementwise."""

    @abstractmethod
    def derivative(self, x: jax.Array) -> jax.Array:
        """sigma'(x), elementwise."""

    @property
    def terms(self) -> tuple[Term, ...] | None:
        """The terms of sigma for exact Gaussian moments, if they are known."""
        return None

    @property
    def derivative_terms(self) -> tuple[Term, ...] | None:
        return None if self.terms is None else derivative_terms(self.terms)

    @property
    def named(self) -> bool:
        """True if the name says all, so that a file can hold it."""
        return True

    @property
    def flat(self) -> bool:
        """True if the derivative vanishes almost everywhere, so that no gradient rule can train it."""
        return _flat(self)

    @property
    def parity(self) -> int:
        """1 if sigma(-x) = sigma(x), -1 if sigma(-x) = -sigma(x), else 0."""
        return _parity(self)

    def pieces(self) -> Pieces | None:
        """The straight lines that sigma is made of; None if it is not of this kind."""
        return _found_pieces(self)

    def smoother(self, widest: float = 1.0) -> AbstractSmoother:
        """sigma averaged over a Gaussian, accurate for widths s up to ``widest`` at least."""
        return _smoother(self, 2.0 ** (np.ceil(4 * np.log2(widest)) / 4))  # few rules, so few compilations

    def smoothed(self, by: float, widest: float) -> AbstractSmoother:
        r"""The smoother of :math:`\sigma(x + \mathrm{by})`."""
        pieces = self.pieces()
        if pieces is None:
            return TrapezoidSmoother(self.function, by)
        level, tilt, places, bends = (x.tolist() for x in pieces)
        return PiecewiseSmoother(level + tilt * by, tilt, tuple(bends), tuple(place - by for place in places))

    def unit_functions(self) -> tuple[Callable, Callable]:
        r"""sigma and sigma' on arrays in the form that runs fastest: few kinks as a sum of ramps,
        :math:`c_0 + c_1 x + \sum_k g_k (x - t_k)_+`."""
        pieces = self.pieces()
        if pieces is None or len(pieces.places) > FEW:
            each = jax.vmap(self.derivative)
            return self.function, lambda x: each(x.ravel()).reshape(x.shape)
        level, tilt, places, bends = (x.tolist() for x in pieces)
        kinks = list(zip(places, bends, strict=True))

        def value(x):
            total = level + tilt * x if tilt or not kinks else level
            for place, bend in kinks:
                total = total + bend * jnp.maximum(x - place, 0.0)
            return total

        def slope(x):
            total = jnp.full_like(x, tilt)
            for place, bend in kinks:
                total = total + jnp.where(x > place, bend, 0.0)
            return total

        return value, slope

    def __call__(self, x):
        return self.function(x)

    def __repr__(self) -> str:
        readable = self.named and type(self).__module__.startswith("limitlab.")
        return code(self.name) if readable else super().__repr__()

    def __hash__(self) -> int:
        return hash((type(self), *(getattr(self, field.name) for field in dataclasses.fields(self))))


Activation = AbstractActivation


@lru_cache(maxsize=256)
@double
def _flat(activation: AbstractActivation) -> bool:
    if activation.terms is not None:  # a constant and a sharp sign have no slope
        return not any(term.power > 0 or (term.kind == "sign" and term.tau != 0.0) for term in activation.terms)
    with jax.ensure_compile_time_eval():
        slopes = np.asarray(jax.jit(jax.vmap(activation.derivative))(np.linspace(-6.03, 6.01, 1201)))
    return not np.any(slopes)


@lru_cache(maxsize=256)
@double
def _parity(activation: AbstractActivation) -> int:
    with jax.ensure_compile_time_eval():
        x = np.linspace(0.013, 6.0, 400)  # off zero, where a jump has no sign
        there, back = np.asarray(jax.jit(jax.vmap(jax.vmap(activation.function)))(np.stack([x, -x])), float)
    near = 1e-12 * max(float(np.max(np.abs(there))), float(np.max(np.abs(back))), 1e-300)
    return 1 if np.max(np.abs(there - back)) <= near else -1 if np.max(np.abs(there + back)) <= near else 0


@lru_cache(maxsize=256)
@double
def _smoother(activation: AbstractActivation, widest: float) -> AbstractSmoother:
    return activation.smoothed(0.0, widest)


@lru_cache(maxsize=256)
@double
def _found_pieces(activation: AbstractActivation) -> Pieces | None:
    """The lines of any function, found out from its values."""

    def sigma(x):
        with jax.ensure_compile_time_eval():
            return np.asarray(jax.jit(jax.vmap(activation.function))(x), float)

    x = np.linspace(-20.013, 20.011, 8001)
    y = sigma(x)
    slope, small = np.diff(y) / np.diff(x), 1e-9 * max(1.0, float(np.max(np.abs(y))))
    level = intercept = None
    places, jumps = [], []
    for i in range(len(slope) - 1):  # two equal slopes in a row are a line; the next line meets it at the kink
        if abs(slope[i + 1] - slope[i]) > small:
            continue
        b, c = slope[i], y[i] - slope[i] * x[i]
        if level is None:
            level, intercept, last, offset = b, c, b, c
        elif abs(b - last) > small:
            places.append((offset - c) / (b - last))
            jumps.append(b - last)
            last, offset = b, c
        if len(places) > MAX_KINKS:
            return None
    if level is None:
        return None
    t, g = np.asarray(places), np.asarray(jumps)
    wide = np.concatenate([np.linspace(-20, 20, 997), [-300.0, -77.7, 77.7, 300.0]])
    rebuilt = intercept + level * wide + np.maximum(wide[:, None] - t, 0) @ g
    if np.max(np.abs(rebuilt - sigma(wide))) > 1e-7 * max(1.0, float(np.max(np.abs(y)))):
        return None
    return Pieces(np.asarray(intercept), np.asarray(level), t, g)
