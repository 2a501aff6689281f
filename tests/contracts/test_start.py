"""What a new process costs: compiled programs come from a folder that may be copied and stays bounded; few imports."""

import json
import os
import shutil
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest

import limitlab
from limitlab._setup import trim
from limitlab.cli import listing, warm
from limitlab.cli.arguments import problem_of
from limitlab.cli.remembered import remembered
from limitlab.errors import InputError
from limitlab.gallery import ENTRIES
from limitlab.library import LIBRARY
from limitlab.macro.predict import LIMITS
from limitlab.problems.activations import ACTIVATIONS
from limitlab.spec.kinds import kind_named, known_kinds
from limitlab.sweep.storage.migrate import migrate

COUNTED = """
import json
from jax import monitoring
count = {"hits": 0, "misses": 0}
def event(name, **_):
    for word in count:
        count[word] += name == f"/jax/compilation_cache/cache_{word}"
monitoring.register_event_listener(event)
"""


def child(code: str, **environment: str) -> str:
    """What a new interpreter prints."""
    known = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}
    known["PYTHONPATH"] = os.pathsep.join(sys.path)
    done = subprocess.run([sys.executable, "-c", code], env=known | environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_cache_folder_that_was_copied_elsewhere_is_hit(tmp_path):
    """Also a small program, which takes no time to compile, is kept; and no key depends on the folder's path."""
    code = f"import limitlab\n{COUNTED}\nimport jax.numpy as jnp\njnp.cumsum(jnp.arange(7.0))\nprint(json.dumps(count))"
    here, there = tmp_path / "here", tmp_path / "some" / "where" / "else"
    first = json.loads(child(code, LIMITLAB_CACHE=str(here)))
    assert first["hits"] == 0
    assert first["misses"] > 0
    shutil.copytree(here, there)
    shutil.rmtree(here)
    again = json.loads(child(code, LIMITLAB_CACHE=str(there)))
    assert again == {"hits": first["misses"], "misses": 0}


def _programs(folder: Path, count: int, now: float) -> None:
    for i in range(count):
        path = folder / f"jit_f-{i}-cache"
        path.write_bytes(b"x" * 100)
        os.utime(path, (now - count + i, now - count + i))


def test_the_cache_forgets_what_was_not_used_for_longest(tmp_path):
    now = time.time() - 1000
    _programs(tmp_path, 10, now)
    (tmp_path / "of the user").write_bytes(b"y" * 10**4)
    os.utime(tmp_path / "jit_f-0-cache", (now + 5, now - 500))  # written first, read last
    trim(tmp_path, most=1000)
    assert len(list(tmp_path.glob("*-cache"))) == 10  # not fuller than it may be
    _programs(tmp_path, 10, now)
    os.utime(tmp_path / "jit_f-0-cache", (now + 5, now - 500))
    trim(tmp_path, most=900)
    assert len(list(tmp_path.glob("*-cache"))) == 10  # looked at a moment ago
    trim(tmp_path, most=900, every=0.0)
    left = {path.name for path in tmp_path.glob("*-cache")}
    assert left == {f"jit_f-{i}-cache" for i in (0, 5, 6, 7, 8, 9)}
    assert (tmp_path / "of the user").exists()


def test_settings_of_jax_do_not_stay_in_the_environment():
    """JAX reads them when it is imported; other programs that the user starts are none of our business."""
    code = """
import os, limitlab as ll
ll.limits(ll.library.perceptron())
import jax
print(jax.config.jax_enable_x64, jax.config.jax_persistent_cache_min_compile_time_secs)
print([name for name in os.environ if name.startswith("JAX_")], os.environ.get("JAX_ENABLE_X64"))
"""
    assert child(code).splitlines() == ["True 0.0", "[] None"]
    assert child(code, JAX_ENABLE_X64="0").splitlines()[1] == "['JAX_ENABLE_X64'] 0"


def test_a_program_that_is_started_before_jax_inherits_no_setting():
    code = """
import os, subprocess, sys, limitlab
code = "import limitlab, jax.numpy as jnp; print(jnp.ones(1).dtype)"
for own in ({"LIMITLAB_X64": "0"}, {}):
    print(subprocess.run([sys.executable, "-c", code], env=os.environ | own, capture_output=True, text=True).stdout)
"""
    assert child(code).split() == ["float32", "float64"]


# --- what is imported --------------------------------------------------------------------------------------------

HEAVY = "jax equinox diffrax xarray scipy pandas dask sklearn matplotlib distributed".split()
OLD_STORE = Path(__file__).parents[1] / "golden" / "stored" / "store"


def loaded(command: str, **environment: str) -> set[str]:
    """What a command of the command line imports of the heavy ones."""
    code = f"""
import contextlib, io, sys
sys.argv = ["limitlab", *{command.split()!r}]
from limitlab.cli import main
with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.suppress(SystemExit):
    main()
assert out.getvalue()
print(" ".join(name for name in {HEAVY} if name in sys.modules))
"""
    return set(child(code, **environment).split())


@pytest.mark.parametrize("command", ["--help", "--version", "list", "status {}", "store ls {}", "store migrate {}"])
def test_a_command_that_computes_nothing_needs_no_jax(tmp_path, command):
    store = shutil.copytree(OLD_STORE, tmp_path / "store")
    if "migrate" not in command:
        migrate(store)
    assert loaded(command.format(store)) == set()


@pytest.mark.parametrize(
    "command",
    [
        "spec perceptron",
        pytest.param("limits perceptron", marks=pytest.mark.more),
        pytest.param("cite soft-committee --limit OverlapODE", marks=pytest.mark.more),
    ],
)
def test_a_command_that_asks_a_problem_needs_jax_once(tmp_path, command):
    assert loaded(command, LIMITLAB_CACHE=str(tmp_path)) == {"jax"}
    assert loaded(command, LIMITLAB_CACHE=str(tmp_path)) == set()


def test_an_answer_is_kept_for_the_same_words_problem_and_package(tmp_path, monkeypatch):
    """Not an error, nor what came with a warning; and nothing at all where the cache is off."""
    file, asked = tmp_path / "my.toml", []
    monkeypatch.setenv("LIMITLAB_CACHE", str(tmp_path / "cache"))

    def ask(text, *words, then=None):
        file.write_text(text)
        before = len(asked)

        def compute():
            asked.append(text)
            return then() if then else {"text": text, "words": " ".join(words)}

        assert remembered([*words], str(file), dict, compute) == {"text": text, "words": " ".join(words)}
        return len(asked) > before

    assert ask("a") and not ask("a")
    assert ask("b") and ask("a", "--limit") and not ask("b") and not ask("a")
    for _ in range(2):
        with pytest.raises(InputError):
            remembered(["spec"], "nobody", str, lambda: problem_of("nobody"))
    with pytest.warns(UserWarning, match="once more"):
        assert ask("w", then=lambda: (warnings.warn("once more", stacklevel=1), {"text": "w", "words": ""})[1])
    assert ask("w") and not ask("w")
    for wrong in (b"{", b"null", b"[]", b'"text"', b'{"text": null}', b"[" * 10**5):  # torn, or of somebody else
        for kept in (tmp_path / "cache" / "answers").iterdir():
            kept.write_bytes(wrong)
        assert ask("a") and not ask("a")
    monkeypatch.setattr("limitlab.cli.remembered._package", lambda: [["other.py", 1, 2]])
    assert ask("a")
    monkeypatch.setattr("limitlab.cli.remembered.MOST", 2)
    assert ask("c") and len(list((tmp_path / "cache" / "answers").iterdir())) == 2
    monkeypatch.setenv("LIMITLAB_CACHE", "off")
    assert ask("a") and ask("a")


def test_a_problem_loads_the_parts_that_it_names():
    """Not every rule there is; a name that is wrong does, for the words that list them."""
    code = """
import sys, limitlab as ll
from limitlab.spec import dumps, from_dict, to_dict
problem = ll.library.perceptron()
dumps(problem)
print("limitlab.algorithms.one_pass.adam" in sys.modules)
try:
    from_dict(to_dict(problem) | {"channel": {"kind": "Sing"}})
except ll.errors.SpecError as error:
    print("Did you mean 'Sign'?" in str(error), "limitlab.algorithms.one_pass.adam" in sys.modules)
"""
    assert child(code).split() == ["False", "True", "True"]


def test_a_kind_that_is_found_alone_is_the_one_in_the_list():
    public = set(dir(limitlab))
    for base, kinds in known_kinds().items():
        for name, kind in kinds.items():
            assert kind_named(base, name) is (kind if name in public else None), name
    parts = {base.__name__: base for base in known_kinds()}
    assert kind_named(parts["AbstractChannel"], "Sign") is not None
    for wrong in ("GAMP", "AbstractChannel", "Problem", "predict", "GAMPEstimator", "CustomChannel", "os", None, 3):
        assert kind_named(parts["AbstractChannel"], wrong) is None


@pytest.mark.parametrize("name", ["Gaussian", "predict", "simulate", "thresholds", "sweep"])
def test_a_first_name_loads_nothing_that_it_does_not_need(name):
    code = f"import sys, limitlab as ll; ll.{name}; print(' '.join(name for name in {HEAVY} if name in sys.modules))"
    assert set(child(code).split()) == {"jax"}


def test_the_package_itself_needs_no_jax_and_sees_to_64_bits_all_the_same():
    code = """
import sys, limitlab
print("jax" in sys.modules)
import jax.numpy as jnp
print(jnp.ones(1).dtype)
"""
    assert child(code).split() == ["False", "float64"]
    assert child(code, LIMITLAB_X64="0").split() == ["False", "float32"]
    later = "import jax, limitlab, jax.numpy as jnp; print(jnp.ones(1).dtype)"
    assert child(later) == "float64"
    assert child(later, LIMITLAB_X64="0") == "float32"


def test_the_list_that_is_read_is_the_list_that_there_is():
    assert [name for name, _, _ in listing.entries()] == list(ENTRIES)
    for name, title, seconds in listing.entries():
        assert (title, seconds) == (ENTRIES[name].title, ENTRIES[name].seconds)
    assert [name for name, _ in listing.problems()] == list(LIBRARY)
    assert [(name, reference) for name, _, reference in listing.limits()] == [
        (name, limit.reference) for name, limit in LIMITS.items()
    ]
    assert all(about for _, about, *_ in [*listing.problems(), *listing.limits()])
    assert tuple(listing.activations()) == ACTIVATIONS


def test_what_was_warmed_is_not_compiled_again(tmp_path):
    command = "import sys; sys.argv = ['limitlab', 'warm', 'thresholds']; from limitlab.cli import main; main()"
    told = child(command, LIMITLAB_CACHE=str(tmp_path))
    assert str(tmp_path) in told.replace("\n", "")
    code = (
        f"import limitlab as ll\n{COUNTED}\nll.thresholds(ll.GaussianPrior(), ll.Modulus())\nprint(json.dumps(count))"
    )
    after = json.loads(child(code, LIMITLAB_CACHE=str(tmp_path)))
    assert after["misses"] == 0
    assert after["hits"] > 0


def test_only_what_there_is_can_be_warmed():
    with pytest.raises(InputError, match=r"nothing called 'threshold' to warm; .* Did you mean 'thresholds'\?"):
        warm.warm(["threshold"])
