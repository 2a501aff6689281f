"""What every page has: the top bar with its tabs, the theme, and whether the workers are warm."""

import html
from typing import TYPE_CHECKING

from nicegui import ui

from limitlab.explorer.pages import pages

if TYPE_CHECKING:
    from limitlab.jobs.service import Service

__all__ = ["frame"]

LOOKED = 1.0  # seconds between two looks at the workers


def frame(here: str, service: "Service") -> None:
    """The top bar; ``here`` is the name of the page, "" of the front page."""
    ui.add_head_html('<link rel="stylesheet" href="/explorer-static/explorer.css">')
    ui.add_head_html('<script src="/explorer-static/explorer.js"></script>')
    tabs = "".join(
        f'<a href="/{page.name}"{" aria-current=page" if page.name == here else ""}>{html.escape(page.short)}</a>'
        for page in pages().values()
    )
    front = ' aria-current="page"' if here == "" else ""
    with ui.element("header").classes("bar"):
        ui.html('<a class="skip" href="#main">to the content</a><a class="brand" href="/">limitlab</a>', sanitize=False)
        ui.html(f'<a href="/"{front}>Gallery</a>{tabs}', sanitize=False, tag="nav").props('aria-label="Questions"')
        dot = ui.html("", sanitize=False, tag="span").classes("dot")
        theme = 'type="button" id="theme" aria-label="light or dark" title="light or dark"'
        ui.html("◐", sanitize=False, tag="button").props(theme)

    def look() -> None:
        warm = service.warm
        words = "workers ready" if warm else "workers warming"
        if dot.content != words:
            dot.content = words
            dot.classes(add="warm") if warm else dot.classes(remove="warm")
        timer.interval = 5 * LOOKED if warm else LOOKED

    timer = ui.timer(LOOKED, look)
    look()
