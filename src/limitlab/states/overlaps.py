r"""Microstates, macrostates, and `measure`, the only map from one to the other.

.. math::
    \Omega = \begin{pmatrix} Q & M \\ M^T & P \end{pmatrix}, \qquad
    Q = WW^T/d, \quad M = WW^{*T}/d, \quad P = W^*W^{*T}/d

With a spectrum of the inputs ``m, q, M, Q, P`` are overlaps of fields, w C w'/d: sum_k h_k c_k times those of mode k.
The squared norm of the weights is then a number of its own.
"""

import math
from typing import Any, ClassVar, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from limitlab._setup import double
from limitlab.errors import InputError
from limitlab.modules import Module, filter_jit
from limitlab.numerics.gauss.fields import AbstractFieldSum, field_sum
from limitlab.numerics.keys import Stream, stream
from limitlab.numerics.linalg import realised
from limitlab.numerics.shapes import filled, places
from limitlab.problems.asked import Asked
from limitlab.problems.channels import GaussianNoise
from limitlab.problems.inputs import Modes
from limitlab.problems.networks import Committee
from limitlab.problems.problem import Problem
from limitlab.problems.starts import AbstractStart
from limitlab.states.run import Learner
from limitlab.states.view import RUN, Variable

__all__ = [
    "ByMode",
    "Committees",
    "Overlaps",
    "Started",
    "Weights",
    "begun",
    "check_room",
    "error_coefficients",
    "error_sum",
    "family_risks",
    "initial_overlaps",
    "limit_overlaps",
    "measure",
    "mode_coordinates",
    "realise",
    "risk",
    "risks",
    "start_key",
]

BATCH = 2**23  # numbers held at once by `risks` (64 MiB)


class Committees(Protocol):
    """A committee that learns another one, whose labels have additive noise."""

    @property
    def teacher(self) -> Committee: ...
    @property
    def channel(self) -> GaussianNoise: ...
    @property
    def student(self) -> Committee: ...


class _Rule(Protocol):
    @property
    def spherical(self) -> bool: ...


class Started(Committees, Protocol):
    """The same with a start, and a rule that may keep every unit on the sphere."""

    @property
    def start(self) -> AbstractStart: ...
    @property
    def algorithm(self) -> _Rule: ...


class Weights(Module):
    """A committee and its teacher at finite size: W (p, d), W_star (k, d), second layer a (p,)."""

    W: jax.Array
    W_star: jax.Array
    a: jax.Array


class Overlaps(Module):
    """What a committee's risk depends on: Q (p, p), M (p, k), P (k, k), second layer a (p,)."""

    variables: ClassVar[dict[str, Variable]] = {
        "M": Variable(
            (*RUN, "student", "particle", "teacher", "teacher_2"),
            "student-teacher overlap w_i C w*_r / d",
        ),
        "Q": Variable(
            (*RUN, "student", "student_2", "particle"),
            "student-student overlap w_i C w_j / d",
        ),
        "P": Variable((*RUN, "teacher", "teacher_2"), "teacher-teacher overlap w*_r C w*_s / d"),
        "a": Learner.variables["a"],
    }

    Q: jax.Array
    M: jax.Array
    P: jax.Array
    a: jax.Array

    @property
    def omega(self) -> jax.Array:
        """The joint Gram matrix of student and teacher fields, students first."""
        xp: Any = np if isinstance(self.Q, np.ndarray) else jnp
        upper = xp.concatenate([self.Q, self.M], axis=-1)
        lower = xp.concatenate([xp.swapaxes(self.M, -1, -2), self.P], axis=-1)
        return xp.concatenate([upper, lower], axis=-2)


