"""One Dataset for simulations and predictions: stamped, labelled, and nothing silent in it."""

import json
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

import limitlab as ll
from limitlab.errors import InputError
from limitlab.results.schema import (
    ATTRIBUTES,
    RESERVED_DIMENSIONS,
    SCHEMA_VERSION,
    STATUSES,
    VARIABLES,
    dataset,
    declared_in,
    overlap_dataset,
    pairs_of,
    validate,
)
from limitlab.spec import from_json, spec_hash
from limitlab.states.overlaps import Overlaps
from limitlab.states.view import Variable, assembled

PROBLEM = ll.Problem(teacher=ll.Committee(width=2), student=ll.Committee(width=3))
TIMES = np.asarray([0.0, 0.5, 2.0])


def build(variables=None, coords=None, **more):
    variables = {"risk": ("time", np.ones(3))} if variables is None else variables
    return dataset(PROBLEM, variables, {"time": TIMES} if coords is None else coords, method="test", **more)


def path(replicas=2, P=None):
    rng = np.random.default_rng(0)
    P = np.broadcast_to(np.eye(2), (3, replicas, 2, 2)) if P is None else P
    Q, M, a = (rng.normal(size=(3, replicas, *shape)) for shape in ((3, 3), (3, 2), (3,)))
    return Overlaps(Q, M, P, a), rng.normal(size=(3, replicas))


def overlaps(replicas=2, P=None, status=None, **more):
    states, risks = path(replicas, P)
    status = ["ok"] * replicas if status is None else status
    return overlap_dataset(
        PROBLEM, TIMES, states, risks, status=status, end_time=[2.0] * replicas, method="test", **more
    )


def test_the_dataset_is_stamped_with_problem_and_versions():
    ds = build(reference="saad1995online", attrs={"d": np.int64(7), "list": (1, np.float64(2.0)), "none": None})
    assert set(ATTRIBUTES) <= set(ds.attrs)
    assert spec_hash(from_json(ds.attrs["problem"])) == spec_hash(PROBLEM) == ds.attrs["spec_hash"]
    assert ds.attrs["schema_version"] == SCHEMA_VERSION
    assert ds.attrs["created"].endswith("+00:00")
    assert type(ds.attrs["d"]) is int
    assert ds.attrs["list"] == [1, 2.0]
    assert "none" not in ds.attrs
    assert "reference" not in build().attrs
    assert ds["risk"].attrs["long_name"] == VARIABLES["risk"].long_name
    assert ds["time"].attrs["long_name"] == RESERVED_DIMENSIONS["time"]


def test_a_python_activation_can_be_stamped():
    problem = ll.Problem(teacher=ll.Committee(width=1, activation=lambda x: x**3))
    ds = dataset(problem, {"risk": ("time", np.ones(3))}, {"time": TIMES}, method="test")
    assert json.loads(ds.attrs["problem"])["teacher"]["activation"]["kind"] == "custom"


def test_overlaps_have_the_documented_dimensions():
    ds = overlaps(coords={"step": ("time", [0, 10, 40])}, attrs={"seed": 3})
    expected = {
        "risk": ("time", "replica"),
        "M": ("time", "replica", "student", "teacher"),
        "Q": ("time", "replica", "student", "student_2"),
        "a": ("time", "replica", "student"),
        "P": ("teacher", "teacher_2"),
        "status": ("replica",),
        "end_time": ("replica",),
    }
    assert {name: ds[name].dims for name in ds.data_vars} == expected
    assert ds["replica"].values.tolist() == [0, 1]
    assert ds["student"].values.tolist() == ds["student_2"].values.tolist() == [0, 1, 2]
    assert ds["step"].dims == ("time",)
    states, risks = path()
    np.testing.assert_array_equal(ds["Q"], states.Q)
    np.testing.assert_array_equal(ds["risk"], risks)
    assert ds["status"].dtype.kind == "U"


def test_a_prediction_without_replicas_drops_the_axis():
    ds = overlaps(1, replicated=False)
    assert "replica" not in ds.dims
    assert ds["status"].item() == "ok"
    assert ds["M"].dims == ("time", "student", "teacher")
    with pytest.raises(InputError, match="2 replicas; replicated=False needs exactly one"):
        overlaps(2, replicated=False)


