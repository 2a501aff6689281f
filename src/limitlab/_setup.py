"""What has to be true before the first array is made: 64-bit numbers, and a compilation cache on disk.

JAX is told by the environment if nobody has imported it yet, so that what needs no arrays starts without it.
"""

import contextlib
import functools
import importlib
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

__all__ = ["configure_jax", "double", "in_double", "trim"]

MOST = 2 * 2**30  # bytes of compiled programs that the cache keeps
KEPT = 0.75  # of these when it was fuller: not at the brim again at once
LOOK = 3600.0  # seconds between two looks at its size
STAMP = ".looked"  # its age says when that was
PROGRAMS = ("-cache", "-atime")  # how JAX ends the names of its files; no others are touched

F = TypeVar("F", bound=Callable[..., Any])

_lent: dict[str, str | None] = {}  # what the environment had before JAX was told by it
LENT = "LIMITLAB_LENT"  # the same, for programs that are started before JAX is imported and inherit it


def configure_jax() -> None:
    """Switch on 64-bit numbers and JAX's persistent compilation cache.

    ``LIMITLAB_X64=0`` leaves the user's own setting of JAX alone; then everything that computes does so inside
    `in_double`. The cache lives in the user's cache folder. ``LIMITLAB_CACHE`` names another folder, or "off"; a folder
    already set for JAX (``JAX_COMPILATION_CACHE_DIR``) is respected. Every program is kept, also a small one: a first
    answer needs dozens. No program depends on where the folder is, so that it can be copied elsewhere.
    """
    with contextlib.suppress(ValueError, TypeError):  # words of somebody else
        _lent.update(json.loads(os.environ.get(LENT, "{}")))
        _take_back()
    if os.environ.get("LIMITLAB_X64", "1").lower() not in ("0", "false", "off", "no"):
        _set("jax_enable_x64", True)
    wish = os.environ.get("LIMITLAB_CACHE", "")
    if wish.lower() == "off" or _is_set("jax_compilation_cache_dir"):
        return
    from platformdirs import user_cache_dir

    folder = Path(wish) if wish else Path(user_cache_dir("limitlab")) / "xla"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        trim(folder)
    except OSError:
        return  # a read-only home: everything works, only the second start is not faster
    _set("jax_compilation_cache_dir", str(folder))
    _set("jax_persistent_cache_min_compile_time_secs", 0.0)
    _set("jax_persistent_cache_min_entry_size_bytes", 0)
    _set("jax_persistent_cache_enable_xla_caches", "none")  # these would make the folder's path part of every key


def _is_set(name: str) -> bool:
    if "jax" in sys.modules:
        return bool(getattr(sys.modules["jax"].config, name, None))
    return bool(os.environ.get(name.upper()))


def _set(name: str, value: Any) -> None:
    if "jax" in sys.modules:
        sys.modules["jax"].config.update(name, value)
    else:
        _lent.setdefault(name.upper(), os.environ.get(name.upper()))
        os.environ[name.upper()] = str(value)
        os.environ[LENT] = json.dumps(_lent)


def _take_back() -> None:
    """Once JAX has read them, its settings leave the environment: programs that the user starts do not inherit them."""
    os.environ.pop(LENT, None)
    while _lent:
        name, before = _lent.popitem()
        if before is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = before


def trim(folder: Path, most: int = MOST, every: float = LOOK) -> None:
    """Forget the programs that were not used for longest if the folder has more than ``most`` bytes of them.

    JAX can do so itself, but then every program that is stored costs a look at all others, under a lock. Here the
    folder is looked at once an hour. A program that another process is reading stays readable to it; one that it was
    about to read is compiled again.
    """
    stamp = folder / STAMP
    if stamp.exists() and time.time() - stamp.stat().st_mtime < every:
        return
    stamp.touch()
    files = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(PROGRAMS):
                with contextlib.suppress(OSError):  # gone meanwhile
                    about = entry.stat()
                    files.append((max(about.st_atime, about.st_mtime), about.st_size, entry.path))
    size = sum(bytes_ for _, bytes_, _ in files)
    if size <= most:
        return
    for _, bytes_, path in sorted(files):
        if size <= KEPT * most:
            break
        with contextlib.suppress(OSError):
            os.unlink(path)
        size -= bytes_


def in_double() -> contextlib.AbstractContextManager[Any]:
    """JAX has 64-bit numbers inside, in this thread, and outside what the user has set."""
    import jax

    _take_back()
    if getattr(jax.config, "jax_enable_x64", False):
        return contextlib.nullcontext()
    home = jax if hasattr(jax, "enable_x64") else importlib.import_module("jax.experimental")  # before JAX 0.8
    return vars(home)["enable_x64"](True)


def double(function: F) -> F:
    """A function that computes in 64 bits, whatever the user has set: for what computes but is not a verb."""

    @functools.wraps(function)
    def inside(*args: Any, **kwargs: Any) -> Any:
        with in_double():
            return function(*args, **kwargs)

    return inside  # pyright: ignore[reportReturnType]
