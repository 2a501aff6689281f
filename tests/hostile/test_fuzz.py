"""Random tables, texts and bytes: a problem that survives every format, or a refusal that can be shown; never more."""

import copy
import functools
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from fuzz_specs import as_part, judge, seeds, words
from hostile_attacks import child
from hypothesis import HealthCheck, given, settings

VERDICTS = ("read", "refused")  # `judge` raises on everything else

# --- random tables and texts ---------------------------------------------------------------------------------

FUZZ = int(os.environ.get("LIMITLAB_FUZZ_EXAMPLES", "80"))
often = settings(
    max_examples=FUZZ,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)


@functools.cache
def vocabulary() -> list[str]:
    return words()


@functools.cache
def tables() -> list[dict[str, Any]]:
    from limitlab.library import LIBRARY
    from limitlab.spec import to_dict

    return [to_dict(make()) for make in LIBRARY.values()]


word = st.deferred(lambda: st.sampled_from(vocabulary()) | st.text(max_size=8))
leaf = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-3, 300).map(lambda k: (-1) ** k * 10 ** abs(k))
    | st.floats()
    | word
    | st.binary(max_size=5)
)
value = st.recursive(leaf, lambda v: st.lists(v, max_size=4) | st.dictionaries(word, v, max_size=4), max_leaves=20)


@st.composite
def changed_tables(draw):
    """A table of the library with a few fields put in, taken out or replaced."""
    table = copy.deepcopy(draw(st.sampled_from(tables())))
    for _ in range(draw(st.integers(1, 3))):
        place = table
        inner = [v for v in table.values() if isinstance(v, dict)]
        if inner and draw(st.booleans()):
            place = draw(st.sampled_from(inner))
        key = draw(st.sampled_from(sorted(place)) | word) if place else draw(word)
        if draw(st.booleans()) and key in place:
            del place[key]
        else:
            part = draw(value | st.sampled_from([v for t in tables() for v in t.values()]))
            place[key] = copy.deepcopy(part)
    return table


@often
@given(value)
def test_random_values_are_read_or_refused(table):
    from limitlab.spec import from_dict

    assert judge(from_dict, table) in VERDICTS


@often
@given(changed_tables())
def test_changed_problems_are_read_or_refused(table):
    import tomli_w

    from limitlab.spec import from_dict, from_json, loads

    assert judge(from_dict, table) in VERDICTS
    try:
        text, toml = json.dumps(table), tomli_w.dumps(table)
    except (TypeError, ValueError):  # bytes, None, or a text that TOML cannot hold
        return
    assert judge(from_json, text) in VERDICTS
    assert judge(loads, toml) in VERDICTS


@functools.cache
def texts() -> list[str]:
    return [seed[1:].decode() for seed in seeds()]


@st.composite
def changed_texts(draw):
    text = draw(st.sampled_from(texts()))
    for _ in range(draw(st.integers(1, 3))):
        at, size = draw(st.integers(0, len(text))), draw(st.integers(0, 6))
        text = text[:at] + draw(word | st.sampled_from(list('[]{}",.=#\n')) | st.text(max_size=3)) + text[at + size :]
    return text


@often
@given(changed_texts() | st.text())
def test_changed_texts_are_read_or_refused(text):
    from limitlab.spec import from_json, loads

    assert judge(loads, text) in VERDICTS
    assert judge(from_json, text) in VERDICTS


pieces = st.lists(
    st.sampled_from(["hermite(", "shifted(", "piecewise(", "(", ")", "[", "]", ", ", "erf", "tanh", "z1", "z2", "z20"])
    | st.sampled_from(["*", "^", "**", "+", "-", " ", "1", "0.5", "1e308", "1e-320", "3", "\n", "\x1b", "nan"])
    | st.floats().map(repr)
    | st.text(max_size=2),
    max_size=12,
).map("".join)


@often
@given(pieces)
def test_random_activations_and_targets_are_read_or_refused(text):
    assert judge(as_part("activation"), text) in VERDICTS
    assert judge(as_part("text"), text) in VERDICTS


# --- ten minutes ---------------------------------------------------------------------------------------------

FIVE_MINUTES = max(300, int(os.environ.get("LIMITLAB_FUZZ_SECONDS", "300")))  # may be lengthened, not shortened


@pytest.mark.slow
def test_five_minutes_of_fuzzing_by_coverage_find_nothing(tmp_path):
    pytest.importorskip("atheris", reason="atheris is made for Linux only")
    command = [sys.executable, str(Path(__file__).parent / "fuzz_specs.py"), str(tmp_path), str(FIVE_MINUTES)]
    run = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=FIVE_MINUTES + 120)
    assert run.returncode == 0, run.stderr[-5000:]
    done = next(line for line in run.stderr.splitlines() if line.startswith("stat::number_of_executed_units"))
    assert int(done.split()[-1]) > 10_000


@pytest.mark.slow
def test_five_minutes_of_random_tables_texts_and_files_find_nothing(tmp_path):
    ends, seed = time.monotonic() + FIVE_MINUTES, 0
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__, "-k", "read_or_refused"]
    while time.monotonic() < ends:
        seed += 1
        run = subprocess.run(
            [*command, f"--hypothesis-seed={seed}"],
            env={**os.environ, "LIMITLAB_FUZZ_EXAMPLES": "1500"},
            capture_output=True,
            text=True,
            timeout=1800,
        )
        assert run.returncode == 0, run.stdout[-5000:]
        child("mutate", tmp_path, seed, 60, timeout=300)
