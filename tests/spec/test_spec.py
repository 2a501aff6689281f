"""A problem in a file is the same problem, or it is refused in words."""

import dataclasses
import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import equinox as eqx
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import limitlab as ll
from limitlab.errors import InputError, SpecError
from limitlab.numerics.trees import as_arrays
from limitlab.problems.activations import AbstractActivation, activation
from limitlab.spec import (
    dumps,
    from_dict,
    from_json,
    known_kinds,
    load_spec,
    loads,
    save_spec,
    spec_hash,
    to_dict,
    to_json,
)

TEACHER = ll.Committee(width=2)
# At least one example of every part, away from its defaults.
PARTS = {
    "inputs": [
        ll.Gaussian(),
        ll.Gaussian(spectrum=ll.Spectrum([0.5, 1.5], [0.3, 0.7], unexplained=0.1)),
        ll.Gaussian(spectrum=ll.PowerLaw(1.2, 1.6, modes=5)),
        ll.Gaussian(spectrum=ll.MarchenkoPastur(1.5)),
        ll.Hypercube(),
        ll.IsotropicMixture(delta=0.25),
        ll.AnisotropicMixture(delta=0.1, fraction=0.3),
    ],
    "teacher": [
        ll.Committee(width=3, activation="hermite(3)", output_weights=[1.0, -0.1, 1e-17]),
        ll.Committee(width=1, activation=ll.shifted(ll.hermite(2), 0.1)),
        ll.Committee(width=2, activation=ll.piecewise((-1, 0), (0.3, 1))),
        ll.SparseTarget("z1 - 0.5*z1*z3"),
        ll.SingleIndex(prior=ll.GaussianPrior(variance=0.3)),
        ll.SingleIndex(prior=ll.RademacherPrior()),
        ll.SingleIndex(prior=ll.GaussBernoulliPrior(density=0.1, variance=2.0)),
        ll.SingleIndex(prior=ll.LaplacePrior(scale=0.7)),
        ll.MultiIndex(width=2, link="majority", ties="coin"),
        ll.MultiIndex(width=3, link="z1^2 + sign(z1*z2*z3)", prior=ll.RademacherPrior()),
    ],
    "channel": [
        ll.GaussianNoise(variance=0.1),
        ll.Sign(variance=0.1, flip=0.2),
        ll.Modulus(variance=1e-3),
        ll.SquaredModulus(variance=3.0),
        ll.Rectified(variance=0.5),
        ll.Logistic(),
        ll.Door(width=0.6),
    ],
    "student": [
        ll.Committee(width=4, activation="relu", second_layer="trained", output_weights=[1, 2, 3, 4]),
        ll.RandomFeatures(width_ratio=1.5, activation="tanh"),
    ],
    "loss": [
        ll.SquareLoss(),
        ll.LogisticLoss(),
        ll.HingeLoss(),
        ll.MaxMargin(),
        ll.PhaseRetrievalLoss(prefactor=0.5, labels="intensity"),
        ll.AmplitudeLoss(prefactor=0.7),
        ll.SquaredHingeLoss(margin=0.3),
        ll.HuberLoss(scale=0.5),
        ll.PseudoHuberLoss(scale=2.0),
        ll.CustomLoss("square", of="residual"),
    ],
    "start": [
        ll.RandomStart(scale=0.5, sphere=True, second_layer="gaussian", P=[[1.0, 0.1], [0.1, 2.0]]),
        ll.RandomStart(),
        ll.OverlapStart(Q=[[1.0, 0.1], [0.1, 1.0]], M=[[0.1, 0.2], [1 / 3, 0.0]], P=np.eye(2)),
        ll.InformedStart(overlap=-0.3),
        ll.SpectralStart(overlap=0.2),
    ],
    "algorithm": [
        ll.OnlineSGD(learning_rate=0.1 + 0.2, spherical=True, batch_size=7, second_layer_rate=0.0, weight_decay=0.3),
        ll.Momentum(learning_rate=0.2, momentum=0.7),
        ll.Adam(learning_rate=0.01, beta1=0.8, epsilon=1e-6),
        ll.LayerwiseSGD(learning_rate=0.2, switch_time=1.5, penalty=1e-3, interacting=False, ridge_samples=77),
        ll.GradientDescent(learning_rate=0.1, spherical=False),
        ll.StochasticGD(learning_rate=0.1, batch_fraction=0.2, spherical=False, penalty=0.3, scale="1"),
        ll.OnlineSGD(learning_rate=0.3, temperature=0.1, schedule=ll.PowerSchedule(0.25, onset=0.0)),
        ll.PersistentSGD(learning_rate=0.1, batch_fraction=0.2, persistence_time=3.0),
        ll.Langevin(learning_rate=0.1, temperature=0.01),
        ll.GAMP(damping=0.5, iterations=7, tolerance=1e-3, variances="vector", precision="float32"),
        ll.ERM(penalty=1e-5),
    ],
}
CASES = [(field, part) for field, parts in PARTS.items() for part in parts]


