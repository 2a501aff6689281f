"""sweep: a verb at every point of a grid of parameters, on one processor or a thousand, losing nothing."""

from typing import TYPE_CHECKING

from limitlab._lazy import namespace

if TYPE_CHECKING:  # read by `namespace`: a store is looked at without what computes its points
    from limitlab.sweep.refining.refine import refine as refine
    from limitlab.sweep.refining.result import Refinement as Refinement
    from limitlab.sweep.run import sweep as sweep
    from limitlab.sweep.storage.store import Store as Store
else:
    __getattr__, __dir__, __all__ = namespace(__name__)
