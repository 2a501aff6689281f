"""Small checks of formulas that no gallery entry covers: a value computed in two ways, each with a wrong one beside."""

from collections.abc import Mapping

from limitlab.report.formulas import committees, descent, linear, mean_field, sparse
from limitlab.report.formulas.formula import Formula, Measured

__all__ = ["FORMULAS", "Formula", "Measured"]

MODULES = (sparse, committees, linear, descent, mean_field)
FORMULAS: Mapping[str, Formula] = {name: one for module in MODULES for name, one in module.FORMULAS.items()}
