"""Small runs of everything that limitlab can be asked, by its public names only.

`CASES` is a table from names to functions without arguments; each returns a table of NumPy arrays. The same file runs
on any version of the library: `make.py` writes what it gives, `check.py` compares.
"""

import dataclasses
import math
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from threadpoolctl import threadpool_limits

import limitlab as ll

Arrays = dict[str, np.ndarray]
CASES: dict[str, Callable[[], Arrays]] = {}

MMN = "piecewise((0.5, -2.5), (1.5, 7.5))"
STAIRS = "z1 + z1*z2 + 0.5*z1*z2*z3"
TIMES = np.array([0.0, 0.3, 1.0])
PRIOR = ll.GaussianPrior()


def case(function: Callable[[], Any]) -> Callable[[], Arrays]:
    """Register a function under its name; what it returns is flattened.

    BLAS gets one thread: with more, last bits depend on the number of cores (`stationary_law`, by 6e-15).
    """

    def run() -> Arrays:
        with threadpool_limits(limits=1, user_api="blas"):
            return flat(function())

    CASES[function.__name__] = run
    return run


# --- what the answers look like as arrays ------------------------------------------------------------------------


def flat(value: Any, name: str = "") -> Arrays:
    """Every number, truth value and text in an answer, by its path."""
    if hasattr(value, "data_vars"):  # a Dataset: variables and coordinates, without attributes
        parts = {str(key): value[key].values for key in (*value.data_vars, *value.coords)}
    elif hasattr(value, "dims") and hasattr(value, "coords"):  # a DataArray
        parts = {"values": value.values, **{str(key): value[key].values for key in value.coords}}
    elif isinstance(value, dict):
        parts = {str(key): one for key, one in value.items()}
    elif hasattr(value, "_asdict") and hasattr(value, "_fields"):
        parts = value._asdict()
    elif isinstance(value, tuple) and not all(isinstance(one, (int, float)) for one in value):
        parts = {str(i): one for i, one in enumerate(value)}
    else:
        return {name or "value": _array(value)}
    return {key: array for part, one in parts.items() for key, array in flat(one, f"{name}.{part}".lstrip(".")).items()}


def _array(value: Any) -> np.ndarray:
    if value is None:
        return np.asarray("None")
    array = np.asarray(value)
    if array.dtype.kind == "O":
        array = array.astype(str)
    if array.dtype.kind not in "biufcU":
        raise TypeError(f"{value!r} is not made of numbers or texts")
    return array


def pick(answer: Any, *names: str) -> dict[str, Any]:
    """Fields of an answer."""
    return {name: getattr(answer, name) for name in names}


# --- problems ----------------------------------------------------------------------------------------------------


def committee(student="erf", teacher="erf", p=3, k=2, rate=0.5, variance=0.1, start=None, layer="fixed", **rule):
    return ll.Problem(
        teacher=ll.Committee(width=k, activation=teacher),
        channel=ll.GaussianNoise(variance=variance),
        student=ll.Committee(width=p, activation=student, second_layer=layer),
        loss=ll.SquareLoss(),
        start=ll.InformedStart(0.3) if start is None else start,
        algorithm=ll.OnlineSGD(learning_rate=rate, **rule),
    )


def sparse(text=STAIRS, activation="shifted(tanh, 0.5)", rule=None, variance=0.0, width=16, layer="trained"):
    return ll.Problem(
        inputs=ll.Hypercube(),
        teacher=ll.SparseTarget(text),
        channel=ll.GaussianNoise(variance),
        student=ll.Committee(width=width, activation=activation, second_layer=layer),
        loss=ll.SquareLoss(),
        start=ll.RandomStart(second_layer="uniform"),
        algorithm=ll.OnlineSGD(learning_rate=2.0) if rule is None else rule,
    )


def mixture(inputs=None, width=20, activation=MMN, layer="fixed", bias="none", start=None, **rule):
    return ll.Problem(
        inputs=ll.IsotropicMixture(0.5) if inputs is None else inputs,
        student=ll.Committee(width=width, activation=activation, second_layer=layer, bias=bias),
        loss=ll.SquareLoss(),
        start=ll.RandomStart(scale=0.8) if start is None else start,
        algorithm=ll.OnlineSGD(**{"learning_rate": 0.4, "batch_size": 4, **rule}),
    )


def descent(rule, loss=None, channel=None, alpha=3.0, start=None, prior=PRIOR):
    return ll.Problem(
        teacher=ll.SingleIndex(prior),
        channel=ll.Modulus() if channel is None else channel,
        sample_ratio=alpha,
        loss=ll.PhaseRetrievalLoss() if loss is None else loss,
        start=ll.InformedStart(0.5) if start is None else start,
        algorithm=rule,
    )


def glm(channel=None, alpha=2.0, prior=PRIOR, start=None, **rule):
    return ll.Problem(
        teacher=ll.SingleIndex(prior),
        channel=ll.Sign() if channel is None else channel,
        sample_ratio=alpha,
        start=start,
        algorithm=ll.GAMP(**{"iterations": 8, **rule}),
    )


