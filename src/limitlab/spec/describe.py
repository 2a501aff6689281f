"""What makes two values the same: a canonical description of anything, as JSON, and its hash.

Numbers that are equal are described alike (1 and 1.0, a list and an array of the same numbers), except for those that
a user's code reads: what it makes of them may depend on their type. What stands still is known by its place (see
`limitlab.spec.places`). A user's function is known by its code, defaults and closure, and by what it reads, to any
depth: global values, other functions, attributes of modules; a user's class by its methods and those of its bases; an
object by its class and its state. What cannot be known for certain is handed to ``unknown``.
"""

import abc
import builtins
import contextlib
import copyreg
import dataclasses
import functools
import hashlib
import importlib
import json
import sys
import types
import typing
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
from jax.core import Tracer

from limitlab.errors import InputError
from limitlab.spec.code import code_table, diaries, imports, names_in, read_names, read_whole
from limitlab.spec.places import home_of, module_place, ours, place_of, standing_module, stands
from limitlab.text import show

__all__ = ["Describer", "hash_of", "refuse"]

SHORT = 64  # numbers of an array that are written out; longer ones are known by their bytes
WHOLE = 2**53  # from here on not every whole number is a float
UNSEEN = ("eval", "exec", "globals", "__import__")  # with these, code reads what its bytecode does not say
MADE = set(  # what Python puts into a class by itself
    "__module__ __qualname__ __doc__ __dict__ __weakref__ __annotations__ __annotate__ __annotate_func__ "
    "__annotations_cache__ __dataclass_params__ __dataclass_fields__ __match_args__ __abstractmethods__ "
    "__abstractvars__ __abstractclassvars__ _abc_impl __parameters__ __orig_bases__ __firstlineno__ "
    "__static_attributes__ __slotnames__ __filled__ __type_params__ __classcell__ __non_callable_proto_members__ "
    "__protocol_attrs__".split()
)
Jitted = type(jax.jit(lambda: 0))


