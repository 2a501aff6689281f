"""Numbers are what they were: small runs of every rule, limit and question, as version 8 of the numerics gave them.

What does not draw normal numbers is from before anything moved (29da550). The rest was made anew when these got another
stream, and one-pass runs once more when blocks of steps got one key, after the old numbers had been found again with
the old stream put back.

Most last digits do not depend on how programs are compiled. Those that do come from a program compiled as by users, and
from the BLAS of one kind of processor: other kernels turn last bits into 5e-10 where a stopping rule is met sooner.
"""

import functools
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

from golden.cases import CASES
from golden.check import compare
from golden.make import run
from users import environment

GOLDEN = Path(__file__).parents[1] / "golden" / "golden.npz"
ROUNDING = 1e-13
STEPS = 1e-9  # adaptive steps (rtol 1e-8) turn the last bits of another BLAS into 3e-11, as with NumPy 1.26
JAX_OF_FUNCTIONS = (0, 10)  # traces two of the functions otherwise than 0.5 does: their hashes change, and only theirs
QUICK = (
    "sgd_weights_erf",
    "sgd_overlaps_erf",
    "sgd_weights_trained",
    "gradient_descent",
    "wide_descent",
    "gamp_sign",
    "erm",
    "overlap_ode_erf",
    "matrix_flow",
    "hermite_expansions",
    "staircases",
    "thresholds",
    "hashes",
    "function_hashes",
)
# Moved by 1e-11 by the flags, or by the kernels of a BLAS: stopping rules, small losses.
LAST_DIGITS = ("erm", "matrix_flow", "thresholds", "dmft", "dmft_options", "dmft_resumed", "uniqueness")
KERNELS = {"OPENBLAS_CORETYPE": "Haswell"}


def kept(path: Path) -> dict[str, dict[str, np.ndarray]]:
    """The numbers of every case in a file."""
    cases: dict[str, dict[str, np.ndarray]] = {}
    with np.load(path, allow_pickle=False) as file:
        for key in file.files:
            case, _, name = key.partition("/")
            cases.setdefault(case, {})[name] = file[key]
    return cases


@functools.cache
def golden() -> dict[str, dict[str, np.ndarray]]:
    """The numbers of every case, then."""
    return kept(GOLDEN)


@pytest.fixture(scope="module")
def now(tmp_path_factory):
    """The numbers of a case."""

    def users(name: str) -> dict[str, np.ndarray]:
        out = tmp_path_factory.mktemp("golden") / "now.npz"
        command = [sys.executable, "-m", "golden.make", str(out), name]
        subprocess.run(command, env=environment() | KERNELS, check=True, stdout=subprocess.DEVNULL)
        return kept(out)[name]

    return lambda name: users(name) if name in LAST_DIGITS else run([name], lambda *_: None)[name]


@pytest.mark.more_of(
    "matrix_flow",
    "wide_descent",
    "hermite_expansions",
    "gradient_descent",
    "hashes",
    "sgd_weights_erf",
    "sgd_weights_trained",
    "erm",
)
@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in CASES])
def test_the_numbers_of_a_case_are_what_they_were(name, now):
    if name == "function_hashes" and jax.__version_info__ < JAX_OF_FUNCTIONS:
        pytest.skip("functions are traced otherwise by this JAX")
    worst, words = compare(golden()[name], now(name))
    assert worst <= (STEPS if name == "matrix_flow" and np.__version__ < "2" else ROUNDING), "; ".join(words[:5])


def test_every_case_is_kept():
    assert set(golden()) == set(CASES)
    assert set(LAST_DIGITS) | set(QUICK) <= set(CASES)


def test_a_changed_number_is_seen():
    """One part in 10^12 of the largest entry is beyond rounding; a variable that is gone is too."""
    old = golden()["overlap_ode_erf"]
    moved = {**old, "risk": old["risk"] * (1 + 1e-12)}
    assert compare(old, moved)[0] > ROUNDING
    assert compare(old, {name: values for name, values in old.items() if name != "risk"})[0] == np.inf