def convex(loss, channel=None, alpha=2.0, penalty=0.3):
    return ll.Problem(
        teacher=ll.SingleIndex(PRIOR),
        channel=ll.Sign(flip=0.05) if channel is None else channel,
        sample_ratio=alpha,
        loss=loss,
        algorithm=ll.ERM(penalty=penalty),
    )


def swish(x):
    return x * jax.nn.sigmoid(x)


def two_blobs(key, count, d):
    """x near +-(1, 0, ...)/2 with the label's sign."""
    key_y, key_x = jax.random.split(key)
    y = jax.random.rademacher(key_y, (count,), dtype=float)
    x = jax.random.normal(key_x, (count, d)) / jnp.sqrt(float(d))
    return x.at[:, 0].add(0.5 * y), y


def soft_sign(z):
    return 0.5 + 0.45 * jnp.tanh(2 * z)


def log_laplace(y, z):
    """Smoothed Laplace noise around z."""
    return -jnp.log(jnp.cosh((y - z) * jnp.pi / 2)) - jnp.log(2.0)


def softplus(t):
    return jax.nn.softplus(-2 * t)


# --- one-pass SGD of committees ----------------------------------------------------------------------------------


@case
def sgd_weights_erf():
    return ll.simulate(committee(), d=50, times=TIMES, replicas=3, seed=1)


@case
def sgd_weights_trained():
    start = ll.RandomStart(scale=0.7, second_layer="gaussian", P=[[1.0, 0.2], [0.2, 0.8]])
    problem = committee("relu", "tanh", layer="trained", start=start, second_layer_rate=0.6)
    return ll.simulate(problem, d=40, times=TIMES, replicas=2, seed=2)


@case
def sgd_weights_batch():
    problem = committee(swish, "sigmoid", p=2, batch_size=5, start=ll.RandomStart(second_layer="rademacher"))
    return ll.simulate(problem, d=30, times=TIMES, replicas=2, seed=3)


@case
def sgd_weights_spherical():
    problem = ll.library.escaping_mediocrity(width=2, variance=0.05)
    return ll.simulate(problem, d=40, times=np.linspace(0, 2, 5), replicas=3, seed=4)


@case
def sgd_weights_diverges():
    problem = committee("square", "square", p=1, k=1, rate=20.0)
    return ll.simulate(problem, d=20, times=[0.0, 1.0, 50.0], replicas=2, seed=5)


@case
def sgd_overlaps_erf():
    return ll.simulate(committee(), d=10**4, times=[0.0, 0.05], replicas=3, seed=1, representation="overlaps")


@case
def sgd_overlaps_trained_batch():
    problem = committee("relu", "relu", layer="trained", batch_size=3)
    return ll.simulate(problem, d=200, times=TIMES, replicas=2, seed=2, representation="overlaps")


@case
def sgd_overlaps_spherical():
    problem = ll.library.escaping_mediocrity(width=3)
    return ll.simulate(problem, d=300, times=TIMES, replicas=2, seed=3, representation="overlaps")


# --- one-pass SGD on the hypercube and on labelled inputs --------------------------------------------------------


@case
def sgd_hypercube():
    return {f"d={d}": ll.simulate(sparse(), d=d, times=TIMES, replicas=2, seed=1) for d in (12, 24)}


@case
def sgd_hypercube_relu_noise_batch():
    problem = sparse("z1*z2 - 0.3*z3", "shifted(relu, 0.3)", ll.OnlineSGD(2.0, batch_size=4), 0.2)
    return ll.simulate(problem, d=20, times=TIMES, replicas=2, seed=2)


@case
def layerwise_sgd():
    rules = {
        "plain": ll.LayerwiseSGD(learning_rate=2.0, switch_time=0.5),
        "alone": ll.LayerwiseSGD(2.0, 0.5, batch_size=3, interacting=False, second_layer_rate=2.0),
    }
    return {name: ll.simulate(sparse(rule=rule), d=20, times=TIMES, replicas=2, seed=3) for name, rule in rules.items()}


@case
def layerwise_ridge():
    rule = ll.LayerwiseSGD(learning_rate=2.0, switch_time=0.5, penalty=1e-3, ridge_samples=300)
    return ll.simulate(sparse(rule=rule, variance=0.1), d=20, times=TIMES, replicas=2, seed=4)


@case
def sgd_mixture():
    return ll.simulate(mixture(), d=15, times=TIMES, replicas=2, seed=1)


@case
def sgd_mixture_anisotropic():
    start = ll.RandomStart(scale=0.4, second_layer="rademacher", bias_scale=0.2)
    inputs = ll.AnisotropicMixture(0.8, 0.25)
    for_ever = ll.PowerSchedule(0.25, onset=0.0)
    problem = mixture(inputs, 12, "relu", "trained", "trained", start, schedule=for_ever)
    return ll.simulate(problem, d=16, times=TIMES, replicas=2, seed=2)


@case
def sgd_mixture_noisy():
    problem = mixture(temperature=0.01, weight_decay=0.2, schedule=ll.CustomSchedule(lambda t: jnp.exp(-t)))
    return ll.simulate(problem, d=12, times=TIMES, replicas=2, seed=3)


@case
def sgd_custom_inputs():
    problem = mixture(ll.CustomInputs(two_blobs), 10, "tanh", "trained")
    return ll.simulate(problem, d=10, times=TIMES, replicas=2, seed=4)


