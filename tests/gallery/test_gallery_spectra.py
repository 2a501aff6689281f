"""Gallery entries on structured inputs: really computed, and each check fails when the thing it is about is wrong."""

import pytest
from drawers import both

from limitlab.gallery import ENTRIES, run_entry


def scaled(data, name, **factors):
    """The results with some variables of one of them multiplied."""
    ds = data[name]
    return {**data, name: ds.assign({variable: ds[variable] * factor for variable, factor in factors.items()})}


WRONG = {  # entry -> what is spoiled, and the words of a check that must then fail
    "scaling-laws": [
        (lambda data: scaled(data, "ridge_1", fitted=1.05), "ridge regression, a = 2"),
        (lambda data: scaled(data, "sgd_0", predicted=1.05), "one-pass SGD, a = 1.5, b = 1.5"),
        (lambda data: scaled(data, "frontier", fitted=1.3), "compute to the power -0.2"),
    ],
    "structured-teacher": [
        (lambda data: scaled(data, "aligned_best", generalisation_error=2.0), "learned best"),
        (lambda data: scaled(data, "spread_evenly_best", best_penalty=1.01), "noise/variance"),
        (lambda data: scaled(data, "misaligned_limit_1", m=1.2, q=1.2), "agree with the limit"),
    ],
    "random-features": [
        (lambda data: scaled(data, "limit_2", generalisation_error=1.5), "n/d = 2.25"),
        (lambda data: scaled(data, "curved_limit", generalisation_error=0.5), "beat the limit"),
    ],
}


def check_entry(name):
    entry = ENTRIES[name]
    data = entry.compute(None)
    checks = entry.check(data)
    assert all(check.ok for check in checks), [check for check in checks if not check.ok]
    for spoil, words in WRONG[name]:
        about = [check for check in entry.check(spoil(data)) if words in check.statement]
        assert about and not all(check.ok for check in about), words
    figure = both(entry.figure(data))
    assert len(figure.get_suptitle()) > 20
    assert any(axes.get_legend() is not None for axes in figure.axes)
    assert all(axes.get_xlabel() and axes.get_ylabel() and axes.lines for axes in figure.axes)


def test_scaling_laws():
    check_entry("scaling-laws")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["structured-teacher", "random-features"])
def test_slower_entries(name):
    check_entry(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", WRONG)
def test_the_claim_holds_when_really_computed(name, tmp_path):
    assert run_entry(name, tmp_path).ok
