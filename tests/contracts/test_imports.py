"""Where modules may be imported: at the top of a file, by the gallery only as a user would. No caches by identity."""

import ast
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import limitlab as ll

SRC = Path(ll.__file__).parent
FILES = sorted(SRC.rglob("*.py"))

# (file, module) of imports inside functions, each with its reason. The command line starts fast and may do as it likes.
LATE = {
    (
        "algorithms/gamp/gamp.py",
        "limitlab.algorithms.gamp.estimator",
    ): "scikit-learn, slow to import, is its base",
}
BY_NAME = {  # who may import by a name that is a text, and why
    "_lazy.py": "the lazy namespace",
    "spec/kinds.py": "looks for all classes of the package",
    "spec/describe.py": "follows the imports of a user's code; knows `__import__` as a word",
    "gallery/__init__.py": "entries load when they are drawn",
    "_setup.py": "where JAX before 0.8 keeps its 64-bit context",
}
HELPERS = ("entry", "figures", "fits", "pools", "descent.success_curves")


def imported(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.ImportFrom) and node.module and not node.level:
        yield node.module
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)


def late_imports(tree: ast.AST) -> Iterator[str]:
    for function in ast.walk(tree):
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            for node in ast.walk(function):
                yield from imported(node)


def late_of_ours() -> set[tuple[str, str]]:
    found = set()
    for file in FILES:
        where = file.relative_to(SRC).as_posix()
        for module in late_imports(ast.parse(file.read_text())):
            if module.split(".")[0] == "limitlab" and not where.startswith("cli/"):
                found.add((where, module))
    return found


def test_modules_of_ours_are_imported_at_the_top():
    assert late_of_ours() - set(LATE) == set()


def test_no_exception_is_left_over():
    assert set(LATE) - late_of_ours() == set()


def test_only_third_parties_are_imported_late():
    """They may be slow to load, or not there. What costs nothing stands at the top."""
    for file in FILES:
        where = file.relative_to(SRC).as_posix()
        late = {module.split(".")[0] for module in late_imports(ast.parse(file.read_text()))}
        fast = where.startswith("cli/") or where == "_lazy.py"  # start fast
        assert fast or not late & set(sys.stdlib_module_names), where


def by_name(tree: ast.AST) -> bool:
    """Whether modules are imported by a text, which no list of imports shows."""
    named = {getattr(node, "attr", getattr(node, "id", None)) for node in ast.walk(tree)}
    return bool(named & {"import_module", "__import__"})


def test_modules_are_imported_by_name_where_it_is_said():
    found = {file.relative_to(SRC).as_posix() for file in FILES if by_name(ast.parse(file.read_text()))}
    assert {where for where in found if not where.startswith("cli/")} == set(BY_NAME)


# --- layers ----------------------------------------------------------------------------------------------------

CONTRACTS = {
    contract["name"]: contract
    for contract in tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["tool"]["importlinter"][
        "contracts"
    ]
}


