"""limitlab: a laboratory for learning in high dimension.

Describe a learning problem once; ``simulate`` it at finite size, ``predict`` it in every limit whose theory is known,
and ``compare`` the two with error bars.
"""

from limitlab._setup import configure_jax

configure_jax()

from limitlab import errors  # noqa: E402
from limitlab.analysis.escape import (  # noqa: E402
    ExitTime,
    asymptotic_risk,
    critical_learning_rate,
    exit_time,
    measured_exit_time,
    optimal_learning_rate,
    overparametrisation_gain,
)
from limitlab.analysis.global_minimum import (  # noqa: E402
    CriticalDelta,
    GlobalMinimum,
    critical_delta,
    global_minimum,
)
from limitlab.analysis.hermite import (  # noqa: E402
    hermite_coefficients,
    information_exponent,
    sample_complexity_class,
)
from limitlab.analysis.hermite_leap import HermiteLeap, hermite_leap  # noqa: E402
from limitlab.analysis.landscape import free_entropy  # noqa: E402
from limitlab.analysis.measures import (  # noqa: E402
    Measure,
    OptimalityGap,
    Potentials,
    finite_width,
    optimality_gap,
    potentials,
)
from limitlab.analysis.penalty import OptimalPenalty, optimal_penalty, separability_threshold  # noqa: E402
from limitlab.analysis.phases import phase_diagram  # noqa: E402
from limitlab.analysis.regime import regime, regime_diagram, regime_of  # noqa: E402
from limitlab.analysis.staircase import Staircase, staircase  # noqa: E402
from limitlab.analysis.stationary import radial_density, stationary_law  # noqa: E402
from limitlab.analysis.success import success_rate  # noqa: E402
from limitlab.analysis.thresholds import Thresholds, thresholds  # noqa: E402
from limitlab.analysis.uniqueness import Uniqueness, uniqueness  # noqa: E402
from limitlab.analysis.wasserstein import wasserstein  # noqa: E402
from limitlab.cite import cite  # noqa: E402
from limitlab.errors import (  # noqa: E402
    AccuracyWarning,
    ConvergenceError,
    EngineError,
    InputError,
    LimitlabError,
    LimitUndefinedError,
    ResultFileError,
    SpecError,
)
from limitlab.macro.bayes_optimal import BayesOptimal  # noqa: E402
from limitlab.macro.dimension_free import DimensionFree  # noqa: E402
from limitlab.macro.dmft import DMFT  # noqa: E402
from limitlab.macro.dmft_state import DMFTState  # noqa: E402
from limitlab.macro.erm_asymptotics import ERMAsymptotics  # noqa: E402
from limitlab.macro.high_dim_mean_field import HighDimMeanField  # noqa: E402
from limitlab.macro.limit import AbstractLimit  # noqa: E402
from limitlab.macro.linear_noise import linear_noise  # noqa: E402
from limitlab.macro.matrix_flow import MatrixFlow  # noqa: E402
from limitlab.macro.mean_field import MeanField  # noqa: E402
from limitlab.macro.overlap_ode import OverlapODE  # noqa: E402
from limitlab.macro.overlap_sde import OverlapSDE  # noqa: E402
from limitlab.macro.predict import limits, predict  # noqa: E402
from limitlab.macro.radial_flow import RadialFlow  # noqa: E402
from limitlab.macro.state_evolution import StateEvolution  # noqa: E402
from limitlab.micro.kernel_ridge import kernel_ridge  # noqa: E402
from limitlab.micro.simulate import simulate  # noqa: E402
from limitlab.plot import plot  # noqa: E402
from limitlab.problems import library  # noqa: E402
from limitlab.problems.activations import Activation, activation, hermite, piecewise, shifted  # noqa: E402
from limitlab.problems.algorithm import (  # noqa: E402
    ERM,
    GAMP,
    LayerwiseSGD,
    OnlineSGD,
)
from limitlab.problems.channels import (  # noqa: E402
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
from limitlab.problems.descent import (  # noqa: E402
    GradientDescent,
    Langevin,
    PersistentSGD,
    StochasticGD,
)
from limitlab.problems.inputs import (  # noqa: E402
    AnisotropicMixture,
    CustomInputs,
    Gaussian,
    Hypercube,
    IsotropicMixture,
)
from limitlab.problems.losses import (  # noqa: E402
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
from limitlab.problems.networks import Committee, SingleIndex  # noqa: E402
from limitlab.problems.priors import (  # noqa: E402
    GaussBernoulliPrior,
    GaussianPrior,
    LaplacePrior,
    RademacherPrior,
)
from limitlab.problems.problem import Problem  # noqa: E402
from limitlab.problems.representable import RepresentationWarning  # noqa: E402
from limitlab.problems.schedules import CustomSchedule, PowerSchedule  # noqa: E402
from limitlab.problems.starts import InformedStart, OverlapStart, RandomStart, SpectralStart  # noqa: E402
from limitlab.problems.targets import SparseTarget  # noqa: E402
from limitlab.results.compare import Comparison, compare  # noqa: E402
from limitlab.results.store import load, save  # noqa: E402
from limitlab.spec import load_spec, save_spec, spec_hash  # noqa: E402
from limitlab.states import Overlaps, Weights, measure, risk  # noqa: E402
from limitlab.sweep import Refinement, Store, refine, sweep  # noqa: E402

__version__ = "0.1.0"


def __getattr__(name: str):
    """scikit-learn is slow to import: only when its estimator is asked for."""
    if name == "GAMPEstimator":
        from limitlab.micro.estimator import GAMPEstimator

        return GAMPEstimator
    raise AttributeError(f"module 'limitlab' has no attribute {name!r}")


__all__ = [
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
