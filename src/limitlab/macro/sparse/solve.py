"""From the nodes of a start to a result: the flow in time, the second phase of layer-wise training, the Dataset."""

import dataclasses
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from limitlab.algorithms.one_pass.layerwise_sgd import LayerwiseSGD
from limitlab.algorithms.settings.one_pass import SparseOnePass
from limitlab.macro.sparse.flow import NARROWEST, NUMBERS, Flow, Particles, drift, make_flow, network, width, with_width
from limitlab.macro.sparse.linearised import FrozenFlow, is_worthwhile
from limitlab.macro.sparse.nodes import Nodes
from limitlab.macro.sparse.step_noise import Kicked, kicked_drift, residual
from limitlab.modules import filter_jit
from limitlab.numerics.cube import walsh
from limitlab.numerics.gauss.rules import normal_nodes
from limitlab.numerics.machine import Memory
from limitlab.numerics.ode.integrate import integrate
from limitlab.numerics.shapes import along_rows
from limitlab.numerics.trees import as_array
from limitlab.problems.networks import Committee
from limitlab.results.schema import dataset

__all__ = ["Path", "solve_path", "sparse_dataset", "sparse_memory"]

WIDENINGS = 4


class Path(NamedTuple):
    """Neurons and outputs at the asked times, and how it ended."""

    a: np.ndarray  # (time, n)
    u: np.ndarray  # (time, n, P)
    s: np.ndarray  # (time, n)
    weights: np.ndarray  # (n,)
    f: np.ndarray  # (time, 2^P)
    status: str
    end_time: float
    steps: int
    residual: np.ndarray | None = None  # (time,): the risk that steps and finite width make on the other coordinates


@along_rows
@filter_jit
def _outputs(flow: Flow, neurons: tuple[jax.Array, jax.Array, jax.Array]) -> jax.Array:
    return jax.lax.map(lambda x: network(flow, *x), neurons)


@along_rows
@filter_jit
def _residuals(flow: Flow, path: Kicked) -> jax.Array:
    return jax.lax.map(lambda x: residual(flow, x), path)


@along_rows
@filter_jit
def _lone(student: Committee, flow: Flow, neurons: tuple[jax.Array, jax.Array, jax.Array]) -> jax.Array:
    r"""What finitely many neurons add to the risk by themselves: :math:`E[a^2 E_z \mathrm{Var}\,\sigma(m + sG)]/2p`."""
    G, weights = map(jnp.asarray, normal_nodes(0.15))

    def at(x):
        a, u, s = x

        def one(neuron):
            a, u, s = neuron
            value = student.activation((u @ flow.points.T)[:, None] + s * G)
            return a**2 * jnp.mean(value**2 @ weights - (value @ weights) ** 2)

        return flow.weights @ jax.lax.map(one, (a, u, s)) / (2 * student.width)

    return jax.lax.map(at, neurons)


def sparse_memory(setting: SparseOnePass, n: int, times: int, what: str, squared: bool = False) -> Memory:
    """What a path of n neurons holds: the stages of a step, the path, f on the cube; ``squared``: pairs as well."""
    P = setting.teacher.latent
    state = n * (P + 2) + (n * n if squared else 0)
    return Memory(
        8 * (20 * state + 4 * times * (state + 2**P) + 4 * max(NUMBERS, n) + 8 * P * 2**P),
        f"It follows {n} neurons and {P} latent coordinates at {times} times. Use fewer {what}, times or coordinates.",
    )


def solve_path(
    setting: SparseOnePass,
    times: np.ndarray,
    nodes: Nodes,
    *,
    rtol: float,
    corrected: bool = False,
    symmetric: bool = True,
) -> Path:
    """Integrate the flow from the nodes; ``symmetric`` keeps the symmetries of the target exactly."""
    rule = setting.layerwise
    switch = np.inf if rule is None else float(rule.switch_time)
    asked = np.append(times[times < switch], switch) if np.isfinite(switch) else times
    widest = max(1.0, float(np.max(nodes.s)))
    for _ in range(WIDENINGS):  # a rule for wider Gaussians, if s outgrew the one at hand
        flow = make_flow(setting, nodes.weights, even=nodes.even, widest=widest)
        if not symmetric:
            flow = dataclasses.replace(flow, projector=np.eye(flow.points.shape[1]))
        path = _kicked(setting.student, flow, nodes, asked, rtol) if corrected else _plain(flow, nodes, asked, rtol)
        reached = float(np.nanmax(path.s)) if np.any(np.isfinite(path.s)) else 0.0
        if reached <= flow.smoother.widest() or reached > 1e3:
            break
        widest = 1.5 * reached
    return path if rule is None or np.isinf(switch) else _second_phase(rule, times, path, flow)


