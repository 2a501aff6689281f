"""Stores of the old format, with a netCDF file for each point, brought over to segments in their place."""

import contextlib
import json
import os
import re
import stat
from collections.abc import Callable, Iterator

from limitlab.errors import InputError, ResultFileError
from limitlab.files import unwritable
from limitlab.results.points import Point
from limitlab.sweep.storage.files.encoding import decode as as_read
from limitlab.sweep.storage.files.encoding import encode
from limitlab.sweep.storage.files.folder import KEPT, Folder, NotPlainError, shown
from limitlab.sweep.storage.files.netcdf import decode
from limitlab.sweep.storage.store import MARKER, MAX_MARKER, Fault, Store
from limitlab.text import one_line

__all__ = ["migrate"]

FILE = re.compile(r"([0-9a-f]{32})\.nc")
FOLDER = re.compile(r"[0-9a-f]{2}")
MOST = 1 << 28  # bytes of an old point that are read


def migrate(
    path: str | os.PathLike, progress: Callable[[int, int, str], None] | None = None
) -> tuple[int, list[Fault]]:
    """Bring every point of an old store over; returns how many there were, and what was put into quarantine.

    Killed at any moment it loses nothing, and the same call goes on: a file is removed when its point is in a segment
    and on the disk. What is no whole point under its own name goes to quarantine.
    """
    store = Store(path, create=False, migrating=True)
    points, bad, moved = store.folder("points"), [], []
    files = [(folder, name) for folder in _folders(points) for name in folder.names()]
    for number, (folder, name) in enumerate(files):
        found = _bytes(folder, name)
        if isinstance(found, str):
            bad.append(store.quarantine(folder, name, found))
        elif found is not None:
            store.write(name[:32], found)
            moved.append((folder, name))
        if progress is not None:
            progress(number + 1, len(files), "migrate")
    store.segments.flush()
    if _version(store) == 1:
        store.mark(replace=True, identity=store.id)
    try:
        for folder, name in moved:
            with contextlib.suppress(FileNotFoundError):  # with its folder, by another one
                folder.remove(name)
        for folder in _folders(points):
            with contextlib.suppress(OSError):  # something came meanwhile
                with points.handle() as own:
                    os.rmdir(os.path.basename(folder.name), dir_fd=own)
    except OSError as error:
        raise unwritable(points.path, error, KEPT) from error
    store.segments.save()
    return len(moved), bad


def _version(store: Store) -> int:
    return json.loads(store.folder().read(MARKER, MAX_MARKER))["limitlab_store"]


def _folders(points: Folder) -> Iterator[Folder]:
    """The folders of an old store; a link in their place is none."""
    for name in points.names():
        about = points.about(name)
        if FOLDER.fullmatch(name) and about is not None and stat.S_ISDIR(about.st_mode):
            yield _Inner(points, name)


class _Inner(Folder):
    """A folder in a folder of a store."""

    def __init__(self, outer: Folder, name: str):
        super().__init__(outer.root, f"{outer.name}/{name}")
        self._outer, self._own = outer, name

    @contextlib.contextmanager
    def handle(self) -> Iterator[int]:
        with self._outer.handle() as outer:
            own = os.open(self._own, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=outer)
            try:
                yield own
            finally:
                os.close(own)


def _bytes(folder: Folder, name: str) -> bytes | str | None:
    """The point in an old file as the present format has it; why not, in words, if it is none; None if it is gone."""
    try:
        found = _point(folder, name)
    except FileNotFoundError:  # another one who migrates was faster
        return None
    if isinstance(found, str):
        return found
    try:
        data, where = encode(found), shown(folder.path / name)
        as_read(data, where)
        return data
    except (InputError, ResultFileError, TypeError, ValueError) as error:  # larger than a point may be; a stranger's
        return one_line(f"{shown(folder.path / name)} cannot be brought over: {error}")


def _point(folder: Folder, name: str) -> Point | str:
    """The point in an old file; why not, in words, if it is none."""
    where, named = shown(folder.path / name), FILE.fullmatch(name)
    if named is None or name[:2] != os.path.basename(folder.name):
        return f"{where} is not a point of this store: its name is not one."
    try:
        point = decode(folder.read(name, MOST), where)
    except NotPlainError as error:
        return f"{error}."
    except ResultFileError as error:
        return str(error)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ResultFileError(f"{where} cannot be read: {error.strerror}. Check its permissions.") from error
    about = point.attrs.get("provenance")
    if not isinstance(about, dict) or about.get("key") != named[1]:
        return f"{where} is another point than its name says. It has to be computed again."
    return point
