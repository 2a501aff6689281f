"""Fits of random features at finite size: the features of a replica, and what its fit pays on new samples."""

import jax
import jax.numpy as jnp
import numpy as np

from limitlab.algorithms.data import RUN, replica_key
from limitlab.algorithms.settings.fixed_data import ConvexFit
from limitlab.errors import AccuracyWarning
from limitlab.modules import filter_jit
from limitlab.numerics.convex.fit import Fit
from limitlab.problems.networks import RandomFeatures
from limitlab.verbs import caution

__all__ = ["TESTS", "Drawn", "warn_beyond_equivalence"]

TESTS = 2**13  # new samples on which a fit is measured
FAR = 0.1  # times d^2: with more samples or features than that Gaussian equivalence is not to be trusted
FEATURES, SAMPLES, LABELS = range(3)  # streams below that of a run


def warn_beyond_equivalence(student: RandomFeatures, n: int, d: int) -> None:
    """Say aloud that the limit does not describe so many samples or features."""
    p = student.width(d)
    if max(n, p) > FAR * d**2:
        caution(
            f"RandomFeatures: n = {n} and p = {p} are not small beside d^2 = {d**2}. Parts of the labels and of the "
            "activation beyond the linear one are learned then, and ERMAsymptotics does not know of it. Use a larger d "
            "at the same sample_ratio and width_ratio to see the limit.",
            AccuracyWarning,
        )


class Drawn:
    """The features of one replica."""

    def __init__(self, setting: ConvexFit, student: RandomFeatures, w_star: np.ndarray, seed: int, replica: int):
        self._setting, self._w_star, self._student = setting, jnp.asarray(w_star), student
        self._key = jax.random.fold_in(replica_key(seed, replica), RUN)
        self._F = self._student.directions_of(jax.random.fold_in(self._key, FEATURES), len(w_star))

    def features(self, X: np.ndarray) -> np.ndarray:
        """sigma(F x)/sqrt(p) (n, p)."""
        return np.asarray(_features(self._student, self._F, jnp.asarray(X)))

    def measure(self, found: Fit, X: np.ndarray, y: np.ndarray) -> dict[str, float]:
        """What the fit has learned, on new samples."""
        setting, loss = self._setting, self._setting.loss
        keys = [jax.random.fold_in(self._key, stream) for stream in (SAMPLES, LABELS)]
        x = setting.inputs.draw(keys[0], TESTS, len(self._w_star))
        z = setting.teacher.output(self._w_star, x)
        label = setting.channel.sample(keys[1], z)
        f = jnp.asarray(self.features(np.asarray(x)) @ found.w)
        wrong = jnp.square(label - f) if setting.channel.labels != "binary" else (label * f < 0).astype(float)
        row = {
            "m": z * f,
            "q": jnp.square(f),
            "label_mse": jnp.square(label - f),
            "generalisation_error": wrong,
            "risk": jnp.zeros_like(f) if loss.hard else loss.value(label, f),
        }
        told = {name: float(jnp.mean(value)) for name, value in row.items()}
        told["squared_norm"] = float(np.mean(np.square(found.w)))
        told["train_loss"] = 0.0 if loss.hard else float(np.mean(loss.value(jnp.asarray(y), jnp.asarray(X @ found.w))))
        return told if found.status in ("ok", "not_converged") else dict.fromkeys(told, float("nan"))


@filter_jit
def _features(student: RandomFeatures, F: jax.Array, x: jax.Array) -> jax.Array:
    return student.features(F, x)
