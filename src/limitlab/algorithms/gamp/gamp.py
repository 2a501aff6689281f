"""Generalised approximate message passing."""

from typing import ClassVar

from limitlab.algorithms.gamp.matrix import matrix_memory, run_matrix
from limitlab.algorithms.gamp.trajectories import gamp_memory, run_gamp
from limitlab.algorithms.settings.fixed_data import GLM
from limitlab.algorithms.settings.multi_index import MultiGLM, several
from limitlab.modules import field
from limitlab.numerics.checks import check_choice, check_integer, check_number
from limitlab.numerics.machine import Memory
from limitlab.numerics.trees import plain
from limitlab.problems.base import AbstractAlgorithm
from limitlab.states.request import Request, Seen

__all__ = ["GAMP"]


class GAMP(AbstractAlgorithm):
    r"""Generalised approximate message passing on a fixed data set. Clock: one iteration.

    .. math::
        \omega = X a - V g_{\rm old}, \quad g = g_{\rm out}(y, \omega, V), \quad
        A = -\alpha \langle \partial_\omega g \rangle, \quad B = A a + X^T g, \quad
        (a, v) \leftarrow (f_a, f_v)(A, B), \quad V = \langle v \rangle

    with the posterior mean and variance f_a, f_v of the prior and the output function g_out of the channel. On a
    `MultiIndex` teacher a has a column for every direction, and V and A are matrices (A = alpha <g g^T>); without a
    start the columns begin small, random and different, since equal ones would stay equal.

    Parameters
    ----------
    damping
        Share of the old (a, v) kept at each iteration. With damping the fixed points stay the same, but single
        iterations no longer follow state evolution.
    iterations
        How many iterations are made at most.
    tolerance
        Converged when :math:`|f_a - a| \le` tolerance :math:`|f_a|`.
    variances
        "scalar": one V and one A, as above; what state evolution describes. "vector": one for each sample and weight,
        :math:`V_\mu = \sum_i X_{\mu i}^2 v_i` and :math:`A_i = -\sum_\mu X_{\mu i}^2 \partial_\omega g_\mu`, for
        columns of unequal size; twice the work and memory.
    precision
        "float64" or "float32": the type of X and of the products with it in `simulate`; all else is float64.
    """

    axis: ClassVar[str] = "iteration"
    in_portions: ClassVar[bool] = True
    takes: ClassVar[str] = "a fixed data set"
    clock_words: ClassVar[str] = "iteration"
    reference: ClassVar[tuple[str, ...]] = ("rangan2011generalized",)

    damping: float = 0.0
    iterations: int = field(static=True, converter=plain, default=50)
    tolerance: float = 1e-6
    variances: str = field(static=True, default="scalar")
    precision: str = field(static=True, default="float64")

    def __check_init__(self):
        check_number("GAMP", "damping", self.damping, low=0, high=1, open_high=True, remedy="Use 0 <= damping < 1.")
        check_integer("GAMP", "iterations", self.iterations, low=1, remedy="Ask for at least one iteration.")
        check_number("GAMP", "tolerance", self.tolerance, low=0, remedy="It is a relative change, such as 1e-6.")
        check_choice("GAMP", "variances", self.variances, ("scalar", "vector"))
        check_choice("GAMP", "precision", self.precision, ("float64", "float32"))

    def usual_limit(self, problem):
        return "StateEvolution"

    def setting(self, problem, asked) -> GLM | MultiGLM:
        return MultiGLM.to_simulate(problem, asked) if several(problem) else GLM.to_simulate(problem, asked)

    def memory(self, setting: GLM | MultiGLM, asked: Request) -> Memory:
        if isinstance(setting, MultiGLM):
            return matrix_memory(setting, self, asked)
        return gamp_memory(setting, self, asked)

    def run(self, setting: GLM | MultiGLM, asked: Request) -> Seen:
        if isinstance(setting, MultiGLM):
            return run_matrix(setting, self, asked)
        return run_gamp(setting, self, asked)

    def fit(self, X, y, *, prior, channel, start=None, seed: int = 0):
        """Run on arrays that you bring: X (samples, features) and labels y; returns a fitted `GAMPEstimator`.

        X is used as given, z = X w, and keeps its type (float32 stays float32). ``start`` is None (the prior mean),
        ``SpectralStart()`` or ``RandomStart(scale)``; ``seed`` is for the latter two.
        """
        from limitlab.algorithms.gamp.estimator import GAMPEstimator  # scikit-learn is slow to import

        estimator = GAMPEstimator(
            prior=prior,
            channel=channel,
            damping=self.damping,
            iterations=self.iterations,
            tolerance=self.tolerance,
            variances=self.variances,
            start=start,
            seed=seed,
        )
        return estimator.fit(X, y)
