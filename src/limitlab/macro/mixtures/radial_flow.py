r"""Rotation-invariant networks on mixtures: the flow of the law of norms."""

import math
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from limitlab.algorithms.one_pass.schedules import off_the_clock, on_the_clock
from limitlab.algorithms.settings.one_pass import LabelledOnePass
from limitlab.errors import AccuracyWarning, InputError
from limitlab.macro.limit import AbstractLimit
from limitlab.macro.mixtures.jko import proximal
from limitlab.macro.mixtures.law import Radial, make_data
from limitlab.macro.mixtures.particles import ORDER, RadialPath, follow, start_units, unresolved
from limitlab.macro.mixtures.volumes import VolumePath, entropy, make_grid, spread, start_masses
from limitlab.modules import field
from limitlab.numerics.checks import check_choice, check_integer, check_number
from limitlab.numerics.gauss.rules import length_edges
from limitlab.numerics.machine import Memory
from limitlab.numerics.trees import plain
from limitlab.problems.asked import Asked
from limitlab.problems.problem import Problem
from limitlab.results.schema import dataset
from limitlab.states.radii import RadiiView, UnitLaw
from limitlab.states.run import Run
from limitlab.states.view import Variable, assembled
from limitlab.verbs import caution

__all__ = ["RadialFlow"]

LEVELS = (2, 4, 8, 16, 32)  # panels of 12 nodes in the norm of the start
MOST_UNITS = 4096
JKO_LEVEL = 4
WORRY = 1e-6
SPLITS = 14
DATA = 128  # nodes of the data from d = 10 on
STRETCHES = 8  # how often a grid that mass reaches the edge of is made longer
STEP = 0.01


