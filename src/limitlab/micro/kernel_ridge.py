r"""Kernel ridge regression on sparse targets: what a linear method learns from the samples that SGD sees.

.. math::
    f = \mathrm{argmin}\; \frac1n \sum_\mu (y_\mu - f(x_\mu))^2 + \mathrm{penalty}\, |f|_K^2, \qquad
    K(x, x') = k(x \cdot x') = E_w[\sigma(w \cdot x)\sigma(w \cdot x')]

Such a kernel is diagonal in the monomials, with one eigenvalue a degree, about :math:`k! c/d^k`: a term of degree k is
learned from about d^k samples, whatever the kernel, while SGD climbs a staircase with O(d).
"""

from collections.abc import Callable
from math import lgamma
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from limitlab.errors import InputError
from limitlab.modules import filter_jit
from limitlab.numerics.checks import check_integer, check_number, check_seed
from limitlab.numerics.cube import members
from limitlab.numerics.gauss.rules import legendre
from limitlab.numerics.keys import Stream, stream
from limitlab.numerics.machine import Memory, check_memory, relieve
from limitlab.numerics.random import normal
from limitlab.problems.activations import Activation
from limitlab.problems.asked import Asked
from limitlab.problems.base import AbstractInputs
from limitlab.problems.channels import GaussianNoise
from limitlab.problems.networks import Committee
from limitlab.problems.problem import Problem
from limitlab.problems.sparse.target import SparseTarget
from limitlab.results.schema import dataset
from limitlab.verbs import Watch, tell, verb

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["activation_kernel", "kernel_ridge"]

PENALTIES = tuple(10.0**k for k in range(-7, 2))  # in units of k(1)
DEGREES = 160  # of the Hermite series of a kernel
TAIL = 9.0  # standard deviations of a binomial that are summed
MAX_DIMENSION = 5000
MAX_TERMS = 4096  # of the target, whose coefficients are reported one by one


@verb
def kernel_ridge(
    problem: Problem,
    d: int,
    samples,
    penalty: float | None = None,
    kernel: Callable | None = None,
    replicas: int = 4,
    seed: int = 0,
    progress: Watch = None,
) -> "xr.Dataset":
    r"""Kernel ridge regression with an inner-product kernel, on samples of the problem (hypercube and sparse target).

    Parameters
    ----------
    problem
        Its target, label noise and, unless a kernel is given, the activation of its student and the scale of its start:
        the kernel of the student's random features. The learning rule is not used.
    samples
        Increasing numbers of samples n; each is fitted with its own data set.
    penalty
        None takes, for each n, that of ``1e-7, ..., 10`` times k(1) with the least true risk averaged over replicas:
        better than any validation could do, so that the baseline is not undersold.
    kernel
        k as a NumPy function of x . x' in [-1, 1]; it must be positive definite.
    replicas, seed
        Independent data sets.
    progress
        True draws a bar; a function is called as progress(done, total, label); None is silent.

    Returns
    -------
    xarray.Dataset
        ``risk`` (noise floor included) and ``fourier``, the fit's coefficient on each term of the target, by samples
        and replica; ``penalty`` by samples. Both are exact for the fit: no test set is drawn.
    """
    relieve()
    data = _Sparse.of(problem, Asked("kernel_ridge", InputError), d)
    target = data.target
    replicas = check_integer("kernel_ridge", "replicas", replicas, low=1, remedy="Ask for at least one data set.")
    seed = check_seed("kernel_ridge", seed)
    if kernel is not None and not callable(kernel):
        raise InputError(
            f"kernel_ridge.kernel must be a NumPy function of x . x'; got {kernel!r}. Leave it out for none."
        )
    penalties = None if penalty is None else np.asarray([_positive(penalty)])
    sizes = _sizes(samples)
    largest = int(sizes[-1])
    needed = 8 * (4 * largest**2 + 3 * largest * d + 4 * replicas * len(sizes) * (1 + len(target.terms)))
    remedy = f"It holds matrices of n^2 entries, n = {largest}. Use fewer samples or replicas, or a smaller d."
    check_memory(Memory(needed, remedy), "kernel_ridge")
    values = _student_values(problem, d) if kernel is None else _given_values(kernel, d)
    if penalties is None:
        penalties = values[0] * np.asarray(PENALTIES)
    twice = _composed(values)
    masks = list(target.terms)
    hat = np.array([target.terms[mask] for mask in masks])
    levels = _levels(values, max(mask.bit_count() for mask in masks))
    level = np.array([levels[mask.bit_count()] for mask in masks])
    floor = data.variance / 2

    risks = np.zeros((len(sizes), replicas, len(penalties)))
    fourier = np.zeros((len(sizes), replicas, len(penalties), len(masks)))
    for i, n in enumerate(sizes.tolist()):
        for r in range(replicas):
            x, y, chi = _draw(data, masks, n, d, seed, r)
            distance = np.rint((d - x @ x.T) / 2).astype(np.int32)
            K, K2 = values[distance], twice[distance]
            for j, each in enumerate(penalties):
                alpha = _solve(K, n * float(each), y)
                fourier[i, r, j] = level * (alpha @ chi)
                risks[i, r, j] = (hat @ hat - 2 * hat @ fourier[i, r, j] + alpha @ K2 @ alpha) / 2 + floor
            tell(i * replicas + r + 1, len(sizes) * replicas, f"kernel ridge, n = {n}")
    best = np.argmin(risks.mean(axis=1), axis=1)
    rows = np.arange(len(sizes))
    chosen = "given" if penalty is not None else f"least true risk among {len(penalties)}"
    names = np.asarray(target.term_names)[masks]
    return dataset(
        problem,
        {
            "risk": (("samples", "replica"), risks[rows, :, best]),
            "fourier": (("samples", "replica", "term"), fourier[rows, :, best]),
            "penalty": (("samples",), penalties[best]),
        },
        {"samples": sizes, "term": names},
        method="kernel ridge",
        attrs={
            "d": d,
            "seed": seed,
            "kernel": "student's activation" if kernel is None else "given",
            "penalties": chosen,
        },
    )


