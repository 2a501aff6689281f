"""The package asks its parts to do something, and rarely what they are; nothing is hidden from the type checker."""

import ast

import counts
import pytest


@pytest.mark.parametrize("name", counts.BARS)
def test_the_bar_holds(name):
    found = counts.figures()[name]
    assert found <= counts.BARS[name], f"{found} {name}; python tests/contracts/counts.py --where says where"


def test_the_script_counts_what_it_says(tmp_path):
    lines = [
        "isinstance(x, Committee)",
        "isinstance(x, (int, problems.Gaussian))",
        "isinstance(x, OnlineSGD | None)",
        "isinstance(x, (Problem, AbstractTeacher, float))",  # of arguments, not of parts
        "assert x",
        "y = x  # type: ignore[attr-defined]",
    ]
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "one.py").write_text("\n".join(lines) + "\n")
    (tmp_path / "a" / "__init__.py").write_text("")
    assert counts.figures(tmp_path) == {"isinstance": 3, "type: ignore": 1, "assert": 1, "modules a folder": 1}
    assert [place.line for place in counts.count(tmp_path)["isinstance"]] == [1, 2, 3]


def test_a_name_in_any_shape_is_found():
    assert counts.named(ast.parse("(a.B, C | D[0])", mode="eval").body) == {"a", "B", "C", "D"}
