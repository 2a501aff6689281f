"""Every sensible one-pass problem, and the same learning written once more as a plain NumPy loop."""

import itertools
from typing import NamedTuple

import numpy as np
from scipy.special import erf, expit

import limitlab as ll

PAIRS = {
    "gaussian, committee": (ll.Gaussian(), ll.Committee(2, "erf")),
    "gaussian, single index": (ll.Gaussian(), ll.SingleIndex(ll.GaussianPrior())),
    "hypercube, committee": (ll.Hypercube(), ll.Committee(2, "erf")),
    "hypercube, single index": (ll.Hypercube(), ll.SingleIndex(ll.RademacherPrior())),
    "hypercube, sparse": (ll.Hypercube(), ll.SparseTarget("z1 + z1*z2")),
}
LABELS = {
    "noise, square": (ll.GaussianNoise(0.2), ll.SquareLoss()),
    "modulus, square": (ll.Modulus(0.1), ll.SquareLoss()),
    "noise, pseudo-huber": (ll.GaussianNoise(0.2), ll.PseudoHuberLoss(1.0)),
    "sign, logistic": (ll.Sign(), ll.LogisticLoss()),
    "logistic, logistic": (ll.Logistic(), ll.LogisticLoss()),
    "sign, hinge": (ll.Sign(), ll.HingeLoss()),
}
MIXTURES = {
    "mixture, square": (ll.GaussianNoise(0.1), ll.SquareLoss()),
    "mixture, logistic": (ll.GaussianNoise(0.0), ll.LogisticLoss()),
}
ACTIVATIONS = ("erf", "tanh", "square")
LAYERS = ("fixed", "trained")
RATE, D, WIDTH = 0.3, 12, 2


class Case(NamedTuple):
    pair: str
    labels: str
    activation: str
    layer: str


CASES = [
    *(Case(*all) for all in itertools.product(PAIRS, LABELS, ACTIVATIONS, LAYERS)),
    *(Case("mixture", *all) for all in itertools.product(MIXTURES, ACTIVATIONS, LAYERS)),
]


def problem(case: Case) -> ll.Problem:
    inputs, teacher = (ll.IsotropicMixture(0.5), None) if case.pair == "mixture" else PAIRS[case.pair]
    channel, loss = MIXTURES[case.labels] if case.pair == "mixture" else LABELS[case.labels]
    near = teacher is not None and not isinstance(teacher, ll.SparseTarget)
    return ll.Problem(
        inputs=inputs,
        teacher=teacher,
        channel=channel,
        student=ll.Committee(WIDTH, case.activation, second_layer=case.layer),
        loss=loss,
        start=ll.InformedStart(0.3) if near else ll.RandomStart(),
        algorithm=ll.OnlineSGD(RATE),
    )


# --- the same, by hand ---------------------------------------------------------------------------------------

UNITS = {
    "erf": (lambda x: erf(x / np.sqrt(2)), lambda x: np.sqrt(2 / np.pi) * np.exp(-(x**2) / 2)),
    "tanh": (np.tanh, lambda x: 1 / np.cosh(x) ** 2),
    "square": (np.square, lambda x: 2 * x),
}
SLOPES = {  # of the loss in the output f
    "square": (lambda y, f: (f - y) ** 2 / 2, lambda y, f: f - y),
    "pseudo-huber": (lambda y, f: np.sqrt(1 + (y - f) ** 2) - 1, lambda y, f: (f - y) / np.sqrt(1 + (y - f) ** 2)),
    "logistic": (lambda y, f: np.logaddexp(0, -y * f), lambda y, f: -y * expit(-y * f)),
    "hinge": (lambda y, f: np.maximum(0, 1 - y * f), lambda y, f: np.where(y * f < 1, -y, 0.0)),
}


def _inputs(case, rng, shape):
    x = rng.normal(size=shape) if "hypercube" not in case.pair else rng.choice([-1.0, 1.0], size=shape)
    return x / np.sqrt(shape[-1])


def _labels(case, rng, z):
    kind = case.labels.split(",")[0]
    if kind == "noise":
        return z + np.sqrt(0.2) * rng.normal(size=z.shape)
    if kind == "modulus":
        return np.abs(z) + np.sqrt(0.1) * rng.normal(size=z.shape)
    if kind == "sign":
        return np.where(z >= 0, 1.0, -1.0)
    return np.where(rng.random(z.shape) < expit(z), 1.0, -1.0)


def _frames(rng, runs, d, count):
    return np.linalg.qr(rng.normal(size=(runs, d, count)))[0].swapaxes(1, 2) * np.sqrt(d)


def by_hand(case: Case, steps: int, runs: int, seed: int) -> dict[str, np.ndarray]:
    """Plain SGD of many runs at once: the test loss and the mean squared norm of the units after so many steps."""
    rng, d, p = np.random.default_rng(seed), D, WIDTH
    value, slope = UNITS[case.activation]
    loss, pull_of = SLOPES[case.labels.split(", ")[1]]
    W, a = rng.normal(size=(runs, p, d)), np.ones((runs, p))
    S = None
    if "committee" in case.pair:
        frame = _frames(rng, runs, d, p + 2)
        S, W = frame[:, :2], 0.3 * frame[:, :2] + np.sqrt(1 - 0.09) * frame[:, 2:]
    elif "single" in case.pair:
        S = rng.normal(size=(runs, 1, d)) if "gaussian" in case.pair else rng.choice([-1.0, 1.0], size=(runs, 1, d))
        S *= np.sqrt(d) / np.linalg.norm(S, axis=2, keepdims=True)
        u = rng.normal(size=(runs, p, d))
        basis = np.linalg.qr(np.concatenate([S, u], axis=1).swapaxes(1, 2))[0].swapaxes(1, 2)[:, 1:] * np.sqrt(d)
        W = 0.3 * S + np.sqrt(1 - 0.09) * basis

    def sample(count):
        if case.pair == "mixture":
            y = rng.choice([-1.0, 1.0], size=(runs, count))
            x = (1 + 0.5 * y)[..., None] * rng.normal(size=(runs, count, d)) / np.sqrt(d)
            return x, y + (np.sqrt(0.1) * rng.normal(size=y.shape) if "square" in case.labels else 0)
        x = _inputs(case, rng, (runs, count, d))
        if "committee" in case.pair:
            z = np.mean(UNITS["erf"][0](np.einsum("rnd,rkd->rnk", x, S)), axis=2)
        elif "single" in case.pair:
            z = np.einsum("rnd,rd->rn", x, S[:, 0])
        else:
            z = np.sign(x[..., 0]) + np.sign(x[..., 0] * x[..., 1])
        return x, _labels(case, rng, z)

    for _ in range(steps):
        x, y = sample(1)
        lam = np.einsum("rnd,rpd->rnp", x, W)[:, 0]
        pull = pull_of(y[:, 0], np.mean(a * value(lam), axis=1))
        new = W - RATE / p * (pull[:, None] * a * slope(lam))[..., None] * x
        if case.layer == "trained":
            a = a - RATE / (p * d) * pull[:, None] * value(lam)
        W = new
    x, y = sample(100)  # of each of the many runs: its noise is far below that of the runs it is compared with
    f = np.mean(a[:, None] * value(np.einsum("rnd,rpd->rnp", x, W)), axis=2)
    return {"risk": loss(y, f).mean(1), "norm": np.mean(W**2, axis=(1, 2)), "a": a.mean(1)}
