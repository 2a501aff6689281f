"""The door of every verb: who is told how far it is, and 64-bit numbers whatever JAX is set to."""

import inspect
import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import limitlab as ll
from limitlab import bar as bars
from limitlab import verbs
from limitlab.bar import Bar
from limitlab.errors import InputError
from limitlab.verbs import tell, told, verb

GLM = ll.Problem(
    teacher=ll.SingleIndex(ll.GaussianPrior()), channel=ll.Sign(), sample_ratio=2.0, algorithm=ll.GAMP(iterations=3)
)
SGD = ll.library.soft_committee(1)

LONG = """simulate predict sweep refine thresholds free_entropy exit_time optimal_learning_rate optimal_penalty
separability_threshold wasserstein uniqueness""".split()
RARE = """phase_diagram kernel_ridge linear_noise asymptotic_risk critical_learning_rate critical_delta global_minimum
stationary_law""".split()


@pytest.mark.parametrize("name", [*LONG, *RARE])
def test_progress_is_an_argument_of_every_verb_that_may_take_long(name):
    function = getattr(ll, name) if name in LONG else getattr(ll.analysis, name)
    assert inspect.signature(function).parameters["progress"].default is None


CALLS = {
    "simulate": lambda progress: ll.simulate(GLM, d=10, progress=progress),
    "predict": lambda progress: ll.predict(SGD, times=[0.0, 0.1], progress=progress),
    "separability_threshold": lambda progress: ll.separability_threshold(ll.Sign(), progress=progress),
    "sweep": lambda progress: ll.sweep(ll.simulate, GLM, {"d": [10]}, progress=progress),
    "refine": lambda progress: ll.refine(
        lambda problem, d: 1.0 * d, GLM, {"d": (1.0, 4.0)}, of="value", level=2.0, start=2, budget=3, progress=progress
    ),
}


@pytest.mark.more_of("predict", "simulate")
@pytest.mark.parametrize("name", CALLS)
def test_a_function_is_told_and_may_end_the_verb(name):
    heard = []
    CALLS[name](lambda *words: heard.append(words))
    done, total, label = heard[-1]
    assert done == total > 0 and isinstance(label, str)

    class Enough(Exception):
        pass

    def stop(*_):
        raise Enough

    with pytest.raises(Enough):
        CALLS[name](stop)
    assert told() is None
    again = []
    CALLS[name](lambda *words: again.append(words))  # the library is as it was
    assert [words[:2] for words in again] == [words[:2] for words in heard]
    with pytest.raises(InputError, match=rf"{name}.progress must be True, or a function .*; got 3"):
        CALLS[name](3)


def test_a_sweep_that_its_watcher_ends_is_written_down_as_stopped(tmp_path):
    def stop(done, total, label):
        if done:
            raise RuntimeError("enough")

    def value(problem, d):
        return 1.0 * d

    with pytest.raises(RuntimeError, match="enough"):
        ll.sweep(value, GLM, {"d": [1, 2]}, store=tmp_path / "runs", progress=stop)
    (record,) = (tmp_path / "runs" / "runs").glob("*.json")
    assert json.loads(record.read_text())["state"] == "stopped"
    assert ll.sweep(value, GLM, {"d": [1, 2]}, store=tmp_path / "runs").value.values.tolist() == [1, 2]


def test_true_is_a_bar_and_false_is_silence(capfd, monkeypatch):
    monkeypatch.setattr(bars, "PATIENCE", 0.0)

    @verb
    def slow(progress=None):
        for i in range(4):
            time.sleep(0.05)
            tell(i + 1, 4, "slowly")
        return 7

    assert slow(progress=False) == slow() == 7 and capfd.readouterr().err == ""
    assert slow(progress=True) == 7
    assert "slowly: 100 %, 0 s left" in capfd.readouterr().err


def test_a_verb_inside_another_has_its_own_progress():
    @verb
    def inner(progress=None):
        tell(1, 2, "inner")

    @verb
    def outer(progress=None):
        inner()
        tell(1, 1, "outer")

    heard = []
    outer(progress=lambda *words: heard.append(words))
    assert heard == [(1, 1, "outer")]