def equal(a: ll.Problem, b: ll.Problem) -> bool:
    """Every number of two problems equal in every bit, every static field equal; activations by name."""
    by_name = lambda tree: jax.tree.map(  # noqa: E731
        lambda x: x.name if isinstance(x, ll.Activation) else x,
        tree,
        is_leaf=lambda x: isinstance(x, ll.Activation),
    )
    return bool(eqx.tree_equal(by_name(a), by_name(b)))


@pytest.mark.parametrize(
    ("field", "part"), CASES, ids=[f"{f}-{type(p).__name__}-{i}" for i, (f, p) in enumerate(CASES)]
)
def test_every_part_survives_toml_json_and_dict(field, part):
    teacher = None if getattr(part, "labelled", False) else TEACHER
    if getattr(part, "spectrum", None) is not None:
        teacher = ll.SingleIndex(ll.GaussianPrior())
    problem = ll.Problem(**{"teacher": teacher, "sample_ratio": 1.5, field: part})
    for back in (loads(dumps(problem)), from_json(to_json(problem)), from_dict(to_dict(problem))):
        assert equal(problem, back)
        assert spec_hash(back) == spec_hash(problem)
    assert to_dict(problem)[field]["kind"] == type(part).__name__


def test_the_examples_cover_every_known_part():
    shown = {type(part).__name__ for _, part in CASES} | {
        type(p.prior).__name__ for p in PARTS["teacher"] if isinstance(p, ll.SingleIndex)
    }
    shown |= {type(p.spectrum).__name__ for p in PARTS["inputs"] if getattr(p, "spectrum", None) is not None}
    shown |= {type(p.schedule).__name__ for p in PARTS["algorithm"] if getattr(p, "schedule", None) is not None}
    known = {name for group in known_kinds().values() for name in group}
    assert shown == known
    assert len(known) > 25


def test_a_channel_of_ones_own_has_a_hash_but_no_file():
    own = [ll.CustomBinary(lambda z, k=k: jax.nn.sigmoid(k * z)) for k in (1.0, 2.0, 1.0)]
    problems = [ll.Problem(teacher=ll.SingleIndex(ll.GaussianPrior()), channel=c, sample_ratio=1.0) for c in own]
    first, second, third = (spec_hash(p) for p in problems)
    assert first == third != second
    with pytest.raises(SpecError):
        dumps(problems[0])


def test_equal_sees_a_change_in_the_last_bit():
    one = ll.Problem(teacher=TEACHER, channel=ll.GaussianNoise(variance=0.1))
    two = ll.Problem(teacher=TEACHER, channel=ll.GaussianNoise(variance=float(np.nextafter(0.1, 1))))
    assert not equal(one, two)
    assert spec_hash(one) != spec_hash(two)


positive = st.floats(1e-300, 1e300)
share = st.floats(0, 1, exclude_max=True)
names = st.one_of(
    st.sampled_from(["erf", "relu", "square", "linear", "tanh", "sigmoid", "sign", "abs"]),
    st.integers(0, 12).map(lambda k: f"hermite({k})"),
    st.floats(-1e3, 1e3).map(lambda by: f"shifted(tanh, {by!r})"),
)