class RadialFlow(AbstractLimit):
    r"""Infinite width, vanishing steps, dimension d or infinite: the flow of the law of r = |w|/sqrt(d).

    .. math:: \partial_t \bar\rho = \xi(t)\,\partial_r\big(\bar\rho\,\partial_r\Psi_\lambda(r; \bar\rho)\big)
              + \xi(t)\,T\,(\ldots), \qquad f(|x|) = \int \sigma_{r|x|}\,\bar\rho(dr)

    For an `IsotropicMixture` a start that knows no direction stays so, and the law of w reduces to that of its norm
    (and of a and b if these are trained); at infinite d a point mass stays one. An `AnisotropicMixture` has two norms
    and is known at infinite d. The time is t = gamma step/(p d), twice that of Mei, Montanari and Nguyen; ``risk`` is
    half of their R.

    Needs a labelled mixture, the square loss, a `RandomStart` and `OnlineSGD`.

    Parameters
    ----------
    d
        The dimension; math.inf by default.
    method
        "particles": quadrature nodes of the start carried by an adaptive ODE (the default without noise, accurate to
        ``tolerance``). "volumes": conservative finite volumes for the density of r (the default with noise; first
        order in the cells). "jko": proximal steps in the Wasserstein metric (first order in ``step``). The last two
        need units without bias and with one fixed output weight.
    nodes
        Nodes of the start (a multiple of 12), instead of panels split until the risk moves by less than ``tolerance``.
    tolerance, rtol
        Change of the risk on refining the nodes that is accepted (``node_error`` says what it was); of the integrator.
    cells, reach
        Of the finite volumes on [0, reach]; None finds a reach that no mass leaves. If mass reaches the edge of a
        given one the run ends there with status "failed".
    step
        Longest proximal step, or implicit step of the noisy density (default: 0.01, and the width of a cell). The
        latter is shortened while the density moves, so that it adds at most 2 % to the temperature.
    """

    d: float = field(static=True, converter=plain, default=math.inf)
    method: str | None = field(static=True, default=None)
    nodes: int | None = field(static=True, converter=plain, default=None)
    tolerance: float = field(static=True, converter=plain, default=1e-7)
    rtol: float = field(static=True, converter=plain, default=1e-10)
    cells: int = field(static=True, converter=plain, default=400)
    reach: float | None = field(static=True, converter=plain, default=None)
    step: float | None = field(static=True, converter=plain, default=None)

    grows: ClassVar[str] = "p, with steps to 0; d too, unless it is given"
    stays: ClassVar[str] = "separation Δ, time"
    needs: ClassVar[str] = "a labelled mixture, the square loss, a RandomStart, OnlineSGD"
    cost: ClassVar[str] = "nodes of norms × nodes of input lengths, an evaluation"
    reference: ClassVar[str] = "mei2018mean"
    rate: ClassVar[dict[str, float]] = {"p": -0.5}
    variables: ClassVar[dict[str, Variable]] = assembled(RadiiView, UnitLaw, Run)

    def __check_init__(self):
        name = type(self).__name__
        if self.d != math.inf:
            whole = check_number(name, "d", self.d, low=1, high=2**53, remedy="It is a whole number, or math.inf.")
            if whole % 1:
                raise InputError(f"{name}.d must be a whole number >= 1, or math.inf; got {self.d!r}.")
        if self.method is not None:
            check_choice(name, "method", self.method, ("particles", "volumes", "jko"))
        if self.nodes is not None:
            check_integer(name, "nodes", self.nodes, low=ORDER, remedy=f"Use a multiple of {ORDER}, such as 48.")
            if self.nodes % ORDER:
                raise InputError(f"{name}.nodes must be a multiple of {ORDER}, the nodes of a panel; got {self.nodes}.")
        check_number(name, "tolerance", self.tolerance, low=1e-13, high=1.0, remedy="Use a tolerance such as 1e-8.")
        check_number(name, "rtol", self.rtol, low=1e-13, high=1e-2, remedy="Use a tolerance such as 1e-10.")
        check_integer(name, "cells", self.cells, low=8, remedy="Use 400 or more.")
        for what in ("reach", "step"):
            if getattr(self, what) is not None:
                check_number(
                    name, what, getattr(self, what), low=0, open_low=True, remedy="Use a positive one, or None."
                )

    def setting(self, problem: Problem, asked: Asked) -> Radial:
        return self.radial(LabelledOnePass.of(problem, asked), asked)

    def radial(self, one_pass: LabelledOnePass, asked: Asked) -> Radial:
        """What this limit asks besides."""
        inputs, student, T = one_pass.inputs, one_pass.student, float(one_pass.algorithm.temperature)
        widths = inputs.widths()
        if widths is None:
            asked.refuse(
                "an isotropic or anisotropic mixture", inputs, "Use MeanField(d=...) for samplers of your own."
            )
        setting = Radial(one_pass, widths)
        if setting.two_norms and math.isfinite(self.d):
            asked.refuse(
                "infinite dimension for an anisotropic mixture", f"d={self.d}", f"Use MeanField(d={int(self.d)})."
            )
        if self.d == 1 and student.activation.pieces() is not None:
            asked.refuse("d >= 2 for an activation with kinks", "d=1", "Use MeanField(d=1).")
        if T > 0 and math.isinf(self.d):
            asked.refuse(
                "a finite dimension at temperature > 0", "d=inf", "Noise moves |w|^2 by d: use RadialFlow(d=40)."
            )
        method = self._method(setting)
        if T > 0 and method != "volumes":
            asked.refuse('method="volumes" at temperature > 0', f"method={method!r}", "Leave method out.")
        neurons = one_pass.neurons
        alike = neurons.layer == "ones" if neurons.given is None else np.ptp(neurons.given) == 0
        plain = alike and not (one_pass.trained or one_pass.biased or setting.two_norms)
        if method != "particles" and not plain:
            asked.refuse(
                f"one fixed output weight, no bias and an isotropic mixture for method={method!r}",
                f"second_layer={student.second_layer!r}, bias={student.bias!r}, {type(inputs).__name__}",
                'Use method="particles" (temperature 0), or MeanField.',
            )
        return setting

    def _method(self, setting: Radial) -> str:
        noisy = float(setting.one_pass.algorithm.temperature) > 0
        return self.method or ("volumes" if noisy else "particles")

    def memory(self, setting: Radial, times: np.ndarray) -> Memory:
        method = self._method(setting)
        count = self.cells if method == "volumes" else self.nodes or MOST_UNITS
        if method == "jko":
            count = self.nodes or ORDER * JKO_LEVEL
        copies = {"volumes": 4, "particles": 12, "jko": count}[method]  # stages of a step, or columns of a Jacobian
        return Memory(8 * count * (DATA * copies + 12 * len(times)), "Use fewer cells, nodes or times.")

    def solve(self, setting: Radial, times: np.ndarray):
        clock = on_the_clock(setting.one_pass.algorithm.schedule, times)
        method = self._method(setting)
        if method == "volumes":
            return self._volumes(setting, times, clock)
        if method == "jko":
            units, weights, _ = start_units(setting, self.d, self._levels()[0] if self.nodes else JKO_LEVEL)
            step = self.step or STEP
            run = proximal(setting, self.d, clock, units, weights, step)
            return self._dataset(setting, times, clock, run, {"step": step})
        run, error = self._refined(setting, clock)
        if error is not None and error > max(WORRY, self.tolerance):
            caution(
                f"RadialFlow: refining the nodes still moves the risk by {error:.1e} at the finest rule; trust that "
                "many digits, or ask for earlier times.",
                AccuracyWarning,
            )
        return self._dataset(setting, times, clock, run, {"node_error": error, "rtol": self.rtol})

    def _levels(self) -> tuple[int, ...]:
        return LEVELS if self.nodes is None else (self.nodes // ORDER,)

    def _refined(self, setting: Radial, clock: np.ndarray) -> tuple[RadialPath, float | None]:
        """The path at the first rule whose risk differs from the last one's by less than the tolerance."""
        units, weights, exact = start_units(setting, self.d, self._levels()[0])
        run = follow(setting, self.d, clock, units, weights, self.rtol)
        if exact or self.nodes is not None:
            return run, 0.0 if exact else None
        one = len(np.unique(units.a)) == 1 and len(np.unique(units.b)) == 1
        runs = self._split(setting, clock, run) if one else self._doubled(setting, clock)
        error = None
        for finer in runs:
            gap = np.abs(finer.risk - run.risk)
            error = float(np.nanmax(gap)) if np.any(np.isfinite(gap)) else 0.0
            run = finer
            if run.status != "ok" or error <= self.tolerance:
                break
        return run, error

    def _doubled(self, setting: Radial, clock: np.ndarray) -> Iterator[RadialPath]:
        """Ever finer products of rules in a, b and the norm."""
        for level in self._levels()[1:]:
            units, weights, _ = start_units(setting, self.d, level)
            if len(weights) > MOST_UNITS:
                return
            yield follow(setting, self.d, clock, units, weights, self.rtol)

    def _split(self, setting: Radial, clock: np.ndarray, run: RadialPath) -> Iterator[RadialPath]:
        """All panels of the norm doubled once, then those quartered that a separatrix has torn apart."""
        law, edges = make_data(setting, self.d), length_edges(self.d, 2 * self._levels()[0])
        for _ in range(SPLITS):
            units, weights, _ = start_units(setting, self.d, 1, edges)
            if len(weights) > MOST_UNITS:
                return
            run = follow(setting, self.d, clock, units, weights, self.rtol)
            yield run
            errors = unresolved(run, law)
            torn = errors > max(0.1 * self.tolerance / len(errors), 1e-3 * float(np.max(errors)))
            cuts = [edges[:-1][torn] + share * np.diff(edges)[torn] for share in (0.25, 0.5, 0.75)]
            edges = np.sort(np.concatenate([edges, *cuts]))

    def _dataset(self, setting: Radial, times, clock, run: RadialPath, attrs: dict[str, Any]):
        two_norms = run.units.r.shape[2] == 2
        variables = {
            "risk": (("time",), run.risk),
            "r": (("time", "particle", "block"), run.units.r),
            "weight": (("particle",), run.weights),
            "status": ((), run.status),
            "end_time": ((), off_the_clock(clock, times, run.end)),
        }
        if not two_norms:
            variables["r"] = (("time", "particle"), run.units.r[:, :, 0])
        if setting.one_pass.trained or np.ptp(run.units.a[0]) > 0:
            variables["a"] = (("time", "particle"), run.units.a)
        if setting.one_pass.biased:
            variables["b"] = (("time", "particle"), run.units.b)
        if two_norms:
            square = np.square(run.units.r)
            variables["alignment"] = (("time",), (square[:, :, 0] / square.sum(axis=2)) @ run.weights)
        coords = {"time": times, **({"block": ["informative", "other"]} if two_norms else {})}
        return self._stamped(setting, variables, coords, run.steps, attrs)

    def _volumes(self, setting: Radial, times: np.ndarray, clock: np.ndarray):
        run, centres, reach = self._spread(setting, clock)
        width = centres[1] - centres[0]
        attrs = {"cells": self.cells, "reach": reach, "mass_error": run.mass_error}
        if run.status == "failed":
            attrs["note"] = f"mass reached the edge of the grid, r = {reach:g}; use a larger reach"
        variables = {
            "risk": (("time",), run.risk),
            "density": (("time", "radius"), run.masses / width),
            "status": ((), run.status),
            "end_time": ((), off_the_clock(clock, times, run.end)),
        }
        rule = setting.one_pass.algorithm
        if math.isfinite(self.d):
            chaos = entropy(run.masses, centres, self.d)
            size = run.masses @ np.square(centres)
            variables["entropy"] = (("time",), chaos)
            energy = run.risk + float(rule.weight_decay) * size / 2 - float(rule.temperature) * chaos
            variables["free_energy"] = (("time",), energy)
        return self._stamped(setting, variables, {"time": times, "radius": centres}, run.steps, attrs)

    def _spread(self, setting: Radial, clock: np.ndarray) -> tuple[VolumePath, np.ndarray, float]:
        neurons = setting.one_pass.neurons
        reach = self.reach or 1.5 * float(neurons.scale) * (1 + 6 / math.sqrt(self.d))
        for _ in range(STRETCHES):
            grid = make_grid(setting, self.d, self.cells, reach)
            masses = start_masses(neurons, self.d, self.cells, reach)
            run = spread(grid, masses, clock, self.step or reach / self.cells)
            if run.status != "failed" or self.reach is not None:
                break
            reach *= 1.4
        return run, np.asarray(grid.centres), reach

    def _stamped(self, setting: Radial, variables, coords, steps: int, attrs: dict[str, Any]):
        return dataset(
            setting.one_pass.problem,
            variables,
            coords,
            method=type(self).__name__,
            reference=self.reference,
            attrs={"d": self.d, "road": self._method(setting), "steps": steps, **attrs},
        )
