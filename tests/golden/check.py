"""Run the cases again and compare, all or those that are named:

    PYTHONPATH=tests python -m golden.check GOLDEN.npz [--exact | --rtol 1e-13] [--skip name ...] [name ...]

The difference of two arrays is the largest |new - golden| over the largest |golden|, over finite entries; texts, shapes
and the places of NaN and infinity must be the same. A type that differs (int for float) is said, not counted.
"""

import argparse
import math
import sys
import time
from pathlib import Path

import numpy as np

from golden.cases import CASES
from golden.make import run


def difference(golden: np.ndarray, new: np.ndarray) -> tuple[float, str]:
    """How far apart two arrays are (infinity: not comparable), and a word about it."""
    if golden.shape != new.shape:
        return math.inf, f"shape {golden.shape} became {new.shape}"
    if "U" in (golden.dtype.kind, new.dtype.kind):
        same = golden.dtype.kind == new.dtype.kind and bool(np.all(golden == new))
        return (0.0, "") if same else (math.inf, f"{_short(golden)} became {_short(new)}")
    word = "" if golden.dtype == new.dtype else f"type {golden.dtype} became {new.dtype}"
    a, b = (x.astype(np.result_type(x.dtype, np.float64)) for x in (golden, new))
    finite = np.isfinite(a)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True) or not np.all(np.isfinite(b[finite])):
        return math.inf, "NaN or infinity elsewhere"
    gap = float(np.max(np.abs(a[finite] - b[finite]), initial=0.0))
    if gap == 0:
        return 0.0, word
    return gap / (float(np.max(np.abs(a[finite]), initial=0.0)) or 1.0), word


def bit_equal(golden: np.ndarray, new: np.ndarray) -> bool:
    same_kind = golden.shape == new.shape and golden.dtype.kind == new.dtype.kind
    if same_kind and golden.dtype.kind == "U":
        return bool(np.all(golden == new))
    return same_kind and golden.dtype == new.dtype and golden.tobytes() == new.tobytes()


def _short(array: np.ndarray) -> str:
    text = repr(array.tolist())
    return text if len(text) < 60 else text[:57] + "..."


def compare(golden: dict[str, np.ndarray], new: dict[str, np.ndarray]) -> tuple[float, list[str]]:
    """The largest difference of a case, and what there is to say about it."""
    words = [f"missing: {name}" for name in golden if name not in new]
    words += [f"new: {name}" for name in new if name not in golden]
    worst = math.inf if any(name not in new for name in golden) else 0.0
    shared = [name for name in golden if name in new and not bit_equal(golden[name], new[name])]
    gaps = {name: difference(golden[name], new[name]) for name in shared}
    for name, (gap, word) in sorted(gaps.items(), key=lambda item: -item[1][0]):
        words.append(f"{name}: {gap:.2e}" + (f" ({word})" if word else ""))
        worst = max(worst, gap)
    return worst, words


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("golden", type=Path)
    parser.add_argument("names", nargs="*", metavar="name")
    parser.add_argument("--skip", nargs="+", action="extend", default=[], metavar="name")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--exact", action="store_true", help="every array must be equal bit for bit, and none be new")
    how.add_argument("--rtol", type=float, default=1e-13)
    parser.add_argument("--all", action="store_true", help="name every array that differs, not only the worst five")
    asked = parser.parse_args()
    golden: dict[str, dict[str, np.ndarray]] = {}
    with np.load(asked.golden, allow_pickle=False) as file:
        for key in file.files:
            case, _, name = key.partition("/")
            golden.setdefault(case, {})[name] = file[key]
    names = [name for name in asked.names or list(dict.fromkeys([*golden, *CASES])) if name not in asked.skip]
    unknown = [name for name in (*asked.names, *asked.skip) if name not in golden and name not in CASES]
    if unknown:
        parser.error(f"no such case: {', '.join(unknown)}")
    bad, equal, start = [], 0, time.perf_counter()
    for name in names:
        if name not in CASES or name not in golden:
            print(f"         {name}: {'no longer a case' if name not in CASES else 'not in the golden file'}")
            bad += [name] if name not in CASES else []
            continue
        clock = time.perf_counter()
        try:
            got = run([name], lambda *_: None)[name]
        except Exception as error:  # the other cases are still worth knowing
            print(f"{time.perf_counter() - clock:6.1f} s {name}: RAISED {type(error).__name__}: {error}", flush=True)
            bad.append(name)
            continue
        worst, words = compare(golden[name], got)
        wrong = bool(words) if asked.exact else not worst <= asked.rtol
        bad += [name] if wrong else []
        equal += not words
        verdict = "bit-equal" if not words else f"{'BEYOND TOLERANCE' if wrong else 'within tolerance'}, {worst:.2e}"
        print(f"{time.perf_counter() - clock:6.1f} s {name}: {verdict}", flush=True)
        for word in words if asked.all else words[:5]:
            print(f"             {word}")
        if len(words) > 5 and not asked.all:
            print(f"             and {len(words) - 5} more (--all)")
    limit = "bit for bit" if asked.exact else f"within {asked.rtol:g}"
    print(f"{time.perf_counter() - start:6.1f} s {len(names)} cases, {equal} bit-equal, {len(bad)} not {limit}: {bad}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
