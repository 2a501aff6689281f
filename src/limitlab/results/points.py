"""A result before it is labelled: what one point of a sweep, or one member of a family, gave."""

import dataclasses
from typing import Any

import numpy as np

__all__ = ["Point", "Table"]

Table = dict[str, tuple[tuple[str, ...], np.ndarray]]


@dataclasses.dataclass(frozen=True)
class Point:
    """What a verb gave at one point: variables and coordinates as (dims, values), or why it gave nothing."""

    variables: Table = dataclasses.field(default_factory=dict)
    coords: Table = dataclasses.field(default_factory=dict)
    attrs: dict[str, Any] = dataclasses.field(default_factory=dict)
    skipped: tuple[str, ...] = ()
    reason: str = ""
    failure: str = "failed"  # the status of a point with a reason: failed, out_of_time, out_of_memory, killed

    @property
    def failed(self) -> bool:
        return self.reason != ""

    @property
    def status(self) -> tuple[tuple[str, ...], np.ndarray]:
        """How the point ended, by replica if its result says so."""
        if self.failed:
            return (), np.asarray(self.failure)
        return self.variables.get("status", ((), np.asarray("ok")))
