"""A folder of a store, reached by its handle: nothing outside of it is touched or read, whatever lies in it.

A store may come from a stranger. Links in it are not followed, pipes and devices are not opened, and no more of a file
is read than the reader says beforehand.
"""

import contextlib
import errno
import os
import secrets
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

from limitlab.errors import InputError, ResultFileError
from limitlab.files import NO_LINKS, unwritable
from limitlab.text import one_line

__all__ = ["KEPT", "Folder", "NotPlainError", "Root", "piece", "put", "shown"]

KEPT = (
    "Everything stored so far is kept. Make space, or choose a folder that may be written to, and run again: only what "
    "is missing is computed."
)
PARTS = "parts"
_OPEN = os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY if hasattr(os, "O_DIRECTORY") else os.O_RDONLY
_PLAIN = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)


class NotPlainError(ValueError):
    """A name in a store stands for a link, a pipe, a device, or a file that is larger than it may be."""


def shown(path: object) -> str:
    """A path that may be a stranger's, as it can be printed."""
    return one_line(str(path))


class Root:
    """The folder of a store, open as long as this object lives.

    It may be reached through a link. Whoever puts another folder or a link under its name later changes nothing: the
    name is not looked up again.
    """

    def __init__(self, path: Path):
        if os.open not in os.supports_dir_fd:
            raise InputError("Stores need Linux or macOS: this system cannot keep a program inside a folder.")
        self.path, self.file = path, -1
        self.file = os.open(path, _OPEN)

    def __del__(self) -> None:
        if self.file >= 0:
            os.close(self.file)

    def same(self, other: "Root") -> bool:
        """Whether the two are one folder."""
        return os.path.samestat(os.fstat(self.file), os.fstat(other.file))


class Folder:
    """One folder of a store, or the store itself (no name)."""

    def __init__(self, root: Root, name: str = ""):
        self.root, self.name = root, name
        self.path = root.path / name if name else root.path

    @contextlib.contextmanager
    def handle(self) -> Iterator[int]:
        """The folder itself, open; it may be no link."""
        if not self.name:
            yield self.root.file
            return
        try:
            own = os.open(self.name, _OPEN | getattr(os, "O_NOFOLLOW", 0), dir_fd=self.root.file)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.EMLINK):
                raise ResultFileError(
                    f"{shown(self.path)} is a link or a file. A store has its folders in itself: put the folder "
                    "there, or remove what stands in its place."
                ) from None
            raise
        try:
            yield own
        finally:
            os.close(own)

    def make(self) -> None:
        """Make it if it is not there."""
        with contextlib.suppress(FileExistsError):
            os.mkdir(self.name, dir_fd=self.root.file)

    def names(self) -> list[str]:
        """What lies in it, in order; nothing if it is not there."""
        try:
            with self.handle() as own:
                return sorted(os.listdir(own))
        except FileNotFoundError:
            return []

    def files(self) -> dict[str, os.stat_result]:
        """The plain files in it, by name, in one look; nothing if it is not there."""
        try:
            with self.handle() as own, os.scandir(own) as entries:
                return {e.name: e.stat(follow_symlinks=False) for e in entries if e.is_file(follow_symlinks=False)}
        except FileNotFoundError:
            return {}

    def about(self, name: str) -> os.stat_result | None:
        """What stands under a name, links not followed; None if nothing does."""
        try:
            with self.handle() as own:
                return os.stat(name, dir_fd=own, follow_symlinks=False)
        except ResultFileError:
            raise
        except OSError:
            return None

    def open(self, name: str, flags: int = os.O_RDONLY) -> int:
        """A plain file, open; `NotPlainError` for anything else."""
        try:
            with self.handle() as own:
                file = os.open(name, flags | _PLAIN, 0o666, dir_fd=own)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENXIO, errno.EMLINK, errno.EISDIR):
                raise NotPlainError(f"{shown(self.path / name)} is not a file") from None
            raise
        if not stat.S_ISREG(os.fstat(file).st_mode):
            os.close(file)
            raise NotPlainError(f"{shown(self.path / name)} is not a file")
        return file

    def read(self, name: str, most: int) -> bytes:
        """All of a plain file of at most so many bytes."""
        file = self.open(name)
        try:
            pieces, left = [], 0 if os.fstat(file).st_size > most else most + 1  # it may grow meanwhile
            while left > 0 and (piece := os.read(file, min(left, 1 << 20))):
                pieces.append(piece)
                left -= len(piece)
        finally:
            os.close(file)
        if left <= 0:
            raise NotPlainError(f"{shown(self.path / name)} has more than {most} bytes, which nothing of its kind has")
        return b"".join(pieces)

    def write(self, name: str, data: bytes, replace: bool = True, flush: bool = False) -> None:
        """Write under another name, then give it its own: a reader sees the old file or the new one, no part of one.

        Without a flush a power cut may leave it empty. ``replace=False`` keeps what is there already.
        """
        parts, part = Folder(self.root, PARTS), f"{socket.gethostname()}@{os.getpid()}.{secrets.token_hex(6)}"
        try:
            parts.make()  # empty folders get lost on the way through archives and git
            with parts.handle() as there:
                made = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _PLAIN, 0o666, dir_fd=there)
                try:
                    try:
                        put(made, data)
                        if flush:
                            os.fsync(made)
                    finally:
                        os.close(made)
                    with self.handle() as own:
                        if replace:
                            os.replace(part, name, src_dir_fd=there, dst_dir_fd=own)
                        else:
                            _first(part, name, there, own, data)
                        if flush:
                            with contextlib.suppress(OSError):  # some file systems cannot flush a folder
                                os.fsync(own)
                finally:
                    with contextlib.suppress(OSError):
                        os.unlink(part, dir_fd=there)
        except ResultFileError:
            raise
        except OSError as error:
            raise unwritable(self.path / name, error, KEPT) from error

    def remove(self, name: str) -> None:
        """Take away what stands under a name: a link itself, a folder with all that is in it."""
        with self.handle() as own:
            try:
                os.unlink(name, dir_fd=own)
            except FileNotFoundError:
                pass
            except (IsADirectoryError, PermissionError):
                if not stat.S_ISDIR(os.stat(name, dir_fd=own, follow_symlinks=False).st_mode):
                    raise
                _remove_all(name, own)

    def move(self, name: str, other: "Folder", new: str) -> None:
        """Give what stands under a name another one in another folder of the store; a link moves itself."""
        with self.handle() as own, other.handle() as there:
            os.replace(name, new, src_dir_fd=own, dst_dir_fd=there)