def hash_of(*descriptions: Any) -> str:
    """32 hexadecimal digits of the SHA-256 of descriptions."""
    text = json.dumps(descriptions, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def refuse(thing: Any, words: str) -> Any:
    """Raise `InputError`: two such things could be taken for each other."""
    raise InputError(
        f"A store cannot tell {words}; got {show(thing)}. Pass numbers, texts, arrays or limitlab's own parts; or name "
        'it yourself: sweep(..., name="v2"), with another name whenever it changes; or sweep without a store.'
    )


class Describer:
    """Describes values.

    Parameters
    ----------
    unknown
        Called with a thing that cannot be known for certain, and words about it; returns what it is described as, or
        raises.
    look
        Whether users' code is looked into. If not, functions and classes are known by their places and by what they
        close over: somebody vouches for the rest.
    """

    def __init__(self, unknown: Callable[[Any, str], Any] = refuse, look: bool = True):
        self._unknown, self._look = unknown, look
        self._met: dict[int, tuple[int, Any]] = {}  # functions and classes in the outermost one, as they came
        self._open: list[Any] = []  # objects inside of which this one is
        self._trail: list[str] = []  # where they were read
        self._memo: dict[int, tuple[Any, Any]] = {}  # outermost functions and classes
        self._read = False  # whether all values are such that a user's code reads

    def __call__(self, value: Any) -> Any:
        """A value as JSON, equal for equal values."""
        try:
            return self._value(value)
        except RecursionError:
            return self._unknown(value, f"{type(value).__name__} objects apart that contain themselves")
        finally:
            self._met.clear()
            self._open.clear()
            self._trail.clear()

    # --- values ------------------------------------------------------------------------------------------

    def _value(self, value: Any) -> Any:
        kind = type(value)
        if self._in_code() and (typed := self._typed(value)) is not None:
            return typed
        if value is None or kind in (bool, str):
            return value
        if isinstance(value, (np.bool_, np.str_)):
            return value.item()
        if kind in (int, float) or (isinstance(value, (np.integer, np.floating)) and kind is not np.longdouble):
            return _number(value)
        if kind in (list, tuple) or (issubclass(kind, tuple) and ours(kind.__module__)):
            return self._sequence(value)
        if kind is dict or kind is types.MappingProxyType:
            return self._table(value)
        if kind is np.ndarray or isinstance(value, (np.generic, jax.Array)):
            return self._array(value)
        if kind in (set, frozenset):
            return {"set": sorted((self._apart()(item) for item in value), key=json.dumps)}
        if kind is complex:
            return {"complex": [_number(value.real), _number(value.imag)]}
        if kind in (bytes, bytearray):
            return {"bytes": bytes(value).hex() if len(value) <= SHORT else hashlib.sha256(value).hexdigest()}
        if isinstance(value, types.ModuleType):
            return self._module(value)
        if isinstance(value, type):
            return self._thing(value, "class", self._class)
        if dataclasses.is_dataclass(value):
            return self._record(value)
        return self._callable(value)

    def _in_code(self) -> bool:
        """Whether the value is one that a user's function or class reads, or of the state of a user's object."""
        theirs = (one for one in self._open if not _is_module(type(one)) and not ours(type(one).__module__))
        return self._read or bool(self._met) or any(True for _ in theirs)

    def _apart(self) -> "Describer":
        """Another one for something of which the place among others is not known yet."""
        other = Describer(self._unknown, self._look)
        other._read = self._in_code()
        return other

    def _typed(self, value: Any) -> Any:
        """A number, or many, with the type: 2 * [1, 2] is not 2 * array([1, 2]). None for all other things."""
        kind = type(value)
        if kind in (list, tuple):
            long = len(value) > SHORT and set(map(type, value)) <= {int, float, bool}
            items = _digest(repr(value).encode()) if long else [self._value(item) for item in value]
            return items if kind is list and not long else {kind.__name__: items}
        if (kind is float and value.is_integer()) or kind is complex:  # a float that is not whole can be nothing else
            return {kind.__name__: repr(value)}
        if kind is bytearray:
            return {"bytearray": _digest(value)}
        number = isinstance(value, np.generic) or kind is np.ndarray
        if number and value.dtype.kind in "biufc" and value.dtype != np.longdouble:
            return {kind.__name__: _digest(value.tobytes()), "dtype": str(value.dtype), "shape": list(value.shape)}
        if isinstance(value, jax.Array) and not isinstance(value, Tracer):
            weak = {"weak": True} if value.aval.weak_type else {}
            return {"jax": self._array(value), "dtype": str(value.dtype), **weak}
        return None

    def _table(self, value: Any) -> Any:
        if all(type(key) is str for key in value):
            return {"table": {key: self._at(key, item) for key, item in sorted(value.items())}}
        keys = {hash_of(self._apart()(key)): key for key in value}  # 1 is not "1"
        return {"pairs": [[self._value(key), self._at(str(key), value[key])] for _, key in sorted(keys.items())]}

    def _sequence(self, value: Any) -> Any:
        try:
            array = np.asarray(value)
        except ValueError:  # rows of different length
            array = np.asarray(None)
        if array.dtype.kind in "fiub" and array.size and _exact(value, array.dtype.kind):
            return self._array(array)
        return [self._value(item) for item in value]

    def _array(self, value: Any) -> Any:
        if isinstance(value, jax.Array) and jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key):
            return {"key": str(jax.random.key_impl(value)), "data": self._array(jax.random.key_data(value))}
        try:
            array = np.asarray(value)
        except Exception:  # a traced array has no numbers
            return self._unknown(value, f"{type(value).__name__} objects apart")
        if array.dtype.kind == "O":
            return {"array": [self._value(item) for item in array.ravel()], "shape": list(array.shape)}
        if array.dtype.kind in "UT":
            return self._nested(array.tolist())
        empty = array.size == 0 and array.ndim > 1
        if array.dtype.kind not in "fiub" or array.dtype == np.longdouble or empty:
            bits = hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()
            return {"bits": bits, "dtype": str(array.dtype), "shape": list(array.shape)}
        if array.size <= SHORT:
            return self._nested(array.tolist())
        if _large(array):
            bits = hashlib.sha256(np.ascontiguousarray(array, dtype=f"{array.dtype.kind}8").tobytes()).hexdigest()
            return {"whole": bits, "shape": list(array.shape)}
        array = np.ascontiguousarray(array, dtype=float)
        return {"numbers": hashlib.sha256(array.tobytes()).hexdigest(), "shape": list(array.shape)}

    def _nested(self, value: Any) -> Any:
        return [self._nested(item) for item in value] if isinstance(value, list) else self._value(value)

    def _module(self, module: types.ModuleType) -> Any:
        if standing_module(module.__name__):
            return {"module": module_place(module.__name__)}
        return self._unknown(module, self._told(f"what is read from the module {module.__name__}, passed on whole"))

    def _record(self, value: Any) -> Any:
        """A dataclass, by its class and fields."""
        if (around := self._around(value)) is not None:
            return around
        kind = type(value)
        names = [field.name for field in dataclasses.fields(value)]
        state = {name: getattr(value, name) for name in names if hasattr(value, name)}
        if not _is_module(kind) and not ours(kind.__module__):
            state = {**_state(value), **state}
        about = {"kind": place_of(kind) if stands(kind) else self._kind(kind)}
        with self._inside(value):
            for name, item in state.items():
                about[name if name != "kind" else "field:kind"] = self._at(name, item)
        return about

    def _kind(self, kind: type) -> Any:
        about = self._value(kind)
        return f"{place_of(kind)}@{about['code'][:16]}" if "code" in about else about

    # --- functions, classes, objects ---------------------------------------------------------------------

    def _callable(self, value: Any) -> Any:
        if stands(value):
            return {"function": place_of(value)}
        if isinstance(value, functools.partial):
            parts = {"partial": value.func, "arguments": value.args, "keywords": value.keywords}
            return {name: self._value(part) for name, part in parts.items()}
        if isinstance(value, types.MethodType):
            return {"method": self._value(value.__func__), "of": self._value(value.__self__)}
        if isinstance(value, types.FunctionType):
            return self._thing(value, "function", self._function)
        if isinstance(value, (types.BuiltinFunctionType, types.MethodWrapperType)):  # also of a list, say
            return {"method": value.__name__, "of": self._value(value.__self__)}
        if isinstance(value, (types.MethodDescriptorType, types.WrapperDescriptorType)):
            return {"method": value.__name__, "of": self._value(value.__objclass__)}
        if isinstance(value, Jitted):
            return self._jitted(value)
        if isinstance(value, np.ufunc):
            return self._ufunc(value)
        for wrapper, inner in _WRAPPERS.items():
            if isinstance(value, wrapper):
                return {wrapper.__name__: [self._value(getattr(value, name, None)) for name in inner]}
        if type(value).__module__.split(".")[0] == "xarray" and hasattr(value, "to_dict"):
            return {"xarray": type(value).__name__, "table": self._value(value.to_dict(data="array"))}
        return self._object(value)

    def _thing(self, thing: Any, what: str, detail: Callable[[Any], Any]) -> Any:
        """A function or class. The outermost is named and hashed; in it, what came before is known by its number."""
        if what == "class" and stands(thing):
            return {"class": place_of(thing)}
        if id(thing) in self._met:
            return {"again": self._met[id(thing)][0]}
        outermost = not self._met
        alone = outermost and not self._open
        if alone and id(thing) in self._memo:
            return self._memo[id(thing)][1]
        self._met[id(thing)] = (len(self._met), thing)  # kept, so that no other gets its id
        with self._named(thing.__qualname__):
            about = detail(thing)
        if outermost:
            self._met.clear()
            about = {what: thing.__name__, "code": hash_of(about)}
        if alone:
            self._memo[id(thing)] = (thing, about)
        return about

    @contextlib.contextmanager
    def _inside(self, thing: Any) -> Iterator[None]:
        """While the state of an object is described, in which it may be itself."""
        self._open.append(thing)
        with self._named(type(thing).__qualname__):
            yield
        self._open.pop()

    @contextlib.contextmanager
    def _named(self, name: str) -> Iterator[None]:
        """The trail begins with the name of the outermost thing; what is in it is called what it is read as."""
        began = not self._trail
        self._trail += [name] if began else []
        yield
        del self._trail[len(self._trail) - began :]

    def _around(self, thing: Any) -> Any:
        return next(({"inside of": depth} for depth, one in enumerate(self._open) if one is thing), None)

    def _at(self, name: str, value: Any) -> Any:
        self._trail.append(name)
        about = self._value(value)
        self._trail.pop()
        return about

    def _told(self, words: str) -> str:
        """The words with the place at which a thing was read."""
        return f"{words} (read as {'.'.join(self._trail)})" if self._trail else words

    def _function(self, function: types.FunctionType) -> Any:
        code = function.__code__
        about: dict[str, Any] = {"function": function.__name__}
        place, stands_there = f"{home_of(function)}:{code.co_qualname}", standing_module(home_of(function))
        if stands_there or not self._look:
            about["place"] = place  # otherwise not: a function of a script is the same when it is imported
        if stands_there or self._look:
            about["code"] = code_table(code)
        if not stands_there and self._look:
            about["globals"] = self._globals(function)
        about["closure"] = self._closure(function)
        about["defaults"] = [self._at("default", function.__defaults__), self._at("default", function.__kwdefaults__)]
        own = {name: value for name, value in vars(function).items() if name != "__wrapped__"}  # which is closed over
        return {**about, "own": self._table(own)} if own else about

    def _closure(self, function: types.FunctionType) -> dict[str, Any]:
        code, out = function.__code__, {}
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            try:
                out[name] = self._seen_by(code, name, cell.cell_contents)
            except ValueError:  # a name that is not bound yet
                out[name] = {"unbound": name}
        return out

    def _globals(self, function: types.FunctionType) -> dict[str, Any]:
        """What the code reads besides its own variables: global names, and imports inside of it."""
        code, there, out = function.__code__, function.__globals__, {}
        for name in read_names(code):
            if name in there:
                out[name] = self._seen_by(code, name, there[name])
            elif name in UNSEEN:
                out[name] = self._unknown(function, self._told(f"functions apart that use {name}"))
            elif not hasattr(builtins, name):
                out[name] = {"unbound": name}
        for one in imports(code):
            if one.level == 0 and standing_module(one.module):
                continue  # its name, and what is taken from it, are in the code
            package = there.get("__package__") or str(there.get("__name__", "")).rpartition(".")[0]
            try:
                module = importlib.import_module("." * one.level + one.module, package or None)
            except Exception:
                out[f"import {one.module}"] = {"unbound": one.module}
                continue
            if not one.taken:
                top = sys.modules[module.__name__.split(".")[0]]
                out[f"import {one.module}"] = self._attributes(code, one.stored, top)
            for name in one.taken:
                out[f"from {one.module} import {name}"] = self._seen_by(code, name, getattr(module, name, None))
        return out

    def _seen_by(self, code: types.CodeType, name: str, value: Any) -> Any:
        """A variable as some code sees it: of a module the attributes that are read, of a diary nothing."""
        if type(value) is list and name in diaries(code):
            return {"diary": name}
        if isinstance(value, types.ModuleType):
            return self._attributes(code, name, value)
        return self._at(name, value)

    def _attributes(self, code: types.CodeType, name: str, module: types.ModuleType) -> Any:
        """The attributes of a user's module that a code may read: those whose names it has."""
        if standing_module(module.__name__) or name in read_whole(code):
            return self._at(name, module)  # refused unless it stands
        out, lazy = {}, hasattr(module, "__getattr__")
        for each in sorted(names_in(code)):
            if each in vars(module) or (lazy and hasattr(module, each)):
                value = getattr(module, each)
                inner = isinstance(value, types.ModuleType) and value is not module
                out[each] = self._attributes(code, f".{each}", value) if inner else self._at(each, value)
        return {"attributes": out}

    def _class(self, cls: type) -> Any:
        """A user's class: what it and its bases have, apart from what Python puts there."""
        if not self._look:
            return {"class": cls.__name__, "place": place_of(cls)}
        inside = {name: value for name, value in vars(cls).items() if name not in MADE}
        fields = vars(cls).get("__dataclass_fields__", {})
        return {
            "class": cls.__name__,
            "made by": self._value(type(cls)),
            "bases": [self._value(base) for base in cls.__mro__[1:]],
            "inside": {name: self._at(name, value) for name, value in sorted(inside.items())},
            "fields": {name: self._at(name, dict(field.metadata)) for name, field in fields.items()},
        }

    def _object(self, thing: Any) -> Any:
        """An object by its class and state, as it would be copied; never by its repr, which need not say all."""
        if (around := self._around(thing)) is not None:
            return around
        kind = type(thing)
        try:
            copy = None if _simple(kind) else _parts(thing)
        except Exception:  # not to be copied: a lock, a file, a process
            return self._unknown(thing, self._told(f"{kind.__name__} objects apart"))
        with self._inside(thing):
            state = self._table(_state(thing)) if copy is None else [self._value(part) for part in copy]
        return {"object": self._value(kind), "state": state}

    def _jitted(self, jitted: Any) -> Any:
        """A compiled function by what it wraps and how."""
        try:
            how = jitted.__getstate__()
            static = [how["static_argnums"], how["static_argnames"]]
            options = getattr(how["global_cache_key"], "compiler_options_kvs", ())
        except Exception:
            return self._unknown(jitted, self._told("jitted functions apart with this version of JAX"))
        return {"jit": self._value(jitted.__wrapped__), "static": self._value(static), "options": self._value(options)}

    def _ufunc(self, ufunc: np.ufunc) -> Any:
        for home in ("numpy", "scipy.special"):
            if getattr(sys.modules.get(home), ufunc.__name__, None) is ufunc:
                return {"function": f"{home}:{ufunc.__name__}"}
        return self._unknown(ufunc, self._told("such ufuncs apart"))


