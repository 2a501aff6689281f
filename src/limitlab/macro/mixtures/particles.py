r"""The radial flow by particles: each is a quadrature node of the start, carried along with its weight.

.. math::
    r' = a\,E\big[(y - f)\,|x|\,\partial_s\sigma_s(b)\big] - \lambda r, \quad
    b' = a\,E\big[(y - f)\,\partial_b\sigma_s(b)\big] - \lambda b, \quad
    a' = \kappa\,E\big[(y - f)\,\sigma_s(b)\big] - \lambda a

on the clock of the schedule. A kink of sigma at 0 can bring r to 0 in finite time; there it waits until it is pushed
out again.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from limitlab.macro.mixtures.law import Radial, RadialData, RadialUnits, make_data, network, norm_speeds, risks, seen
from limitlab.macro.sparse.nodes import second_layer_nodes
from limitlab.modules import Module, filter_jit, tree_at
from limitlab.numerics.gauss.rules import hermite, legendre, length_nodes, normal_weights, panel_nodes
from limitlab.numerics.ode.integrate import integrate
from limitlab.numerics.shapes import along_rows
from limitlab.numerics.trees import as_array

__all__ = ["ORDER", "RadialPath", "follow", "start_units", "unresolved"]

ORDER = 12  # Gauss nodes of a panel
FEATURES = 8  # data nodes at which panels are looked at


class RadialPath(NamedTuple):
    """RadialUnits and outputs at the asked times, and how it ended."""

    units: RadialUnits  # a (time, n), b (time, n), r (time, n, blocks)
    weights: np.ndarray  # (n,)
    f: np.ndarray  # (time, J)
    risk: np.ndarray
    status: str
    end: float  # on the clock of the schedule
    steps: int


class _Flow(Module):
    law: RadialData
    weights: jax.Array
    second_rate: jax.Array
    bias_rate: jax.Array
    decay: jax.Array


def start_units(
    setting: Radial, d: float, level: int, edges: np.ndarray | None = None
) -> tuple[RadialUnits, np.ndarray, bool]:
    """Nodes of the law of units at time 0, their weights, and whether no finer rule exists.

    ``level`` panels of 12 nodes in the norm, or those between given ``edges`` of |w|/scale.
    """
    neurons, share = setting.one_pass.neurons, setting.widths.share
    a, a_weights, _, exact = second_layer_nodes(neurons, level)
    if neurons.sphere or math.isinf(d):
        r, r_weights = np.ones(1), np.ones(1)
    else:
        (r, r_weights), exact = length_nodes(d, level if edges is None else edges, ORDER), False
    b, b_weights = np.zeros(1), np.ones(1)
    if setting.one_pass.biased and float(neurons.bias_scale) > 0:
        b, b_weights = _normal_rule(level, len(a))
        b, exact = float(neurons.bias_scale) * b, False
    grid = [axis.ravel() for axis in np.meshgrid(a, b, float(neurons.scale) * r, indexing="ij")]
    weights = (a_weights[:, None, None] * b_weights[:, None] * r_weights).ravel()
    norms = grid[2][:, None]
    if share is not None:
        norms = norms * np.sqrt([share, 1 - share])
    return RadialUnits(grid[0], grid[1], norms), weights, exact


def _normal_rule(level: int, others: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes of a standard normal: Gauss panels, which kinks disturb only nearby; Gauss-Hermite if others multiply."""
    if others > 2:
        return hermite(8 * level)
    x, dx = panel_nodes(np.linspace(-8.5, 8.5, 2 * level + 1), ORDER)
    return x, normal_weights(x, dx)


def unresolved(path: RadialPath, law: RadialData) -> np.ndarray:
    """An estimate of the error that each panel of 12 norms makes in f, the worst over all times.

    Gauss rules of 12 nodes are exact to degree 23: if the last Legendre coefficients of a panel are a share e of the
    largest, its integral is off by about e^2.
    """
    x, w = legendre(ORDER)
    basis = np.polynomial.legendre.legvander(x, ORDER - 1)
    analysis = (np.arange(ORDER) + 0.5)[:, None] * basis.T * w
    nodes = np.unique(np.linspace(0, len(law.labels) - 1, FEATURES).astype(int))
    few = tree_at(lambda y: y.lengths, law, law.lengths[nodes])
    values = np.nan_to_num(_values(few, path.units))  # (time, n, features)
    shaped = values.reshape(len(values), -1, ORDER, values.shape[-1])
    c = np.abs(np.einsum("kq,tpqf->tpkf", analysis, shaped))
    tail, top = c[:, :, -2:].max(axis=2), np.maximum(c.max(axis=2), 1e-300)
    mass = path.weights.reshape(-1, ORDER).sum(axis=1)
    return mass * np.max(tail**2 / top, axis=(0, 2))


@along_rows
@filter_jit
def _values(law: RadialData, path: RadialUnits) -> jax.Array:
    return jax.lax.map(lambda x: seen(law, x)[0].value, path)


def drift(x: RadialUnits, flow: _Flow) -> RadialUnits:
    """The motion of the units."""
    inside = x._replace(r=jnp.maximum(x.r, 0.0))
    (value, slope, pull), s = seen(flow.law, inside)
    error = flow.law.weights * (flow.law.labels - (flow.weights * x.a) @ value)
    speed = norm_speeds(flow.law, inside, pull, s, error) - flow.decay * inside.r
    return RadialUnits(
        flow.second_rate * (value @ error) - jnp.where(flow.second_rate > 0, flow.decay, 0.0) * x.a,
        flow.bias_rate * (x.a * (slope @ error) - flow.decay * x.b),
        jnp.where(x.r <= 0, jnp.maximum(speed, 0.0), speed),
    )


@along_rows
@filter_jit
def _outputs(law: RadialData, weights: jax.Array, path: RadialUnits) -> jax.Array:
    return jax.lax.map(lambda x: network(law, x, weights), path)


def follow(
    setting: Radial, d: float, clock: np.ndarray, units: RadialUnits, weights: np.ndarray, rtol: float
) -> RadialPath:
    """Integrate the flow of given units through the asked times of the schedule's clock."""
    one, law = setting.one_pass, make_data(setting, d)
    flow = _Flow(
        law,
        as_array(weights),
        as_array(float(one.algorithm.second_layer_rate) if one.trained else 0.0),
        as_array(1.0 if one.biased else 0.0),
        as_array(float(one.algorithm.weight_decay)),
    )
    run = integrate(drift, units, clock, flow, rtol=rtol, atol=1e-2 * rtol, solver="explicit")
    path = run.values._replace(r=np.maximum(run.values.r, 0.0))
    f = _outputs(law, flow.weights, path)
    return RadialPath(path, weights, f, risks(law, f), run.status, run.end_time, run.steps)
