r"""The overlap equations of one-pass SGD on inputs with a spectrum: one matrix of overlaps for every mode.

.. math::
    \bar\Omega = \sum_k h_k c_k \Omega_k, \qquad E[\sigma'(\lambda_i)\, s_A\, \mathcal E] = (G\bar\Omega)_{iA}, \qquad
    \dot\Omega_k = c_k \big[ A\Omega_k + \Omega_k A^T + \tfrac{\gamma}{pB}\, a a^T \circ \mathrm{Var} \big], \quad
    A = \mathrm{diag}(a)\, G

(fields of the teacher do not move; Var, of students only, is that of `drift`). One linear unit may have any convex
loss: with g the pull on its output omega and z* the teacher's field,

.. math::
    (A_1, A_2) = \begin{pmatrix} q & m \\ m & \rho \end{pmatrix}^{-1} (E g\omega, E g z^*), \qquad
    \dot m_k = c_k (A_1 m_k + A_2 t_k^2), \qquad
    \dot q_k = c_k (2 A_1 q_k + 2 A_2 m_k + \tfrac\gamma B E g^2)

Of its least squares the means are known exactly at every d (`limitlab.numerics.spectra.least_squares_sgd`).
"""

from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from limitlab.algorithms.settings.spectral import LinearOnePass, SpectralCommittee
from limitlab.errors import InputError
from limitlab.macro.overlaps.drift import limit_start, quadrature_error, warn_of_error
from limitlab.modules import filter_jit
from limitlab.numerics.checks import whole_steps
from limitlab.numerics.machine import Memory
from limitlab.numerics.ode.integrate import Integration, integrate
from limitlab.numerics.spectra.least_squares_sgd import LeastSquaresSGD
from limitlab.numerics.trees import as_array, as_arrays, traced
from limitlab.problems.asked import Asked
from limitlab.problems.channels import GaussianNoise
from limitlab.problems.inputs import Modes
from limitlab.problems.losses import SquareLoss
from limitlab.problems.population import errors
from limitlab.problems.predictor import Predictor
from limitlab.results.schema import dataset
from limitlab.states.overlaps import Overlaps, error_coefficients, error_sum, mode_coordinates, risks

if TYPE_CHECKING:
    import xarray as xr

    from limitlab.macro.overlaps.overlap_ode import OverlapODE

__all__ = ["predict_spectral", "spectral_memory"]

FAR = 1e16  # mean squares beyond have diverged
RIDGE = 1e-14  # of the trace: fields that are one another's combinations, on every mode alike, divide out


class OnModes(NamedTuple):
    """Q (K, p, p) and M (K, p, k) on every mode, second layer a (p,)."""

    Q: Any
    M: Any
    a: Any


def spectral_memory(setting: SpectralCommittee | LinearOnePass, times: np.ndarray) -> Memory:
    """What `predict_spectral` holds: the path on every mode, and one matrix if means are exact."""
    p, K = setting.student.width, setting.modes.count
    state = K * p * (2 * p + setting.teacher.units)
    return Memory(
        8 * (6 * len(times) * state + 20 * state + 4 * K * K),
        f"It follows the overlaps of {p} student units on {K} modes. Use fewer units, modes or times.",
    )


def predict_spectral(
    limit: "OverlapODE", setting: SpectralCommittee | LinearOnePass, times: np.ndarray
) -> "xr.Dataset":
    """What `OverlapODE` predicts with a spectrum."""
    if not isinstance(setting, LinearOnePass):
        return _committee(limit, setting, times)
    return _exact(limit, setting, times) if limit.d is not None else _linear(limit, setting, times)


# --- committees --------------------------------------------------------------------------------------------


def _whole(setting: SpectralCommittee, state: OnModes, P: jax.Array) -> Overlaps:
    """Overlaps of fields; leading axes of the state may come first."""
    hc = jnp.asarray(setting.modes.h * setting.modes.c)
    Q, M = (jnp.einsum("k,...kij->...ij", hc, x) for x in (state.Q, state.M))
    return Overlaps(Q, M, jnp.sum(hc) * P, state.a)