def _first(part: str, name: str, there: int, own: int, data: bytes) -> None:
    """Give a file its name unless another one has it; written in its place where files have no second names."""
    try:
        os.link(part, name, src_dir_fd=there, dst_dir_fd=own, follow_symlinks=False)
    except FileExistsError:
        return
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        with contextlib.suppress(FileExistsError):
            made = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _PLAIN, 0o666, dir_fd=own)
            try:
                put(made, data)
                os.fsync(made)
            finally:
                os.close(made)


def _remove_all(name: str, own: int) -> None:
    """Remove a folder and all in it, however deep: what lies deeper comes up before its folder goes."""
    top = os.open(name, _OPEN | getattr(os, "O_NOFOLLOW", 0), dir_fd=own)
    try:
        while entries := os.listdir(top):
            for entry in entries:
                if not stat.S_ISDIR(os.stat(entry, dir_fd=top, follow_symlinks=False).st_mode):
                    os.unlink(entry, dir_fd=top)
                    continue
                inner = os.open(entry, _OPEN | getattr(os, "O_NOFOLLOW", 0), dir_fd=top)
                try:
                    for below in os.listdir(inner):
                        os.rename(below, secrets.token_hex(8), src_dir_fd=inner, dst_dir_fd=top)
                finally:
                    os.close(inner)
                os.rmdir(entry, dir_fd=top)
    finally:
        os.close(top)
    os.rmdir(name, dir_fd=own)


def piece(file: int, place: int, most: int) -> bytes:
    """Bytes of a file from a place on, up to the next hole: what takes nothing on the disk is not copied."""
    with contextlib.suppress(AttributeError, OSError):  # a system that cannot tell; a place beyond the end
        most = min(most, os.lseek(file, place, os.SEEK_HOLE) - place)
    return os.pread(file, most, place)


def put(file: int, data: bytes) -> None:
    """Write all of it."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(file, rest) :]
