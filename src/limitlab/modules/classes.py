"""Frozen classes that are trees of arrays."""

import abc
import contextlib
import dataclasses
import functools
import inspect
import threading
import typing
from collections.abc import Callable, Hashable, Iterable
from typing import Annotated, Any, TypeVar

import jax
import numpy as np
from jax.core import Tracer
from jax.tree_util import GetAttrKey, register_pytree_with_keys, tree_flatten

__all__ = ["AbstractVar", "Module", "field", "is_array", "is_array_like", "tree_at"]

T = TypeVar("T")

AbstractVar = Annotated[T, "AbstractVar"]  # what a subclass has to have, as a field, property or class variable


def field(*, converter: Callable[[Any], Any] | None = None, static: bool = False, **keywords: Any) -> Any:
    """A `dataclasses.field`.

    Parameters
    ----------
    converter
        What is kept is ``converter(value)``, of a default too.
    static
        Part of the structure of the tree: not traced, and hashable.
    """
    about = dict(keywords.pop("metadata", None) or {})
    about |= {"converter": converter} if converter is not None else {}
    return dataclasses.field(metadata=about | ({"static": True} if static else {}), **keywords)


def is_array(x: Any) -> bool:
    """Whether it is an array of JAX (also a traced one) or NumPy, or a number of NumPy."""
    return isinstance(x, (np.ndarray, np.generic, jax.Array))


def is_array_like(x: Any) -> bool:
    """Whether it is an array, a number, or says how to become one."""
    return is_array(x) or isinstance(x, (float, complex, int)) or hasattr(x, "__jax_array__")


# --- classes -----------------------------------------------------------------------------------------------------

MAKING = "(being made)"  # in the __dict__ of an object while its __init__ runs


class _Plan:
    """What is known of the fields of a class; one for each, and part of the structure of its trees."""

    def __init__(self, cls: Any):
        fields = dataclasses.fields(cls)
        self.names = {f.name: f.repr for f in fields}
        own = [f for f in fields if not isinstance(getattr(cls, f.name, None), property)]
        self.children = tuple(f.name for f in own if not f.metadata.get("static"))
        self.static = tuple(f.name for f in own if f.metadata.get("static"))
        self.keys = tuple(map(GetAttrKey, self.children))
        found = {f.name: f.metadata.get("converter") for f in fields}
        self.converters = {name: converter for name, converter in found.items() if converter is not None}
        self.missing = _missing(cls)

    def __repr__(self) -> str:
        return ", ".join(self.static)


_plans: dict[type, _Plan] = {}
_planning = threading.RLock()


def _plan(cls: Any) -> _Plan:
    """Made when the first object is, and JAX told of the class: of most of them there never is one."""
    if cls not in _plans:
        with _planning:
            if cls not in _plans:
                plan = _Plan(cls)
                register_pytree_with_keys(cls, _flatten_with_keys, functools.partial(_unflatten, cls), _flatten)
                _plans[cls] = plan
    return _plans[cls]


def _is_abstract(hint: Any) -> bool:
    if isinstance(hint, str):
        return hint.partition("[")[0].endswith("AbstractVar")
    origin = getattr(typing.get_origin(hint), "__name__", "")  # of equinox, in a user's class
    return "AbstractVar" in getattr(hint, "__metadata__", ()) or origin == "AbstractVar"


def _missing(cls: type) -> list[str]:
    """What is promised by an `AbstractVar` and is not there."""
    missing: set[str] = set()
    for base in reversed(cls.__mro__):
        for name, hint in inspect.get_annotations(base).items():
            if _is_abstract(hint):
                missing.add(name)
            elif typing.get_origin(hint) is not typing.ClassVar:
                missing.discard(name)
        missing -= vars(base).keys()
    return sorted(missing)