def test_P_is_kept_once_even_after_a_divergence_and_in_full_if_it_moves():
    broken = np.broadcast_to(np.eye(2), (3, 2, 2, 2)).copy()
    broken[1:, 0] = np.nan
    np.testing.assert_array_equal(overlaps(P=broken)["P"], np.eye(2))
    moving = broken.copy()
    moving[:] = np.eye(2)
    moving[2, 1] *= 2
    ds = overlaps(P=moving)
    assert ds["P"].dims == ("time", "replica", "teacher", "teacher_2")
    np.testing.assert_array_equal(ds["P"], moving)


def test_nan_needs_a_status_that_says_why_for_that_very_replica():
    values = np.ones((3, 2))
    values[2, 1] = np.nan
    variables = {"risk": (("time", "replica"), values)}
    with pytest.raises(InputError, match="risk has NaN but the Dataset has no status"):
        build(variables)
    for wrong in (["ok", "ok"], ["diverged", "ok"]):
        with pytest.raises(InputError, match='risk has NaN where status is "ok"'):
            build({**variables, "status": ("replica", wrong)})
    ds = build({**variables, "status": ("replica", ["ok", "diverged"])})
    assert ds["status"].values.tolist() == ["ok", "diverged"]
    with pytest.raises(InputError, match="NaN"):  # a variable without the replica dimension
        build({"free_entropy": ((), np.nan), "status": ("replica", ["ok", "ok"])})


def test_statuses_are_a_closed_list():
    with pytest.raises(InputError, match=r"status must be one of ok, diverged.*got 'fine'"):
        build({"risk": ("time", np.ones(3)), "status": ((), "fine")})
    for status in STATUSES:
        build({"risk": ("time", np.ones(3)), "status": ((), status)})


def test_unknown_names_are_refused_with_a_hint():
    with pytest.raises(InputError, match=r"'rsk' is not a variable.*Did you mean 'risk'"):
        build({"rsk": ("time", np.ones(3))})
    with pytest.raises(InputError, match="risk may not have the dimension 'teacher'"):
        build({"risk": (("time", "teacher"), np.ones((3, 2)))})
    with pytest.raises(InputError, match=r"'times' of risk .*Did you mean 'time'"):
        build({"risk": ("times", np.ones(3))}, {"times": TIMES})
    with pytest.raises(InputError, match="neither a reserved dimension"):
        build({"risk": ("my dim", np.ones(3))}, {"my dim": TIMES})


def test_swept_parameters_are_dimensions_with_labels():
    ds = build(
        {"risk": (("sample_ratio", "time"), np.ones((2, 3))), "mse": ("algorithm.learning_rate", [1.0, 2.0])},
        {"time": TIMES, "sample_ratio": [0.5, 1.0], "algorithm.learning_rate": [0.1, 0.2]},
    )
    validate(ds)
    with pytest.raises(InputError, match="'sample_ratio' has no coordinate"):
        build({"risk": ("sample_ratio", np.ones(2))})


def test_shapes_times_and_stamps_are_checked():
    with pytest.raises(InputError, match=r"2 axes .* but dimensions \('time',\)"):
        build({"risk": ("time", np.ones((3, 2)))})
    with pytest.raises(InputError, match="do not fit together"):
        build({"risk": ("time", np.ones(4))})
    with pytest.raises(InputError, match="time must be finite and increase strictly"):
        build(coords={"time": [0.0, 2.0, 1.0]})
    with pytest.raises(InputError, match="'time' has no coordinate"):
        build(coords={})
    with pytest.raises(InputError, match="attrs may not set method"):
        build(attrs={"method": "mine"})


def test_validate_reads_what_dataset_writes_and_refuses_the_rest():
    ds = overlaps()
    validate(ds)
    bare = ds.copy()
    bare.attrs = {}
    with pytest.raises(InputError, match="lacks the attributes problem, spec_hash"):
        validate(bare)
    old = ds.copy()
    old.attrs["schema_version"] = 0
    with pytest.raises(InputError, match="schema version 0"):
        validate(old)


def rows(title):
    """The rows of a table of the page on the schema: cells by name; words may have bars in them."""
    page = (Path(__file__).parents[2] / "docs" / "schema.md").read_text()
    section = page.partition(f"## {title}\n")[2].partition("\n## ")[0]
    columns = 2 if title == "Dimensions" else 3
    lines = [line[1:].rstrip(" |").split("|", columns - 1) for line in section.splitlines() if line.startswith("| `")]
    return {name.strip(" `"): tuple(cell.strip() for cell in cells) for name, *cells in lines}


