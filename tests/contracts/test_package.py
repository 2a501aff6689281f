"""The frame: arrows, names, rates and references."""

import subprocess
import sys
from pathlib import Path

import pytest

import limitlab as ll
from limitlab.cite import references
from limitlab.macro.predict import LIMITS

ROOT = Path(__file__).parents[2]


def test_imports_go_one_way():
    code = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 kept" in done.stdout


NAMES = """
Problem Gaussian Hypercube IsotropicMixture AnisotropicMixture Committee SingleIndex hermite shifted piecewise
GaussianPrior RademacherPrior GaussBernoulliPrior LaplacePrior GaussianNoise Sign Modulus SquaredModulus Rectified
Logistic Door SquareLoss LogisticLoss HingeLoss MaxMargin PhaseRetrievalLoss RandomStart OverlapStart InformedStart
OnlineSGD GradientDescent StochasticGD PersistentSGD Langevin GAMP ERM OverlapODE OverlapSDE HighDimMeanField
simulate predict compare plot limits sweep cite hermite_coefficients information_exponent exit_time
optimal_learning_rate measured_exit_time MatrixFlow uniqueness DMFT DMFTState success_rate
AmplitudeLoss SquaredHingeLoss
""".split()


@pytest.mark.parametrize("name", NAMES)
def test_public_name_exists_and_is_documented(name):
    value = getattr(ll, name)
    assert callable(value)
    assert value.__doc__
    assert name in ll.__all__


@pytest.mark.parametrize("name", LIMITS)
def test_limits_declare_rate_and_reference(name):
    limit = LIMITS[name]()
    assert limit.reference in references()
    assert limit.rate
    assert all(exponent < 0 for exponent in limit.rate.values())


def test_verbs_stay_functions_after_their_modules_are_imported():

    assert callable(ll.plot)
    assert callable(ll.sweep)


def test_heavy_libraries_are_not_imported_with_the_package():
    code = "import sys, limitlab; print([m for m in ('matplotlib', 'typer', 'scipy.stats') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
