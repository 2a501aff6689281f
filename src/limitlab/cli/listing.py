"""What there is, read off the source and not imported: a list of names needs no JAX."""

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

__all__ = ["activations", "entries", "limits", "problems"]

PACKAGE = Path(__file__).parents[1]


def entries() -> list[tuple[str, str, float]]:
    """Name, title and seconds of every gallery entry."""
    folders = ast.literal_eval(_value(_tree("gallery/__init__.py"), "FOLDERS"))
    out = []
    for folder, names in folders.items():
        for name in names.split():
            call = _value(_tree(f"gallery/{folder}/{name.replace('-', '_')}.py"), "ENTRY")
            told = {word.arg: word.value for word in call.keywords} if isinstance(call, ast.Call) else {}
            out.append((name, *(ast.literal_eval(told[word]) for word in ("title", "seconds"))))
    return out


def problems() -> list[tuple[str, str]]:
    """Name and first sentence of every library problem."""
    tree = _tree("library.py")
    about = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    return [(name, _opening(about[value])) for name, value in _names(tree, "LIBRARY")]


def limits() -> list[tuple[str, str, str]]:
    """Name, first sentence and reference of every limit."""
    tree, out = _tree("macro/predict.py"), []
    home = {alias.name: node.module for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    for name, value in _names(tree, "LIMITS"):
        module = _tree(str(home[value]).removeprefix("limitlab.").replace(".", "/") + ".py")
        cls = next(node for node in module.body if isinstance(node, ast.ClassDef) and node.name == value)
        out.append((name, _opening(cls), ast.literal_eval(_value(cls, "reference"))))
    return out


def activations() -> list[str]:
    """The words for activations: their classes are named alike."""
    table = _value(_tree("problems/activations/text.py"), "_WORDS")
    made = (node.func for node in ast.walk(table) if isinstance(node, ast.Call))
    return [call.id.lower() for call in made if isinstance(call, ast.Name)]


def _tree(file: str) -> ast.Module:
    return ast.parse((PACKAGE / file).read_text(encoding="utf-8"))


def _value(node: ast.Module | ast.ClassDef, name: str) -> ast.expr:
    """What is assigned to a name in the body of a module or class."""
    for line in node.body:
        targets = (
            line.targets if isinstance(line, ast.Assign) else [line.target] if isinstance(line, ast.AnnAssign) else []
        )
        value = line.value if isinstance(line, (ast.Assign, ast.AnnAssign)) else None
        if value is not None and any(isinstance(target, ast.Name) and target.id == name for target in targets):
            return value
    raise LookupError(name)


def _names(tree: ast.Module, table: str) -> Iterator[tuple[str, str]]:
    """Keys of a table and the names that they stand for."""
    value = _value(tree, table)
    if isinstance(value, ast.Dict):
        for key, item in zip(value.keys, value.values, strict=True):
            if key is not None and isinstance(item, ast.Name):
                yield ast.literal_eval(key), item.id


def _opening(node: ast.FunctionDef | ast.ClassDef) -> str:
    """What a thing is: the first paragraph of its docstring."""
    text = inspect.cleandoc(ast.get_docstring(node) or "").split("\n\n")[0].replace("\n", " ").rstrip(".:")
    return re.sub(r":math:`([^`]*)`", lambda m: m.group(1).replace("\\to", "->").replace("\\", ""), text)
