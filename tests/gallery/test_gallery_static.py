"""Gallery entries on fixed data sets: really computed, and each check fails when the thing it is about is wrong."""

import pytest
from drawers import both

from limitlab.gallery import ENTRIES, run_entry
from limitlab.gallery.linear import landscape


def scaled(data, name, **factors):
    """The results with some variables of one of them multiplied."""
    ds = data[name]
    return {**data, name: ds.assign({variable: ds[variable] * factor for variable, factor in factors.items()})}


# entry -> what is spoiled, and the words of a check that must then fail
WRONG = {
    "perceptron": [
        (lambda data: scaled(data, "bayes", generalisation_error=1.01), "bayes: alpha times"),
        (lambda data: scaled(data, "logistic", generalisation_error=1.01), "within 0.1 %"),
        (lambda data: scaled(data, "ridge", generalisation_error=0.9), "nothing beats"),
        (lambda data: scaled(data, "hinge_limit_1", m=1.1, q=1.1), "hinge at alpha = 2"),
        (lambda data: scaled(data, "evolution_0", m=1.1, q=1.1), "GAMP at alpha = 0.5"),
    ],
    "phase-retrieval": [
        (lambda data: scaled(data, "path", m=1.05, q=1.05), "follows state evolution"),
        (lambda data: scaled(data, "amp", m_fixed=0.5), "learns nothing below"),
        (lambda data: scaled(data, "gamp_3", mse=1e9), "alpha = 1.8"),
    ],
    "committee-specialisation": [
        (lambda data: scaled(data, "zero", different=0.0), "continuous"),
        (lambda data: {**data, "coin": data["zero"]}, "with a coin nothing"),
        (lambda data: scaled(data, "wide", majority=1.1), "0.571 K^2"),
        (lambda data: scaled(data, "wide", sum=data["wide"].width.values ** 0.5), "like K^2"),
        (lambda data: scaled(data, "three", apart=0.2), "first order"),
        (lambda data: scaled(data, "three", free_entropy=-1.0), "first order"),
        (lambda data: scaled(data, "evolution_0", M=1.2), "follows state evolution"),
        (lambda data: scaled(data, "gamp_2", M=0.9), "above the threshold only"),
    ],
    "grand-staircase": [
        (lambda data: scaled(data, "links", first=1.01), "0.57517"),
        (lambda data: scaled(data, "links", last=1.01), "then z2 and z3"),
        (lambda data: scaled(data, "noise", last=-1.0), "noise makes"),
        (lambda data: scaled(data, "evolution", M=2.0), "as far as state evolution says"),
        (lambda data: {**data, "between": data["above"]}, "the others are forgotten"),
        (lambda data: scaled(data, "above", M_singular_values=0.1), "all three are found"),
        (lambda data: {**data, "above": data["between"]}, "all three are found"),
    ],
    "hard-phase": [
        (lambda data: scaled(data, "sparse", information=1.01), "as many samples"),
        (lambda data: scaled(data, "sparse", algorithmic=1.001), "0.58925"),
        (lambda data: scaled(data, "binary", mse_amp=0.5), "never better"),
    ],
    "binary-perceptron": [
        (lambda data: scaled(data, "bayes", m=0.9), "jumps to 1"),
        (lambda data: scaled(data, "amp", m_fixed=1.2), "far from optimal"),
        (lambda data: scaled(data, "evolution_1", m=1.05, q=1.05), "alpha = 1 follows"),
    ],
    "landscape": [
        (lambda data: {**data, "hard": data["easy"]}, "hard: 2 maxima"),
        (lambda data: scaled(data, "impossible_iterations", m=0.5), "impossible: message passing climbs"),
    ],
}


def check_entry(name, data):
    entry = ENTRIES[name]
    checks = entry.check(data)
    assert all(check.ok for check in checks), [check for check in checks if not check.ok]
    for spoil, words in WRONG[name]:
        about = [check for check in entry.check(spoil(data)) if words in check.statement]
        assert about and not all(check.ok for check in about), words
    figure = both(entry.figure(data))
    assert len(figure.get_suptitle()) > 20
    assert any(axes.get_legend() is not None for axes in figure.axes)
    assert all(axes.get_xlabel() and axes.get_ylabel() and axes.lines for axes in figure.axes)


def test_landscape():
    check_entry("landscape", landscape.compute(None))


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in WRONG if name != "landscape"])
def test_the_claim_holds_and_could_fail(name):
    check_entry(name, ENTRIES[name].compute(None))


@pytest.mark.slow
def test_an_entry_writes_its_folder(tmp_path):
    verdict = run_entry("landscape", tmp_path)
    assert verdict.ok
    assert {"figure.png", "verdict.txt", "hard.nc"} <= {path.name for path in tmp_path.iterdir()}
