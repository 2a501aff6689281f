"""Frozen classes that are trees of arrays, and compiled functions of them.

Names and meanings are those of equinox, of which these are the parts that limitlab needs: to import it and to make a
hundred classes with it costs four tenths of `import jax`, before anything is computed.
"""

from limitlab.modules.classes import AbstractVar, Module, field, is_array, is_array_like, tree_at
from limitlab.modules.compiled import Compiled, filter_jit

__all__ = ["AbstractVar", "Compiled", "Module", "field", "filter_jit", "is_array", "is_array_like", "tree_at"]
