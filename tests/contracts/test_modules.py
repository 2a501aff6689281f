"""Classes of parts and compiled functions of them: frozen, trees, checked; arrays are traced and all else is static."""

import abc
import copy
import dataclasses
import functools
import importlib
import inspect
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import KW_ONLY
from typing import Any, ClassVar, Generic, TypeVar

import cloudpickle
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import limitlab as ll
from limitlab.modules import AbstractVar, Module, field, filter_jit, is_array, is_array_like, tree_at

T = TypeVar("T")


class Pair(Module):
    a: Any
    name: str = field(static=True, default="p")
    b: Any = 2.0

    def plus(self, x):
        return self.a + self.b * x


class Other(Module):
    a: Any
    name: str = field(static=True, default="p")
    b: Any = 2.0


@pytest.mark.parametrize("array", [np.ones(2), jnp.ones(2)], ids=["numpy", "jax"])
def test_an_array_is_no_part_of_the_structure(array):
    with pytest.raises(TypeError, match=r"Pair.name is static, .* cannot be an array"):
        Pair(1, array)
    assert Pair(array, (1.0, 1.0)).name == (1.0, 1.0)


def test_a_class_without_words_has_those_of_its_fields():
    class Told(Module):
        """Words."""

    class Mute(Told):
        a: float
        b: int = 3

    assert (Told.__doc__, Mute.__doc__) == ("Words.", "Mute(a: float, b: int = 3)")


# --- fields and __init__ -----------------------------------------------------------------------------------------


def test_fields_are_arguments_by_place_and_by_name():
    one = Pair(1, "q", 3)
    assert (one.a, one.name, one.b) == (1, "q", 3)
    assert (Pair(b=3, a=1).a, Pair(b=3, a=1).name) == (1, "p")
    for wrong in (lambda: Pair(), lambda: Pair(1, c=2), lambda: Pair(1, "q", 3, 4)):
        with pytest.raises(TypeError):
            wrong()


def test_some_have_only_a_name_and_defaults_are_made_anew():
    class Part(Module):
        a: int
        _: KW_ONLY
        b: list = field(default_factory=list)
        c: int = 3

    with pytest.raises(TypeError):
        Part(1, [2])
    assert Part(1, c=4).c == 4
    assert Part(1).b == [] and Part(1).b is not Part(1).b


def test_a_mistake_in_the_fields_is_told_where_it_is_made():
    with pytest.raises(TypeError, match="non-default argument"):

        class Wrong(Module):
            a: int = 1
            b: int


def test_converters_come_before_checks_and_work_on_defaults_too():
    seen = []

    class Part(Module):
        a: Any = field(converter=float, default=1)
        b: Any = dataclasses.field(default=2, metadata={"converter": str, "static": True})

        def __check_init__(self):
            seen.append((self.a, self.b))

    assert (Part().a, type(Part().a), Part(a=3).b) == (1.0, float, "2")
    assert seen[-1] == (3.0, "2")
    assert jax.tree.leaves(Part()) == [1.0]


def test_every_class_is_checked_the_most_derived_first():
    seen = []

    class Base(Module):
        a: int

        def __check_init__(self):
            seen.append(("base", self.a))

    class Between(Base):
        pass

    class Child(Between):
        b: int = 1

        def __check_init__(self):
            seen.append(("child", self.a))
            with pytest.raises(dataclasses.FrozenInstanceError):
                self.a = 7

    Child(5)
    assert seen == [("child", 5), ("base", 5)]
    jax.tree.map(lambda x: x, Child(5))
    assert len(seen) == 4  # a tree is put together again without


def test_an_own_init_is_inherited_also_past_new_fields():
    class Base(Module):
        a: Any = field(converter=float)
        kept: int = 3

        def __init__(self, twice):
            self.a = 2 * twice

    class Child(Base):
        b: int = 4

    one = Child(twice=1)
    assert (one.a, one.kept, one.b) == (2.0, 3, 4)
    assert jax.tree.leaves(one) == [2.0, 3, 4]  # defaults that nobody set are kept as well
    assert list(inspect.signature(Child).parameters) == ["twice"]

    class Again(Child):
        def __init__(self, n):
            super().__init__(n + 1)
            self.b = n

    assert (Again(1).a, Again(1).b) == (4.0, 1)


