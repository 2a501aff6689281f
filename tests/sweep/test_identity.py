"""Numbers that belong to another question: what tells two functions, parts and values apart, and what is refused."""

import dataclasses
import datetime
import enum
import functools
import importlib
import os
import subprocess
import sys
import threading
import types
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

import limitlab as ll
from cases import committee
from limitlab.errors import InputError
from limitlab.sweep.identity import describe, hash_of
from limitlab.sweep.storage.store import Store

RATE = "algorithm.learning_rate"
PROBLEM = committee("linear", "linear", p=1, k=1, learning_rate=0.5)


def name(value):
    return hash_of(describe(value))


def made(source, what="f", **there):
    """What a piece of source defines, as a module of its own would."""
    space = {"__name__": "somebody", **there}
    exec(source, space)
    return space[what]


def module(**values):
    new = types.ModuleType("their_constants")
    vars(new).update(values)
    return new


# --- pairs that must differ ---------------------------------------------------------------------------------

SCALED = """
import functools
def scaled(k):
    def around(g):
        @functools.wraps(g)
        def inner(*words):
            return k * g(*words)
        return inner
    return around
@scaled({})
def f(x):
    return x
"""
CALLABLE = """
class C:
    def __init__(self, k):
        self.k = k
    def __repr__(self):
        return "C"
    def __call__(self, problem):
        return self.k {}
f = C({})
"""
CATCH = "    except ValueError:\n        pass\n"

