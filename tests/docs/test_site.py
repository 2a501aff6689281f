"""The documentation site: pages made from the package, skeletons that pass, examples that run, no outside host."""

import ast
import doctest
import functools
import http.server
import importlib
import importlib.util
import inspect
import os
import pkgutil
import re
import shutil
import subprocess
import sys
import threading
import time
import urllib.parse
from pathlib import Path

import pytest

import limitlab as ll
from limitlab import errors, testing
from limitlab.gallery import ENTRIES
from limitlab.macro.predict import LIMITS
from limitlab.problems.base import AbstractAlgorithm
from limitlab.spec.kinds import known_kinds

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
SKELETONS = sorted((DOCS / "extending" / "skeletons").glob("*.py"))
NOTEBOOKS = sorted(path for path in (DOCS / "notebooks").glob("*.md") if path.stem != "index")
CELLS = [path for path in sorted(DOCS.glob("*/*.md")) if "{code-cell}" in path.read_text(encoding="utf-8")]
CELL = re.compile(r"^```\{code-cell\}[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ROOMS = ("limitlab", "limitlab.analysis", "limitlab.library", "limitlab.errors", "limitlab.testing")


def name(path: Path) -> str:
    return path.stem


# --- classes tell what their pages show ------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", LIMITS)
def test_every_limit_has_a_page_and_says_what_the_table_shows(limit):
    cls, page = LIMITS[limit], (DOCS / "limits" / f"{limit.lower()}.md").read_text(encoding="utf-8")
    assert all((cls.grows, cls.stays, cls.needs, cls.cost, cls.rate, cls.reference))
    assert f"{{limit-facts}} {limit}" in page
    for heading in ("## Where it comes from", "## Equations", "## Code and figure", "## How fast"):
        assert heading in page


@pytest.mark.parametrize("rule", known_kinds()[AbstractAlgorithm])
def test_every_rule_has_a_page_and_says_which_samples_it_takes(rule):
    cls, page = known_kinds()[AbstractAlgorithm][rule], DOCS / "rules" / f"{rule.lower()}.md"
    assert cls.takes
    assert "{code-cell}" in page.read_text(encoding="utf-8")


def test_every_error_names_its_page():
    for word in errors.__all__:
        kind = getattr(errors, word)
        assert len(inspect.getdoc(kind).split("\n\n")) > 1, f"{word} says no more than its first line"
        if issubclass(kind, errors.LimitlabError):
            assert kind("a message").__notes__ == [f"docs: errors/{word}"]
            assert str(kind("a message")) == "a message"


def test_an_error_of_ones_own_names_the_page_of_its_base():
    class Mine(errors.InputError):
        pass

    assert Mine("x").__notes__ == ["docs: errors/InputError"]


# --- names and examples ----------------------------------------------------------------------------------------------


def test_every_public_name_is_documented():
    bare = []
    for room in ROOMS:
        home = importlib.import_module(room)
        for word in home.__all__:
            value = getattr(home, word)
            if callable(value) and not (value.__doc__ or "").strip():
                bare.append(f"{room}.{word}")
    assert not bare


SLOW_EXAMPLES = {"limitlab.gallery", "limitlab.analysis.linear.thresholds", "limitlab.sweep.refining.refine"}


def with_examples() -> list[str]:
    """Modules whose source has an example; found as text, so that nothing is imported for it."""
    found = []
    for info in pkgutil.walk_packages(ll.__path__, "limitlab."):
        spec = importlib.util.find_spec(info.name)
        if spec is not None and spec.origin and ">>> " in Path(spec.origin).read_text(encoding="utf-8"):
            found.append(info.name)
    return found


def run_examples(module: str) -> doctest.TestResults:
    return doctest.testmod(importlib.import_module(module), optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)


@pytest.mark.parametrize(
    "module",
    [pytest.param(m, marks=pytest.mark.slow) if m in SLOW_EXAMPLES else m for m in with_examples()],
)
def test_examples_of_docstrings_run(module, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = run_examples(module)
    assert done.attempted and not done.failed


def test_a_wrong_example_is_seen():
    def wrong():
        """
        >>> 1 + 1
        3
        """

    runner = doctest.DocTestRunner(verbose=False)
    found = doctest.DocTestFinder().find(wrong, "wrong", globs={})
    assert runner.run(found[0], out=lambda text: None).failed == 1


# --- skeletons, notebooks, errata ------------------------------------------------------------------------------------


def loaded(path: Path):
    spec = importlib.util.spec_from_file_location(f"skeleton_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # fields of a class are looked up there
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("path", SKELETONS, ids=name)
def test_skeletons_pass_their_contracts(path):
    loaded(path).check()


def test_every_skeleton_has_a_page_and_every_checker_a_skeleton():
    for path in SKELETONS:
        assert f"skeletons/{path.name}" in (DOCS / "extending" / f"{path.stem}.md").read_text(encoding="utf-8")
    text = "".join(path.read_text(encoding="utf-8") for path in SKELETONS)
    assert all(f"testing.{word}" in text for word in testing.__all__ if word.startswith("check_"))


def test_a_skeleton_with_a_mistake_is_refused():
    module = loaded(DOCS / "extending" / "skeletons" / "loss.py")

    class Wrong(module.LogCosh):
        def gradient(self, y, z):
            first, second = super().gradient(y, z)
            return 2 * first, second

    with pytest.raises(testing.ContractError, match="not the derivative"):
        testing.check_loss(Wrong())


def cells(path: Path) -> list[str]:
    return CELL.findall(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", CELLS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_cells_parse_and_use_public_names_only(path):
    allowed = {"limitlab", "numpy", "matplotlib.pyplot", "sklearn.datasets", "dataclasses"}
    for cell in cells(path):
        for node in ast.walk(ast.parse(cell)):
            if isinstance(node, ast.Import):
                assert {alias.name for alias in node.names} <= allowed
            if isinstance(node, ast.ImportFrom):
                assert node.module in allowed
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "ll":
                assert node.attr in ll.__all__, f"ll.{node.attr}"


def test_there_are_four_notebooks():
    assert [path.stem for path in NOTEBOOKS] == ["descent-and-dmft", "how-few-samples", "one-pass-sgd", "your-data"]


@pytest.mark.slow
@pytest.mark.parametrize("path", CELLS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_cells_run(path, tmp_path, monkeypatch):
    """Notebooks, and the pages of limits and rules: each within three minutes of a processor."""
    import matplotlib.pyplot as plt

    monkeypatch.chdir(tmp_path)
    began, names = time.process_time(), {"__name__": "a_notebook"}
    for cell in cells(path):
        exec(compile(cell, str(path), "exec"), names)
    plt.close("all")
    assert time.process_time() - began < 180


def test_notebooks_are_among_the_pages_whose_cells_run():
    assert set(NOTEBOOKS) < set(CELLS)


NAMED = re.compile(r"`([\w/]+\.py)::(test_\w+)`|`…(\w+)`")


def missing_tests(text: str) -> list[str]:
    """Tests that a page names and that are not there; … stands for the file and the beginning of the one before."""
    lost, file = [], None
    for match in NAMED.finditer(text):
        file = match[1] or file
        source = (ROOT / "tests" / file).read_text(encoding="utf-8") if (ROOT / "tests" / file).is_file() else ""
        if not re.search(rf"def \w*{match[2] or match[3]}\(", source):
            lost.append(match[0])
    return lost


def test_the_checks_that_the_errata_name_exist():
    text = (DOCS / "errata.md").read_text(encoding="utf-8")
    assert len(NAMED.findall(text)) > 25
    assert missing_tests(text) == []
    runs = re.findall(r"`limitlab run ([\w-]+)`", text)
    assert runs and set(runs) <= set(ENTRIES)
    assert missing_tests("`square/test_papers.py::test_that_is_not_there`") != []


# --- the gallery -----------------------------------------------------------------------------------------------------

VERDICT = """A title

Claim: It climbs.

[ok] it is climbed
    t_1 = 1 *
[FAILED] it is climbed twice
    t = 2
[not run at quick size] it is climbed at full size

THE CLAIM FAILS: 1 of 2 checks.
A quick run: D = 10, full 100.
landscape, 1.0 s, limitlab 0.2.0
"""


@pytest.fixture
def made_pages(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS / "_ext"))
    return importlib.import_module("made_pages")


@pytest.mark.parametrize("place", ["landscape", "entries/landscape", "report/entries/landscape"])
def test_pages_of_the_gallery_show_runs_and_those_of_a_report(made_pages, place, tmp_path, monkeypatch):
    monkeypatch.setenv("LIMITLAB_RUNS", str(tmp_path))
    assert made_pages.runs_of(DOCS) == {}
    text, copies, holds = made_pages._entry_page("landscape", None)
    assert "was not run for this site" in text and not copies and holds is None
    folder = tmp_path / place
    folder.mkdir(parents=True)
    for name, content in (("figure.png", "x"), ("result.nc", "y"), ("verdict.txt", VERDICT)):
        (folder / name).write_text(content)
    assert made_pages.runs_of(DOCS) == {"landscape": folder}
    text, copies, holds = made_pages._entry_page("landscape", folder)
    assert holds is False
    assert copies == {f"gallery/landscape/{name}": folder / name for name in ("figure.png", "result.nc")}
    for words in (
        ".. image:: landscape/figure.png",
        ":download:`result.nc <landscape/result.nc>`",
        "   * - :holds:`holds`\n     - it is climbed\n\n       *t\\_1 = 1 \\**\n",
        "   * - :fails:`fails`\n     - it is climbed twice",
        "   * - not run at quick size\n     - it is climbed at full size\n\nTHE CLAIM FAILS: 1 of 2 checks.\n",
        "A quick run: D = 10, full 100.\n",
    ):
        assert words in text


# --- the built site --------------------------------------------------------------------------------------------------


def build(target: Path) -> subprocess.CompletedProcess:
    words = [sys.executable, "-m", "sphinx", "-W", "-q", str(DOCS), str(target)]
    return subprocess.run(words, capture_output=True, text=True)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, built with warnings as errors; LIMITLAB_SITE names one that is there already."""
    if os.environ.get("LIMITLAB_SITE"):
        return Path(os.environ["LIMITLAB_SITE"])
    pytest.importorskip("sphinx")
    target = tmp_path_factory.mktemp("site") / "html"
    done = build(target)
    assert done.returncode == 0, done.stderr[-4000:]
    return target


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *words):
        pass


@pytest.fixture(scope="module")
def address(site):
    handler = functools.partial(Quiet, directory=str(site))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api")
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("there is no chromium on the path")
    with playwright.sync_playwright() as play:
        browser = play.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.mark.slow
def test_every_public_name_has_a_page(site):
    sys.path.insert(0, str(DOCS / "_ext"))
    try:
        pages = importlib.import_module("made_pages").public_pages()
    finally:
        sys.path.remove(str(DOCS / "_ext"))
    rooms = {room: importlib.import_module(room) for room in ROOMS}
    wanted = {
        f"{room}.{word}"
        for room, home in rooms.items()
        for word in home.__all__
        if not inspect.ismodule(getattr(home, word))
    }
    assert wanted <= set(pages)
    assert all((site / f"{page}.html").is_file() for page in pages.values())
    for entry in ENTRIES:
        assert ENTRIES[entry].title in (site / "gallery" / f"{entry}.html").read_text(encoding="utf-8").replace(
            "&amp;", "&"
        )
    formulas = (site / "limits" / "overlapode.html").read_text(encoding="utf-8")
    assert formulas.count("<math") > 5


@pytest.mark.slow
def test_no_page_asks_an_outside_host_and_no_page_is_wider_than_a_telephone(site, address, browser):
    asked, broken, wide = set(), set(), []
    page = browser.new_page(viewport={"width": 390, "height": 844})
    page.on("request", lambda request: asked.add(urllib.parse.urlsplit(request.url).netloc))
    page.on("requestfailed", lambda request: broken.add(request.url))
    page.on("response", lambda answer: broken.add(answer.url) if answer.status >= 400 else None)
    for path in sorted(site.rglob("*.html")):
        if "_static" in path.parts:
            continue
        page.goto(f"{address}/{path.relative_to(site).as_posix()}", wait_until="load")
        if page.evaluate("document.documentElement.scrollWidth") > 392:
            wide.append(path.relative_to(site).as_posix())
    assert asked == {urllib.parse.urlsplit(address).netloc}
    assert not broken
    assert not wide


@pytest.mark.slow
def test_subscripts_stand_below_the_line(address, browser):
    """Also where the system has no font for mathematics: the control is the page without our script."""
    how = """() => [...document.querySelectorAll("div.formula msub")].map((one) => {
        const [base, low] = [...one.children].map((part) => part.getBoundingClientRect());
        return (low.bottom - base.bottom) / base.height; })"""
    page = browser.new_page()
    page.goto(f"{address}/limits/overlapode.html", wait_until="load")
    with_script = page.evaluate(how)
    assert len(with_script) > 5 and min(with_script) > 0.1
    plain = page.evaluate("document.documentElement.classList.contains('plain-formulas')")
    page.evaluate("document.documentElement.classList.remove('plain-formulas')")
    assert (min(page.evaluate(how)) < 0.1) == plain


@pytest.mark.slow
def test_search_finds_a_page(address, browser):
    page = browser.new_page()
    page.goto(f"{address}/search.html?q=persistence")
    page.wait_for_selector("#search-results li a[href*='rules/persistentsgd']", timeout=20000)  # they come one by one
    page.goto(f"{address}/search.html?q=qwertzuiop")
    page.wait_for_selector("#search-results p", timeout=20000)
    page.wait_for_timeout(2000)
    assert not page.query_selector_all("#search-results li a")


@pytest.mark.slow
def test_a_page_that_warns_does_not_build(tmp_path):
    pytest.importorskip("sphinx")
    (tmp_path / "conf.py").write_text(
        f"import sys\nsys.path.insert(0, {str(DOCS / '_ext')!r})\nextensions = ['myst_parser', 'mathml']\n"
        "myst_enable_extensions = ['dollarmath']\nhtml_math_renderer = 'mathml'\n"
    )
    words = [sys.executable, "-m", "sphinx", "-W", "-q", str(tmp_path), str(tmp_path / "out")]
    (tmp_path / "index.md").write_text("# A page\n\n$\\alpha$\n")
    assert subprocess.run(words, capture_output=True).returncode == 0
    (tmp_path / "index.md").write_text("# A page\n\n$\\nosuchcommand{x}$ [a link](nowhere.md)\n")
    assert subprocess.run(words, capture_output=True).returncode != 0