def test_a_verb_that_tells_nothing_tells_its_end():
    heard = []
    verb(lambda progress=None: None)(lambda *words: heard.append(words))
    assert [words[:2] for words in heard] == [(1, 1)]
    ll.predict(SGD, times=[0.0, 0.1], progress=lambda *words: heard.append(words))
    assert heard[1] == (0, 1, "predict (OverlapODE)")
    assert heard[-1] == (1, 1, "predict (OverlapODE)") and heard.count(heard[-1]) == 1


# --- the bar itself ----------------------------------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_sees_compiling_and_then_how_far(monkeypatch):
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    with Bar("work", wait=0.0) as bar:
        until = time.monotonic() + 20
        while "compiling" not in screen.getvalue() and time.monotonic() < until:
            jax.jit(lambda x: jnp.sin(x) + time.monotonic())(1.0)  # a new program each time
        bar(1, 10, "steps")
        time.sleep(0.3)
        bar(5, 10, "steps")
        time.sleep(0.5)
    seen = screen.getvalue()
    assert "work: compiling" in seen and "50%" in seen and "left 0:00:0" in seen
    assert threading.active_count() < 50 and not bars.live


def test_a_bar_of_the_main_thread_sees_what_a_verb_compiles_beside_it(monkeypatch):
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")

    @verb
    def compiles(progress=None):
        until = time.monotonic() + 20
        while "compiling" not in screen.getvalue() and time.monotonic() < until:
            jax.jit(lambda x: jnp.sin(x) + time.monotonic())(1.0)
        return threading.current_thread() is threading.main_thread()

    # a shell that runs the tests in the background makes them ignore interrupts, and then nothing is computed aside
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with Bar("work", wait=0.0) as bar:
            assert compiles(progress=bar) is False
    finally:
        signal.signal(signal.SIGINT, before)
    assert "work: compiling" in screen.getvalue()


def test_the_time_left_does_not_count_what_came_before_the_first_call():
    """Half a minute of compilation and a first percent were 50 minutes left."""
    bar = Bar("work", wanted=False)
    bar._began = bar._since = time.monotonic() - 30.0
    bar(1, 100, "steps")
    assert bar.left() == np.inf
    time.sleep(0.15)
    bar(50, 100, "steps")
    assert 0.1 < bar.left() < 5
    bar(1, 40, "another part")
    assert bar.left() == np.inf


def test_a_notebook_sees_one_bar_drawn_over(monkeypatch):
    drawn = []

    class Handle:
        def update(self, seen, raw):
            drawn.append(seen)

    def display(seen, raw, display_id):
        drawn.append(seen)
        return Handle()

    shell = types.SimpleNamespace(kernel=object())
    here = types.ModuleType("IPython")
    here.get_ipython = lambda: shell  # pyright: ignore[reportAttributeAccessIssue]
    there = types.ModuleType("IPython.display")
    there.display = display  # pyright: ignore[reportAttributeAccessIssue]
    monkeypatch.setitem(sys.modules, "IPython", here)
    monkeypatch.setitem(sys.modules, "IPython.display", there)
    monkeypatch.setattr(bars, "REDRAW", 0.02)
    with Bar("work", wait=0.0) as bar:
        bar(1, 4, "a < b")
        time.sleep(0.2)
        bar(4, 4, "a < b")
    assert len(drawn) > 2 and "<progress  value" in drawn[-1]["text/html"] and "a &lt; b" in drawn[-1]["text/html"]
    assert "100 %" in drawn[-1]["text/plain"]


