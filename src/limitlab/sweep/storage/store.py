"""The points of sweeps on disk: one small netCDF file each, named by what it is, kept whole or not at all.

::

    DIR/limitlab-store.json     says that this is a store
    DIR/points/ab/ab12....nc    a point, named by the hash of problem, verb, arguments, seed and numerics version
    DIR/sweeps/ID.json, ID.keys which points a sweep is made of
    DIR/runs/ID.json            how far a running sweep is
    DIR/quarantine/             files that were not what they should be
    DIR/parts/                  files that are being written
"""

import contextlib
import json
import os
import secrets
import socket
import stat
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from limitlab.errors import DamagedFileWarning, InputError, ResultFileError
from limitlab.files import unwritable, whole
from limitlab.results.points import Point
from limitlab.sweep.storage.netcdf import decode, encode
from limitlab.text import show

__all__ = ["Fault", "Store", "alive", "opened"]

FORMAT = 1
KEPT = (
    "Everything stored so far is kept. Make space, or choose a folder that may be written to, and run again: only what "
    "is missing is computed."
)
MARKER = "limitlab-store.json"
FOLDERS = ("points", "sweeps", "runs", "quarantine", "parts")
KEY_LENGTH = 32
HALF_WRITTEN = 3600.0  # seconds after which a file that another machine is writing is taken for left behind


def _exists(file: Path) -> bool:
    try:
        os.stat(file)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return False
    except (OSError, ValueError) as error:  # a name too long, or with a zero in it
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(
            f"{show(str(file.parent))} cannot be the name of a store: {reason}. Choose another."
        ) from error
    return True


class Fault(NamedTuple):
    """A file of a store that is not what it should be, why, and where it was put."""

    path: Path
    reason: str
    moved_to: Path | None


