"""Cards of the gallery: what each entry shows, which page opens it, and its picture.

A picture is the first panel of the page's own figure, drawn small from the curves that the page would show. It is drawn
when it is asked for, one at a time, and kept in the user's cache folder.
"""

import asyncio
import functools
import hashlib
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from limitlab.errors import LimitlabError
from limitlab.explorer.description import Answers, Page
from limitlab.explorer.downloads import as_picture
from limitlab.explorer.pages import pages
from limitlab.figures import Drawing
from limitlab.files import whole
from limitlab.gallery import ENTRIES
from limitlab.sweep.identity import NUMERICS_VERSION

if TYPE_CHECKING:
    from limitlab.jobs.service import Service

__all__ = ["Card", "Pictures", "cards", "keep_picture"]

SOON = 0.5  # seconds after which a server that is stopped is seen to be
SHOWN = frozenset("plot errorbar fill_between axhline axvline axvspan set_xscale set_yscale set_xlim set_ylim".split())


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


class Pictures:
    """Pictures of cards as PNG, made when they are asked for."""

    def __init__(self, service: "Service", leaving: Callable[[], bool] = lambda: False):
        self._service, self._leaving = service, leaving  # a server that is about to stop waits for no picture
        self._turn = asyncio.Semaphore(1)
        self._made: dict[str, bytes] = {}

    async def of(self, name: str) -> bytes:
        """The picture of a card; b"" if there is none."""
        card = next((card for card in cards() if card.name == name), None)
        if card is not None and card.page is None:
            return await asyncio.to_thread(_kept, _entry_path(name))
        if card is None or card.page is None or not card.page.pictured:
            return b""
        if name not in self._made:
            async with self._turn:
                if name not in self._made:
                    picture = await self._picture(card, card.page)
                    if not picture:
                        return b""  # another time
                    self._made[name] = picture
        return self._made[name]

    async def _picture(self, card: Card, page: Page) -> bytes:
        asks = page.asks(card.values, page.table(card.values))
        requests = {ask.name: ask.coarse or ask.request for ask in asks if not ask.unseen}
        said = "".join(sorted(request.key for request in requests.values())) + page.name
        path = _folder() / f"{hashlib.sha256(said.encode()).hexdigest()[:32]}.png"
        if path.is_file():
            return await asyncio.to_thread(path.read_bytes)
        try:
            jobs = {name: self._service.submit(asked, "pictures", slow=True) for name, asked in requests.items()}
        except LimitlabError:
            return b""
        waiting = {asyncio.ensure_future(job.wait()) for job in jobs.values()}
        while waiting:
            _, waiting = await asyncio.wait(waiting, timeout=SOON)
            if waiting and self._leaving():
                self._service.leave("pictures")
                return b""
        known = {n: j.answer if j.answer is not None else j.result for n, j in jobs.items() if j.status == "done"}
        if not known:
            return b""
        picture = await asyncio.to_thread(_drawn, page.figure(card.values, Answers(known)))
        await asyncio.to_thread(_keep, path, picture)
        return picture


def _drawn(figure: Drawing) -> bytes:
    """The first panel alone, without words."""
    small = Drawing(1, 3.2, 2.0)
    small.panels[0].calls = [call for call in figure.panels[0].calls if call.name in SHOWN]
    small.panels[0].tick_params(labelsize=7)
    return as_picture(small, "png", dpi=110)


def _folder() -> Path:
    wish = os.environ.get("LIMITLAB_CACHE", "")
    if wish.lower() == "off":
        return Path(tempfile.gettempdir())
    from platformdirs import user_cache_dir

    return (Path(wish) if wish else Path(user_cache_dir("limitlab"))) / "pictures"


def _entry_path(name: str) -> Path:
    return _folder() / f"entry-{name}-{NUMERICS_VERSION}.png"


def keep_picture(name: str, picture: bytes) -> None:
    """The figure of an entry that was run, for its card."""
    _keep(_entry_path(name), picture)


def _kept(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _keep(path: Path, picture: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole(path) as part:
            part.write_bytes(picture)
    except OSError:
        return  # a read-only home: it is drawn again at the next start