# --- descent on a fixed data set ---------------------------------------------------------------------------------


@case
def gradient_descent():
    return ll.simulate(descent(ll.GradientDescent(0.02)), d=40, times=TIMES, replicas=3, seed=1)


@case
def gradient_descent_random_start():
    problem = ll.library.descent_phase_retrieval(sample_ratio=6.0)
    runs = ll.simulate(problem, d=20, times=[0.0, 5.0, 20.0], replicas=4, seed=2)
    return {"runs": runs, "rate": ll.success_rate(runs), "at": ll.success_rate(runs, threshold=0.5, confidence=0.9)}


@case
def gradient_descent_losses():
    free = ll.GradientDescent(0.02, spherical=False, penalty=0.1)
    binary = ll.Sign(variance=0.1)
    problems = {
        "square": descent(free, ll.SquareLoss(), ll.GaussianNoise(0.2)),
        "amplitude": descent(ll.GradientDescent(0.02), ll.AmplitudeLoss()),
        "logistic": descent(free, ll.LogisticLoss(), binary),
        "hinge": descent(free, ll.HingeLoss(), binary),
        "squared hinge": descent(ll.GradientDescent(0.02), ll.SquaredHingeLoss(0.5), binary),
        "squared labels": descent(
            ll.GradientDescent(0.02), ll.PhaseRetrievalLoss(0.5, "intensity"), ll.SquaredModulus()
        ),
    }
    return {name: ll.simulate(problem, d=20, times=TIMES, replicas=2) for name, problem in problems.items()}


@case
def stochastic_gd():
    problem = descent(ll.StochasticGD(0.02, 0.4))
    other = descent(ll.StochasticGD(0.02, 0.4, spherical=False, penalty=0.2, scale="1"))
    return {name: ll.simulate(p, d=30, times=TIMES, replicas=2, seed=3) for name, p in (("a", problem), ("b", other))}


@case
def persistent_sgd():
    return ll.simulate(descent(ll.PersistentSGD(0.02, 0.5, 0.3)), d=30, times=TIMES, replicas=2, seed=4)


@case
def langevin():
    return ll.simulate(descent(ll.Langevin(0.02, 0.05)), d=30, times=TIMES, replicas=2, seed=5)


@case
def wide_descent():
    wide = ll.library.wide_phase_retrieval(width=12)
    narrow = ll.library.wide_phase_retrieval(width=3)
    return {
        name: ll.simulate(problem, d=8, times=[0.0, 1.0, 5.0], replicas=2, seed=6)
        for name, problem in (("wide", wide), ("narrow", narrow))
    }


# --- message passing, convex fits, kernels -----------------------------------------------------------------------


@case
def gamp_sign():
    return ll.simulate(glm(), d=60, replicas=3, seed=1)


@case
def gamp_modulus_starts():
    starts = {
        "spectral": ll.SpectralStart(0.4),
        "informed": ll.InformedStart(0.2),
        "random": ll.RandomStart(scale=0.5),
    }
    return {n: ll.simulate(glm(ll.Modulus(), start=s), d=40, replicas=2, seed=2) for n, s in starts.items()}


@case
def gamp_channels():
    problems = {
        "noise": glm(ll.GaussianNoise(0.1), prior=ll.GaussBernoulliPrior(0.3), damping=0.2, variances="vector"),
        "float32": glm(ll.Rectified(0.05), prior=ll.LaplacePrior(0.7), precision="float32"),
        "squared": glm(ll.SquaredModulus(0.1), start=ll.InformedStart(0.3)),
        "logistic": glm(ll.Logistic(), prior=ll.RademacherPrior()),
        "door": glm(ll.Door(0.7), start=ll.InformedStart(0.3)),
    }
    return {name: ll.simulate(problem, d=30, replicas=2, seed=3) for name, problem in problems.items()}


@case
def gamp_custom_channels():
    """A density of the user's costs minutes in everything but the iterations themselves: those alone."""
    smooth = ll.CustomChannel(log_laplace, (-12.0, 12.0), label_width=2.0, width=1.0)
    rng = np.random.default_rng(1)
    X = rng.normal(size=(40, 20)) / np.sqrt(20)
    y = np.asarray(smooth.sample(jax.random.key(0), jnp.asarray(X @ rng.normal(size=20))))
    fit = ll.GAMP(iterations=4, tolerance=0.0).fit(X, y, prior=PRIOR, channel=smooth)
    return {
        "binary": ll.simulate(glm(ll.CustomBinary(soft_sign)), d=20, replicas=1, seed=4),
        "real": {"y": y, **pick(fit, "coef_", "status_", "n_iter_")},
    }


@case
def gamp_estimator():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 60)) / np.sqrt(60)
    w = rng.normal(size=60)
    plain = ll.GAMP(iterations=30).fit(X, np.sign(X @ w), prior=PRIOR, channel=ll.Sign())
    even = ll.GAMPEstimator(PRIOR, ll.Modulus(0.01), iterations=20, start=ll.SpectralStart(), seed=3)
    even.fit(X, np.abs(X @ w))
    return {
        name: {**pick(fit, "coef_", "status_", "n_iter_"), "predicted": fit.predict(X[:10])}
        for name, fit in (("plain", plain), ("even", even))
    }


