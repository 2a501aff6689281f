"""Files that appear whole or not at all."""

import os
import tempfile
from pathlib import Path

from limitlab.errors import ResultFileError

__all__ = ["write_whole"]


def write_whole(path: str | os.PathLike, data: bytes) -> Path:
    """Write ``data`` beside its place, then rename it: a reader sees the old file or the new one, no part.

    An interruption (Ctrl-C, a full disk) leaves the old file as it was and no temporary file behind.
    """
    path = Path(path)
    if path.is_dir():
        raise ResultFileError(f"{path} is a folder; a file was needed. Give the name of a file in it.")
    temporary = None
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)  # mkstemp makes private files; a figure is an ordinary one
        os.replace(temporary, path)
    except OSError as error:
        raise ResultFileError(
            f"{path} could not be written: {error.strerror or error}. "
            "Choose a folder that exists, may be written to and has space."
        ) from error
    finally:
        if temporary is not None and os.path.exists(temporary):
            os.remove(temporary)
    return path
