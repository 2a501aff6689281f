# ruff: noqa: E402
"""limitlab: a laboratory for learning in high dimension.

Describe a learning problem once; ``simulate`` it at finite size, ``predict`` it in every limit whose theory is known,
and ``compare`` the two with error bars.
"""

from limitlab._setup import configure_jax

configure_jax()

from limitlab import (
    errors,
    library,
)
from limitlab.algorithms.descent.gradient_descent import GradientDescent
from limitlab.algorithms.descent.langevin import Langevin
from limitlab.algorithms.descent.persistent_sgd import PersistentSGD
from limitlab.algorithms.descent.stochastic_gd import StochasticGD
from limitlab.algorithms.erm import ERM
from limitlab.algorithms.gamp.gamp import GAMP
from limitlab.algorithms.one_pass.adam import Adam
from limitlab.algorithms.one_pass.layerwise_sgd import LayerwiseSGD
from limitlab.algorithms.one_pass.momentum import Momentum
from limitlab.algorithms.one_pass.online_sgd import OnlineSGD
from limitlab.algorithms.one_pass.schedules import CustomSchedule, PowerSchedule
from limitlab.analysis.exits.exit_time import (
    ExitTime,
    asymptotic_risk,
    critical_learning_rate,
    exit_time,
    measured_exit_time,
    optimal_learning_rate,
    overparametrisation_gain,
)
from limitlab.analysis.hermite import (
    hermite_coefficients,
    information_exponent,
    sample_complexity_class,
)
from limitlab.analysis.linear.landscape import free_entropy
from limitlab.analysis.linear.penalty import OptimalPenalty, optimal_penalty, separability_threshold
from limitlab.analysis.linear.phases import phase_diagram
from limitlab.analysis.linear.thresholds import Thresholds, thresholds
from limitlab.analysis.mixtures.global_minimum import (
    CriticalDelta,
    GlobalMinimum,
    critical_delta,
    global_minimum,
)
from limitlab.analysis.mixtures.measures import (
    Measure,
    OptimalityGap,
    Potentials,
    finite_width,
    optimality_gap,
    potentials,
)
from limitlab.analysis.mixtures.stationary import radial_density, stationary_law
from limitlab.analysis.mixtures.wasserstein import wasserstein
from limitlab.analysis.regime import regime, regime_diagram, regime_of
from limitlab.analysis.sparse.hermite_leap import HermiteLeap, hermite_leap
from limitlab.analysis.sparse.staircase import Staircase, staircase
from limitlab.analysis.success import success_rate
from limitlab.analysis.uniqueness import Uniqueness, uniqueness
from limitlab.cite import cite
from limitlab.errors import (
    AccuracyWarning,
    ConvergenceError,
    EngineError,
    InputError,
    LimitlabError,
    LimitUndefinedError,
    ResultFileError,
    SpecError,
)
from limitlab.macro.bayes.bayes_optimal import BayesOptimal
from limitlab.macro.bayes.state_evolution import StateEvolution
from limitlab.macro.committees.high_dim_mean_field import HighDimMeanField
from limitlab.macro.dmft.dmft import DMFT
from limitlab.macro.dmft.state import DMFTState
from limitlab.macro.erm.erm_asymptotics import ERMAsymptotics
from limitlab.macro.limit import AbstractLimit
from limitlab.macro.mean_field import MeanField
from limitlab.macro.mixtures.radial_flow import RadialFlow
from limitlab.macro.overlaps.linear_noise import linear_noise
from limitlab.macro.overlaps.overlap_ode import OverlapODE
from limitlab.macro.overlaps.overlap_sde import OverlapSDE
from limitlab.macro.predict import limits, predict
from limitlab.macro.sparse.dimension_free import DimensionFree
from limitlab.macro.wide.matrix_flow import MatrixFlow
from limitlab.micro.kernel_ridge import kernel_ridge
from limitlab.micro.simulate import simulate
from limitlab.plot import plot
from limitlab.problems.activations.base import Activation, activation, hermite, piecewise, shifted
from limitlab.problems.channels import (
    CustomBinary,
    CustomChannel,
    Door,
    GaussianNoise,
    Logistic,
    Modulus,
    Rectified,
    Sign,
    SquaredModulus,
)
from limitlab.problems.inputs import (
    AnisotropicMixture,
    CustomInputs,
    Gaussian,
    Hypercube,
    IsotropicMixture,
)
from limitlab.problems.losses import (
    AmplitudeLoss,
    CustomLoss,
    HingeLoss,
    HuberLoss,
    LogisticLoss,
    MaxMargin,
    PhaseRetrievalLoss,
    PseudoHuberLoss,
    SquaredHingeLoss,
    SquareLoss,
)
from limitlab.problems.networks import Committee, SingleIndex
from limitlab.problems.priors import (
    GaussBernoulliPrior,
    GaussianPrior,
    LaplacePrior,
    RademacherPrior,
)
from limitlab.problems.problem import Problem
from limitlab.problems.sparse.representable import RepresentationWarning
from limitlab.problems.sparse.target import SparseTarget
from limitlab.problems.starts import InformedStart, OverlapStart, RandomStart, SpectralStart
from limitlab.results.compare import Comparison, compare
from limitlab.results.files import load, save
from limitlab.spec import load_spec, save_spec, spec_hash
from limitlab.states.overlaps import Overlaps, Weights, measure, risk
from limitlab.sweep import Refinement, Store, refine, sweep

