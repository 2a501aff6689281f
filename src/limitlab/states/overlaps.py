r"""Microstates, macrostates, and `measure`, the only map from one to the other.

.. math::
    \Omega = \begin{pmatrix} Q & M \\ M^T & P \end{pmatrix}, \qquad
    Q = WW^T/d, \quad M = WW^{*T}/d, \quad P = W^*W^{*T}/d
"""

import equinox as eqx
import jax
import jax.numpy as jnp

from limitlab.errors import InputError
from limitlab.numerics.gauss.fields import AbstractFieldSum, field_sum
from limitlab.numerics.linalg import gram_factor
from limitlab.problems.channels import GaussianNoise
from limitlab.problems.networks import Committee
from limitlab.problems.problem import Problem
from limitlab.problems.starts import AbstractStart

__all__ = [
    "Overlaps",
    "Weights",
    "begun",
    "error_coefficients",
    "error_sum",
    "family_risks",
    "initial_overlaps",
    "limit_overlaps",
    "measure",
    "realise",
    "risk",
    "risks",
    "start_key",
]

BATCH = 2**23  # numbers held at once by `risks` (64 MiB)


class Weights(eqx.Module):
    """A committee and its teacher at finite size: W (p, d), W_star (k, d), second layer a (p,)."""

    W: jax.Array
    W_star: jax.Array
    a: jax.Array


class Overlaps(eqx.Module):
    """What a committee's risk depends on: Q (p, p), M (p, k), P (k, k), second layer a (p,)."""

    Q: jax.Array
    M: jax.Array
    P: jax.Array
    a: jax.Array

    @property
    def omega(self) -> jax.Array:
        """The joint Gram matrix of student and teacher fields, students first."""
        upper = jnp.concatenate([self.Q, self.M], axis=-1)
        lower = jnp.concatenate([jnp.swapaxes(self.M, -1, -2), self.P], axis=-1)
        return jnp.concatenate([upper, lower], axis=-2)


def measure(weights: Weights) -> Overlaps:
    """The overlaps of a finite network."""
    d = weights.W.shape[-1]
    W, S = weights.W, weights.W_star
    return Overlaps(W @ W.T / d, W @ S.T / d, S @ S.T / d, weights.a)


def realise(overlaps: Overlaps, key: jax.Array, d: int) -> Weights:
    r"""Weights in d dimensions with exactly these overlaps and a random orientation.

    W = sqrt(d) L U, L L^T = Omega, with U orthonormal rows of a random frame. For Gaussian inputs the law of all
    that follows depends on the start through Omega only, so this is as good as any other realisation.
    """
    p, n = overlaps.Q.shape[0], overlaps.Q.shape[0] + overlaps.P.shape[0]
    if d >= n:
        factor = gram_factor(overlaps.omega)
    else:  # fewer dimensions than fields: keep the d leading directions; the others vanish or it is refused
        values, vectors = jnp.linalg.eigh(overlaps.omega)
        factor = vectors[:, -d:] * jnp.sqrt(jnp.maximum(values[-d:], 0.0))
    frame, _ = jnp.linalg.qr(jax.random.normal(key, (d, factor.shape[1])))
    joint = jnp.sqrt(d) * factor @ frame.T
    return Weights(joint[:p], joint[p:], overlaps.a)


def start_key(seed: int, replica: int | jax.Array) -> jax.Array:
    """The key from which replica ``replica`` of ``seed`` draws its start, in simulations and predictions alike."""
    return jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), 0), replica)


def _second_layer(problem: Problem, key: jax.Array) -> jax.Array:
    student, start = problem.need("student", "start", by="A start")
    if student.output_weights is not None:
        return jnp.asarray(student.output_weights)
    return start.draw_second_layer(key, student.width)


def begun(student: Committee, teacher: Committee, start: AbstractStart, key, d, sphere: bool) -> Overlaps:
    """One draw of the start of two committees at dimension d. Equal keys give equal starts, whoever asks."""
    key_w, key_a = jax.random.split(key)
    Q, M, P = start.draw(key_w, d, student.width, teacher.width)
    a = student.output_weights
    a = start.draw_second_layer(key_a, student.width) if a is None else jnp.asarray(a)
    if sphere:
        norm = jnp.sqrt(jnp.diagonal(Q))
        Q, M = Q / (norm[:, None] * norm[None, :]), M / norm[:, None]
        Q = Q.at[jnp.diag_indices_from(Q)].set(1.0)
    return Overlaps(Q, M, P, a)


