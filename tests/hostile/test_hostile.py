"""Files of a stranger: refused in words, quickly and within bounded memory; nothing in them is ever run."""

import ast
import json
from pathlib import Path

import numpy as np
import pytest
from hostile_attacks import MEGABYTES, SECONDS, child, good_result

SOURCE = Path(__file__).parents[2] / "src" / "limitlab"


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory) -> list[tuple[str, str, str, float, float]]:
    output = child("attack", tmp_path_factory.mktemp("hostile"), timeout=600)
    return [tuple(json.loads(line)) for line in output.splitlines()]


@pytest.mark.parametrize(("attack", "least"), [("TOML", 45), ("JSON", 10), ("dict", 10), ("file", 15), ("result", 50)])
def test_every_attack_is_refused_quickly_in_words_and_in_bounded_memory(outcomes, attack, least):
    mine = [outcome for outcome in outcomes if outcome[0].startswith(f"{attack}: ")]
    assert len(mine) >= least
    refusal = "ResultFileError" if attack == "result" else "SpecError"
    for name, ended, message, took, rose in mine:
        assert ended == refusal, (name, ended, message)
        assert took < SECONDS and rose < MEGABYTES, (name, took, rose)
        assert 20 < len(message) < 2000 and all(c.isprintable() or c == "\n" for c in message), (name, ascii(message))


def test_changed_bytes_never_crash_a_reader(tmp_path):
    counts = json.loads(child("mutate", tmp_path, 0, 8, timeout=400).splitlines()[-1])
    assert counts["refused"] > 5 and sum(counts.values()) > 10


def test_a_large_result_is_read_and_one_beyond_memory_is_not(tmp_path, monkeypatch):
    import limitlab as ll
    from limitlab.results import files as store
    from limitlab.results.schema import dataset

    problem = ll.Problem(teacher=ll.Committee(width=2), student=ll.Committee(width=2))
    risk = np.random.default_rng(0).normal(size=(200, 20_000))  # 32 MB
    big = dataset(problem, {"risk": (("time", "replica"), risk)}, {"time": np.arange(200.0)}, method="test")
    path = store.save(big, tmp_path / "a.nc")
    assert store.load(path).identical(big)
    monkeypatch.setattr(store, "available_memory", lambda: 1e7)
    with pytest.raises(ll.errors.ResultFileError, match=r"needs 0\.03\d+ GB of memory and 0\.01 GB are free"):
        store.load(path)


def test_what_could_not_be_read_back_is_not_written(tmp_path):
    import limitlab as ll
    from limitlab.results.files import save

    with pytest.raises(ll.errors.InputError, match="5000000"):
        save(good_result(listed=[0.125] * 800_000), tmp_path / "a.nc")
    with pytest.raises(ll.errors.InputError, match="cannot be saved"):
        save(good_result().assign_coords({"\x1b[31m": 1.0}), tmp_path / "a.nc")
    with pytest.raises(ll.errors.SpecError, match="at most 1000000"):
        ll.save_spec(ll.Problem(teacher=ll.SparseTarget("z1" + "+z1" * 400_000)), tmp_path / "a.toml")
    assert not list(tmp_path.iterdir())


# --- nothing is run ------------------------------------------------------------------------------------------

FORBIDDEN_CALLS = {"eval", "exec", "compile", "__import__", "literal_eval", "load_module", "exec_module", "run_path"}
FORBIDDEN_MODULES = {"pickle", "_pickle", "marshal", "shelve", "cloudpickle", "joblib", "dill", "yaml", "runpy", "code"}
# Modules that import others by name, and from where the names come.
IMPORTERS = {
    "_lazy.py": "the imports for type checkers in our own __init__.py files",
    "spec/kinds.py": "the modules found in limitlab.problems and limitlab.algorithms",
    "gallery/__init__.py": "a table of literal names",
    "_setup.py": "a literal name: where JAX before 0.8 keeps its 64-bit context",
    "spec/describe.py": "what a user's own function imports, who is about to call it",
}


LITERALS = {"cli/listing.py": "our own source files, of which it lists entries and limits without importing them"}


def faults(text: str, file: str) -> list[str]:
    """Every place of a source text that could run what it reads."""
    found = []
    for node in ast.walk(ast.parse(text)):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        found += [f"{file}:{node.lineno} imports {n}" for n in names if n.split(".")[0] in FORBIDDEN_MODULES]
        if isinstance(node, ast.Call):
            called = getattr(node.func, "id", getattr(node.func, "attr", ""))
            of = getattr(getattr(node.func, "value", None), "id", "")
            lowered = called == "compile" and not node.args and not node.keywords  # a program of JAX, not a text
            known = lowered or (called == "literal_eval" and file in LITERALS)
            if called in FORBIDDEN_CALLS and not known and (called, of) not in (("compile", "re"), ("compile", "jax")):
                found.append(f"{file}:{node.lineno} calls {called}")
            if called == "import_module" and file not in IMPORTERS:
                found.append(f"{file}:{node.lineno} imports a module by name")
            for keyword in node.keywords:
                if keyword.arg == "allow_pickle" and getattr(keyword.value, "value", True) is not False:
                    found.append(f"{file}:{node.lineno} allows pickle")
            if called == "load" and of in ("np", "numpy") and "allow_pickle" not in {k.arg for k in node.keywords}:
                found.append(f"{file}:{node.lineno} loads without allow_pickle=False")
    return found


def test_no_source_file_can_run_what_it_reads():
    files = sorted(SOURCE.rglob("*.py"))
    assert len(files) > 100
    found = [fault for file in files for fault in faults(file.read_text(), str(file.relative_to(SOURCE)))]
    assert found == []


@pytest.mark.parametrize(
    "line",
    [
        "eval(text)",
        "builtins.exec(text)",
        "compile(text, '', 'exec')",
        "__import__(name)",
        "import pickle",
        "from joblib import load",
        "import yaml",
        "importlib.import_module(name)",
        "np.load(path, allow_pickle=True)",
        "np.load(path)",
        "ast.literal_eval(text)",
    ],
)
def test_the_search_finds_what_it_looks_for(line):
    assert faults("import re\nx = re.compile('a')\n", "spec/read.py") == []
    assert len(faults(f"def f():\n    {line}\n", "spec/read.py")) == 1
