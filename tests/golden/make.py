"""Run the cases and keep what they give: PYTHONPATH=tests python -m golden.make OUT.npz [name ...]"""

import argparse
import time
import warnings
from pathlib import Path

import numpy as np

from golden.cases import CASES


def run(names, tell=print):
    """{case: {name: array}}, one line a case."""
    results = {}
    for name in names:
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results[name] = CASES[name]()
        tell(name, results[name], time.perf_counter() - start)
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("names", nargs="*", metavar="name", help=", ".join(CASES))
    asked = parser.parse_args()
    total = time.perf_counter()
    results = run(
        asked.names or list(CASES), lambda name, got, s: print(f"{s:7.2f} s  {len(got):4d} arrays  {name}", flush=True)
    )
    arrays = {f"{case}/{name}": array for case, got in results.items() for name, array in got.items()}
    with asked.out.open("wb") as file:  # a name without .npz is kept
        np.savez_compressed(file, **arrays)
    print(f"{time.perf_counter() - total:7.2f} s  {len(arrays)} arrays of {len(results)} cases in {asked.out}")


if __name__ == "__main__":
    main()
