r"""The best that anyone can do with n = alpha d samples of a generalised linear model."""

import math
from typing import Any, ClassVar

import jax
import numpy as np

from limitlab.algorithms.settings.fixed_data import GLM, at_ratio
from limitlab.algorithms.settings.multi_index import MultiGLM, several
from limitlab.errors import InputError
from limitlab.macro.bayes.fixed_points import FixedPoint, bayes_states, curve
from limitlab.macro.limit import AbstractLimit
from limitlab.macro.multi.report import bayes_matrix, check_bins, matrix_setting
from limitlab.modules import field, filter_jit
from limitlab.numerics.machine import relieve
from limitlab.numerics.shapes import filled
from limitlab.numerics.trees import plain, traced
from limitlab.problems.asked import Asked
from limitlab.problems.channels import AbstractChannel
from limitlab.problems.problem import Problem
from limitlab.results.schema import dataset
from limitlab.states.direction import Belief, MatrixBelief
from limitlab.states.overlaps import Overlaps
from limitlab.states.run import Run
from limitlab.states.view import Variable, assembled

__all__ = ["BayesOptimal", "label_errors", "positive_list"]


@filter_jit
def _errors(channel: AbstractChannel, m: Any, V: Any) -> tuple[jax.Array, jax.Array]:
    def one(pair):
        m, V = pair
        mse = channel.label_mse(m, V)
        return mse, channel.least_error(m, V) if channel.labels == "binary" else mse

    return jax.lax.map(one, (m, V))


def label_errors(channel: AbstractChannel, m, V) -> tuple[np.ndarray, np.ndarray]:
    """Mean-square error on a new label, and the error in the sense of the channel (wrong signs for binary labels)."""
    m, V = (np.atleast_1d(np.asarray(x, float)) for x in (m, V))
    room = 1 << (len(m) - 1).bit_length()  # few shapes
    mse, error = _errors(traced(channel), filled(m, room), filled(np.maximum(V, 1e-26), room))
    return np.asarray(mse)[: len(m)], np.asarray(error)[: len(m)]


def positive_list(by: str, name: str, values: Any, strict: bool) -> np.ndarray:
    """A one-dimensional array of finite numbers > 0 (>= 0 if not ``strict``), or `InputError`."""
    try:
        array = np.atleast_1d(np.asarray(values, dtype=float))
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{by}: {name} must be a list of numbers; got {values!r}.") from None
    low = float(np.min(array, initial=math.inf))
    if array.ndim != 1 or array.size == 0 or not np.all(np.isfinite(array)) or low < 0 or (strict and low == 0):
        needed = "> 0" if strict else ">= 0"
        raise InputError(f"{by}: {name} must be a non-empty list of finite numbers {needed}; got {values!r}.")
    return array


class BayesOptimal(AbstractLimit):
    r"""The Bayes-optimal estimate of a single-index teacher from alpha d samples, as d goes to infinity.

    .. math:: f = \sup_m \inf_A \Phi_w(A) + \alpha\,\Phi_{out}(m) - \tfrac12 m A

    and the overlap is the global maximiser. All fixed points are read off one curve (`fixed_points`), so that nothing
    is iterated, and the one of largest free entropy is chosen. Perfect recovery from noiseless labels is a fixed point
    of its own (free entropy plus infinity for continuous labels).

    Of a `MultiIndex` teacher with K directions the overlap is a matrix, f = sup_M inf_A Phi_w(A) + alpha Phi_out(M) -
    tr(MA)/2, and fixed points are found by iteration: from nothing, from there by a push, and from the truth. The
    result has ``M`` (teacher, teacher_2) of the largest free entropy, all of them as ``M_branch``, and says in ``rule``
    (exact, panels, hermite, grid, sobol) and ``quadrature_error`` how E gg^T was computed. K is at most 3, or
    any for ``"sign_sum"`` and ``"majority"`` whose units are alike.

    Needs Gaussian inputs, a `SingleIndex` or `MultiIndex` teacher and a sample ratio. Of one direction it gives ``m``,
    ``V`` = ``mse`` (per weight; of the symmetry-broken state for channels that lose the sign) and ``m_hat``; always
    ``free_entropy``, ``label_mse`` and ``generalisation_error``: the least probability of a wrong label for binary
    labels, else the same as ``label_mse``.

    Parameters
    ----------
    bins
        Of a `MultiIndex` whose noiseless labels are real numbers: how many bins of equal probability stand for them.
        More bins tell more.
    """

    bins: int | None = field(static=True, converter=plain, default=None)

    grows: ClassVar[str] = "n and d"
    stays: ClassVar[str] = "α = n/d"
    needs: ClassVar[str] = "Gaussian inputs, a SingleIndex or MultiIndex teacher, sample_ratio"
    cost: ClassVar[str] = "one curve of fixed points serves every α"
    reference: ClassVar[str] = "barbier2019optimal"
    matrix_reference: ClassVar[str] = "aubin2018committee"
    rate: ClassVar[dict[str, float]] = {"d": -0.5}
    variables: ClassVar[dict[str, Variable]] = {**assembled(Belief, MatrixBelief, Run), "M": Overlaps.variables["M"]}
    axis: ClassVar[str] = ""

    def __check_init__(self):
        check_bins("BayesOptimal", self.bins)

    def setting(self, problem: Problem, asked: Asked) -> GLM | MultiGLM:
        return matrix_setting(problem, asked, self.bins) if several(problem) else GLM.of(problem, asked)

    def solve(self, setting: GLM | MultiGLM, times: np.ndarray | None = None):
        if isinstance(setting, MultiGLM):
            return bayes_matrix(setting, self.bins, "BayesOptimal", self.matrix_reference)
        return self._dataset(setting.problem, setting, np.array([setting.ratio])).isel(sample_ratio=0, drop=True)

    def curve(self, problem: Problem, alphas: Any):
        """The same at many sample ratios in one go, along a dimension ``sample_ratio``; one direction only."""
        relieve()
        alphas = positive_list("BayesOptimal.curve", "alphas", alphas, strict=True)
        setting = self.setting(at_ratio(problem, alphas[0]), Asked("BayesOptimal"))
        return None if isinstance(setting, MultiGLM) else self._dataset(problem, setting, alphas)

    def _dataset(self, problem: Problem, setting: GLM, alphas: np.ndarray):
        states: list[FixedPoint] = bayes_states(curve(setting.prior, setting.channel), alphas)
        A, m, V, f = (np.array([getattr(s, x) for s in states]) for x in ("A", "m", "V", "free_entropy"))
        mse, error = label_errors(problem.channel, m, V)
        along = ("sample_ratio",)
        variables = {
            "m": (along, m),
            "q": (along, m),
            "V": (along, V),
            "mse": (along, V),
            "m_hat": (along, A),
            "label_mse": (along, mse),
            "generalisation_error": (along, error),
            "free_entropy": (along, f),
            "status": (along, np.full(len(m), "ok")),
        }
        kind = "classification error" if problem.channel.labels == "binary" else "mean-square error"
        return dataset(
            problem,
            variables,
            {"sample_ratio": alphas},
            method="BayesOptimal",
            reference=self.reference,
            attrs={"generalisation_error_kind": kind},
        )
