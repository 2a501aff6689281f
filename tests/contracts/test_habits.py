"""Files beside the code say what the code says: versions, bounds, hooks, and no address that nobody has."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from lowest import bounds

import limitlab as ll

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CONDA = {"matplotlib": "matplotlib-base", "tomli_w": "tomli-w"}
BESIDE = ["CODE_OF_CONDUCT.md", "CONTRIBUTING.md", ".pre-commit-config.yaml", "recipe/meta.yaml", "paper.md"]
TEMPLATES = [
    ".github/pull_request_template.md",
    *(f".github/ISSUE_TEMPLATE/{x}.md" for x in ("wrong-number", "new-limit")),
]


def test_one_version_everywhere():
    assert PROJECT["version"] == ll.__version__
    assert re.search(r"^version: (.*)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)[1] == ll.__version__
    newest = re.search(r"^## (\d\S*) \(\d{4}-\d\d-\d\d\)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest[1] == ll.__version__
    assert f'version = "{ll.__version__}"' in (ROOT / "recipe/meta.yaml").read_text()


def recipe_bounds(text: str) -> dict[str, str]:
    run = text.split("  run:\n")[1].split("\n\n")[0]
    return dict(re.findall(r"- (\S+) >=(\S+)", run))


def test_the_recipe_has_the_bounds_of_the_project():
    found = recipe_bounds((ROOT / "recipe/meta.yaml").read_text())
    assert found.pop("python") == PROJECT["requires-python"].removeprefix(">=")
    assert found == {CONDA.get(name, name): version for name, version in bounds().items()}
    assert recipe_bounds("  run:\n    - jax >=0.4\n\n") == {"jax": "0.4"} != found


def test_hooks_are_local():
    text = (ROOT / ".pre-commit-config.yaml").read_text()
    assert re.findall(r"repo: (\S+)", text) == ["local"]
    assert set(re.findall(r"entry: (\S+)", text)) == {"ruff", "codespell", "pyright", "lint-imports"}


@pytest.mark.parametrize("name", [*BESIDE, *TEMPLATES])
def test_no_address_is_made_up(name):
    text = (ROOT / name).read_text()
    assert not re.search(r"https?://|www\.|[\w.]+@[\w-]+\.\w", text), name


def test_classifiers_are_the_pythons_of_ci():
    listed = re.findall(r"Python :: (3\.\d+)", " ".join(PROJECT["classifiers"]))
    tried = re.search(r"for version in ([\d. ]+);", (ROOT / ".ci/pythons").read_text())[1].split()
    assert listed == tried


def test_cells_of_a_notebook_run_and_a_wrong_one_is_seen(tmp_path):
    page = tmp_path / "page.md"
    first, second = ("```{code-cell} ipython3\n:tags: [hide]\nx = 2\n```\n", "```{code-cell}\nassert x == 2\n```\n")
    cells = f"---\nkernel: x\n---\n# A\n{first}text\n{second}"
    command = [sys.executable, str(ROOT / ".ci/notebook.py"), str(page)]
    page.write_text(cells)
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0 and "page.md: 2 cells" in done.stdout, done.stderr
    page.write_text(cells.replace("x == 2", "x == 3"))
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1 and "line 11" in done.stderr


def test_the_paper_has_the_numbers_of_the_table():
    from limitlab.cite import references
    from limitlab.gallery import ENTRIES
    from limitlab.report import read_claims
    from limitlab.report.formulas import FORMULAS

    claims = read_claims()[1]
    count = {word: sum(claim.verdict == word for claim in claims) for word in {claim.verdict for claim in claims}}
    text = " ".join((ROOT / "paper.md").read_text().split())
    words = (
        f"Of {len(claims)} claims the table says that {count['holds']} hold as printed, "
        f"{count['holds with correction']} hold with a correction",
        f"{count['does not hold']} do not hold, and {count['']} cannot be tested",
        f"({len(ENTRIES)} entries, {len(FORMULAS)} formulas)",
    )
    assert all(word in text for word in words)
    assert set(re.findall(r"@([a-z]+\d{4}[a-z]+)", text)) <= set(references())
