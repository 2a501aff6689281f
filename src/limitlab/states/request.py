"""What `simulate` asks of a learning rule, and what it gets back."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from limitlab.numerics.machine import Progress

__all__ = ["Request", "Seen"]


class Request(NamedTuple):
    """Runs of a rule at dimension d, seen at the asked times: the whole ``steps`` of a ``clock`` nearest to them."""

    d: int
    times: np.ndarray | None
    steps: np.ndarray | None
    replicas: int = 1
    seed: int = 0
    representation: str = "weights"
    progress: Progress | None = None
    clock: float = 1.0


class Seen(NamedTuple):
    """What was seen: name -> (dims, values), coordinates alike, the method's name, its reference, and attributes."""

    variables: Mapping[str, tuple[Any, Any]]
    coords: Mapping[str, Any]
    method: str
    reference: str | None = None
    attrs: Mapping[str, Any] = {}
