"""The points of sweeps on disk, appended to a few segments, and the records of what sweeps are made of.

::

    DIR/limitlab-store.json     says that this is a store
    DIR/points/HOST-ID.seg      points, each named by the hash of problem, verb, arguments, seed and numerics version
    DIR/index/HOST-ID.seg.idx   where they are; made again if it is not there
    DIR/sweeps/ID.json, ID.keys which points a sweep is made of
    DIR/runs/ID.json            how far a running sweep is
    DIR/quarantine/             what was not as it should be
    DIR/parts/                  files that are being written
"""

import contextlib
import heapq
import json
import os
import re
import secrets
import socket
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from limitlab.errors import DamagedFileWarning, InputError, ResultFileError
from limitlab.files import unwritable
from limitlab.results.points import Point
from limitlab.sweep.storage.accounts import Accounts, run_account
from limitlab.sweep.storage.files.encoding import decode, encode
from limitlab.sweep.storage.files.folder import KEPT, Folder, Root, piece, shown
from limitlab.sweep.storage.files.life import alive
from limitlab.sweep.storage.files.records import POINT, Found, is_segment
from limitlab.sweep.storage.files.segments import Segments
from limitlab.sweep.storage.verify import Fault, verify
from limitlab.text import one_line, show

__all__ = ["FOLDERS", "FORMAT", "MARKER", "Fault", "Store", "number_of", "opened"]

FORMAT = 2
MARKER = "limitlab-store.json"
FOLDERS = ("points", "index", "sweeps", "runs", "quarantine", "parts")
KEY_LENGTH = 32
HALF_WRITTEN = 3600.0  # seconds after which a file that another machine is writing is taken for left behind
MAX_MARKER = 4096  # bytes of the file that says that this is a store
MAX_RECORD = 1 << 25  # of a record of a sweep
MAX_RUN = 1 << 16  # of a record of a run
MAX_RUNS = 10_000  # records of runs that are looked at
MAX_KEYS = 1 << 28  # of a list of points: 8 million
MAX_NOTE = 1 << 16  # of a note in quarantine


def _exists(file: Path) -> bool:
    try:
        os.lstat(file)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return False
    except (OSError, ValueError) as error:  # a name too long, or with a zero in it
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(
            f"{show(str(file.parent))} cannot be the name of a store: {reason}. Choose another."
        ) from error
    return True


