"""The server: one asyncio loop that never computes, a job service beside it, and a guard before it."""

import logging
import os
import secrets
import signal
import tempfile
import threading
import time
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI
from nicegui import Client as Visitor
from nicegui import app, core, ui
from starlette.requests import Request as WebRequest
from starlette.responses import PlainTextResponse, RedirectResponse

from limitlab.explorer.cards import cards
from limitlab.explorer.drawn.entry_page import EntryRoom
from limitlab.explorer.drawn.reading import READ, docs_folder, read, written
from limitlab.explorer.front import front
from limitlab.explorer.guard import LOOPBACK, Guard, address_of, hosts_of
from limitlab.explorer.pages import pages
from limitlab.explorer.room import Room, numbers
from limitlab.jobs.requests import Request
from limitlab.jobs.service import Service

__all__ = ["explore"]

STATIC = Path(__file__).parent / "static"
STAYS = 20.0  # seconds that a visitor who lost the line has to come back
LONGEST_MESSAGE = 1 << 20  # bytes of a message through a websocket


def explore(
    port: int = 8765,
    host: str = "127.0.0.1",
    browser: bool = True,
    say: Any = print,
    workers: int | None = None,
    warm: bool = True,
) -> None:
    """Serve until interrupted. Another address than this machine's own gets a token.

    ``warm`` asks the first questions of all pages at the start, while nobody waits.
    """
    token = "" if host in (*LOOPBACK, "::1") else secrets.token_urlsafe(24)
    address = address_of(host, port, token)
    with _private_folder():
        guarded = Guard(_application(workers, warm), hosts_of(host), port, token)
        config = uvicorn.Config(
            guarded,
            host=host,
            port=port,
            log_level="warning",
            ws_max_size=LONGEST_MESSAGE,
            server_header=False,
            timeout_graceful_shutdown=2,
        )
        server = uvicorn.Server(config)
        say(f"limitlab explorer: {address}")
        if token:
            say("Everybody who has this address can compute on this machine.")
        elif browser:
            threading.Thread(target=_open_once_up, args=(server, address), daemon=True).start()
        signal.signal(signal.SIGTERM, _ended)  # uvicorn hands the signal on once it has shut down
        server.run()


def _open_once_up(server: uvicorn.Server, address: str) -> None:
    """A browser that is there already would ask before anybody listens."""
    while not server.started and not server.should_exit:
        time.sleep(0.05)
    if server.started:
        webbrowser.open(address)


def _ended(number: int, where: Any) -> None:
    """End as a program does that is told to, so that what it has written is removed."""
    raise SystemExit(128 + number)


@contextmanager
def _private_folder() -> Iterator[None]:
    """Whatever is written goes into a folder that only this user can read, and that is removed at the end."""
    before, kept = tempfile.tempdir, os.environ.get("TMPDIR")
    with tempfile.TemporaryDirectory(prefix="limitlab-explorer-") as folder:
        tempfile.tempdir = os.environ["TMPDIR"] = folder
        os.environ.setdefault("NICEGUI_STORAGE_PATH", folder)
        try:
            yield
        finally:
            tempfile.tempdir = before
            if kept is None:
                os.environ.pop("TMPDIR", None)
            else:
                os.environ["TMPDIR"] = kept


def _application(workers: int | None, warm: bool) -> Any:
    """The pages, as an ASGI application."""
    logging.getLogger("nicegui").setLevel(logging.WARNING)
    cards()  # imports the gallery, before workers need the cores and the first visitor waits
    service = Service(workers, warm=_first_questions() if warm else ())
    core.sio.eio.cors_allowed_origins = None  # the same origin only; the guard has looked at the host
    app.on_startup(service.__aenter__)
    app.on_shutdown(service.__aexit__)
    app.add_static_files("/explorer-static", str(STATIC), max_cache_age=3600)

    @ui.page("/", title="limitlab explorer")
    def _front() -> None:
        front(service)

    if (docs_folder() / "images").is_dir():
        app.add_static_files("/docs-images", str(docs_folder() / "images"), max_cache_age=3600)

    @ui.page("/docs/{name}", title="limitlab documentation")
    def _docs(name: str) -> Any:
        if name not in READ:
            return PlainTextResponse("There is no such page of the documentation here.", 404)
        ui.page_title(f"{written(name).title} - limitlab")
        return read(name, service)

    @ui.page("/entry/{name}", title="limitlab gallery")
    def _entry(name: str) -> Any:
        card = next((card for card in cards() if card.name == name), None)
        if card is None:
            return PlainTextResponse("There is no such entry of the gallery.", 404)
        if card.page is not None:
            return RedirectResponse(card.address)
        ui.page_title(f"{card.title} - limitlab")
        EntryRoom(card, service, f"reader {next(numbers)}")
        return None

    def serve(name: str) -> None:
        page = pages()[name]

        @ui.page(f"/{name}", title=f"{page.question} - limitlab")
        async def _page(request: WebRequest, client: Visitor) -> None:
            room = Room(page, service, str(request.url.query))
            await room.open()

    for name in pages():
        serve(name)
    outer = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    ui.run_with(
        outer,
        title="limitlab",
        dark=None,
        tailwind=False,
        reconnect_timeout=STAYS,
        show_welcome_message=False,
        language="en-US",
        binding_refresh_interval=None,
    )
    return outer


def _first_questions() -> tuple[Request, ...]:
    """What the pages ask when they are opened: so that the first visitor does not wait for compilers."""
    asked = []
    for page in pages().values():
        asks = page.asks(page.defaults, page.table(page.defaults))
        asked += [ask.request if ask.coarse is None else ask.coarse for ask in asks]
    return tuple(asked)
