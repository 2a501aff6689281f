"""The gallery: figures of the literature, each with a claim that is checked when it is made."""

import difflib
import importlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from limitlab.errors import InputError
from limitlab.gallery.entry import Check, Entry, Verdict, run
from limitlab.numerics.progress import Progress

__all__ = ["DEFAULT", "ENTRIES", "Check", "Entry", "Verdict", "run_entry"]

# Each module has an ENTRY; it is imported when it is asked for.
MODULES: dict[str, str] = {
    "staircase": "limitlab.gallery.staircase",
    "degenerate": "limitlab.gallery.degenerate",
    "saddle": "limitlab.gallery.saddle",
    "linear-vs-sgd": "limitlab.gallery.linear_vs_sgd",
    "rates": "limitlab.gallery.rates",
    "escape": "limitlab.gallery.escape",
    "escape-wide": "limitlab.gallery.escape_wide",
    "second-layer": "limitlab.gallery.second_layer",
    "unify": "limitlab.gallery.unify",
    "plateau": "limitlab.gallery.plateau",
    "perceptron": "limitlab.gallery.perceptron",
    "phase-retrieval": "limitlab.gallery.phase_retrieval",
    "landscape": "limitlab.gallery.landscape",
    "hard-phase": "limitlab.gallery.hard_phase",
    "binary-perceptron": "limitlab.gallery.binary_perceptron",
    "gd-phase-retrieval": "limitlab.gallery.gd_phase_retrieval",
    "over-parametrised": "limitlab.gallery.over_parametrised",
    "persistent-sgd": "limitlab.gallery.persistent_sgd",
    "persistent-random": "limitlab.gallery.persistent_random",
    "atlas": "limitlab.gallery.atlas",
    "isotropic": "limitlab.gallery.isotropic",
    "critical-delta": "limitlab.gallery.critical_delta",
    "bad-activation": "limitlab.gallery.bad_activation",
    "width-law": "limitlab.gallery.width_law",
    "noisy": "limitlab.gallery.noisy",
    "anisotropic": "limitlab.gallery.anisotropic",
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
            near = difflib.get_close_matches(entry, list(ENTRIES), 1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise InputError(f"There is no gallery entry {entry!r}; there are: {', '.join(ENTRIES)}.{hint}")
        entry = ENTRIES[entry]
    return run(entry, folder, progress)
