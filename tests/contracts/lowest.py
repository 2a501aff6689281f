"""The oldest versions that pyproject.toml allows, as pip wants them: python tests/contracts/lowest.py > lowest.txt

    python -m venv oldest && oldest/bin/pip install -r lowest.txt && oldest/bin/pip install --no-deps -e .
    oldest/bin/python -m pytest tests/contracts tests/macro/test_limit.py

A bound is raised to what passes there, never lowered without doing this again.
"""

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
REQUIREMENT = re.compile(r"([A-Za-z0-9_.-]+)>=([0-9][0-9.]*)(?:\s*;\s*(.+))?")


def bounds(extras: tuple[str, ...] = ()) -> dict[str, str]:
    """Package -> lowest version, of the dependencies and of some extras; a package named twice has its higher bound."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    asked = [*project["dependencies"], *(one for extra in extras for one in project["optional-dependencies"][extra])]
    found: dict[str, str] = {}
    for text in asked:
        match = REQUIREMENT.fullmatch(text)
        if match is None:
            raise ValueError(f"{text!r} in pyproject.toml has no plain lower bound, such as numpy>=1.26.")
        name, version, _ = match.groups()
        if name not in found or as_numbers(version) > as_numbers(found[name]):
            found[name] = version
    return found


def as_numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def constraints(extras: tuple[str, ...] = ()) -> list[str]:
    """Lines for pip."""
    return [f"{name}=={version}" for name, version in bounds(extras).items()]


if __name__ == "__main__":
    print("\n".join(constraints(tuple(sys.argv[1:]))))