def activation_kernel(activation: Activation, scale: float, rho: np.ndarray) -> np.ndarray:
    r""":math:`E[\sigma(sG)\sigma(sG')]` for standard normals of correlation rho: :math:`\sum_k c_k^2 \rho^k`, with
    :math:`c_k = E[\sigma(sG) He_k(G)]/\sqrt{k!}`. What the series leaves out is added at rho = +-1, where it counts."""
    kinks = activation.pieces()
    edges = np.arange(-12.5, 12.75, 0.25)
    if kinks is not None:
        places = np.concatenate([kinks[2], -kinks[2]]) / scale  # the mirrored ones are for rho = -1
        edges = np.unique(np.concatenate([edges, np.clip(places, -12.5, 12.5)]))
    nodes, weights = legendre(16)
    half, middle = np.diff(edges) / 2, (edges[1:] + edges[:-1]) / 2
    g = (middle[:, None] + half[:, None] * nodes).ravel()
    root = np.exp(-(g**2) / 4) / (2 * np.pi) ** 0.25  # of the density; its other half keeps He_k bounded
    y = np.asarray(jax.vmap(activation.function)(jnp.asarray(scale * g)), float) * root
    w = (half[:, None] * weights).ravel()
    c, before, now = np.zeros(DEGREES), np.zeros_like(g), root
    for k in range(DEGREES):
        c[k] = np.sum(w * y * now)
        before, now = now, (g * now - np.sqrt(k) * before) / np.sqrt(k + 1)
    flipped = np.asarray(jax.vmap(activation.function)(jnp.asarray(-scale * g)), float) * root
    rho = np.asarray(rho, float)
    total = np.polynomial.polynomial.polyval(rho, c**2)
    total = np.where(rho == 1, np.sum(w * y**2), total)
    return np.where(rho == -1, np.sum(w * y * flipped), total)


def _products(d: int) -> np.ndarray:
    """The d + 1 values of x . x', by Hamming distance h: 1 - 2h/d."""
    return 1 - 2 * np.arange(d + 1) / d


def _student_values(problem: Problem, d: int) -> np.ndarray:
    """k at these values, for the random features of the student."""
    asked = Asked("kernel_ridge without a kernel", InputError)
    student = asked.part(problem.student, Committee, "Problem.student", "Add Committee(width=..., activation=...).")
    start, scale = problem.start, 1.0
    if start is not None and start.alone:
        scale = float(np.sqrt(start.direction_overlaps(1.0, spherical=False)[1]))
    return activation_kernel(student.activation, scale, _products(d))


def _given_values(kernel: Callable, d: int) -> np.ndarray:
    rho = _products(d)
    values = np.asarray(kernel(rho), float)
    if values.shape != rho.shape or not np.all(np.isfinite(values)) or values[0] <= 0:
        raise InputError(
            "kernel_ridge.kernel must be a NumPy function of x . x' with finite values and k(1) > 0; "
            f"got {values.shape} values for {rho.shape} points. Write, for example, lambda rho: (1 + rho)**4."
        )
    return values


