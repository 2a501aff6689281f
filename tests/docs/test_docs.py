"""Every block of code in README.md and docs/ runs as it is written.

Blocks of a page run in their order and share their names, as a reader's would. Long ones (`LONG`, and what needs their
names) are left to the slow run. Lines of the command line are parsed; the cheap ones run too, in an empty folder.
"""

import ast
import re
import shlex
import tomllib
import warnings
from pathlib import Path
from typing import NamedTuple

import matplotlib.pyplot as plt
import pytest
import typer
from typer.testing import CliRunner

from limitlab.cli import app
from limitlab.spec import loads

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]  # deeper ones run when the site is built
FENCE = re.compile(r"^```(\{?[\w-]*\}?)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
DIRECTIVES = {"{toctree}", "{limit-table}", "{rule-table}", "{claim-table}", "{bibliography}"}

# (page, number of the block): those that take more than a few seconds.
LONG = {
    ("README.md", 0),
    ("fixed-data.md", 0),
    ("linear-models.md", 0),
    ("mean-field.md", 0),
    ("sparse-targets.md", 2),
    ("sweeps.md", 0),
    ("sweeps.md", 1),
}
CHEAP = ("list", "spec", "limits", "cite", "staircase")


class Block(NamedTuple):
    page: str
    number: int
    language: str
    text: str
    line: int


def blocks(path: Path) -> list[Block]:
    """All fenced blocks of a page, those of Python numbered among themselves."""
    text, found, counts = path.read_text(encoding="utf-8"), [], {}
    for match in FENCE.finditer(text):
        number = counts[match[1]] = counts.get(match[1], -1) + 1
        found.append(Block(path.name, number, match[1], match[2], text[: match.start()].count("\n") + 2))
    return found


def python_of(path: Path) -> list[Block]:
    return [block for block in blocks(path) if block.language == "python"]


def needs(block: Block) -> set[str]:
    """Names that a block reads, but does not make itself."""
    names = [node for node in ast.walk(ast.parse(block.text)) if isinstance(node, ast.Name)]
    return {node.id for node in names if isinstance(node.ctx, ast.Load)} - makes(block)


def makes(block: Block) -> set[str]:
    made = set()
    for node in ast.walk(ast.parse(block.text)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            made.add(node.id)
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            made |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            made.add(node.name)
    return made


def imports_of(block: Block) -> Block:
    """What is left of a long block: the lines by which later ones know their modules."""
    body = ast.parse(block.text).body
    return block._replace(text="\n".join(ast.unparse(n) for n in body if isinstance(n, (ast.Import, ast.ImportFrom))))


def fast_of(path: Path) -> list[Block]:
    """The blocks that are neither long nor in need of what a long one makes."""
    kept, lost = [], set()
    for block in python_of(path):
        long = (block.page, block.number) in LONG or bool(needs(block) & lost)
        kept.append(imports_of(block) if long else block)
        lost = lost | makes(block) if long else lost - makes(block)
        lost -= makes(kept[-1])
    return kept


def execute(path: Path, which: list[Block]) -> None:
    names: dict = {"__name__": "a_page"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a reader sees them and goes on
        for block in which:
            code = compile("\n" * (block.line - 1) + block.text, str(path), "exec")
            exec(code, names)
    plt.close("all")


@pytest.fixture(autouse=True)
def empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.more_of(
    "mean-field.md",
    "verdict.md",
    "square.md",
    "escape.md",
    "start.md",
    "fixed-data.md",
    "extending.md",
    "spectra.md",
    "your-data.md",
    "linear-models.md",
    "README.md",
)
@pytest.mark.parametrize("path", [page for page in PAGES if fast_of(page)], ids=lambda path: path.name)
def test_code_of_the_pages_runs(path):
    execute(path, fast_of(path))


@pytest.mark.slow
@pytest.mark.parametrize(
    "path", [page for page in PAGES if fast_of(page) != python_of(page)], ids=lambda path: path.name
)
def test_all_code_of_the_pages_runs(path):
    execute(path, python_of(path))


def test_each_door_of_the_start_stands_alone():
    """A reader takes one of them: names that another one imported are not there."""
    page = (ROOT / "docs/start.md").read_text(encoding="utf-8")
    doors = [re.findall(r"```python\n(.*?)```", door, re.DOTALL) for door in page.split("\n## ")]
    codes = ["".join(code) for code in doors if code]
    assert len(codes) == 2
    for code in codes:
        seen = {node.id for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name)}
        used = seen & {"np", "ll", "load_breast_cancer"}
        made = {name.asname or name.name for node in ast.walk(ast.parse(code)) for name in getattr(node, "names", ())}
        assert used <= made


def test_no_page_is_overlooked():
    assert {page for page, _ in LONG} <= {path.name for path in PAGES}
    assert {block.language for path in PAGES for block in blocks(path)} <= {"", "python", "toml", "bash", *DIRECTIVES}
    assert all(re.search(r"^```", path.read_text(), re.MULTILINE) is None or blocks(path) for path in PAGES)
    assert sum(len(python_of(path)) for path in PAGES) > 15


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_problem_files_of_the_pages_can_be_read(path):
    for block in blocks(path):
        if block.language == "toml":
            assert tomllib.loads(block.text)
            loads(block.text)


# --- the command line ----------------------------------------------------------------------------------------------


def commands_of(path: Path) -> list[tuple[list[str], str | None]]:
    """(words, file that takes the output) of every line with a command; what follows two blanks is a comment."""
    found = []
    for block in blocks(path):
        if block.language in ("", "bash"):
            for line in block.text.replace("\\\n", " ").splitlines():
                for part in line.split(" && "):
                    if part.startswith("limitlab "):
                        words = shlex.split(re.split(r" {2,}", part)[0])[1:]
                        out = words[words.index(">") + 1] if ">" in words else None
                        found.append((words[: words.index(">")] if out else words, out))
    return found


def parse(words: list[str]) -> None:
    """Raise unless the program knows the command and all its options."""
    group = typer.main.get_command(app)
    context = group.make_context("limitlab", list(words), resilient_parsing=True)
    while hasattr(group, "commands"):
        name, *words = words
        group = group.commands[name]
        context = group.make_context(name, list(words), parent=context) if not hasattr(group, "commands") else context


@pytest.mark.parametrize("path", [page for page in PAGES if commands_of(page)], ids=lambda path: path.name)
def test_commands_of_the_pages_are_known(path):
    for words, _ in commands_of(path):
        parse(words)


def run(words: list[str], out: str | None) -> None:
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, f"limitlab {' '.join(words)}\n{done.output}"
    if out is not None:
        Path(out).write_text(done.stdout)


def test_cheap_commands_of_the_readme_run():
    for words, out in commands_of(ROOT / "README.md"):
        if words[0] in CHEAP:
            run(words, out)


@pytest.mark.slow
def test_all_commands_of_the_readme_run():
    for words, out in commands_of(ROOT / "README.md"):
        if words[0] != "run":  # entries of the gallery have tests of their own
            run(words, out)


def test_a_command_that_does_not_exist_is_seen():
    for words in (["simulat", "x"], ["simulate", "x", "--dd", "3"], ["store", "lss", "runs"]):
        with pytest.raises(Exception, match=r"simulat|dd|lss"):
            parse(words)
