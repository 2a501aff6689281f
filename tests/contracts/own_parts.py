"""A part of a user's own of every kind, each as short as it can be: nothing here is part of the package."""

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

import limitlab as ll
from limitlab import extending as ex


class Laplace(ll.AbstractInputs):
    """Heavier tails than normal, variance 1/d."""

    def draw(self, key, count, d, dtype=float):
        return jax.random.laplace(key, (count, d), dtype) / jnp.sqrt(2.0 * d)


class Cubic(ll.AbstractTeacher):
    """z = u + u^3/6 with u = w.x, w on the sphere."""

    def draw(self, key, d):
        w = jax.random.normal(key, (d,))
        return w * jnp.sqrt(d / jnp.sum(w**2))

    def output(self, weights, x):
        u = x @ weights
        return u + u**3 / 6

    def directions(self, weights):
        return weights[None, :]


class Linear(ll.AbstractStudent):
    """f = w.x + c, with an offset that is trained too."""

    def begin(self, key, frame, start, teacher, d):
        star = None if teacher is None else teacher.draw(jax.random.fold_in(key, 1), d)
        return {"w": start.weights(key, 1, d, None)[0], "c": jnp.zeros(())}, star

    def output(self, parameters, x):
        return x @ parameters["w"] + parameters["c"]


class Rounded(ll.AbstractChannel):
    """y = z + uniform noise on [-h, h]: enough for SGD; theories of the channel are not used here."""

    labels: ClassVar[str] = "real"

    half: float = 0.5

    def sample(self, key, z):
        return z + self.half * jax.random.uniform(key, z.shape, z.dtype, -1.0, 1.0)

    def output(self, y, w, V):
        s = jnp.sqrt(V)
        up, down = (y + self.half - w) / s, (y - self.half - w) / s
        log_z = jnp.log((jax.scipy.special.ndtr(up) - jax.scipy.special.ndtr(down)) / (2 * self.half))
        phi = lambda t: jnp.exp(-(t**2) / 2) / jnp.sqrt(2 * jnp.pi)  # noqa: E731
        Z = 2 * self.half * jnp.exp(log_z)
        g = (phi(down) - phi(up)) / (s * Z)
        return ex.Output(log_z, g, (down * phi(down) - up * phi(up)) / (V * Z) - g**2)

    def mean_label(self, w, V):
        return w

    def label_mse(self, m, V):
        return V + self.half**2 / 3

    def law(self, q, slope, V0, V):
        raise ll.errors.InputError("Rounded has no nodes for theories.")


class Uniform(ll.AbstractPrior):
    """w uniform on [-sqrt(3), sqrt(3)], posterior by a fine sum."""

    @property
    def second_moment(self):
        return 1.0

    @property
    def reach(self):
        return 1.75

    def sample(self, key, shape):
        return jax.random.uniform(key, shape, minval=-np.sqrt(3), maxval=np.sqrt(3))

    def denoise(self, A, B):
        x, dx = np.polynomial.legendre.leggauss(60)
        w = jnp.asarray(np.sqrt(3) * x)
        energy = B[..., None] * w - A[..., None] * w**2 / 2 + jnp.log(jnp.asarray(dx / 2))
        log_z = jax.scipy.special.logsumexp(energy, axis=-1)
        p = jnp.exp(energy - log_z[..., None])
        mean = jnp.sum(p * w, axis=-1)
        return ex.Posterior(log_z, mean, jnp.sum(p * w**2, axis=-1) - mean**2)


class LogCosh(ll.AbstractLoss):
    """log cosh(y - z)."""

    def value(self, y, z):
        return jnp.logaddexp(y - z, z - y) - jnp.log(2.0)

    def gradient(self, y, z):
        t = jnp.tanh(z - y)
        return t, 1 - t**2


class Corner(ll.AbstractStart):
    """Weights +-scale in every coordinate."""

    scale: float = 1.0

    def weights(self, key, p, d, directions):
        return self.scale * jax.random.rademacher(key, (p, d), dtype=float)


class SignSGD(ex.AbstractOnePass):
    """w <- w - gamma sign(gradient)/sqrt(d). Clock: t = gamma * step / sqrt(d)."""

    clock_words: ClassVar[str] = "t = γ·step/√d"

    learning_rate: float

    def clock(self, problem, d):
        return self.learning_rate / np.sqrt(d)

    def usual_limit(self, problem):
        return None

    def move(self, setting, d, state, gradient, sample, n):
        size = self.learning_rate / jnp.sqrt(float(d))
        pace = setting.student.pace(state.student, float(d), 1.0)
        moved = jax.tree.map(
            lambda w, g, pace: w if pace is None else w - size * jnp.sign(g), state.student, gradient, pace
        )
        return ex.Learner(moved, state.teacher)


class WatchedSGD(SignSGD):
    """The same, and a number that nobody else reports: how much the risk has fallen since the start."""

    def run(self, setting, asked):
        seen = super().run(setting, asked)
        dims, risk = seen.variables["risk"]
        return seen._replace(
            variables={**seen.variables, "fall": (dims, risk[0] - risk)},
            declared={"fall": ex.Variable(("time", "replica"), "by how much the risk has fallen")},
        )


class LinearFlow(ll.AbstractLimit):
    """Risk of one linear unit under one-pass SGD on a linear teacher: a line of the overlap equations."""

    reference: ClassVar[str] = "saad1995online"
    rate: ClassVar[dict[str, float]] = {"d": -0.5}

    def check(self, problem):
        if not isinstance(problem.algorithm, ll.OnlineSGD) or problem.student is None:
            raise ll.errors.LimitUndefinedError("LinearFlow needs OnlineSGD; got something else. Use OverlapODE().")

    def solve(self, problem, times):
        """E = |w - w*|^2/d obeys dE/dt = -(2 - gamma) E + gamma Delta."""
        gamma, noise = float(problem.algorithm.learning_rate), float(problem.channel.variance)
        floor = gamma * noise / (2 - gamma)
        start = 2 - 2 * float(problem.start.overlap)
        E = floor + (start - floor) * np.exp(-(2 - gamma) * times)
        return ex.dataset(
            problem,
            {"risk": (("time",), (E + noise) / 2), "status": ((), "ok")},
            {"time": times},
            method="LinearFlow",
            reference=self.reference,
        )
