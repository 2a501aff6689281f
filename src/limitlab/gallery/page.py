"""An entry as one page of HTML: figure that answers to the mouse, claim, checks and numbers. It needs no network."""

import base64
import html
import json
from pathlib import Path
from typing import Any

from limitlab.errors import InputError
from limitlab.figures import png
from limitlab.figures.on_screen import on_screen
from limitlab.files import whole
from limitlab.gallery.entry import Entry, Verdict

__all__ = ["check_plotly", "html_page", "write_page"]

PAGE = "page.html"

STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, sans-serif; color: #222; background: #fff; margin: 0 auto; max-width: 1280px;
       padding: 1rem 1.25rem 3rem; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: 0.5rem 0; }
.claim { max-width: 75ch; }
.verdict { font-weight: 600; }
.holds { color: #00694d; } .fails { color: #b3261e; }
table { border-collapse: collapse; margin: 1rem 0; width: 100%; }
td, th { border-top: 1px solid #ddd; padding: 0.4rem 0.6rem; text-align: left; vertical-align: top; }
td.detail { color: #555; overflow-wrap: anywhere; }
.figure { overflow-x: auto; } .figure img { max-width: 100%; }
footer { color: #555; font-size: 0.9rem; border-top: 1px solid #ddd; padding-top: 0.8rem; }
"""


def html_page(entry: Entry, verdict: Verdict) -> str:
    """The page; needs Plotly unless the figure is a map, which stays a picture."""
    rows = "".join(
        f'<tr><td class="{"holds" if check.ok else "fails"}">{"holds" if check.ok else "FAILS"}</td>'
        f'<td>{html.escape(check.statement)}</td><td class="detail">{html.escape(check.detail)}</td></tr>'
        for check in verdict.checks
    )
    word = "holds" if verdict.ok else "fails"
    good = sum(check.ok for check in verdict.checks)
    about = html.escape(verdict.text.rstrip().splitlines()[-1])
    title = html.escape(entry.title)
    alt = html.escape(f"{entry.title}. {entry.claim}", quote=True)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{STYLE}</style>
</head>
<body>
<h1>{title}</h1>
<p class="claim">{html.escape(entry.claim)}</p>
<p class="verdict {word}">The claim {word}: {good} of {len(verdict.checks)} checks.</p>
<div class="figure" role="img" aria-label="{alt}">{_figure(verdict)}</div>
<table><thead><tr><th>check</th><th>statement</th><th>measured</th></tr></thead><tbody>{rows}</tbody></table>
<footer>{about}</footer>
</body>
</html>
"""


def write_page(entry: Entry, verdict: Verdict) -> Path:
    """The page in the verdict's folder, whole or not at all."""
    if verdict.folder is None:
        raise InputError("A page is written into the folder of a run; this verdict has none. Give run_entry a folder.")
    path = verdict.folder / PAGE
    with whole(path) as part:
        part.write_text(html_page(entry, verdict), encoding="utf-8", newline="\n")
    return path


def check_plotly() -> None:
    """Better before the computation than after it."""
    _plotly()


def _figure(verdict: Verdict) -> str:
    if verdict.drawing is None:
        picture = base64.b64encode(png(verdict.figure)).decode() if verdict.figure is not None else ""
        return f'<img alt="" src="data:image/png;base64,{picture}">'
    figure: dict[str, Any] = on_screen(verdict.drawing, sized=True)
    text = json.dumps(figure, allow_nan=False).replace("<", "\\u003c")
    return (
        f'<div id="figure"></div><script>{_plotly()}</script><script>const made = {text};'
        'Plotly.newPlot("figure", made.data, made.layout, {displaylogo: false, responsive: false});</script>'
    )


def _plotly() -> str:
    """The script that draws, from its package."""
    try:
        from plotly.offline import get_plotlyjs  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise InputError("A page with a figure needs Plotly: pip install 'limitlab[explorer]'.") from None
    return get_plotlyjs()
