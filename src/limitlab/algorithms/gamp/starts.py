"""Where message passing starts: the prior mean, near the teacher, at random, or from a spectral method."""

import jax
import jax.numpy as jnp

from limitlab.algorithms.gamp.iteration import Data, Model
from limitlab.errors import InputError
from limitlab.problems.starts import AbstractStart, InformedStart, RandomStart, SpectralStart

__all__ = ["check_start", "leading_vector", "start_from"]

LANCZOS_STEPS = 80
LEAST_WEIGHT = -20.0  # 1 - rho/E[z^2|y] is unbounded below; see `SpectralStart`


def check_start(by: str, model: Model, start: AbstractStart | None, *, teacher: bool) -> None:
    """Raise `InputError` unless the iteration can leave from ``start`` and get anywhere."""
    even = model.channel.even
    known = "SpectralStart(), RandomStart(0.01)" + (", InformedStart(overlap)" if teacher else "")
    if start is None and even:
        raise InputError(
            f"{by} with the even channel {model.channel!r} needs a start: the prior mean a = 0 is an exact fixed "
            f"point, because these labels do not see the sign of z. Add start={known.replace(', ', ' or ')}."
        )
    if isinstance(start, SpectralStart) and not even:
        raise InputError(
            f"SpectralStart finds a direction but not its sign, and {model.channel!r} sees the sign of z. "
            "Leave start out: the prior mean is a good start here."
        )
    if isinstance(start, InformedStart):
        if not teacher:
            raise InputError(f"{by} does not know the teacher that InformedStart is near. Use one of {known}.")
        if float(start.overlap) < 0:
            raise InputError(
                f"{by} needs InformedStart.overlap = m/rho in [0, 1], an overlap of a posterior mean with the teacher; "
                f"got {float(start.overlap):g}."
            )
    elif not (start is None or isinstance(start, (RandomStart, SpectralStart))):
        raise InputError(f"{by} can start from {known} or None, the prior mean; got {start!r}.")


def start_from(
    model: Model, data: Data, start: AbstractStart | None, key: jax.Array, teacher: jax.Array | None = None
) -> tuple[jax.Array, jax.Array]:
    r"""The means a and variances v before the first iteration.

    ``None``: a = 0, v = rho. ``InformedStart(overlap)``: a posterior mean with m = overlap * rho,

    .. math:: a = \frac{m}{\rho} w^* + \sqrt{m (1 - m/\rho)}\, \xi, \qquad v = \rho - m,

    on the Nishimori line (q = m, V = rho - m), so that its cosine with the teacher is sqrt(overlap).
    ``RandomStart(scale)``: a = scale * xi, on the sphere if asked, v = rho. It says more than it knows (q > m), so
    use a small scale such as 0.01; from 0.3 on many runs end badly. ``SpectralStart``: see there.
    """
    d = data.X.shape[1]
    rho = jnp.asarray(model.prior.second_moment, float)
    xi = jax.random.normal(key, (d,))
    if start is None:
        return jnp.zeros(d), jnp.full(d, rho)
    if isinstance(start, InformedStart):
        assert teacher is not None
        share = start.overlap
        return share * teacher + jnp.sqrt(rho * share * (1 - share)) * xi, jnp.full(d, rho * (1 - share))
    if isinstance(start, RandomStart):
        xi = xi * jnp.sqrt(d / jnp.sum(jnp.square(xi))) if start.sphere else xi
        return start.scale * xi, jnp.full(d, rho)
    assert isinstance(start, SpectralStart)
    u = leading_vector(data.X, spectral_weights(model, data), xi)
    return jnp.sqrt(start.overlap * rho * d) * u, jnp.full(d, rho * (1 - start.overlap))


def spectral_weights(model: Model, data: Data) -> jax.Array:
    r"""T(y) = 1 - V/E[z^2|y] from the output function at omega = 0, where E[z^2|y] = V + V^2 (dg + g^2)."""
    rho = model.prior.second_moment
    V = rho * (jnp.sum(data.squares, axis=1, dtype=float) if data.squares.ndim == 2 else data.squares)
    out = model.channel.output(data.y, jnp.zeros_like(data.y), V + 0 * data.y)
    second_over_V = 1 + V * (out.dg + jnp.square(out.g))
    return jnp.maximum(1 - 1 / jnp.maximum(second_over_V, 1e-12), LEAST_WEIGHT)


def leading_vector(X: jax.Array, T: jax.Array, guess: jax.Array, steps: int = LANCZOS_STEPS) -> jax.Array:
    r"""The unit eigenvector of X^T diag(T) X with the largest eigenvalue, by Lanczos from ``guess``.

    The basis is kept orthogonal by projecting twice; it stops growing once it spans an invariant space.
    """
    d = X.shape[1]
    steps = min(steps, d)
    T = T.astype(X.dtype)

    def times(u):
        return (((X @ u.astype(X.dtype)) * T) @ X).astype(float)

    def body(carry, k):
        basis, u, alive = carry
        basis = basis.at[k].set(u)
        Mu = times(u)
        rest = Mu - basis.T @ (basis @ Mu)
        rest = rest - basis.T @ (basis @ rest)
        size = jnp.linalg.norm(rest)
        alive = alive & (size > 1e-6 * jnp.linalg.norm(Mu))
        return (basis, jnp.where(alive, rest / jnp.where(alive, size, 1.0), 0.0), alive), Mu

    start = (jnp.zeros((steps, d)), guess / jnp.linalg.norm(guess), jnp.asarray(True))
    (basis, _, _), images = jax.lax.scan(body, start, jnp.arange(steps))
    small = basis @ images.T
    # Rows that were never filled are zero; they must not win when all real eigenvalues are negative.
    empty = jnp.sum(jnp.square(basis), axis=1) < 0.5
    small = (small + small.T) / 2 - jnp.diag(jnp.where(empty, 1e6 * (1 + jnp.max(jnp.abs(small))), 0.0))
    u = jnp.linalg.eigh(small)[1][:, -1] @ basis
    return u / jnp.linalg.norm(u)
