"""sweep: a verb at every point of a grid of parameters, on one processor or a thousand, losing nothing."""

from limitlab.sweep.refining.refine import refine
from limitlab.sweep.refining.result import Refinement
from limitlab.sweep.run import sweep
from limitlab.sweep.storage.store import Store

__all__ = ["Refinement", "Store", "refine", "sweep"]
