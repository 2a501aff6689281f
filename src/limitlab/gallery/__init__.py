"""The gallery: figures of the literature, each with a claim that is checked when it is made."""

import importlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from limitlab.errors import InputError
from limitlab.gallery.entry import Check, Entry, Quick, Verdict
from limitlab.gallery.entry import run as make
from limitlab.text import did_you_mean, show
from limitlab.verbs import Watch, main_verb, told

__all__ = ["DEFAULT", "ENTRIES", "Check", "Entry", "Quick", "Verdict", "run", "run_entry"]

# Folder -> entries in the order in which they are listed. Each is a module of its name, imported when it is asked for.
FOLDERS = {
    "sparse": "staircase degenerate saddle linear-vs-sgd rates",
    "committees": "escape escape-wide second-layer unify plateau",
    "linear": "perceptron phase-retrieval landscape hard-phase binary-perceptron",
    "multi": "committee-specialisation grand-staircase",
    "descent": "gd-phase-retrieval over-parametrised persistent-sgd persistent-random atlas batch-reuse wide-descent "
    "second-unit open-questions",
    "data": "double-descent my-data heavy-tails real-data-report",
    "mixtures": "isotropic critical-delta bad-activation width-law noisy anisotropic",
    "spectra": "structured-teacher random-features scaling-laws",
}
MODULES = {
    name: f"{__name__}.{folder}.{name.replace('-', '_')}" for folder, names in FOLDERS.items() for name in names.split()
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


@main_verb
def run(
    entry: str | Entry = DEFAULT, folder: str | Path | None = None, progress: Watch = None, quick: bool = False
) -> Verdict:
    """Run a gallery entry, as ``limitlab run`` does, and give its figure, its data and the verdict on its claim.

    Parameters
    ----------
    entry
        Its name (see ``limitlab list``), or an `Entry` of your own.
    folder
        Receives ``figure.png``, one netCDF file per result, ``animation.gif`` if the entry has one, and
        ``verdict.txt`` with the claim, every check and the versions that made it. Left out, nothing is written.
    progress
        True draws a bar; a function is called as progress(done, total, label); None is silent.
    quick
        Smaller sizes, which the verdict states; checks that need the full ones are left out, and said to be.

    Examples
    --------
    >>> import limitlab as ll
    >>> verdict = ll.run("landscape")
    >>> verdict.figure.savefig("landscape.png")
    >>> verdict.ok
    True
    """
    if isinstance(entry, str):
        if entry not in ENTRIES:
            hint = did_you_mean(entry, ENTRIES)
            raise InputError(f"There is no gallery entry {entry!r}; there are: {', '.join(ENTRIES)}.{hint}")
        entry = ENTRIES[entry]
    if not isinstance(entry, Entry):
        raise InputError(f"run needs the name of a gallery entry, such as {DEFAULT!r}, or an Entry; got {show(entry)}.")
    return make(entry, folder, told(), quick)


run_entry = run
