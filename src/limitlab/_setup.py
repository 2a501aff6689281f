"""What has to be true before the first array is made: 64-bit numbers, and a compilation cache on disk."""

import os
from pathlib import Path

import jax

__all__ = ["configure_jax"]


def configure_jax() -> None:
    """Switch on 64-bit numbers and JAX's persistent compilation cache.

    The cache lives in the user's cache folder. ``LIMITLAB_CACHE`` names another folder, or "off"; a folder already
    set for JAX (``JAX_COMPILATION_CACHE_DIR``) is respected.
    """
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
