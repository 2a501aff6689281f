"""Answers of commands that only read a problem, kept beside the compiled programs: the second time needs no JAX.

An answer is a pure function of the words, the text of the problem and the package. All three make the name of its
file, so that whatever changes, it is asked anew. Errors are not kept, nor is what came with a warning.
"""

import contextlib
import gc
import hashlib
import json
import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from limitlab._lazy import loading
from limitlab.files import open_plain, whole

__all__ = ["remembered"]

LONGEST = 2**20  # bytes of a problem or of an answer: others are not kept
MOST = 200  # answers that are kept


def remembered(words: list[str], spec: str, kind: type, compute: Callable[[], Any]) -> Any:
    """What ``compute`` gives, a text or a dict of texts (the ``kind``), or gave before for the same words, problem and
    package."""
    place = _place(words, spec)
    if place is None:
        return _alone(compute)
    with contextlib.suppress(OSError, ValueError, RecursionError):
        if 0 < place.stat().st_size <= LONGEST and _is(kind, found := json.loads(place.read_bytes())):
            return found
    value, warned = _watched(lambda: _alone(compute))
    kept = json.dumps(value).encode()
    if not warned and len(kept) <= LONGEST:
        with contextlib.suppress(Exception):  # a full or read-only disk: the answer is there all the same
            place.parent.mkdir(parents=True, exist_ok=True)
            with whole(place, flush=False) as part:
                part.write_bytes(kept)
            _forget(place.parent)
    return json.loads(kept)


def _is(kind: type, found: Any) -> bool:
    """Whether it may be an answer: somebody else may have written the file."""
    texts = found.values() if isinstance(found, dict) else [found]
    return isinstance(found, kind) and all(isinstance(text, str) for text in texts)


def _alone(compute: Callable[[], Any]) -> Any:
    """The value; the garbage collector never walks over what it loads: the process is about to end."""
    with loading():
        value = compute()
        gc.freeze()
    return value


def _watched(compute: Callable[[], Any]) -> tuple[Any, bool]:
    """The value, and whether a warning came with it; it is shown as it would have been."""
    told: list[Any] = []
    with warnings.catch_warnings():
        show = warnings.showwarning
        warnings.showwarning = lambda *args, **kwargs: (told.append(args), show(*args, **kwargs))
        return compute(), bool(told)


def _place(words: list[str], spec: str) -> Path | None:
    """Where the answer is kept; None if nothing is."""
    wish = os.environ.get("LIMITLAB_CACHE", "")
    if wish.lower() == "off":
        return None
    text = b""
    if Path(spec).exists():  # else the name of a library problem, or nothing
        try:
            with open_plain(Path(spec), "A problem file", "") as file:
                text = file.read(LONGEST + 1)
        except Exception:
            return None  # whoever reads it says what is wrong
        if len(text) > LONGEST:
            return None
    from platformdirs import user_cache_dir

    asked = hashlib.sha256(json.dumps([*words, spec, text.hex(), sys.version, *_package()]).encode())
    return (Path(wish) if wish else Path(user_cache_dir("limitlab"))) / "answers" / f"{asked.hexdigest()}.json"


def _package() -> list[list[Any]]:
    """Every file of the package with its size and time: none of them changes without an answer being asked anew."""
    files, folders = [], [str(Path(__file__).parents[1])]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    if entry.name != "__pycache__":
                        folders.append(entry.path)
                elif entry.name.endswith((".py", ".bib")):
                    about = entry.stat()
                    files.append([entry.path, about.st_size, about.st_mtime_ns])
    return sorted(files)


def _forget(folder: Path) -> None:
    """The oldest answers, if there are too many."""
    kept = sorted(folder.glob("*.json"), key=lambda path: path.stat().st_mtime)
    for path in kept[:-MOST]:
        path.unlink(missing_ok=True)
