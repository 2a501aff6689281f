"""Files that appear whole or not at all, and files of strangers that are opened with care."""

import contextlib
import errno
import itertools
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from limitlab.errors import LimitlabError, ResultFileError
from limitlab.text import nearest, one_line

__all__ = ["NO_LINKS", "open_plain", "own_file", "unwritable", "whole"]

ELSEWHERE = "Choose a folder that exists, may be written to and has space."
MAX_NEIGHBOURS = 1000  # files of a folder that are compared with a name that does not exist
NO_LINKS = (
    errno.EPERM,
    errno.ENOTSUP,
    errno.EOPNOTSUPP,
    errno.ENOSYS,
    errno.EMLINK,
)  # a file system without second names


@contextlib.contextmanager
def whole(
    path: str | os.PathLike,
    *,
    part: Path | None = None,
    flush: bool = True,
    replace: bool = True,
    remedy: str = ELSEWHERE,
) -> Iterator[Path]:
    """A name to write to. When all is written, the file takes its place; when not, it goes.

    A reader sees the old file or the new one, no part of one. An interruption (Ctrl-C, a full disk) leaves the old
    file as it was and nothing beside it.

    Parameters
    ----------
    path
        The file's place.
    part
        The name until then, on the same file system; a hidden one beside ``path`` if None.
    flush
        Whether file and name are on the disk before this ends, so that a power cut cannot lose them.
    replace
        False keeps a file that is there already: the first to come stays.
    remedy
        What to do, in words, if the system refuses to write.
    """
    path = Path(path)
    if replace and path.is_dir():
        raise ResultFileError(f"{path} is a folder; a file was needed. Give the name of a file in it.")
    part = path.with_name(f".{path.name}.{secrets.token_hex(6)}.part") if part is None else part
    try:
        yield part
        if flush:
            _flush(part)
        if replace:
            os.replace(part, path)
        else:
            _first(part, path)
        if flush:
            _flush(path.parent)
    except LimitlabError:
        raise
    except OSError as error:
        raise unwritable(path, error, remedy) from error
    finally:
        with contextlib.suppress(OSError):  # gone already, or on a disk that has become read-only
            part.unlink()


def unwritable(path: Path, error: Exception, remedy: str = ELSEWHERE) -> ResultFileError:
    """Says that a file could not be written, why, and what to do."""
    number = getattr(error, "errno", None)
    return ResultFileError(f"{path} could not be written: {os.strerror(number) if number else error}. {remedy}")


def _first(part: Path, path: Path) -> None:
    """Give the file its name unless another one has it."""
    try:
        os.link(part, path, follow_symlinks=False)
    except FileExistsError:
        pass
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        os.replace(part, path)


def _flush(path: Path) -> None:
    """Ask the system to put a file, or a folder's new entry, on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.EBADF):  # some file systems cannot flush a folder
            raise
    finally:
        os.close(handle)


def own_file(path: Path, flags: int) -> int:
    """Open a file that this program made itself: not what somebody put under its name meanwhile."""
    handle = os.open(path, flags | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0), 0o666)
    about = os.fstat(handle)
    if not stat.S_ISREG(about.st_mode) or about.st_nlink != 1:
        os.close(handle)
        raise OSError(errno.EPERM, "somebody else put something in its place while it was written")
    return handle


def open_plain(path: Path, what: str, remedy: str) -> BinaryIO:
    """Open a regular file without ever waiting for one: folders, pipes and devices are refused.

    A path that is no such file raises `ValueError` in words; what the system refuses raises `OSError`.
    """
    shown = one_line(str(path))
    try:
        regular = stat.S_ISREG(os.stat(path).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        raise ValueError(f"There is no {what} file {shown}.{_neighbour(path)}") from None
    except ValueError:  # a null byte
        raise ValueError(f"There is no {what} file {shown}: no file has such a name. {remedy}") from None
    if not regular:
        raise ValueError(f"{shown} is not a file. {remedy}")
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    file = os.fdopen(handle, "rb")
    if not stat.S_ISREG(os.fstat(handle).st_mode):  # it was changed in between
        file.close()
        raise ValueError(f"{shown} is not a file. {remedy}")
    return file


def _neighbour(path: Path) -> str:
    try:
        names = [entry.name for entry in itertools.islice(os.scandir(path.parent), MAX_NEIGHBOURS)]
    except OSError:
        return ""
    near = nearest(path.name, names)
    return f" Did you mean {one_line(near)}?" if near else ""
