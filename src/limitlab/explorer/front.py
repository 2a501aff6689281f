"""The front page: the square, the questions, and cards of the gallery."""

import html
from typing import TYPE_CHECKING

from nicegui import ui

from limitlab.explorer.cards import Card, cards
from limitlab.explorer.frame import frame
from limitlab.explorer.pages import pages

if TYPE_CHECKING:
    from limitlab.jobs.service import Service

__all__ = ["front"]

SQUARE = (
    '<svg class="square" viewBox="0 0 640 210" role="img" aria-label="Weights at time 0 become weights at time t by '
    "simulate; measure gives the state of both; predict leads from one state to the other, and compare says how far "
    'apart the two are.">'
    + "".join(
        f'<rect x="{x - 90}" y="{y}" width="180" height="52" rx="8"/><text x="{x}" y="{y + 24}" text-anchor="middle">'
        f'{words}</text><text class="small" x="{x}" y="{y + 42}" text-anchor="middle">{more}</text>'
        for x, y, words, more in (
            (100, 10, "weights at time 0", "a finite network"),
            (540, 10, "weights at time t", "real runs: points"),
            (100, 148, "state at time 0", "a few numbers"),
            (540, 148, "state at time t", "theory: lines"),
        )
    )
    + "".join(
        f'<path d="M192 {y} H436"/><path class="head" d="M436 {y - 6} l12 6 l-12 6 Z"/>'
        f'<text x="320" y="{y - 8}" text-anchor="middle">{verb}</text>'
        for y, verb in ((36, "simulate"), (174, "predict"))
    )
    + "".join(
        f'<path d="M{x} 64 V134"/><path class="head" d="M{x - 6} 134 l6 12 l6 -12 Z"/>'
        f'<text x="{x + shift}" y="110" text-anchor="{side}">{verb}</text>'
        for x, shift, side, verb in ((100, 10, "start", "measure"), (540, -10, "end", "compare"))
    )
    + '<path class="head" d="M534 76 l6 -12 l6 12 Z"/></svg>'
)


def front(service: "Service") -> None:
    """Draw it."""
    frame("", service)
    asked = "".join(
        f'<a href="/{page.name}"><b>{html.escape(page.question)}</b><span>{html.escape(page.about)}</span></a>'
        for page in pages().values()
    )
    shown = "".join(_card(card) for card in cards() if card.page is not None)
    others = "".join(_card(card) for card in cards() if card.page is None)
    body = (
        "<h1>Theory and simulation of learning, side by side</h1>"
        '<p class="lead">Move a slider and the theory moves with your hand. Press <i>run it</i>, and real networks '
        "arrive as points on the curve. Everything is computed on this machine.</p>"
        f"{SQUARE}<h2>Questions</h2><div class='questions'>{asked}</div>"
        f"<h2>From the literature</h2><p class='lead'>Each card opens its problem with its settings.</p>"
        f"<div class='cards'>{shown}</div>"
    )
    if others:
        body += (
            "<h2>More of the gallery</h2><p class='lead'>Each card opens the entry: its claim, its problem, and a run "
            f"that draws its figure and checks it.</p><div class='cards'>{others}</div>"
        )
    ui.html(body, sanitize=False, tag="main").classes("front").props('id="main"')


def _card(card: Card) -> str:
    title, claim = html.escape(card.title), html.escape(card.claim)
    image = f'<img src="/explorer-static/cards/{card.name}.png" alt="" loading="lazy" width="352" height="220">'
    href = html.escape(card.address, quote=True)
    return f'<a class="card" href="{href}">{image}<b>{title}</b><span>{claim}</span></a>'