def _flow(state: OnModes, args: Any) -> OnModes:
    setting, sums, P = args
    modes, rule, a = setting.modes, setting.algorithm, state.a
    p = len(a)
    fields = _whole(setting, state, P)
    moments = sums(fields.omega, error_coefficients(setting, a), setting.channel.variance)
    Omega = fields.omega
    G = jnp.linalg.solve(Omega + RIDGE * jnp.trace(Omega) * jnp.eye(len(Omega)), moments.L.T).T
    joint = jnp.concatenate(
        [
            jnp.concatenate([state.Q, state.M], axis=2),
            jnp.concatenate([jnp.swapaxes(state.M, 1, 2), jnp.broadcast_to(P, (len(state.M), *P.shape))], axis=2),
        ],
        axis=1,
    )
    c = jnp.asarray(modes.c)[:, None, None]
    pull = c * (a[:, None] * jnp.einsum("iA,kAB->kiB", G, joint))
    noise = rule.learning_rate / (setting.student.width * rule.batch_size) * jnp.outer(a, a) * moments.V
    dQ = pull[:, :, :p] + jnp.swapaxes(pull[:, :, :p], 1, 2) + c * noise
    dM = pull[:, :, p:]
    if rule.spherical:  # the length is that of the weights, not of the fields
        h = jnp.asarray(modes.h)
        norm, speed = (jnp.einsum("k,kii->i", h, x) for x in (state.Q, dQ))
        radial = speed / norm / 2
        dM = dM - state.M * radial[:, None]
        dQ = dQ - state.Q * (radial[:, None] + radial[None, :])
    da = rule.second_layer_rate * moments.I[:p] if setting.student.second_layer == "trained" else jnp.zeros_like(a)
    return OnModes((dQ + jnp.swapaxes(dQ, 1, 2)) / 2, dM, da)


def _committee(limit: "OverlapODE", setting: SpectralCommittee, times: np.ndarray) -> "xr.Dataset":
    if limit.d is not None:
        raise InputError(
            f"OverlapODE(d={limit.d:g}) draws a start at that dimension, which is not known mode by mode; with a "
            "spectrum it follows committees from their limiting start only. Leave d out; use InformedStart(overlap)."
        )
    first, modes = limit_start(setting), setting.modes
    count = modes.count
    state = OnModes(np.repeat(first.Q[None], count, 0), np.repeat(first.M[None], count, 0), first.a)
    live, sums = as_arrays(setting.from_anywhere()), as_arrays(error_sum(setting, limit.method))
    run = integrate(
        _flow, state, times, (live, sums, first.P), rtol=limit.rtol, atol=0.01 * limit.rtol, solver=limit.solver
    )
    path = jax.tree.map(np.asarray, _whole(setting, run.values, jnp.asarray(first.P)))
    P: Any = np.broadcast_to(path.P, (len(times), 1, *path.P.shape))
    along = Overlaps(path.Q[:, None], path.M[:, None], P, path.a[:, None])
    error = quadrature_error((live, sums), along, 0)
    warn_of_error(error, sums.name)
    attrs = limit.about(sums.name, error, run.solver, run.steps)
    return _told(limit, setting, times, run, risks(live, sums, along)[:, 0], path, {}, attrs, modes)


def _told(limit, setting, times, run: Integration, risk, path: Overlaps, more, attrs, modes: Modes) -> "xr.Dataset":
    state = run.values
    norms = np.einsum("k,tkii->ti", np.asarray(modes.h, float), state.Q)
    units = ("student", "teacher"), ("student", "student_2")
    variables = {
        "risk": ("time", risk),
        "M": (("time", *units[0]), path.M),
        "Q": (("time", *units[1]), path.Q),
        "P": (("teacher", "teacher_2"), path.P),
        "a": (("time", "student"), path.a),
        "squared_norm": (("time", "student"), norms),
        "M_mode": (("time", *units[0], "mode"), np.moveaxis(state.M, 1, -1)),
        "Q_mode": (("time", *units[1], "mode"), np.moveaxis(state.Q, 1, -1)),
        **more,
        "status": ((), run.status),
        "end_time": ((), run.end_time),
    }
    coords = {"time": times, **mode_coordinates(modes)}
    return dataset(setting.problem, variables, coords, method="OverlapODE", reference=limit.reference, attrs=attrs)


# --- one linear unit ---------------------------------------------------------------------------------------


def _direction(setting: LinearOnePass) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """m, q and t^2 of every mode at time 0: w = (m/rho) w* and something that knows no direction."""
    t2, h = setting.squares, np.asarray(setting.modes.h, float)
    rho = float(h @ t2)
    m, q = setting.start.direction_overlaps(rho, False)
    along = m / rho if rho > 0 else 0.0
    return along * t2, along**2 * t2 + q - along * m, t2


def _drift(state: tuple, args: Any) -> tuple:
    m, q = state
    (channel, loss), gamma, c, hc, t2, hidden = args
    rho = jnp.sum(hc * t2) + hidden
    p = Predictor.of(jnp.sum(hc * m), jnp.sum(hc * q), rho)
    y, w, f0, weight = channel.fields(loss, p, jnp.asarray(1e-300))
    first, second = loss.gradient(y, w)
    # z* given omega and y has the mean slope omega + V0 f0, so that A2 = E g f0; by parts A1 = E dg/domega.
    A2, square = -jnp.sum(weight * first * f0), jnp.sum(weight * jnp.square(first))
    if loss.of == "residual":  # nodes may tell the residual only
        A1 = -jnp.sum(weight * second)
    else:  # without the second derivative, which kinks do not have
        A1 = -jnp.sum(weight * first * w) / p.q - p.slope * A2
    return c * (A1 * m + A2 * t2), c * (2 * A1 * q + 2 * A2 * m + gamma * square)


