"""A problem as plain tables: to and from a dict, TOML or JSON, and one hash that says "the same problem".

Each part is a table with ``kind = "ClassName"`` and its fields, defaults included. Reading is strict: only
the parts of limitlab are known, every unknown, missing or ill-typed field is refused by its path,
and nothing in a file is ever evaluated or imported. What a file may cost is bounded (`limitlab.spec.bounds`).
"""

from limitlab.spec.kinds import known_kinds
from limitlab.spec.read import from_dict
from limitlab.spec.text import from_json, load_spec, loads
from limitlab.spec.write import dumps, save_spec, spec_hash, table_hash, to_dict, to_json

__all__ = [
    "dumps",
    "from_dict",
    "from_json",
    "known_kinds",
    "load_spec",
    "loads",
    "save_spec",
    "spec_hash",
    "table_hash",
    "to_dict",
    "to_json",
]
