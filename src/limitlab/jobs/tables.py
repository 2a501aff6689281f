"""Tables that visitors bring: looked at before they are read, so that a small file cannot become a large one."""

import io
import zipfile
from math import prod

import numpy as np

from limitlab.errors import InputError

__all__ = ["MOST", "check_table"]

MOST = 1 << 23  # numbers of a table
HEAD = 1 << 12  # bytes within which an array says its shape: what its head says of its own length is not believed


def check_table(name: str, data: bytes) -> None:
    """Refuse with `InputError` what is not text (CSV) or has no X and y of a fair size (npz). Nothing is unpacked."""
    if not name.lower().endswith(".npz"):
        try:
            data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise InputError(
                f"The table is not UTF-8 text (byte {error.start + 1}). Save it as CSV in UTF-8."
            ) from None
        return
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as held:
            names = set(held.namelist())
            if names & {"X", "y"}:  # a reader would take these for the arrays
                raise ValueError("parts without their ending")
            shapes = {part: _shape(held, f"{part}.npy") for part in ("X", "y") if f"{part}.npy" in names}
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError, RuntimeError):
        raise InputError("The file cannot be read as npz. Write it by numpy.savez(file, X=..., y=...).") from None
    if set(shapes) != {"X", "y"}:
        raise InputError("An npz file must hold arrays X and y. Write it by numpy.savez(file, X=..., y=...).")
    if sum(shapes.values()) > MOST:
        raise InputError(f"At most {MOST:,} numbers; got {sum(shapes.values()):,}. Take fewer rows or columns.")


def _shape(held: zipfile.ZipFile, name: str) -> int:
    """How many numbers an array of the file has, by its head alone; ValueError if they are no numbers."""
    with held.open(name) as part:
        head = io.BytesIO(part.read(HEAD))
    major = np.lib.format.read_magic(head)[0]
    read = np.lib.format.read_array_header_1_0 if major == 1 else np.lib.format.read_array_header_2_0
    shape, _, kind = read(head)
    if kind.kind not in "biuf" or any(length < 0 for length in shape):
        raise ValueError("no numbers")
    return prod(shape)
