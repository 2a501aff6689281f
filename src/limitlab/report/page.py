"""The report as one page of HTML that needs no network: a table of all claims, then each with its evidence."""

import base64
import datetime
import html
import math
import platform
import struct
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from limitlab import __version__
from limitlab.gallery.entry import AT_FULL_SIZE, Check
from limitlab.numerics.machine import in_units
from limitlab.report.claims import Asked, Seed
from limitlab.report.judge import FAILS, STATES, Row
from limitlab.report.points import Outcome

__all__ = ["PAGE", "Made", "html_report"]

PAGE = "report.html"
CLASSES: dict[str, str] = dict(zip(STATES, "holds corrected false idle idle idle fails".split(), strict=True))
STYLE = """
:root { color-scheme: light; }
* { box-sizing: border-box; }
body { font: 16px/1.5 system-ui, sans-serif; color: #222; background: #fff; margin: 0 auto; max-width: 1240px;
       padding: 1rem 1.25rem 3rem; overflow-wrap: break-word; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0.5rem 0; }
h2 { font-size: 1.3rem; margin: 2.2rem 0 0.5rem; border-bottom: 2px solid #222; }
h3 { font-size: 1.05rem; margin: 0 0 0.3rem; }
a { color: #0b5394; }
.state { font-weight: 600; white-space: nowrap; }
th .state { white-space: normal; }
.holds { color: #00694d; } .corrected { color: #7a5200; } .false { color: #5b3a8c; } .idle { color: #666; }
.fails { color: #fff; background: #b3261e; padding: 0 0.35em; }
.failed { background: #fdeceb; }
table { border-collapse: collapse; width: 100%; font-size: 0.92rem; margin: 0.6rem 0; }
td, th { border-top: 1px solid #ddd; padding: 0.3rem 0.5rem; text-align: left; vertical-align: top; }
td.number { white-space: nowrap; font-variant-numeric: tabular-nums; }
article { border-top: 1px solid #bbb; padding: 0.8rem 0; break-inside: avoid; }
.about { color: #555; font-size: 0.88rem; margin: 0.2rem 0; }
.check { margin: 0.3rem 0; padding-left: 1.2rem; text-indent: -1.2rem; }
.detail { color: #555; font-size: 0.9rem; display: block; text-indent: 0; }
.picture { background-size: contain; background-repeat: no-repeat; max-width: 100%; display: block;
           print-color-adjust: exact; -webkit-print-color-adjust: exact; }
.picture.small { float: right; width: 340px; margin: 0 0 0.5rem 1rem; }
article::after { content: ""; display: block; clear: both; }
@media (max-width: 700px) {
  body { padding: 0.5rem 0.8rem 2rem; }
  .picture.small { float: none; width: 100%; margin: 0.4rem 0; }
  table.claims thead { display: none; }
  table.claims tr { display: block; border-top: 1px solid #bbb; padding: 0.4rem 0; }
  table.claims td { display: inline; border: 0; padding: 0 0.35rem 0 0; }
  table.claims td.said { display: block; }
  table.plain { display: block; overflow-x: auto; }
}
"""


@dataclass(frozen=True)
class Made:
    """How a report was made: at which sizes, when, whether all is well, and whether it is a part of the whole."""

    quick: bool
    began: datetime.datetime
    ok: bool
    part: bool = False


