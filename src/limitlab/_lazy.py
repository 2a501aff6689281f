"""Public names of a package, each written once, whose modules load when a name is first asked for (PEP 562)."""

import ast
import contextlib
import difflib
import gc
import importlib
import sys
import types
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

__all__ = ["loading", "namespace", "public_names"]


def namespace(
    package: str, moved: Mapping[str, str] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """``__getattr__``, ``__dir__`` and ``__all__`` of a package whose public names are its imports for type checkers.

    Parameters
    ----------
    moved
        Module -> names that left for it, with blanks between them; they answer with a DeprecationWarning and are not
        listed.
    """
    this, home = sys.modules[package], public_names(package)
    left = {name: module for module, names in (moved or {}).items() for name in names.split()}

    class Package(types.ModuleType):
        """Importing limitlab.sweep.run makes Python put the package limitlab.sweep where the verb `sweep` stands: here
        a public name is not overwritten by the module that happens to share it."""

        def __setattr__(self, name: str, value: Any) -> None:
            if not isinstance(value, types.ModuleType) or home.get(name, package) == package:
                super().__setattr__(name, value)

    this.__class__ = Package

    def __getattr__(name: str) -> Any:
        if name in left:
            words = f"{package}.{name} is now {left[name]}.{name}; the old name goes with the next version."
            warnings.warn(words, DeprecationWarning, stacklevel=2)
            return getattr(importlib.import_module(left[name]), name)
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}.{_hint(name, home, left)}", name=name)
        if home[name] == package:
            return _loaded(f"{package}.{name}")
        value = getattr(_loaded(home[name]), name)
        namesake = sys.modules.get(f"{package}.{name}")
        if namesake is not None and isinstance(value, types.FunctionType):
            # `import limitlab.sweep.run as run` walks from limitlab to sweep to run by attributes and meets the verb:
            # it answers for the package of its name too.
            vars(namesake).update(value.__dict__)  # which verb is behind the door
            value.__dict__ = vars(namesake)
        vars(this)[name] = value  # from now on found without this function
        return value

    names = sorted(home)
    return __getattr__, lambda: list(names), names


@contextlib.contextmanager
def loading() -> Iterator[None]:
    """The garbage collector rests: it would walk over all of jax's objects for nothing."""
    awake = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if awake:
            gc.enable()


def _loaded(module: str) -> Any:
    with loading():
        return importlib.import_module(module)


def _hint(name: str, home: Mapping[str, str], left: Mapping[str, str]) -> str:
    """A sentence with the name that looks like this one, here or where it went; nothing if none does."""
    if name.startswith("_"):
        return ""  # Python and notebooks ask for these; nobody mistyped them
    lower = {known.lower(): f"{module}.{known}" for known, module in left.items()}
    lower |= {known.lower(): known for known in home}
    near = difflib.get_close_matches(name.lower(), lower, 1, 0.7)
    return f" Did you mean {lower[near[0]]!r}?" if near else ""


def public_names(package: str) -> dict[str, str]:
    """Name -> module of the imports under ``if TYPE_CHECKING:`` in the package's own file, read and not executed."""
    spec = sys.modules[package].__spec__
    source = getattr(spec and spec.loader, "get_source", lambda _: None)(package)
    if source is None:
        raise ImportError(
            f"{package} reads its public names from its source, which is not there. Install the .py files."
        )
    blocks = (node.body for node in ast.parse(source).body if isinstance(node, ast.If))
    imports = [node for block in blocks for node in block if isinstance(node, ast.ImportFrom)]
    return {alias.name: str(node.module) for node in imports for alias in node.names}
