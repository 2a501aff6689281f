r"""Mean-field limits of one-pass SGD: wide students, by the flow of a cloud of particles."""

from dataclasses import replace
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from limitlab.algorithms.settings.one_pass import CommitteeOnePass
from limitlab.errors import InputError, LimitUndefinedError
from limitlab.macro.committees.particles import CHUNK, Cloud, Interaction, cloud_risk, drift, interaction
from limitlab.macro.limit import AbstractLimit
from limitlab.macro.overlaps.drift import limit_start
from limitlab.modules import field, filter_jit, tree_at
from limitlab.numerics.checks import check_integer, check_number, check_seed
from limitlab.numerics.gauss.pairs import pair_numbers
from limitlab.numerics.gauss.rules import normal_rule
from limitlab.numerics.linalg import pseudo_inverse
from limitlab.numerics.machine import Memory
from limitlab.numerics.ode.integrate import Integration, integrate
from limitlab.numerics.shapes import along_rows
from limitlab.numerics.trees import as_array, as_arrays, plain
from limitlab.problems.asked import Asked
from limitlab.problems.problem import Problem
from limitlab.problems.starts import AbstractStart
from limitlab.results.schema import dataset
from limitlab.states.direction import Direction
from limitlab.states.overlaps import Overlaps, initial_overlaps, start_key
from limitlab.states.run import Run
from limitlab.states.view import Variable, assembled

__all__ = ["HighDimMeanField"]

# An implicit step differentiates the drift along every coordinate; it is allowed while that takes fewer numbers.
IMPLICIT = 2**22


@filter_jit
def _drawn(setting: CommitteeOnePass, seed: np.ndarray, d: np.ndarray) -> Overlaps:
    return initial_overlaps(setting, start_key(as_array(seed), 0), as_array(d))


@filter_jit
def _layer(start: AbstractStart, seed: np.ndarray, particles: int) -> jax.Array:
    return start.draw_second_layer(jax.random.split(start_key(as_array(seed), 0))[1], particles)


@filter_jit
def _orthogonal(overlaps: Overlaps) -> jax.Array:
    """The part of each unit's norm that is orthogonal to the teacher."""
    inside = jnp.einsum("ir,rs,is->i", overlaps.M, pseudo_inverse(overlaps.P), overlaps.M)
    return jnp.maximum(jnp.diagonal(overlaps.Q) - inside, 0.0)  # below zero by rounding only


def _flow(cloud: Cloud, args: tuple[CommitteeOnePass, Interaction]) -> Cloud:
    return drift(*args, cloud)


@along_rows
@filter_jit
def _risks(args: tuple[CommitteeOnePass, Interaction], path: Cloud) -> jax.Array:
    return jax.lax.map(lambda cloud: cloud_risk(*args, cloud), path)