_WRAPPERS: dict[type, tuple[str, ...]] = {
    property: ("fget", "fset", "fdel"),
    classmethod: ("__func__",),
    staticmethod: ("__func__",),
    functools.cached_property: ("func",),
    functools._lru_cache_wrapper: ("__wrapped__",),
    types.MemberDescriptorType: ("__name__",),
    types.GetSetDescriptorType: ("__name__",),
}


def _is_module(kind: type) -> bool:
    """Whether all that objects of a class have is in their fields: a module of limitlab's, or of equinox."""
    homes = ("limitlab.modules.", "equinox.")
    return any(base.__name__ == "Module" and base.__module__.startswith(homes) for base in kind.__mro__)


def _digest(data: bytes | bytearray) -> str:
    return hashlib.sha256(data).hexdigest()


def _number(value: Any) -> Any:
    number = value.item() if isinstance(value, np.generic) else value
    if isinstance(number, int):
        return number
    if not np.isfinite(number):
        return {"number": str(number)}
    return int(number) if number.is_integer() and abs(number) < WHOLE else number


def _exact(value: Any, kind: str) -> bool:
    """Whether an array says the same as a list: no truth values among numbers, no whole numbers rounded to floats."""
    leaves = list(_leaves(value))
    if set(map(type, leaves)) == {float}:
        return True
    arrays = [np.asarray(leaf) for leaf in leaves]
    truths = any(leaf.dtype.kind == "b" for leaf in arrays) and kind != "b"
    return not truths and not (kind == "f" and any(_large(leaf) for leaf in arrays))


