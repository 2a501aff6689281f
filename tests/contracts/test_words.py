"""How things are shown, and what wrong arguments are answered."""

import copy
import dataclasses
import html.parser
import math
import pickle
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_parts import CHANNELS, INPUTS, LOSSES, PREDICTED, PRIORS, RULES, STARTS

import limitlab as ll
from cases import committee, descent, mixture
from limitlab.errors import ArgumentError, InputError
from limitlab.macro.predict import LIMITS
from limitlab.problems.part import NAMES, Part
from limitlab.spec import dumps, loads
from limitlab.spec.kinds import known_kinds
from limitlab.text import Record, brief, code, html_table

PUBLIC = {name: getattr(ll, name) for name in dir(ll)}
PROBLEMS = {
    **{name: build() for name, build in ll.library.LIBRARY.items()},
    **RULES,
    "overlaps": committee(start=STARTS[3], trained=True, output_weights=[1.0, -2.5], teacher_weights=[0.1, 1e-17]),
    "schedule": committee(schedule=ll.PowerSchedule(0.25), batch_size=4, temperature=0.1, weight_decay=1 / 3),
    "shifted": committee("shifted(tanh, 0.5)", "hermite(3)"),
    "piecewise": mixture(),
    "numpy": committee(p=np.int64(3), learning_rate=np.float64(0.1), start=ll.RandomStart(P=np.eye(2))),
    "whole numbers": committee(learning_rate=1, variance=0),
    "quotes": ll.Problem(inputs=ll.Hypercube(), teacher=ll.SparseTarget("z1 + 0.5*z1*z2\t- 2*z3")),
    "masked": descent(ll.StochasticGD(0.1, 0.5, scale="1"), start=ll.RandomStart(2.0, sphere=True)),
}
STORED = sorted((Path(__file__).parents[1] / "golden/stored/problems").glob("*.toml"))


class Table(html.parser.HTMLParser):
    """Texts of cells, and whether every tag is closed."""

    def __init__(self, page: str):
        super().__init__()
        self.open, self.texts = [], []
        self.feed(page)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        assert tag in ("table", "caption", "thead", "tbody", "tr", "th", "td")
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_problem_prints_as_the_code_that_makes_it(name):
    problem = PROBLEMS[name]
    again = eval(repr(problem), PUBLIC)
    assert bool(again == problem) or name == "numpy"  # a NumPy number prints as a plain one
    assert ll.spec_hash(again) == ll.spec_hash(problem)
    assert repr(again) == repr(problem) == str(problem)
    assert all(len(line) <= 120 for line in repr(problem).splitlines())


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_stored_problems_print_as_code_too(path):
    problem = loads(path.read_text())
    again = eval(repr(problem), PUBLIC)
    assert bool(again == problem)
    assert dumps(again) == dumps(problem)


def test_the_code_is_what_a_user_would_write():
    problem = ll.Problem(
        teacher=ll.Committee(2, "erf"),
        student=ll.Committee(width=4, activation="relu", second_layer="trained"),
        loss=ll.SquareLoss(),
        start=ll.RandomStart(scale=1.0),
        algorithm=ll.OnlineSGD(0.5, spherical=False),
    )
    assert repr(problem) == (
        "Problem(\n"
        '    teacher=Committee(width=2, activation="erf"),\n'
        '    student=Committee(width=4, activation="relu", second_layer="trained"),\n'
        "    loss=SquareLoss(),\n"
        "    start=RandomStart(),\n"
        "    algorithm=OnlineSGD(learning_rate=0.5),\n"
        ")"
    )
    assert repr(ll.Problem(inputs=ll.IsotropicMixture(0.5))) == "Problem(inputs=IsotropicMixture(delta=0.5))"


@pytest.mark.parametrize("limit", [made for _, made, _ in PREDICTED.values()], ids=lambda limit: type(limit).__name__)
def test_limits_print_as_code(limit):
    assert bool(eval(repr(limit), PUBLIC) == limit)
    assert repr(type(limit)()) == f"{type(limit).__name__}()"


@pytest.mark.parametrize("part", [*CHANNELS, *PRIORS, *LOSSES, *STARTS, *INPUTS], ids=lambda part: type(part).__name__)
def test_parts_print_as_code_and_as_tables(part):
    assert bool(eval(repr(part), PUBLIC) == part)
    texts = Table(part._repr_html_()).texts
    assert type(part).__name__ in texts[0]
    assert all(field.name in texts for field in dataclasses.fields(part) if getattr(part, field.name) is not None)


