"""Opening a file whose path a stranger may have prepared: a plain file, or nothing."""

import difflib
import itertools
import os
import stat
from pathlib import Path
from typing import BinaryIO

from limitlab.spec.shown import printable

__all__ = ["open_plain"]

MAX_NEIGHBOURS = 1000  # files of a folder that are compared with a name that does not exist


def open_plain(path: Path, what: str, remedy: str) -> BinaryIO:
    """Open a regular file without ever waiting for one: folders, pipes and devices are refused.

    A path that is no such file raises `ValueError` in words; what the system refuses raises `OSError`.
    """
    shown = printable(str(path))
    try:
        regular = stat.S_ISREG(os.stat(path).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        raise ValueError(f"There is no {what} file {shown}.{_near(path)}") from None
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


def _near(path: Path) -> str:
    try:
        names = [entry.name for entry in itertools.islice(os.scandir(path.parent), MAX_NEIGHBOURS)]
    except OSError:
        return ""
    near = difflib.get_close_matches(path.name, names, 1)
    return f" Did you mean {printable(near[0])}?" if near else ""
