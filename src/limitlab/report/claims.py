"""The claims of the source documents, from ``claims.toml``: one row for each formula, theorem and figure."""

import functools
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

from limitlab.cite import references
from limitlab.errors import InputError
from limitlab.gallery import ENTRIES
from limitlab.report.formulas import FORMULAS
from limitlab.text import did_you_mean

__all__ = ["KINDS", "VERDICTS", "Asked", "Claim", "Seed", "claims_of", "read_claims"]

FILE = "claims.toml"
HOLDS, CORRECTED, FALSE = "holds", "holds with correction", "does not hold"
VERDICTS = (HOLDS, CORRECTED, FALSE)
KINDS = ("formula", "theorem", "figure", "statement")
FIELDS = {"seed", "place", "kind", "sentence", "checks", "verdict", "why", "untestable"}


@dataclass(frozen=True)
class Seed:
    """A document: its number, a short title, and the key in references.bib of the work that it presents."""

    number: int
    title: str
    reference: str


@dataclass(frozen=True)
class Asked:
    """A check that a claim rests on: a formula, or those of an entry whose statements have these words."""

    name: str
    words: str = ""

    @property
    def entry(self) -> bool:
        return self.words != ""

    def __str__(self) -> str:
        return f"{self.name}: {self.words}" if self.entry else self.name


@dataclass(frozen=True)
class Claim:
    """What a document says at one place, and how it is put to the test.

    Attributes
    ----------
    key
        Seed and number of the row in it, such as ``0.07``.
    seed, place, kind, sentence
        Where it stands, whether it is a formula, theorem, figure or statement, and what it says in one sentence.
    checks
        What has to come out right for the verdict; none of a claim that cannot be tested.
    verdict, why
        "holds", "holds with correction" or "does not hold"; and what is corrected, or how it fails.
    untestable
        The reason why nothing can test it; then there is no verdict.
    """

    key: str
    seed: int
    place: str
    kind: str
    sentence: str
    checks: tuple[Asked, ...] = ()
    verdict: str = ""
    why: str = ""
    untestable: str = ""


@functools.cache
def read_claims() -> tuple[tuple[Seed, ...], tuple[Claim, ...]]:
    """The documents and all their claims, as the package has them."""
    text = resources.files("limitlab.report").joinpath(FILE).read_text(encoding="utf-8")
    return claims_of(tomllib.loads(text))


def claims_of(table: Mapping[str, Any]) -> tuple[tuple[Seed, ...], tuple[Claim, ...]]:
    """Documents and claims of a table; a row that rests on nothing, or on what there is not, is refused."""
    seeds = tuple(Seed(number, row["title"], row["reference"]) for number, row in enumerate(table["seed"]))
    for seed in seeds:
        if seed.reference not in references():
            raise InputError(
                f"{FILE}: seed {seed.number} cites {seed.reference!r}, which references.bib does not have."
            )
    counts, claims = [0] * len(seeds), []
    for row in table["claim"]:
        counts[row["seed"]] += 1
        claims.append(_claim(f"{row['seed']}.{counts[row['seed']]:02d}", row))
    return seeds, tuple(claims)


def _claim(key: str, row: Mapping[str, Any]) -> Claim:
    here = f"{FILE}: claim {key} ({row.get('place')})"
    if unknown := set(row) - FIELDS:
        raise InputError(f"{here} has unknown fields {sorted(unknown)}; there are {sorted(FIELDS)}.")
    if row["kind"] not in KINDS:
        raise InputError(f"{here}: kind must be one of {', '.join(KINDS)}; got {row['kind']!r}.")
    checks = tuple(_asked(here, text) for text in row.get("checks", ()))
    untestable, verdict, why = row.get("untestable", ""), row.get("verdict", ""), row.get("why", "")
    if bool(checks) == bool(untestable):
        raise InputError(f"{here} needs checks that run, or the reason why it is untestable, and not both.")
    if checks and verdict not in VERDICTS:
        raise InputError(f"{here}: verdict must be one of {', '.join(VERDICTS)}; got {verdict!r}.")
    if (verdict in (CORRECTED, FALSE)) != bool(why):
        raise InputError(f"{here}: {verdict or 'no verdict'!r} and why = {why!r}. What is corrected has a reason.")
    return Claim(key, row["seed"], row["place"], row["kind"], row["sentence"], checks, verdict, why, untestable)


def _asked(here: str, text: str) -> Asked:
    name, colon, words = text.partition(": ")
    if not colon:
        if name not in FORMULAS:
            raise InputError(f"{here}: there is no formula check {name!r}.{did_you_mean(name, FORMULAS)}")
        return Asked(name)
    if name not in ENTRIES or not words:
        raise InputError(f"{here}: {text!r} names no gallery entry and words of a check.{did_you_mean(name, ENTRIES)}")
    return Asked(name, words)
