"""Functions of modules, compiled: arrays are traced, and all else is static."""

import functools
import inspect
import types
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Generic, ParamSpec, TypeVar

import jax
from jax.core import Tracer
from jax.tree_util import register_pytree_node, tree_flatten

from limitlab.modules.classes import Module, is_array

__all__ = ["Compiled", "Lowered", "Program", "filter_jit"]

P = ParamSpec("P")
T = TypeVar("T")


class _Bound:
    """A method of a module as a tree: its object is traced."""

    def __init__(self, method: types.MethodType):
        self.method = method


class _Kept:
    """What a compiled function gives back besides arrays: part of the structure of its result."""

    def __init__(self, about: Any):
        self.about = about


def _method(function: Any, owner: Any) -> Any:
    return types.MethodType(function, *owner)


register_pytree_node(_Bound, lambda one: ((one.method.__self__,), one.method.__func__), _method)
register_pytree_node(_Kept, lambda one: ((), one.about), lambda about, _: _Kept(about))


def _is_bound(x: Any) -> bool:
    return type(x) is types.MethodType and isinstance(x.__self__, Module)


def _split(tree: Any) -> tuple[list[Any], Any]:
    """Its arrays, and all the rest, with what tells those apart that are equal but do not compute alike."""
    leaves, structure = tree_flatten(tree)
    traced = [is_array(leaf) for leaf in leaves]
    if all(traced):
        return leaves, (structure, None, (), ())
    rest = [leaf for leaf, is_traced in zip(leaves, traced, strict=True) if not is_traced]
    if any(map(_is_bound, rest)):
        return _split(structure.unflatten([_Bound(leaf) if _is_bound(leaf) else leaf for leaf in leaves]))
    arrays = [leaf for leaf, is_traced in zip(leaves, traced, strict=True) if is_traced]
    return arrays, (structure, tuple(traced), tuple(rest), tuple(map(_kind, rest)))


def _kind(leaf: Any) -> Any:
    """Tells 1 from 1.0, and 0.0 from -0.0."""
    return (type(leaf), repr(leaf)) if isinstance(leaf, (float, complex)) else type(leaf)


def _join(arrays: Sequence[Any], about: Any) -> Any:
    structure, traced, rest, _ = about
    if traced is None:
        return structure.unflatten(arrays)
    some, others = iter(arrays), iter(rest)
    return structure.unflatten([next(some) if is_traced else next(others) for is_traced in traced])


def _program(function: Callable[..., Any]) -> Any:
    """`jax.jit` of a function of arrays and all the rest, one for each function as long as that lives."""
    shared = isinstance(function, types.FunctionType)
    if shared and function in _programs:
        return _programs[function]
    known: Any = weakref.ref(function) if shared else lambda: function

    def run(arrays: Any, about: Any) -> Any:
        args, kwargs = _join(arrays, about)
        out, kept = _split(known()(*args, **kwargs))
        return jax.numpy.array(0), out, _Kept(kept)

    plain = inspect.unwrap(function)
    while isinstance(plain, functools.partial):
        plain = inspect.unwrap(plain.func)
    run.__name__ = getattr(plain, "__name__", type(plain).__name__)
    run.__qualname__ = getattr(plain, "__qualname__", run.__name__)
    program = jax.jit(run, static_argnums=1)
    return _programs.setdefault(function, program) if shared else program


_programs: "weakref.WeakKeyDictionary[Any, Any]" = weakref.WeakKeyDictionary()


def _result(found: Any) -> Any:
    """What a program gave, once it is there: whoever measures time measures that of the numbers."""
    marker, arrays, kept = found
    if not isinstance(marker, Tracer):
        marker.block_until_ready()
    return _join(arrays, kept.about)


class Compiled(Generic[P, T]):
    """See `filter_jit`."""

    def __init__(self, function: Callable[P, T]):
        functools.update_wrapper(self, function, updated=())
        self._of = function

    @functools.cached_property
    def _called(self) -> tuple[Any, tuple[Any, ...]]:
        """A function, and the module that is its first argument if it is a method of one."""
        function: Any = self._of
        if _is_bound(function):
            return function.__func__, (function.__self__,)
        return (type(function).__call__, (function,)) if isinstance(function, Module) else (function, ())

    @functools.cached_property
    def _cached(self) -> Any:
        return _program(self._called[0])

    @functools.cached_property
    def _signature(self) -> inspect.Signature:
        return inspect.signature(self._of)

    def _given(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], Any]:
        if kwargs:  # an argument is the same with its name and by its place
            bound = self._signature.bind(*args, **kwargs)
            args, kwargs = bound.args, bound.kwargs
        return _split(((*self._called[1], *args), kwargs))

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return _result(self._cached(*self._given(args, kwargs)))

    def lower(self, /, *args: P.args, **kwargs: P.kwargs) -> "Lowered":
        return Lowered(self._cached.lower(*self._given(args, kwargs)), self._given)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __reduce__(self) -> str:
        return self.__qualname__  # pyright: ignore[reportAttributeAccessIssue]

    def __repr__(self) -> str:
        return f"<compiled {self._of!r}>"


class Lowered:
    """A program for arrays of certain shapes, not compiled yet."""

    def __init__(self, lowered: Any, given: Callable[..., Any]):
        self.lowered, self._given = lowered, given

    def as_text(self) -> str:
        return self.lowered.as_text()

    def compile(self) -> "Program":
        return Program(self.lowered.compile(), self._given)


class Program:
    """A compiled program; ``compiled`` is what JAX has of it."""

    def __init__(self, compiled: Any, given: Callable[..., Any]):
        self.compiled, self._given = compiled, given

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return _result(self.compiled(self._given(args, kwargs)[0]))


def filter_jit(function: Callable[P, T]) -> Compiled[P, T]:
    """`jax.jit` in which arrays are traced, also those inside of modules, and all else is static and hashable.

    What the function returns besides arrays comes back as it is. A method of a module is compiled once for all of them.
    """
    return Compiled(function)