def initial_overlaps(problem: Problem, key: jax.Array, d: float | jax.Array) -> Overlaps:
    """One draw of the start at dimension d. Equal keys give equal starts, whoever asks."""
    student, start = problem.need("student", "start", by="A start")
    key_w, key_a = jax.random.split(key)
    Q, M, P = start.draw(key_w, d, student.width, _teacher_width(problem))
    return _on_sphere(problem, Overlaps(Q, M, P, _second_layer(problem, key_a)))


def limit_overlaps(problem: Problem) -> Overlaps:
    """The start as d goes to infinity (a random second layer is refused: it has no deterministic limit)."""
    student, start = problem.need("student", "start", by="A start")
    if student.output_weights is None and getattr(start, "second_layer", "ones") != "ones":
        raise InputError(
            f"A start with a random second layer ({start.second_layer!r}) has no deterministic limit at finite width. "
            "Give the student's output_weights, or ask for draws at a finite d, e.g. OverlapODE(d=1000, replicas=16)."
        )
    Q, M, P = start.limit(student.width, _teacher_width(problem))
    return _on_sphere(problem, Overlaps(Q, M, P, _second_layer(problem, jax.random.key(0))))


def _teacher_width(problem: Problem) -> int:
    assert isinstance(problem.teacher, Committee)
    return problem.teacher.width


def _on_sphere(problem: Problem, o: Overlaps) -> Overlaps:
    """The spherical rule puts every unit on the sphere, at the start as after each step."""
    if not getattr(problem.algorithm, "spherical", False):
        return o
    norm = jnp.sqrt(jnp.diagonal(o.Q))
    Q = o.Q / (norm[:, None] * norm[None, :])
    return Overlaps(Q.at[jnp.diag_indices_from(Q)].set(1.0), o.M / norm[:, None], o.P, o.a)


def error_coefficients(problem: Problem, a: jax.Array) -> jax.Array:
    r"""c with :math:`\mathcal E = y - f = \sum_A c_A \sigma_A(s_A) + \sqrt\Delta z`: -a_i/p, then a*_r/k."""
    teacher = problem.teacher
    assert isinstance(teacher, Committee) and problem.student is not None
    a_star = jnp.ones(teacher.width) if teacher.output_weights is None else jnp.asarray(teacher.output_weights)
    return jnp.concatenate([-a / problem.student.width, a_star / teacher.width])


def error_sum(problem: Problem, method: str = "auto", units: int | None = None) -> AbstractFieldSum:
    """How Gaussian moments of this problem's error are computed; ``units`` distinct student units if not all are."""
    student, teacher = problem.student, problem.teacher
    assert isinstance(teacher, Committee) and student is not None
    width = student.width if units is None else units
    return field_sum(student.activation, teacher.activation, width, teacher.width, method)


def risk(problem: Problem, overlaps: Overlaps, sums: AbstractFieldSum | None = None) -> jax.Array:
    r""":math:`R = \tfrac12 E[\mathcal E^2]`, the noise floor :math:`\Delta/2` included."""
    assert isinstance(problem.channel, GaussianNoise)
    sums = error_sum(problem) if sums is None else sums
    c = error_coefficients(problem, overlaps.a)
    return 0.5 * (c @ sums.values(overlaps.omega, c) + problem.channel.variance)


@eqx.filter_jit
def risks(problem: Problem, sums: AbstractFieldSum, path: Overlaps) -> jax.Array:
    """The risk along any leading axes of a path of overlaps, in batches that bound the memory."""
    lead = path.a.shape[:-1]
    flat = jax.tree.map(lambda x: jnp.asarray(x).reshape(-1, *x.shape[len(lead) :]), path)
    batch = max(1, BATCH // sums.size)
    return jax.lax.map(lambda o: risk(problem, o, sums), flat, batch_size=batch).reshape(lead)


@eqx.filter_jit
def family_risks(problems: Problem, sums: AbstractFieldSum, paths: Overlaps) -> jax.Array:
    """The same for several problems, whose numbers and paths lie along the first axes."""
    return jax.lax.map(lambda lane: risks(lane[0], sums, lane[1]), (problems, paths))