TEMPLATES = {  # the same source with two different words in it
    "a wrapper": (SCALED, "2", "3"),
    "a global": ("G = {}\ndef f(x):\n    return G * x", "2", "3"),
    "a global of a function that is called": (
        "G = {}\ndef h(x):\n    return G * x\ndef f(x):\n    return h(x)",
        "2",
        "3",
    ),
    "a function that is called": ("def h(x):\n    return x {}\ndef f(x):\n    return h(x)", "+ 1", "- 1"),
    "a whole number and a float": ("G = {}\ndef f(x):\n    return x // G", "2", "2.0"),
    "a float in a default": ("def f(x, k={}):\n    return x // k", "2", "2.0"),
    "a negative zero": ("G = {}\ndef f(x):\n    return math.copysign(x, G)", "0.0", "-0.0"),
    "a list and an array": ("import numpy\nG = {}\ndef f(x):\n    return len(2 * G)", "[1, 2]", "numpy.array([1, 2])"),
    "a list and a tuple": ("G = {}\ndef f(x):\n    return x == G", "[1, 2]", "(1, 2)"),
    "long lists of floats": ("G = {}\ndef f(x):\n    return G[0] // 2", "[2] * 99", "[2.0] * 99"),
    "precision of an array": (
        "import numpy\nG = numpy.ones(3, {})\ndef f(x):\n    return G / 3",
        "numpy.float32",
        "numpy.float64",
    ),
    "precision of an array of JAX": (
        "import jax.numpy\nG = jax.numpy.ones(3, {})\ndef f(x):\n    return G / 3",
        "jax.numpy.float32",
        "jax.numpy.float64",
    ),
    "an array of NumPy and of JAX": (
        "import jax.numpy, numpy\nG = {}.ones(3)\ndef f(x):\n    return G / 3",
        "numpy",
        "jax.numpy",
    ),
    "a precision in a set": ("G = {{{}}}\ndef f(x):\n    return [k // 2 for k in G]", "2", "2.0"),
    "types in an object's state": (CALLABLE.replace(" {}", "", 1), "2", "2.0"),
    "an attribute of an array of one's own": (
        "import numpy\nclass A(numpy.ndarray):\n    pass\nG = numpy.ones(2).view(A)\nG.k = {}\ndef f(x):\n    return G",
        "2",
        "3",
    ),
    "a global in a comprehension": ("G = {}\ndef f(x):\n    return [G * y for y in x]", "2", "3"),
    "a global list": ("G = [1, {}]\ndef f(x):\n    return G[0] * x", "2", "3"),
    "a global of a nested class": ("G = {}\ndef f(x):\n    class A:\n        k = G\n    return A.k", "2", "3"),
    "a class that is used": ("class A:\n    def m(self):\n        return {}\ndef f(x):\n    return A().m()", "2", "3"),
    "a base class": (
        "class B:\n    def m(self):\n        return {}\nclass A(B):\n    pass\ndef f(x):\n    return A().m()",
        "2",
        "3",
    ),
    "a default": ("def f(x, k={}):\n    return x", "2", "3"),
    "a default of a keyword": ("def f(x, *, k={}):\n    return x", "2", "3"),
    "how arguments are taken": ("def f(x, {} k=1):\n    return x", "", "*,"),
    "an attribute": ("def f(x):\n    return f.k\nf.k = {}", "2", "3"),
    "a closure": ("def g(k):\n    return lambda x: k * x\nf = g({})", "2", "3"),
    "a closure's text and number": ("def g(k):\n    return lambda x: k\nf = g({})", "1", "'1'"),
    "mutual recursion": ("G = {}\ndef f(n):\n    return g(n - 1)\ndef g(n):\n    return f(n) if n else G", "2", "3"),
    "what is tried": (
        "def f(x):\n    try:\n        a(x)\n{}    return 1\n",
        "        b(x)\n" + CATCH,
        CATCH + "    b(x)\n",
    ),
    "a jitted function": ("import jax\nG = {}\n@jax.jit\ndef f(x):\n    return G * x", "2", "3"),
    "static arguments": ("import jax\nf = jax.jit(lambda x, n=2: x * n{})", "", ", static_argnames='n'"),
    "a filtered function": ("import equinox\nG = {}\n@equinox.filter_jit\ndef f(x):\n    return G * x", "2", "3"),
    "a mapped function": ("import jax\ndef g(x):\n    return {} * x\nf = jax.vmap(g)", "2", "3"),
    "axes of a map": ("import jax\nf = jax.vmap(lambda x: x, in_axes={})", "0", "1"),
    "a derivative": ("import jax\nf = jax.grad(lambda x: x ** {})", "2", "3"),
    "a partial": ("import functools\nf = functools.partial(lambda x, k: x, k={})", "2", "3"),
    "a bound method": ("class A:\n    k = {}\n    def m(self, x):\n        return self.k\nf = A().m", "2", "3"),
    "state of an object": (CALLABLE.format("", "{}"), "2", "3"),
    "code of an object": (CALLABLE.format("{}", "1"), "+ 1", "- 1"),
    "slots": (
        "class A:\n    __slots__ = ('k',)\n    def __init__(self):\n        self.k = {}\n"
        "    def __call__(self, x):\n        return self.k\nf = A()",
        "2",
        "3",
    ),
    "a property": ("class A:\n    @property\n    def k(self):\n        return {}\nf = A()", "2", "3"),
    "a cached property": (
        "import functools\nclass A:\n    @functools.cached_property\n    def k(self):\n        return {}\nf = A()",
        "2",
        "3",
    ),
    "a cached function": ("import functools\n@functools.lru_cache\ndef f(x):\n    return {}", "2", "3"),
    "members of an enum": ("import enum\nclass E(enum.Enum):\n    A = {}\nf = lambda x: E.A.value", "2", "3"),
    "a converter of a field": (
        "import equinox as eqx\nclass A(eqx.Module):\n    k: float = eqx.field(converter=lambda x: {} * x)\n"
        "def f(x):\n    return A(1.0).k",
        "2",
        "3",
    ),
    "a factory of a field": (
        "import dataclasses\n@dataclasses.dataclass\nclass A:\n"
        "    k: float = dataclasses.field(default_factory=lambda: {})\ndef f(x):\n    return A().k",
        "2",
        "3",
    ),
    "a set": ("f = frozenset(['a', {}])", "'b'", "'c'"),
    "which axis of a ufunc's friend": ("import numpy\nf = numpy.vectorize(lambda x: {} * x)", "2", "3"),
    "a log that is read": ("LOG = {}\ndef f(x):\n    LOG.append(x)\n    return len(LOG)", "[]", "[1]"),
    "a log that is returned": ("LOG = {}\ndef f(x):\n    return LOG.append(x)", "[]", "[1]"),
    "a log that is looked into": ("LOG = {}\ndef f(x):\n    LOG.append(LOG[-1:])\n    return 1", "[]", "[1]"),
}


@pytest.mark.parametrize("what", TEMPLATES)
def test_what_differs_is_told_apart_and_what_does_not_is_the_same(what):
    source, *words = TEMPLATES[what]
    one, other = map(source.format, words)
    assert name(made(one)) != name(made(other))
    assert name(made(one)) == name(made("# moved\n\n" + one)) == name(made(one, __name__="elsewhere"))