def _convex_problems():
    residual = ll.GaussianNoise(0.3)
    return {
        "square": convex(ll.SquareLoss()),
        "logistic": convex(ll.LogisticLoss()),
        "hinge": convex(ll.HingeLoss()),
        "squared hinge": convex(ll.SquaredHingeLoss(0.8)),
        "max margin": convex(ll.MaxMargin(), ll.Sign(), alpha=1.0, penalty=0.0),
        "huber": convex(ll.HuberLoss(0.7), residual),
        "pseudo huber": convex(ll.PseudoHuberLoss(0.7), residual),
        "custom": convex(ll.CustomLoss(softplus, scale=0.5)),
    }


@case
def erm():
    return {name: ll.simulate(problem, d=30, replicas=2, seed=1) for name, problem in _convex_problems().items()}


@case
def kernel_ridge():
    return {
        "own": ll.kernel_ridge(sparse(variance=0.1), d=12, samples=[20, 60], replicas=2, seed=1),
        "given": ll.kernel_ridge(sparse(), d=12, samples=[40], penalty=0.01, kernel=lambda r: (1 + r) ** 3, replicas=1),
    }


# --- limits ------------------------------------------------------------------------------------------------------


@case
def overlap_ode_erf():
    return ll.predict(committee(), ll.OverlapODE(), times=TIMES)


@case
def overlap_ode_drawn():
    start = ll.RandomStart(second_layer="uniform")
    problem = committee("relu", "erf", p=2, layer="trained", start=start)
    return ll.predict(problem, ll.OverlapODE(d=200, replicas=2, seed=3, rtol=1e-8), times=TIMES)


@case
def overlap_ode_quadrature():
    return ll.predict(committee(swish, "hermite(2)", p=2, k=1), ll.OverlapODE(rtol=1e-7), times=TIMES[:2])


@case
def overlap_ode_squares():
    problem = ll.library.escaping_mediocrity(width=2)
    return {
        solver: ll.predict(problem, ll.OverlapODE(d=100, seed=1, solver=solver), times=TIMES)
        for solver in ("explicit", "implicit")
    }


@case
def overlap_ode_plateau():
    return ll.predict(ll.library.soft_committee(), ll.OverlapODE(), times=[0.0, 10.0, 100.0])


@case
def overlap_sde():
    limit = ll.OverlapSDE(d=200, replicas=3, samples=16, seed=2)
    plain = ll.OverlapSDE(d=200, replicas=2, samples=16, corrected=False, step=0.02)
    spherical = ll.library.escaping_mediocrity(width=2)
    return {
        "erf": ll.predict(committee(), limit, times=TIMES),
        "spherical": ll.predict(spherical, plain, times=TIMES[:2]),
    }


@case
def high_dim_mean_field():
    return {
        "own": ll.predict(committee(p=4), ll.HighDimMeanField(), times=TIMES),
        "finite d": ll.predict(committee(p=4, start=ll.RandomStart()), ll.HighDimMeanField(d=50, seed=1), times=TIMES),
        "squares": ll.predict(
            ll.library.dimensionless(width=6), ll.HighDimMeanField(particles=12, d=40, nodes=12), times=TIMES
        ),
    }


@case
def mean_field_sparse():
    problem = sparse("z1 + 0.5*z1*z2", "shifted(erf, 0.5)")
    return ll.predict(problem, ll.MeanField(d=40, particles=256, seed=1, rtol=1e-6), times=TIMES)


@case
def mean_field_closed():
    return ll.predict(mixture(), ll.MeanField(d=6, particles=16, seed=1, samples=256), times=TIMES)


@case
def mean_field_samples():
    limit = ll.MeanField(d=6, particles=16, seed=1, samples=256)
    noisy = mixture(temperature=0.01, weight_decay=0.1)
    return {
        "custom": ll.predict(mixture(ll.CustomInputs(two_blobs), 10, "tanh", "trained"), limit, times=TIMES),
        "noisy": ll.predict(noisy, dataclasses.replace(limit, gradients="samples", step=0.05), times=TIMES),
    }


@case
def dimension_free():
    return {
        "tanh": ll.predict(sparse(), ll.DimensionFree(nodes=12), times=TIMES),
        "relu": ll.predict(sparse(activation="shifted(relu, 0.3)", variance=0.1), ll.DimensionFree(), times=TIMES),
    }


@case
def dimension_free_layerwise():
    rules = {
        "sgd": ll.LayerwiseSGD(learning_rate=2.0, switch_time=0.5),
        "ridge": ll.LayerwiseSGD(learning_rate=2.0, switch_time=0.5, penalty=1e-3),
    }
    problems = {name: sparse("z1 + z1*z2", "shifted(erf, 0.5)", rule) for name, rule in rules.items()}
    return {name: ll.predict(problem, ll.DimensionFree(nodes=12), times=TIMES) for name, problem in problems.items()}


@case
def dimension_free_corrected():
    problem = sparse("z1 + z1*z2", "shifted(erf, 0.5)")
    return ll.predict(problem, ll.DimensionFree(corrected=True, nodes=12), times=TIMES)


