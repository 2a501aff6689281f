"""What a new process costs: compiled programs come from a folder that may be copied and stays bounded."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from limitlab._setup import trim

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
