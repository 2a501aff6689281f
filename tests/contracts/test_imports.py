"""Where modules of ours may be imported: at the top of a file, and by the gallery only as a user would."""

import ast
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
HELPERS = ("entry", "figures", "fits", "descent.success_curves")


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
