"""What `compare` returns, and how it reads in a terminal and in a notebook."""

import dataclasses
import html
import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["AGREES", "DISAGREES", "NOTHING", "WITHIN", "Comparison", "Entry"]

AGREES, WITHIN, DISAGREES = "AGREES", "DIFFERS WITHIN THE MARGIN", "DISAGREES"
NOTHING = "NOTHING TO COMPARE"
_HEADS = ("variable", "compared", "worst", "where", "gap", "stderr", "gap %", "z corrected")
_LEFT = (0, 2, 3)
_STYLES = {AGREES: "green", WITHIN: "green", DISAGREES: "bold red", NOTHING: "bold yellow"}
_COLOURS = {AGREES: "green", WITHIN: "darkgreen", DISAGREES: "crimson", NOTHING: "darkorange"}


@dataclasses.dataclass(frozen=True)
class Entry:
    """One variable: how many of its components were compared, and the one that agrees least.

    Attributes
    ----------
    worst, where
        The component, and its profile in time: one time, a window of times, or "mean", "slope", ... over all.
    gap, stderr, z
        Of that profile, whose weights sum to 1 in absolute value. z is corrected for the number of profiles and
        components, and for the few replicas that stderr is known from, so it is less than gap/stderr. Without replicas
        there are no stderr and z (NaN), and gap is the largest.
    relative
        gap over the variable's size, the root mean square of the prediction over its times and components.
    reach, farthest
        The largest ``|gap| + 2 s.e.`` at a single time, in units of the variable's size, among the components that
        differ (``|z|`` not below the threshold; 0 if none does), and where that is.
    resolution
        The same among all components: no difference is larger, but for chance.
    """

    variable: str
    compared: int
    constant: int
    worst: str
    where: str
    gap: float
    stderr: float
    relative: float
    z: float
    reach: float
    farthest: str
    resolution: float

    def row(self) -> tuple[str, ...]:
        """The entry as texts, in the order of the printed table."""
        if self.compared == 0:
            return (self.variable, "0", *("-" for _ in _HEADS[2:]))
        return (
            self.variable,
            str(self.compared),
            self.worst or "-",
            self.where or "-",
            f"{self.gap:+.3g}",
            "-" if math.isnan(self.stderr) else f"{self.stderr:.2g}",
            f"{100 * self.relative:+.2g}" if math.isfinite(self.relative) else "-",
            "-" if math.isnan(self.z) else f"{self.z:+.2f}",
        )


@dataclasses.dataclass(frozen=True, eq=False)
class Comparison:
    """How far two results are apart.

    Attributes
    ----------
    table
        For every variable X: ``X_gap`` (first minus second, mean over replicas) and ``X_stderr`` at every
        time, ``X_z`` per component.
    entries
        One `Entry` per variable.
    max_z
        The largest ``|z|`` (NaN if neither side has replicas).
    word
        "AGREES", "DIFFERS WITHIN THE MARGIN", "DISAGREES" or "NOTHING TO COMPARE".
    agrees
        True for the first two: every ``|z|`` is below ``threshold``, or what differs does so within the ``margin``
        that was given; and both sides ended alike.
    verdict
        The same in plain words, with everything that was left out.
    """

    table: "xr.Dataset"
    entries: tuple[Entry, ...]
    max_z: float
    threshold: float
    word: str
    verdict: str
    title: str
    margin: float | None = None

    @property
    def agrees(self) -> bool:
        return self.word in (AGREES, WITHIN)

    def __str__(self) -> str:
        rows = [_HEADS, *(entry.row() for entry in self.entries)]
        widths = [max(len(row[i]) for row in rows) for i in range(len(_HEADS))]
        lines = [_line(row, widths) for row in rows]
        lines.insert(1, "  ".join("-" * width for width in widths))
        return "\n".join([self.title, *lines, self.verdict])

    def __repr__(self) -> str:
        return str(self)

    def __rich__(self):
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        table = Table(title=Text(self.title), title_justify="left")
        for i, head in enumerate(_HEADS):
            table.add_column(head, justify="left" if i in _LEFT else "right")
        for entry in self.entries:
            table.add_row(*map(Text, entry.row()))
        return Group(table, Text(self.verdict, style=_STYLES[self.word]))

    def _repr_html_(self) -> str:
        def cells(tag: str, row: tuple[str, ...]) -> str:
            return "<tr>" + "".join(f"<{tag}>{html.escape(text)}</{tag}>" for text in row) + "</tr>"

        body = "".join(cells("td", entry.row()) for entry in self.entries)
        colour = _COLOURS[self.word]
        return (
            f"<table><caption>{html.escape(self.title)}</caption><thead>{cells('th', _HEADS)}</thead>"
            f'<tbody>{body}</tbody></table><p style="color: {colour}">{html.escape(self.verdict)}</p>'
        )


def _line(row: tuple[str, ...], widths: list[int]) -> str:
    return "  ".join(
        text.ljust(width) if i in _LEFT else text.rjust(width)
        for i, (text, width) in enumerate(zip(row, widths, strict=True))
    ).rstrip()