class Store:
    """A folder of points. Any number of sweeps, on any number of machines that see the folder, may use it at once.

    Parameters
    ----------
    path
        The folder. It is made if it does not exist; a folder with other things in it is refused.
    create
        False refuses a folder that is no store yet.
    migrating
        True opens a store of an older format, into which points are brought over.
    """

    def __init__(self, path: str | os.PathLike, create: bool = True, migrating: bool = False):
        if not isinstance(path, (str, os.PathLike)):
            raise InputError(f"A store is a folder: give its path as a text; got {show(path)}.")
        self.path = Path(path).absolute()
        marker = self.path / MARKER
        if not _exists(marker):
            if not create:
                what = "no folder" if not self.path.exists() else "no store of sweeps"
                raise InputError(
                    f"There is {what} at {shown(self.path)}. Make one with limitlab sweep ... --out {shown(path)}."
                )
            self._make(marker)
        self._root = self._opened()
        self.id = self._identity(migrating)
        self._segments = Segments(self._root)
        self._turn = threading.Lock()
        self._segments.refresh()

    def folder(self, name: str = "") -> Folder:
        """One of its folders, or the store itself."""
        return Folder(self._root, name)

    def _make(self, marker: Path) -> None:
        if self.path.exists() and not self.path.is_dir():
            raise InputError(f"A store is a folder; {shown(self.path)} is a file. Choose another name.")
        if self.path.is_dir() and any(name not in (*FOLDERS, MARKER) for name in os.listdir(self.path)):
            raise InputError(
                f"{shown(self.path)} has other things in it and is no store. Choose a new or empty folder."
            )
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._root = Root(self.path)
            for name in FOLDERS:
                self.folder(name).make()
        except OSError as error:
            raise unwritable(self.path, error, KEPT) from error
        self.mark(replace=False)

    def _opened(self) -> Root:
        try:
            return Root(self.path)
        except OSError as error:
            raise ResultFileError(
                f"The store {shown(self.path)} cannot be opened: {error.strerror}. Check its permissions."
            ) from error

    def mark(self, replace: bool, identity: str | None = None) -> None:
        """Write down that this is a store of the present format."""
        about = {"limitlab_store": FORMAT, "id": identity or secrets.token_hex(16)}
        self.folder().write(MARKER, json.dumps(about).encode(), replace=replace, flush=True)

    def _identity(self, migrating: bool) -> str:
        marker, data = shown(self.path / MARKER), None
        try:
            data = self._mark()
            if not data and any(map(is_segment, self.folder("points").names())):
                with contextlib.suppress(ResultFileError):  # it may be a store that can only be read
                    self.mark(replace=True)  # a power cut emptied it; what it says can be said again
                data = self._mark() or json.dumps({"limitlab_store": FORMAT, "id": "unknown"})
            about = json.loads(data)
            version, identity = about["limitlab_store"], str(about["id"])[:100]
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            remedy = "Remove it and run again" if data == b"" else "Restore it"
            raise ResultFileError(
                f"{marker} cannot be read as the mark of a store ({type(error).__name__}). {remedy}, or choose "
                "another folder; the points in it are not lost."
            ) from error
        if version == 1 and not migrating:
            raise ResultFileError(
                f"{shown(self.path)} has format 1, a file for each point; this limitlab reads format {FORMAT}. Run "
                f"limitlab store migrate {shown(self.path)} once: all points are kept."
            )
        if version not in (1, FORMAT):
            raise ResultFileError(
                f"{shown(self.path)} has format {show(version)}; this limitlab reads format {FORMAT}."
            )
        return identity

    # --- points ------------------------------------------------------------------------------------------

    def has(self, key: str) -> bool:
        """Whether there is something under this name; `read` says whether it is a point."""
        return _is_key(key) and bytes.fromhex(key) in self._segments

    def keys(self) -> Iterator[str]:
        """Names of all points, in order."""
        self._segments.refresh()
        return (key.hex() for key in self._segments.keys())

    def peek(self, key: str) -> Point | str | None:
        """The point; None if it is not there; why not, in words, if it is not what its name says."""
        found = self._segments.read(bytes.fromhex(key)) if _is_key(key) else None
        return None if found is None else self.judged(found, key)

    def judged(self, found: Found, key: str) -> Point | str:
        """The point in a record; why it is none, in words, if it is not what its name says."""
        if found.fault:
            return f"{found.fault}. Point {key} has to be computed again."
        try:
            point = decode(found.content, f"Point {key}")
        except ResultFileError as error:
            return one_line(str(error))
        about = point.attrs.get("provenance")
        if not isinstance(about, dict) or about.get("key") != key:
            return f"Point {key} is another point than its name says. It has to be computed again."
        return point

    def read(self, key: str) -> Point | None:
        """The point, or None if it is not there. What is not what its name says is put aside, and warned of."""
        found = self.peek(key)
        if isinstance(found, str):
            fault = self._put_aside(key, found)
            words = f"{fault.reason} It was put into {shown(self.path / 'quarantine')}."
            warnings.warn(words, DamagedFileWarning, stacklevel=2)
            return self.read(key)  # somebody else may have stored it too
        return found

    def _put_aside(self, key: str, reason: str) -> Fault:
        """Copy the bytes of a bad record to quarantine, and say that it counts no more."""
        place = self._segments.place_of(bytes.fromhex(key))
        if place is None:
            return Fault(self.path / "points", reason, None)
        return self.aside(place[0], place[1], self._segments.length(bytes.fromhex(key)), key, reason)

    def aside(self, name: str, place: int, length: int, what: str, reason: str) -> Fault:
        """Copy bytes of a segment to quarantine, and say that they count no more."""
        path = self.path / "points" / name
        try:
            file = self.folder("points").open(name)
            try:
                data = piece(file, place, min(length or MAX_NOTE, MAX_RECORD))
            finally:
                os.close(file)
            away = self.noted(f"{what}.point", path, reason, data)
            self._segments.void(name, place, length, bytes.fromhex(what) if _is_key(what) else b"")
        except (OSError, ValueError) as error:
            if isinstance(error, ResultFileError):
                error = error.__cause__ or error
            raise ResultFileError(
                f"{reason} It could not be put into {shown(self.path / 'quarantine')}: "
                f"{getattr(error, 'strerror', None) or error}. Make the store writable."
            ) from error
        return Fault(path, reason, away)

    def noted(self, name: str, path: Path, reason: str, data: bytes | None) -> Path:
        """A name in quarantine with a note that says why; the bytes too if they are given."""
        harmless = re.sub(r"[^A-Za-z0-9._-]", "_", name)[:100]  # short as bytes, too
        quarantine, away = self.folder("quarantine"), f"{harmless}.{secrets.token_hex(4)}"
        quarantine.make()
        if data is not None:
            quarantine.write(away, data)
        note = f"{one_line(str(path), MAX_NOTE // 2)}\n{one_line(reason)}\n"
        quarantine.write(f"{away}.txt", note.encode("utf-8", "backslashreplace"))
        return quarantine.path / away

    def write(self, key: str, data: bytes | Point) -> None:
        """Keep a point. The first to come stays: another sweep that was as fast has computed the same.

        It is not flushed to the disk: a power cut may lose the last points or leave them damaged, which their
        checksums tell, and a flush would cost more than many a point.
        """
        data = encode(data) if isinstance(data, Point) else data
        with self._turn:
            if not self.has(key):
                self._segments.append(POINT, bytes.fromhex(key), data)

    def remove(self, key: str) -> None:
        """Say that a point counts no more; `pack` frees its bytes."""
        name = bytes.fromhex(key)
        while (place := self._segments.place_of(name)) is not None:
            self._segments.void(*place, self._segments.length(name), name)

    def refresh(self) -> None:
        """Look for what others have written."""
        self._segments.refresh()

    def gone(self) -> bool:
        """Whether another store, or none, is in its place now."""
        try:
            return not self._root.same(Root(self.path)) or json.loads(self._mark())["id"] != self.id
        except (OSError, ValueError, KeyError, TypeError):
            return True

    def _mark(self) -> bytes:
        return self.folder().read(MARKER, MAX_MARKER)

    def claim(self, keys: list[str]) -> None:
        """Say which points are being computed here, in place of what was said before; the claim ends with the process.

        A hint for other sweeps, which leave these for later. Without the right to write it is not said.
        """
        with contextlib.suppress(ResultFileError):
            self._segments.claim([bytes.fromhex(key) for key in keys])

    def claimed(self, key: str) -> bool:
        """Whether another process that is alive computes this point."""
        return self._segments.claimed(bytes.fromhex(key))

    def length(self, key: str) -> int:
        """The bytes that a point takes."""
        return self._segments.length(bytes.fromhex(key))

    @property
    def segments(self) -> Segments:
        """The files that the points are in."""
        return self._segments

    def close(self) -> None:
        """Let go of its files. A store that nobody holds any more does so by itself."""
        self._segments.close()

    def quarantine(self, folder: Folder, name: str, reason: str) -> Fault:
        """Move something away that does not belong where it is, with a note that says why; nothing is deleted."""
        path = folder.path / name
        try:
            away = self.noted(name, path, reason, None)
            folder.move(name, self.folder("quarantine"), away.name)
        except FileNotFoundError:
            return Fault(path, reason, None)  # another sweep was faster
        except OSError as error:
            raise ResultFileError(
                f"{reason} It could not be moved to {shown(self.path / 'quarantine')}: "
                f"{error.strerror or error}. Make the store writable."
            ) from error
        return Fault(path, reason, away)

    # --- records -----------------------------------------------------------------------------------------

    def keep_sweep(self, name: str, about: dict[str, Any], keys: list[str]) -> None:
        """Write down which points a sweep is made of, so that it can be put together again."""
        sweeps = self.folder("sweeps")
        files = {f"{name}.keys": "\n".join(keys).encode(), f"{name}.json": json.dumps(about, indent=1).encode()}
        self._make_folder(sweeps)
        for file, data in files.items():
            sweeps.write(file, data)

    def _make_folder(self, folder: Folder) -> None:
        try:
            folder.make()
        except OSError as error:
            raise unwritable(folder.path, error, KEPT) from error

    def sweeps(self) -> Accounts:
        """The sweeps that were run into this store, by name, the latest last."""
        return Accounts(self.folder("sweeps"), MAX_RECORD)

    def keys_of(self, name: str) -> list[str]:
        """The points that a sweep is made of, in the order of its grid."""
        folder, file = self.folder("sweeps"), f"{name}.keys"
        try:
            keys = folder.read(file, MAX_KEYS).decode("ascii").split("\n")
        except (OSError, ValueError) as error:
            raise ResultFileError(
                f"The list of points {shown(folder.path / file)} cannot be read. Run the sweep again."
            ) from error
        if not all(map(_is_key, keys)):
            raise ResultFileError(
                f"{shown(folder.path / file)} is damaged. Run the sweep again: stored points are not computed twice."
            )
        return keys

    def keep_run(self, name: str, about: dict[str, Any]) -> None:
        """Write down how far a run is, for `limitlab status`."""
        runs = self.folder("runs")
        self._make_folder(runs)
        runs.write(f"{name}.json", json.dumps(about).encode())

    def runs(self) -> dict[str, dict[str, Any]]:
        """The runs into this store, by name, the latest last: those that told something last, if there are many."""
        folder = self.folder("runs")
        there = {name: about.st_mtime for name, about in folder.files().items() if name.endswith(".json")}
        files = heapq.nlargest(MAX_RUNS, there, key=lambda name: (there[name], name))
        read = {name.removesuffix(".json"): run_account(folder, name, MAX_RUN) for name in files}
        found = {name: about for name, about in read.items() if about is not None}
        return dict(sorted(found.items(), key=lambda item: (number_of(item[1].get("began")), item[0])))

    # --- care --------------------------------------------------------------------------------------------

    def put_aside(self) -> int:
        """How many things lie in quarantine."""
        return sum(not name.endswith(".txt") for name in self.folder("quarantine").names())

    def faults(self) -> list[Fault]:
        """What lies in quarantine, and why."""
        folder, out = self.folder("quarantine"), []
        for name in folder.names():
            if not name.endswith(".txt"):
                try:
                    note = folder.read(f"{name}.txt", MAX_NOTE).decode("utf-8", "replace")
                except (OSError, ValueError):
                    note = "\n"
                first, _, reason = note.partition("\n")
                out.append(Fault(Path(first), one_line(reason.strip()), folder.path / name))
        return out

    def verify(self, progress: Callable[[int, int, str], None] | None = None) -> tuple[int, list[Fault]]:
        """Read every point; whatever is not a whole point under its own name is put aside.

        Returns how many points are good, and what was put aside. The index is made again.
        """
        return verify(self, progress)

    def parts(self) -> list[str]:
        """Names of files that a killed process left half written: of dead processes of this machine, and old ones."""
        left = []
        for name, about in self.folder("parts").files().items():
            host, _, rest = name.rpartition("@")
            process = rest.split(".")[0]
            dead = host == socket.gethostname() and process.isdigit() and not alive(int(process))
            if dead or time.time() - about.st_mtime > HALF_WRITTEN:
                left.append(name)
        return left

    def tidy(self) -> None:
        """Remove what killed processes left half written; a store that may only be read stays as it is."""
        with contextlib.suppress(OSError):
            for name in self.parts():
                self.folder("parts").remove(name)

    def size(self) -> tuple[int, int]:
        """Number of points, and the bytes of the files that they are in."""
        self._segments.refresh()
        return len(self._segments), self._segments.total()


def opened(store: Any) -> Store | None:
    """The store that a user means: a folder by its name, one that is open already, or none."""
    if store is None or isinstance(store, Store):
        return store
    if not isinstance(store, (str, os.PathLike)):
        raise InputError(f"sweep.store must be a folder or a Store; got {store!r}. Give its name, such as 'runs'.")
    return Store(store)


def number_of(value: Any) -> float:
    """A number of a record, which may be a stranger's; 0 if it is none."""
    return float(value) if isinstance(value, (int, float)) and abs(value) < 1e300 else 0.0


def _is_key(key: str) -> bool:
    return len(key) == KEY_LENGTH and set(key) <= set("0123456789abcdef")