def _binomial(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Heads of n fair coins and their odds, as far out as they count."""
    reach = TAIL * np.sqrt(n) / 2 + 1
    k = np.arange(max(0, int(np.ceil(n / 2 - reach))), min(n, int(n / 2 + reach)) + 1)
    logs = lgamma(n + 1) - np.array([lgamma(i + 1) + lgamma(n - i + 1) for i in k.tolist()]) - n * np.log(2.0)
    return k, np.exp(logs)


def _composed(values: np.ndarray) -> np.ndarray:
    r""":math:`E_{x''} K(x, x'')K(x'', x')` by Hamming distance of x and x'."""
    d = len(values) - 1
    out = np.zeros(d + 1)
    for h in range(d + 1):
        same, p_same = _binomial(d - h)
        other, p_other = _binomial(h)
        first = values[same[:, None] + other]  # x'' differs from x here, and from x' there
        second = values[same[:, None] + (h - other)]
        out[h] = p_same @ (first * second) @ p_other
    return out


def _levels(values: np.ndarray, degree: int) -> np.ndarray:
    """The kernel's eigenvalue on monomials of each degree up to ``degree``."""
    d, out = len(values) - 1, []
    for k in range(degree + 1):
        inside, p_inside = _binomial(k)
        outside, p_outside = _binomial(d - k)
        out.append((p_inside * (-1.0) ** inside) @ values[inside[:, None] + outside] @ p_outside)
    return np.array(out)


@filter_jit
def _drawn(inputs: AbstractInputs, target: SparseTarget, key: jax.Array, n: int, d: int):
    key_x, key_y = jax.random.split(jax.random.fold_in(key, n))
    x = inputs.draw(key_x, n, d)
    return x > 0, target.output((), x), normal(key_y, (n,))


def _draw(data: "_Sparse", masks: list[int], n: int, d: int, seed: int, replica: int):
    """Signs (n, d), labels, and the target's monomials (n, terms). Keys depend on (seed, replica, n) only."""
    drawn = _drawn(data.inputs, data.target, stream(seed, Stream.KERNEL, replica), n, d)
    up, clean, noise = (np.asarray(x) for x in drawn)
    x, noise = np.where(up, 1.0, -1.0), np.sqrt(data.variance) * noise
    chi = np.stack([np.prod(x[:, members(mask)], axis=1) for mask in masks], axis=1)
    return x, clean + noise, chi


def _solve(K: np.ndarray, ridge: float, y: np.ndarray) -> np.ndarray:
    from scipy.linalg import cho_factor, cho_solve

    try:
        return cho_solve(cho_factor(K + ridge * np.eye(len(K)), lower=True, overwrite_a=True), y)
    except np.linalg.LinAlgError:
        raise InputError(
            f"kernel_ridge needs a positive definite kernel; its matrix of {len(K)} samples plus {ridge:.3g} is not. "
            "Use another kernel or a larger penalty."
        ) from None


class _Sparse(NamedTuple):
    """A sparse target on signs, with additive noise of some variance."""

    inputs: AbstractInputs
    target: SparseTarget
    variance: float

    @classmethod
    def of(cls, problem: Problem, asked: Asked, d: int) -> "_Sparse":
        names = type(problem.teacher).__name__, type(problem.inputs).__name__
        needed, came, remedy = "a SparseTarget and Hypercube() inputs", " and ".join(names), "See ERM for a direction."
        if not problem.inputs.signs:
            asked.refuse(needed, came, remedy)
        target = asked.part(problem.teacher, SparseTarget, needed, remedy)
        channel = asked.part(problem.channel, GaussianNoise, "additive label noise (GaussianNoise)", "Use this one.")
        check_integer("kernel_ridge", "d", d, low=target.latent, remedy="It holds at least the target's variables.")
        if d > MAX_DIMENSION or len(target.terms) > MAX_TERMS:
            raise InputError(
                f"kernel_ridge needs d <= {MAX_DIMENSION} and a target of at most {MAX_TERMS} terms; got d={d} and "
                f"{len(target.terms)} terms. Use a smaller problem."
            )
        return cls(problem.inputs, target, float(channel.variance))


def _positive(penalty: float) -> float:
    return check_number(
        "kernel_ridge", "penalty", penalty, low=0, open_low=True, remedy="Leave it out to take the best."
    )


def _sizes(samples) -> np.ndarray:
    sizes = [
        check_integer("kernel_ridge", "samples", n, low=1, remedy="These are numbers of samples.")
        for n in np.atleast_1d(np.asarray(samples)).tolist()
    ]
    if not sizes or np.any(np.diff(sizes) <= 0):
        raise InputError(f"kernel_ridge.samples must increase strictly; got {sizes}. Sort them and drop repeats.")
    return np.asarray(sizes)
