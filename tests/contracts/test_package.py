"""The frame: arrows, names, rates and references."""

import importlib
import importlib.metadata
import pickle
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from lowest import as_numbers, bounds, constraints

import limitlab as ll
from limitlab._lazy import public_names
from limitlab.cite import references
from limitlab.macro.predict import LIMITS

ROOT = Path(__file__).parents[2]
ROOMS = ("analysis", "errors", "extending", "library", "testing")


def python(code: str) -> str:
    """What a new interpreter prints."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_imports_go_one_way():
    code = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " kept, 0 broken" in done.stdout


# The names that design fixes, and the extension points. More may be public; these stay.
FIXED = """
Problem Gaussian Hypercube IsotropicMixture AnisotropicMixture Committee SparseTarget SingleIndex hermite shifted
piecewise GaussianPrior RademacherPrior GaussBernoulliPrior LaplacePrior GaussianNoise Sign Modulus SquaredModulus
Rectified Logistic Door SquareLoss LogisticLoss HingeLoss MaxMargin PhaseRetrievalLoss RandomStart OverlapStart
InformedStart OnlineSGD GradientDescent StochasticGD PersistentSGD Langevin GAMP ERM OverlapODE OverlapSDE
HighDimMeanField MeanField DimensionFree StateEvolution BayesOptimal ERMAsymptotics DMFT MatrixFlow RadialFlow simulate
predict compare plot limits sweep cite hermite_coefficients information_exponent staircase thresholds free_entropy
exit_time optimal_learning_rate optimal_penalty wasserstein uniqueness success_rate separability_threshold GAMPEstimator
AbstractInputs AbstractTeacher AbstractStudent AbstractAlgorithm AbstractChannel AbstractPrior AbstractLoss
AbstractStart AbstractLimit
""".split()
MOVED = {
    "analysis": """
    ExitTime CriticalDelta GlobalMinimum HermiteLeap OptimalPenalty OptimalityGap Potentials Staircase Thresholds
    Uniqueness Measure Comparison Refinement DMFTState
    asymptotic_risk critical_delta critical_learning_rate finite_width global_minimum hermite_leap kernel_ridge
    linear_noise measured_exit_time optimality_gap overparametrisation_gain phase_diagram potentials radial_density
    regime regime_diagram regime_of sample_complexity_class stationary_law
    """.split(),
    "errors": """
    AccuracyWarning ConvergenceError EngineError InputError LimitUndefinedError LimitlabError RepresentationWarning
    ResultFileError SpecError
    """.split(),
}


@pytest.mark.parametrize("package", [ll, ll.analysis], ids=lambda package: package.__name__)
def test_public_names_are_there_and_documented(package):
    """What type checkers are shown is what exists: the list is the same one."""
    shown = public_names(package.__name__)
    assert set(dir(package)) == set(package.__all__) == set(shown)
    for name, module in shown.items():
        value = getattr(package, name)
        assert value.__doc__, name
        if name not in ROOMS:
            assert callable(value)
            assert value is getattr(importlib.import_module(module), name)


def test_fixed_names_stay_flat():
    assert set(FIXED) <= set(dir(ll))
    assert [name for name in dir(ll) if isinstance(getattr(ll, name), type(sys))] == list(ROOMS)


@pytest.mark.parametrize(("room", "name"), [(room, name) for room, names in MOVED.items() for name in names])
def test_a_name_that_left_still_answers_and_says_where_it_is(room, name):
    with pytest.warns(DeprecationWarning, match=rf"^limitlab\.{name} is now limitlab\.{room}\.{name};"):
        value = getattr(ll, name)
    assert value is getattr(getattr(ll, room), name)
    assert name not in dir(ll)


def test_every_question_is_in_analysis_and_every_error_in_errors():
    flat = public_names("limitlab")
    assert {name for name, module in flat.items() if module.startswith("limitlab.analysis.")} <= set(dir(ll.analysis))
    assert set(MOVED["errors"]) <= set(ll.errors.__all__)


def test_unknown_names_are_refused_in_words():
    with pytest.raises(AttributeError, match=r"'limitlab' has no attribute 'simulat'\. Did you mean 'simulate'\?$"):
        getattr(ll, "simulat")  # noqa: B009
    with pytest.raises(AttributeError, match=r"Did you mean 'OnlineSGD'\?$"):
        getattr(ll, "OnlneSGD")  # noqa: B009
    with pytest.raises(AttributeError, match=r"Did you mean 'OverlapODE'\?$"):
        getattr(ll, "overlapode")  # noqa: B009
    with pytest.raises(AttributeError, match=r"Did you mean 'limitlab\.analysis\.kernel_ridge'\?$"):
        getattr(ll, "kernelridge")  # noqa: B009
    with pytest.raises(AttributeError, match=r"no attribute '_ipython_canary'\.$"):
        getattr(ll, "_ipython_canary")  # noqa: B009
    with pytest.raises(ImportError):
        exec("from limitlab.analysis import nothing_of_the_kind")


@pytest.mark.parametrize("name", LIMITS)
def test_limits_declare_rate_and_reference(name):
    limit = LIMITS[name]()
    assert limit.reference in references()
    assert limit.rate
    assert all(exponent < 0 for exponent in limit.rate.values())


def test_verbs_stay_functions_after_modules_of_their_names_are_imported():
    code = """
