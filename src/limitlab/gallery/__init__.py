"""The gallery: figures of the literature, each with a claim that is checked when it is made."""

import importlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from limitlab.errors import InputError
from limitlab.gallery.entry import Check, Entry, Verdict, run
from limitlab.numerics.progress import Progress
from limitlab.text import did_you_mean

__all__ = ["DEFAULT", "ENTRIES", "Check", "Entry", "Verdict", "run_entry"]

# Each module has an ENTRY; it is imported when it is asked for.
MODULES: dict[str, str] = {
    "staircase": "limitlab.gallery.sparse.staircase",
    "degenerate": "limitlab.gallery.sparse.degenerate",
    "saddle": "limitlab.gallery.sparse.saddle",
    "linear-vs-sgd": "limitlab.gallery.sparse.linear_vs_sgd",
    "rates": "limitlab.gallery.sparse.rates",
    "escape": "limitlab.gallery.committees.escape",
    "escape-wide": "limitlab.gallery.committees.escape_wide",
    "second-layer": "limitlab.gallery.committees.second_layer",
    "unify": "limitlab.gallery.committees.unify",
    "plateau": "limitlab.gallery.committees.plateau",
    "perceptron": "limitlab.gallery.linear.perceptron",
    "phase-retrieval": "limitlab.gallery.linear.phase_retrieval",
    "landscape": "limitlab.gallery.linear.landscape",
    "hard-phase": "limitlab.gallery.linear.hard_phase",
    "binary-perceptron": "limitlab.gallery.linear.binary_perceptron",
    "gd-phase-retrieval": "limitlab.gallery.descent.gd_phase_retrieval",
    "over-parametrised": "limitlab.gallery.descent.over_parametrised",
    "persistent-sgd": "limitlab.gallery.descent.persistent_sgd",
    "persistent-random": "limitlab.gallery.descent.persistent_random",
    "atlas": "limitlab.gallery.descent.atlas",
    "isotropic": "limitlab.gallery.mixtures.isotropic",
    "critical-delta": "limitlab.gallery.mixtures.critical_delta",
    "bad-activation": "limitlab.gallery.mixtures.bad_activation",
    "width-law": "limitlab.gallery.mixtures.width_law",
    "noisy": "limitlab.gallery.mixtures.noisy",
    "anisotropic": "limitlab.gallery.mixtures.anisotropic",
}
DEFAULT = "staircase"


class _Entries(Mapping[str, Entry]):
    """The entries by name, each imported when it is looked up."""

    def __getitem__(self, name: str) -> Entry:
        return importlib.import_module(MODULES[name]).ENTRY

    def __iter__(self) -> Iterator[str]:
        return iter(MODULES)

    def __len__(self) -> int:
        return len(MODULES)

    def __contains__(self, name: object) -> bool:
        return name in MODULES


ENTRIES: Mapping[str, Entry] = _Entries()


def run_entry(entry: str | Entry, folder: str | Path, progress: Progress | None = None) -> Verdict:
    """Run a gallery entry, by its name or as an `Entry` of your own, and write all that belongs to it.

    The folder receives ``figure.png``, one netCDF file per result, ``animation.gif`` if the entry has one, and
    ``verdict.txt`` with the claim, every check and the versions that made it.
    """
    if isinstance(entry, str):
        if entry not in ENTRIES:
            hint = did_you_mean(entry, ENTRIES)
            raise InputError(f"There is no gallery entry {entry!r}; there are: {', '.join(ENTRIES)}.{hint}")
        entry = ENTRIES[entry]
    return run(entry, folder, progress)
