"""Message passing for arrays that the user brings, with scikit-learn's conventions."""

import warnings
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils import ClassifierTags, RegressorTags, column_or_1d
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from limitlab.algorithms.gamp.gamp import GAMP
from limitlab.algorithms.gamp.iteration import FLOOR, Model, begin, converge, gather
from limitlab.algorithms.gamp.starts import check_start, start_from
from limitlab.errors import InputError
from limitlab.numerics.checks import check_seed
from limitlab.numerics.trees import traced
from limitlab.problems.asked import Asked
from limitlab.problems.channels.base import AbstractChannel
from limitlab.problems.priors import AbstractPrior
from limitlab.problems.starts import AbstractStart

__all__ = ["GAMPEstimator"]


def _binary(estimator: "GAMPEstimator") -> bool:
    return getattr(estimator.channel, "labels", None) == "binary"


class GAMPEstimator(BaseEstimator):
    r"""Posterior means and variances of the weights of a generalised linear model, by `GAMP`.

    .. math:: w_i \sim \mathrm{prior}, \qquad z = Xw, \qquad y \sim \mathrm{channel}(z)

    Needs columns of X that are close to independent and of mean zero; then the result is close to the exact posterior
    for large X. There is no intercept. Strongly correlated columns make the iteration diverge, which it says; damping
    of 0.2 to 0.7 often helps, at the price of more iterations.

    Parameters
    ----------
    prior, channel
        The law of a weight and of a label, such as ``GaussianPrior()`` and ``Sign()``. X is used as given: for rows of
        norm about 1 a prior of variance 1 makes z of order one, for entries of order one a variance of 1/d does.
    damping, iterations, tolerance, variances
        As in `GAMP`. "vector" variances allow columns of unequal size.
    start
        None (the prior mean), ``SpectralStart()`` for channels that do not see the sign of z, or
        ``RandomStart(scale)``.
    seed
        For the last two starts.

    Attributes
    ----------
    coef_, coef_variance_
        Posterior mean and variance of each weight.
    status_, converged_, n_iter_, change_
        "ok", "not_converged" or "diverged" (the last finite state is kept); whether it is the first; iterations made;
        the last relative change of ``coef_``.
    classes_
        -1 and +1, for binary channels only.
    """

    def __init__(
        self,
        prior: AbstractPrior,
        channel: AbstractChannel,
        *,
        damping: float = 0.0,
        iterations: int = 200,
        tolerance: float = 1e-6,
        variances: str = "vector",
        start: AbstractStart | None = None,
        seed: int = 0,
    ):
        self.prior = prior
        self.channel = channel
        self.damping = damping
        self.iterations = iterations
        self.tolerance = tolerance
        self.variances = variances
        self.start = start
        self.seed = seed

    def fit(self, X, y) -> "GAMPEstimator":
        """Run message passing on inputs X (n, d) and labels y (n,)."""
        rule = GAMP(
            damping=self.damping, iterations=self.iterations, tolerance=self.tolerance, variances=self.variances
        )
        check_seed("GAMP.fit", self.seed)
        model = self._model()
        check_start("GAMP.fit", model, self.start, teacher=False)
        X = self._inputs(X, reset=True)
        labels = self._labels(y, len(X))

        live = traced(model)
        data = gather(jnp.asarray(X), jnp.asarray(labels), rule.variances)
        a, v = _start(live, data, traced(self.start), jax.random.key(self.seed))
        numbers = (jnp.asarray(float(rule.damping)), jnp.asarray(float(rule.tolerance)), jnp.asarray(rule.iterations))
        run = converge(live, data, begin(a, v, len(X)), *numbers)

        self.coef_, self.coef_variance_ = np.asarray(run.state.a), np.asarray(run.state.v)
        self.n_iter_, self.change_ = int(run.steps), float(run.change)
        self.converged_ = bool(run.converged(float(rule.tolerance)))
        self.status_ = "ok" if self.converged_ else "diverged" if bool(run.diverged) else "not_converged"
        if _binary(self):
            self.classes_ = np.array([-1.0, 1.0])
        self._warn()
        return self

    def predict_field(self, X) -> tuple[np.ndarray, np.ndarray]:
        r"""Posterior mean :math:`\sum_i X_i a_i` and variance :math:`\sum_i X_i^2 v_i` of z for new inputs."""
        check_is_fitted(self)
        X = self._inputs(X, reset=False)
        return X @ self.coef_.astype(X.dtype), np.square(X) @ self.coef_variance_.astype(X.dtype)

    def predict_mean(self, X) -> np.ndarray:
        """The mean label of new inputs, averaged over the posterior."""
        return np.asarray(_mean_label(traced(self.channel), *self._posterior(X)))

    def predict(self, X) -> np.ndarray:
        """The likelier label if labels are binary, else the mean label."""
        mean = self.predict_mean(X)
        return np.where(mean >= 0, 1.0, -1.0) if _binary(self) else mean

    @available_if(_binary)
    def predict_proba(self, X) -> np.ndarray:
        """Probabilities of the labels -1 and +1 (``classes_``), averaged over the posterior."""
        return np.asarray(_probabilities(traced(self.channel), *self._posterior(X)))

    def score(self, X, y) -> float:
        """Accuracy if labels are binary, else R^2."""
        guess = self.predict(X)
        y = self._labels(y, len(guess))
        return float(accuracy_score(y, guess) if _binary(self) else r2_score(y, guess))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        if _binary(self):
            tags.estimator_type, tags.classifier_tags = "classifier", ClassifierTags(multi_class=False)
        else:
            tags.estimator_type, tags.regressor_tags = "regressor", RegressorTags()
        return tags

    def _model(self) -> Model:
        asked = Asked("GAMP.fit", InputError)
        prior = asked.part(self.prior, AbstractPrior, "a prior such as GaussianPrior()", "Set prior to one.")
        return Model(
            prior, asked.part(self.channel, AbstractChannel, "a channel such as Sign()", "Set channel to one.")
        )

    def _inputs(self, X: Any, *, reset: bool) -> np.ndarray:
        try:
            return np.asarray(validate_data(self, X, reset=reset, dtype=[np.float64, np.float32]))
        except ValueError as error:
            first, *rest = str(error).split("\n")  # the rest repeats the array or is a lecture, but for one line
            what = " ".join([first, *(line for line in rest if line.startswith("Reshape"))])
            raise InputError(f"GAMP: X must be a table (samples, features) of finite numbers. {what}") from error

    def _labels(self, y: Any, n: int) -> np.ndarray:
        if y is None:
            raise InputError("GAMPEstimator requires y to be passed, but the target y is None. Give the labels.")
        y = self.channel.check_labels(y, by="GAMP")
        if y.shape == (n, 1):
            y = column_or_1d(y, warn=True)
        if y.shape != (n,):
            raise InputError(f"GAMP needs one label for each row of X: y of shape ({n},); got shape {y.shape}.")
        return y

    def _posterior(self, X) -> tuple[jax.Array, jax.Array]:
        mean, variance = self.predict_field(X)
        floor = FLOOR * float(self.prior.second_moment)
        return jnp.asarray(mean, float), jnp.maximum(jnp.asarray(variance, float), floor)

    def _warn(self) -> None:
        if self.converged_:
            return
        more = (
            f"GAMP diverged after {self.n_iter_} iterations; coef_ is its last finite state. Columns of X may be "
            f"correlated or have a mean: centre them, or use damping (now {self.damping}) of 0.2 to 0.7."
            if self.status_ == "diverged"
            else f"GAMP did not converge in {self.n_iter_} iterations: coef_ still changes by {self.change_:.2g}, more "
            f"than tolerance={self.tolerance:g}. Use more iterations, or damping (now {self.damping}) if it oscillates."
        )
        warnings.warn(more, ConvergenceWarning, stacklevel=3)


_start = eqx.filter_jit(start_from)


@eqx.filter_jit
def _mean_label(channel, w, V):
    return channel.mean_label(w, V)


@eqx.filter_jit
def _probabilities(channel, w, V):
    plus, minus = (jnp.exp(channel.output(jnp.full_like(w, sign), w, V).log_z) for sign in (1.0, -1.0))
    return jnp.stack([minus, plus], axis=-1)