class ByMode:
    """What is seen of the directions that share an eigenvalue."""

    variables: ClassVar[dict[str, Variable]] = {
        "squared_norm": Variable((*RUN, "student"), "squared norm |w|^2/d of the weights, whatever the inputs"),
        "m_mode": Variable((*RUN, "mode"), "w . w* per direction of a mode"),
        "q_mode": Variable((*RUN, "mode"), "|w|^2 per direction of a mode"),
        "M_mode": Variable((*RUN, "student", "teacher", "mode"), "w_i . w*_r per direction of a mode"),
        "Q_mode": Variable((*RUN, "student", "student_2", "mode"), "w_i . w_j per direction of a mode"),
    }


def mode_coordinates(modes: Modes) -> dict[str, Any]:
    """Eigenvalue and share of every mode."""
    return {
        "mode": np.arange(modes.count),
        "eigenvalue": ("mode", np.asarray(modes.c, float)),
        "share": ("mode", np.asarray(modes.h, float)),
    }


@double
def measure(weights: Weights) -> Overlaps:
    """The overlaps of a finite network."""
    d = weights.W.shape[-1]
    W, S = weights.W, weights.W_star
    return Overlaps(W @ W.T / d, W @ S.T / d, S @ S.T / d, weights.a)


@double
def realise(overlaps: Overlaps, key: jax.Array, d: int) -> Weights:
    r"""Weights in d dimensions with exactly these overlaps and a random orientation.

    W = sqrt(d) L U, L L^T = Omega, with U orthonormal rows of a random frame. For Gaussian inputs the law of all
    that follows depends on the start through Omega only, so this is as good as any other realisation.
    """
    p, joint = overlaps.Q.shape[0], realised(overlaps.omega, key, d)
    return Weights(joint[:p], joint[p:], overlaps.a)


def start_key(seed: int, replica: int | jax.Array) -> jax.Array:
    """The key from which replica ``replica`` of ``seed`` draws its start, in simulations and predictions alike."""
    return stream(seed, Stream.START, replica)


def begun(student: Committee, teacher: Committee, start: AbstractStart, key, d, sphere: bool) -> Overlaps:
    """One draw of the start of two committees at dimension d. Equal keys give equal starts, whoever asks."""
    key_w, key_a = jax.random.split(key)
    Q, M, P = start.draw(key_w, d, student.width, teacher.width)
    a = student.output_weights
    a = start.draw_second_layer(key_a, student.width) if a is None else jnp.asarray(a)
    return _placed(Overlaps(Q, M, P, a), sphere)


def initial_overlaps(setting: Started, key: jax.Array, d: float | jax.Array) -> Overlaps:
    """One draw of the start at dimension d. Equal keys give equal starts, whoever asks."""
    return begun(setting.student, setting.teacher, setting.start, key, d, setting.algorithm.spherical)


def check_room(start: AbstractStart, Q: np.ndarray, M: np.ndarray, P: np.ndarray, d: float) -> None:
    """There is no start with these overlaps in fewer dimensions than it has independent directions."""
    gram, what = (P, "the teacher") if start.random else (np.block([[Q, M], [M.T, P]]), "the start")
    values = np.linalg.eigvalsh(gram)
    rank = int(np.sum(values > 1e-10 * max(values[-1], 1e-300)))
    if d < rank:
        raise InputError(
            f"d must be at least {rank}, the number of independent directions of {what}; got d={d:g}. "
            f"Use d >= {rank} or a smaller network."
        )


def limit_overlaps(setting: Started) -> Overlaps:
    """The start as d goes to infinity (a random second layer is refused: it has no deterministic limit)."""
    student, start = setting.student, setting.start
    if student.output_weights is None and start.random_layer:
        raise InputError(
            f"A start with a random second layer ({start.random_layer!r}) has no deterministic limit at finite width. "
            "Give the student's output_weights, or ask for draws at a finite d, e.g. OverlapODE(d=1000, replicas=16)."
        )
    Q, M, P = start.limit(student.width, setting.teacher.width)
    a = student.output_weights
    a = start.draw_second_layer(jax.random.key(0), student.width) if a is None else jnp.asarray(a)
    return _placed(Overlaps(Q, M, P, a), setting.algorithm.spherical)


