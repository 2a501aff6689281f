"""CPU seconds of `import limitlab`, of its first names, and of commands that compute nothing, against `import jax`.

Fresh interpreters, in turn, the best of seven; Python's own compiled files (.pyc) are written before. The first time,
limitlab's cache is an empty folder; later an answer may be remembered.
"""

import os
import subprocess
import sys
import tempfile

from limitlab.benchmarks.table import Table, run

COMMAND = """
import contextlib, io, sys
sys.argv = ["limitlab", *{words!r}]
from limitlab.cli import main
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    main()
"""
WANTED = {  # what is run -> the most of `import jax` that it may cost
    "import limitlab": 0.3,
    "import limitlab as ll; ll.Gaussian": 1.4,
    "import limitlab as ll; ll.predict, ll.simulate, ll.compare": None,
    "limitlab --help": 1.0,
    "limitlab list": 1.4,
    "limitlab spec perceptron": 1.4,
    "limitlab limits perceptron": 1.4,
    "limitlab cite soft-committee": 1.4,
}
FIRST = ", the first time"
WANTED |= {name + FIRST: most for name, most in WANTED.items() if name.split()[-1] in ("perceptron", "soft-committee")}


def seconds(name: str, cache: str) -> float:
    what = name.removesuffix(FIRST)
    code = COMMAND.format(words=what.split()[1:]) if what.startswith("limitlab ") else what
    timed = f"import time\nbegan = time.process_time()\n{code}\nprint(time.process_time() - began)"
    known = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryDirectory() as fresh:
        ours = {"LIMITLAB_CACHE": fresh} if name.endswith(FIRST) else {}
        done = subprocess.run(
            [sys.executable, "-c", timed],
            env={**known, "PYTHONPYCACHEPREFIX": cache, **ours},
            capture_output=True,
            text=True,
            check=True,
        )
    return float(done.stdout.splitlines()[-1])


def measure(table: Table) -> None:
    names = ["import jax", "import jax, typer", *WANTED]
    with tempfile.TemporaryDirectory() as cache:
        for name in names:
            seconds(name, cache)
        runs = [{name: seconds(name, cache) for name in names} for _ in range(7)]
    best = {name: min(run[name] for run in runs) for name in names}
    for name in names[1:]:
        ratio, most = best[name] / best["import jax"], WANTED.get(name)
        wanted = "" if most is None else f"<= {most}"
        table.add(f"{name} / import jax", f"{ratio:.2f}", wanted, None if most is None else ratio <= most)
    table.add("seconds of import jax", f"{best['import jax']:.2f}")


if __name__ == "__main__":
    run({"all": measure})