class Store:
    """A folder of points. Any number of sweeps, on any number of machines that see the folder, may use it at once.

    Parameters
    ----------
    path
        The folder. It is made if it does not exist; a folder with other things in it is refused.
    create
        False refuses a folder that is no store yet.
    """

    def __init__(self, path: str | os.PathLike, create: bool = True):
        if not isinstance(path, (str, os.PathLike)):
            raise InputError(f"A store is a folder: give its path as a text; got {show(path)}.")
        self.path = Path(path).absolute()
        marker = self.path / MARKER
        if not _exists(marker):
            if not create:
                what = "no folder" if not self.path.exists() else "no store of sweeps"
                raise InputError(f"There is {what} at {self.path}. Make one with limitlab sweep ... --out {path}.")
            self._make(marker)
        self.id = self._identity(marker)
        with contextlib.suppress(OSError):  # a store that may only be read is read as it is
            for name in FOLDERS:  # empty ones get lost on the way through archives and git
                (self.path / name).mkdir(exist_ok=True)

    def _make(self, marker: Path) -> None:
        if self.path.exists() and not self.path.is_dir():
            raise InputError(f"A store is a folder; {self.path} is a file. Choose another name.")
        if self.path.is_dir() and any(name not in (*FOLDERS, MARKER) for name in os.listdir(self.path)):
            raise InputError(f"{self.path} has other things in it and is no store. Choose a new or empty folder.")
        try:
            for name in FOLDERS:
                (self.path / name).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise unwritable(self.path, error, KEPT) from error
        about = {"limitlab_store": FORMAT, "id": secrets.token_hex(16)}
        self._whole(marker, json.dumps(about).encode(), replace=False)

    def _identity(self, marker: Path) -> str:
        try:
            about = json.loads(marker.read_bytes()[:4096])
            version, identity = about["limitlab_store"], str(about["id"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ResultFileError(
                f"{marker} cannot be read as the mark of a store ({type(error).__name__}). Restore it, or choose "
                "another folder; the points in it are not lost."
            ) from error
        if version != FORMAT:
            raise ResultFileError(f"{self.path} has format {version}; this limitlab reads format {FORMAT}.")
        return identity

    # --- points ------------------------------------------------------------------------------------------

    def place(self, key: str) -> Path:
        """Where a point's file is: 256 folders, so that none has more than 4000 files for a million points."""
        return self.path / "points" / key[:2] / f"{key}.nc"

    def has(self, key: str) -> bool:
        """Whether there is something under this name; `read` says whether it is a point."""
        return os.path.lexists(self.place(key))

    def keys(self) -> Iterator[str]:
        """Names of all points, in order; other files are passed over (see `verify`)."""
        for path in self._files():
            if _is_key(path.name):
                yield path.stem

    def peek(self, key: str) -> Point | str | None:
        """The point; None if it is not there; why not, in words, if its file is not what its name says."""
        path = self.place(key)
        try:
            if not stat.S_ISREG(os.lstat(path).st_mode):  # a pipe would wait for ever
                return f"{path} is not a point of this store: it is not a file."
            point = decode(path.read_bytes(), str(path))
        except FileNotFoundError:
            return None
        except ResultFileError as error:
            return str(error)
        except OSError as error:
            raise ResultFileError(f"{path} cannot be read: {error.strerror}. Check its permissions.") from error
        about = point.attrs.get("provenance")
        if not isinstance(about, dict) or about.get("key") != key:
            return f"{path} is another point than its name says. It has to be computed again."
        return point

    def read(self, key: str) -> Point | None:
        """The point, or None if it is not there. A file that is not what its name says is moved away, and warned of."""
        found = self._settle(key)
        if isinstance(found, Fault):
            words = f"{found.reason} The file was put into {self.path / 'quarantine'}."
            warnings.warn(words, DamagedFileWarning, stacklevel=2)
        return found if isinstance(found, Point) else None

    def _settle(self, key: str) -> Point | Fault | None:
        found = self.peek(key)
        return self.quarantine(self.place(key), found) if isinstance(found, str) else found

    def write(self, key: str, data: bytes | Point) -> None:
        """Keep a point. The first to come stays: another sweep that was as fast has computed the same."""
        data = encode(data) if isinstance(data, Point) else data
        path = self.place(key)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise unwritable(path, error, KEPT) from error
        self._whole(path, data, replace=False)

    def remove(self, key: str) -> None:
        self.place(key).unlink(missing_ok=True)

    def quarantine(self, path: Path, reason: str) -> Fault:
        """Move a file away, with a note that says why; nothing is deleted."""
        away = self.path / "quarantine" / f"{path.name}.{secrets.token_hex(4)}"
        try:
            os.replace(path, away)
            away.with_name(away.name + ".txt").write_text(f"{path}\n{reason}\n", encoding="utf-8")
        except FileNotFoundError:
            return Fault(path, reason, None)  # another sweep was faster
        except OSError as error:
            raise ResultFileError(
                f"{reason} It could not be moved to {away.parent}: {error.strerror}. Make the store writable."
            ) from error
        return Fault(path, reason, away)

    # --- records -----------------------------------------------------------------------------------------

    def keep_sweep(self, name: str, about: dict[str, Any], keys: list[str]) -> None:
        """Write down which points a sweep is made of, so that it can be put together again."""
        self._whole(self.path / "sweeps" / f"{name}.keys", "\n".join(keys).encode(), replace=True)
        self._whole(self.path / "sweeps" / f"{name}.json", json.dumps(about, indent=1).encode(), replace=True)

    def sweeps(self) -> dict[str, dict[str, Any]]:
        """The sweeps that were run into this store, by name, the latest last."""
        found = {}
        for path in sorted((self.path / "sweeps").glob("*.json"), key=_when):
            about = _json(path)
            if about is not None:
                found[path.stem] = about
        return found

    def keys_of(self, name: str) -> list[str]:
        path = self.path / "sweeps" / f"{name}.keys"
        try:
            keys = path.read_text(encoding="ascii").split("\n")
        except (OSError, UnicodeDecodeError) as error:
            raise ResultFileError(f"The list of points {path} cannot be read. Run the sweep again.") from error
        if not all(_is_key(f"{key}.nc") for key in keys):
            raise ResultFileError(f"{path} is damaged. Run the sweep again: stored points are not computed twice.")
        return keys

    def keep_run(self, name: str, about: dict[str, Any]) -> None:
        """Write down how far a run is, for `limitlab status`."""
        self._whole(self.path / "runs" / f"{name}.json", json.dumps(about).encode(), replace=True)

    def runs(self) -> dict[str, dict[str, Any]]:
        """The runs into this store, by name, the latest last."""
        found = {p.stem: about for p in (self.path / "runs").glob("*.json") if (about := _json(p)) is not None}
        return dict(sorted(found.items(), key=lambda item: item[1].get("began", 0.0)))

    # --- care --------------------------------------------------------------------------------------------

    def faults(self) -> list[Fault]:
        """What lies in quarantine, and why."""
        folder = self.path / "quarantine"
        out = []
        for path in sorted(folder.iterdir()) if folder.is_dir() else ():
            if path.suffix != ".txt":
                try:
                    note = path.with_name(path.name + ".txt").read_text(encoding="utf-8", errors="replace")
                except OSError:
                    note = "\n"
                first, _, reason = note.partition("\n")
                out.append(Fault(Path(first), reason.strip(), path))
        return out

    def verify(self, progress: Any = None) -> tuple[int, list[Fault]]:
        """Read every file; whatever is not a whole point under its own name is moved to quarantine.

        Returns how many points are good, and what was moved.
        """
        files, bad = list(self._files()), []
        for number, path in enumerate(files):
            if not _is_key(path.name) or path.parent.name != path.name[:2]:
                bad.append(self.quarantine(path, f"{path} is not a point of this store: its name is not one."))
            elif isinstance(found := self._settle(path.stem), Fault):
                bad.append(found)
            if progress is not None:
                progress(number + 1, len(files), "verify")
        return len(files) - len(bad), bad

    def parts(self) -> list[Path]:
        """Files that a killed process left half written: those of dead processes of this machine, and old ones."""
        left = []
        for path in (self.path / "parts").iterdir():
            host, _, rest = path.name.rpartition("@")
            process = rest.split(".")[0]
            dead = host == socket.gethostname() and process.isdigit() and not alive(int(process))
            if dead or time.time() - (_when(path) or time.time()) > HALF_WRITTEN:
                left.append(path)
        return left

    def size(self) -> tuple[int, int]:
        """Number of points and their bytes."""
        sizes = []
        for path in self._files():
            with contextlib.suppress(OSError):  # another program may take it away meanwhile
                if _is_key(path.name):
                    sizes.append(path.stat().st_size)
        return len(sizes), sum(sizes)

    def _files(self) -> Iterator[Path]:
        for folder in sorted((self.path / "points").iterdir()):
            if not folder.is_dir():
                yield folder
                continue
            for name in sorted(os.listdir(folder)):
                yield folder / name

    def _whole(self, path: Path, data: bytes, replace: bool) -> None:
        """Write under another name, then give it its own. No flush to the disk: a power cut may lose the last points
        or leave them damaged, which their checksums tell, and a flush would cost more than many a point."""
        part = self.path / "parts" / f"{socket.gethostname()}@{os.getpid()}.{secrets.token_hex(6)}"
        with whole(path, part=part, flush=False, replace=replace, remedy=KEPT):
            part.write_bytes(data)


def opened(store: Any) -> Store | None:
    """The store that a user means: a folder by its name, one that is open already, or none."""
    if store is None or isinstance(store, Store):
        return store
    if not isinstance(store, (str, os.PathLike)):
        raise InputError(f"sweep.store must be a folder or a Store; got {store!r}. Give its name, such as 'runs'.")
    return Store(store)


def _when(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _json(path: Path) -> dict[str, Any] | None:
    try:
        about = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return about if isinstance(about, dict) else None


def _is_key(name: str) -> bool:
    stem, dot, end = name.partition(".")
    return len(stem) == KEY_LENGTH and dot + end == ".nc" and set(stem) <= set("0123456789abcdef")


def alive(process: Any, began: Any = None) -> bool:
    """Whether a process of this machine runs; one that began after ``began`` has only inherited the number."""
    if not isinstance(process, int) or process <= 0:
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    try:
        import psutil

        other = psutil.Process(process)
        if other.status() == psutil.STATUS_ZOMBIE:
            return False
        return began is None or other.create_time() <= float(began) + 2.0
    except Exception:  # psutil is not installed, or the process just ended
        return True