def test_the_init_of_the_fields_is_called_by_one_of_ones_own():
    class Child(Pair):
        def __init__(self, x):
            super().__init__(x, b=x + 1)

    assert (Child(1).a, Child(1).b, Child(1).name) == (1, 2, "p")


def test_a_field_that_is_never_set_is_missed():
    class Part(Module):
        a: int
        b: int

        def __init__(self):
            self.a = 1

    with pytest.raises(TypeError, match="'b' of Part was not initialized"):
        Part()


def test_only_fields_are_set_and_only_while_it_is_made():
    class Part(Module):
        a: int

        def __init__(self, a):
            self.a = a
            self.a = self.a + 1
            Pair(1)  # another one that is made meanwhile
            self.a = self.a + 1
            with pytest.raises(dataclasses.FrozenInstanceError):
                self.other = 1

    one = Part(1)
    assert one.a == 3
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.a = 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        del one.a
    with pytest.raises(RuntimeError):
        Fails()
    with pytest.raises(dataclasses.FrozenInstanceError):
        Fails.left[0].a = 2


class Fails(Module):
    a: int
    left: ClassVar[list] = []

    def __init__(self):
        self.left.append(self)
        raise RuntimeError


def test_after_the_fields_comes_post_init():
    class Part(Module):
        a: int
        b: int = field(init=False)

        def __post_init__(self):
            self.b = 2 * self.a

    assert Part(2).b == 4


def test_the_signature_is_that_of_the_fields():
    signature = inspect.signature(Pair)
    assert str(signature) == str(inspect.signature(dataclasses.make_dataclass("Pair", FIELDS)))
    assert signature == inspect.signature(Pair.__init__).replace(parameters=list(signature.parameters.values()))
    assert next(iter(inspect.signature(ll.OnlineSGD).parameters)) == "learning_rate"


FIELDS = [("a", Any), ("name", str, "p"), ("b", Any, 2.0)]


# --- what is abstract --------------------------------------------------------------------------------------------


class Promise(Module):
    first: AbstractVar[float]
    second: "AbstractVar[float]"
    third: int

    @abc.abstractmethod
    def method(self): ...


def test_what_is_promised_has_to_be_there():
    class NoMethod(Promise):
        first: float
        second: float = 1.0

    class NoSecond(Promise):
        first: ClassVar[float] = 1.0

        def method(self): ...

    class Whole(NoSecond):
        @property
        def second(self):
            return 2.0

    with pytest.raises(TypeError, match="abstract"):
        NoMethod(1, 2.0)
    with pytest.raises(TypeError, match="abstract class NoSecond without second"):
        NoSecond(1)
    assert (Whole(3).third, Whole(3).second) == (3, 2.0)


def test_a_promise_takes_no_place_among_the_fields():
    class Kept(Promise):
        later: int
        first: float
        second: float

        def method(self): ...

    assert [f.name for f in dataclasses.fields(Kept)] == ["third", "later", "first", "second"]
    assert "first" in Promise.__annotations__  # for who reads the class


# --- trees -------------------------------------------------------------------------------------------------------


def test_children_are_the_fields_in_order_and_have_their_names():
    leaves, structure = jax.tree_util.tree_flatten_with_path(Pair(1, "q", {"c": 3}))
    assert [(jax.tree_util.keystr(path), leaf) for path, leaf in leaves] == [(".a", 1), (".b['c']", 3)]
    assert isinstance(leaves[0][0][0], jax.tree_util.GetAttrKey)
    back = structure.unflatten([4, 5])
    assert type(back) is Pair and (back.a, back.name, back.b) == (4, "q", {"c": 5})
    assert jax.tree.structure(Pair(1, "q")) != jax.tree.structure(Pair(1, "r"))
    assert jax.tree.structure(Pair(1)) != jax.tree.structure(Other(1))
    assert jax.tree.structure(Pair(1)) == jax.tree.structure(Pair(2))


