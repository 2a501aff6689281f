"""What sweeps and runs wrote down about themselves. A stranger's may be many and large: one is held at a time."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from limitlab.sweep.storage.files.folder import Folder

__all__ = ["Accounts", "account", "run_account"]

TEXTS = ("sweep", "verb", "state", "note", "host")  # of the account of a run
NUMBERS = ("total", "found", "done", "failed", "running", "began", "updated", "process")
LONGEST = 1500  # letters of such a text


class Accounts(Mapping[str, dict[str, Any]]):
    """Accounts of sweeps by name, the latest last, each read when it is asked for. What is no account is not there.

    Nor is one under a name that no sweep has: with new lines or other characters that cannot be shown.
    """

    def __init__(self, folder: Folder, most: int):
        self._folder, self._most = folder, most
        there = folder.files().items()
        files = {name: about for name, about in there if name.endswith(".json") and name.isprintable()}
        self._names = sorted(files, key=lambda name: (files[name].st_mtime, name))
        self._last: tuple[str, dict[str, Any] | None] = ("", None)

    def __getitem__(self, name: str) -> dict[str, Any]:
        if self._last[0] != name:
            self._last = ("", None)  # not two at a time
            self._last = (name, account(self._folder, f"{name}.json", self._most))
        if self._last[1] is None:
            raise KeyError(name)
        return self._last[1]

    def __iter__(self) -> Iterator[str]:
        return (name for file in self._names if (name := file.removesuffix(".json")) in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def account(folder: Folder, name: str, most: int) -> dict[str, Any] | None:
    """The table in a file of JSON; None if it is none, or longer than it may be."""
    try:
        about = json.loads(folder.read(name, most))
    except (OSError, ValueError, RecursionError):
        return None
    return about if isinstance(about, dict) else None


def run_account(folder: Folder, name: str, most: int) -> dict[str, Any] | None:
    """The account of a run: what runs write down and nothing else, texts as long as theirs."""
    about = account(folder, name, most)
    if about is None:
        return None
    texts = {key: about[key][:LONGEST] for key in TEXTS if isinstance(about.get(key), str)}
    return {**texts, **{key: about[key] for key in NUMBERS if isinstance(about.get(key), (int, float))}}
