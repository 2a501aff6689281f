"""Formulas as MathML, made when the site is built: browsers draw it themselves, without a script and a network."""

import re
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.util import logging

__all__ = ["mathml", "setup"]

LOGGER = logging.getLogger(__name__)
# What the converter does not know -> the same with what it knows.
WORDS = {r"\\tfrac": r"\\frac", r"\\dfrac": r"\\frac", r"\{\\rm (\w+)\}": r"\\mathrm{\1}", r"\\bm\b": r"\\mathbf"}
# Letters of an alphabet by where their capitals begin in Unicode: browsers know no `mathvariant` but "normal".
ALPHABETS = {"script": 0x1D49C, "double-struck": 0x1D538, "bold": 0x1D400}
EARLIER = {  # letters that Unicode had before the alphabets
    "script": dict(zip("BEFHILMR", "ℬℰℱℋℐℒℳℛ", strict=True)),
    "double-struck": dict(zip("CHNPQRZ", "ℂℍℕℙℚℝℤ", strict=True)),
    "bold": {},
}


def _letter(match: re.Match) -> str:
    alphabet, letter = match[1], match[2]
    return f"<mi>{EARLIER[alphabet].get(letter) or chr(ALPHABETS[alphabet] + ord(letter) - ord('A'))}</mi>"


def mathml(formula: str, display: bool) -> str:
    r"""The formula as an element ``<math>``; lines of several are aligned at their ``&``."""
    text = formula.strip()
    for word, known in WORDS.items():
        text = re.sub(word, known, text)
    if (r"\\" in text or "&" in text) and r"\begin" not in text:
        text = rf"\begin{{aligned}}{text}\end{{aligned}}"
    made = convert(text, display="block" if display else "inline")
    left = re.search(r"<mi>(\\[A-Za-z]+)</mi>", made)
    if left:
        raise ValueError(f"{left[1]} is not known")
    return re.sub(r'<mi mathvariant="(script|double-struck|bold)">([A-Z])</mi>', _letter, made)


def _drawn(node: nodes.Node, display: bool) -> str:
    try:
        return mathml(node.astext(), display)
    except Exception as error:
        LOGGER.warning("a formula cannot be made into MathML (%s): %s", error, node.astext(), location=node)
        return ""


def _inline(self: Any, node: nodes.Node) -> None:
    self.body.append(f'<span class="formula">{_drawn(node, False)}</span>')
    raise nodes.SkipNode


def _display(self: Any, node: nodes.Node) -> None:
    for part in re.split(r"\n\s*\n", node.astext().strip()):
        self.body.append(f'<div class="formula">{_drawn(nodes.math(part, part), True)}</div>\n')
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, Any]:
    app.add_html_math_renderer("mathml", (_inline, None), (_display, None))
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