class HighDimMeanField(AbstractLimit):
    r"""Wide students, :math:`p \to \infty` with :math:`\gamma/p \to 0`: the particle flow of `drift` on (m, q).

    .. math::
        W = M P^{-1} W^* + W^\perp, \qquad
        Q_{ij} = m_i P^{-1} m_j + \sqrt{q_i q_j}\, \xi_{ij}, \qquad q_i = |w_i^\perp|^2/d

    with :math:`\xi_{ij} = 0` for ``d=None`` (HDMF); at a given d (MF) every right-hand side is averaged over
    :math:`\xi = g \cdot g'`, g and g' uniform on the unit sphere of :math:`R^{d-k}`.

    Needs Gaussian inputs, the square loss, a fresh sample at every step. Time: t = gamma * step / (p d). The
    learning-rate-squared term of `OverlapODE`, of relative size gamma/p (the attribute ``dropped_term``), is dropped:
    use this limit where it is small. Label noise then only shifts the risk. The declared rates are the theorem's upper
    bounds; from equal starts the error is observed to fall like 1/p and 1/d.

    Parameters
    ----------
    particles
        None: the particles are the student's units, and each also acts on itself (xi_ii = 1, a term of order 1/p):
        the closure of this very network, started from the same (m, q) as ``simulate`` and ``OverlapODE`` with the
        same d and seed. A number: p is taken to infinity first. Each particle stands for a crowd of units with its
        (m, q, a) and independent orthogonal parts, so nothing acts on itself and the flow is the exact flow of
        the measure started from these atoms. A random start is then sampled with so many particles; any other
        start has its units as atoms, and only the student's width is accepted.
    d
        The dimension: of the law of xi and of the start. With None a random start is m = 0, which is often a fixed
        point; give the overlaps of a draw as an `OverlapStart` to follow them by HDMF.
    seed
        Of the start.
    rtol
        Relative tolerance of the integrator.
    nodes
        Size of the quadrature rule in xi. ``quadrature_error`` compares it with a rule of other nodes.

    Notes
    -----
    The state takes 8 p (k + 2) bytes. A right-hand side costs O(p^2 nodes) time and at most 32 p^2 bytes plus a
    few tables of 512 KiB; for squares O(p k^2) time and a few times 8 p k bytes. Functions without exact terms take
    15000 nodes a pair: keep them to tens of particles.
    """

    particles: int | None = field(static=True, converter=plain, default=None)
    d: float | None = None
    seed: int = field(static=True, converter=plain, default=0)
    rtol: float = field(static=True, converter=plain, default=1e-8)
    nodes: int = field(static=True, converter=plain, default=24)

    grows: ClassVar[str] = "p, with γ/p to 0; d too, unless it is given"
    stays: ClassVar[str] = "width k of the teacher, time"
    needs: ClassVar[str] = "Gaussian inputs, committees, the square loss, fresh samples"
    cost: ClassVar[str] = "O(p² nodes) an evaluation, O(p k²) for squares"
    reference: ClassVar[str] = "arnaboldi2023dimensionless"
    rate: ClassVar[dict[str, float]] = {"p": -0.5, "d": -0.5}
    variables: ClassVar[dict[str, Variable]] = assembled(Overlaps, Direction, Run)

    def __check_init__(self):
        name = type(self).__name__
        if self.particles is not None:
            check_integer(name, "particles", self.particles, low=1, remedy="None takes the student's own units.")
        if self.d is not None and check_number(name, "d", self.d, low=1, remedy="None means infinity.") % 1:
            raise InputError(f"{name}.d must be a whole number; got {self.d!r}. It is the dimension of the weights.")
        check_seed(name, self.seed)
        check_number(name, "rtol", self.rtol, low=1e-13, high=1e-2, remedy="Use a tolerance such as 1e-8.")
        check_integer(
            name, "nodes", self.nodes, low=2, high=1000, remedy="24 are enough unless quadrature_error says otherwise."
        )

    def setting(self, problem: Problem, asked: Asked) -> CommitteeOnePass:
        setting = CommitteeOnePass.of(problem, asked)
        student, start, name = setting.student, setting.start, asked.by
        k, particles, given = setting.teacher.width, self.particles, student.output_weights
        if self.d is not None and self.d <= k:
            raise LimitUndefinedError(
                f"{name} needs a dimension d above the teacher's width {k}, so that students have an orthogonal part; "
                f"got d={self.d:g}. Use a larger d, or d=None for infinite dimension."
            )
        if particles not in (None, student.width) and not start.random:
            raise LimitUndefinedError(
                f"{name} needs as many particles as the student has units ({student.width}) for a start that is not "
                f"random ({type(start).__name__}); got particles={particles}. Leave particles out: copies of a unit "
                "move as one."
            )
        if particles is not None and given is not None and particles % student.width:
            raise LimitUndefinedError(
                f"{name} needs a multiple of the student's width {student.width} as particles when its output_weights "
                f"are given, so that each weight has its share; got particles={particles}."
            )
        if particles is None and self.d is None and given is None and start.random_layer:
            raise LimitUndefinedError(
                f"{name} needs draws of the random second layer ({start.random_layer!r}); got d=None and "
                "particles=None. Give a number of particles, or a d."
            )
        return setting

    def memory(self, setting: CommitteeOnePass, times: np.ndarray) -> Memory:
        n, k = setting.student.width if self.particles is None else self.particles, setting.teacher.width
        f, g = setting.student.activation, setting.teacher.activation
        start = 8 * 8 * n * n  # the overlaps that (m, q) are read off
        table = 0 if f.name == g.name == "square" else 8 * 60 * n * (n + k) + 64 * CHUNK * self.nodes
        return Memory(
            start + table + 8 * n * (k + 2) * (20 + 4 * len(times)),
            f"It follows {n} particles, each of which acts on all others. Use fewer particles or times.",
        )

    def _cloud(self, setting: CommitteeOnePass) -> tuple[CommitteeOnePass, Cloud, np.ndarray]:
        """The setting with one unit per particle, the particles at time 0, and P."""
        student, start = setting.student, setting.start
        n = student.width if self.particles is None else self.particles
        a = student.output_weights
        wide = replace(student, width=n, output_weights=None if a is None else np.tile(a, n // student.width))
        if n != student.width:
            setting = replace(setting, student=wide)
        # Same keys as simulate and OverlapODE, so that with particles=None all three start from the same draw.
        seed = np.asarray(self.seed)
        if self.d is not None:
            overlaps = _drawn(as_arrays(setting), seed, np.asarray(float(self.d)))
        elif self.particles is None:
            overlaps = limit_start(setting)
        else:
            a = _layer(as_arrays(start), seed, n) if a is None else wide.output_weights
            overlaps = Overlaps(*start.limit(n, setting.teacher.width), as_array(a))
        M, q, a, P = jax.device_get((overlaps.M, _orthogonal(overlaps), overlaps.a, overlaps.P))
        return setting, Cloud(M, q, a), P

    def solve(self, setting: CommitteeOnePass, times: np.ndarray):
        wide, cloud, P = self._cloud(setting)
        own = self.particles is None
        links = interaction(wide, P, self.d, own=own, nodes=self.nodes)
        args = (as_arrays(wide), links)
        size = sum(x.size for x in cloud)
        numbers = 1 if links.square else len(cloud.q) ** 2 * links.xi.size * _numbers(wide, links)
        solver = "auto" if size * max(size, min(numbers, CHUNK)) <= IMPLICIT else "explicit"
        run = integrate(_flow, cloud, times, args, rtol=self.rtol, atol=0.1 * self.rtol, solver=solver)
        risks = _risks(args, run.values)
        error = 0.0 if links.square else self._quadrature_error(args, run.values)
        return self._dataset(setting, times, run, risks, P, _method(wide, links), error)

    def _quadrature_error(self, args: tuple[CommitteeOnePass, Interaction], path: Cloud) -> float:
        """The error of mixtures, or the largest change of the drift when every rule is replaced by its twin."""
        setting, links = args
        twin = interaction(setting, links.P, self.d, own=links.own, nodes=self.nodes + 1)
        if links.rule is None and twin.xi.size == links.xi.size:
            return 2e-8 if _numbers(setting, links) > 1 else 0.0
        if links.rule is not None:
            twin = tree_at(lambda x: x.rule, twin, as_arrays(normal_rule(2, twin=True)))
        finite = np.nonzero(np.all(np.isfinite(path.q), axis=1))[0]
        points = {finite[0], finite[len(finite) // 2], finite[-1]} if len(finite) else set()
        clouds = [Cloud(*(x[t] for x in path)) for t in points]
        return max((float(_gap(cloud, args, (setting, twin))) for cloud in clouds), default=0.0)

    def _dataset(
        self, setting: CommitteeOnePass, times: np.ndarray, run: Integration, risks, P, method: str, error: float
    ):
        path: Cloud = run.values
        algorithm, width = setting.algorithm, setting.student.width
        return dataset(
            setting.problem,
            {
                "risk": (("time",), risks),
                "M": (("time", "particle", "teacher"), path.m),
                "q": (("time", "particle"), path.q),
                "a": (("time", "particle"), path.a),
                "P": (("teacher", "teacher_2"), np.asarray(P)),
                "status": ((), run.status),
                "end_time": ((), run.end_time),
            },
            {"time": times, "particle": np.arange(path.q.shape[1]), "teacher": np.arange(len(P))},
            method=type(self).__name__,
            reference=self.reference,
            attrs={
                "gaussian_moments": method,
                "quadrature_error": error,
                "solver": run.solver,
                "steps": run.steps,
                "rtol": self.rtol,
                "dropped_term": float(algorithm.learning_rate) / (width * algorithm.batch_size),
                "particle_is": "one unit" if self.particles is None else "a crowd of units",
                "seed": self.seed,
                **({} if self.d is None else {"d": float(self.d)}),
            },
        )


def _numbers(setting: CommitteeOnePass, links: Interaction) -> int:
    student, teacher = setting.student.activation, setting.teacher.activation
    return max(pair_numbers(student, h, links.rule) for h in (student, teacher))


def _method(setting: CommitteeOnePass, links: Interaction) -> str:
    if links.square:
        pairs = "closed form (matrix formula for squares)"
    elif links.rule is not None:
        pairs = f"quadrature: {links.rule.name}"
    else:
        mixture = _numbers(setting, links) > 1
        pairs = "closed form" + (" (logistic functions as mixtures of 10 error functions)" if mixture else "")
    return pairs + (f"; {links.xi.size} Gegenbauer nodes in xi" if links.xi.size > 1 and not links.square else "")


@filter_jit
def _gap(
    cloud: Cloud, one: tuple[CommitteeOnePass, Interaction], two: tuple[CommitteeOnePass, Interaction]
) -> jax.Array:
    """The largest difference of two drifts."""
    gaps = jax.tree.map(lambda x, y: jnp.max(jnp.abs(x - y)), drift(*one, cloud), drift(*two, cloud))
    return jnp.max(jnp.stack(jax.tree.leaves(gaps)))