@case
def radial_flow():
    return {
        "infinite": ll.predict(mixture(), ll.RadialFlow(), times=TIMES),
        "finite": ll.predict(mixture(), ll.RadialFlow(d=20), times=TIMES),
        "jko": ll.predict(mixture(), ll.RadialFlow(d=20, method="jko", nodes=24, step=0.2), times=TIMES[:2]),
    }


@case
def radial_flow_volumes():
    noisy = mixture(temperature=0.01, weight_decay=0.2)
    return {
        "noisy": ll.predict(noisy, ll.RadialFlow(d=10, cells=64), times=TIMES),
        "cold": ll.predict(mixture(), ll.RadialFlow(d=10, method="volumes", cells=64), times=TIMES),
    }


@case
def radial_flow_anisotropic():
    inputs, start = ll.AnisotropicMixture(0.8, 0.25), ll.RandomStart(scale=0.4, second_layer="rademacher")
    problem = mixture(inputs, 12, "relu", "trained", "trained", start, schedule=ll.PowerSchedule(0.5))
    return ll.predict(problem, ll.RadialFlow(), times=TIMES)


@case
def state_evolution():
    return {
        "sign": ll.predict(glm(), ll.StateEvolution()),
        "informed": ll.predict(glm(ll.Modulus(), start=ll.InformedStart(0.2)), ll.StateEvolution()),
        "random": ll.predict(glm(ll.Modulus(), start=ll.RandomStart()), ll.StateEvolution(d=1000, iterations=5)),
        "weak": ll.predict(glm(ll.Door(0.7), prior=ll.RademacherPrior()), ll.StateEvolution("weak")),
        "number": ll.predict(glm(ll.GaussianNoise(0.1), prior=ll.GaussBernoulliPrior(0.3)), ll.StateEvolution(0.4)),
    }


@case
def bayes_optimal():
    problems = {
        "sign": glm(),
        "flipped": glm(ll.Sign(variance=0.1, flip=0.05), prior=ll.GaussBernoulliPrior(0.3)),
        "noise": glm(ll.GaussianNoise(0.1), prior=ll.LaplacePrior(0.7)),
        "modulus": glm(ll.Modulus(), 0.8),
        "rectified": glm(ll.Rectified(), 0.8),
        "logistic": glm(ll.Logistic(), prior=ll.RademacherPrior()),
        "door": glm(ll.Door(0.7)),
    }
    return {name: ll.predict(problem, ll.BayesOptimal()) for name, problem in problems.items()}


@case
def bayes_optimal_slow_channels():
    problems = {
        "squared modulus": glm(ll.SquaredModulus(), 0.8),
        "noisy modulus": glm(ll.Modulus(0.1)),
        "custom binary": glm(ll.CustomBinary(soft_sign)),
    }
    return {name: ll.predict(problem, ll.BayesOptimal()) for name, problem in problems.items()}


@case
def erm_asymptotics():
    return {name: ll.predict(problem, ll.ERMAsymptotics()) for name, problem in _convex_problems().items()}


DMFT = ll.DMFT(trajectories=64, batches=2, seed=1)
DMFT_TIMES = np.array([0.0, 0.1, 0.3])


@case
def dmft():
    problems = {
        "gd": descent(ll.GradientDescent(0.02)),
        "sgd": descent(ll.StochasticGD(0.02, 0.4)),
        "persistent": descent(ll.PersistentSGD(0.02, 0.5, 0.3)),
        "langevin": descent(ll.Langevin(0.02, 0.05)),
    }
    return {name: ll.predict(problem, DMFT, times=DMFT_TIMES) for name, problem in problems.items()}


@case
def dmft_options():
    free = ll.GradientDescent(0.02, spherical=False, penalty=0.1)
    square = descent(free, ll.SquareLoss(), ll.GaussianNoise(0.2))
    hinge = descent(free, ll.HingeLoss(), ll.Sign(variance=0.1))
    random = descent(ll.GradientDescent(0.02), start=ll.RandomStart())
    iterated = dataclasses.replace(DMFT, scheme="iterated", iterations=30)
    return {
        "iterated": ll.predict(square, iterated, times=DMFT_TIMES),
        "hinge": ll.predict(hinge, DMFT, times=DMFT_TIMES),
        "probes": ll.predict(random, dataclasses.replace(DMFT, d=100, probes=2), times=DMFT_TIMES),
    }


@case
def dmft_resumed():
    problem = descent(ll.GradientDescent(0.02))
    first, state = DMFT.run(problem, DMFT_TIMES[:2])
    later, _ = DMFT.resume(problem, state, DMFT_TIMES)
    return {"first": first, "later": later}


@case
def matrix_flow():
    wide = ll.library.wide_phase_retrieval(width=12)
    squares = dataclasses.replace(wide, channel=ll.SquaredModulus(), loss=ll.SquareLoss())
    return {
        "infinite": ll.predict(wide, ll.MatrixFlow(d=8, width=math.inf, replicas=2, seed=1), times=[1.0, 100.0]),
        "narrow": ll.predict(squares, ll.MatrixFlow(d=8, width=2, seed=2), times=[0.0, 1.0]),
        "descent": ll.predict(wide, ll.MatrixFlow(d=8, scheme="descent", seed=6, replicas=2), times=[0.0, 1.0, 5.0]),
    }


