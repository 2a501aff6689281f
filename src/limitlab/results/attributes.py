"""Attributes as netCDF keeps them: texts and numbers, and everything else as JSON."""

import json
from typing import Any

import numpy as np

from limitlab.errors import InputError
from limitlab.results.scan import JSON_MARK
from limitlab.text import writable

__all__ = ["DATES", "DATE_KIND", "check_depth", "decode_attribute", "encode_attribute"]

# Booleans, lists, tables and None are kept as JSON after JSON_MARK.
MAX_JSON = 5_000_000  # characters of such an attribute
MAX_DEPTH = 32  # of lists and tables in it
# netCDF has no dates: they are kept as whole numbers with an attribute that says what they count.
DATE_KIND, DATES = "limitlab_dtype", ("datetime64", "timedelta64")


def encode_attribute(value: Any) -> Any:
    """An attribute as a file has it."""
    if isinstance(value, str) and value and not value.startswith(JSON_MARK) and writable(value) == value:
        return value
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool) and abs(value) < 2**63:
        return int(value)
    if isinstance(value, (float, np.floating)):
        return float(value)
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, np.bool_):
        value = bool(value)
    text = JSON_MARK + json.dumps(value)
    if len(text) > MAX_JSON or _depth(value) > MAX_DEPTH:
        raise InputError(
            f"An attribute takes {len(text)} characters of JSON; a file takes at most {MAX_JSON}, nested at most "
            f"{MAX_DEPTH} deep. Put long lists into variables."
        )
    return text


def decode_attribute(value: Any) -> Any:
    """An attribute of a file as it was."""
    if isinstance(value, str) and value.startswith(JSON_MARK):
        if len(value) > MAX_JSON:
            raise InputError(f"An attribute has {len(value)} characters of JSON; at most {MAX_JSON} are read.")
        table = json.loads(value[len(JSON_MARK) :])
        check_depth(table)
        return table
    return value.item() if isinstance(value, np.generic) else value


def check_depth(value: Any) -> None:
    """Raise if lists and tables are nested deeper than those of any result."""
    if _depth(value) > MAX_DEPTH:
        raise InputError(f"An attribute is nested more than {MAX_DEPTH} deep; no result has such attributes.")


def _depth(value: Any) -> int:
    """How deep lists and tables are nested, not counted beyond `MAX_DEPTH` + 1."""
    level, depth = [value], 0
    while depth <= MAX_DEPTH:
        tables = [v for v in level if isinstance(v, (dict, list, tuple))]
        if not tables:
            break
        level = [inner for v in tables for inner in (v.values() if isinstance(v, dict) else v)]
        depth += 1
    return depth
