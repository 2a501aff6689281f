"""Whether a writer lives: locks on files, which end with their process however that ends, and numbers of processes."""

import errno
import os
import time
from typing import Any

try:
    import fcntl
except ImportError:  # no locks: claims count for nothing, and no segment is carried on
    fcntl = None

__all__ = ["alive", "held", "lock", "locked"]

LONG_AGO = 3600.0  # seconds without a change after which nobody writes, on systems without locks
TAKEN = (errno.EACCES, errno.EAGAIN, errno.EWOULDBLOCK)


def lock(file: int) -> bool | None:
    """Take the lock of a file; False if another has it, None where there are no locks."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except OSError as error:
        return False if error.errno in TAKEN else None


def locked(file: int) -> bool:
    """Take the lock of a file; False if its writer has it, or if nobody can tell and it changed lately."""
    taken = lock(file)
    return time.time() - os.fstat(file).st_mtime > LONG_AGO if taken is None else taken


def held(file: int) -> bool:
    """Whether a process holds the lock of a file. Where there are no locks nobody can tell: then no."""
    if fcntl is None:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    except OSError as error:
        return error.errno in TAKEN


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
