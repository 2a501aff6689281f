"""Questions about a problem that are neither a simulation nor a prediction, and the records that answer them."""

from typing import TYPE_CHECKING

from limitlab._lazy import namespace

if TYPE_CHECKING:  # the public names, each once: type checkers import them, `namespace` reads where they are
    from limitlab.analysis.exits.exit_time import exit_time as exit_time
    from limitlab.analysis.exits.floor import asymptotic_risk as asymptotic_risk
    from limitlab.analysis.exits.formulas import Plateau as Plateau
    from limitlab.analysis.exits.formulas import plateau as plateau
    from limitlab.analysis.exits.measured import measured_exit_time as measured_exit_time
    from limitlab.analysis.exits.rates import critical_learning_rate as critical_learning_rate
    from limitlab.analysis.exits.rates import optimal_learning_rate as optimal_learning_rate
    from limitlab.analysis.exits.rates import overparametrisation_gain as overparametrisation_gain
    from limitlab.analysis.exits.result import ExitTime as ExitTime
    from limitlab.analysis.hermite import hermite_coefficients as hermite_coefficients
    from limitlab.analysis.hermite import information_exponent as information_exponent
    from limitlab.analysis.hermite import sample_complexity_class as sample_complexity_class
    from limitlab.analysis.linear.landscape import fixed_points as fixed_points
    from limitlab.analysis.linear.landscape import free_entropy as free_entropy
    from limitlab.analysis.linear.penalty import OptimalPenalty as OptimalPenalty
    from limitlab.analysis.linear.penalty import optimal_penalty as optimal_penalty
    from limitlab.analysis.linear.penalty import separability_threshold as separability_threshold
    from limitlab.analysis.linear.phases import phase_diagram as phase_diagram
    from limitlab.analysis.linear.thresholds import Thresholds as Thresholds
    from limitlab.analysis.linear.thresholds import thresholds as thresholds
    from limitlab.analysis.mixtures.global_minimum import CriticalDelta as CriticalDelta
    from limitlab.analysis.mixtures.global_minimum import GlobalMinimum as GlobalMinimum
    from limitlab.analysis.mixtures.global_minimum import critical_delta as critical_delta
    from limitlab.analysis.mixtures.global_minimum import global_minimum as global_minimum
    from limitlab.analysis.mixtures.measures import Measure as Measure
    from limitlab.analysis.mixtures.measures import OptimalityGap as OptimalityGap
    from limitlab.analysis.mixtures.measures import Potentials as Potentials
    from limitlab.analysis.mixtures.measures import finite_width as finite_width
    from limitlab.analysis.mixtures.measures import optimality_gap as optimality_gap
    from limitlab.analysis.mixtures.measures import potentials as potentials
    from limitlab.analysis.mixtures.stationary import radial_density as radial_density
    from limitlab.analysis.mixtures.stationary import stationary_law as stationary_law
    from limitlab.analysis.mixtures.wasserstein import wasserstein as wasserstein
    from limitlab.analysis.multi.exponents import GenerativeExponent as GenerativeExponent
    from limitlab.analysis.multi.exponents import generative_exponent as generative_exponent
    from limitlab.analysis.multi.thresholds import MultiThresholds as MultiThresholds
    from limitlab.analysis.multi.thresholds import Stage as Stage
    from limitlab.analysis.regime import regime as regime
    from limitlab.analysis.regime import regime_diagram as regime_diagram
    from limitlab.analysis.regime import regime_of as regime_of
    from limitlab.analysis.scaling import ScalingLaw as ScalingLaw
    from limitlab.analysis.scaling import scaling_law as scaling_law
    from limitlab.analysis.sparse.hermite_leap import HermiteLeap as HermiteLeap
    from limitlab.analysis.sparse.hermite_leap import hermite_leap as hermite_leap
    from limitlab.analysis.sparse.staircase import Staircase as Staircase
    from limitlab.analysis.sparse.staircase import staircase as staircase
    from limitlab.analysis.success import success_rate as success_rate
    from limitlab.analysis.success import wilson as wilson
    from limitlab.analysis.uniqueness import Uniqueness as Uniqueness
    from limitlab.analysis.uniqueness import uniqueness as uniqueness
    from limitlab.data.curve import LearningCurve as LearningCurve
    from limitlab.macro.dmft.state import DMFTState as DMFTState
    from limitlab.macro.overlaps.linear_noise import linear_noise as linear_noise
    from limitlab.micro.kernel_ridge import kernel_ridge as kernel_ridge
    from limitlab.results.comparison import Comparison as Comparison
    from limitlab.results.schema import dataset as dataset
    from limitlab.sweep.refining.result import Refinement as Refinement
else:
    __getattr__, __dir__, __all__ = namespace(__name__)
