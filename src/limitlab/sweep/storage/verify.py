"""A store read through: every point is held against its checksum and its name, what is not one is put aside."""

import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from limitlab.errors import ResultFileError
from limitlab.sweep.storage.files.folder import shown
from limitlab.sweep.storage.files.records import POINT, is_segment

if TYPE_CHECKING:
    from limitlab.sweep.storage.store import Store

__all__ = ["Fault", "verify"]

MAX_FAULTS = 1000  # places of one segment whose bytes are kept in quarantine: more are no accident
OLD_FOLDER = re.compile(r"[0-9a-f]{2}")  # of stores with a file for each point

Told = Callable[[int, int, str], None] | None


class Fault(NamedTuple):
    """A file of a store that is not what it should be, why, and where it was put."""

    path: Path
    reason: str
    moved_to: Path | None


def verify(store: "Store", progress: Told = None) -> tuple[int, list[Fault]]:
    """How many points are good, and what was put aside (see `Store.verify`)."""
    segments, points, bad, good = store.segments, store.folder("points"), _strangers(store), set()
    segments.refresh()
    total, done = len(segments), 0

    def told() -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(min(done, total), total, "verify")

    for name in segments.names():
        fine: set[bytes] = set()
        try:
            bad += _segment(store, name, fine, told)
            good |= fine
        except FileNotFoundError:  # joined with others meanwhile
            continue
        except ResultFileError:
            raise
        except ValueError as error:  # not a segment at all
            bad.append(store.quarantine(points, name, f"{error}."))
        except OSError as error:
            where = shown(points.path / name)
            raise ResultFileError(f"{where} cannot be read: {error.strerror}. Check its permissions.") from error
    if any(segments.place_of(key) is None for key in good):  # an index on disk did not say all
        segments.reread()
    segments.save()
    return len(good), bad


def _strangers(store: "Store") -> list[Fault]:
    """Put aside what lies among the segments and is none."""
    points, bad = store.folder("points"), []
    for name in points.names():
        about = points.about(name)
        if about is None or (is_segment(name) and stat.S_ISREG(about.st_mode)):
            continue
        if not (OLD_FOLDER.fullmatch(name) and stat.S_ISDIR(about.st_mode)):
            words = f"{shown(points.path / name)} is not a segment of this store: its name or its kind is not one's."
            bad.append(store.quarantine(points, name, words))
    return bad


def _segment(store: "Store", name: str, good: set[bytes], told: Callable[[], None]) -> list[Fault]:
    """Go through one segment; `NotPlainError` if it is none."""
    segments, path, bad, more = store.segments, store.folder("points").path / name, [], 0
    for found in segments.pieces(name):
        if segments.voided(name, found.place):
            continue
        key = found.key.hex()
        judged = None
        if found.kind == POINT or (found.kind == 0 and key):
            judged = store.judged(found, key)
            told()
        elif found.kind == 0:
            judged = f"{found.fault}."
        if isinstance(judged, str) and len(bad) >= MAX_FAULTS:
            segments.void(name, found.place, found.length, found.key)
            more += 1
        elif isinstance(judged, str):
            bad.append(store.aside(name, found.place, found.length, key or "bytes", judged))
        elif judged is not None:
            good.add(found.key)
    if more:
        bad.append(Fault(path, f"{shown(path)} is damaged in {more} more places, which count no more.", None))
    rest = segments.cut(name)
    if rest:
        words = f"{shown(path)} ended with bytes that are no record; they were cut off."
        bad.append(Fault(path, words, store.noted(f"{name}.tail", path, words, rest)))
    return bad