def _plain(flow: Flow, nodes: Nodes, times: np.ndarray, rtol: float) -> Path:
    start = Particles(as_array(nodes.a), as_array(nodes.u), as_array(with_width(flow, nodes.s)))
    freeze = partial(FrozenFlow, flow) if is_worthwhile(flow, len(nodes.a)) else None
    solver = "explicit" if freeze is None else "auto"
    run = integrate(drift, start, times, flow, rtol=rtol, atol=1e-3 * rtol, solver=solver, freeze=freeze)
    s = np.asarray(width(flow, run.values.r))
    a, u = run.values.a, run.values.u
    return Path(a, u, s, nodes.weights, _outputs(flow, (a, u, s)), run.status, run.end_time, run.steps)


def _kicked(student: Committee, flow: Flow, nodes: Nodes, times: np.ndarray, rtol: float) -> Path:
    n = len(nodes.a)
    start = Kicked(as_array(nodes.a), as_array(nodes.u), as_array(nodes.s**2), as_array(np.zeros((n, n))))
    run = integrate(kicked_drift, start, times, flow, rtol=rtol, atol=1e-3 * rtol, solver="explicit")
    a, u, s = run.values.a, run.values.u, np.sqrt(np.maximum(run.values.q, 0.0))
    f, left = _outputs(flow, (a, u, s)), _residuals(flow, run.values) + _lone(student, flow, (a, u, s))
    return Path(a, u, s, nodes.weights, f, run.status, run.end_time, run.steps, left)


def _second_phase(rule: LayerwiseSGD, times: np.ndarray, first: Path, flow: Flow) -> Path:
    """The second layer alone, in closed form: ridge, or the linear flow with kernel K = E[sigma sigma']."""
    later = times >= rule.switch_time
    count = int(np.sum(later))
    first = first._replace(residual=None)  # the noise of the second phase is not followed
    a, u, s, f = (np.concatenate([x[:-1], np.repeat(x[-1:], count, axis=0)]) for x in (*first[:3], first.f))
    if first.status != "ok":
        lost = np.append(first.f[:-1, 0], np.full(count, np.nan))
        a, u, s, f = (np.where(np.isnan(lost).reshape(-1, *[1] * (x.ndim - 1)), np.nan, x) for x in (a, u, s, f))
        return first._replace(a=a, u=u, s=s, f=f)
    values = np.asarray(
        flow.smoother(jnp.asarray(first.u[-1]) @ flow.points.T, jnp.asarray(first.s[-1])[:, None]).value
    )
    root, size = np.sqrt(first.weights), values.shape[1]
    left, sing, right = np.linalg.svd(root[:, None] * values / np.sqrt(size), full_matrices=False)
    y = np.asarray(flow.target) / np.sqrt(size)
    for i in np.nonzero(later)[0]:
        if rule.penalty is None:
            b = root * first.a[-1]
            t = rule.second_layer_rate * (times[i] - rule.switch_time)
            gain = np.where(sing**2 * t < 1e-12, sing * t, -np.expm1(-(sing**2) * t) / np.maximum(sing, 1e-300))
            b = b + left @ (gain * (right @ (y - (left * sing @ right).T @ b)))
        elif times[i] > rule.switch_time:
            b = left @ (sing / (sing**2 + rule.penalty) * (right @ y))
        else:
            continue
        a[i] = b / root
        f[i] = (right.T @ (sing * (left.T @ b))) * np.sqrt(size)
    return first._replace(a=a, u=u, s=s, f=f, end_time=float(times[-1]))


def sparse_dataset(limit: Any, setting: SparseOnePass, times: np.ndarray, path: Path, attrs: dict):
    """The result of a limit in the schema; ``step_noise`` is gamma/(p b), by which finite steps differ from it."""
    target = setting.teacher
    if setting.student.activation.pieces() is not None and np.nanmin(path.s) <= NARROWEST:
        attrs = {**attrs, "kink_error": NARROWEST}  # a neuron slides along its kink: f moves by about a tenth of this
    latent = 0.5 * np.mean(np.square(target.values - path.f), axis=1)
    noise = float(setting.channel.variance)
    return dataset(
        setting.problem,
        {
            "risk": (("time",), latent + noise / 2 + (0.0 if path.residual is None else path.residual)),
            "latent_risk": (("time",), latent),
            "fourier": (("time", "term"), walsh(path.f)),
            "a": (("time", "particle"), path.a),
            "u": (("time", "particle", "latent"), path.u),
            "s": (("time", "particle"), path.s),
            "weight": (("particle",), path.weights),
            "status": ((), path.status),
            "end_time": ((), path.end_time),
        },
        {"time": times, "term": target.term_names, "latent": [f"z{i}" for i in target.variables]},
        method=type(limit).__name__,
        reference=limit.reference,
        attrs={
            "steps": path.steps,
            "rtol": limit.rtol,
            "step_noise": float(setting.kick),
            **attrs,
        },
    )
