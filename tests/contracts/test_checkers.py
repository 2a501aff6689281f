"""Each contract fails on a part that breaks it: wrong gradient, clock or rate, not pure, not to be sent, and more."""

import dataclasses
import threading
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from own_parts import Corner, Cubic, Laplace, Linear, LinearFlow, LogCosh, Rounded, Uniform
from test_own_parts import LINE

import limitlab as ll
from limitlab import extending as ex
from limitlab import testing
from limitlab.testing import ContractError


class NotPure(ll.AbstractInputs):
    def draw(self, key, count, d, dtype=float):
        return jnp.asarray(np.random.default_rng().normal(size=(count, d))) / jnp.sqrt(float(d))


class TooLarge(ll.AbstractInputs):
    def draw(self, key, count, d, dtype=float):
        return jax.random.normal(key, (count, d), dtype)


class NotNormal(Laplace):
    normal: ClassVar[bool] = True


@pytest.mark.parametrize(
    ("inputs", "words"), [(NotPure(), "not pure"), (TooLarge(), "about 1"), (NotNormal(), "not normal")]
)
def test_wrong_inputs(inputs, words):
    with pytest.raises(ContractError, match=words):
        testing.check_inputs(inputs)


class Crowd(Cubic):
    def output(self, weights, x):
        return x @ weights - jnp.mean(x @ weights)


class WrongLink(Cubic):
    by_fields: ClassVar[bool] = True

    def link(self, fields):
        return fields[:, 0]


@pytest.mark.parametrize(("teacher", "words"), [(Crowd(), "other samples"), (WrongLink(), "link")])
def test_wrong_teacher(teacher, words):
    with pytest.raises(ContractError, match=words):
        testing.check_teacher(teacher)


class WrongGradient(Linear):
    def respond(self, parameters, x):
        f, size, back = super().respond(parameters, x)
        return ex.Response(f, size, lambda pull: jax.tree.map(lambda g: 2 * g, back(pull)))


def test_wrong_student():
    with pytest.raises(ContractError, match="not the gradient"):
        testing.check_student(WrongGradient())


class WrongOutput(Rounded):
    def output(self, y, w, V):
        out = super().output(y, w, V)
        return ex.Output(out.log_z, -out.g, out.dg)


class WrongNoise(Rounded):
    def sample(self, key, z):
        return z + 2 * self.half * jax.random.uniform(key, z.shape, z.dtype, -0.5, 1.0)


@pytest.mark.parametrize(("channel", "words"), [(WrongOutput(), "derivative"), (WrongNoise(), "mean")])
def test_wrong_channel(channel, words):
    with pytest.raises(ContractError, match=words):
        testing.check_channel(channel)


class WrongMoment(Uniform):
    def sample(self, key, shape):
        return 0.9 * super().sample(key, shape)


class WrongPosterior(Uniform):
    def denoise(self, A, B):
        post = super().denoise(A, B)
        return ex.Posterior(post.log_z, 1.01 * post.mean, post.variance)


@pytest.mark.parametrize(("prior", "words"), [(WrongMoment(), "second_moment"), (WrongPosterior(), "derivative")])
def test_wrong_prior(prior, words):
    with pytest.raises(ContractError, match=words):
        testing.check_prior(prior)


class WrongSlope(LogCosh):
    def gradient(self, y, z):
        first, second = super().gradient(y, z)
        return -first, second


class WrongProximal(ll.SquareLoss):
    def proximal(self, s, V):
        return ex.Proximal(s / (1 + 2 * V), -2 * s / (1 + 2 * V), -2 / (1 + 2 * V) + 0 * s)


@pytest.mark.parametrize(("loss", "words"), [(WrongSlope(), "derivative of value"), (WrongProximal(), "minimum")])
def test_wrong_loss(loss, words):
    with pytest.raises(ContractError, match=words):
        testing.check_loss(loss)


class WrongDraw(ll.RandomStart):
    def network(self, key, frame, student, teacher, d):
        return super().network(jax.random.fold_in(key, 1), frame, student, teacher, d)


class WrongLimit(ll.RandomStart):
    def limit(self, p, k):
        Q, M, P = super().limit(p, k)
        return 2 * Q, M, P


@pytest.mark.parametrize(("start", "words"), [(WrongDraw(), "overlaps"), (WrongLimit(), "limit gives another Q")])
def test_wrong_start(start, words):
    with pytest.raises(ContractError, match=words):
        testing.check_start(start)


class NotSent(Corner):
    key: Any = eqx.field(static=True, default_factory=threading.Lock)


def test_a_part_that_cannot_travel():
    with pytest.raises(ContractError, match=r"described|another process"):
        testing.check_start(NotSent())


class WrongClock(ll.OnlineSGD):
    """The clock without the learning rate."""

    def clock(self, problem, d):
        return 1 / (problem.student.units * d)


class ClockWithoutDimension(ll.OnlineSGD):
    def clock(self, problem, d):
        return self.learning_rate / (20 * problem.student.units)


class Shared(ll.OnlineSGD):
    """Replicas that see each other: the step depends on how many there are."""

    def sample(self, setting, d, state, key):
        drawn = super().sample(setting, d, state, key)
        noise = jax.random.normal(jax.random.key(np.random.default_rng().integers(2**31)), drawn.y.shape)
        return drawn._replace(y=drawn.y + noise)


@pytest.mark.parametrize(
    ("rule", "time", "words"),
    [
        (WrongClock(0.2), 6.0, "half the learning rate"),
        (ClockWithoutDimension(0.2), 0.6, "twice the dimension"),
        (Shared(0.2), 0.6, "same seed"),
    ],
)
def test_wrong_algorithm(rule, time, words):
    with pytest.raises(ContractError, match=words):
        testing.check_algorithm(dataclasses.replace(LINE, algorithm=rule), time=time)


class WrongRate(LinearFlow):
    rate: ClassVar[dict[str, float]] = {"d": -1.5}


class Restless(LinearFlow):
    def solve(self, problem, times):
        data = super().solve(problem, times)
        return data.assign(risk=data.risk + 1e-9 * np.random.default_rng().random())


def test_wrong_limit():
    with pytest.raises(ContractError, match="fall as"):
        testing.check_limit(WrongRate(), LINE, [0.0, 0.5, 1.0], sizes=(40, 120, 360))
    with pytest.raises(ContractError, match="not pure"):
        testing.check_limit(Restless(), LINE, [0.0, 0.5])
