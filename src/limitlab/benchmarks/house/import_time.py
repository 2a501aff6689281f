"""Time of `import limitlab`, alone and with its verbs, against `import jax, diffrax`; fresh interpreters, in turn."""

import subprocess
import sys

from limitlab.benchmarks.table import Table, run


def seconds(code: str) -> float:
    timed = f"import time; t = time.perf_counter(); {code}; print(time.perf_counter() - t)"
    return float(subprocess.run([sys.executable, "-c", timed], capture_output=True, text=True, check=True).stdout)


def measure(table: Table) -> None:
    codes = {
        "jax, diffrax": "import jax, diffrax",
        "limitlab": "import limitlab",
        "limitlab with its verbs": "import limitlab as ll; ll.Problem, ll.simulate, ll.predict, ll.compare",
    }
    runs = [{name: seconds(code) for name, code in codes.items()} for _ in range(7)]
    best = {name: min(run[name] for run in runs) for name in codes}
    for name in list(codes)[1:]:
        ratio = best[name] / best["jax, diffrax"]
        table.add(f"import {name} / import jax, diffrax", f"{ratio:.2f}", "< 1.5", ratio < 1.5)
    table.add("seconds: " + "; ".join(codes), "; ".join(f"{best[name]:.2f}" for name in codes))


if __name__ == "__main__":
    run({"all": measure})
