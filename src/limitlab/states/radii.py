r"""What a network on labelled inputs has learned: its risk on test points, and the shape of its cloud of units.

.. math:: r_i = |w_i|/\sqrt d, \qquad \mathrm{polarisation} = \Big|\frac1p \sum_i \frac{w_i}{|w_i|}\Big|
"""

from typing import ClassVar

import jax
import jax.numpy as jnp

from limitlab.modules import field, filter_jit
from limitlab.problems.networks import Network
from limitlab.states.run import Learner
from limitlab.states.test_risk import TestRisk
from limitlab.states.view import RUN, AbstractView, Report, Variable

__all__ = ["RadiiView", "UnitLaw", "cloud"]

TINY = 1e-150


class RadiiView(AbstractView):
    """The risk, the polarisation, and if they are not too many the norms r (of the first ``blocks`` coordinates and of
    the others, with their alignment), second layers and biases."""

    tests: TestRisk
    blocks: int | None = field(static=True)
    kept: tuple[str, ...] = field(static=True)
    floor: float
    words: str = field(static=True)

    variables: ClassVar[dict[str, Variable]] = {
        **TestRisk.variables,
        **Learner.variables,
        "r": Variable((*RUN, "student", "particle", "block"), "norm of a unit's weights over sqrt(d)"),
        "alignment": Variable(RUN, "share of the squared weights on the informative coordinates"),
        "polarisation": Variable(RUN, "length of the mean direction of the units"),
    }

    def see(self, state, step):
        seen = cloud(self.blocks, state.student)
        seen["risk"], seen["risk_error"] = self.tests(state.student)
        shown = ("risk", "risk_error", "polarisation", "alignment", *self.kept)
        return {name: x for name, x in seen.items() if name in shown}

    def report(self, path):
        at, path = ("time", "replica"), {**path, "risk": path["risk"] + self.floor}
        dims = {
            **dict.fromkeys(("risk", "risk_error", "polarisation", "alignment"), at),
            "r": (*at, "student") if self.blocks is None else (*at, "student", "block"),
            **dict.fromkeys(("a", "b"), (*at, "student")),
        }
        coords = {"block": ["informative", "other"]} if self.blocks is not None and "r" in path else {}
        variables = {name: (dims[name], path[name]) for name in dims if name in path}
        return Report(variables, coords, {"risk_from": self.words})


class UnitLaw:
    """The law of the units' weights, where there are so many that it is all that matters: particles or a density."""

    variables: ClassVar[dict[str, Variable]] = {
        "weight": Variable(("replica", "particle"), "statistical weight of a particle"),
        "density": Variable((*RUN, "radius"), "density of the norms r"),
        "entropy": Variable(RUN, "entropy of the law of the units' weights"),
        "free_energy": Variable(RUN, "risk + weight_decay E|theta|^2/2 - temperature * entropy"),
        "wasserstein": Variable(RUN, "Wasserstein distance between the laws of units"),
    }


@filter_jit
def cloud(blocks: int | None, networks: Network) -> dict[str, jax.Array]:
    """Norms, polarisation and alignment of all replicas, one after the other, so that memory stays bounded."""
    return jax.lax.map(lambda net: _cloud(blocks, net), networks)


def _cloud(blocks: int | None, net: Network) -> dict[str, jax.Array]:
    W = net.rows
    d = W.shape[1]
    square = jnp.square(W) / d
    norm = jnp.sqrt(jnp.sum(square, axis=1))
    direction = jnp.mean(W / jnp.maximum(norm, TINY)[:, None], axis=0) / jnp.sqrt(float(d))
    seen = {"r": norm, "polarisation": jnp.sqrt(jnp.sum(direction**2)), "a": net.a}
    if net.b is not None:
        seen["b"] = net.b
    if blocks is not None:
        parts = jnp.stack([jnp.sum(square[:, :blocks], axis=1), jnp.sum(square[:, blocks:], axis=1)], axis=1)
        seen["r"] = jnp.sqrt(parts)
        seen["alignment"] = jnp.mean(parts[:, 0] / jnp.maximum(jnp.sum(parts, axis=1), TINY))
    return seen
