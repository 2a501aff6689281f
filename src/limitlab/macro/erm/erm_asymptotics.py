"""Convex empirical risk minimisation in the limit of many dimensions."""

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import jax
import numpy as np

from limitlab.algorithms.settings.fixed_data import ConvexFit, at_ratio
from limitlab.errors import ConvergenceError, LimitUndefinedError
from limitlab.macro.bayes.bayes_optimal import positive_list
from limitlab.macro.erm.equations import TOLERANCE, solve_lanes
from limitlab.macro.erm.ridge import ridge_lanes, spectral_lanes
from limitlab.macro.erm.separability import separability_ratio
from limitlab.macro.erm.spectral import law_of, weights_by_mode
from limitlab.macro.limit import AbstractLimit
from limitlab.numerics.machine import relieve
from limitlab.numerics.trees import as_array, traced
from limitlab.problems.asked import Asked
from limitlab.problems.problem import Problem
from limitlab.results.schema import dataset
from limitlab.states.direction import Belief
from limitlab.states.overlaps import ByMode, mode_coordinates
from limitlab.states.run import Run
from limitlab.states.view import Variable, assembled

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["ERMAsymptotics", "solve_erm"]

NAMES = ("m", "q", "V", "m_hat", "q_hat", "V_hat", "train_loss")


class ERMAsymptotics(AbstractLimit):
    r"""The minimiser of a convex loss with an L2 penalty as n, d go to infinity at fixed alpha = n/d.

    .. math::
        \hat m = \alpha E[f_0 g], \quad \hat q = \alpha E[g^2], \quad \hat V = -\alpha E[\partial_\omega g], \qquad
        m = \frac{\rho \hat m}{\lambda + \hat V}, \quad q = \frac{\rho \hat m^2 + \hat q}{(\lambda + \hat V)^2},
        \quad V = \frac{1}{\lambda + \hat V}

    with g = (prox - omega)/V the pull of the loss and f_0 that of the teacher's channel. Needs Gaussian inputs, a
    `SingleIndex` teacher (only its second moment rho counts), a convex loss, `ERM` with its penalty lambda, and
    ``sample_ratio``. Of `MaxMargin` the penalty drops out and V is that of penalty 1.

    Square loss is in closed form; without penalty and with alpha < 1 it is the least-norm interpolator.

    With a spectrum of the inputs (``Gaussian(spectrum=...)``) the second line is a sum over modes, m and q are
    overlaps of fields, and ``squared_norm``, ``m_mode`` and ``q_mode`` are reported as well; see
    `limitlab.macro.erm.spectral`.
    """

    axis: ClassVar[str] = ""
    grows: ClassVar[str] = "n and d"
    stays: ClassVar[str] = "α = n/d, penalty"
    needs: ClassVar[str] = "Gaussian inputs, a SingleIndex teacher, a convex loss, ERM, sample_ratio"
    cost: ClassVar[str] = "one fixed point of six numbers; closed form for the square loss"
    reference: ClassVar[str] = "aubin2020generalization"
    rate: ClassVar[dict[str, float]] = {"d": -0.5}
    variables: ClassVar[dict[str, Variable]] = assembled(Belief, ByMode, Run)

    def setting(self, problem: Problem, asked: Asked) -> ConvexFit:
        setting = ConvexFit.of(problem, asked)
        features = setting.features
        if features is not None and features.kappas().mean != 0:
            mean = float(setting.channel.mean_label(as_array(0.0), as_array(setting.rho)))
            if abs(mean) > 1e-9:
                asked.refuse(
                    "labels of mean 0 beside features whose mean is not 0",
                    f"labels of mean {mean:.3g} through {setting.channel}, which such features learn as a constant",
                    'Use an odd activation such as "tanh", or labels such as those of Sign() and GaussianNoise().',
                )
        return setting

    def solve(self, setting: ConvexFit, times: Any = None) -> "xr.Dataset":
        """The fixed point; there is no time. Raises if the minimiser does not exist or was not found."""
        values, status, words = solve_erm(setting, np.array([setting.ratio]), np.array([setting.penalty]))
        if status[0] == "undefined":
            raise LimitUndefinedError(f"ERMAsymptotics: {words[0]}")
        if status[0] != "ok":
            last = {name: float(value[0]) for name, value in values.items() if value.ndim == 1}
            raise ConvergenceError(f"ERMAsymptotics: {words[0]}", last)
        numbers = {name: (("mode",)[: value.ndim - 1], value[0]) for name, value in values.items()}
        return self._dataset(setting.problem, numbers, ((), "ok"), {}, [*words, *_equivalence(setting)])

    def curve(self, problem: Problem, alphas: Any, penalties: Any = None) -> "xr.Dataset":
        """The fixed points at many sample ratios (and penalties) in one compiled call.

        The Dataset has the dimension ``sample_ratio`` and, if penalties are given, ``algorithm.penalty``. A point
        without a solution has NaN and a ``status`` that is not "ok".
        """
        relieve()
        grids = {"sample_ratio": positive_list("ERMAsymptotics.curve", "alphas", alphas, strict=True)}
        if penalties is not None:
            grids["algorithm.penalty"] = positive_list("ERMAsymptotics.curve", "penalties", penalties, strict=False)
        setting = self.setting(at_ratio(problem, grids["sample_ratio"][0]), Asked("ERMAsymptotics"))
        shape = tuple(map(len, grids.values()))
        alpha, penalty = np.broadcast_arrays(
            grids["sample_ratio"].reshape(-1, *(1,) * (len(shape) - 1)),
            grids.get("algorithm.penalty", np.array(setting.penalty)),
        )
        values, status, words = solve_erm(setting, alpha.ravel(), penalty.ravel())
        dims = tuple(grids)
        variables = {
            name: ((*dims, "mode")[: len(dims) + value.ndim - 1], value.reshape(*shape, *value.shape[1:]))
            for name, value in values.items()
        }
        told = [*words, *_equivalence(setting)]
        return self._dataset(problem, variables, (dims, np.asarray(status).reshape(shape)), grids, told)

    def _dataset(self, problem, variables, status, coords, words) -> "xr.Dataset":
        told, modes = sorted({w for w in words if w}), problem.inputs.modes
        return dataset(
            problem,
            {**variables, "status": status},
            coords if "m_mode" not in variables else {**coords, **mode_coordinates(modes)},
            method="ERMAsymptotics",
            reference=self.reference,
            attrs={"notes": "; ".join(told) or None, "tolerance": TOLERANCE},
        )