@filter_jit
def _paid(channel, loss, m, q, rho):
    return jax.lax.map(lambda x: errors(channel, loss, Predictor.of(x[0], x[1], rho)), (m, q))


def _linear(limit: "OverlapODE", setting: LinearOnePass, times: np.ndarray) -> "xr.Dataset":
    modes, rule = setting.modes, setting.algorithm
    m0, q0, t2 = _direction(setting)
    c, h, hidden = np.asarray(modes.c, float), np.asarray(modes.h, float), float(modes.unexplained)
    pair = traced((setting.channel, setting.loss))
    gamma = np.asarray(float(rule.learning_rate) / rule.batch_size)
    args = (pair, gamma, c, h * c, t2, np.asarray(hidden))
    run = integrate(_drift, (m0, q0), times, args, rtol=limit.rtol, atol=0.01 * limit.rtol, solver=limit.solver)
    attrs = limit.about("quadrature", 0.0, run.solver, run.steps)
    return _one_unit(limit, setting, times, run, t2, attrs, modes)


def _one_unit(limit, setting: LinearOnePass, times, run: Integration, t2, attrs, modes: Modes) -> "xr.Dataset":
    m, q = run.values
    hc = np.asarray(modes.h * modes.c, float)
    linear = float(hc @ t2)
    M, Q = m @ hc, q @ hc
    finite = np.isfinite(M) & np.isfinite(Q)
    safe = np.where(finite, M, 0.0), np.where(finite, Q, 1.0)
    rho = jnp.asarray(linear + float(modes.unexplained))
    channel, loss = traced((setting.channel, setting.loss))
    paid = _paid(channel, loss, jnp.asarray(safe[0]), jnp.asarray(safe[1]), rho)
    paid = {name: np.where(finite, np.asarray(x), np.nan) for name, x in paid.items()}
    state = OnModes(q[:, :, None, None], m[:, :, None, None], np.where(finite, 1.0, np.nan)[:, None])
    path = Overlaps(Q[:, None, None], M[:, None, None], as_array([[linear]]), state.a)
    more = {"generalisation_error": ("time", paid["generalisation_error"])}
    return _told(limit, setting, times, run._replace(values=state), paid["risk"], path, more, attrs, modes)


def _exact(limit: "OverlapODE", setting: LinearOnePass, times: np.ndarray) -> "xr.Dataset":
    """The means over runs of least squares at dimension d, step by step."""
    asked = Asked("OverlapODE(d=...) with a spectrum", InputError)
    remedy = "Means are known exactly for least squares only. Leave d out."
    channel = asked.part(setting.channel, GaussianNoise, "GaussianNoise()", remedy)
    asked.part(setting.loss, SquareLoss, "SquareLoss()", remedy)
    modes, d, rule = setting.modes, int(limit.d or 0), setting.algorithm
    setting.inputs.check(d)
    sizes, gamma = modes.sizes(d), float(rule.learning_rate)
    there = sizes > 0
    modes = Modes(np.asarray(modes.c, float)[there], sizes[there] / d, None, modes.unexplained, modes.smooth)
    m0, q0, t2 = (x[there] for x in _direction(setting))
    steps = whole_steps(times, gamma / d)
    noise = float(channel.variance) + float(modes.unexplained)
    sgd = LeastSquaresSGD.of(modes.c / d, sizes[there], noise, gamma, rule.batch_size)
    D = sgd.squares(q0 - 2 * m0 + t2, steps)
    with np.errstate(over="ignore", invalid="ignore"):
        m = t2 - (t2 - m0) * (1 - gamma * modes.c / d) ** steps[:, None]  # E (w* - w) w* decays by itself
        q = D - t2 + 2 * m
    lost = ~np.all(np.abs(q) < FAR, axis=1)
    m, q = (np.where(lost[:, None], np.nan, x) for x in (m, q))
    last = float(times[int(np.argmax(lost)) - 1]) if lost.any() and not lost[0] else float(times[-1])
    run = Integration((m, q), "diverged" if lost.any() else "ok", last, int(steps[-1]), "exact")
    attrs = {"d": float(d), "solver": "exact", "steps": int(steps[-1])}
    return _one_unit(limit, setting, times, run, t2, attrs, modes)