def test_what_has_no_code_is_printed_in_words():
    def bump(x):
        return jnp.exp(-(x**2))

    assert repr(ll.Committee(2, bump)) == "Committee(width=2, activation=bump)"
    assert repr(ll.Committee(2, ll.shifted(bump, 0.5))) == "Committee(width=2, activation=shifted(bump, 0.5))"
    assert repr(ll.CustomLoss(lambda t: t**2, of="residual")) == 'CustomLoss(function=<lambda>, of="residual")'
    assert "Q=<30 x 30 numbers>" in repr(ll.OverlapStart(Q=np.eye(30), M=np.zeros((30, 1)), P=1.0))
    assert repr(ll.RadialFlow(d=50)) == "RadialFlow(d=50)"
    seen = []
    eqx.filter_jit(lambda p: (seen.append(repr(p)), jnp.ones(()))[1])(jax.tree.map(jnp.asarray, committee()))
    assert "learning_rate=<float64[]>" in seen[0]


class Bump(ll.Activation):
    height: float = 1.0
    name = "bump"

    def function(self, x):
        return self.height * jnp.exp(-(x**2))

    def derivative(self, x):
        return -2 * x * self.function(x)


class Wrapped(ll.AbstractLoss):
    """A loss whose arguments are not its fields."""

    power: float

    def __init__(self, *, exponent: float, **more):
        self.power = exponent

    def value(self, y, f):
        return jnp.abs(y - f) ** self.power

    def gradient(self, y, f):
        return jax.grad(self.value, argnums=1)(y, f)


def test_parts_of_a_users_own_are_printed_by_their_classes():
    assert repr(Bump(2.0)) == "Bump(height=2.0)"
    assert repr(ll.Committee(2, Bump())) == "Committee(width=2, activation=Bump())"
    assert repr(Bump()) == "Bump()"


def test_a_method_is_printed_with_its_object():
    class Plain:
        def method(self, x):
            return x

    assert repr(ll.Committee(2, Bump(2.0).function)) == "Committee(width=2, activation=Bump(height=2.0).function)"
    assert [code(Plain().method), code(Plain.method)] == ["Plain.method", "method"]
    assert code(ll.Problem.hint) == "Problem.hint"  # a classmethod


def test_html_is_escaped():
    page = html_table("<b>&", [("<i>", "\"'</td><script>")])
    assert "<b>" not in page and "<i>" not in page and "<script>" not in page
    assert Table(page).texts == ["<b>&", "<i>", "\"'</td><script>"]
    Table(ll.Committee(2, lambda x: x**2)._repr_html_())


def test_a_problem_is_a_small_table_in_notebooks():
    texts = Table(committee()._repr_html_()).texts
    assert texts[0] == "Problem"
    assert texts[texts.index("student") + 1] == 'Committee(width=2, activation="erf")'
    assert "sample_ratio" not in texts  # it has none
    assert Table(ll.activation("erf")._repr_html_()).texts == ['"erf"']


def test_limits_print_as_a_table_and_are_still_a_dict():
    answers = ll.limits(committee())
    assert isinstance(answers, dict)
    assert answers == dict(answers)
    assert list(answers) == list(LIMITS)
    lines = repr(answers).splitlines()
    assert lines[0].split() == ["OverlapODE", "applies"]
    assert sum(line.startswith(tuple(LIMITS)) for line in lines) == len(LIMITS)
    assert max(map(len, lines)) <= 100
    texts = Table(answers._repr_html_()).texts
    assert texts[texts.index("OverlapSDE") + 1] == "applies"
    assert pickle.loads(pickle.dumps(answers)) == answers