__version__ = "0.1.0"


def __getattr__(name: str):
    """scikit-learn is slow to import: only when its estimator is asked for."""
    if name == "GAMPEstimator":
        from limitlab.algorithms.gamp.estimator import GAMPEstimator

        return GAMPEstimator
    raise AttributeError(f"module 'limitlab' has no attribute {name!r}")


__all__ = [
    "Adam",
    "Momentum",
    "AbstractLimit",
    "AccuracyWarning",
    "Activation",
    "AmplitudeLoss",
    "AnisotropicMixture",
    "BayesOptimal",
    "Committee",
    "Comparison",
    "ConvergenceError",
    "CriticalDelta",
    "CustomBinary",
    "CustomChannel",
    "CustomInputs",
    "CustomLoss",
    "CustomSchedule",
    "DMFT",
    "DMFTState",
    "DimensionFree",
    "Door",
    "ERM",
    "ERMAsymptotics",
    "EngineError",
    "ExitTime",
    "GAMP",
    "GAMPEstimator",
    "GaussBernoulliPrior",
    "Gaussian",
    "GaussianNoise",
    "GaussianPrior",
    "GlobalMinimum",
    "GradientDescent",
    "HermiteLeap",
    "HighDimMeanField",
    "HingeLoss",
    "HuberLoss",
    "Hypercube",
    "InformedStart",
    "InputError",
    "IsotropicMixture",
    "Langevin",
    "LaplacePrior",
    "LayerwiseSGD",
    "LimitUndefinedError",
    "LimitlabError",
    "Logistic",
    "LogisticLoss",
    "MatrixFlow",
    "MaxMargin",
    "MeanField",
    "Measure",
    "Modulus",
    "OnlineSGD",
    "OptimalPenalty",
    "OptimalityGap",
    "OverlapODE",
    "OverlapSDE",
    "OverlapStart",
    "Overlaps",
    "PersistentSGD",
    "PhaseRetrievalLoss",
    "Potentials",
    "PowerSchedule",
    "Problem",
    "PseudoHuberLoss",
    "RademacherPrior",
    "RadialFlow",
    "RandomStart",
    "Rectified",
    "Refinement",
    "RepresentationWarning",
    "ResultFileError",
    "Sign",
    "SingleIndex",
    "SparseTarget",
    "SpecError",
    "SpectralStart",
    "SquareLoss",
    "SquaredHingeLoss",
    "SquaredModulus",
    "Staircase",
    "StateEvolution",
    "StochasticGD",
    "Store",
    "Thresholds",
    "Uniqueness",
    "Weights",
    "activation",
    "asymptotic_risk",
    "cite",
    "compare",
    "critical_delta",
    "critical_learning_rate",
    "errors",
    "exit_time",
    "finite_width",
    "free_entropy",
    "global_minimum",
    "hermite",
    "hermite_coefficients",
    "hermite_leap",
    "information_exponent",
    "kernel_ridge",
    "library",
    "limits",
    "linear_noise",
    "load",
    "load_spec",
    "measure",
    "measured_exit_time",
    "optimal_learning_rate",
    "optimal_penalty",
    "optimality_gap",
    "overparametrisation_gain",
    "phase_diagram",
    "piecewise",
    "plot",
    "potentials",
    "predict",
    "radial_density",
    "refine",
    "regime",
    "regime_diagram",
    "regime_of",
    "risk",
    "sample_complexity_class",
    "save",
    "save_spec",
    "separability_threshold",
    "shifted",
    "simulate",
    "spec_hash",
    "staircase",
    "stationary_law",
    "success_rate",
    "sweep",
    "thresholds",
    "uniqueness",
    "wasserstein",
]