def _mend(fields: dict[str, Any]) -> None:
    """Cloudpickle copies `dataclasses.MISSING`, which everybody knows by its identity."""
    for one in fields.values():
        for name in ("default", "default_factory"):
            if type(getattr(one, name)).__name__ == "_MISSING_TYPE":
                setattr(one, name, dataclasses.MISSING)


def _init_of(cls: Any) -> Callable[..., None]:
    """The ``__init__`` that `dataclasses` makes of the fields of a class; of class variables it knows no more."""
    known: dict[str, Any] = cls.__dataclass_fields__
    fields = {name: f for name, f in known.items() if f._field_type.name != "_FIELD_CLASSVAR"}
    names = {name: getattr(cls, name) for name in ("__module__", "__qualname__")}
    body = {
        "__doc__": "Its fields.",
        "__annotations__": {name: f.type for name, f in fields.items()},
        **names,
        **fields,
    }
    if hasattr(cls, "__post_init__"):
        body["__post_init__"] = cls.__post_init__
    return dataclasses.dataclass(eq=False, repr=False)(type(cls.__name__, (), body)).__init__


class _Init:
    """``__init__`` of one of limitlab's classes until it is asked for: of most it never is."""

    def __init__(self, cls: Any):
        self.cls = cls

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        made: Any = vars(self).setdefault("made", _init_of(self.cls))  # one, also for threads
        self.cls.__init__ = self.cls.__filled__ = made
        return made.__get__(instance, owner)


def _fills_fields(cls: type) -> bool:
    """Whether nobody has written an ``__init__``, neither for the class nor for the nearest base that has one."""
    home = next(base for base in cls.__mro__ if "__init__" in vars(base))
    return home is object or vars(home)["__init__"] is vars(home).get("__filled__")


def _flatten(tree: Any) -> tuple[list[Any], Any]:
    plan, kept = _plan(type(tree)), tree.__dict__
    return [kept[name] for name in plan.children], (plan, tuple([kept[name] for name in plan.static]))


def _flatten_with_keys(tree: Any) -> tuple[list[Any], Any]:
    children, about = _flatten(tree)
    return list(zip(about[0].keys, children, strict=True)), about


def _unflatten(cls: type, about: Any, children: Iterable[Any]) -> Any:
    (plan, static), tree = about, object.__new__(cls)
    tree.__dict__.update(zip(plan.children, children, strict=True))
    tree.__dict__.update(zip(plan.static, static, strict=True))
    return tree


@typing.dataclass_transform(field_specifiers=(dataclasses.field, field))
class _Modules(abc.ABCMeta):
    """What makes the classes."""

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], /, **keywords: Any):
        cls: Any = abc.ABCMeta.__new__(mcs, name, bases, namespace, **keywords)
        fills, ours = _fills_fields(cls), cls.__module__.startswith("limitlab.")
        hints, doc = inspect.get_annotations(cls), cls.__doc__
        concrete = {name: hint for name, hint in hints.items() if not _is_abstract(hint)}
        cls.__annotations__, cls.__doc__ = concrete, doc or name  # for one without, dataclasses make a costly one
        dataclasses.dataclass(init=False, eq=False, repr=False)(cls)
        cls.__annotations__, cls.__doc__ = hints, doc
        if fills:
            cls.__init__ = cls.__filled__ = _Init(cls) if ours else _init_of(cls)
        if doc is None and not ours:
            with contextlib.suppress(TypeError, ValueError):  # an __init__ of C has no signature
                cls.__doc__ = f"{name}{cls.__signature__}".replace(" -> None", "")  # as dataclasses have it
        return cls

    def __setattr__(cls, name: str, value: Any) -> None:
        if name == "__dataclass_fields__":
            _mend(value)
        super().__setattr__(name, value)

    def __call__(cls: Any, *args: Any, **kwargs: Any):
        self = cls.__new__(cls, *args, **kwargs)
        plan = _plan(cls)
        if plan.missing:
            raise TypeError(f"Can't instantiate abstract class {cls.__name__} without {', '.join(plan.missing)}")
        self.__dict__[MAKING] = True
        try:
            cls.__init__(self, *args, **kwargs)
        finally:
            del self.__dict__[MAKING]
        for name in plan.names.keys() - self.__dict__.keys():
            if not hasattr(self, name):
                raise TypeError(f"Field {name!r} of {cls.__name__} was not initialized.")
            if name in plan.children + plan.static:
                self.__dict__[name] = getattr(self, name)  # the default, past somebody's __init__
        for name, converter in plan.converters.items():
            object.__setattr__(self, name, converter(getattr(self, name)))
        for base in cls.__mro__:
            if check := vars(base).get("__check_init__"):
                check(self)
        for name in plan.static:
            if isinstance(getattr(self, name), (np.ndarray, jax.Array)):
                raise TypeError(
                    f"{cls.__name__}.{name} is static, part of the structure of a tree, which has to be hashable: "
                    "it cannot be an array. Leave out static=True, or give a tuple of numbers."
                )
        return self

    @property
    def __signature__(cls: Any) -> inspect.Signature:
        """That of ``__init__``."""
        signature = inspect.signature(cls.__init__)
        return signature.replace(parameters=list(signature.parameters.values())[1:])