def records():
    """One of every record that a question answers with."""
    escape, flat = ll.library.escaping_mediocrity(), mixture()
    yield ll.staircase("z1 + z1*z2 + z3*z4")
    yield ll.thresholds(ll.GaussianPrior(), ll.Sign())
    yield ll.exit_time(escape, d=1000, threshold=0.2)
    yield ll.optimal_learning_rate(escape)
    yield ll.analysis.critical_learning_rate(escape)
    yield ll.analysis.overparametrisation_gain(width=8)
    yield ll.analysis.asymptotic_risk(escape)
    yield ll.analysis.regime(0.5, 0.0)
    yield ll.analysis.regime_of(committee(), d=100)
    yield ll.analysis.sample_complexity_class("relu")
    yield ll.analysis.hermite_leap({(2, 0): 1.0, (1, 1): 0.5})
    yield ll.uniqueness(ll.library.wide_phase_retrieval(3.0, width=5), d=4)
    yield ll.analysis.optimality_gap(flat, ([0.8], [1.0]), d=math.inf)
    yield ll.analysis.Measure(np.array([1.0, math.inf]), np.array([0.5, 0.5]))
    yield ll.analysis.CriticalDelta(0.5, 1.0, 2.0)
    yield ll.analysis.GlobalMinimum(0.1, ll.analysis.Measure(np.ones(1), np.ones(1)), 1e-12)
    yield ll.analysis.OptimalPenalty(0.1, 0.2, (0.05, 0.3))


def test_every_record_is_a_table_in_notebooks():
    for record in records():
        texts = Table(record._repr_html_()).texts
        assert len(texts) >= 3, record
        assert all(len(text) < 2500 for text in texts)
        assert " at 0x" not in "".join(texts)


def test_no_record_of_analysis_is_without_html():
    for name in dir(ll.analysis):
        value = getattr(ll.analysis, name)
        if isinstance(value, type) and (dataclasses.is_dataclass(value) or hasattr(value, "_fields")):
            assert hasattr(value, "_repr_html_"), name


def test_values_in_tables_are_brief():
    assert brief(1 / 3) == "0.333333"
    assert brief(None) == "none"
    assert brief(True) == "yes"
    assert brief(np.zeros((3, 4))) == "3 x 4 numbers"
    assert brief(list(range(20))).endswith("... (8 more)")
    assert brief(((1, 2), (3,))) == "(1, 2), (3)"
    assert code(("a",)) == '("a",)'
    assert code({"a": [1.0, math.inf]}) == '{"a": [1.0, float("inf")]}'
    assert issubclass(ll.analysis.ExitTime, Record)


# --- wrong arguments ---------------------------------------------------------------------------------------------

EVERY = sorted({c for group in known_kinds().values() for c in group.values()} | set(LIMITS.values()), key=str)


@pytest.mark.parametrize("cls", [*EVERY, ll.Problem], ids=lambda cls: cls.__name__)
def test_every_part_and_limit_answers_unknown_arguments_in_words(cls):
    assert issubclass(cls, Part)
    fields = [field.name for field in dataclasses.fields(cls)]
    with pytest.raises(
        ArgumentError, match=rf"^{cls.__name__} takes .*; got zzqx=3\. Leave it out\.\ndocs: errors/ArgumentError$"
    ):
        cls(zzqx=3)
    with pytest.raises(TypeError, match=r"without a name|twice"):
        cls(*range(len(fields) + 1))
    for field in fields:
        if len(field) > 3:
            with pytest.raises(InputError, match=rf"got {field}x=.*{field}="):
                cls(**{f"{field}x": 1.0})