@case
def linear_noise():
    seen = ll.linear_noise(committee(p=1, k=1), d=100, times=TIMES)
    mean = pick(seen.mean, "Q", "M", "P", "a")
    return {**pick(seen, "times", "covariance"), "coordinates": list(seen.coordinates), "mean": mean}


@case
def limits_that_apply():
    rules = {
        **ll.library.LIBRARY,
        "erm": lambda: convex(ll.HingeLoss()),
        "dmft": lambda: descent(ll.Langevin(0.1, 1.0)),
    }
    return {
        name: {limit: word == "applies" for limit, word in ll.limits(make()).items()} for name, make in rules.items()
    }


# --- questions ---------------------------------------------------------------------------------------------------

EXIT = ("time", "samples", "stderr", "fraction_reached", "threshold", "reached")


@case
def exit_times():
    one, two = ll.library.escaping_mediocrity(), ll.library.escaping_mediocrity(2, 0.1, 0.01)
    averages = ("annealed", "quenched", "full", "noise_corrected")
    answers = {
        f"p={p} {average}": pick(ll.exit_time(problem, 1000, 0.2, average, starts=8, seed=1), *EXIT)
        for p, problem in ((1, one), (2, two))
        for average in averages
    }
    answers["finite law"] = pick(ll.exit_time(two, 300, 0.5, law="finite"), *EXIT)
    answers["limiting law"] = pick(ll.exit_time(two, 300, 0.5, law="limiting"), *EXIT)
    return answers


@case
def learning_rates():
    problems = {
        f"p={p} noise={variance}": ll.library.escaping_mediocrity(p, 0.05, variance)
        for p, variance in ((1, 0.0), (2, 0.1), (5, 0.0))
    }
    return {
        name: {
            "optimal": pick(ll.optimal_learning_rate(p), "value", "prefactor", "escape", "learning", "learns"),
            "critical": pick(ll.critical_learning_rate(p), "escape", "learning", "sharp"),
            "risk": pick(ll.asymptotic_risk(p), "value", "excess", "overlap", "mutual", "learned"),
        }
        for name, p in problems.items()
    } | {
        f"gain {width}": pick(ll.overparametrisation_gain(width, 0.1), "at_optimum", "attainable")
        for width in (1, 8, math.inf)
    }


@case
def measured_exit_times():
    problem, times = ll.library.escaping_mediocrity(), np.linspace(0, 4, 41)
    sim = ll.simulate(problem, d=100, times=times, replicas=4, seed=1, representation="overlaps")
    pred = ll.predict(problem, ll.OverlapODE(d=100, seed=1), times=times)
    return {name: pick(ll.measured_exit_time(ds, 0.2), *EXIT) for name, ds in (("sim", sim), ("pred", pred))}


@case
def mixtures_at_rest():
    problem = mixture()
    law = (np.array([0.5, 1.5]), np.array([0.25, 0.75]))
    p, r = ll.potentials(problem, d=20), np.array([0.0, 0.5, 2.0, math.inf])
    least = ll.global_minimum(problem, d=20)
    critical = ll.critical_delta(problem)
    return {
        "potentials": {"V": p.V(r), "U": p.U(r, r), "psi": p.psi(r, law), "risk": p.risk(law)},
        "gap": pick(ll.optimality_gap(problem, law, d=20), "gap", "radius", "spread", "risk"),
        "width": ll.finite_width(problem, law, d=20),
        "minimum": {**pick(least, "risk", "gap"), "r": least.law.r, "weight": least.law.weight},
        "critical": pick(critical, "delta", "radius", "rival"),
    }


@case
def stationary_law():
    problem = mixture(temperature=0.01, weight_decay=0.2)
    return ll.stationary_law(problem, d=10, cells=128)


@case
def laws_of_units():
    runs = ll.simulate(mixture(), d=20, times=TIMES, replicas=2, seed=1)
    flow = ll.predict(mixture(), ll.RadialFlow(d=20, nodes=24), times=TIMES)
    trained = mixture(layer="trained", start=ll.RandomStart(scale=0.8, second_layer="uniform"))
    other = [ll.simulate(trained, d=20, times=TIMES, seed=seed) for seed in (1, 2)]
    return {
        "line": ll.wasserstein(runs, flow),
        "plane": ll.wasserstein(*other, p=1.0),
        "density": ll.radial_density(runs, np.linspace(0, 2, 9)),
    }


@case
def hermite_expansions():
    names = ("erf", "relu", "square", "tanh", "hermite(3)", "shifted(abs, 0.4)", MMN)
    classes = ("exponent", "power", "logs")
    return {
        **{name: ll.hermite_coefficients(name, 8) for name in names},
        "custom": ll.hermite_coefficients(swish, 6),
        "exponents": [ll.information_exponent(name) for name in names],
        **{f"class of {name}": pick(ll.sample_complexity_class(name), *classes) for name in ("relu", "abs", 4)},
    }


