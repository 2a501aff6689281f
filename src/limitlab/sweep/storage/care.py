"""A store looked after: what can be thrown away."""

import shutil
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from limitlab.errors import ResultFileError
from limitlab.sweep.identity import NUMERICS_VERSION
from limitlab.sweep.storage.standing import state_of
from limitlab.sweep.storage.store import HALF_WRITTEN, Store

__all__ = ["Litter", "gc"]

CERTAIN = 86400.0  # seconds after which the points of a run on another machine may be thrown away


class Litter(NamedTuple):
    """Files of one kind that nobody needs."""

    what: str
    files: tuple[Path, ...]
    size: int


def gc(store: Store, dry_run: bool = False, quarantine: bool = False) -> tuple[list[Litter], str]:
    """Throw away what nobody needs; returns what that was (or would be, with ``dry_run``), and what was left alone.

    Half-written files of dead processes, records of runs that ended, sweeps of another numerics version with their
    points, points of no recorded sweep; with ``quarantine`` also the damaged files that were put aside. Points are
    left alone as long as a run may be alive, or if a list of points cannot be read.
    """
    found = [_litter("half-written files", _parts(store)), _litter("records of runs that ended", _ended(store))]
    known = _sweeps(store)
    note = _why_not(store)
    records, points = ([], []) if note else _unneeded(store)
    found += [_litter("records of sweeps of another numerics version", records)]
    found += [_litter("points of no sweep, or of another numerics version", points)]
    if quarantine:
        away = _below(store.path / "quarantine")
        found.append(Litter("files in quarantine", tuple(away), sum(map(_size, away))))
    if not dry_run:
        if points and not note and (_why_not(store) or _sweeps(store) != known):  # one began while points were listed
            note, found = "A sweep began meanwhile: points were left alone. Run again when it has ended.", found[:2]
        for litter in found:
            _remove(litter.files)
    return [litter for litter in found if litter.files], note


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
    return sorted({path.stem for path in _below(store.path / "sweeps") if path.suffix in (".json", ".keys")})


def _unneeded(store: Store) -> tuple[list[Path], list[Path]]:
    """Records of sweeps of another numerics version, and points that no other sweep is made of."""
    about = store.sweeps()
    old = [n for n in _sweeps(store) if about.get(n, {}).get("numerics_version", NUMERICS_VERSION) != NUMERICS_VERSION]
    needed = {key for name in _sweeps(store) if name not in old for key in store.keys_of(name)}
    records = [store.path / "sweeps" / f"{name}{end}" for name in old for end in (".json", ".keys")]
    return records, [store.place(key) for key in store.keys() if key not in needed]


def _ended(store: Store) -> list[Path]:
    """Records of runs that are over for certain."""
    ended = [name for name, record in store.runs().items() if state_of(record, CERTAIN) != "running"]
    return [store.path / "runs" / f"{name}.json" for name in ended]


def _parts(store: Store) -> list[Path]:
    """What processes that died were writing: points and records in parts/, results in the folder itself."""
    return [*store.parts(), *(p for p in store.path.glob(".*.part") if time.time() - _age(p) > HALF_WRITTEN)]


def _below(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except FileNotFoundError:
        return []


def _litter(what: str, paths: Iterable[Path]) -> Litter:
    files = tuple(path for path in paths if path.is_file())
    return Litter(what, files, sum(_size(path) for path in files))


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:  # its owner was faster
        return 0


def _age(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return time.time()


def _remove(files: tuple[Path, ...]) -> None:
    for path in files:
        try:
            if path.is_dir() and not path.is_symlink():  # a folder that lay where a point should
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        except OSError as error:
            raise ResultFileError(
                f"{path} could not be removed: {error.strerror}. What was removed before stays so. Make the store "
                "writable, and run again."
            ) from error
