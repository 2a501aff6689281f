"""Every row of claims.toml rests on a check that runs, and a row that rests on nothing is refused."""

import ast
import copy
import importlib
import inspect
import tomllib
from collections import Counter
from pathlib import Path

import pytest

import limitlab as ll
from limitlab.gallery import ENTRIES
from limitlab.gallery.entry import _short
from limitlab.report.claims import VERDICTS, claims_of, read_claims
from limitlab.report.formulas import FORMULAS

TABLE = tomllib.loads((Path(ll.__file__).parent / "report" / "claims.toml").read_text())
SEEDS, CLAIMS = read_claims()
ROWS = {0: 33, 1: 52, 2: 33, 3: 88, 4: 48}  # counted in the documents; more may come, none may go
HOLE = "\0"
ENOUGH = 8  # letters of a statement that must be those of a row, where the rest is filled in when it is made


def statements(name: str) -> list[str]:
    """Texts of an entry's functions, with its constants filled in and a hole for what is known later."""
    module = importlib.import_module(ENTRIES[name].compute.__module__)
    found = []
    for function in ast.parse(inspect.getsource(module)).body:
        if isinstance(function, ast.FunctionDef):
            inside = [node for node in ast.walk(function) if isinstance(node, (ast.JoinedStr, ast.Constant))]
            found += [filled(node, vars(module)) for node in inside]
    loops = [ast.literal_eval(n) for n in ast.walk(ast.parse(inspect.getsource(module))) if isinstance(n, ast.Constant)]
    return [text for text in (*found, *loops) if isinstance(text, str)]


def filled(node: ast.expr, names: dict) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    parts = []
    for part in getattr(node, "values", []):
        if isinstance(part, ast.FormattedValue):
            try:
                alone = ast.fix_missing_locations(ast.Expression(ast.JoinedStr([part])))
                text = eval(compile(alone, "claim", "eval"), dict(names))
            except NameError:  # a name of the function, not of the module
                text = HOLE
            parts.append(text)
        else:
            parts.append(part.value)
    return "".join(parts)


def can_say(words: str, text: str) -> bool:
    """Whether a statement made of this text can have the words: in one piece, or over the edge of a hole."""
    pieces = text.split(HOLE)
    if any(words in piece for piece in pieces):
        return True
    edges = [words[i:] for i in range(1, len(words) - ENOUGH + 1)]
    return any(piece.startswith(edge) for piece in pieces[1:] for edge in edges)


def test_the_documents_are_counted():
    assert len(SEEDS) == 5
    counts = Counter(claim.seed for claim in CLAIMS)
    assert all(counts[seed] >= number for seed, number in ROWS.items())
    assert len({claim.key for claim in CLAIMS}) == len(CLAIMS)
    assert {claim.kind for claim in CLAIMS} == {"formula", "theorem", "figure", "statement"}
    assert {claim.verdict for claim in CLAIMS} == {*VERDICTS, ""}


@pytest.mark.parametrize("name", sorted({asked.name for claim in CLAIMS for asked in claim.checks if asked.entry}))
def test_rows_name_checks_that_entries_make(name):
    texts = statements(name)
    for claim in CLAIMS:
        for asked in claim.checks:
            if asked.name == name:
                assert any(can_say(asked.words, text) for text in texts), f"{claim.key}: no check says {asked.words!r}"


def test_constants_of_an_entry_are_filled_in():
    texts = statements("over-parametrised")
    assert any(can_say("alpha = 1.25 is never enough", text) for text in texts)
    assert not any(can_say("alpha = 1.35 is never enough", text) for text in texts)


def test_words_that_no_check_has_are_noticed():
    texts = statements("staircase")
    assert any(can_say("the steps are climbed in order", text) for text in texts)
    assert not any(can_say("the steps are climbed backwards", text) for text in texts)
    assert can_say("GAMP at alpha", f"{HOLE} at alpha = {HOLE} agrees")
    assert not can_say("GAMP at beta", f"{HOLE} at alpha = {HOLE} agrees")


def test_every_formula_serves_a_claim():
    assert {asked.name for claim in CLAIMS for asked in claim.checks} >= set(FORMULAS)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"checks": []}, "needs checks that run"),
        ({"checks": ["sparse/fouriers"]}, "no formula check 'sparse/fouriers'. Did you mean"),
        ({"checks": ["stairs: x"]}, "names no gallery entry"),
        ({"verdict": "true"}, "verdict must be one of"),
        ({"verdict": "does not hold"}, "has a reason"),
        ({"why": "because"}, "has a reason"),
        ({"untestable": "no"}, "and not both"),
        ({"kind": "lemma"}, "kind must be one of"),
        ({"note": "x"}, "unknown fields"),
    ],
)
def test_a_row_that_rests_on_nothing_is_refused(change, words):
    table = copy.deepcopy(TABLE)
    table["claim"] = [row for row in table["claim"] if row.get("verdict") == "holds"][:1]
    claims_of(table)
    table["claim"][0].update(change)
    with pytest.raises(ll.errors.InputError, match=words):
        claims_of(table)


def test_a_document_that_is_not_in_the_bibliography_is_refused():
    table = copy.deepcopy(TABLE)
    table["seed"][0]["reference"] = "nobody1999"
    with pytest.raises(ll.errors.InputError, match="nobody1999"):
        claims_of(table)


@pytest.mark.parametrize("name", [name for name in ENTRIES if ENTRIES[name].quick is not None])
def test_quick_sizes_are_constants_of_the_entry_and_smaller(name):
    entry = ENTRIES[name]
    module = vars(importlib.import_module(entry.compute.__module__))
    assert entry.quick.seconds < entry.seconds
    for constant, value in entry.quick.sizes.items():
        assert constant in module
        assert _short(value) != _short(module[constant])
    for words in entry.quick.full:
        assert any(can_say(words, text) for text in statements(name)), words