def _large(array: np.ndarray) -> bool:
    """Whether there are whole numbers that no float is."""
    if array.dtype.kind == "O":
        return True  # larger than any array of whole numbers could hold
    return array.dtype.kind in "iu" and bool(array.size) and max(abs(int(array.min())), abs(int(array.max()))) > WHOLE


def _leaves(value: Any) -> Iterator[Any]:
    for item in value:
        if isinstance(item, (list, tuple)):
            yield from _leaves(item)
        else:
            yield item


def _simple(kind: type) -> bool:
    """Whether all that objects of a class have is in their __dict__ and __slots__."""
    bare = (object, abc.ABC, typing.Generic, typing.Protocol)
    return all(base in bare or ours(base.__module__) or not standing_module(base.__module__) for base in kind.__mro__)


def _state(thing: Any) -> dict[str, Any]:
    """The attributes of an object, apart from what it would compute again."""
    state: Any = object.__getstate__(thing)
    own, slots = state if isinstance(state, tuple) else (state, None)
    kept = functools.cached_property
    return {
        n: v for n, v in {**(own or {}), **(slots or {})}.items() if not isinstance(getattr(type(thing), n, 0), kept)
    }


def _parts(thing: Any) -> list[Any]:
    """What an object would be copied from: a function, its arguments, its state, what is put into it afterwards."""
    known = copyreg.dispatch_table.get(type(thing))
    made: Any = thing.__reduce_ex__(4) if known is None else known(thing)
    if isinstance(made, str):  # a name in its module
        return [made]
    function, arguments, state, items, pairs = [*made, None, None, None, None][:5]
    own = _state(thing) if isinstance(thing, np.ndarray) else None  # which an array's copy forgets
    return [function, arguments, state, own, *(None if x is None else list(map(_plain, x)) for x in (items, pairs))]


def _plain(item: Any) -> Any:
    return list(item) if isinstance(item, tuple) else item