import limitlab as ll, inspect
before = ll.sweep
import limitlab.sweep.run, limitlab.plot, limitlab.cite, limitlab.analysis.regime, limitlab.analysis.uniqueness
import limitlab.sweep.storage.store as store
import limitlab.sweep.run as run
assert ll.sweep is before is run.sweep
for verb in (ll.sweep, ll.plot, ll.cite, ll.analysis.regime, ll.analysis.uniqueness, ll.uniqueness):
    assert inspect.isfunction(verb) and verb.__doc__, verb
print(store.__name__, run.__name__, inspect.signature(ll.sweep).parameters["verb"].name)
"""
    assert python(code) == "limitlab.sweep.storage.store limitlab.sweep.run verb"
    first = "import limitlab.sweep.run, limitlab.plot, limitlab as ll; print(ll.sweep.__name__, ll.plot.__name__)"
    assert python(first) == "sweep plot"
    assert pickle.loads(pickle.dumps(ll.sweep)) is ll.sweep


def test_the_package_loads_nothing_but_jax():
    code = """
import sys, limitlab, jax
heavy = "matplotlib typer scipy.stats scipy.optimize sklearn xarray diffrax equinox ot distributed".split()
print([m for m in heavy if m in sys.modules], sorted(m for m in sys.modules if m.startswith("limitlab")))
print(jax.config.jax_enable_x64)
"""
    assert python(code).splitlines() == ["[] ['limitlab', 'limitlab._lazy', 'limitlab._setup']", "True"]


def test_the_verbs_load_no_figures_and_no_command_line():
    code = """
import sys, limitlab as ll
ll.simulate, ll.predict, ll.sweep, ll.plot
print([m for m in "matplotlib typer scipy.stats sklearn".split() if m in sys.modules])
"""
    assert python(code) == "[]"


def test_lower_bounds_are_plain_and_met_here():
    """`lowest.py` prints them for pip; what was tried with them is in its docstring."""
    for name, version in bounds(("parquet", "slurm", "transport", "test")).items():
        assert as_numbers(version), name
    for name, version in bounds().items():
        here = re.match(r"[0-9.]+[0-9]", importlib.metadata.version(name))
        assert here is not None
        assert as_numbers(here[0]) >= as_numbers(version), name
    assert constraints()[0].startswith("jax==")
    assert as_numbers(bounds()["scipy"]) >= (1, 15)  # the first whose Sobol takes rng


def test_type_checkers_and_references_come_with_the_package():
    package = Path(ll.__file__).parent
    assert (package / "py.typed").exists()
    assert (package / "references.bib").exists()
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    pages = wheel.pop("force-include")
    assert wheel == {"packages": ["src/limitlab"]}  # whole folders: nothing is left out
    assert all((ROOT / page).exists() and page.startswith("docs/") for page in pages)  # what the explorer shows
    assert set(pages.values()) == {f"limitlab/explorer/{page}" for page in pages}