def test_every_room_has_its_layer_and_the_two_roads_are_apart():
    layers = [
        {room.strip().removeprefix("limitlab.") for room in layer.split("|")}
        for layer in CONTRACTS["arrows go one way"]["layers"]
    ]
    rooms = {path.stem for path in SRC.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert set().union(*layers) == rooms - {"__init__"}
    assert any({"micro", "macro"} <= layer for layer in layers)  # a bar between two says: neither imports the other


def test_all_that_integrates_goes_through_one_door():
    contract = CONTRACTS["one door to the integrators"]
    behind = {f"limitlab.numerics.ode.{path.stem}" for path in (SRC / "numerics" / "ode").glob("*.py")}
    door = {"limitlab.numerics.ode.__init__", "limitlab.numerics.ode.integrate"}
    assert set(contract["forbidden_modules"]) == behind - door
    above = {f"limitlab.{path.parent.name}" for path in SRC.glob("*/__init__.py")} - {"limitlab.numerics"}
    assert set(contract["source_modules"]) == above


# --- nothing is kept by identity ---------------------------------------------------------------------------------

CONTAINERS = {"dict", "list", "set", "defaultdict", "OrderedDict", "deque"}
CONTAINERS |= {"WeakKeyDictionary", "WeakSet", "WeakValueDictionary"}
# (file, name) of what is filled while the program runs, and (file, function) of what asks for an id; with the reason.
FILLED = {
    ("_setup.py", "_lent"): "what the environment had before JAX was told by it; given back at once",
    ("aside.py", "_beside"): "the thread that computes just now",
    ("aside.py", "_left"): "threads that were given up, as long as there are any",
    ("bar.py", "live"): "the console that draws a bar just now",
    ("modules/classes.py", "_plans"): "what is known of the fields of a class, one for each",
    ("modules/compiled.py", "_programs"): "the program of a function goes with the function",
    ("spec/write.py", "_TOKENS"): "names of objects that nothing else tells apart; no result is looked up here",
}
IDENTITY = {
    ("numerics/gauss/terms.py", "_moment"): "a memo of one call, which keeps what it knows by id",
    ("spec/describe.py", "_thing"): "a memo of one description, which keeps what it knows by id",
    ("spec/write.py", "_this_one"): "the name of an object that cannot be described is its own",
}


def kept(tree: ast.Module) -> Iterator[str]:
    """Names of a module that begin as empty containers: caches and registers, filled at run time."""
    for node in tree.body:
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            value, targets = node.value, node.targets if isinstance(node, ast.Assign) else [node.target]
            empty = ast.unparse(value) in ("{}", "[]")
            if isinstance(value, ast.Call):
                empty = ast.unparse(value.func).rpartition(".")[2] in CONTAINERS and not value.args[1:]
                empty = empty and not (value.args and isinstance(value.args[0], ast.Call))
            if empty:
                yield from (ast.unparse(target) for target in targets)


def by_identity(tree: ast.Module) -> Iterator[str]:
    """Functions that ask for the id of something."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            calls = (node for node in ast.walk(function) if isinstance(node, ast.Call))
            if any(isinstance(call.func, ast.Name) and call.func.id == "id" for call in calls):
                yield function.name


def test_no_module_keeps_what_it_met_and_nothing_is_known_by_its_identity():
    trees = {file.relative_to(SRC).as_posix(): ast.parse(file.read_text()) for file in FILES}
    assert {(where, name) for where, tree in trees.items() for name in kept(tree)} == set(FILLED)
    assert {(where, name) for where, tree in trees.items() for name in by_identity(tree)} == set(IDENTITY)


def test_what_is_kept_is_seen():
    for text in ("_a = {}", "_a: dict[int, int] = {}", "_a = weakref.WeakKeyDictionary()", "_a = defaultdict(list)"):
        assert list(kept(ast.parse(text))) == ["_a"]
    assert not list(kept(ast.parse('TABLE = {"a": 1}\nB = dict(zip(x, y))\nC = ()')))
    assert list(by_identity(ast.parse("def f(x):\n    return cache[id(x)]"))) == ["f"]
    assert by_name(ast.parse("importlib.import_module(x)"))


def gallery_breaches(source: str) -> list[str]:
    """Imports of an entry that its reader could not copy."""
    allowed = {"limitlab", *(f"limitlab.gallery.{helper}" for helper in HELPERS)}
    breaches = []
    for node in ast.walk(ast.parse(source)):
        for module in imported(node):
            plain = isinstance(node, ast.Import) or module != "limitlab"
            if module.split(".")[0] == "limitlab" and not (module in allowed and plain):
                breaches.append(module)
    return breaches


ENTRIES = [path for path in sorted((SRC / "gallery").glob("*/*.py")) if path.name != "__init__.py"]


@pytest.mark.parametrize("path", ENTRIES, ids=lambda path: path.stem)
def test_the_gallery_uses_public_names_only(path):
    source = path.read_text()
    assert gallery_breaches(source) == []
    assert "import limitlab as ll\n" in source
    for node in ast.walk(ast.parse(source)):  # nothing private behind a public name
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "ll":
            assert node.attr in dir(ll)


def test_breaches_are_seen():
    assert gallery_breaches("import limitlab as ll\nfrom limitlab.gallery.entry import Check") == []
    for words in (
        "limitlab.micro.simulate import simulate",
        "limitlab import simulate",
        "limitlab.figures import average",
    ):
        assert gallery_breaches(f"from {words}")
    assert list(late_imports(ast.parse("def f():\n    from limitlab.files import x"))) == ["limitlab.files"]


def test_every_entry_is_listed_in_its_folder():
    found = {path.stem.replace("_", "-") for path in ENTRIES} - {"success-curves"}
    from limitlab.gallery import ENTRIES as listed

    assert found == set(listed)
    assert all(listed[name].name == name for name in listed)
