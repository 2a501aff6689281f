"""The store as it was before segments, a netCDF file for each point: as much of it as the benchmark compares with."""

import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from limitlab.errors import ResultFileError
from limitlab.files import whole
from limitlab.results.points import Point
from limitlab.sweep.storage.files.netcdf import decode, encode

__all__ = ["OldStore"]


class OldStore:
    """Points in 256 folders. Written, found, read and verified as they were."""

    def __init__(self, path: Path):
        self.path = path
        for name in ("points", "parts"):
            (path / name).mkdir(parents=True, exist_ok=True)
        self.record: dict[str, tuple[dict[str, Any], list[str]]] = {}

    def place(self, key: str) -> Path:
        return self.path / "points" / key[:2] / f"{key}.nc"

    def has(self, key: str) -> bool:
        return os.path.lexists(self.place(key))

    def write(self, key: str, point: Point) -> None:
        path = self.place(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        part = self.path / "parts" / f"host@{os.getpid()}.{secrets.token_hex(6)}"
        with whole(path, part=part, flush=False, replace=False):
            part.write_bytes(encode(point))

    def peek(self, key: str) -> Point | str | None:
        path = self.place(key)
        try:
            if not stat.S_ISREG(os.lstat(path).st_mode):
                return "not a file"
            point = decode(path.read_bytes(), str(path), guarded=False)
        except FileNotFoundError:
            return None
        except ResultFileError as error:
            return str(error)
        return point if point.attrs["provenance"]["key"] == key else "another point"

    def verify(self, part: int = 0, parts: int = 1) -> tuple[int, list[Path]]:
        """How many points are good, and which are not, of every ``parts``-th folder from ``part`` on."""
        found = {path: isinstance(self.peek(path.stem), Point) for path in self.files(part, parts)}
        return sum(found.values()), [path for path, good in found.items() if not good]

    def files(self, part: int = 0, parts: int = 1) -> Iterator[Path]:
        for folder in sorted((self.path / "points").iterdir())[part::parts]:
            for name in sorted(os.listdir(folder)):
                yield folder / name

    def sweeps(self) -> dict[str, dict[str, Any]]:
        return {name: about for name, (about, _) in self.record.items()}

    def keys_of(self, name: str) -> list[str]:
        return self.record[name][1]

    def keep_sweep(self, name: str, about: dict[str, Any], keys: list[str]) -> None:
        self.record[name] = (about, keys)
