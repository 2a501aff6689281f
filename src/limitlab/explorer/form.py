"""The form of a page as plain HTML: native inputs with labels, symbols and explanations."""

import html
import math

from limitlab.explorer.controls import GROUPS, Choice, Control, Number, Switch, Text
from limitlab.explorer.description import Page, Values

__all__ = ["form_html", "plain_values"]


def form_html(page: Page, values: Values) -> str:
    """All controls, group by group."""
    parts = []
    for group, title in GROUPS.items():
        here = [control for control in page.controls if control.group == group]
        if here:
            fields = "".join(_field(control, values[control.key], control.more or page.docs) for control in here)
            parts.append(f"<fieldset><legend>{html.escape(title)}</legend>{fields}</fieldset>")
    return "".join(parts)


def plain_values(page: Page, values: Values) -> dict[str, str]:
    """The values as the form shows them."""
    return {control.key: control.write(values[control.key]) for control in page.controls}


def _field(control: Control, value: object, more: str) -> str:
    key, label = html.escape(control.key, quote=True), html.escape(control.words)
    symbol = f' <span class="symbol">{html.escape(control.symbol)}</span>' if control.symbol else ""
    text = html.escape(control.write(value), quote=True)
    about = f'aria-describedby="about-{key} fault-{key}"'
    log = ""
    if isinstance(control, Number):
        log = ' data-log="1"' if control.log else ""
        low, high, step = _range(control)
        at = math.log10(float(str(value))) if control.log else value
        unit = f' <span class="unit">{html.escape(control.unit)}</span>' if control.unit else ""
        size = "any" if control.log and not control.whole else f"{control.step:g}"
        body = (
            f'<div class="pair"><div class="track"><input type="range" id="in-{key}" min="{low:g}" max="{high:g}" '
            f'step="{step:g}" value="{at}" {about}><span class="ends" aria-hidden="true"><span>{control.low:g}</span>'
            f'<span>{control.high:g}</span></span></div><input type="number" aria-label="{label}, exact value" '
            f'min="{control.low:g}" max="{control.high:g}" step="{size}" value="{text}">{unit}</div>'
        )
    elif isinstance(control, Choice):
        options = "".join(
            f'<option value="{html.escape(name, quote=True)}"{" selected" if name == value else ""}>'
            f"{html.escape(words)}</option>"
            for name, words in control.options
        )
        body = f'<select id="in-{key}" {about}>{options}</select>'
    elif isinstance(control, Switch):
        checked = " checked" if value else ""
        head = f'<div class="head"><label for="in-{key}"><input type="checkbox" id="in-{key}"{checked} {about}>'
        return (
            f'<div class="field" data-key="{key}">{head}{label}{symbol}</label>{_help(control, more)}</div>{_end(key)}'
        )
    else:
        listed = control.suggestions if isinstance(control, Text) else ()
        offers = "".join(f'<option value="{html.escape(one, quote=True)}">' for one in listed)
        body = (
            f'<input type="text" id="in-{key}" value="{text}" spellcheck="false" autocomplete="off" list="list-{key}" '
            f'{about}><datalist id="list-{key}">{offers}</datalist>'
        )
    head = f'<div class="head"><label for="in-{key}">{label}{symbol}</label>{_help(control, more)}</div>'
    return f'<div class="field" data-key="{key}"{log}>{head}{body}{_end(key)}'


def _end(key: str) -> str:
    return f'<p class="fault" id="fault-{key}" role="alert"></p></div>'


def _help(control: Control, more: str) -> str:
    key, name = html.escape(control.key, quote=True), html.escape(control.words, quote=True)
    link = f' <a href="/docs/{html.escape(more, quote=True)}" target="_blank">more</a>' if more else ""
    return (
        f'<details class="help"><summary aria-label="Explain: {name}">?</summary>'
        f'<p id="about-{key}">{html.escape(control.help)}{link}</p></details>'
    )


def _range(control: Number) -> tuple[float, float, float]:
    if control.log:
        return math.log10(control.low), math.log10(control.high), 0.02
    return control.low, control.high, control.step