def test_the_page_on_the_schema_is_the_schema():
    """Names, dimensions and words: what macrostates declare is exactly what readers are told."""
    assert rows("Dimensions") == {name: (words,) for name, words in RESERVED_DIMENSIONS.items()}
    assert rows("Variables") == {name: (", ".join(v.dims), v.long_name) for name, v in VARIABLES.items()}


def test_a_name_is_described_once():
    class One:
        variables: ClassVar = {"x": Variable((), "an x")}

    class Refers:
        variables: ClassVar = {**One.variables, "y": Variable((), "a y")}

    class Again:
        variables: ClassVar = {"x": Variable((), "an x")}

    assert list(assembled(One, Refers)) == ["x", "y"]
    with pytest.raises(TypeError, match="'x' of Again is described elsewhere"):
        assembled(One, Again)


# --- what the parts of a problem tell a result --------------------------------------------------------------


def clock_of(problem):
    return dataset(problem, {"risk": ("time", [1.0, 0.5])}, {"time": [0.0, 1.0]}, method="test").attrs.get("clock")


def test_a_result_with_a_time_axis_carries_its_clock():
    sgd, wide = ll.library.soft_committee(), ll.library.wide_phase_retrieval(3.0, width=5)
    assert clock_of(sgd) == ll.OnlineSGD.clock_words == "t = γ·step/(p·d)"
    assert clock_of(wide) == "t = γ·step/m"
    single = ll.Problem(teacher=ll.SingleIndex(ll.GaussianPrior()), sample_ratio=3.0, algorithm=ll.GradientDescent(0.1))
    assert clock_of(single) == "t = γ·step"
    assert "clock" not in dataset(sgd, {"risk": ((), 1.0)}, method="test").attrs
    assert clock_of(ll.Problem(teacher=ll.SingleIndex(ll.GaussianPrior()))) is None


def test_a_result_by_terms_says_which_the_target_has():
    problem = ll.Problem(inputs=ll.Hypercube(), teacher=ll.SparseTarget("z1 + 0.5*z1*z3"))
    names = ["1", "z1", "z3", "z1*z3"]
    ds = dataset(problem, {"fourier": ("term", [0.0, 1.0, 0.0, 0.5])}, {"term": names}, method="test")
    assert ds.attrs["target_terms"] == ["z1", "z1*z3"]


# --- variables of a user's own ------------------------------------------------------------------------------

OWN = {"kurtosis": Variable(("time", "student"), "fourth moment of the weights of a unit")}


def declared(**changes):
    arguments = {"variables": {"kurtosis": (("time", "student"), np.ones((2, 3)))}, "declared": OWN, **changes}
    return dataset(ll.library.soft_committee(), coords={"time": [0.0, 1.0]}, method="test", **arguments)


def test_a_declared_variable_is_a_variable_also_after_a_file(tmp_path):
    ds = declared()
    assert ds["kurtosis"].attrs["long_name"] == OWN["kurtosis"].long_name
    back = ll.load(ll.save(ds, tmp_path / "own.nc"))
    assert back.identical(ds)
    assert declared_in(back.attrs) == OWN


def test_a_declared_variable_is_refused_where_it_cannot_be_told():
    with pytest.raises(InputError, match="has to be declared"):
        declared(declared=None)
    with pytest.raises(InputError, match=r"may not have the dimension 'student'; it may have \('time',\)"):
        declared(declared={"kurtosis": Variable(("time",), "something")})
    with pytest.raises(InputError, match="'risk' cannot be declared as 'something': it is population risk"):
        declared(declared={**OWN, "risk": Variable(("time",), "something")})
    assert (
        "declared" not in declared(variables={"risk": ("time", [1.0, 2.0])}, declared={"risk": VARIABLES["risk"]}).attrs
    )
    with pytest.raises(InputError, match="attrs may not set declared"):
        declared(attrs={"declared": {}})
    broken = declared()
    broken.attrs["declared"] = ["kurtosis"]
    with pytest.raises(InputError, match="must be a table of names"):
        validate(broken)


def test_symmetric_matrices_are_known_by_their_dimensions():
    assert pairs_of(["teacher", "student_2", "student"]) == [("student", "student_2")]
    assert pairs_of(["time", "student"]) == []
