"""Tables that the classes tell themselves: ``{limit-table}``, ``{rule-table}``, ``{limit-facts} OverlapODE``,
``{claim-table}``."""

from collections import Counter
from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList

import limitlab as ll
from limitlab.macro.predict import LIMITS
from limitlab.problems.base import AbstractAlgorithm
from limitlab.report.claims import VERDICTS, read_claims
from limitlab.spec.kinds import known_kinds

__all__ = ["RULES", "rate_in_words", "setup"]

RULES = known_kinds()[AbstractAlgorithm]


def slug(name: str) -> str:
    """The page of a limit or rule: OverlapODE -> overlapode."""
    return name.lower()


def rate_in_words(rate: dict[str, float]) -> str:
    """{"d": -0.5} -> d^-1/2."""
    names = {-0.5: "^-1/2", -1.0: "^-1", -2.0: "^-2"}
    return ", ".join(f"{name}{names.get(power, f'^{power:g}')}" for name, power in rate.items())


def cited(keys: str | tuple[str, ...]) -> str:
    keys = (keys,) if isinstance(keys, str) else keys
    return ", ".join(f"{{cite:t}}`{key}`" for key in keys if key) or "none"


def table(head: list[str], rows: list[list[str]]) -> list[str]:
    clean = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    lines = [head, ["---"] * len(head), *clean]
    return ["| " + " | ".join(line) + " |" for line in lines]


class _Made(Directive):
    """A directive whose body is Markdown that a function makes."""

    optional_arguments = 1

    def lines(self) -> list[str]:
        raise NotImplementedError

    def run(self) -> list[nodes.Node]:
        place = nodes.container()
        self.state.nested_parse(StringList(self.lines(), source="classes"), 0, place)
        return list(place.children)


class LimitTable(_Made):
    def lines(self) -> list[str]:
        head = ["limit", "goes to infinity", "stays", "needs", "cost", "a run at finite size is off by", "reference"]
        rows = [
            [f"[{name}](limits/{slug(name)}.md)", limit.grows, limit.stays, limit.needs, limit.cost,
             rate_in_words(limit.rate), cited(limit.reference)]
            for name, limit in LIMITS.items()
        ]  # fmt: skip
        return table(head, rows)


class RuleTable(_Made):
    folder = "rules/"

    def lines(self) -> list[str]:
        head = ["rule", "samples", "clock", "reference"]
        rows = [
            [f"[{name}]({self.folder}{slug(name)}.md)", rule.takes, rule.clock_words or "none", cited(rule.reference)]
            for name, rule in RULES.items()
        ]
        return table(head, rows)


class RuleIndex(RuleTable):
    folder = ""


class LimitFacts(_Made):
    required_arguments, optional_arguments = 1, 0

    def lines(self) -> list[str]:
        limit = LIMITS[self.arguments[0]]
        rows = [["stays", limit.stays], ["needs", limit.needs], ["cost", limit.cost]]
        rows += [["a run at finite size is off by", rate_in_words(limit.rate)], ["reference", cited(limit.reference)]]
        return table(["goes to infinity", limit.grows], rows)


class RuleFacts(_Made):
    required_arguments, optional_arguments = 1, 0

    def lines(self) -> list[str]:
        rule = RULES[self.arguments[0]]
        rows = [["clock", rule.clock_words or "none"], ["reported along", rule.axis or "nothing: one estimate"]]
        return table(["samples", rule.takes], [*rows, ["reference", cited(rule.reference)]])


class ClaimTable(_Made):
    def lines(self) -> list[str]:
        seeds, claims = read_claims()
        words = (*VERDICTS, "")
        rows = []
        for seed in seeds:
            found = Counter(claim.verdict for claim in claims if claim.seed == seed.number)
            rows.append([f"{seed.title}, {cited(seed.reference)}", str(found.total()), *(str(found[w]) for w in words)])
        every = Counter(claim.verdict for claim in claims)
        rows.append(["all", str(every.total()), *(str(every[word]) for word in words)])
        return table(["document", "claims", *VERDICTS, "not testable"], rows)


def setup(app: Any) -> dict[str, Any]:
    assert ll.__version__
    for name, directive in (
        ("limit-table", LimitTable),
        ("rule-table", RuleTable),
        ("rule-index", RuleIndex),
        ("limit-facts", LimitFacts),
        ("rule-facts", RuleFacts),
        ("claim-table", ClaimTable),
    ):
        app.add_directive(name, directive)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
