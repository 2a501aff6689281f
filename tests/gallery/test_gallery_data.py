"""Gallery entries on data of scikit-learn: a light one really computed, and checks that fail on wrong numbers."""

import numpy as np
import pytest
from drawers import both

from limitlab.gallery import ENTRIES, run_entry
from limitlab.gallery.data import heavy_tails, my_data


def scaled(data, name, **factors):
    ds = data[name]
    return {**data, name: ds.assign({variable: ds[variable] * factor for variable, factor in factors.items()})}


WRONG = {
    "heavy-tails": [
        (lambda data: scaled(data, "heavy_theory", risk=1.3), "heavy tails: rows agree"),
        (lambda data: scaled(data, "light_theory", risk=1.3), "light tails: rows agree"),
        (lambda data: scaled(data, "light_theory", pool_risk=1.3), "light tails: the pool formula holds"),
    ],
    "my-data": [
        (lambda data: scaled(data, "theory", risk=1.2), "test loss within 3 %"),
        (lambda data: scaled(data, "theory", generalisation_error=1.6), "class error within 0.01"),
        (lambda data: {**data, "penalties": data["penalties"].assign_attrs(best=1.0)}, "best penalty"),
    ],
}


def examine(name, data):
    entry = ENTRIES[name]
    assert all(check.ok for check in entry.check(data)), entry.check(data)
    for spoil, words in WRONG[name]:
        about = [check for check in entry.check(spoil(data)) if words in check.statement]
        assert about and not all(check.ok for check in about), words
    figure = both(entry.figure(data))
    assert all(axes.get_xlabel() and axes.get_ylabel() and axes.lines for axes in figure.axes)


def test_heavy_tails(monkeypatch):
    monkeypatch.setattr(heavy_tails, "NS", [70, 150, 400])
    examine("heavy-tails", heavy_tails.compute(None))


def test_my_data(monkeypatch):
    monkeypatch.setattr(my_data, "NS", [60, 120, 300])
    monkeypatch.setattr(my_data, "PENALTIES", [0.003, 0.03, 0.3])
    examine("my-data", my_data.compute(None))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["double-descent", "my-data", "heavy-tails", "real-data-report"])
def test_the_claims_hold(name, tmp_path):
    verdict = run_entry(name, tmp_path)
    assert verdict.ok, verdict.text
    assert np.all([path.stat().st_size > 0 for path in tmp_path.iterdir()])
