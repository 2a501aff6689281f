"""What `limitlab doctor` looks at: what this installation is made of, and whether it computes what is known."""

import importlib.metadata
import os
import platform
import re
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from threadpoolctl import threadpool_info

import limitlab as ll
from limitlab._setup import in_double
from limitlab.numerics.machine import cores, in_units, memory_here
from limitlab.report.formulas import FORMULAS

__all__ = ["Finding", "about", "examine"]

# Formulas that compare the library with what it has no part in: a closed solution, plain integrals, a sum over a cube.
KNOWN = (
    "sparse/parseval",
    "committees/one-unit-ode",
    "linear/saddle-point",
    "linear/least-error",
    "mean-field/potential",
)
REQUIREMENT = re.compile(r"([A-Za-z0-9_.-]+)>=([0-9][0-9.]*)$")


class Finding(NamedTuple):
    """A thing that was looked at, whether it is well, and what was found."""

    name: str
    ok: bool
    found: str


def about() -> dict[str, str]:
    """Versions, machine, devices, cache and threads, in words."""
    packages = ("jax", "jaxlib", "equinox", "diffrax", "numpy", "scipy", "xarray", "h5netcdf", "scikit-learn")
    blas = {f"{one['internal_api']} {one['num_threads']}" for one in threadpool_info()}
    return {
        "limitlab": ll.__version__,
        "python": f"{platform.python_version()} on {platform.platform()}",
        **{name: importlib.metadata.version(name) for name in packages},
        "devices": ", ".join(map(str, jax.devices())),
        "64-bit numbers": str(bool(getattr(jax.config, "jax_enable_x64", False))),
        "memory": in_units(memory_here()),
        "processors": f"{cores()} of {os.cpu_count()}",
        "threads": ", ".join(sorted(blas)) or "no BLAS found",
        "compiled programs": _cache(getattr(jax.config, "jax_compilation_cache_dir", None)),
    }


def _cache(folder: str | None) -> str:
    if folder is None:
        return "no cache: LIMITLAB_CACHE is off, or its folder cannot be written to"
    files = [path for path in Path(folder).glob("*") if path.is_file()]
    return f"{len(files)} files, {sum(path.stat().st_size for path in files) / 1e6:.1f} MB in {folder}"


def examine() -> list[Finding]:
    """The self-check: versions, 64 bits, a file, and numbers that are known."""
    return [_dependencies(), _precision(), _files(), *(_known(name) for name in KNOWN)]


def _dependencies() -> Finding:
    old, count = [], 0
    for text in importlib.metadata.requires("limitlab") or []:
        if match := REQUIREMENT.match(text):
            count += 1
            here = importlib.metadata.version(match[1])
            if _numbers(here) < _numbers(match[2]):
                old.append(f"{match[1]} {here}, needed {match[2]}")
    return Finding("dependencies", not old and count > 0, ", ".join(old) or f"{count} are new enough")


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


def _precision() -> Finding:
    with in_double():
        error = abs(float(jnp.sum(jnp.full(3, 1 / 3))) - 1)
        kind = str(jnp.ones(1).dtype)
    return Finding("64-bit numbers inside verbs", kind == "float64" and error < 1e-15, f"{kind}, off by {error:.0e}")


def _files() -> Finding:
    """A result that is saved and read again is the same."""
    saved = ll.predict(ll.library.escaping_mediocrity(), ll.OverlapODE(d=100), [0.0, 0.1])
    with tempfile.TemporaryDirectory(prefix="limitlab-") as folder:
        read: Any = ll.load(ll.save(saved, Path(folder) / "doctor.nc"))
    same = bool(np.array_equal(read.risk.values, saved.risk.values))
    return Finding("a saved result", same, "comes back as it was" if same else "comes back changed")


def _known(name: str) -> Finding:
    began = time.monotonic()
    try:
        found = FORMULAS[name].measure()
    except Exception as error:  # whatever is broken here is what is looked for
        return Finding(name, False, f"{type(error).__name__}: {error}")
    return Finding(name, found.ok, f"{found.detail}, {time.monotonic() - began:.1f} s")
