"""The pages of descent, of clouds and of tables: what they ask, and what they make of answers."""

import json

import numpy as np
import pytest
import xarray as xr

pytest.importorskip("nicegui", reason="the explorer needs pip install 'limitlab[explorer]'")

from limitlab.explorer.controls import FieldError
from limitlab.explorer.description import Answers
from limitlab.explorer.pages import pages
from limitlab.explorer.pages.my_data import columns_of

DESCENT, CLOUD, MINE = (pages()[name] for name in ("descent", "cloud", "my_data"))


def cloud_answer():
    t = np.linspace(0, 3, 31)
    r = 0.5 + np.linspace(0, 1, 31)[:, None] + 0.1 * np.linspace(-1, 1, 9)
    weight = np.full(9, 1 / 9)
    data = {"r": (("time", "particle"), r), "weight": ("particle", weight), "risk": ("time", np.exp(-t))}
    return xr.Dataset(data, {"time": t})


def test_the_law_in_a_film_has_area_one_and_moves_by_what_the_flow_moves():
    answers = Answers({"flow": cloud_answer()})
    made = CLOUD.screen(CLOUD.defaults, answers, False, False)
    assert [frame["name"] for frame in made["frames"]] == [str(k) for k in range(31)]
    x = np.array(made["data"][0]["x"])
    means = []
    for frame in (made["frames"][0], made["frames"][-1]):
        share = np.array(frame["data"][0]["y"])
        assert share.sum() * (x[1] - x[0]) == pytest.approx(1.0, abs=0.01)
        means.append((share * x).sum() / share.sum())
    assert means[1] - means[0] == pytest.approx(1.0, abs=0.02)
    assert json.loads(json.dumps(made, allow_nan=False)) == json.loads(json.dumps(made))


def test_units_as_points_stand_at_their_norms():
    answers = Answers({"flow": cloud_answer()})
    made = CLOUD.screen({**CLOUD.defaults, "ring": True}, answers, True, True)
    x, y = (np.array(made["frames"][0]["data"][0][name]) for name in "xy")
    norms = np.hypot(x, y)
    assert norms.min() >= 0.399 and norms.max() <= 0.601 and abs(np.mean(x)) < 0.02


def test_a_film_of_runs_alone_skips_what_blew_up():
    r = np.full((31, 2, 5), 0.7)
    r[20:, 1] = np.nan
    risk = np.where(np.isnan(r[..., 0]), np.nan, 0.5)
    sims = xr.Dataset(
        {"r": (("time", "replica", "student"), r), "risk": (("time", "replica"), risk)}, {"time": np.linspace(0, 3, 31)}
    )
    made = CLOUD.screen(CLOUD.defaults, Answers(runs=sims), False, False)
    assert len(made["frames"]) == 31
    assert sum(v for v in made["frames"][30]["data"][0]["y"]) > 0


def test_what_ended_early_has_a_mark_with_the_word():
    t = np.linspace(0, 3, 31)
    r = np.full((31, 2, 5), 0.7)
    data = {"r": (("time", "replica", "student"), r), "risk": (("time", "replica"), np.full((31, 2), 0.5))}
    data |= {"status": ("replica", ["ok", "diverged"]), "end_time": ("replica", [3.0, 1.25])}
    sims = xr.Dataset(data, {"time": t})
    made = CLOUD.screen(CLOUD.defaults, Answers(runs=sims), False, False)
    assert made["layout"]["shapes"][0]["x0"] == 1.25
    assert made["layout"]["shapes"][0]["label"]["text"] == "diverged from t = 1.25"
    said = [call for call in CLOUD.figure(CLOUD.defaults, Answers(runs=sims)).panels[1].calls if call.name == "axvline"]
    assert [call.options["label"] for call in said] == ["diverged from t = 1.25"]
    well = sims.assign(status=("replica", ["ok", "ok"]))
    assert "shapes" not in CLOUD.screen(CLOUD.defaults, Answers(runs=well), False, False)["layout"]


