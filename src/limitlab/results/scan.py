"""A look at a result file before it is read: plain arrays of numbers and texts, all of them inside the file.

`save` writes every array whole and uncompressed, so that nothing a file declares can be larger than the file. What
could make a small file large (missing chunks, compression, texts that share their bytes) or point elsewhere (links,
external and virtual storage) is refused before an array is made.
"""

import math
import mmap
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from limitlab.errors import ResultFileError
from limitlab.files import open_plain
from limitlab.text import show

if TYPE_CHECKING:
    import h5py

__all__ = ["available_memory", "check_file", "check_image"]

MAX_VARIABLES = 1000
MAX_ATTRIBUTES = 1000  # of each variable, and of the file
MAX_NAME = 255  # characters
MAX_RANK = 16  # dimensions of a variable
FREE = 100_000_000  # bytes of memory that any file may take, and
SHARE = 20  # times its own size (JSON takes that much when it is read; numbers take what they take on disk)
JSON_MARK = "json:"

_HEAP = b"GCOL\x01"  # how a collection of texts begins
_SCALES = ("DIMENSION_LIST", "REFERENCE_LIST")  # how netCDF ties variables to their dimensions
_NUMBERS = "fiuc"


def check_file(path: Path, memory: float = math.inf) -> None:
    """Raise `ResultFileError` unless all that the file declares is plain and within it.

    `MemoryError` if it does not fit into ``memory`` (bytes).
    """
    import h5py

    with (
        open_plain(path, "result", "Give the name of a .nc file.") as raw,
        mmap.mmap(raw.fileno(), 0, access=mmap.ACCESS_READ) as data,
    ):
        scan = _Scan(data, memory)
        scan.heaps()  # before HDF5 sees it, which would not stop
        with h5py.File(path, "r") as file:
            scan.plain(file)
            if "schema_version" not in file.attrs:
                raise ResultFileError("it has no schema_version")


def check_image(data: bytes, opened: "Callable[[bytes], h5py.File]", memory: float = math.inf) -> "h5py.File":
    """The same of a file in memory, which comes back open; it may be without a schema, and have any names."""
    scan = _Scan(data, memory, named=False)
    scan.heaps()
    file = opened(data)
    try:
        scan.plain(file)
    except BaseException:
        file.close()
        raise
    return file


def available_memory() -> float:
    """Bytes that can be had now; infinite if the system does not say."""
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return 1024.0 * int(line.split()[1])
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, OSError, ValueError):
        return math.inf