class Module(Hashable, metaclass=_Modules):
    """A frozen dataclass that is a tree: its fields are the children, those that are static belong to the structure.

    After ``__init__``, which may be written or left to the fields, converters are applied; then ``__check_init__`` is
    called, of each class that has one, the most derived first.
    """

    def __new__(cls, *args: Any, **kwargs: Any):
        _plan(cls)  # also where pickle makes an object
        return super().__new__(cls)

    if not typing.TYPE_CHECKING:  # for whom fields are the only attributes

        def __setattr__(self, name: str, value: Any) -> None:
            made = MAKING in self.__dict__ and name in _plan(type(self)).names
            if not made and name != "__orig_class__":  # which `typing` leaves in Some[thing]()
                raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
            object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")

    def __repr__(self) -> str:
        shown = (name for name, wanted in _plan(type(self)).names.items() if wanted)
        return f"{type(self).__name__}({', '.join(f'{name}={_brief(getattr(self, name))}' for name in shown)})"

    def __hash__(self) -> int:
        return hash(tuple([(name, getattr(self, name)) for name in _plan(type(self)).names]))

    def __eq__(self, other: object) -> Any:
        """One structure and equal leaves; arrays with one shape and type. Of traced arrays: traced."""
        if not isinstance(other, Module):
            return NotImplemented
        (mine, structure), (theirs, another) = tree_flatten(self), tree_flatten(other)
        if structure != another:
            return False
        same: Any = True
        for a, b in zip(mine, theirs, strict=True):
            if is_array(a) and is_array(b):
                if a.shape != b.shape or a.dtype != b.dtype:
                    return False
                same = (a == b).all() & same
            elif is_array(a) or is_array(b) or a != b:
                return False
        return same if isinstance(same, Tracer) else bool(same)


def _brief(value: Any) -> str:
    return f"{value.dtype}{list(value.shape)}" if is_array(value) and value.shape else repr(value)


class _Mark:
    """Stands for a leaf."""

    def __init__(self, leaf: Any):
        self.leaf = leaf


def tree_at(where: Callable[[Any], Any], tree: T, new: Any, is_leaf: Callable[[Any], bool] | None = None) -> T:
    """The same tree with something new in one place.

    Parameters
    ----------
    where
        The leaf or branch of a tree like this one: ``lambda run: run.state.mask``.
    """
    marked = jax.tree.map(_Mark, tree, is_leaf=is_leaf)
    place, found = where(marked), []

    def change(node: Any) -> Any:
        if node is place:
            found.append(node)
            return new
        return node.leaf

    out = jax.tree.map(change, marked, is_leaf=lambda node: node is place)
    if len(found) != 1:
        raise ValueError(f"`where` must name one place of the tree, which has {len(found)} of those it names.")
    return out
