"""The command line: what it prints, what it leaves on disk, and its exit codes."""

import os
import signal
import subprocess
import sys
import types

import numpy as np
import pytest
from typer.testing import CliRunner

import limitlab as ll
from limitlab import gallery
from limitlab.cite import cite
from limitlab.cli import app
from limitlab.cli.arguments import limit_of, times_of, usual_limit
from limitlab.gallery import Check, Entry
from limitlab.plot import plot
from limitlab.results.files import load, save
from limitlab.spec import dumps, loads

TINY = ["--d", "20", "--times", "0,0.1,0.2", "--replicas", "3"]


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def problem(**parts):
    base = {
        "teacher": ll.Committee(width=1, activation="linear"),
        "student": ll.Committee(width=1, activation="linear"),
        "channel": ll.GaussianNoise(variance=0.01),
        "loss": ll.SquareLoss(),
        "start": ll.InformedStart(overlap=0.3),
        "algorithm": ll.OnlineSGD(learning_rate=0.5),
    }
    return ll.Problem(**{**base, **parts})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A problem, its simulation and its prediction, made by the commands themselves."""
    here = tmp_path_factory.mktemp("cli")
    (here / "my.toml").write_text(dumps(problem()))
    for words in (
        ["simulate", here / "my.toml", *TINY, "--out", here / "sim.nc"],
        ["predict", here / "my.toml", "--times", "0,0.1,0.2", "--out", here / "ode.nc"],
    ):
        result = run(*words)
        assert result.exit_code == 0, result.output
    return here


def test_simulate_and_predict_write_what_the_verbs_return_and_say_where(folder):
    sim, ode = load(folder / "sim.nc"), load(folder / "ode.nc")
    direct = ll.simulate(problem(), d=20, times=[0, 0.1, 0.2], replicas=3)
    np.testing.assert_array_equal(sim["risk"], direct["risk"])
    np.testing.assert_array_equal(ode["risk"], ll.predict(problem(), ll.OverlapODE(), [0, 0.1, 0.2])["risk"])
    result = run("simulate", folder / "my.toml", *TINY, "--out", folder / "again.nc")
    assert f"saved to {folder / 'again.nc'}" in result.output
    assert "status: ok" in result.output
    mean = float(sim["risk"].isel(time=2).mean())
    error = float(sim["risk"].isel(time=2).std(ddof=1)) / np.sqrt(3)
    assert f"{mean:.6g}" in result.output
    assert f"{error:.2g}" in result.output


def test_a_result_is_not_overwritten_unless_forced(folder, tmp_path):
    path = tmp_path / "sim.nc"
    path.write_text("mine")
    result = run("simulate", folder / "my.toml", *TINY, "--out", path)
    assert result.exit_code == 2
    assert "--force" in result.output
    assert path.read_text() == "mine"
    assert run("simulate", folder / "my.toml", *TINY, "--out", path, "--force").exit_code == 0
    assert load(path).sizes["replica"] == 3


def test_the_default_name_has_the_hash_of_the_problem(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run("simulate", folder / "my.toml", *TINY).exit_code == 0
    assert run("predict", folder / "my.toml", "--times", "0,0.1,0.2").exit_code == 0
    name = ll.spec_hash(problem())
    assert {path.name for path in tmp_path.iterdir()} == {
        f"simulate_{name}_d20_seed0.nc",
        f"OverlapODE_{name}.nc",
    }


def test_predict_takes_the_limit_of_the_rule(tmp_path):
    erm = ll.Problem(
        teacher=ll.SingleIndex(ll.GaussianPrior()),
        channel=ll.Sign(flip=0.1),
        loss=ll.SquareLoss(),
        sample_ratio=2.0,
        algorithm=ll.ERM(penalty=0.5),
    )
    (tmp_path / "ridge.toml").write_text(dumps(erm))
    cases = {"perceptron": "StateEvolution", "phase-retrieval": "StateEvolution"}
    cases |= {tmp_path / "ridge.toml": "ERMAsymptotics", "soft-committee": "OverlapODE"}
    for spec, limit in cases.items():
        words = ["--times", "0,0.1"] if limit == "OverlapODE" else []
        result = run("predict", spec, *words, "--out", tmp_path / "a.nc", "--force")
        assert result.exit_code == 0, result.output
        assert f"limit: {limit} " in result.output
        assert load(tmp_path / "a.nc").attrs["method"] == limit
    named = run("predict", "perceptron", "--limit", "OverlapODE", "--out", tmp_path / "b.nc")
    assert named.exit_code == 2 and "limit:" not in named.output  # asked for by name, so refused


def test_the_usual_limit_is_asked_of_the_rule_and_without_one_the_first_that_applies():
    sparse = {"inputs": ll.Hypercube(), "teacher": ll.SparseTarget("z1 + z1*z2"), "student": ll.Committee(4)}
    assert usual_limit(ll.Problem(**sparse, algorithm=ll.OnlineSGD(0.5))) == "DimensionFree"
    assert usual_limit(ll.Problem(**sparse, algorithm=ll.LayerwiseSGD(0.5, 1.0))) == "DimensionFree"
    mixture = ll.Problem(inputs=ll.IsotropicMixture(0.5), student=ll.Committee(4), algorithm=ll.OnlineSGD(0.5))
    assert usual_limit(mixture) == "RadialFlow"
    assert usual_limit(ll.library.wide_phase_retrieval(3.0, width=5)) == "MatrixFlow"
    bayes = ll.Problem(teacher=ll.SingleIndex(ll.GaussianPrior()), channel=ll.Sign(), sample_ratio=2.0)
    assert usual_limit(bayes) == "StateEvolution"
    with pytest.raises(ll.errors.InputError, match="has no rule, and no limit applies"):
        usual_limit(ll.Problem(teacher=ll.Committee(2)))


def test_an_infinite_value_is_printed(tmp_path):
    """Noiseless |z| above its threshold: the free entropy is plus infinity, not missing."""
    result = run("predict", "phase-retrieval", "--limit", "BayesOptimal", "--out", tmp_path / "a.nc")
    assert result.exit_code == 0, result.output
    line = next(line for line in result.output.splitlines() if "free_entropy" in line)
    assert line.split()[1] == "inf" and "nan" not in result.output


def test_settings_reach_the_limit(folder, tmp_path):
    words = ["--times", "0,0.1,0.2", "--set", "d=50", "--set", "replicas=2", "--out", tmp_path / "a.nc"]
    result = run("predict", folder / "my.toml", *words)
    assert result.exit_code == 0, result.output
    assert load(tmp_path / "a.nc").attrs["d"] == 50
    assert load(tmp_path / "a.nc").sizes["replica"] == 2


def test_a_diverged_run_is_a_result_with_a_loud_warning(tmp_path):
    (tmp_path / "wild.toml").write_text(dumps(problem(algorithm=ll.OnlineSGD(learning_rate=50.0))))
    words = ["--d", "20", "--times", "0,50,100", "--replicas", "3", "--out", tmp_path / "wild.nc"]
    result = run("simulate", tmp_path / "wild.toml", *words)
    assert result.exit_code == 0
    assert "WARNING: 3 of 3 diverged" in result.output
    assert "status: ok" not in result.output
    assert set(load(tmp_path / "wild.nc")["status"].values) == {"diverged"}


def test_compare_says_by_its_exit_code_whether_results_agree(folder, tmp_path):
    same = run("compare", folder / "ode.nc", folder / "ode.nc")
    assert same.exit_code == 0
    assert "AGREES" in same.output
    assert "DISAGREES" not in same.output
    wrong = load(folder / "ode.nc")
    wrong["risk"] = wrong["risk"] + 1.0
    save(wrong, tmp_path / "wrong.nc")
    result = run("compare", folder / "ode.nc", tmp_path / "wrong.nc", "--plot", tmp_path / "a.png")
    assert result.exit_code == 1
    assert "DISAGREES" in result.output
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert run("compare", folder / "sim.nc", folder / "ode.nc", "--threshold", "1e9").exit_code == 0


def test_compare_knows_a_margin_and_that_there_may_be_nothing_to_compare(folder, tmp_path):
    ode = load(folder / "ode.nc")
    save(ode.assign(risk=1.002 * ode["risk"]), tmp_path / "near.nc")
    words = ["compare", folder / "ode.nc", tmp_path / "near.nc"]
    assert run(*words).exit_code == 1
    near = run(*words, "--margin", "0.01")
    assert near.exit_code == 0 and "DIFFERS WITHIN THE MARGIN" in near.output
    assert run(*words, "--margin", "0.0001").exit_code == 1
    assert run(*words, "--margin", "-1").exit_code == 2
    save(ode.isel(time=[0]), tmp_path / "start.nc")
    nothing = run("compare", folder / "ode.nc", tmp_path / "start.nc")
    assert nothing.exit_code == 2 and "NOTHING TO COMPARE" in nothing.output


def test_plot_draws_any_number_of_results(folder, tmp_path):
    words = [folder / "sim.nc", folder / "ode.nc", folder / "ode.nc", "--variable", "risk"]
    result = run("plot", *words, "--out", tmp_path / "a.svg")
    assert result.exit_code == 0
    assert "</svg>" in (tmp_path / "a.svg").read_text()
    assert run("plot", *words, "--out", tmp_path / "a.svg").exit_code == 2  # it exists
    assert run("plot", *words, "--out", tmp_path / "a.xyz").exit_code == 2


def test_spec_prints_a_problem_that_can_be_read_back(folder):
    for name, build in ll.library.LIBRARY.items():
        result = run("spec", name)
        assert result.exit_code == 0
        assert ll.spec_hash(loads(result.stdout)) == ll.spec_hash(build())
    assert ll.spec_hash(loads(run("spec", folder / "my.toml").stdout)) == ll.spec_hash(problem())


def test_limits_answers_for_each_limit(folder):
    from limitlab.macro.predict import LIMITS

    result = run("limits", folder / "my.toml")
    assert result.exit_code == 0
    assert all(name in result.output for name in LIMITS)
    assert "applies" in result.output


def test_cite_prints_bibtex(folder):
    result = run("cite", folder / "my.toml", "--limit", "OverlapODE")
    assert result.exit_code == 0
    assert result.stdout == cite(problem(), ll.OverlapODE())
    assert "saad1995online" in result.stdout


def test_version_and_help():
    assert run("--version").output == f"limitlab {ll.__version__}\n"
    for words in (
        [],
        ["simulate"],
        ["predict"],
        ["compare"],
        ["plot"],
        ["cite"],
        ["run"],
        ["spec"],
        ["limits"],
    ):
        result = run(*words, "--help")
        assert result.exit_code == 0
        assert f"limitlab {' '.join(words)}".strip() in result.output
    assert "[default: staircase]" in run("run", "--help").output


# --- gallery -----------------------------------------------------------------------------------------------


@pytest.fixture
def fakes(monkeypatch, folder):
    """Two gallery entries, of which the second makes a false claim."""

    def entry(ok):
        return Entry(
            "fake",
            "A fake figure",
            "Fakes are fast.",
            lambda progress: {"ode": load(folder / "ode.nc")},
            lambda data: [Check("it is fast", ok, "0 s")],
            lambda data: plot(data["ode"]),
            seconds=3.0,
        )

    for name, ok in (("fake_true", True), ("fake_false", False)):
        module = types.ModuleType(name)
        module.ENTRY = entry(ok)  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(gallery, "MODULES", {"true": "fake_true", "false": "fake_false"})


@pytest.mark.parametrize(
    ("name", "code", "word"), [("true", 0, "[ok] it is fast"), ("false", 1, "[FAILED] it is fast")]
)
def test_run_exits_with_1_if_and_only_if_the_claim_fails(fakes, tmp_path, name, code, word):
    result = run("run", name, "--out", tmp_path / "out")
    assert result.exit_code == code
    assert word in result.output
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "figure.png",
        "ode.nc",
        "verdict.txt",
    ]


def test_list_shows_entries_problems_limits_and_activations():
    result = run("list")
    assert result.exit_code == 0
    for word in ("A staircase of monomials", "soft-committee", "OverlapODE", "erf", "hermite(k)"):
        assert word in result.output


# --- bad input ---------------------------------------------------------------------------------------------

INFORMED = 'kind = "InformedStart"\noverlap = 0.3'

BAD_PROBLEMS = {
    "negative noise": (("variance = 0.01", "variance = -0.01"), ["variance", "-0.01", "use 0 for none"]),
    "no learning rate": (
        ("learning_rate = 0.5", "learning_rate = 0.0"),
        ["learning_rate", "0.0", "positive"],
    ),
    "negative learning rate": (("learning_rate = 0.5", "learning_rate = -1.0"), ["learning_rate", "-1.0"]),
    "width 0": (("width = 1", "width = 0"), ["width", "got 0", "at least one unit"]),
    "overlap above 1": (("overlap = 0.3", "overlap = 1.5"), ["overlap", "1.5", "cosine"]),
    "non-symmetric": (
        (INFORMED, 'kind = "OverlapStart"\nQ = [[1.0, 0.5], [0.0, 1.0]]\nM = [[0.0], [0.0]]\nP = [[1.0]]'),
        ["OverlapStart.Q", "[[1.0, 0.5], [0.0, 1.0]]", "symmetrise"],
    ),
    "not positive": (
        (INFORMED, 'kind = "OverlapStart"\nQ = [[1.0]]\nM = [[2.0]]\nP = [[1.0]]'),
        ["Omega", "2.0", "positive semi-definite", "cannot exceed"],
    ),
    "unknown activation": (('activation = "linear"', 'activation = "erv"'), ["activation", "'erv'", "relu"]),
    "unknown field": (("overlap = 0.3", "overlap = 0.3\ncolour = 3"), ["start.colour", "3", "overlap"]),
    "not TOML": (("[start]", "[start"), ["not valid TOML", "line"]),
}


def assert_refused(result, words):
    """Exit code 2, one message on stderr with all the words, and no traceback."""
    assert result.exit_code == 2, result.output
    assert isinstance(result.exception, SystemExit)
    for word in words:
        assert word in result.output
    assert result.output.count("error:") == 1
    assert "Traceback" not in result.output


@pytest.mark.parametrize("name", BAD_PROBLEMS)
def test_a_bad_problem_is_refused_by_field_value_and_remedy(tmp_path, name):
    (old, new), words = BAD_PROBLEMS[name]
    text = dumps(problem())
    assert old in text  # the case would be vacuous
    (tmp_path / "bad.toml").write_text(text.replace(old, new))
    assert_refused(run("simulate", tmp_path / "bad.toml", *TINY, "--out", tmp_path / "a.nc"), words)
    assert not (tmp_path / "a.nc").exists()


@pytest.mark.parametrize(
    ("command", "words", "message"),
    [
        ("simulate", ["--times", "0,2,1"], ["times", "2 followed by 1", "Sort"]),
        ("predict", ["--times", "0,2,1"], ["times", "2 followed by 1", "Sort"]),
        ("simulate", ["--times", "3:1:5"], ["--times", "'3:1:5'", "increase"]),
        ("simulate", ["--times", "0:1:0"], ["--times", "got 0"]),
        ("simulate", ["--times", "0:1:5:log"], ["--times", "start > 0"]),
        ("simulate", ["--times", "soon"], ["--times", "'soon'", "0:10:51"]),
        ("simulate", ["--times=-1,2"], ["times", "-1"]),
        ("simulate", ["--d", "1"], ["d must be at least 2", "d=1", "Use d >= 2"]),
        ("simulate", ["--d", "10.5"], ["simulate.d", "10.5"]),
        ("simulate", ["--replicas", "0"], ["replicas", "got 0"]),
        ("simulate", ["--representation", "weight"], ["representation", "'weight'", "overlaps"]),
        ("simulate", ["--out", "no_such_folder/a.nc"], ["--out", "no_such_folder"]),
        ("predict", ["--limit", "OverlapOD"], ["--limit", "'OverlapOD'", "Did you mean 'OverlapODE'"]),
        ("predict", ["--set", "dd=3"], ["--set", "'dd'", "Did you mean 'd'"]),
        ("predict", ["--set", "d"], ["--set", "'d'", "field=value"]),
        ("predict", ["--set", "seed=abc"], ["--set seed", "int", "'abc'"]),
        ("predict", ["--set", "rtol=5"], ["rtol", "5.0", "1e-10"]),
    ],
)
def test_a_bad_option_is_refused_by_name_value_and_remedy(folder, tmp_path, monkeypatch, command, words, message):
    monkeypatch.chdir(tmp_path)
    assert_refused(run(command, folder / "my.toml", *TINY[:6] if command == "simulate" else [], *words), message)
    assert not list(tmp_path.iterdir())


def test_a_spec_that_is_nowhere_is_refused_with_the_nearest_name(tmp_path):
    assert_refused(run("limits", "soft-comittee"), ["SPEC", "'soft-comittee'", "Did you mean 'soft-committee'"])
    assert_refused(run("limits", tmp_path / "absent.toml"), ["absent.toml"])


@pytest.mark.parametrize("command", ["compare", "plot"])
def test_a_truncated_foreign_or_missing_result_is_refused(folder, tmp_path, command):
    whole = (folder / "ode.nc").read_bytes()
    (tmp_path / "part.nc").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "text.nc").write_text("hello")
    for name, word in (
        ("part.nc", "truncated"),
        ("text.nc", "not a limitlab result"),
        ("absent.nc", "no result file"),
    ):
        more = [folder / "ode.nc"] if command == "compare" else ["--out", tmp_path / "a.png"]
        assert_refused(run(command, tmp_path / name, *more), [name, word])


@pytest.mark.parametrize(
    "words", [["simulat"], ["simulate", "soft-committee", "--dd", "3"], ["simulate"], ["run", "nothing"]]
)
def test_an_unknown_word_is_refused_with_2(words):
    result = run(*words)
    assert result.exit_code == 2
    assert "Traceback" not in result.output


# --- interruption ------------------------------------------------------------------------------------------


def test_ctrl_c_while_the_command_loads_ends_without_a_traceback(tmp_path):
    (tmp_path / "typer.py").write_text("raise KeyboardInterrupt")
    there = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    words = [sys.executable, "-c", "from limitlab.cli import main; main()", "list"]
    done = subprocess.run(words, env=there, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_an_interrupted_command_exits_with_130_and_a_word(folder, tmp_path, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("limitlab.micro.simulate.simulate", stop)
    result = run("simulate", folder / "my.toml", *TINY, "--out", tmp_path / "a.nc")
    assert result.exit_code == 130
    assert "interrupted" in result.output
    assert not list(tmp_path.iterdir())


def test_ctrl_c_in_a_real_process_leaves_nothing_behind(folder, tmp_path):
    """A run of hours reports progress on stderr and ends cleanly when it is interrupted."""
    words = [
        "--d",
        "1000",
        "--times",
        "0,1e6",
        "--replicas",
        "1",
        "--out",
        str(tmp_path / "a.nc"),
        "--progress",
    ]
    command = [sys.executable, "-m", "limitlab.cli", "simulate", str(folder / "my.toml"), *words]
    with subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        # a shell that runs the tests in the background makes them ignore interrupts, and so would this process
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        assert process.stderr is not None
        lines = [process.stderr.readline()]
        while "left" not in lines[-1]:  # until it computes: "SGD, d = 1000: 0 %, 9000 s left"
            assert lines[-1], lines
            lines.append(process.stderr.readline())
        process.send_signal(signal.SIGINT)
        _, rest = process.communicate(timeout=60)
        assert process.returncode == 130, lines
    assert "SGD, d = 1000" in lines[-1]
    assert "interrupted; nothing was written" in rest
    assert "Traceback" not in rest
    assert not list(tmp_path.iterdir())


# --- words to values ---------------------------------------------------------------------------------------


def test_times_are_read_as_written():
    np.testing.assert_allclose(times_of("0:10:5"), [0, 2.5, 5, 7.5, 10])
    np.testing.assert_allclose(times_of("0.01:100:5:log"), [0.01, 0.1, 1, 10, 100])
    np.testing.assert_allclose(times_of("0, 1,2.5"), [0, 1, 2.5])
    np.testing.assert_allclose(times_of("3"), [3.0])


def test_settings_are_read_as_the_types_that_fields_declare():
    limit = limit_of("OverlapODE", ["d=1e3", "replicas=4", "rtol=1e-6", "solver=explicit"])
    assert limit == ll.OverlapODE(d=1000.0, replicas=4, rtol=1e-6, solver="explicit")
    assert limit_of("OverlapODE", ["d=none"]) == ll.OverlapODE()
