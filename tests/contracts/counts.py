"""How often the package asks what something is, instead of asking it to do something: python tests/contracts/counts.py

Counted in src: calls of isinstance whose second argument names a concrete class of problems/ or algorithms/ (to ask
whether something is a Problem, or of an abstract kind, is to check an argument), ``type: ignore``, asserts (they narrow
types; a check that matters raises), and modules in a folder. ``--where`` prints the places.
"""

import argparse
import ast
import importlib
import inspect
import pkgutil
import re
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import limitlab

SOURCE = Path(limitlab.__file__).parent
ROOMS = ("problems", "algorithms")
BARS = {"isinstance": 45, "type: ignore": 20, "assert": 12, "modules a folder": 12}
BEFORE = {"isinstance": 167, "type: ignore": 147, "assert": 64, "modules a folder": 39}  # by this script, at 29da550


class Place(NamedTuple):
    """Where something was found: file (from the package's folder), line, and what stands there."""

    file: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text}"


def part_classes() -> set[str]:
    """Names of the classes that are defined in `ROOMS`, without abstract ones and the Problem itself."""
    names: set[str] = set()
    for room in ROOMS:
        try:
            package = importlib.import_module(f"limitlab.{room}")
        except ModuleNotFoundError:  # of the package before algorithms had a room of their own
            continue
        for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            for name, value in vars(importlib.import_module(info.name)).items():
                if inspect.isclass(value) and value.__module__.startswith(f"{package.__name__}."):
                    names.add(name)
    return {name for name in names if not name.startswith("Abstract")} - {"Problem"}


def named(node: ast.expr) -> set[str]:
    """All names in an expression; of a dotted one the last."""
    names = {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}
    return names | {inner.attr for inner in ast.walk(node) if isinstance(inner, ast.Attribute)}


def count(source: Path = SOURCE) -> dict[str, list[Place]]:
    """Every place that is counted, by what it is."""
    parts = part_classes()
    found: dict[str, list[Place]] = {"isinstance": [], "type: ignore": [], "assert": []}
    for path in sorted(source.rglob("*.py")):
        text, file = path.read_text(encoding="utf-8"), str(path.relative_to(source))
        lines = text.splitlines()
        for number, line in enumerate(lines, 1):
            if re.search(r"#\s*type:\s*ignore", line):
                found["type: ignore"].append(Place(file, number, line.strip()))
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Assert):
                found["assert"].append(Place(file, node.lineno, lines[node.lineno - 1].strip()))
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance" and len(node.args) == 2:
                if named(node.args[1]) & parts:
                    found["isinstance"].append(Place(file, node.lineno, ast.unparse(node)))
    return found


def folders(source: Path = SOURCE) -> dict[str, int]:
    """Modules of every folder, ``__init__`` not counted, the fullest first."""
    paths = [path for path in source.rglob("*.py") if path.name != "__init__.py"]
    return dict(Counter(str(path.parent.relative_to(source)) for path in paths).most_common())


def figures(source: Path = SOURCE) -> dict[str, int]:
    """The four numbers that have a bar."""
    sizes = {name: len(places) for name, places in count(source).items()}
    return {**sizes, "modules a folder": max(folders(source).values())}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--where", action="store_true", help="print every place")
    asked = parser.parse_args()
    for name, number in figures().items():
        print(f"{name}: {number} (at most {BARS[name]}; before {BEFORE[name]})")
    for folder, modules in folders().items():
        if modules > BARS["modules a folder"] or asked.where:
            print(f"  {folder}: {modules} modules")
    if asked.where:
        for name, places in count().items():
            print(f"\n{name}, by file: {dict(Counter(place.file for place in places).most_common())}")
            print("\n".join(map(str, places)))


if __name__ == "__main__":
    main()
