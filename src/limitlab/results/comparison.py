"""What `compare` returns, and how it reads in a terminal and in a notebook."""

import dataclasses
import html
import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["Comparison", "Entry"]

_HEADS = ("variable", "compared", "worst", "largest gap", "stderr", "at time", "z")


@dataclasses.dataclass(frozen=True)
class Entry:
    """One variable: how many of its components were compared, and the one that agrees least.

    ``gap`` is the largest gap of that component over time, found at ``time`` with standard error ``stderr``;
    ``z`` is the component's z-score over its whole trajectory (NaN if neither side has replicas).
    """

    variable: str
    compared: int
    constant: int
    worst: str
    gap: float
    stderr: float
    time: float
    z: float

    def row(self) -> tuple[str, ...]:
        """The entry as texts, in the order of the printed table."""
        if self.compared == 0:
            return (self.variable, "0", "-", "-", "-", "-", "-")
        stderr = "-" if math.isnan(self.stderr) else f"{self.stderr:.2g}"
        z = "-" if math.isnan(self.z) else f"{self.z:+.2f}"
        return (
            self.variable,
            str(self.compared),
            self.worst or "-",
            f"{self.gap:+.3g}",
            stderr,
            f"{self.time:.4g}",
            z,
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
    agrees
        Whether every ``|z|`` is below ``threshold`` and both sides ended alike.
    verdict
        The same in plain words, with everything that was left out.
    """

    table: "xr.Dataset"
    entries: tuple[Entry, ...]
    max_z: float
    threshold: float
    agrees: bool
    verdict: str
    title: str

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
            table.add_column(head, justify="left" if i in (0, 2) else "right")
        for entry in self.entries:
            table.add_row(*map(Text, entry.row()))
        return Group(table, Text(self.verdict, style="green" if self.agrees else "bold red"))

    def _repr_html_(self) -> str:
        def cells(tag: str, row: tuple[str, ...]) -> str:
            return "<tr>" + "".join(f"<{tag}>{html.escape(text)}</{tag}>" for text in row) + "</tr>"

        body = "".join(cells("td", entry.row()) for entry in self.entries)
        colour = "green" if self.agrees else "crimson"
        return (
            f"<table><caption>{html.escape(self.title)}</caption><thead>{cells('th', _HEADS)}</thead>"
            f'<tbody>{body}</tbody></table><p style="color: {colour}">{html.escape(self.verdict)}</p>'
        )


def _line(row: tuple[str, ...], widths: list[int]) -> str:
    return "  ".join(
        text.ljust(width) if i in (0, 2) else text.rjust(width)
        for i, (text, width) in enumerate(zip(row, widths, strict=True))
    ).rstrip()
