"""Cards of the gallery: what each entry shows, which page opens it, and its picture.

A picture is the first panel of the entry's figure, drawn small from a report at quick sizes (``.ci/cards.py``).
"""

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from limitlab.explorer.description import Page
from limitlab.explorer.pages import pages
from limitlab.gallery import ENTRIES

__all__ = ["PICTURES", "Card", "cards"]

PICTURES = Path(__file__).parent / "static" / "cards"


@dataclass(frozen=True)
class Card:
    """An entry of the gallery: name, title, claim, the page that opens it and its values.

    One that no question's page can show (``page`` None) has a page of its own, which leads to the ``near`` one, if any.
    """

    name: str
    title: str
    claim: str
    page: Page | None
    values: dict[str, Any]
    near: Page | None = None

    @property
    def address(self) -> str:
        return f"/entry/{self.name}" if self.page is None else self.page.address(self.values)


@functools.cache
def cards() -> tuple[Card, ...]:
    """All entries; those that a page opens come first, in the order of the pages."""
    opened = {
        entry: (page, {**page.defaults, **changes})
        for page in pages().values()
        for entry, changes in page.opens.items()
    }
    names = [*opened, *(name for name in ENTRIES if name not in opened)]
    return tuple(_card(name, *opened.get(name, (None, {}))) for name in names)


def _card(name: str, page: Page | None, values: dict[str, Any]) -> Card:
    entry = ENTRIES[name]
    near = next((other for other in pages().values() if name in other.near), None)
    return Card(name, entry.title, entry.claim, page, values, near)
