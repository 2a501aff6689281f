"""Where a class, function or module lives, and whether its name and place say all about it.

What stands still is known by its place: limitlab's own things (their numbers have a version of their own), Python and
the packages that limitlab is built on (their functions keep their meaning; the versions are in a result's provenance,
and in a name they would throw away every stored point at each update), and any other installed package with its
version. All else is somebody's code that may be edited at any time, and has to be looked into.
"""

import functools
import importlib.metadata
import importlib.util
import site
import sys
import sysconfig
from pathlib import Path
from typing import Any

__all__ = ["home_of", "module_place", "ours", "place_of", "stands", "standing_module"]

ONCE = {  # what is stored knows them by the place that they had
    "limitlab:Module": "equinox._module._module:Module",
    "limitlab:_Modules": "equinox._module._module:_ModuleMeta",
}
STEADY = {"numpy", "scipy", "jax", "jaxlib", "equinox", "diffrax", "lineax", "optimistix", "xarray", "pandas"}


def ours(module: str) -> bool:
    return module.split(".")[0] == "limitlab"


def place_of(thing: Any) -> str:
    """Module and name of a class or function; limitlab's own by their name, so that a moved file changes nothing."""
    module, name = str(getattr(thing, "__module__", "")), _name(thing) or type(thing).__name__
    if ours(module):
        return ONCE.get(f"limitlab:{name}", f"limitlab:{name}")
    return f"{module}:{name}{_version(module)}"


def module_place(name: str) -> str:
    """The name of a module that stands still, with the version that it needs."""
    return name + _version(name)


def home_of(function: Any) -> str:
    """The module in which the code of a function was written, whatever `functools.wraps` says."""
    return str(function.__globals__.get("__name__", ""))


def stands(thing: Any) -> bool:
    """Whether a thing is found under its name in a module that stands still: what is there can only be that."""
    module, name = getattr(thing, "__module__", None), _name(thing)
    if not isinstance(module, str) or not name or not standing_module(module):
        return False
    found: Any = sys.modules.get(module)
    for step in name.split("."):
        found = getattr(found, step, None)
    return found is thing


def standing_module(name: str) -> bool:
    """Whether a module is limitlab's, Python's or of an installed package."""
    return ours(name) or (name != "__main__" and _installed(name.split(".")[0]))


def _name(thing: Any) -> str:
    name = getattr(thing, "__qualname__", None) or getattr(thing, "__name__", None)
    return name if isinstance(name, str) else ""


def _version(module: str) -> str:
    """The version of a package that is none of those that stand still by themselves."""
    top = module.split(".")[0]
    if ours(module) or top in STEADY or top in sys.stdlib_module_names or not standing_module(module):
        return ""
    return f"@{_released(top)}"


@functools.cache
def _released(top: str) -> str | None:
    """The version of the package that a top-level module belongs to; None if it belongs to none."""
    try:
        return importlib.metadata.version(top)
    except importlib.metadata.PackageNotFoundError:  # imported under another name than it is installed
        names = importlib.metadata.packages_distributions().get(top)
    return "+".join(sorted({importlib.metadata.version(name) for name in names})) if names else None


@functools.cache
def _installed(top: str) -> bool:
    """Whether a top-level module is Python's, or lies where packages are installed and has a version there."""
    module: Any = sys.modules.get(top)
    try:
        spec = importlib.util.find_spec(top) if module is None else None
    except (ImportError, ValueError):
        return False
    file = getattr(module, "__file__", None) or getattr(spec, "origin", None)
    if file in (None, "built-in", "frozen"):
        return top in sys.stdlib_module_names or _released(top) is not None
    if top in STEADY:
        return True
    lies = [root for root in _roots() if Path(file).resolve().is_relative_to(root)]
    return bool(lies) and (top in sys.stdlib_module_names or _released(top) is not None)


@functools.cache
def _roots() -> tuple[Path, ...]:
    paths = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    return tuple({Path(path).resolve() for path in [*paths, *site.getsitepackages(), site.getusersitepackages()]})