@pytest.mark.parametrize(
    ("cls", "wrong", "right"),
    [
        (ll.OnlineSGD, "lr", "learning_rate"),
        (ll.OnlineSGD, "eta", "learning_rate"),
        (ll.OnlineSGD, "gamma", "learning_rate"),
        (ll.OnlineSGD, "bs", "batch_size"),
        (ll.OnlineSGD, "l2", "weight_decay"),
        (ll.OnlineSGD, "T", "temperature"),
        (ll.OnlineSGD, "noise", "temperature"),
        (ll.StochasticGD, "bs", "batch_fraction"),
        (ll.PersistentSGD, "tau", "persistence_time"),
        (ll.Momentum, "mu", "momentum"),
        (ll.Adam, "momentum", "beta1"),
        (ll.Adam, "eps", "epsilon"),
        (ll.Langevin, "T", "temperature"),
        (ll.ERM, "alpha", "penalty"),
        (ll.ERM, "lambda", "penalty"),
        (ll.ERM, "reg", "penalty"),
        (ll.ERM, "l2", "penalty"),
        (ll.GaussianNoise, "noise", "variance"),
        (ll.GaussianNoise, "delta", "variance"),
        (ll.Sign, "sigma2", "variance"),
        (ll.GaussBernoulliPrior, "rho", "density"),
        (ll.Committee, "hidden", "width"),
        (ll.Committee, "sigma", "activation"),
        (ll.InformedStart, "m", "overlap"),
        (ll.GAMP, "max_iter", "iterations"),
        (ll.DMFT, "n", "trajectories"),
        (ll.OverlapODE, "dim", "d"),
        (ll.HighDimMeanField, "n_particles", "particles"),
        (ll.SparseTarget, "target", "text"),
        (ll.Problem, "alpha", "sample_ratio"),
        (ll.Problem, "n", "sample_ratio"),
        (ll.Problem, "optimizer", "algorithm"),
        (ll.Problem, "lr", "algorithm=OnlineSGD(learning_rate"),
        (ll.Problem, "learning_rate", "algorithm=OnlineSGD(learning_rate"),
        (ll.Problem, "noise", "channel=GaussianNoise(variance"),
        (ll.Problem, "width", "student=Committee(width"),
        (ll.Problem, "d", "simulate(problem, d"),
    ],
)
def test_names_of_the_literature_get_the_right_one(cls, wrong, right):
    with pytest.raises(ArgumentError) as caught:
        cls(**{wrong: 0.5})
    words = str(caught.value)
    assert f"got {wrong}=0.5. " in words
    assert f"{right}=" in words.split("got ")[1]


def test_arguments_given_twice_or_too_many_are_said():
    with pytest.raises(ArgumentError, match=r"got learning_rate twice: 0\.5 and 0\.1"):
        ll.OnlineSGD(0.5, learning_rate=0.1)
    with pytest.raises(ArgumentError, match=r"got gamma=0\.1\. learning_rate is given already\."):
        ll.OnlineSGD(0.5, gamma=0.1)
    with pytest.raises(ArgumentError, match=r"got 0\.3 as argument 2 without a name\. Leave it out\."):
        ll.ERM(0.1, 0.3)
    with pytest.raises(ArgumentError, match=r"by its name, such as Problem\(inputs=\.\.\.\)"):
        ll.Problem(ll.Gaussian())
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'learning_rate'"):
        ll.OnlineSGD()
    assert Wrapped(exponent=2.0, anything=1).power == 2.0  # a class of a user's that takes all


def test_other_names_lead_to_fields_that_exist():
    known = {field.name for cls in [*EVERY, ll.Problem] for field in dataclasses.fields(cls)}
    assert {field for fields in NAMES for field in fields} <= known


# --- functions of JAX, copies --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "word"),
    [
        (jax.nn.relu, "relu"),
        (jax.nn.sigmoid, "sigmoid"),
        (jax.nn.tanh, "tanh"),
        (jnp.tanh, "tanh"),
        (jnp.abs, "abs"),
        (jnp.sign, "sign"),
        (jnp.square, "square"),
        (jax.scipy.special.expit, "sigmoid"),
        (abs, "abs"),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_functions_of_jax_are_taken_for_the_named_ones(function, word):
    assert ll.activation(function) is ll.activation(word)
    teacher = "erf"
    assert ll.spec_hash(committee(function, teacher)) == ll.spec_hash(committee(word, teacher))
    x = jnp.linspace(-3, 3, 13)
    np.testing.assert_allclose(function(x), ll.activation(word)(x), rtol=1e-15)
    assert ll.shifted(function, 0.5).named


def test_the_erf_of_jax_is_not_ours():
    for function in (jax.lax.erf, jax.scipy.special.erf):
        assert not ll.activation(function).named
        assert ll.spec_hash(committee(function)) != ll.spec_hash(committee("erf"))


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_activations_parts_and_problems_can_be_copied_and_pickled(way):
    for text in (
        "erf",
        "relu",
        "tanh",
        "sign",
        "square",
        "hermite(3)",
        "shifted(tanh, 0.5)",
        "piecewise((0, 0), (1, 2))",
    ):
        assert way(ll.activation(text)) == ll.activation(text)
    for problem in PROBLEMS.values():
        again = way(problem)
        assert bool(again == problem)
        assert ll.spec_hash(again) == ll.spec_hash(problem)
