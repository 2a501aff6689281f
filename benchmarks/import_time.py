"""Time of `import limitlab` against `import jax, diffrax`, each in a fresh interpreter, taken in turn."""

import subprocess
import sys

from timing import Table


def seconds(code: str) -> float:
    timed = f"import time; t = time.perf_counter(); {code}; print(time.perf_counter() - t)"
    return float(subprocess.run([sys.executable, "-c", timed], capture_output=True, text=True, check=True).stdout)


def main() -> None:
    ours, theirs = [], []
    for _ in range(7):
        theirs.append(seconds("import jax, diffrax"))
        ours.append(seconds("import limitlab"))
    ratio = min(ours) / min(theirs)
    table = Table()
    table.add("import limitlab / import jax, diffrax", f"{ratio:.2f}", "< 1.5", ratio < 1.5)
    table.add("seconds: limitlab, jax + diffrax", f"{min(ours):.2f}, {min(theirs):.2f}")


if __name__ == "__main__":
    main()