@case
def staircases():
    texts = (STAIRS, "z1 + z2 + z1*z3 + z2*z4", "z1*z2 + z1*z3 + z2*z3 + z1*z2*z3", "z1 + z1*z2*z3*z4")
    fields = ("merged_staircase", "leap", "order", "new_variables", "stuck", "floor", "symmetry_floor", "degenerate")
    samples = ("sgd_samples", "linear_samples", "fourier")
    answers = {}
    for text in texts:
        found = ll.staircase(text)
        group = pick(found.symmetries, "order", "complete")
        answers[text] = {**pick(found, *fields, *samples), "symmetries": group}
    table = ll.SparseTarget.from_table(np.array([1.0, 2.0, -1.0, 0.5]))
    answers["of a table"] = {"coefficients": table.coefficients, "values": table.values}
    leaps = ({(1, 0): 1.0, (0, 1): 1.0, (1, 1): 1.0}, {(3,): 1.0}, {(1, 0, 0): 1.0, (1, 2, 1): 0.5})
    fields = ("leap", "order", "new_degrees", "iso_bounds", "iso_leap", "sgd_samples")
    for i, coefficients in enumerate(leaps):
        answers[f"hermite {i}"] = pick(ll.hermite_leap(coefficients), *fields)
    return answers


@case
def free_entropy():
    ds = ll.free_entropy(glm(ll.Modulus(), 1.05), np.linspace(0, 1, 21))
    names = ("maxima", "maxima_free_entropy", "message_passing", "bayes_optimal")
    return {"landscape": ds, **{name: ds.attrs[name] for name in names}}


@case
def thresholds():
    pairs = {
        "phase retrieval": (PRIOR, ll.Modulus()),
        "binary perceptron": (ll.RademacherPrior(), ll.Sign()),
        "sparse": (ll.GaussBernoulliPrior(0.3), ll.GaussianNoise(1e-3)),
        "rectified": (PRIOR, ll.Rectified()),
    }
    fields = ("weak_recovery", "information", "algorithmic", "hard_phase", "perfect", "overlap_at_spinodal")
    return {name: pick(ll.thresholds(*pair), *fields) for name, pair in pairs.items()}


@case
def phase_diagram():
    problem = glm(ll.GaussianNoise(1e-4), prior=ll.GaussBernoulliPrior(0.3))
    return ll.phase_diagram(problem, "teacher.prior.density", [0.2, 0.4], np.linspace(0.1, 0.9, 5))


@case
def penalties():
    fields = ("penalty", "generalisation_error", "within")
    losses = {"square": ll.SquareLoss(), "logistic": ll.LogisticLoss()}
    channels = {"flip": ll.Sign(flip=0.1), "noise": ll.Sign(variance=0.5), "logistic": ll.Logistic()}
    return {
        **{name: pick(ll.optimal_penalty(convex(loss)), *fields) for name, loss in losses.items()},
        "thresholds": {name: ll.separability_threshold(channel) for name, channel in channels.items()},
        "prior": ll.separability_threshold(ll.Logistic(), ll.GaussianPrior(2.0)),
    }


@case
def regimes():
    fields = ("variance", "noise", "fluctuation", "width_error", "dimension_error", "samples_per_time", "limit")
    one = ("variance_exponent", "noise_exponent", "fluctuation_exponent", "samples_exponent", "region", "limit")
    return {
        "diagram": ll.regime_diagram([0.0, 0.5, 1.0], [-1.5, -0.7, 0.0, 0.4]),
        "one": pick(ll.regime(0.3, -0.3), *one),
        "of": pick(ll.regime_of(committee(p=200, rate=0.5), 1000), *fields),
    }


@case
def uniqueness():
    problem = ll.library.wide_phase_retrieval(sample_ratio=4.0)
    found = ll.uniqueness(problem, d=8, seed=1)
    few = ll.uniqueness(ll.library.wide_phase_retrieval(sample_ratio=1.0), d=8, seed=1, confirm=True, s=1e4)
    proof = found.verify()
    return {
        **pick(found, "verdict", "kappa", "multipliers", "unique"),
        "proof": pick(proof, "kappa", "valid"),  # its residual is rounding
        "few": {**pick(few, "verdict", "kappa"), **pick(few.second, "A", "error", "distinct")},
    }


@case
def overlaps_and_risks():
    rng = np.random.default_rng(0)
    weights = ll.Weights(*(jnp.asarray(rng.normal(size=shape)) for shape in ((3, 20), (2, 20), (3,))))
    seen = ll.measure(weights)
    problems = {
        f"{s} {t}": committee(s, t)
        for s, t in (("erf", "relu"), ("relu", "abs"), ("square", "linear"), ("tanh", "erf"))
    }
    return {**pick(seen, "Q", "M", "P", "a"), **{name: ll.risk(p, seen) for name, p in problems.items()}}


def _entries(comparison):
    names = ("variable", "compared", "constant", "worst", "where", "gap", "stderr", "z")
    rows = {entry.variable: pick(entry, *names) for entry in comparison.entries}
    return {**pick(comparison, "max_z", "threshold", "agrees", "verdict"), "table": comparison.table, "entries": rows}