def test_a_property_in_the_place_of_a_field_is_no_leaf():
    class Fixed(Pair):
        def __init__(self):
            self.a = 1

        @property
        def b(self):
            return 7

    assert jax.tree.leaves(Fixed()) == [1] and Fixed().b == 7


def test_trees_are_differentiated_and_mapped():
    slope = jax.grad(lambda p: p.plus(3.0))(Pair(1.0))
    assert (float(slope.a), float(slope.b), slope.name) == (1.0, 3.0, "p")
    many = jax.vmap(lambda p: p.plus(1.0))(Pair(jnp.arange(3.0), "p", jnp.ones(3)))
    assert many.tolist() == [1.0, 2.0, 3.0]


def test_threads_that_make_the_first_one_agree_on_its_structure():
    for _ in range(20):
        cls: Any = type(Module)("Racy", (Module,), {"__annotations__": {"a": int}, "__module__": __name__})
        found: list[Any] = []
        start = threading.Barrier(4)

        def make(cls=cls, found=found, start=start):
            start.wait()
            found.append(jax.tree.structure(cls(1)))

        threads = [threading.Thread(target=make) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert all(one == found[0] for one in found)


# --- equal, copied, written --------------------------------------------------------------------------------------


def test_equal_are_one_structure_and_equal_leaves():
    assert Pair(1) == Pair(1) and Pair(1) != Pair(2) and Pair(1) != Pair(1, "q") and Pair(1) != Other(1)
    assert (Pair(1) == Pair(1)) is True and Pair(1) != 1
    x = np.array([1.0, 2.0])
    assert Pair(x) == Pair(x.copy()) == Pair(jnp.asarray(x))
    assert Pair(x) != Pair(x + np.eye(2)[1])  # not the first element alone
    assert Pair(x) != Pair(x.astype(np.float32)) and Pair(x) != Pair(x[None]) and Pair(np.float64(1)) != Pair(1.0)
    assert (Pair(x) == Pair(x)) is True
    assert hash(Pair(1)) == hash(Pair(1)) and len({Pair(1), Pair(1), Pair(2), Pair(1, "q")}) == 3
    with pytest.raises(TypeError):
        hash(Pair(x))
    assert bool(jax.jit(lambda a, b: a == b)(Pair(x), Pair(x)))


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_it_is_copied_and_pickled(again):
    one = Pair(np.arange(3.0), "q", [1, 2])
    back = again(one)
    assert back is not one and back == one and back.name == "q"
    with pytest.raises(dataclasses.FrozenInstanceError):
        back.a = 1


def test_a_class_that_another_process_does_not_have_goes_with_its_objects():
    code = """
import sys
from typing import Any
from limitlab.modules import Module, field
import cloudpickle
class Own(Module):
    a: Any
    name: str = field(static=True)
class Told(Own):
    def __init__(self, a):
        self.a, self.name = 2 * a, "told"
class Heir(Told):
    pass
sys.stdout.buffer.write(cloudpickle.dumps((Own(1, "n"), Heir(1))))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    own, heir = cloudpickle.loads(done.stdout)
    assert (jax.tree.leaves(own), own.name, jax.tree.leaves(heir), heir.name) == ([1], "n", [2], "told")
    assert jax.tree.leaves(type(own)(3, name="m")) == [3] and jax.tree.leaves(type(heir)(3)) == [6]


def test_a_class_of_a_class_that_another_process_does_not_have_goes_too():
    """Cloudpickle copies what stands for "no default", in class variables too."""
    code = """
import sys
from limitlab.modules import field
from limitlab.problems.part import Part
import cloudpickle
class Own(Part):
    a: float
    b: list = field(default_factory=list)
class Heir(Own):
    c: int = 3
sys.stdout.buffer.write(cloudpickle.dumps((Own(1.0), Heir(2.0, c=4))))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    own, heir = cloudpickle.loads(done.stdout)
    assert [repr(own), repr(heir)] == ["Own(a=1.0)", "Heir(a=2.0, c=4)"]
    assert repr(type(heir)(5.0, [6])) == "Heir(a=5.0, b=[6])"
    copied = type(own).__dataclass_fields__["a"]
    assert copied.default is dataclasses.MISSING and copied.default_factory is dataclasses.MISSING

    class Later(type(own)):
        d: int = 7

    assert repr(Later(1.0, d=8)) == "Later(a=1.0, d=8)"


def test_a_class_variable_of_another_module_stays_one(tmp_path, monkeypatch):
    """Written as a text, it is read where `ClassVar` has that name, and not where a class is derived."""
    (tmp_path / "their_parts.py").write_text(
        """from __future__ import annotations
from typing import ClassVar
from limitlab.modules import Module
class Base(Module):
    kind: ClassVar[str] = "base"
    a: float = 1.0
"""
    )
    monkeypatch.syspath_prepend(tmp_path)
    base = importlib.import_module("their_parts").Base
    heir = type(base)("Heir", (base,), {"__module__": inspect.__name__})
    assert list(inspect.signature(heir).parameters) == ["a"] and heir(2.0).a == 2.0


def test_an_object_from_a_file_is_a_tree_before_any_was_made():
    code = """
import pickle, sys, jax
from typing import Any
from limitlab.modules import Module
class Own(Module):
    a: Any
print(jax.tree.leaves(pickle.loads(bytes.fromhex(sys.argv[1]))))
"""
    words = b"\x80\x04c__main__\nOwn\n)\x81}(\x8c\x01aK\x05ub."  # Own.__new__(Own), then a = 5
    done = subprocess.run([sys.executable, "-c", code, words.hex()], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[5]"


def test_replace_makes_it_anew():
    assert dataclasses.replace(Pair(1, "q"), b=5) == Pair(1, "q", 5)
    with pytest.raises(TypeError):
        dataclasses.replace(Pair(1), c=2)


def test_it_prints_its_fields():
    class Part(Module):
        a: Any
        b: Any = field(repr=False, default=1)

    assert repr(Part(2)) == "Part(a=2)"
    assert repr(Part(np.zeros((2, 3)))) == "Part(a=float64[2, 3])"


def test_generic_classes_are_made_with_their_parameters():
    class Box(Module, Generic[T]):
        x: T

    assert Box[int](3).x == 3


def test_fields_and_promises_of_equinox_are_understood():
    class Base(Module):
        b: eqx.AbstractVar[int]

    class Part(Base):
        a: Any = eqx.field(static=True, converter=str)
        b: int = 1

    assert Part(2).a == "2" and jax.tree.leaves(Part(2)) == [1]
    with pytest.raises(TypeError, match="abstract"):
        Base()


def test_arrays_are_those_of_jax_and_numpy():
    assert all(map(is_array, [np.ones(2), jnp.ones(2), np.float64(1), np.bool_(True)]))
    assert not any(map(is_array, [1, 1.0, True, [1.0], "a", None]))
    assert all(map(is_array_like, [1, 1.0, 1j, True, np.ones(2), jnp.ones(2)]))
    assert not any(map(is_array_like, ["a", None, [1.0]]))


def test_one_place_of_a_tree_is_changed():
    tree = Pair(Pair(1.0), "q", (2.0, None))
    assert tree_at(lambda p: p.a.b, tree, 7) == Pair(Pair(1.0, b=7), "q", (2.0, None))
    assert tree_at(lambda p: p.a, tree, "new") == Pair("new", "q", (2.0, None))
    assert tree_at(lambda p: p.b[1], tree, 3, is_leaf=lambda x: x is None).b == (2.0, 3)
    assert tree_at(lambda p: p.b, tree, None).b is None
    same = Pair(x := np.ones(2), b=x)
    assert tree_at(lambda p: p.b, same, 0).a is x  # the place counts, not what is there
    for where in (lambda p: p.name, lambda p: 3, lambda p: p.b[1]):
        with pytest.raises(ValueError, match="one place"):
            tree_at(where, Pair(None, "q", (2.0, None)), 1)


# --- compiled ----------------------------------------------------------------------------------------------------


class Traces:
    """A function that notes how often it is traced."""

    def __init__(self, function: Callable):
        self.count = 0

        @functools.wraps(function)
        def noted(*args, **kwargs):
            self.count += 1
            return function(*args, **kwargs)

        self.compiled = filter_jit(noted)


def test_arrays_are_traced_and_all_else_is_static():
    kinds = []

    @filter_jit
    def f(*args):
        kinds.append([isinstance(x, jax.core.Tracer) for x in args])
        return jnp.zeros(())

    f(np.ones(2), jnp.ones(2), np.float64(1), 1, 1.0, True, "a", None, len)
    assert kinds == [[True, True, True] + 6 * [False]]
    with pytest.raises(ValueError, match="on-hashable"):
        f({1, 2})


def test_equal_static_arguments_are_one_program():
    seen = Traces(lambda x, how, p: x * p.a if how == "times" else x + p.a)
    f = seen.compiled
    for value in (1.0, 2.0):
        assert float(f(jnp.asarray(value), "ti" + "mes", Pair(np.float64(3)))) == 3 * value
    assert seen.count == 1
    assert float(f(jnp.asarray(1.0), "plus", Pair(np.float64(3)))) == 4
    f(jnp.asarray(1.0), "plus", Pair(np.float64(3), "q"))
    f(jnp.ones(2), "plus", Pair(np.float64(3), "q"))
    assert seen.count == 4


def test_one_and_one_point_zero_are_two_programs():
    f = filter_jit(lambda n: jnp.asarray(n))
    assert [f(n).dtype for n in (1, 1.0, True)] == [jnp.asarray(n).dtype for n in (1, 1.0, True)]


def test_zeros_of_either_sign_are_two_programs():
    f = filter_jit(lambda x: jnp.stack([jnp.signbit(x.real), jnp.signbit(jnp.asarray(x).imag)]))
    assert [f(x).tolist() for x in (0.0, -0.0)] == [[False, False], [True, False]]
    assert [f(x).tolist() for x in (complex(1, 0.0), complex(1, -0.0))] == [[False, False], [False, True]]
    seen = Traces(lambda x, y: x + y)
    assert [float(seen.compiled(np.float64(1), y)) for y in (0.0, 0.0, 2.0)] == [1, 1, 3] and seen.count == 2


def test_an_argument_is_the_same_by_name_and_by_place():
    seen = Traces(lambda x, n=1, *, k=0: x * n + k)
    f = seen.compiled
    assert [float(f(*a, **k)) for a, k in [((2.0,), {"n": 3}), ((2.0, 3), {}), ((), {"n": 3, "x": 2.0})]] == 3 * [6.0]
    assert seen.count == 1
    assert float(f(2.0, 3, k=1)) == 7
    with pytest.raises(TypeError):
        f(2.0, m=1)
    with pytest.raises(TypeError):
        f()


def test_what_is_no_array_comes_back_as_it_is():
    mark = object()
    x, n, name, thing, tree = filter_jit(lambda x: (x + 1, 3, "a", mark, Pair(x, "q", None)))(jnp.ones(2))
    assert isinstance(x, jax.Array) and (n, name, thing) == (3, "a", mark) and type(n) is int
    assert type(tree) is Pair and (tree.name, tree.b) == ("q", None) and isinstance(tree.a, jax.Array)
    assert filter_jit(lambda: None)() is None
    assert isinstance(filter_jit(lambda x: np.ones(2))(1), jax.Array)


def test_one_function_is_compiled_once_however_often_it_is_wrapped():
    count = []

    def f(x):
        count.append(1)
        return x + 1

    assert [float(filter_jit(f)(jnp.ones(()))) for _ in range(3)] == [2.0, 2.0, 2.0] and len(count) == 1
    assert filter_jit(f)._cached._cache_size() == 1


def test_programs_go_with_their_function():
    import gc
    import weakref

    def made():
        f = lambda x: x + 1  # noqa: E731
        filter_jit(f)(jnp.ones(()))
        return weakref.ref(f)

    gone = made()
    gc.collect()
    assert gone() is None


class Holder(Module):
    a: Any
    count: ClassVar[list] = []

    @filter_jit
    def times(self, x, n=1):
        self.count.append(isinstance(self.a, jax.core.Tracer))
        return self.a * x * n

    def plain(self, x):
        self.count.append(isinstance(self.a, jax.core.Tracer))
        return self.a * x

    def __call__(self, x):
        return self.plain(x)


@pytest.mark.parametrize("use", ["decorated", "bound", "called", "handed on"])
def test_a_method_is_compiled_once_for_all_objects(use):
    Holder.count.clear()
    apply = filter_jit(lambda f, x: f(x))
    for a in (2.0, 3.0):
        one = Holder(np.float64(a))
        calls = {
            "decorated": lambda x, one=one: one.times(x),
            "bound": lambda x, one=one: filter_jit(one.plain)(x),
            "called": lambda x, one=one: filter_jit(one)(x),
            "handed on": lambda x, one=one: apply(one.plain, x),
        }
        assert float(calls[use](jnp.asarray(5.0))) == 5 * a
    assert Holder.count == [True]


def test_a_decorated_method_takes_names_too():
    assert float(Holder(np.float64(2)).times(jnp.asarray(5.0), n=3)) == 30
    assert Holder.times.__name__ == "times" and list(inspect.signature(Holder.times).parameters) == ["self", "x", "n"]


def test_partial_functions_and_functions_of_jax_are_compiled():
    f = filter_jit(functools.partial(lambda x, n: x * n, n=3))
    assert float(f(jnp.ones(()))) == 3 and float(filter_jit(jax.jit(jnp.sin))(0.0)) == 0
    assert float(filter_jit(jnp.add)(jnp.ones(()), 1)) == 2


@filter_jit
def shown(x):
    return x


def named(x):
    """Its words."""
    return x + 1


def test_it_keeps_what_is_said_of_the_function():
    f = filter_jit(named)
    assert (f.__name__, f.__qualname__, f.__doc__, f.__module__) == ("named", "named", "Its words.", __name__)
    assert f.__wrapped__ is named and inspect.signature(f) == inspect.signature(named)
    assert "jit_named" in f.lower(1.0).as_text()
    assert "jit_plain" in filter_jit(Holder(np.float64(1)).plain).lower(1.0).as_text()
    assert "jit_named" in filter_jit(functools.partial(named)).lower(1.0).as_text()
    assert pickle.loads(pickle.dumps(shown)) is shown and copy.deepcopy({1: shown})[1] is shown


def test_it_is_lowered_and_compiled_by_hand():
    program = filter_jit(lambda x, n: (x * n, "a")).lower(jnp.ones(3), 2).compile()
    out, word = program(jnp.arange(3.0), 2)
    assert out.tolist() == [0.0, 2.0, 4.0] and word == "a"
    assert program.compiled.memory_analysis() is not None


def test_it_is_transformed_like_any_other_function():
    f = filter_jit(lambda p, x: p.plus(x))
    assert float(
        jax.grad(f)(Pair(1.0), jnp.asarray(2.0)).b if False else jax.grad(lambda b: f(Pair(1.0, b=b), 2.0))(1.0)
    )
    assert jax.vmap(f, (None, 0))(Pair(jnp.ones(())), jnp.arange(2.0)).tolist() == [1.0, 3.0]
    assert float(jax.jit(lambda x: f(Pair(x), 1.0))(2.0)) == 4.0


def test_the_numbers_are_there_when_it_returns():
    """Whoever measures the time of a call measures that of its numbers."""
    f = filter_jit(lambda x: jax.lax.fori_loop(0, 60, lambda _, y: y @ y / jnp.linalg.norm(y), x))
    x = jnp.ones((300, 300))
    f(x)
    assert f(x).is_ready()