class _Scan:
    """What has been seen of a file, counted in bytes of memory."""

    def __init__(self, data: "bytes | mmap.mmap", memory: float, named: bool = True):
        self.data, self.size, self.memory, self.needed, self.named = data, len(data), memory, 0, named

    def plain(self, file: "h5py.File") -> None:
        """Raise unless the file holds plain arrays of its own and nothing else."""
        import h5py

        if file.userblock_size or file.id.get_create_plist().get_sizes() != (8, 8):
            raise ResultFileError("it does not begin as a file of limitlab.save does")
        if len(file) > MAX_VARIABLES:
            raise ResultFileError(f"it has {len(file)} variables; a result has at most {MAX_VARIABLES}")
        self.attributes(file, "the file")
        for name in map(str, file):
            self.name(name)
            if not isinstance(file.get(name, getlink=True), h5py.HardLink):
                raise ResultFileError(f"{show(name)} is a link to another place")
            array = file[name]
            if not isinstance(array, h5py.Dataset):
                raise ResultFileError(f"{show(name)} is a group or a type; a result has variables only")
            self.variable(array, name)

    def heaps(self) -> None:
        """Raise unless every collection of texts is a row of entries that ends: HDF5 itself would not stop."""
        steps = 0
        data, at = self.data, self.data.find(_HEAP)
        while at >= 0:
            end = at + int.from_bytes(data[at + 8 : at + 16], "little")
            place = at + 16 if end <= self.size else end  # one that is too long is refused by HDF5
            while place + 16 <= end:
                index, length = struct.unpack_from("<H6xQ", data, place)
                place += 16 + -(-length // 8) * 8 if index else length  # entry 0 is the free rest
                steps += 1
                if place > end or (index == 0 and length == 0) or steps > self.size // 16:
                    raise ResultFileError("its texts are damaged")
            at = data.find(_HEAP, at + 1)

    def need(self, count: int, what: str) -> None:
        self.needed += count
        if self.needed > FREE + SHARE * self.size:
            raise ResultFileError(
                f"{what} would take the {self.size} bytes of the file to {self.needed} bytes of memory, more than "
                f"{FREE} and {SHARE} times the file"
            )
        if self.needed > self.memory:
            raise MemoryError(f"it needs {self.needed / 1e9:.3g} GB of memory and {self.memory / 1e9:.3g} GB are free")

    def name(self, name: str) -> None:
        if self.named and (not name.isprintable() or len(name) > MAX_NAME or "/" in name or not name.strip(".")):
            raise ResultFileError(f"{show(name)} is not the name of a variable or attribute")

    def attributes(self, owner: Any, of: str) -> None:
        if len(owner.attrs) > MAX_ATTRIBUTES:
            raise ResultFileError(f"{of} has {len(owner.attrs)} attributes; at most {MAX_ATTRIBUTES} are read")
        for name in owner.attrs:
            self.name(name)
            about, what = owner.attrs.get_id(name), f"the attribute {show(name)} of {of}"
            if about.shape is None or (name not in (*_SCALES, "_Netcdf4Coordinates") and math.prod(about.shape) != 1):
                raise ResultFileError(f"{what} must be one number or text; got shape {about.shape}")
            most = MAX_VARIABLES * MAX_RANK if name == "REFERENCE_LIST" else MAX_RANK
            if math.prod(about.shape) > most:
                raise ResultFileError(f"{what} must have at most {most} entries; got shape {about.shape}")
            if name == "REFERENCE_LIST":
                continue
            if name == "DIMENSION_LIST":
                if any(len(scales) != 1 for scales in owner.attrs[name].ravel()):
                    raise ResultFileError(f"{what} must name one scale for each dimension")
                continue
            if _is_text(about.dtype):
                text = str(np.ravel(owner.attrs[name])[0])
                self.need(len(text) * (SHARE if text.startswith(JSON_MARK) else 4), what)
            elif not _is_number(about.dtype):
                raise ResultFileError(f"{what} must be a number or a text; got {show(about.dtype)}")

    def variable(self, array: "h5py.Dataset", name: str) -> None:
        import h5py

        what, stored = f"the variable {show(name)}", array.id.get_storage_size()
        self.attributes(array, what)
        text = h5py.check_string_dtype(array.dtype)
        words = text is not None and text.length is None
        if not (_is_text(array.dtype) or _is_number(array.dtype)):
            raise ResultFileError(f"{what} must hold numbers or texts; got {show(array.dtype)}")
        if array.shape is None or array.ndim > MAX_RANK:
            raise ResultFileError(f"{what} must have a shape of at most {MAX_RANK} dimensions; got {array.shape}")
        size = math.prod(array.shape)
        if size == 0:
            return
        made, at = array.id.get_create_plist(), array.id.get_offset()
        if made.get_layout() != h5py.h5d.CONTIGUOUS or made.get_nfilters() or made.get_external_count() or at is None:
            raise ResultFileError(f"{what} must be stored whole, uncompressed and in the file itself")
        if at + stored > self.size or stored < size * array.id.get_type().get_size():
            raise ResultFileError(f"{what} declares {array.shape} values that are not in the file")
        self.need(size * array.dtype.itemsize, what)
        if words:  # each is stored as its length, 4 bytes, and the place of its characters
            places = np.frombuffer(self.data[at : at + stored], np.uint8).reshape(size, -1)
            longest = int(places[:, :4].copy().view("<u4").max())
            self.need(size * (64 + 5 * longest), what)


def _is_text(dtype: np.dtype) -> bool:
    import h5py

    return h5py.check_string_dtype(dtype) is not None


def _is_number(dtype: np.dtype) -> bool:
    import h5py

    return dtype.kind in _NUMBERS and h5py.check_enum_dtype(dtype) is None
