"""limitlab: a laboratory for learning in high dimension.

Describe a learning problem once; ``simulate`` it at finite size, ``predict`` it in every limit whose theory is known,
and ``compare`` the two with error bars.

Parts, rules, limits and verbs are here; rarer questions and the records that answer them in ``limitlab.analysis``, what
can go wrong in ``limitlab.errors``, the papers' own problems in ``limitlab.library``. Parts of your own are made of
``limitlab.extending`` and checked by ``limitlab.testing``.
"""

from typing import TYPE_CHECKING

from limitlab._lazy import namespace
from limitlab._setup import configure_jax

configure_jax()

__version__ = "0.2.0"

if TYPE_CHECKING:  # the public names, each once: type checkers import them, `namespace` reads where they are
    from limitlab import analysis as analysis
    from limitlab import errors as errors
    from limitlab import extending as extending
    from limitlab import library as library
    from limitlab import testing as testing
    from limitlab.algorithms.descent.gradient_descent import GradientDescent as GradientDescent
    from limitlab.algorithms.descent.langevin import Langevin as Langevin
    from limitlab.algorithms.descent.persistent_sgd import PersistentSGD as PersistentSGD
    from limitlab.algorithms.descent.stochastic_gd import StochasticGD as StochasticGD
    from limitlab.algorithms.erm import ERM as ERM
    from limitlab.algorithms.gamp.estimator import GAMPEstimator as GAMPEstimator
    from limitlab.algorithms.gamp.gamp import GAMP as GAMP
    from limitlab.algorithms.one_pass.adam import Adam as Adam
    from limitlab.algorithms.one_pass.layerwise_sgd import LayerwiseSGD as LayerwiseSGD
    from limitlab.algorithms.one_pass.momentum import Momentum as Momentum
    from limitlab.algorithms.one_pass.online_sgd import OnlineSGD as OnlineSGD
    from limitlab.algorithms.one_pass.schedules import CustomSchedule as CustomSchedule
    from limitlab.algorithms.one_pass.schedules import PowerSchedule as PowerSchedule
    from limitlab.analysis.exits.exit_time import exit_time as exit_time
    from limitlab.analysis.exits.rates import optimal_learning_rate as optimal_learning_rate
    from limitlab.analysis.hermite import hermite_coefficients as hermite_coefficients
    from limitlab.analysis.hermite import information_exponent as information_exponent
    from limitlab.analysis.linear.landscape import free_entropy as free_entropy
    from limitlab.analysis.linear.penalty import optimal_penalty as optimal_penalty
    from limitlab.analysis.linear.penalty import separability_threshold as separability_threshold
    from limitlab.analysis.linear.thresholds import thresholds as thresholds
    from limitlab.analysis.mixtures.wasserstein import wasserstein as wasserstein
    from limitlab.analysis.multi.exponents import generative_exponent as generative_exponent
    from limitlab.analysis.scaling import scaling_law as scaling_law
    from limitlab.analysis.sparse.staircase import staircase as staircase
    from limitlab.analysis.success import success_rate as success_rate
    from limitlab.analysis.uniqueness import uniqueness as uniqueness
    from limitlab.cite import cite as cite
    from limitlab.data.learning_curve import learning_curve as learning_curve
    from limitlab.data.pool import Pool as Pool
    from limitlab.gallery import run as run
    from limitlab.macro.bayes.bayes_optimal import BayesOptimal as BayesOptimal
    from limitlab.macro.bayes.state_evolution import StateEvolution as StateEvolution
    from limitlab.macro.committees.high_dim_mean_field import HighDimMeanField as HighDimMeanField
    from limitlab.macro.dmft.dmft import DMFT as DMFT
    from limitlab.macro.erm.erm_asymptotics import ERMAsymptotics as ERMAsymptotics
    from limitlab.macro.limit import AbstractLimit as AbstractLimit
    from limitlab.macro.mean_field import MeanField as MeanField
    from limitlab.macro.mixtures.radial_flow import RadialFlow as RadialFlow
    from limitlab.macro.overlaps.overlap_ode import OverlapODE as OverlapODE
    from limitlab.macro.overlaps.overlap_sde import OverlapSDE as OverlapSDE
    from limitlab.macro.predict import limits as limits
    from limitlab.macro.predict import predict as predict
    from limitlab.macro.sparse.dimension_free import DimensionFree as DimensionFree
    from limitlab.macro.wide.matrix_flow import MatrixFlow as MatrixFlow
    from limitlab.micro.simulate import simulate as simulate
    from limitlab.plot import plot as plot
    from limitlab.problems.activations import Activation as Activation
    from limitlab.problems.activations import activation as activation
    from limitlab.problems.activations import hermite as hermite
    from limitlab.problems.activations import piecewise as piecewise
    from limitlab.problems.activations import shifted as shifted
    from limitlab.problems.base import AbstractAlgorithm as AbstractAlgorithm
    from limitlab.problems.base import AbstractInputs as AbstractInputs
    from limitlab.problems.base import AbstractStudent as AbstractStudent
    from limitlab.problems.base import AbstractTeacher as AbstractTeacher
    from limitlab.problems.channels import AbstractChannel as AbstractChannel
    from limitlab.problems.channels import CustomBinary as CustomBinary
    from limitlab.problems.channels import CustomChannel as CustomChannel
    from limitlab.problems.channels import Door as Door
    from limitlab.problems.channels import GaussianNoise as GaussianNoise
    from limitlab.problems.channels import Logistic as Logistic
    from limitlab.problems.channels import Modulus as Modulus
    from limitlab.problems.channels import Rectified as Rectified
    from limitlab.problems.channels import Sign as Sign
    from limitlab.problems.channels import SquaredModulus as SquaredModulus
    from limitlab.problems.inputs import AnisotropicMixture as AnisotropicMixture
    from limitlab.problems.inputs import CustomInputs as CustomInputs
    from limitlab.problems.inputs import Gaussian as Gaussian
    from limitlab.problems.inputs import Hypercube as Hypercube
    from limitlab.problems.inputs import IsotropicMixture as IsotropicMixture
    from limitlab.problems.inputs import MarchenkoPastur as MarchenkoPastur
    from limitlab.problems.inputs import PowerLaw as PowerLaw
    from limitlab.problems.inputs import Spectrum as Spectrum
    from limitlab.problems.losses import AbstractLoss as AbstractLoss
    from limitlab.problems.losses import AmplitudeLoss as AmplitudeLoss
    from limitlab.problems.losses import CustomLoss as CustomLoss
    from limitlab.problems.losses import HingeLoss as HingeLoss
    from limitlab.problems.losses import HuberLoss as HuberLoss
    from limitlab.problems.losses import LogisticLoss as LogisticLoss
    from limitlab.problems.losses import MaxMargin as MaxMargin
    from limitlab.problems.losses import PhaseRetrievalLoss as PhaseRetrievalLoss
    from limitlab.problems.losses import PseudoHuberLoss as PseudoHuberLoss
    from limitlab.problems.losses import SquaredHingeLoss as SquaredHingeLoss
    from limitlab.problems.losses import SquareLoss as SquareLoss
    from limitlab.problems.networks import Committee as Committee
    from limitlab.problems.networks import MultiIndex as MultiIndex
    from limitlab.problems.networks import RandomFeatures as RandomFeatures
    from limitlab.problems.networks import SingleIndex as SingleIndex
    from limitlab.problems.priors import AbstractPrior as AbstractPrior
    from limitlab.problems.priors import GaussBernoulliPrior as GaussBernoulliPrior
    from limitlab.problems.priors import GaussianPrior as GaussianPrior
    from limitlab.problems.priors import LaplacePrior as LaplacePrior
    from limitlab.problems.priors import RademacherPrior as RademacherPrior
    from limitlab.problems.problem import Problem as Problem
    from limitlab.problems.sparse.target import SparseTarget as SparseTarget
    from limitlab.problems.starts import AbstractStart as AbstractStart
    from limitlab.problems.starts import InformedStart as InformedStart
    from limitlab.problems.starts import OverlapStart as OverlapStart
    from limitlab.problems.starts import RandomStart as RandomStart
    from limitlab.problems.starts import SpectralStart as SpectralStart
    from limitlab.results.compare import compare as compare
    from limitlab.results.files import load as load
    from limitlab.results.files import save as save
    from limitlab.spec import load_spec as load_spec
    from limitlab.spec import save_spec as save_spec
    from limitlab.spec import spec_hash as spec_hash
    from limitlab.states.overlaps import Overlaps as Overlaps
    from limitlab.states.overlaps import Weights as Weights
    from limitlab.states.overlaps import measure as measure
    from limitlab.states.overlaps import risk as risk
    from limitlab.sweep.refining.refine import refine as refine
    from limitlab.sweep.run import sweep as sweep
    from limitlab.sweep.storage.store import Store as Store
else:
    __getattr__, __dir__, __all__ = namespace(
        __name__,
        moved={
            "limitlab.analysis": (
                "Comparison CriticalDelta DMFTState ExitTime GlobalMinimum HermiteLeap Measure OptimalPenalty "
                "OptimalityGap Potentials Refinement Staircase Thresholds Uniqueness asymptotic_risk "
                "critical_delta critical_learning_rate finite_width global_minimum hermite_leap kernel_ridge "
                "linear_noise measured_exit_time optimality_gap overparametrisation_gain phase_diagram "
                "potentials radial_density regime regime_diagram regime_of sample_complexity_class "
                "stationary_law"
            ),
            "limitlab.errors": (
                "AccuracyWarning ConvergenceError EngineError InputError LimitUndefinedError LimitlabError "
                "RepresentationWarning ResultFileError SpecError"
            ),
        },
    )
