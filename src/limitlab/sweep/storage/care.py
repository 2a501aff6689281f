"""A store looked after: what can be thrown away."""

import os
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from limitlab.errors import ResultFileError
from limitlab.sweep.identity import NUMERICS_VERSION
from limitlab.sweep.storage.files.folder import shown
from limitlab.sweep.storage.pack import pack
from limitlab.sweep.storage.standing import state_of
from limitlab.sweep.storage.store import HALF_WRITTEN, Store

__all__ = ["Litter", "gc"]

CERTAIN = 86400.0  # seconds after which the points of a run on another machine may be thrown away


class Litter(NamedTuple):
    """Things of one kind that nobody needs: how many, their bytes, and what removes them."""

    what: str
    count: int
    size: int
    remove: Callable[[], object]


def gc(store: Store, dry_run: bool = False, quarantine: bool = False) -> tuple[list[Litter], str]:
    """Throw away what nobody needs; returns what that was (or would be, with ``dry_run``), and what was left alone.

    Half-written files of dead processes, records of runs that ended, sweeps of another numerics version with their
    points, points of no recorded sweep; with ``quarantine`` also the damaged files that were put aside. Points are
    left alone as long as a run may be alive, or if a list of points cannot be read.
    """
    found = [_files(store, "half-written files", "parts", store.parts()), _results(store)]
    found.append(_files(store, "records of runs that ended", "runs", _ended(store)))
    known, note = _sweeps(store), _why_not(store)
    records, points = ([], []) if note else _unneeded(store)
    later = [_files(store, "records of sweeps of another numerics version", "sweeps", records)]
    size = sum(map(store.length, points))
    what = "points of no sweep, or of another numerics version"
    later.append(Litter(what, len(points), size, lambda: _drop(store, points)))
    if quarantine:
        found.append(_files(store, "files in quarantine", "quarantine", store.folder("quarantine").names()))
    if not dry_run:
        if points and not note and (_why_not(store) or _sweeps(store) != known):  # one began while points were listed
            note, later = "A sweep began meanwhile: points were left alone. Run again when it has ended.", []
        for litter in (*found, *later):
            if litter.count:
                litter.remove()
    return [litter for litter in (*found, *later) if litter.count], note


def _why_not(store: Store) -> str:
    """Why points cannot be thrown away now; empty if they can."""
    for name, record in store.runs().items():
        if state_of(record, CERTAIN) == "running":
            where = f"process {record.get('process')} on {record.get('host')}"
            return f"Points were left alone: run {name} ({where}) may be alive. Run again when it has ended."
    try:
        for name in _sweeps(store):
            store.keys_of(name)
    except ResultFileError as error:
        return f"Points were left alone: {error}"
    return ""


def _sweeps(store: Store) -> list[str]:
    """Names of all sweeps, also of those whose record cannot be read: their points are somebody's."""
    names = map(os.path.splitext, store.folder("sweeps").names())
    return sorted({stem for stem, end in names if end in (".json", ".keys")})


def _unneeded(store: Store) -> tuple[list[str], list[str]]:
    """Records of sweeps of another numerics version, and points that no other sweep is made of."""
    about = store.sweeps()
    old = [n for n in _sweeps(store) if about.get(n, {}).get("numerics_version", NUMERICS_VERSION) != NUMERICS_VERSION]
    needed = {key for name in _sweeps(store) if name not in old for key in store.keys_of(name)}
    records = [f"{name}{end}" for name in old for end in (".json", ".keys")]
    return records, [key for key in store.keys() if key not in needed]


def _ended(store: Store) -> list[str]:
    """Records of runs that are over for certain."""
    return [f"{name}.json" for name, record in store.runs().items() if state_of(record, CERTAIN) != "running"]


def _drop(store: Store, points: list[str]) -> None:
    """Take points out of the segments that nobody holds; those in others count no more."""
    pack(store, points)
    for key in points:
        store.remove(key)


def _results(store: Store) -> Litter:
    """What processes that died were writing into the folder itself."""
    old = [
        n for n, about in store.folder().files().items() if n.startswith(".") and n.endswith(".part") and _old(about)
    ]
    return _files(store, "half-written results", "", old)


def _old(about: os.stat_result) -> bool:
    return time.time() - about.st_mtime > HALF_WRITTEN


def _files(store: Store, what: str, place: str, names: Iterable[str]) -> Litter:
    """Things under names of one folder; links and whatever else stands there go themselves, not what they point to."""
    folder = store.folder(place)
    there = {name: about for name in names if (about := folder.about(name)) is not None}

    def remove() -> None:
        for name in there:
            try:
                folder.remove(name)
            except OSError as error:
                raise ResultFileError(
                    f"{shown(folder.path / name)} could not be removed: {error.strerror}. What was removed before "
                    "stays so. Make the store writable, and run again."
                ) from error

    return Litter(what, len(there), sum(about.st_size for about in there.values()), remove)