def _equivalence(setting: ConvexFit) -> list[str]:
    """What a reader of a result on random features must know."""
    if setting.features is None:
        return []
    words = "random features by Gaussian equivalence: for n and p far below d^2"
    if setting.channel.labels != "binary" and abs(float(setting.channel.label_moments(setting.rho)[0]) - 1) > 1e-9:
        words += "; of labels that are not linear in z the linear part alone is learned"
    return [words]


def solve_erm(setting: ConvexFit, alpha: np.ndarray, penalty: np.ndarray):
    """Values by name, status and words, for pairs of sample ratio and penalty (the setting's own are not used)."""
    channel, loss, rho, law = setting.channel, setting.loss, setting.rho, law_of(setting)
    linear, rank = (rho, 1.0) if law is None else (float(law.signal.sum()), float(law.h.sum()))
    rank *= setting.width
    # The threshold is asked for only where it matters.
    separable = functools.cache(lambda: rank * separability_ratio(channel, linear, rho - linear if law else 0.0))
    words = [_missing(setting, a, l, separable, rank) for a, l in zip(alpha.tolist(), penalty.tolist(), strict=True)]
    if loss.quadratic:
        if law is None:
            values, bad = ridge_lanes(channel, alpha, penalty, rho)
        else:
            values, bad = spectral_lanes(setting, law, alpha / setting.width, penalty)
        for k in np.nonzero(bad)[0]:
            words[k] = f"least squares without penalty diverges at sample_ratio = {rank:g}. Use a penalty > 0."
        return _of_features(setting, values), ["diverged" if b else "ok" for b in bad], words
    lanes = np.array([not w for w in words])
    if not lanes.any():
        return {"m": np.full(len(alpha), np.nan)}, ["undefined"] * len(alpha), words
    # Lanes without a solution get a harmless penalty; the number of lanes is rounded up so that few are compiled.
    size = 1 << (len(alpha) - 1).bit_length()
    a = np.resize(np.where(lanes, alpha / setting.width, 0.5), size)
    l = np.resize(np.where(lanes, penalty, 1.0), size)
    # In units of the mean eigenvalue penalties mean what they do without a spectrum.
    unit = 1.0 if law is None else float(law.h @ law.c) / float(law.h.sum())
    scaled = None if law is None else law._replace(c=law.c / unit).padded()
    found = solve_lanes(traced(channel), traced(loss), a, l / unit, np.full(size, float(rho)), scaled)
    found = jax.tree.map(lambda x: np.asarray(x)[: len(alpha)], found)
    values = {name: getattr(found, name) for name in NAMES} | found.errors
    modes = setting.modes
    if modes is not None:
        c, pull = np.asarray(modes.c, float), (1.0 if loss.hard else penalty)
        D = np.reshape(pull, (-1, 1)) + found.V_hat[:, None] * c
        y = np.where(c > 0, c, 0.0) / np.where(D > 0, D, 1.0)
        scatter = found.q_hat[:, None] * y / np.where(D > 0, D, 1.0)
        values |= weights_by_mode(setting, found.m_hat[:, None] * y, scatter)
    if loss.hard:
        del values["risk"]  # infinite as soon as a new sample may fall inside the margin
    failed = lanes & ~(found.residual < TOLERANCE)
    for k in np.nonzero(failed)[0]:
        words[k] = (
            f"the fixed point at sample_ratio = {alpha[k]:g}, penalty = {penalty[k]:g} was not found to {TOLERANCE:g}."
        )
    sound = lanes & ~failed
    values = {name: np.where(sound.reshape(-1, *(1,) * (x.ndim - 1)), x, np.nan) for name, x in values.items()}
    status = ["not_converged" if f else "ok" if s else "undefined" for s, f in zip(lanes, failed, strict=True)]
    return _of_features(setting, values), status, words