def html_report(seeds: Sequence[Seed], rows: Sequence[Row], outcomes: Mapping[str, Outcome], made: Made) -> str:
    """The page."""
    entries = {name: one for name, one in outcomes.items() if one.figure or "/" not in name}
    formulas = {name: one for name, one in outcomes.items() if name not in entries}
    here = [seed for seed in seeds if any(row.claim.seed == seed.number for row in rows)]
    tables = "".join(_table(seed, [row for row in rows if row.claim.seed == seed.number], outcomes) for seed in here)
    evidence = "".join(
        f"<h2>{_esc(f'Seed {seed.number}: {seed.title}')}</h2>"
        + "".join(_article(row, outcomes) for row in rows if row.claim.seed == seed.number)
        for seed in here
    )
    size = "at quick sizes" if made.quick else "at full sizes"
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>limitlab {__version__}: reproduction report</title>
<style>{STYLE}{"".join(_picture_style(one) for one in entries.values())}</style>
</head>
<body>
<h1>Reproduction report, {size}</h1>
{_summary(rows, outcomes, made)}
{_counts(here, rows)}
<h2>Seed by seed, claim by claim</h2>
{tables}
<h1>Evidence</h1>
{evidence}
<h2 id="entries">Entries of the gallery</h2>
{"".join(_entry(one) for one in entries.values())}
<h2 id="formulas">Checks of formulas</h2>
{_formulas(formulas.values())}
<h2 id="made">Versions and machine</h2>
{_machine(outcomes.values())}
</body>
</html>
"""


def _esc(text: object) -> str:
    return html.escape(str(text))


def _id(name: str) -> str:
    return name.replace("/", "-")


def _state(state: str) -> str:
    return f'<span class="state {CLASSES[state]}">{_esc(state)}</span>'


def _summary(rows: Sequence[Row], outcomes: Mapping[str, Outcome], made: Made) -> str:
    failed = sum(row.state == FAILS for row in rows)
    checks = [check for one in outcomes.values() for check in one.checks]
    good, left_out = sum(check.ok for check in checks), sum(len(one.left_out) for one in outcomes.values())
    broken = [name for name, one in outcomes.items() if one.reason]
    worked, took = (sum(getattr(one, name) for one in outcomes.values()) for name in ("processor_seconds", "seconds"))
    verdict = "All that was checked stands." if made.ok else f"{failed} claims fail." if failed else "Some checks fail."
    lines = [
        "<p>Every formula, theorem and figure of the five documents that limitlab was made from, put to a check by "
        "computing it.</p>",
        f'<p><span class="state {"holds" if made.ok else "fails"}">{verdict}</span> '
        f"{len(rows)} claims, {len(outcomes)} entries and formulas, {good} of {len(checks)} checks hold"
        + (f"; {left_out} checks {AT_FULL_SIZE}" if left_out else "")
        + ".</p>",
        f'<p class="about">limitlab {__version__}, {made.began.isoformat(timespec="minutes")}; computed in '
        f"{_minutes(took)}, {_minutes(worked)} of processors. Every number is measured by the checks named beside it; "
        "a tolerance or error bar stands with each. What a claim says is in our own words.</p>",
    ]
    if made.part:
        lines.append("<p>This is a part of the report: only some entries and formulas were asked for.</p>")
    if failed:
        keys = (row.claim.key for row in rows if row.state == FAILS)
        links = ", ".join(f'<a href="#claim-{key}">{key}</a>' for key in keys)
        lines.append(f'<p class="failed">Claims whose checks fail: {links}.</p>')
    if broken:
        lines.append(f'<p class="failed">Did not run: {_esc(", ".join(broken))}.</p>')
    return "\n".join(lines)


def _counts(seeds: Sequence[Seed], rows: Sequence[Row]) -> str:
    shown = [state for state in STATES if any(row.state == state for row in rows)]
    heads = "<th>seed</th><th>claims</th>" + "".join(f"<th>{_state(state)}</th>" for state in shown)
    body = ""
    for seed in seeds:
        counts = Counter(row.state for row in rows if row.claim.seed == seed.number)
        cells = "".join(f'<td class="number">{counts[state] or ""}</td>' for state in shown)
        name = f'<a href="#seed-{seed.number}">{seed.number}: {_esc(seed.title)}</a>'
        body += f'<tr><td>{name}</td><td class="number">{sum(counts.values())}</td>{cells}</tr>'
    counts = Counter(row.state for row in rows)
    cells = "".join(f'<th class="number">{counts[state]}</th>' for state in shown)
    body += f'<tr><th>all</th><th class="number">{len(rows)}</th>{cells}</tr>'
    return f'<table class="plain"><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>'


def _table(seed: Seed, rows: Sequence[Row], outcomes: Mapping[str, Outcome]) -> str:
    body = ""
    for row in rows:
        claim = row.claim
        names = dict.fromkeys(asked.name for asked in claim.checks)
        seconds = sum(outcomes[name].seconds for name in names if name in outcomes)
        body += (
            f'<tr class="{"failed" if row.state == FAILS else ""}"><td class="number"><a href="#claim-{claim.key}">'
            f"{claim.key}</a></td><td>{_esc(claim.kind)}</td><td>{_esc(claim.place)}</td>"
            f'<td class="said">{_esc(claim.sentence)}</td><td>{_state(row.state)}</td>'
            f'<td class="number">{_minutes(seconds) if names else ""}</td></tr>'
        )
    return (
        f'<h3 id="seed-{seed.number}">Seed {seed.number}: {_esc(seed.title)} <span class="about">({seed.reference})'
        '</span></h3><table class="claims"><thead><tr><th>claim</th><th>kind</th><th>place</th><th>what it says</th>'
        f"<th>verdict</th><th>took</th></tr></thead><tbody>{body}</tbody></table>"
    )


def _article(row: Row, outcomes: Mapping[str, Outcome]) -> str:
    claim = row.claim
    names = list(dict.fromkeys(asked.name for asked in claim.checks if asked.name in outcomes))
    pictures = "".join(
        f'<a href="#{_id(name)}">{_picture(outcomes[name], "small")}</a>' for name in names if outcomes[name].figure
    )
    checks = "".join(_check(check, asked) for asked, check in row.checks)
    checks += "".join(
        f'<p class="check"><span class="idle">{AT_FULL_SIZE}</span> {_esc(statement)} ({_link(asked)})</p>'
        for asked, statement in row.left_out
    )
    checks += "".join(
        f'<p class="check failed"><span class="state fails">missing</span> {_esc(x)}</p>' for x in row.missing
    )
    why = claim.untestable or claim.why
    return (
        f'<article id="claim-{claim.key}" class="{"failed" if row.state == FAILS else ""}">{pictures}'
        f"<h3>{claim.key} {_esc(claim.kind)}, {_esc(claim.place)}</h3><p>{_esc(claim.sentence)}</p>"
        f"<p>{_state(row.state)}{': ' if why else ''}{_esc(why)}</p>{checks}"
        + "".join(f'<p class="about">{_link(Asked(name))}: {_took(outcomes[name])}</p>' for name in names)
        + "</article>"
    )


def _link(asked: Asked) -> str:
    return f'<a href="#{_id(asked.name)}">{_esc(asked.name)}</a>'


def _check(check: Check, asked: Asked | None = None) -> str:
    word = f'<span class="state {"holds" if check.ok else "fails"}">{"ok" if check.ok else "FAILS"}</span>'
    source = "" if asked is None else f" ({_link(asked)})"
    return (
        f'<p class="check{"" if check.ok else " failed"}">{word} {_esc(check.statement)}{source}'
        f'<span class="detail">{_esc(check.detail)}</span></p>'
    )


def _entry(one: Outcome) -> str:
    if one.reason:
        body = f'<p class="failed"><span class="state fails">did not run</span> {_esc(one.reason)}</p>'
    else:
        body = _picture(one, "") + "".join(map(_check, one.checks))
        body += "".join(
            f'<p class="check"><span class="idle">{AT_FULL_SIZE}</span> {_esc(statement)}</p>'
            for statement in one.left_out
        )
    seeds = ", ".join(f"{name} {seed}" for name, seed in (one.seeds or {}).items())
    sizes = f'<p class="about">Quick sizes: {_esc(one.sizes)}</p>' if one.sizes else ""
    return (
        f'<article id="{_id(one.name)}"><h3>{_esc(one.name)}: {_esc(one.title)}</h3>{body}{sizes}'
        f'<p class="about">{_took(one)}{f"; seeds: {_esc(seeds)}" if seeds else ""}</p></article>'
    )


def _formulas(formulas) -> str:
    rows = "".join(
        f'<tr id="{_id(one.name)}" class="{"" if _fine(one) else "failed"}"><td>{_esc(one.name)}</td><td>'
        f"{_esc(one.title)}</td><td>{_esc(one.reason or one.checks[0].detail)}</td>"
        f'<td class="number">{_took(one)}</td></tr>'
        for one in formulas
    )
    heads = "<th>name</th><th>what it says</th><th>measured</th><th>took</th>"
    return f'<table class="plain"><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>'


def _fine(one: Outcome) -> bool:
    return not one.reason and all(check.ok for check in one.checks)


def _took(one: Outcome) -> str:
    if one.reason:
        return ""
    return f"{_minutes(one.seconds)}, {_minutes(one.processor_seconds)} of processors, {in_units(int(one.memory))}"


def _minutes(seconds: float) -> str:
    if seconds >= 99.5:
        return f"{seconds / 60:.1f} min"
    return f"{seconds:.0f} s" if seconds >= 9.95 else f"{seconds:.2g} s"


def _picture_style(one: Outcome) -> str:
    """The picture once, for all places that show it."""
    if not one.figure:
        return ""
    width, height = struct.unpack(">II", one.figure[16:24])  # of the first chunk of a PNG
    data = base64.b64encode(one.figure).decode()
    return (
        f".p-{_id(one.name)} {{ background-image: url(data:image/png;base64,{data}); "
        f"aspect-ratio: {width} / {height}; width: {math.ceil(width / 3)}px; }}\n"
    )


def _picture(one: Outcome, how: str) -> str:
    if not one.figure:
        return ""
    alt = html.escape(one.title, quote=True)
    return f'<span class="picture p-{_id(one.name)} {how}" role="img" aria-label="{alt}"></span>'


def _machine(outcomes: Iterable[Outcome]) -> str:
    """What the points were made with: a report that went on may have more than one version of a thing."""
    found: dict[str, list[str]] = {}
    for one in outcomes:
        for name, value in (one.made_with or {}).items():
            if str(value) not in found.setdefault(name, []):
                found[name].append(str(value))
    found.pop("host", None)
    rows = {**found, "processor of this page": [platform.processor() or platform.machine()]}
    body = "".join(
        f"<tr><td>{_esc(name.removesuffix('_version'))}</td><td>{_esc(', '.join(values))}</td></tr>"
        for name, values in rows.items()
    )
    return f'<table class="plain"><tbody>{body}</tbody></table>'