@st.composite
def problems(draw):
    p, k = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    rows = draw(st.lists(st.lists(st.floats(-3, 3), min_size=5, max_size=5), min_size=p + k, max_size=p + k))
    omega = np.asarray(rows) @ np.asarray(rows).T
    start = draw(
        st.one_of(
            st.just(None),
            st.builds(ll.RandomStart, scale=positive, sphere=st.booleans()),
            st.builds(ll.InformedStart, overlap=st.floats(-1, 1)),
            st.just(ll.OverlapStart(Q=omega[:p, :p], M=omega[:p, p:], P=omega[p:, p:])),
        )
    )
    weights = st.one_of(st.none(), st.lists(st.floats(-1e9, 1e9), min_size=p, max_size=p))
    return ll.Problem(
        inputs=draw(st.sampled_from([ll.Gaussian(), ll.Hypercube()])),
        teacher=ll.Committee(width=k, activation=draw(names)),
        channel=draw(st.builds(ll.GaussianNoise, variance=st.floats(0, 1e300))),
        sample_ratio=draw(st.one_of(st.none(), positive, st.integers(1, 9))),
        student=ll.Committee(
            width=p,
            activation=draw(names),
            second_layer=draw(st.sampled_from(["fixed", "trained"])),
            output_weights=draw(weights),
        ),
        loss=draw(st.sampled_from([None, ll.SquareLoss(), ll.HingeLoss()])),
        start=start,
        algorithm=draw(
            st.builds(
                ll.OnlineSGD,
                learning_rate=positive,
                spherical=st.booleans(),
                batch_size=st.integers(1, 10**6),
            )
        ),
    )


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(problems())
def test_random_problems_round_trip_exactly_and_keep_their_hash(problem):
    for back in (loads(dumps(problem)), from_json(to_json(problem))):
        assert to_dict(back) == to_dict(problem)
        assert spec_hash(back) == spec_hash(problem)


PROBLEM = ll.Problem(teacher=TEACHER, student=TEACHER, start=ll.RandomStart(), algorithm=ll.OnlineSGD(learning_rate=1))


def test_hash_ignores_key_order_and_the_kind_of_number():
    table = to_dict(PROBLEM)
    turned = {key: dict(reversed(part.items())) for key, part in reversed(table.items())}
    assert list(turned) != list(table)
    turned["algorithm"]["learning_rate"] = 1
    assert spec_hash(from_dict(turned)) == spec_hash(PROBLEM)
    other = ll.OnlineSGD(learning_rate=1.0)
    assert spec_hash(eqx.tree_at(lambda p: p.algorithm, PROBLEM, other)) == spec_hash(PROBLEM)
    assert spec_hash(as_arrays(PROBLEM)) == spec_hash(PROBLEM)
    assert len(spec_hash(PROBLEM)) == 16
    changed = ll.OnlineSGD(learning_rate=1.0, second_layer_rate=0.5)
    assert spec_hash(eqx.tree_at(lambda p: p.algorithm, PROBLEM, changed)) != spec_hash(PROBLEM)


def test_none_is_left_out_and_defaults_are_written():
    table = to_dict(PROBLEM)
    assert "sample_ratio" not in table
    assert "loss" not in table
    assert table["algorithm"] == {
        "kind": "OnlineSGD",
        "learning_rate": 1.0,
        "spherical": False,
        "batch_size": 1,
        "second_layer_rate": 1.0,
        "weight_decay": 0.0,
        "temperature": 0.0,
    }


def test_files_round_trip_in_both_formats(tmp_path):
    for name in ("problem.toml", "problem.json"):
        path = save_spec(PROBLEM, tmp_path / name)
        assert equal(load_spec(path), PROBLEM)
    assert json.loads((tmp_path / "problem.json").read_text())["teacher"]["kind"] == "Committee"
    assert "[teacher]" in (tmp_path / "problem.toml").read_text()


CURVE = np.linspace(0.0, 1.0, 300)


def with_function(function):
    return ll.Problem(teacher=ll.Committee(width=1, activation=function))


