"""What a visitor may ask for: a verb, a problem as plain tables, and plain arguments. Nothing in it is run."""

import dataclasses
import hashlib
import json
from typing import Any

from limitlab.errors import InputError
from limitlab.sweep.identity import NUMERICS_VERSION
from limitlab.text import show

__all__ = ["HEAVY", "VERBS", "Request"]

HEAVY = ("simulate", "entry")  # may take minutes: one worker is kept for the others
VERBS = (
    "predict",
    "simulate",
    "limits",
    "thresholds",
    "staircase",
    "learning_curve",
    "compare",
    "exit_time",
    "learning_rates",
    "free_entropy",
    "phase_diagram",
    "sweep",
    "entry",
)


@dataclasses.dataclass(frozen=True)
class Request:
    """A verb with a problem and arguments.

    Attributes
    ----------
    verb
        One of `VERBS`.
    problem
        As `limitlab.spec` writes it; None of verbs that need none.
    arguments
        Keywords of the verb as numbers, texts, lists and tables. A limit, or another part, is a table with its
        ``kind``.
    data
        Bytes that go with it: a table of the visitor's (CSV, npz).
    sides
        Keys of two results that are compared.
    """

    verb: str
    problem: dict[str, Any] | None = None
    arguments: dict[str, Any] = dataclasses.field(default_factory=dict)
    data: bytes = b""
    sides: tuple[str, ...] = ()

    def __post_init__(self):
        if self.verb not in VERBS:
            raise InputError(f"A job's verb must be one of {', '.join(VERBS)}; got {show(self.verb)}.")
        try:
            json.dumps([self.problem, self.arguments], allow_nan=False)
        except (TypeError, ValueError) as error:
            raise InputError(
                f"A job takes plain numbers, texts, lists and tables ({error}). Write a problem as spec.to_dict does."
            ) from None

    @property
    def heavy(self) -> bool:
        return self.verb in HEAVY or bool(self.arguments.get("fits"))

    @property
    def key(self) -> str:
        """Equal for requests that have the same answer: of the same problem, arguments and version of the numerics."""
        said = [NUMERICS_VERSION, self.verb, self.problem, self.arguments, list(self.sides)]
        text = json.dumps(said, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode() + b"\0" + self.data).hexdigest()