def _placed(o: Overlaps, sphere: bool) -> Overlaps:
    """The spherical rule puts every unit on the sphere, at the start as after each step."""
    if not sphere:
        return o
    norm = jnp.sqrt(jnp.diagonal(o.Q))
    Q = o.Q / (norm[:, None] * norm[None, :])
    return Overlaps(Q.at[jnp.diag_indices_from(Q)].set(1.0), o.M / norm[:, None], o.P, o.a)


def error_coefficients(setting: Committees, a: jax.Array) -> jax.Array:
    r"""c with :math:`\mathcal E = y - f = \sum_A c_A \sigma_A(s_A) + \sqrt\Delta z`: -a_i/p, then a*_r/k."""
    xp: Any = np if isinstance(a, np.ndarray) else jnp
    return xp.concatenate([-a / setting.student.width, setting.teacher.a_star / setting.teacher.width])


def error_sum(setting: Committees, method: str = "auto", units: int | None = None) -> AbstractFieldSum:
    """How Gaussian moments of the error are computed; ``units`` distinct student units if not all are."""
    student, teacher = setting.student, setting.teacher
    width = student.width if units is None else units
    return field_sum(student.activation, teacher.activation, width, teacher.width, method)


class _Pair(Module):
    teacher: Committee
    channel: GaussianNoise
    student: Committee


@double
def risk(problem: Problem | Committees, overlaps: Overlaps, sums: AbstractFieldSum | None = None) -> jax.Array:
    r""":math:`R = \tfrac12 E[\mathcal E^2]`, the noise floor :math:`\Delta/2` included."""
    asked = Asked("risk", InputError)
    pair = _Pair(
        asked.part(problem.teacher, Committee, "a Committee teacher", "Overlaps describe committees."),
        asked.part(problem.channel, GaussianNoise, "additive label noise", "Use channel=GaussianNoise(variance=...)."),
        asked.part(problem.student, Committee, "a Committee student", "Overlaps describe committees."),
    )
    sums = error_sum(pair) if sums is None else sums
    c = error_coefficients(pair, overlaps.a)
    return 0.5 * (c @ sums.values(overlaps.omega, c) + pair.channel.variance)


def _risks(setting: Committees, sums: AbstractFieldSum, points: Overlaps) -> jax.Array:
    """The risk at each of many overlaps, in batches that bound the memory."""
    return jax.lax.map(lambda o: risk(setting, o, sums), points, batch_size=max(1, BATCH // sums.size))


_compiled = filter_jit(_risks)


@double
def risks(setting: Committees, sums: AbstractFieldSum, path: Overlaps) -> np.ndarray:
    """The risk along any leading axes of a path of overlaps."""
    lead = path.a.shape[:-1]
    flat = jax.tree.map(lambda x: np.asarray(x).reshape(-1, *x.shape[len(lead) :]), path)
    count, numbers = math.prod(lead), sum(x[0].size for x in jax.tree.leaves(flat))
    others = math.prod(1 << (n - 1).bit_length() for n in lead[1:])  # each axis has few sizes, and so their product
    room = places(lead[0], others * numbers) * others if lead else 1
    padded = jax.tree.map(lambda x: filled(x, room), flat)
    return np.asarray(_compiled(setting, sums, padded))[:count].reshape(lead)


@filter_jit
def family_risks(settings: Committees, sums: AbstractFieldSum, paths: Overlaps) -> jax.Array:
    """The same for several problems, whose numbers and paths lie along the first axes."""
    count, *lead = paths.a.shape[:-1]
    flat = jax.tree.map(lambda x: x.reshape(count, -1, *x.shape[1 + len(lead) :]), paths)
    return jax.lax.map(lambda lane: _risks(lane[0], sums, lane[1]), (settings, flat)).reshape(count, *lead)