def test_python_functions_are_told_apart_by_what_they_compute():
    def one(x):
        return jnp.sin(x)

    def same(x):
        return jnp.sin(x)

    same.__name__ = "one"
    hashes = [spec_hash(with_function(f)) for f in (one, same, jnp.cos)]
    assert hashes[0] == hashes[1] != hashes[2]
    tables = [lambda x, s=s: jnp.interp(x, jnp.asarray(CURVE), jnp.asarray(s * CURVE)) for s in (1, 2)]
    assert spec_hash(with_function(tables[0])) != spec_hash(with_function(tables[1]))  # the constants count


def test_python_functions_are_refused_by_files(tmp_path):
    problem = with_function(jnp.sin)
    table = to_dict(problem)
    assert table["teacher"]["activation"].keys() == {"kind", "name", "jaxpr"}
    for action in (dumps, lambda p: save_spec(p, tmp_path / "p.json"), lambda p: from_json(to_json(p))):
        with pytest.raises(SpecError, match=r"teacher\.activation is the Python function .*cannot be put in a file"):
            action(problem)
    assert not list(tmp_path.iterdir())


SCRIPT = """
import jax, limitlab as ll
from limitlab.spec import spec_hash
f = lambda x: jax.nn.relu(x) * jax.nn.gelu(x)
print(spec_hash(ll.Problem(teacher=ll.Committee(width=2, activation=f))))
"""


def test_the_hash_is_the_same_in_another_process():
    run = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    f = lambda x: jax.nn.relu(x) * jax.nn.gelu(x)  # noqa: E731
    assert run.stdout.split()[-1] == spec_hash(ll.Problem(teacher=ll.Committee(width=2, activation=f)))