def pairs():
    """Values that are easily confused."""
    whole = np.arange(100) + 2**60
    other = whole.copy()
    other[3] += 1
    ds = xr.Dataset({"x": ("u", [1.0, 2.0])}, {"u": [1, 2]})
    return {
        "keys": ({1: 2.0}, {"1": 2.0}),
        "keys of one repr": ({1: 2, "1": 3}, {1: 3, "1": 2}),
        "whole numbers": (whole, other),
        "unsigned": (whole.astype(np.uint64), other.astype(np.uint64)),
        "whole numbers among floats": ([2**60, 0.5], [2**60 + 1, 0.5]),
        "truth values": ([True, 2], [1, 2]),
        "signs of whole numbers": ([2**63 + 1, -1], [2**63 + 3, -1]),
        "arrays in a list": ([np.array([2**60, 1]), [0.5, 1]], [np.array([2**60 + 1, 1]), [0.5, 1]]),
        "empty shapes": (np.zeros((0, 2)), np.zeros((0, 3))),
        "complex": (1j, 2j),
        "complex arrays": (np.array([1j]), np.array([2j])),
        "dates": (np.datetime64("2020-01-01"), np.datetime64("2020-01-02")),
        "units of dates": (np.datetime64(1, "D"), np.datetime64(1, "h")),
        "times": (datetime.datetime(2020, 1, 1), datetime.datetime(2020, 1, 2)),
        "long doubles": (np.longdouble(1), np.longdouble(1) + np.finfo(np.longdouble).eps),
        "bytes": (b"a", "a"),
        "none": ([None], ["none"]),
        "coordinates": (ds, ds.assign_coords(u=[1, 3])),
        "attributes": (ds, ds.assign_attrs(a=1)),
        "masks": (np.ma.array([1, 2], mask=[0, 1]), np.ma.array([1, 2], mask=[0, 0])),
        "keys of random numbers": (jax.random.key(0), jax.random.key(1)),
        "generators": (np.random.default_rng(0), np.random.default_rng(1)),
        "modules": (lambda x, m=None: np, lambda x, m=None: jnp),
    }


@pytest.mark.parametrize("what", pairs())
def test_values_are_told_apart(what):
    (one, other), (again, _) = pairs()[what], pairs()[what]
    assert name(one) != name(other)
    assert name(one) == name(again)


class Colour(enum.Enum):
    RED = 1


def plain(x):
    return jnp.sin(x)


@pytest.mark.parametrize(
    "one",
    [
        np.exp,
        jnp.exp,
        jnp.add,
        jax.nn.relu,
        jax.scipy.special.erf,
        len,
        str.upper,
        Colour.RED,
        Colour,
        jax.custom_jvp(plain),
        jax.checkpoint(plain),
        jax.value_and_grad(plain),
        eqx.filter_vmap(plain),
        functools.lru_cache(plain),
        range(3),
        Path("a"),
        datetime.timedelta(1),
        np.dtype(float),
        slice(1, 2),
        ll.predict,
    ],
    ids=lambda one: type(one).__name__,
)
def test_what_is_known_stays_known(one):
    assert name(one) == name(one)


def test_functions_of_packages_are_known_by_their_places():
    assert describe(ll.predict) == {"function": "limitlab:predict"}
    assert describe(np.exp) == {"function": "numpy:exp"}
    assert describe(jnp.exp) == {"function": "jax.numpy:exp"}


def test_lambdas_of_a_package_are_not_all_one():
    one, other = (made(f"f = lambda x: {k} * x", __name__="numpy.somewhere") for k in (2, 3))
    assert name(one) != name(other)


def test_what_has_been_called_is_what_it_was():
    """Compiled programs and other caches are no part of a function."""
    functions = [jax.jit(plain), eqx.filter_jit(plain), jax.vmap(plain), np.vectorize(plain), jax.custom_jvp(plain)]
    for function in functions[:-1]:
        before = name(function)
        function(jnp.ones(2))
        assert name(function) == before


