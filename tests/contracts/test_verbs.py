"""A verb names no concrete class: what it wants to know, it asks of the nouns."""

import ast
import inspect
from pathlib import Path

import pytest

import limitlab
from limitlab.cli import warm
from limitlab.macro.predict import LIMITS
from limitlab.spec import known_kinds

SOURCE = Path(limitlab.__file__).parent
ROOMS = ("micro/simulate.py", "macro/predict.py", "results", "spec", "sweep", "cli", "plot.py", "figures", "cite.py")
FILES = [path for room in ROOMS for path in (sorted((SOURCE / room).rglob("*.py")) or [SOURCE / room])]


def concrete() -> set[str]:
    """Names of the concrete parts that a problem may have, and of the limits."""
    return {name for group in known_kinds().values() for name in group} | set(LIMITS)


def names_in(text: str) -> set[str]:
    """Names that a module uses: bare, dotted, imported, and as a text of its own (a key, an annotation).

    A sentence that mentions a class as an example is none.
    """
    found: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            found |= {alias.name.rpartition(".")[2] for alias in node.names}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value)
    return found


# The catalogue of limits is written where `predict` is, and is the only table of classes. `warm` runs the README's
# problems as a user would: what it names is what it builds.
CATALOGUE = {"macro/predict.py": set(LIMITS), "cli/warm.py": names_in(inspect.getsource(warm.cases))}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_verb_names_no_concrete_class(path):
    own = str(path.relative_to(SOURCE))
    named = names_in(path.read_text(encoding="utf-8")) & concrete()
    assert not named - CATALOGUE.get(own, set())


def test_every_verb_is_looked_at():
    assert {"simulate.py", "predict.py", "compare.py", "plot.py", "cite.py", "run.py", "commands.py"} <= {
        path.name for path in FILES
    }
    assert {"OnlineSGD", "SparseTarget", "GaussianNoise", "GAMP", "OverlapODE", "RandomStart"} <= concrete()


@pytest.mark.parametrize(
    "text",
    [
        "isinstance(problem.algorithm, OnlineSGD)",
        "from limitlab.problems.sparse.target import SparseTarget",
        "import limitlab as ll\nll.GAMP()",
        'CLOCKS = {"OnlineSGD": 1}',
        'type(rule).__name__ == "OnlineSGD"',
        "def f(rule: 'OnlineSGD'): ...",
    ],
)
def test_a_named_class_is_seen(text):
    assert names_in(text) & concrete()


def test_a_sweep_knows_no_verb_by_name():
    """It asks the verb what it can do (`families`, `cost`); a user's verb may say the same of itself."""
    for path in sorted((SOURCE / "sweep").rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        taken = {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
        assert not taken & {"simulate", "predict"}, path
