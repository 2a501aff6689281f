"""What can be taken home: figure, data, problem file, and the Python lines that make them again."""

import io
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unicodedata import normalize

from limitlab.cite import references
from limitlab.explorer.description import Page, Values
from limitlab.figures import Drawing, drawn
from limitlab.results.files import save
from limitlab.spec.write import dumps

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["as_csv", "as_netcdf", "as_picture", "problem_file", "python", "reference_words"]

ACCENTS = {"`": "\u0300", "'": "\u0301", "^": "\u0302", "~": "\u0303", '"': "\u0308"}


def as_picture(drawing: Drawing, kind: str, dpi: int = 150) -> bytes:
    """The figure on paper, as "svg" or "png"."""
    buffer = io.BytesIO()
    drawn(drawing).savefig(buffer, format=kind, dpi=dpi)
    return buffer.getvalue()


def as_netcdf(ds: "xr.Dataset") -> bytes:
    """The file that `limitlab.load` reads."""
    with tempfile.TemporaryDirectory(prefix="limitlab-") as folder:
        return save(ds, Path(folder) / "result.nc").read_bytes()


def as_csv(ds: "xr.Dataset") -> bytes:
    """One row per point, one column per variable and coordinate."""
    return ds.to_dataframe().reset_index().to_csv(index=False).encode()


def problem_file(page: Page, values: Values) -> bytes:
    """The problem as TOML."""
    if page.problem is None:
        return b""
    return dumps(page.problem(values)).encode()


def python(page: Page, values: Values) -> str:
    """Lines that make what is on the screen, whole."""
    lines = ["import numpy as np", "import limitlab as ll"]
    if page.problem is not None:
        text = dumps(page.problem(values)).strip()
        lines += ["from limitlab.spec import loads", "", f'problem = loads("""\n{text}\n""")']
    return "\n".join([*lines, page.snippet(values).strip()]) + "\n"


def reference_words(key: str) -> str:
    """A reference in a line: authors, title, where, year."""
    entry = references().get(key, "")
    return ". ".join(filter(None, (_part(entry, name) for name in ("author", "title", "journal", "booktitle", "year"))))


def _part(entry: str, name: str) -> str:
    found: Any = re.search(rf"^\s*{name}\s*=\s*[{{\"](.*?)[}}\"],?\s*$", entry, re.MULTILINE | re.DOTALL)
    if found is None:
        return ""
    words = re.sub(r"\\([`'^\"~])\{?(\w)\}?", lambda m: normalize("NFC", m[2] + ACCENTS[m[1]]), found[1])
    words = re.sub(r"\s+", " ", re.sub(r"[{}]", "", words)).strip()
    if name == "author":
        people = [" ".join(reversed(one.split(", "))) for one in words.split(" and ")]
        return ", ".join(people[:3]) + (" and others" if len(people) > 3 else "")
    return words