def test_attributes_of_modules_that_are_read_count_and_others_do_not():
    source = "def g(m):\n    return lambda x: m.K * x\nf = g(M)\nh = lambda x: M.K * x"
    for what in ("f", "h"):
        one, other, more = (
            name(made(source, what, M=m)) for m in (module(K=1), module(K=2), module(K=1, unused=threading.Lock()))
        )
        assert one == more != other
    inner = [module(sub=module(K=k)) for k in (1, 2)]
    one, other = (name(made("def f(x):\n    return M.sub.K", M=m)) for m in inner)
    assert one != other


def test_modules_that_are_imported_inside_count_too(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    found = []
    for k in (1, 2):
        (tmp_path / "their_module.py").write_text(f"K = {k}\ndef g():\n    return {k}\n")
        sys.modules.pop("their_module", None)
        importlib.invalidate_caches()
        sys.dont_write_bytecode, kept = True, sys.dont_write_bytecode
        words = (
            "import their_module\n    return their_module.K",
            "from their_module import g\n    return g()",
            "import their_module as m\n    return m.g()",
        )
        found.append([name(made(f"def f(x):\n    {each}")) for each in words])
        sys.dont_write_bytecode = kept
    assert all(one != other for one, other in zip(*found, strict=True))


def test_a_log_that_is_only_written_is_no_part_of_a_function():
    """It grows with every call, and nothing that is computed depends on it."""
    source = "LOG = {}\ndef f(x):\n    LOG.append((x, max(x, 1)))\n    return x"
    assert name(made(source.format("[]"))) == name(made(source.format("[1]")))


REFUSED = {
    "a lock": (
        "import threading\nL = threading.Lock()\ndef f(x):\n    with L:\n        return x",
        r"lock.*read as f\.L",
    ),
    "a file": ("import sys\nF = sys.__stdout__\ndef f(x):\n    return F.read()", "TextIOWrapper"),
    "an iterator": ("G = (i for i in [1])\ndef f(x):\n    return next(G)", "generator"),
    "eval": ("def f(x):\n    return eval('x')", "use eval"),
    "globals": ("def f(x):\n    return globals()['x']", "use globals"),
    "a whole module": (
        "def h(m):\n    return m.K\ndef f(x):\n    return h(M)",
        "their_constants, passed on whole",
    ),
    "a ufunc of one's own": ("import numpy\nf = numpy.frompyfunc(lambda x: x, 1, 1)", "such ufuncs"),
    "a list in itself": ("f = []\nf.append(f)", "contain themselves"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_known_for_certain_is_refused_in_words(what):
    source, words = REFUSED[what]
    with pytest.raises(InputError, match=words) as refused:
        describe(made(source, M=module(K=1)))
    assert 'name it yourself: sweep(..., name="v2")' in str(refused.value)
    assert describe(made(source, M=module(K=1)), strict=False) is not None


# --- other processes ----------------------------------------------------------------------------------------

THEIRS = '''
"""A user's module: run as a script it prints what it is known by, imported it is the same."""
import functools
import numpy as np
import limitlab as ll

FACTORS = {"a": 2.0, "b": np.arange(3)}
WORDS = {"x", "y", "z"}

def helper(x):
    return x in WORDS or x in {"p", "q", "r"}

class Part(ll.AbstractLoss):
    scale: float = 1.0
    def value(self, y, z):
        return self.scale * (y - z) ** 2 / FACTORS["a"]
    def gradient(self, y, z):
        return z - y, 1.0

def verb(problem, k=frozenset({"u", "v", "w"})):
    return Part(2.0).scale * helper("x")

def show():
    from limitlab.sweep.identity import describe, hash_of
    print(hash_of(describe(verb)), hash_of(describe(Part)), hash_of(describe(helper)))

if __name__ == "__main__":
    show()
'''


def test_a_script_is_the_same_when_it_is_imported_and_in_every_process(tmp_path):
    (tmp_path / "theirs.py").write_text(THEIRS)
    (tmp_path / "moved.py").write_text("# some lines\n\n\n" + THEIRS)
    said = set()
    for seed, words in (("1", ["theirs.py"]), ("2", ["moved.py"]), ("3", ["-c", "import theirs; theirs.show()"])):
        run = subprocess.run(
            [sys.executable, *words],
            cwd=tmp_path,
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        said.add(run.stdout)
    assert len(said) == 1, said


# --- parts of a user's own ----------------------------------------------------------------------------------

PART = """
import limitlab as ll
G = {g}
class {cls}(ll.OnlineSGD):
    def clock(self, problem, d):
        return {code} * G * self.learning_rate / d
rule = {cls}(0.5)
"""


def rule(g=1, cls="Mine", code="1", before=""):
    source = before + PART.format(g=g, cls=cls, code=code)
    return dataclasses.replace(PROBLEM, algorithm=made(source, "rule"))


@pytest.mark.parametrize("identify", [ll.spec_hash, name], ids=["spec_hash", "store"])
def test_a_part_is_known_by_its_code_and_never_by_its_name_alone(identify):
    mine = identify(rule())
    assert mine == identify(rule())
    edited = [rule(code="2"), rule(g=2), rule(cls="Other"), rule(cls="OnlineSGD"), PROBLEM]
    assert len({mine, *map(identify, edited)}) == 6


def test_an_activation_with_one_of_our_names_is_not_ours():
    class Tanh(ll.problems.activations.AbstractActivation):
        @property
        def name(self):
            return "tanh"

        def function(self, x):
            return 2 * jnp.tanh(x)

        def derivative(self, x):
            return 2 / jnp.cosh(x) ** 2

    hashes = [
        ll.spec_hash(ll.Problem(teacher=ll.Committee(1, activation)))
        for activation in ("tanh", Tanh(), ll.shifted("tanh", 0.5), ll.shifted(Tanh(), 0.5))
    ]
    assert len(set(hashes)) == 4


def test_a_field_called_kind_does_not_hide_the_class():
    def part(cls):
        source = f"import limitlab as ll\nclass {cls}(ll.OnlineSGD):\n    kind: str = 'x'\nrule = {cls}(0.5)"
        return dataclasses.replace(PROBLEM, algorithm=made(source, "rule"))

    assert ll.spec_hash(part("A")) != ll.spec_hash(part("B"))
    assert name(part("A")) != name(part("B"))


def test_samplers_are_told_apart_by_spec_hash():
    """They draw from a key, so that no jaxpr of numbers exists."""

    def inputs(width):
        return ll.CustomInputs(lambda key, count, d: (jax.random.normal(key, (count, d)) * width, jnp.ones(count)))

    student = {"student": ll.Committee(2, "relu"), "loss": ll.SquareLoss(), "start": ll.RandomStart()}
    problems = [ll.Problem(inputs=inputs(w), algorithm=ll.OnlineSGD(0.1), **student) for w in (1.0, 2.0, 1.0)]
    one, other, again = map(ll.spec_hash, problems)
    assert one == again != other


def test_a_part_that_cannot_be_known_equals_itself_alone(tmp_path):
    one, other = (rule(code="(L is not None)", before="import threading\nL = threading.Lock()\n") for _ in range(2))
    assert ll.spec_hash(one) == ll.spec_hash(one) != ll.spec_hash(other)
    with pytest.raises(InputError, match=r"lock objects apart \(read as Mine\.clock\.L\).*name it yourself"):
        ll.sweep(rate_of, one, {RATE: [0.1]}, store=tmp_path / "s")
    ll.sweep(rate_of, one, {RATE: [0.1]}, store=tmp_path / "s", name="v1")


# --- end to end ---------------------------------------------------------------------------------------------


def rate_of(problem):
    return problem.algorithm.learning_rate


def run(folder, verb, problem=PROBLEM, **keywords):
    """The values, and how many points were found and computed."""
    ds = ll.sweep(verb, problem, {RATE: [0.5, 0.25]}, store=folder, **keywords)
    last = list(Store(folder).runs().values())[-1]
    return next(iter(ds.data_vars.values())).values.tolist(), last["found"], last["done"]


def scaled(k):
    def around(function):
        @functools.wraps(function)
        def inner(problem):
            return k * function(problem)

        return inner

    return around


FACTOR = 2.0


def by_global(problem):
    return FACTOR * problem.algorithm.learning_rate


class Times:
    def __init__(self, k):
        self.k = k

    def __repr__(self):
        return "Times"

    def __call__(self, problem):
        return self.k * problem.algorithm.learning_rate


def closed_over(constants):
    return lambda problem: constants.K * problem.algorithm.learning_rate


def two_and_three(kind, monkeypatch):
    """Two verbs that double and treble, made in a way that was once the same."""
    if kind == "wrapper":
        return lambda k: scaled(k)(rate_of)
    if kind == "object":
        return Times
    if kind == "module":
        constants = module(K=None)
        return lambda k: (setattr(constants, "K", k), closed_over(constants))[1]
    return lambda k: (monkeypatch.setitem(globals(), "FACTOR", float(k)), by_global)[1]


@pytest.mark.parametrize("kind", ["wrapper", "object", "module", "global"])
def test_another_function_is_computed_anew_and_the_same_one_is_served(kind, tmp_path, monkeypatch):
    verb = two_and_three(kind, monkeypatch)
    assert run(tmp_path / "s", verb(2)) == ([1.0, 0.5], 0, 2)
    assert run(tmp_path / "s", verb(3)) == ([1.5, 0.75], 0, 2)
    assert run(tmp_path / "s", verb(2)) == ([1.0, 0.5], 2, 0)


def test_an_edited_part_is_another_point(tmp_path):
    def clock(problem):
        return problem.algorithm.clock(problem, 1.0)

    assert run(tmp_path / "s", clock, rule())[1:] == (0, 2)
    assert run(tmp_path / "s", clock, rule(code="2"))[1:] == (0, 2)
    assert run(tmp_path / "s", clock, rule(cls="OnlineSGD"))[1:] == (0, 2)
    assert run(tmp_path / "s", clock, PROBLEM)[1:] == (0, 2)
    assert run(tmp_path / "s", clock, rule())[1:] == (2, 0)


LOCK = threading.Lock()


def guarded(problem):
    with LOCK:
        return FACTOR * problem.algorithm.learning_rate


def test_what_is_refused_can_be_named(tmp_path, monkeypatch):
    with pytest.raises(InputError, match=r"lock objects apart \(read as guarded\.LOCK\)"):
        run(tmp_path / "s", guarded)
    assert list(Store(tmp_path / "s").keys()) == []
    assert run(tmp_path / "s", guarded, name="v1") == ([1.0, 0.5], 0, 2)
    assert run(tmp_path / "s", guarded, name="v1") == ([1.0, 0.5], 2, 0)
    monkeypatch.setitem(globals(), "FACTOR", 3.0)
    assert run(tmp_path / "s", guarded, name="v2") == ([1.5, 0.75], 0, 2)
    assert run(tmp_path / "s", guarded, name="v1")[1:] == (2, 0)  # whoever names it vouches for it
    found = ll.refine(
        guarded, PROBLEM, {RATE: (0.1, 1.0)}, of="guarded", level=1.0, budget=8, store=tmp_path / "s", name="v2"
    )
    assert 0.2 < float(found) < 0.5


def test_a_name_stands_for_code_and_not_for_values(tmp_path):
    """One name, two closures, objects or arguments: these are still told apart."""
    assert run(tmp_path / "s", scaled(2)(rate_of), name="v1")[0] == [1.0, 0.5]
    assert run(tmp_path / "s", scaled(3)(rate_of), name="v1")[0] == [1.5, 0.75]
    assert run(tmp_path / "s", made("def rate_of(problem):\n    return 7.0", "rate_of"), name="v1")[0] == [7.0, 7.0]
    assert run(tmp_path / "s", Times(2), name="v1")[0] == [1.0, 0.5]
    assert run(tmp_path / "s", Times(3), name="v1")[0] == [1.5, 0.75]


def test_names_are_texts_and_do_not_hide_arguments():
    def titled(problem, name="x"):
        return 1.0

    for bad in ("", 2, object()):
        with pytest.raises(InputError, match=r"sweep\.name must be a text"):
            ll.sweep(rate_of, PROBLEM, {RATE: [0.1]}, name=bad)
    with pytest.raises(InputError, match="titled has an argument of that name"):
        ll.sweep(titled, PROBLEM, {RATE: [0.1]}, name="v1")


def test_sweeps_over_parts_of_one_class_keep_their_own_records(tmp_path):
    """Their labels are alike: a record that replaced the other would make its points litter."""
    for scales in ((0.5, 0.7), (0.6, 0.8)):
        starts = [ll.RandomStart(scale=scale) for scale in scales]
        ll.sweep(lambda problem: problem.start.scale, PROBLEM, {"start": starts}, store=tmp_path / "s")
    assert len(Store(tmp_path / "s").sweeps()) == 2
