"""What a refinement found, and how it says so."""

import dataclasses
from typing import TYPE_CHECKING, Any

from limitlab.errors import InputError
from limitlab.text import brief, html_table

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["Refinement"]


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Refinement:
    """What `refine` found.

    Attributes
    ----------
    parameter
        The refined parameter.
    boundary
        Over the grid and a number of the crossing: ``boundary`` with its interval ``low``, ``high``, what lies
        ``before`` and ``after`` it, and ``crossings``, how many there are. Empty if a curve was refined. For exact
        values the interval is the last bracket; for noisy ones it has a confidence of about 95 %.
    points
        The sweep at the points that were visited, in order; with a grid a table of such sweeps by its values.
    evaluated
        Number of points, those found in a store included.
    skipped
        (place, reason) of the points that gave no value.
    """

    parameter: str
    boundary: "xr.Dataset"
    points: "xr.Dataset | dict[tuple, xr.Dataset]"
    evaluated: int
    skipped: tuple[tuple[dict[str, Any], str], ...]
    asked: str

    def __float__(self) -> float:
        """The boundary, if there is just one."""
        if "boundary" not in self.boundary or self.boundary["boundary"].size != 1:
            raise InputError("This refinement has not one boundary. Look at its attribute boundary.")
        return float(self.boundary["boundary"].values.ravel()[0])

    def __str__(self) -> str:
        lines = [f"{self.asked} along {self.parameter}: {self.evaluated} points" + ("" if self.boundary else ".")]
        if self.boundary:
            names = [str(name) for name in self.boundary["crossings"].dims]
            flat = self.boundary.stack(place=names) if names else self.boundary.expand_dims("place")
            lines += [line for i in range(flat.sizes["place"]) for line in _lines(flat.isel(place=i), names)]
        if self.skipped:
            place, reason = self.skipped[0]
            lines.append(f"{len(self.skipped)} points gave no value, the first at {_words(place)}: {reason}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        rows = [("parameter", self.parameter), ("points", brief(self.evaluated)), ("skipped", brief(len(self.skipped)))]
        return html_table(str(self), rows)

    def __rich__(self):
        from rich.text import Text

        return Text(str(self))


def _lines(one: "xr.Dataset", names: list[str]) -> list[str]:
    head = f"  {_words({name: one[name].item() for name in names})}: " if names else "  "
    if not int(one["crossings"]):
        return [f"{head}no boundary between the points seen"]
    found = one.isel(crossing=slice(int(one["crossings"])))
    rows = zip(*(found[name].values.tolist() for name in ("boundary", "low", "high", "before", "after")), strict=True)
    return [f"{head}{at:.6g} [{low:.6g}, {high:.6g}], {before} -> {after}" for at, low, high, before, after in rows]


def _words(place: dict[str, Any]) -> str:
    return ", ".join(
        f"{name}={value:.6g}" if isinstance(value, float) else f"{name}={value}" for name, value in place.items()
    )
