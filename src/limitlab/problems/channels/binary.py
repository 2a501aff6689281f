"""Labels -1 and +1: a label is known by its odds."""

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

import jax
import jax.numpy as jnp

from limitlab.numerics.gauss.normal import measure
from limitlab.numerics.gauss.rules import REACH, graded_edges, panel_nodes
from limitlab.problems.channels.base import AbstractChannel, Information, Law, omega_line, teacher_given_student
from limitlab.problems.predictor import ORDER, TEACHER, Fields, Predictor, around

if TYPE_CHECKING:
    from limitlab.problems.losses.base import AbstractConvexLoss

__all__ = ["BinaryChannel"]

BASE = 8  # panels on each side of 0, for the normal law


class BinaryChannel(AbstractChannel):
    """A channel with labels -1 and +1. ``features(V)`` says where P(y|omega) changes, and how sharply."""

    labels: ClassVar[str] = "binary"
    on_a_line: ClassVar[bool] = True
    mirror: ClassVar[bool] = False  # P(y|z) = P(-y|-z)

    @abstractmethod
    def features(self, V: jax.Array) -> tuple[tuple[Any, ...], jax.Array]:
        """Centres in omega and the width of the change there, for z ~ N(omega, V)."""

    def law(self, q, slope, V0, V):
        features = list(self.switches(V))
        for variance, stretch in ((V, 1.0), (V0, jnp.maximum(jnp.abs(slope), 1e-6))):
            centres, width = self.features(variance)
            features += [(centre / stretch, width / stretch) for centre in centres]
        line, p = omega_line(q, features, self.boundary(V))
        w, base = jnp.concatenate([line, line]), jnp.concatenate([p, p])
        y = jnp.concatenate([jnp.ones_like(line), -jnp.ones_like(line)])
        return Law(y, w, base * jnp.exp(self.output(y, slope * w, V0).log_z))

    def switches(self, V: jax.Array) -> tuple[tuple[Any, Any], ...]:
        """(place, width) in omega where a surprising label leaves two explanations equally likely.

        A student whose V is right hardly ever sees such a label, so that only `law` asks for them.
        """
        return ()

    def boundary(self, V: jax.Array) -> tuple[Any, ...]:
        """The omega at which both labels are equally likely."""
        return (0.0,)

    def bayes(self, m, V):
        w, base = self._line(m, V)
        labels, copies = ((1.0,), 2.0) if self.mirror else ((1.0, -1.0), 1.0)
        g2, phi = 0.0, 0.0
        for y in labels:
            out = self.output(y * jnp.ones_like(w), w, V)
            p = copies * base * jnp.exp(out.log_z)
            g2, phi = g2 + jnp.sum(p * jnp.square(out.g)), phi + jnp.sum(p * out.log_z)
        return Information(jnp.asarray(g2), jnp.asarray(phi))

    def prediction_error(self, rho, m, q, V):
        """P(y differs from the likelier label given omega)."""
        slope, V0 = teacher_given_student(rho, m, q)
        V = jnp.maximum(V, 1e-12 * rho)
        stretch = jnp.maximum(jnp.abs(slope), 1e-9)
        features = []
        for variance, scale in ((V, 1.0), (V0, stretch)):
            centres, width = self.features(variance)
            features += [(centre / scale, width / scale) for centre in centres]
        w, p = omega_line(q, features, self.boundary(V))
        wrong = jnp.where(self.mean_label(w, V) >= 0, -1.0, 1.0)
        return jnp.sum(p * jnp.exp(self.output(wrong, slope * w, V0).log_z))

    def label_mse(self, m, V):
        P = self._odds(m, V)
        return jnp.sum(P.weight * 4 * P.y * P.w)

    def least_error(self, m, V):
        return self.classification_error(m, V)

    def classification_error(self, m: jax.Array, V: jax.Array) -> jax.Array:
        """The least probability of a wrong label on a new sample, E min(P, 1 - P)."""
        P = self._odds(m, V)
        return jnp.sum(P.weight * jnp.minimum(P.y, P.w))

    def _odds(self, m, V) -> Law:
        """P(+1|omega), P(-1|omega) and weights over omega ~ N(0, m)."""
        w, base = self._line(m, V, self.boundary(V))
        plus, minus = (jnp.exp(self.output(sign * jnp.ones_like(w), w, V).log_z) for sign in (1.0, -1.0))
        return Law(plus, minus, base)

    def _line(self, m, V, cuts=()):
        """Nodes and probabilities of omega ~ N(0, m), fine where the odds change."""
        centres, width = self.features(V)
        return omega_line(m, [(centre, width) for centre in centres], cuts)

    def fields(self, loss, p, V):
        mirrored = self.mirror and (loss.of == "margin" or loss.even)
        parts = [self._margins(loss, p, V, y) for y in ((1.0,) if mirrored else (1.0, -1.0))]
        y, w, f0, weight = (jnp.concatenate(column) for column in zip(*parts, strict=True))
        return Fields(y, w, f0, weight * 2 if mirrored else weight)

    def _margins(self, loss: "AbstractConvexLoss", p: Predictor, V, y: float) -> Fields:
        """Nodes for one label, in v = y omega/sd."""
        edges = [graded_edges(0.0, 1.0, REACH, BASE)]
        centres, width = self.features(p.V0)
        stretch = jnp.sqrt(p.rho) * jnp.maximum(jnp.abs(p.t), 1e-6) / jnp.sqrt(1 + jnp.square(p.t))  # slope * sd
        for centre in centres:
            place = jnp.clip(y * jnp.asarray(centre) / stretch, -REACH, REACH)
            edges.append(graded_edges(place, jnp.clip(width / stretch, 1e-14, 1.0), 2 * REACH, TEACHER))
        centres, width = loss.features(V)
        for centre in centres:
            place = jnp.asarray(centre if loss.of == "margin" else 1 - y * centre)
            edges += [around(place / p.sd, None if loss.sharp else width / p.sd)]
        v, dv = panel_nodes(jnp.clip(jnp.concatenate(edges), -REACH, REACH), ORDER)
        label = jnp.full_like(v, y)
        out = self.output(label, p.slope * p.sd * y * v, p.V0)
        return Fields(label, p.sd * y * v, out.g, measure(v, dv, out.log_z))
