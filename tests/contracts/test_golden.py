"""Numbers are what they were at 29da550, before anything moved: small runs of every rule, limit and question.

Most last digits do not depend on how programs are compiled; those that do come from a program compiled as by users.
"""

import functools
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from golden.cases import CASES
from golden.check import compare
from golden.make import run
from users import environment

GOLDEN = Path(__file__).parents[1] / "golden" / "golden.npz"
ROUNDING = 1e-13
# Random streams that changed on purpose (version 2 of the numerics); the laws are tested where the rules are.
CHANGED = dict.fromkeys(
    (
        "sgd_hypercube",
        "sgd_hypercube_relu_noise_batch",
        "layerwise_sgd",
        "layerwise_ridge",
        "sgd_mixture",
        "sgd_mixture_anisotropic",
        "sgd_mixture_noisy",
        "sgd_custom_inputs",
        "laws_of_units",
    ),
    "one step for all inputs: hypercube and labelled inputs draw from other streams",
)
CHANGED |= dict.fromkeys(
    ("dmft", "dmft_options", "dmft_resumed"), "rows of K weigh tangents and regression: no bias of order 1/trajectories"
)
# What is new on purpose: names of points follow the version of the numerics, results carry their clock, a comparison
# looks at every profile in time (its gaps and their errors at each time are what they were).
APART = {
    "sweep_with_a_store": {"names"},
    "saved_and_loaded": {"attrs"},
    "hashes": {"activation", "loss", "schedule", "inputs", "binary"},  # parts of a user's own: now by all their code
    "comparisons": {"max_z", "verdict", "worst", "where", "gap", "stderr", "time", "z"}
    | {f"{name}_z" for name in ("risk", "M", "Q", "a", "m", "q", "V", "mse", "generalisation_error")},
}
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
)
LAST_DIGITS = ("erm", "matrix_flow", "thresholds")  # moved by 1e-11 by the flags: stopping rules, small losses


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

    @functools.cache
    def users() -> dict[str, dict[str, np.ndarray]]:
        out = tmp_path_factory.mktemp("golden") / "now.npz"
        command = [sys.executable, "-m", "golden.make", str(out), *LAST_DIGITS]
        subprocess.run(command, env=environment(), check=True, stdout=subprocess.DEVNULL)
        return kept(out)

    return lambda name: users()[name] if name in LAST_DIGITS else run([name], lambda *_: None)[name]


@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in CASES])
def test_the_numbers_of_a_case_are_what_they_were(name, now):
    if name in CHANGED:
        pytest.skip(CHANGED[name])
    old, new = golden()[name], now(name)
    apart = APART.get(name, ())
    old, new = ({key: x for key, x in one.items() if key.rpartition(".")[2] not in apart} for one in (old, new))
    worst, words = compare(old, new)
    assert worst <= ROUNDING, "; ".join(words[:5])


def test_every_case_is_kept():
    assert set(golden()) == set(CASES)
    assert set(LAST_DIGITS) <= set(QUICK)
    assert set(QUICK) | set(CHANGED) | set(APART) <= set(CASES)


def test_a_changed_number_is_seen():
    """One part in 10^12 of the largest entry is beyond rounding; a variable that is gone is too."""
    old = golden()["overlap_ode_erf"]
    moved = {**old, "risk": old["risk"] * (1 + 1e-12)}
    assert compare(old, moved)[0] > ROUNDING
    assert compare(old, {name: values for name, values in old.items() if name != "risk"})[0] == np.inf