def test_a_bar_that_is_not_wanted_starts_no_thread(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    before = threading.active_count()
    with Bar("work"), Bar("work", wanted=False):
        assert threading.active_count() == before


# --- 64 bits -----------------------------------------------------------------------------------------------

NUMBERS = """
import functools
import jax, jax.numpy as jnp, numpy as np
import limitlab as ll

def smooth(x):
    return jnp.tanh(x) + 0.1 * x

def numbers(names):
    glm = ll.Problem(
        teacher=ll.SingleIndex(ll.GaussianPrior()), channel=ll.Sign(), sample_ratio=2.0, algorithm=ll.GAMP(iterations=3)
    )
    fit = ll.Problem(
        teacher=ll.SingleIndex(ll.GaussianPrior()), channel=ll.GaussianNoise(0.1), loss=ll.SquareLoss(),
        sample_ratio=2.0, algorithm=ll.ERM(penalty=0.3),
    )
    sgd, closed = (ll.Problem(
        teacher=ll.Committee(width=1, activation=activation), channel=ll.GaussianNoise(0.1),
        student=ll.Committee(width=2, activation="erf"), loss=ll.SquareLoss(),
        start=ll.OverlapStart(Q=np.eye(2), M=[[0.1], [0.2]], P=[[1.0]]), algorithm=ll.OnlineSGD(learning_rate=0.5),
    ) for activation in (smooth, "erf"))
    descent = ll.library.descent_phase_retrieval(algorithm=ll.GradientDescent(0.05), overlap=0.5)
    X = np.random.default_rng(0).normal(size=(40, 10))
    model = functools.cache(lambda: ll.GAMPEstimator(channel=ll.Sign(variance=0.1)).fit(X, X[:, 0] > 0))
    stairs = ll.staircase("z1 + z1*z2 + z3*z4")
    rates = np.linspace(0.1, 0.5, 9)
    ways = {
        "overlaps": lambda: ll.predict(sgd, ll.OverlapODE(), times=[0.0, 0.2]).risk,
        "sgd": lambda: ll.simulate(sgd, 20, times=[0.0, 0.2], replicas=2).Q,
        "swept": lambda: ll.sweep(ll.predict, closed, {"algorithm.learning_rate": rates}, times=[0.2]).risk,
        "best": lambda: ll.predict(glm, ll.BayesOptimal()).mse,
        "gamp": lambda: ll.simulate(glm, 20, replicas=2).m,
        "erm": lambda: ll.predict(fit).generalisation_error,
        "erm at d": lambda: ll.simulate(fit, 20, replicas=2).generalisation_error,
        "dmft": lambda: ll.predict(descent, ll.DMFT(trajectories=64, batches=2), times=[0.0, 0.1]).m,
        "stairs": lambda: [stairs.leap, stairs.floor],
        "hermite": lambda: ll.hermite_coefficients(smooth, 4),
        "weights": lambda: model().coef_,
        "odds": lambda: model().predict_proba(X),
    }
    return {name: np.asarray(way()) for name, way in ways.items() if name in names}
"""

CHILD = """
import json, sys, warnings
warnings.simplefilter("ignore")
before = (jax.config.jax_enable_x64, str(jnp.ones(1).dtype))
got = numbers(sys.argv[1:])
after = (jax.config.jax_enable_x64, str(jnp.ones(1).dtype))
told = {"before": before, "after": after, "types": sorted({str(x.dtype) for x in got.values()})}
print(json.dumps(told | {"numbers": {name: x.tolist() for name, x in got.items()}}))
"""


FEW = ["overlaps", "sgd", "best", "stairs", "hermite"]
MORE = ["swept", "gamp", "erm", "erm at d", "dmft", "weights", "odds"]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("names", [FEW, pytest.param(MORE, marks=pytest.mark.more)], ids=["few", "more"])
def test_the_users_flag_is_left_alone_and_numbers_are_the_same(names):
    """With LIMITLAB_X64=0 JAX stays in 32 bits outside; problems are built there, verbs compute in 64 bits."""
    environment = {**os.environ, "LIMITLAB_X64": "0", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", NUMBERS + CHILD, *names], env=environment, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr[-3000:]
    child = json.loads(done.stdout.splitlines()[-1])
    assert child["before"] == child["after"] == [False, "float32"]
    assert set(child["types"]) <= {"float64", "int64"}
    here: dict = {}
    exec(NUMBERS, here)
    assert list(child["numbers"]) == names
    for name, value in here["numbers"](names).items():
        other = np.asarray(child["numbers"][name])
        assert np.max(np.abs(other - value)) <= 1e-12 * max(1.0, np.max(np.abs(value))), name


def test_by_default_jax_has_64_bits():
    assert jnp.ones(1).dtype == jnp.float64
    assert verbs.in_double().__class__.__name__ == "nullcontext"
