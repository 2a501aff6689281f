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


class Sphere(ll.AbstractInputs):
    """On the unit sphere: fields are bounded, close to normal in the middle."""

    normal: ClassVar[bool] = True

    def draw(self, key, count, d, dtype=float):
        x = jax.random.normal(key, (count, d), dtype)
        return x / jnp.linalg.norm(x, axis=1, keepdims=True)


class NoLabels(Sphere):
    normal: ClassVar[bool] = False
    labelled: ClassVar[bool] = True


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        (NotPure(), "not pure"),
        (TooLarge(), "about 1"),
        (NotNormal(), "not normal"),
        (Sphere(), "not normal"),
        (NoLabels(), "pair"),
    ],
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


class WrongUnits(Cubic):
    @property
    def units(self):
        return 3


@pytest.mark.parametrize(
    ("teacher", "words"), [(Crowd(), "other samples"), (WrongLink(), "link"), (WrongUnits(), "units says 3")]
)
def test_wrong_teacher(teacher, words):
    with pytest.raises(ContractError, match=words):
        testing.check_teacher(teacher)


class WrongGradient(Linear):
    def respond(self, parameters, x):
        f, size, back = super().respond(parameters, x)
        return ex.Response(f, size, lambda pull: jax.tree.map(lambda g: 2 * g, back(pull)))


class OneCoordinate(Linear):
    def respond(self, parameters, x):
        f, size, back = super().respond(parameters, x)
        twice = lambda g: {"w": g["w"].at[0].multiply(2.0), "c": g["c"]}  # noqa: E731
        return ex.Response(f, size, lambda pull: twice(back(pull)))


class CrowdStudent(Linear):
    def output(self, parameters, x):
        f = super().output(parameters, x)
        return f - jnp.mean(f)


@pytest.mark.parametrize(
    ("student", "words"),
    [(WrongGradient(), "not the gradient"), (OneCoordinate(), "not the gradient"), (CrowdStudent(), "other samples")],
)
def test_wrong_student(student, words):
    with pytest.raises(ContractError, match=words):
        testing.check_student(student)


class WrongOutput(Rounded):
    def output(self, y, w, V):
        out = super().output(y, w, V)
        return ex.Output(out.log_z, -out.g, out.dg)


class WrongNoise(Rounded):
    def sample(self, key, z):
        return z + 2 * self.half * jax.random.uniform(key, z.shape, z.dtype, -0.5, 1.0)


class WrongError(ll.GaussianNoise):
    def label_mse(self, m, V):
        return 2 * super().label_mse(m, V)


class WrongLaw(ll.GaussianNoise):
    def law(self, q, slope, V0, V):
        law = super().law(q, slope, V0, V)
        return law._replace(weight=1.05 * law.weight)


class OtherLaw(ll.GaussianNoise):
    def law(self, q, slope, V0, V):
        return super().law(q, 2 * slope, V0, V)


@pytest.mark.parametrize(
    ("channel", "words"),
    [
        (WrongOutput(), "derivative"),
        (WrongNoise(), "mean"),
        (WrongError(0.3), "label_mse"),
        (WrongLaw(0.3), "add up"),
        (OtherLaw(0.3), "by law"),
    ],
)
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


class OtherPrior(Uniform):
    """The calculus of a normal law with the same variance: consistent in itself."""

    def denoise(self, A, B):
        return ll.GaussianPrior(self.second_moment).denoise(A, B)


@pytest.mark.parametrize(
    ("prior", "words"),
    [(WrongMoment(), "second_moment"), (WrongPosterior(), "derivative"), (OtherPrior(), "over samples")],
)
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


class WrongForSome(LogCosh):
    """Wrong for negative labels only."""

    def gradient(self, y, z):
        first, second = super().gradient(y, z)
        return jnp.where(y < 0, 1.1, 1.0) * first, jnp.where(y < 0, 1.1, 1.0) * second


@pytest.mark.parametrize(
    ("loss", "words"),
    [
        (WrongSlope(), "derivative of value"),
        (WrongForSome(), "derivative of value"),
        (WrongProximal(), "minimum"),
    ],
)
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


class WrongBeside(ll.InformedStart):
    """Right with a teacher that is known by overlaps, wrong beside one that draws its own directions."""

    def weights(self, key, p, d, directions):
        return 1.2 * super().weights(key, p, d, directions)


@pytest.mark.parametrize(
    ("start", "words"),
    [
        (WrongDraw(), "overlaps"),
        (WrongLimit(), "limit gives another Q"),
        (WrongBeside(0.3), "beside given directions"),
    ],
)
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


class TwiceTheClock(ll.OnlineSGD):
    """Right in the learning rate and in the dimension, but off by 2: only a limit can tell."""

    def clock(self, problem, d):
        return 2 * super().clock(problem, d)


def test_a_clock_off_by_two():
    testing.check_algorithm(LINE, time=0.6, limit=LinearFlow())
    wrong = dataclasses.replace(LINE, algorithm=TwiceTheClock(0.4))
    with pytest.raises(ContractError, match="with LinearFlow the risk"):
        testing.check_algorithm(wrong, time=0.6, limit=LinearFlow())


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