def _of_features(setting: ConvexFit, values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Without the distance from the teacher's weights, if what is fitted is a read-out of features."""
    return values if setting.features is None else {name: x for name, x in values.items() if name != "mse"}


def _missing(setting: ConvexFit, alpha: float, penalty: float, separable: Callable[[], float], rank: float) -> str:
    """Why there is no single minimiser at this point, in words; "" if there is one."""
    loss, channel = setting.loss, setting.channel
    if loss.quadratic or (penalty > 0 and not loss.hard):
        return ""
    if loss.of == "residual":
        if alpha <= rank:
            return (
                f"without penalty and with sample_ratio = {alpha:g} <= {rank:g} infinitely many weights fit all labels."
                " Use a penalty > 0, or SquareLoss() for the least-norm one."
            )
        modes = setting.modes
        if channel.noiseless_rate == 1.0 and not channel.even and (modes is None or float(modes.unexplained) == 0):
            return "without noise or penalty the teacher itself is the minimiser (m = q = rho). Use a penalty > 0."
        return ""
    threshold = separable()
    if loss.hard:
        if alpha < threshold:
            return ""
        return (
            f"labels at sample_ratio = {alpha:g} are not separable (threshold {threshold:.5g}), so no weights have a "
            "margin. Use LogisticLoss() or HingeLoss()."
        )
    if alpha > threshold:
        return ""
    return (
        f"labels at sample_ratio = {alpha:g} are separable (threshold {threshold:.5g}): without penalty "
        f"{loss.if_separable}. Use a penalty > 0, or MaxMargin() for the direction reached as the penalty goes to 0."
    )
