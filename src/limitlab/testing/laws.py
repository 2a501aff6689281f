"""Contracts of channels, priors and losses: moments are derivatives of logarithms."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from limitlab._setup import double
from limitlab.errors import InputError
from limitlab.modules import filter_jit
from limitlab.problems.channels import AbstractChannel, GaussianNoise, Modulus, Sign, SquaredModulus
from limitlab.problems.losses import AbstractConvexLoss, AbstractLoss
from limitlab.problems.priors import AbstractPrior
from limitlab.testing.common import Z, broken, check_part, check_pure, close, zscore

__all__ = ["check_channel", "check_loss", "check_prior"]

COUNT, FEW = 20_000, 64


@double
def check_channel(channel: AbstractChannel, w: float = 0.4, V: float = 0.7) -> None:
    r"""Labels y ~ P(y|z) and the calculus of :math:`Z(y, \omega, V) = \int N(z; \omega, V) P(y|z)` belong together.

    Labels are pure functions of their key; g and dg are the derivatives of log Z in omega; over labels drawn through
    z ~ N(omega, V) the mean of g vanishes, that of g^2 + dg too (both say that Z is normalised), and the mean label is
    ``mean_label``. The nodes of ``law`` have the moments of such labels, and ``label_mse`` is the error on them.
    """
    check_part(channel, AbstractChannel)
    z = w + np.sqrt(V) * np.random.default_rng(0).normal(size=COUNT)
    y = np.asarray(check_pure(channel, "sample", lambda key: channel.sample(key, jnp.asarray(z))))
    if y.shape != z.shape:
        broken(channel, f"sample gives labels of shape {y.shape} for outputs of shape {z.shape}.")
    if channel.labels == "binary" and not np.all(np.abs(y) == 1):
        broken(channel, "its labels are not all -1 or +1, as labels = 'binary' says.")
    if channel.even:
        flipped = np.asarray(channel.sample(jax.random.key(0), jnp.asarray(-z)))
        if abs(np.mean(y) - np.mean(flipped)) > Z * np.std(y) * np.sqrt(2 / COUNT) + 1e-12:
            broken(channel, "even = True, but labels see the sign of z.")
    g, dg, slope, bend, label = map(np.asarray, _calculus(channel, jnp.asarray(y), jnp.asarray(w), jnp.asarray(V)))
    few = slice(0, FEW)
    if not close(g[few], slope, 1e-5, 1e-7):
        broken(channel, f"output.g is not the derivative of log_z in w (off by {_gap(g[few], slope):.2g}).")
    if not close(dg[few], bend, 1e-4, 1e-6):
        broken(channel, f"output.dg is not the derivative of g in w (off by {_gap(dg[few], bend):.2g}).")
    for what, values, mean in (
        ("the mean of g over labels", g, 0.0),
        ("the mean of g^2 + dg over labels", g**2 + dg, 0.0),
        ("the mean label", y, float(np.ravel(label)[0])),
    ):
        z_value = zscore(values, mean)
        if z_value > Z:
            broken(channel, f"{what} is {float(np.mean(values)):.4g} in place of {mean:.4g} ({z_value:.0f} s.e.).")
    _check_law(channel, V)


@filter_jit
def _calculus(channel: AbstractChannel, y: jax.Array, w: jax.Array, V: jax.Array) -> tuple[jax.Array, ...]:
    """g, dg, the first and second derivative of log Z in w at some labels, and the mean label: one program."""

    def log_z(y, w):
        return jnp.sum(channel.output(y[None], w[None], V).log_z)

    W = jnp.full(y.shape, w)
    out, slope = channel.output(y, W, V), jax.grad(log_z, argnums=1)
    pairs = y[:FEW], W[:FEW]
    bend = jax.vmap(jax.grad(slope, argnums=1))(*pairs)
    label = channel.mean_label(w, V)
    return jnp.broadcast_to(out.g, y.shape), jnp.broadcast_to(out.dg, y.shape), jax.vmap(slope)(*pairs), bend, label


def _check_law(channel: AbstractChannel, V: float, q: float = 0.6, slope: float = 0.8) -> None:
    """The nodes of `law` (or a refusal in words) and `label_mse`, against labels drawn through omega ~ N(0, q)."""
    rng = np.random.default_rng(1)
    w, noise = np.sqrt(q) * rng.normal(size=COUNT), np.sqrt(V) * rng.normal(size=COUNT)
    fields, width, overlap = (jnp.asarray(x) for x in (w, V, q))
    y = np.asarray(channel.sample(jax.random.key(3), jnp.asarray(w + noise)))
    wrong = np.square(y - np.asarray(filter_jit(channel.mean_label)(fields, width)))
    said = float(filter_jit(channel.label_mse)(overlap, width))
    if zscore(wrong, said) > Z:
        broken(channel, f"label_mse is {said:.4g}, but over labels {float(np.mean(wrong)):.4g}.")
    try:
        law = filter_jit(channel.law)(overlap, jnp.asarray(slope), width, width)
    except InputError:  # a channel for runs only
        return
    nodes, fields, weight = (np.asarray(x) for x in law)
    if abs(float(np.sum(weight)) - 1) > 1e-6:
        broken(channel, f"the weights of law add up to {float(np.sum(weight)):.6g} in place of 1.")
    y = np.asarray(channel.sample(jax.random.key(4), jnp.asarray(slope * w + noise)))
    for what, F in (
        ("omega^2", lambda y, w: w**2),
        ("y", lambda y, w: y),
        ("tanh(y)^2", lambda y, w: np.tanh(y) ** 2),
        ("tanh(y) omega", lambda y, w: np.tanh(y) * w),
    ):
        mean = float(np.sum(weight * F(nodes, fields)))
        if zscore(F(y, w), mean) > Z:
            broken(channel, f"by law the mean of {what} is {mean:.4g}, over labels {np.mean(F(y, w)):.4g}.")


@double
def check_prior(prior: AbstractPrior) -> None:
    r"""Weights w ~ prior and :math:`\log Z_w(A, B)` belong together.

    Samples are pure functions of their key and have the second moment that is said; posterior mean and variance are the
    derivatives of log Z_w in B; :math:`Z_w = E\, e^{Bw - Aw^2/2}` over samples.
    """
    check_part(prior, AbstractPrior)
    w = np.asarray(check_pure(prior, "sample", lambda key: prior.sample(key, (COUNT,))))
    if w.shape != (COUNT,):
        broken(prior, f"sample(key, ({COUNT},)) has the shape {w.shape}.")
    rho = float(prior.second_moment)
    z_value = zscore(np.square(w), rho)
    if z_value > Z:
        broken(prior, f"second_moment is {rho:.4g}, but that of its samples {float(np.mean(w**2)):.4g}.")
    if np.max(np.abs(w)) > float(prior.reach):
        broken(prior, f"a sample exceeds reach = {float(prior.reach):.4g}.")
    A, B = 1.3, np.linspace(-3.0, 3.0, 25)
    post, mean, variance = jax.tree.map(np.asarray, _posterior(prior, jnp.asarray(A), jnp.asarray(B)))
    if not close(post.mean, mean, 1e-6, 1e-8):
        broken(prior, f"denoise.mean is not the derivative of log_z in B (off by {_gap(post.mean, mean):.2g}).")
    if not close(np.broadcast_to(post.variance, B.shape), variance, 1e-5, 1e-7):
        broken(prior, f"denoise.variance is not that of denoise.mean (off by {_gap(post.variance, variance):.2g}).")
    for n in (4, 12, 18):
        b, said = B[n], float(np.exp(np.broadcast_to(post.log_z, B.shape)[n]))
        terms = np.exp(b * w - A * np.square(w) / 2)
        if zscore(terms, said) > Z:
            broken(prior, f"Z_w(A, B) is {said:.4g} at B = {b:g}, but over samples {float(np.mean(terms)):.4g}.")
    seen = A * w + np.sqrt(A) * np.random.default_rng(2).normal(size=w.shape)
    found = filter_jit(lambda prior, A, B: prior.denoise(A, B).mean)(prior, jnp.asarray(A), jnp.asarray(seen))
    z_value = zscore(np.asarray(found) - w, 0.0)
    if z_value > Z:
        broken(prior, f"the posterior mean is biased over its own data ({z_value:.0f} s.e.).")


@filter_jit
def _posterior(prior: AbstractPrior, A: jax.Array, B: jax.Array):
    """The posterior at each B, and the first and second derivative of its log Z."""

    def log_z(b):
        return jnp.sum(prior.denoise(A, b[None]).log_z)

    return prior.denoise(A, B), jax.vmap(jax.grad(log_z))(B), jax.vmap(jax.grad(jax.grad(log_z)))(B)


@double
def check_loss(loss: AbstractLoss) -> None:
    r"""The loss and its derivatives belong together; of a convex one the proximal point is where it says.

    ``gradient`` is the first and second derivative of ``value`` in z (beside kinks); of a convex loss
    :math:`P_V(s)` solves :math:`(P - s)/V = -\ell'(P)` within the subgradient, and its pull is (P - s)/V.
    """
    check_part(loss, AbstractLoss)
    if loss.differentiable:
        _check_derivatives(loss)
    if isinstance(loss, AbstractConvexLoss):
        _check_proximal(loss)


def _check_derivatives(loss: AbstractLoss) -> None:
    """On the labels of every kind of channel that the loss can read."""
    rng = np.random.default_rng(0)
    kinds = (GaussianNoise(0.3), Sign(), Modulus(), SquaredModulus())
    read = [kind for kind in kinds if loss.reads(kind) is None] or kinds[:1]
    for n, channel in enumerate(read):
        z = jnp.asarray(rng.normal(size=200) * 1.5)
        y = channel.sample(jax.random.key(n), jnp.asarray(rng.normal(size=200)))
        first, second = loss.gradient(y, z)
        h = 1e-5
        up, here, down = (loss.value(y, z + s) for s in (h, 0.0, -h))
        slope = (up - down) / (2 * h)
        bends = jnp.abs(loss.gradient(y, z + h)[0] - loss.gradient(y, z - h)[0])
        plain = bends < 1e-2  # no kink within h
        if not np.all(np.isfinite(here)):
            broken(loss, "value is not finite.")
        if not close(first[plain], slope[plain], 1e-5, 1e-6):
            broken(loss, f"gradient is not the derivative of value in z (off by {_gap(first, slope):.2g}).")
        curve = (loss.gradient(y, z + h)[0] - loss.gradient(y, z - h)[0]) / (2 * h)
        if not close(second[plain], curve[plain], 1e-3, 1e-4):
            broken(
                loss,
                f"the second derivative is not that of the first (off by {_gap(second[plain], curve[plain]):.2g}).",
            )


def _check_proximal(loss: AbstractConvexLoss) -> None:
    s = jnp.linspace(-4.0, 4.0, 81)
    for V in (1e-2, 1.0, 30.0):
        point, pull, _ = loss.proximal(s, jnp.asarray(V))
        if not close(pull, (point - s) / V, 1e-6, 1e-7):
            broken(loss, f"the pull of proximal is not (point - s)/V at V = {V:g}.")

        def cost(t, V=V):
            return loss.scalar(t) + jnp.square(t - s) / (2 * V)

        for step in (1e-3, -1e-3):
            if np.any(np.asarray(cost(point + step)) < np.asarray(cost(point)) - 1e-9):
                broken(loss, f"proximal is not the minimum of loss + (t - s)^2/(2V) at V = {V:g}.")


def _gap(one: Any, two: Any) -> float:
    return float(np.max(np.abs(np.asarray(one) - np.asarray(two))))