def test_rules_of_the_descent_page_are_those_of_the_form():
    for rule, kind in (
        ("gd", "GradientDescent"),
        ("sgd", "StochasticGD"),
        ("psgd", "PersistentSGD"),
        ("langevin", "Langevin"),
    ):
        for units in ("1", "2"):
            made = DESCENT.problem({**DESCENT.defaults, "rule": rule, "units": units})
            assert type(made.algorithm).__name__ == kind
            assert float(made.algorithm.learning_rate) == pytest.approx(0.02 * int(units))
            assert made.algorithm.spherical == (units == "1")
    with pytest.raises(FieldError, match="At most 200 steps") as raised:
        DESCENT.problem({**DESCENT.defaults, "units": "3", "horizon": 6.0})
    assert raised.value.key == "horizon"


def test_a_start_that_is_random_is_no_start_with_overlap_zero():
    assert type(DESCENT.problem({**DESCENT.defaults, "overlap": 0.0}).start).__name__ == "RandomStart"


def test_columns_are_read_as_words():
    assert columns_of(b'\xef\xbb\xbfa,"b, c",d\n1,2,3\n') == ["a", "b, c", "d"]
    assert columns_of(b'\n\n"a\nb",c\r\n1,2\n') == ["a\nb", "c"]  # as the reader of tables has them
    assert columns_of("a\u2028b,c\n1,2\n".encode()) == ["a\u2028b", "c"]
    for bad in (b"", b"\n\n", b"alone\n1\n", b"x" * (1 << 17)):
        with pytest.raises(Exception, match="first line"):
            columns_of(bad)


def test_the_target_is_named_or_the_last_and_a_wrong_one_is_told_with_its_neighbours():
    held = {**MINE.defaults, "file": ("t.csv", b"age,price\n1,2\n3,4\n")}
    asked = MINE.asks(held, {})[0].request
    assert asked.arguments["table"]["target"] == "price" and asked.data.startswith(b"age")
    assert MINE.asks({**held, "target": "age"}, {})[0].request.arguments["table"]["target"] == "age"
    with pytest.raises(FieldError, match="price"):
        MINE.asks({**held, "target": "prise"}, {})
    assert "target" not in MINE.asks({**held, "file": ("t.npz", b"PK")}, {})[0].request.arguments["table"]


@pytest.mark.parametrize(
    ("words", "changes"),
    [
        ("LogisticLoss needs labels of classes in Pool.y; got 43 different numbers.", {"model": "ridge"}),
        ("Pool.standardise divides by the s.d. of every column; the columns a are constant.", {"standardise": "no"}),
        ("Values are missing in a. Leave out columns (--drop a) or rows (--drop-rows).", {"missing": "yes"}),
        ("a is text. Use --one-hot for columns of 0 and 1, or leave out: --drop a.", {"text": "yes"}),
        ("The table cannot be read.", None),
    ],
)
def test_what_helps_is_offered_and_no_command_line_is_named(words, changes):
    held = {**MINE.defaults, "missing": "no", "text": "no"}
    assert [dict(cure.changes) for cure in MINE.cures(held, words)] == ([] if changes is None else [changes])
    assert "--" not in MINE.told(words) and "Pool." not in MINE.told(words) and MINE.told(words).endswith(".")
    assert not MINE.cures({**held, **(changes or {})}, words)  # it is so already


def test_a_best_penalty_without_end_is_told():
    """Numbers that are none travel as texts."""
    t = np.array([10, 50])
    data = {"risk": ("samples", [1.2, 1.1]), "fits_risk": (("subset", "fitted_samples"), np.ones((2, 2)))}
    runs = xr.Dataset(data, {"samples": t, "fitted_samples": t}, {"best_penalty": "inf", "rows": 60, "columns": 3})
    facts = dict(MINE.words(MINE.defaults, Answers({"curve": runs}, runs=runs)).facts)
    assert facts["best penalty"] == "as large as can be: the columns do not help"


def test_the_address_never_holds_the_table():
    values = {**MINE.defaults, "file": ("secret.csv", b"age,price\n1,2\n")}
    assert "secret" not in MINE.address(values) and MINE.address(values) == "/my_data"
