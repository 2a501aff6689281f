"""Descent that can be simulated: which of its three programmes a problem asks for."""

from collections.abc import Callable
from typing import Any, ClassVar

from limitlab.algorithms.descent.base import AbstractDescent
from limitlab.algorithms.descent.line import line_memory, run_line
from limitlab.algorithms.descent.network import network_memory, run_network
from limitlab.algorithms.descent.wide import run_wide, wide_memory
from limitlab.algorithms.settings.fixed_data import Descent, NetworkDescent, WideDescent, fitting
from limitlab.modules import Module, field
from limitlab.numerics.checks import check_choice
from limitlab.numerics.machine import Memory
from limitlab.states.request import Request, Seen

__all__ = ["AbstractDescentRule", "Programme"]


class Programme(Module):
    """A setting, the function that runs it, (who asks, setting, request) -> what was seen, and what that takes."""

    setting: Any
    run: Callable[[str, Any, Request], Seen] = field(static=True)
    memory: Callable[[Any, Request], Memory] = field(static=True)


class AbstractDescentRule(AbstractDescent):
    """One direction, a committee of squares that retrieves a phase (full batches only), or any student at all."""

    in_portions: ClassVar[bool] = True

    def setting(self, problem, asked) -> Programme:
        line = fitting(Descent.to_simulate, problem)
        if line is not None:
            return Programme(line, run_line, line_memory)
        wide = fitting(WideDescent.of, problem)
        if wide is not None:
            return Programme(wide, run_wide, wide_memory)
        return Programme(NetworkDescent.to_simulate(problem, asked), run_network, network_memory)

    def memory(self, setting: Programme, asked: Request) -> Memory:
        return setting.memory(setting.setting, asked)

    def run(self, setting: Programme, asked: Request) -> Seen:
        check_choice("simulate", "representation", asked.representation, ("weights",))
        return setting.run(type(self).__name__, setting.setting, asked)
