"""What has to be true before the first array is made: 64-bit numbers, and a compilation cache on disk."""

import contextlib
import functools
import importlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import jax

__all__ = ["configure_jax", "double", "in_double"]

F = TypeVar("F", bound=Callable[..., Any])


def configure_jax() -> None:
    """Switch on 64-bit numbers and JAX's persistent compilation cache.

    ``LIMITLAB_X64=0`` leaves the user's own setting of JAX alone; then everything that computes does so inside
    `in_double`. The cache lives in the user's cache folder. ``LIMITLAB_CACHE`` names another folder, or "off"; a folder
    already set for JAX (``JAX_COMPILATION_CACHE_DIR``) is respected.
    """
    if os.environ.get("LIMITLAB_X64", "1").lower() not in ("0", "false", "off", "no"):
        jax.config.update("jax_enable_x64", True)
    wish = os.environ.get("LIMITLAB_CACHE", "")
    if wish.lower() == "off" or getattr(jax.config, "jax_compilation_cache_dir", None):
        return
    from platformdirs import user_cache_dir

    folder = Path(wish) if wish else Path(user_cache_dir("limitlab")) / "xla"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return  # a read-only home: everything works, only the second start is not faster
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)


def in_double() -> contextlib.AbstractContextManager[Any]:
    """JAX has 64-bit numbers inside, in this thread, and outside what the user has set."""
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