@case
def comparisons():
    problem, times = committee(p=2, start=ll.RandomStart()), [0.0, 0.5]
    sim = ll.simulate(problem, d=100, times=times, replicas=4, seed=1, representation="overlaps")
    drawn = ll.predict(problem, ll.OverlapODE(d=100, replicas=4, seed=1), times=times)
    steps = ll.compare(ll.simulate(glm(), d=60, replicas=4, seed=1), ll.predict(glm(), ll.StateEvolution()))
    return {
        "paired": _entries(ll.compare(sim, drawn, paired=True)),
        "one": _entries(ll.compare(sim, drawn, variables=["risk"], threshold=3.0)),
        "iterations": _entries(steps),
    }


# --- sweeps, files, problems -------------------------------------------------------------------------------------

RATE = "algorithm.learning_rate"


def gained(problem, boost=1.0):
    """A verb of the user's."""
    return {"gain": boost * problem.algorithm.learning_rate, "word": "large" if boost > 1 else "small"}


@case
def sweep_of_predictions():
    family = ll.sweep(ll.predict, committee(p=2), {RATE: np.linspace(0.1, 0.8, 9)}, limit=ll.OverlapODE(), times=TIMES)
    curve = ll.sweep(ll.predict, glm(), {"sample_ratio": [0.5, 1.0, 4.0]}, limit=ll.BayesOptimal())
    path = ll.sweep(ll.predict, committee(p=1), {"limit.rtol": [1e-6, 1e-9]}, limit=ll.OverlapODE(), times=TIMES)
    return {"family": family, "curve": curve, "path": path}


@case
def sweep_of_simulations():
    few = ll.sweep(ll.simulate, committee(p=1), {"d": [10, 20], RATE: [0.2, 0.4]}, times=TIMES, replicas=2, seed=3)
    grid = {RATE: np.linspace(0.1, 0.8, 130)}
    many = ll.sweep(ll.simulate, committee(p=1), grid, d=8, times=[0.0, 0.5], replicas=1, seed=3)
    return {"few": few, "many": many[["risk", "status"]]}


@case
def sweep_of_anything():
    grid = {RATE: [0.1, -1.0, 0.3], "boost": [1.0, 2.0]}  # a negative rate is refused
    prior = ll.sweep(ll.thresholds, glm(ll.Modulus()), {"channel.variance": [0.0]})
    return {"own": ll.sweep(gained, committee(), grid), "thresholds": prior}


@case
def sweep_with_a_store():
    with tempfile.TemporaryDirectory() as folder:
        call = {"d": 20, "times": TIMES, "replicas": 2, "seed": 7, "store": folder}
        first = ll.sweep(ll.simulate, committee(p=1), {RATE: [0.2, 0.4]}, **call)
        more = ll.sweep(ll.simulate, committee(p=1), {RATE: [0.2, 0.3, 0.4]}, **call)
        names = [f"{key}.nc" for key in ll.Store(folder).keys()]
        return {"first": first, "more": more, "names": names}


@case
def refinements():
    edge = ll.refine(
        ll.predict, glm(), {"sample_ratio": (0.5, 3.0)}, of="mse", level=0.3, budget=9, limit=ll.BayesOptimal()
    )
    curve = ll.refine(ll.predict, glm(), {"sample_ratio": (0.5, 3.0)}, of="m", budget=9, limit=ll.BayesOptimal())
    word = ll.refine(gained, committee(), {"boost": (0.0, 3.0)}, of="word", budget=9)
    runs = ll.refine(
        ll.simulate,
        ll.library.descent_phase_retrieval(),
        {"sample_ratio": (1.0, 9.0)},
        of="success_rate",
        level=0.5,
        budget=7,
        start=3,
        d=10,
        times=[5.0],
        replicas=4,
        seed=1,
    )
    found = {"edge": edge, "word": word, "runs": runs}
    return {
        **{n: {"boundary": r.boundary, "points": r.points, "evaluated": r.evaluated} for n, r in found.items()},
        "curve": {"points": curve.points, "evaluated": curve.evaluated},
    }


@case
def saved_and_loaded():
    with tempfile.TemporaryDirectory() as folder:
        problem, path = committee(p=2), Path(folder)
        ds = ll.simulate(problem, d=10, times=TIMES, replicas=2, seed=1)
        back = ll.load(ll.save(ds, path / "run.nc"))
        hashes = [ll.spec_hash(ll.load_spec(ll.save_spec(problem, path / name))) for name in ("a.toml", "a.json")]
        return {"back": back, "hashes": [ll.spec_hash(problem), *hashes], "attrs": sorted(back.attrs)}


@case
def hashes():
    """Of ready problems."""
    return {name: ll.spec_hash(make()) for name, make in ll.library.LIBRARY.items()}


@case
def function_hashes():
    """Of problems with functions in them: made from what JAX traces, so that another version of it may change them."""
    own = {
        "activation": committee(swish),
        "loss": convex(ll.CustomLoss(softplus, scale=0.5)),
        "schedule": mixture(schedule=ll.CustomSchedule(jnp.cosh)),
        "inputs": mixture(ll.CustomInputs(two_blobs)),
        "binary": glm(ll.CustomBinary(soft_sign)),
    }
    return {name: ll.spec_hash(problem) for name, problem in own.items()}
