"""One layer after the other."""

from functools import partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from limitlab.algorithms.checks import check_rate
from limitlab.algorithms.one_pass.base import AbstractOnePass, Stage
from limitlab.algorithms.one_pass.setting import OnePass
from limitlab.modules import field, filter_jit, tree_at
from limitlab.numerics.checks import check_integer, check_number
from limitlab.numerics.trees import plain
from limitlab.problems.base import Pace
from limitlab.problems.networks import Committee, Network
from limitlab.states.run import Learner, Run

__all__ = ["LayerwiseSGD"]

CHUNK = 1024  # samples of the ridge fit at a time


class LayerwiseSGD(AbstractOnePass):
    r"""One-pass SGD on the first layer up to ``switch_time``, then on the second layer alone.

    Up to ``switch_time`` the rule of `OnlineSGD` with a frozen second layer. Afterwards w is frozen, and the second
    layer is trained by SGD (``penalty=None``) or set once to the ridge fit of ``ridge_samples`` fresh samples,

    .. math:: \min_a \langle (y - f)^2 \rangle + \mathrm{penalty}\, \frac1p \sum_i a_i^2 .

    Clock: t = gamma * step / (p d), as for `OnlineSGD`.

    Parameters
    ----------
    interacting
        False leaves f out of the error of the first phase (y instead of y - f), as proofs like to do.
    """

    clock_words: ClassVar[str] = "t = γ·step/(p·d)"
    reference: ClassVar[tuple[str, ...]] = ("abbe2022merged",)

    learning_rate: float
    switch_time: float
    penalty: float | None = None
    batch_size: int = field(static=True, converter=plain, default=1)
    second_layer_rate: float = 1.0
    interacting: bool = field(static=True, default=True)
    ridge_samples: int = field(static=True, converter=plain, default=10000)

    def __check_init__(self):
        check_rate(self)
        name = "LayerwiseSGD"
        check_number(name, "switch_time", self.switch_time, low=0, open_low=True, remedy="Use a positive time.")
        if self.penalty is not None:
            check_number(
                name, "penalty", self.penalty, low=0, open_low=True, remedy="Use a small one such as 1e-6, or None."
            )
        check_integer(name, "batch_size", self.batch_size, low=1, remedy="Each step needs a sample.")
        check_number(
            name, "second_layer_rate", self.second_layer_rate, low=0, open_low=True, remedy="Use a positive rate."
        )
        check_integer(name, "ridge_samples", self.ridge_samples, low=1, remedy="The ridge fit needs samples.")

    def setting(self, problem, asked):
        asked.part(problem.student, Committee, "a Committee, whose layers are known", "Use student=Committee(...).")
        return OnePass.of(problem, asked)

    def memory(self, setting, asked):
        needed, p, n = super().memory(setting, asked), setting.student.units, self.ridge_samples
        ridge = 0 if self.penalty is None else 4 * min(p, n) ** 2 + (0 if p <= n else 3 * p * n)
        return needed._replace(bytes=needed.bytes + 8 * ridge)

    def stages(self, clock):
        switch = round(float(self.switch_time) / float(clock))
        kappa, batch = self.second_layer_rate, self.batch_size
        first = Stage(_Layer(self.learning_rate, kappa, batch, True, self.interacting), switch)
        second = _Layer(self.learning_rate, kappa, batch, False, True)
        if self.penalty is None:
            return first, Stage(second)
        return first, Stage(second, once=partial(ridge_second_layer, jnp.asarray(self.penalty), self.ridge_samples))

    def samples(self, steps, clock):
        if self.penalty is None:
            return steps * self.batch_size
        switch = round(float(self.switch_time) / float(clock))
        return np.minimum(steps, switch) * self.batch_size + np.where(steps > switch, self.ridge_samples, 0)

    def move(self, setting, d, state, gradient, sample, n):
        raise TypeError("LayerwiseSGD moves by its stages.")


class _Layer(AbstractOnePass):
    """SGD of the first layer alone, or of the second."""

    learning_rate: Any
    second_layer_rate: Any
    batch_size: int = field(static=True)
    first: bool = field(static=True)
    interacting: bool = field(static=True)

    def pull(self, setting, y, f):
        return setting.loss.gradient(y, f if self.interacting else jnp.zeros_like(f))[0]

    def move(self, setting, d, state, gradient, sample, n):
        net = state.student
        pace = setting.student.pace(net, float(d), 0)
        if not self.first:
            pace = Network(None, Pace(self.second_layer_rate / d, 1.0), None)

        def moved(theta, slope, pace):
            return theta if pace is None else theta - self.learning_rate * pace.rate * slope

        return Learner(jax.tree.map(moved, net, gradient, pace), state.teacher)


@filter_jit
def ridge_second_layer(penalty: jax.Array, samples: int, setting: OnePass, d: int, run: Run, keys: jax.Array) -> Run:
    r"""The second layer set to the ridge fit on fresh samples,

    .. math:: a = \mathrm{argmin}\; \langle (y - f)^2 \rangle_n + \frac{\mathrm{penalty}}{p} |a|^2
              = \Big(\frac{\Psi^T\Psi}{np} + \mathrm{penalty}\Big)^{-1} \frac{\Psi^T y}{n},
              \qquad \Psi_{\mu i} = \sigma(w_i \cdot x_\mu),

    through the eigenvalues of :math:`\Psi^T\Psi` or :math:`\Psi\Psi^T`, whichever is smaller. Replicas one by one.
    """

    def one(args):
        state, alive, key = args
        return jnp.where(alive, _ridge(penalty, samples, setting, d, state, key), state.student.a)

    a = jax.lax.map(one, (run.state, run.alive, keys))
    return tree_at(lambda r: r.state.student.a, run, a)


def _ridge(penalty: jax.Array, n: int, setting: OnePass, d: int, state: Learner, key: jax.Array) -> jax.Array:
    student: Any = setting.student
    net, p, size, sigma = state.student, state.student.width, min(CHUNK, n), student.activation
    chunks = -(-n // size)

    def features(c):
        x, y = setting.draw(state.teacher, jax.random.fold_in(key, c), size, d)
        used = (c * size + jnp.arange(size) < n).astype(float)
        return sigma(net.fields(x)) * used[:, None], y * used

    def inverse_times(G, b):
        values, vectors = jnp.linalg.eigh(G)
        return vectors @ ((vectors.T @ b) / (jnp.maximum(values, 0.0) + penalty))

    if p <= n:

        def add(c, sums):
            psi, y = features(c)
            return sums[0] + psi.T @ psi, sums[1] + psi.T @ y

        G, b = jax.lax.fori_loop(0, chunks, add, (jnp.zeros((p, p)), jnp.zeros(p)))
        return inverse_times(G / (n * p), b / n)
    psi, y = jax.lax.map(features, jnp.arange(chunks))
    psi, y = psi.reshape(-1, p), y.ravel()
    return psi.T @ inverse_times(psi @ psi.T / (n * p), y / n)