GOOD = '[teacher]\nkind = "Committee"\nwidth = 2\n'
BAD = {
    "unknown field": (
        GOOD + '[algorithm]\nkind = "OnlineSGD"\nlearning_rte = 0.5',
        [r"algorithm\.learning_rte = 0\.5", "learning_rate, spherical", "Did you mean 'learning_rate'"],
    ),
    "unknown part": (
        GOOD + '[techer]\nkind = "Committee"',
        ["techer", "inputs, teacher", "Did you mean 'teacher'"],
    ),
    "unknown kind": (
        GOOD + '[channel]\nkind = "GausianNoise"',
        [r"channel\.kind", "Did you mean 'GaussianNoise'"],
    ),
    "kind of another field": (
        GOOD + '[loss]\nkind = "Sign"',
        [r"loss\.kind = 'Sign'", "not one that fits", "HingeLoss"],
    ),
    "abstract kind": (GOOD + '[loss]\nkind = "AbstractLoss"', [r"loss\.kind", "not known"]),
    "missing kind": (GOOD + "[loss]\nprefactor = 1.0", [r"loss\.kind is missing", "SquareLoss"]),
    "kind of wrong type": (GOOD + "[loss]\nkind = 3", [r"loss\.kind must be a text", "3"]),
    "not a table": ('inputs = "Gaussian"\n' + GOOD, ["inputs must be a table", "'Gaussian'"]),
    "missing teacher": ('[inputs]\nkind = "Gaussian"', ["Problem.teacher must be a teacher", "got none"]),
    "missing field": ('[teacher]\nkind = "Committee"', [r"teacher\.width is missing", "Committee needs it"]),
    "text for number": (
        GOOD + '[channel]\nkind = "GaussianNoise"\nvariance = "0.1"',
        [r"channel\.variance", "'0.1'"],
    ),
    "bool for number": (
        GOOD + '[channel]\nkind = "GaussianNoise"\nvariance = true',
        [r"channel\.variance", "True"],
    ),
    "float for whole number": (
        '[teacher]\nkind = "Committee"\nwidth = 2.5',
        [r"teacher\.width", "whole number", "2.5"],
    ),
    "number for bool": (
        GOOD + '[algorithm]\nkind = "OnlineSGD"\nlearning_rate = 1\nspherical = 1',
        [r"algorithm\.spherical", "true or false"],
    ),
    "infinite": (
        GOOD + '[channel]\nkind = "GaussianNoise"\nvariance = inf',
        [r"channel\.variance", "finite"],
    ),
    "nan": ("sample_ratio = nan\n" + GOOD, ["sample_ratio", "finite"]),
    "too large a whole number": (f"sample_ratio = {10**320}\n" + GOOD, ["sample_ratio", "finite"]),
    "negative noise": (
        GOOD + '[channel]\nkind = "GaussianNoise"\nvariance = -1',
        ["channel", "variance", "-1", "use 0"],
    ),
    "zero rate": (GOOD + '[algorithm]\nkind = "OnlineSGD"\nlearning_rate = 0', ["learning_rate", "positive"]),
    "zero width": ('[teacher]\nkind = "Committee"\nwidth = 0', ["width", "at least one"]),
    "huge width": (
        '[teacher]\nkind = "Committee"\nwidth = 100000000',
        [r"teacher\.width", "1000000", "narrower"],
    ),
    "unknown activation": (GOOD + 'activation = "swish"', [r"teacher\.activation", "erf, relu", "swish"]),
    "code as activation": (GOOD + "activation = \"hermite(__import__('os'))\"", [r"teacher\.activation"]),
    "number as activation": (GOOD + "activation = 3", [r"teacher\.activation", "name of an activation"]),
    "nested prior": (
        '[teacher]\nkind = "SingleIndex"\nprior = {kind = "LaplacePrior", scal = 1.0}',
        [r"teacher\.prior\.scal = 1\.0", "Did you mean 'scale'"],
    ),
    "ragged matrix": (
        GOOD + '[start]\nkind = "RandomStart"\nP = [[1.0, 0.0], [0.0]]',
        [r"start\.P", "rows of equal length"],
    ),
    "text in matrix": (
        GOOD + '[start]\nkind = "RandomStart"\nP = [[1.0, "a"], [0, 1]]',
        [r"start\.P\[0\]\[1\]", "'a'"],
    ),
    "not psd": (
        GOOD + '[start]\nkind = "RandomStart"\nP = [[1.0, 2.0], [2.0, 1.0]]',
        ["start", "semi-definite"],
    ),
    "not symmetric": (
        GOOD + '[start]\nkind = "RandomStart"\nP = [[1.0, 0.5], [0.0, 1.0]]',
        ["start", "symmetric"],
    ),
    "too deep": (GOOD + '[start]\nkind = "RandomStart"\nP = ' + "[" * 12 + "]" * 12, ["nested more than 8"]),
    "far too deep": (GOOD + "P = " + "[" * 5000 + "]" * 5000, ["TOML|nested"]),
    "broken": (GOOD + "[loss\n", ["not valid TOML", "line 4"]),
    "too long": (GOOD + "#" * 1_000_001, ["1000000"]),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_tables_are_refused_with_path_value_and_remedy(case):
    text, patterns = BAD[case]
    loads(GOOD)  # the rest of the text is fine
    for pattern in patterns:
        with pytest.raises(SpecError, match=pattern):
            loads(text)


def test_bad_json_is_refused():
    for text, pattern in (
        ('{"teacher": {"kind": "Committee", "width": NaN}}', "NaN"),
        ('{"teacher": 1, "teacher": 2}', "teacher twice"),
        ('{"teacher": ', "not valid JSON: .*line 1"),
        ("[" * 100_000, "JSON|nested"),
        ("[1]", "must be a table"),
        ("3", "must be a table"),
    ):
        with pytest.raises(SpecError, match=pattern):
            from_json(text)


def test_bad_files_are_refused_by_name(tmp_path):
    (tmp_path / "problem.toml").write_text(GOOD)
    assert load_spec(tmp_path / "problem.toml").teacher.width == 2
    with pytest.raises(SpecError, match=r"no problem file .*probem\.toml\. Did you mean problem\.toml"):
        load_spec(tmp_path / "probem.toml")
    with pytest.raises(SpecError, match="is not a file"):
        load_spec(tmp_path)
    (tmp_path / "b.toml").write_text(GOOD + "width = 3\n")
    with pytest.raises(SpecError, match=r"b\.toml is not valid TOML: .*line 4"):
        load_spec(tmp_path / "b.toml")
    (tmp_path / "c.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SpecError, match=r"c\.toml is not a text file"):
        load_spec(tmp_path / "c.toml")
    (tmp_path / "d.toml").write_text(GOOD + "colour = 1\n")
    with pytest.raises(SpecError, match=r"d\.toml: teacher\.colour"):
        load_spec(tmp_path / "d.toml")
    (tmp_path / "e.toml").write_text("#" * 1_000_001)
    with pytest.raises(SpecError, match=r"e\.toml has 1000001 bytes"):
        load_spec(tmp_path / "e.toml")
    with pytest.raises(SpecError, match="could not be written"):
        save_spec(PROBLEM, tmp_path / "no" / "p.toml")


def test_a_traced_problem_is_refused_in_words():
    def leak(rate):
        to_dict(eqx.tree_at(lambda p: p.algorithm.learning_rate, PROBLEM, rate))
        return rate

    with pytest.raises(SpecError, match=r"algorithm\.learning_rate must be a plain number"):
        jax.jit(leak)(0.5)
    with pytest.raises(InputError, match="needs a Problem"):
        to_dict({"teacher": 1})  # type: ignore[arg-type]


# --- parts of a user's own ----------------------------------------------------------------------------------


class Cauchy(ll.GaussianNoise):
    """A channel from outside the package, with fields that no file knows."""

    shape: jax.Array | None = None
    kernel: Callable | None = None
    words: tuple[str, ...] = ()
    table: Mapping | None = None
    inner: Any = None


def test_a_users_part_is_known_by_its_module_and_name_and_its_fields():
    channel = Cauchy(0.5, jnp.ones(2), kernel=jnp.tanh, words=("a", "1"), table={"b": (1, None)}, inner=ll.Sign())
    table = to_dict(ll.Problem(teacher=TEACHER, channel=channel))["channel"]
    assert table["kind"] == f"{__name__}:Cauchy"
    assert (table["variance"], table["shape"], table["words"]) == (0.5, [1.0, 1.0], ["a", "1"])
    assert (table["kernel"]["kind"], table["kernel"]["name"]) == ("custom", "tanh")
    assert table["table"] == {"b": [1.0, "none"]}
    assert table["inner"]["kind"] == "Sign"
    json.dumps(table, allow_nan=False)


def test_the_hash_tells_users_parts_apart():
    def hash_of(**fields):
        return spec_hash(ll.Problem(teacher=TEACHER, channel=Cauchy(**fields)))

    long = np.linspace(0, 1, 5000)
    fields = [
        {},
        {"variance": 1.0},
        {"inner": np.inf},
        {"words": ("a",)},
        {"words": ("b",)},
        {"shape": long},
        {"shape": long + 1e-12},
        {"shape": long.reshape(50, 100)},
        {"inner": ll.Sign()},
        {"inner": ll.Sign(flip=0.1)},
        {"kernel": jnp.sin},
        {"kernel": lambda key: key[0, 1]},
    ]
    hashes = [hash_of(**f) for f in fields]
    assert len(set(hashes)) == len(hashes)
    assert hashes == [hash_of(**f) for f in fields]
    assert spec_hash(ll.Problem(teacher=TEACHER)) not in hashes
    assert len(to_json(ll.Problem(teacher=TEACHER, channel=Cauchy(shape=long)))) < 1000
    with pytest.raises(SpecError, match=r"channel\.inner must be a plain number or array"):
        hash_of(inner=object())


def test_a_class_in_a_function_whose_annotations_nobody_else_knows_is_written_too():
    class Own(ll.GaussianNoise):
        extra: "Hidden" = 3  # noqa: F821  # type: ignore[assignment]

    table = to_dict(ll.Problem(teacher=TEACHER, channel=Own()))["channel"]
    assert table["kind"].endswith("<locals>.Own")
    assert table["extra"] == 3.0


def test_a_users_part_is_refused_in_a_file_in_words(tmp_path):
    problem = ll.Problem(teacher=TEACHER, channel=Cauchy())
    for write in (dumps, lambda p: save_spec(p, tmp_path / "a.toml"), lambda p: from_json(to_json(p))):
        with pytest.raises(SpecError, match=r"channel\.kind = '.*:Cauchy' is a class from outside limitlab"):
            write(problem)
    assert not list(tmp_path.iterdir())


def test_a_users_part_stands_in_results_and_in_sweeps(tmp_path):
    problem = ll.Problem(
        teacher=ll.Committee(1),
        channel=Cauchy(0.1),
        student=ll.Committee(1),
        loss=ll.SquareLoss(),
        start=ll.RandomStart(),
        algorithm=ll.OnlineSGD(0.5),
    )
    asked = {"d": 10, "times": [0.0, 0.2], "replicas": 2}
    ds = ll.simulate(problem, **asked)
    assert json.loads(ds.attrs["problem"])["channel"]["kind"].endswith(":Cauchy")
    assert ll.load(ll.save(ds, tmp_path / "own.nc")).identical(ds)
    swept = ll.sweep(ll.simulate, problem, {"channel.variance": [0.1, 0.2]}, **asked)
    assert (swept["status"] == "ok").all()


class Cubic(AbstractActivation):
    power: float = 3.0

    @property
    def name(self):
        return "erf"  # which it is not

    def function(self, x):
        return x**self.power

    def derivative(self, x):
        return self.power * x ** (self.power - 1)


def test_a_users_activation_is_a_users_part():
    problem = ll.Problem(teacher=ll.Committee(1, Cubic()))
    assert to_dict(problem)["teacher"]["activation"] == {"kind": f"{__name__}:Cubic", "power": 3.0}
    assert spec_hash(problem) != spec_hash(ll.Problem(teacher=ll.Committee(1, Cubic(2.0))))
    with pytest.raises(SpecError, match=r"teacher\.activation\.kind = '.*:Cubic' is a class from outside limitlab"):
        dumps(problem)


# --- fields that come later ---------------------------------------------------------------------------------


class Before(ll.GaussianNoise):
    pass


class After(ll.GaussianNoise):
    ADDED: ClassVar[tuple[str, ...]] = ("scale", "names", "activation")
    scale: float = 1.0
    names: tuple[str, ...] = dataclasses.field(default_factory=lambda: ("a",))
    activation: AbstractActivation = eqx.field(converter=activation, default="erf")


def test_a_field_that_came_later_is_left_out_while_it_has_its_default():
    def table(part):
        own = to_dict(ll.Problem(teacher=TEACHER, channel=part))["channel"]
        return {name: value for name, value in own.items() if name != "kind"}

    assert table(After(0.1)) == table(Before(0.1)) == {"variance": 0.1}
    assert table(After(0.1, scale=1)) == {"variance": 0.1}
    assert table(After(0.1, activation="erf")) == {"variance": 0.1}
    assert table(After(0.1, scale=2.0)) == {"variance": 0.1, "scale": 2.0}
    assert table(After(0.1, names=("b",))) == {"variance": 0.1, "names": ["b"]}
    assert table(After(0.1, activation="relu")) == {"variance": 0.1, "activation": "relu"}


def test_a_field_that_came_later_is_read_and_written_like_any_other(monkeypatch):
    problem = ll.Problem(teacher=TEACHER, algorithm=ll.OnlineSGD(0.5))
    monkeypatch.setattr(ll.OnlineSGD, "ADDED", ("weight_decay", "schedule"), raising=False)
    assert "weight_decay" not in to_dict(problem)["algorithm"]
    assert "temperature" in to_dict(problem)["algorithm"]
    assert loads(dumps(problem)) == problem
    for rule in (ll.OnlineSGD(0.5, weight_decay=0.1), ll.OnlineSGD(0.5, schedule=ll.PowerSchedule(0.25))):
        other = ll.Problem(teacher=TEACHER, algorithm=rule)
        assert loads(dumps(other)) == other
        assert spec_hash(other) != spec_hash(problem)
