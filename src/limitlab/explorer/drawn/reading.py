"""Pages of the documentation on the screen, as they stand in the folder ``docs``: read here, asked of nobody else.

A field's question mark and a page's last lines lead to them. Only the pages of `READ` are shown: they are plain
Markdown, with formulas between double dollars, and words with a meaning (``word``, then ``: meaning``) in the glossary.
"""

import functools
import html
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from nicegui import ui

from limitlab.explorer.drawn.screen import formula
from limitlab.explorer.frame import frame

if TYPE_CHECKING:
    from limitlab.jobs.service import Service

__all__ = ["READ", "Written", "docs_folder", "read", "written"]

READ = (
    "sparse-targets",
    "escape",
    "linear-models",
    "fixed-data",
    "mean-field",
    "your-data",
    "verdict",
    "notation",
    "glossary",
    "explorer",
)
FORMULA = re.compile(r"^\$\$(.+?)\$\$$", re.MULTILINE | re.DOTALL)
MEANING = re.compile(r"^(\S.*)\n: (.*(?:\n  .*)*)", re.MULTILINE)


class Written(NamedTuple):
    """A page: its first heading, its body as HTML, and where a link can point to."""

    title: str
    body: str
    anchors: frozenset[str]


@functools.cache
def docs_folder() -> Path:
    """Where the pages are: in the installed package, or beside the sources."""
    inside = Path(__file__).parents[1] / "docs"
    return inside if inside.is_dir() else Path(__file__).parents[4] / "docs"


@functools.cache
def written(name: str) -> Written:
    """A page of `READ`; FileNotFoundError for any other, and if the folder is not there."""
    if name not in READ:
        raise FileNotFoundError(name)
    from markdown_it import MarkdownIt

    text = (docs_folder() / f"{name}.md").read_text(encoding="utf-8")
    formulas = [formula(found) for found in FORMULA.findall(text)]
    numbers = iter(range(len(formulas)))
    text = FORMULA.sub(lambda _: f"\n\nFORMULA{next(numbers)}\n\n", text)
    text = MEANING.sub(lambda found: f"### {found[1]}\n\n{found[2]}", text)
    reader = MarkdownIt("js-default")
    tokens, anchors = reader.parse(text), set()
    for k, token in enumerate(tokens):
        if token.type == "heading_open":
            anchors.add(_slug(tokens[k + 1].content))
            token.attrSet("id", _slug(tokens[k + 1].content))
        for child in token.children or ():
            _settle(child)
    body = reader.renderer.render(tokens, reader.options, {})
    for k, made in enumerate(formulas):
        body = body.replace(f"<p>FORMULA{k}</p>", f'<div class="formula">{made}</div>')
    title = next(tokens[k + 1].content for k, token in enumerate(tokens) if token.type == "heading_open")
    return Written(title, body, frozenset(anchors))


def read(name: str, service: "Service") -> None:
    """Draw the page."""
    frame("docs", service)
    ui.html(written(name).body, sanitize=False, tag="main").classes("reading").props('id="main"')


def _settle(token: Any) -> None:
    """Links between pages lead here, those to pages that are not shown are words; pictures that are not there go."""
    if token.type == "link_open":
        page, _, place = str(token.attrGet("href")).partition("#")
        if page.startswith(("http:", "https:")):
            token.attrSet("rel", "noreferrer")
        elif not page or page.removesuffix(".md") in READ:
            path = f"/docs/{page.removesuffix('.md')}" if page else ""
            token.attrSet("href", path + (f"#{place}" if place else ""))
        else:
            token.attrs.pop("href")
    elif token.type == "image":
        path = docs_folder() / str(token.attrGet("src"))
        if path.is_file():
            token.attrSet("src", f"/docs-images/{path.name}")
        else:
            token.type, token.content = "text", ""


def _slug(words: str) -> str:
    """A heading as the end of an address, as the site of the documentation has it."""
    return re.sub(r"[^\w\- ]", "", html.unescape(words).strip().lower()).replace(" ", "-")
