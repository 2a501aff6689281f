"""Message passing for arrays that the user brings, with scikit-learn's conventions."""

import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils import ClassifierTags, RegressorTags, column_or_1d
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from limitlab._setup import double
from limitlab.algorithms.gamp.gamp import GAMP
from limitlab.algorithms.gamp.iteration import FLOOR, Model, begin, converge, gather, settle
from limitlab.algorithms.gamp.starts import check_start, start_from
from limitlab.errors import InputError
from limitlab.modules import filter_jit
from limitlab.numerics.checks import check_seed
from limitlab.numerics.trees import traced
from limitlab.problems.asked import Asked
from limitlab.problems.channels import AbstractChannel, Logistic
from limitlab.problems.priors import AbstractPrior, GaussianPrior
from limitlab.problems.starts import AbstractStart, SpectralStart

__all__ = ["GAMPEstimator"]


def _binary(estimator: "GAMPEstimator") -> bool:
    return estimator.channel is None or getattr(estimator.channel, "labels", None) == "binary"


class GAMPEstimator(BaseEstimator):
    r"""Posterior means and variances of the weights of a generalised linear model, by `GAMP`.

    .. math:: w_i \sim \mathrm{prior}, \qquad z = Xw, \qquad y \sim \mathrm{channel}(z)

    A classifier if the labels of the channel are binary, else a regressor. The result is close to the exact posterior
    if X is large and its columns are close to independent and of mean zero; the more they are correlated, the more the
    variances are too small. There is no intercept: standardise X (``StandardScaler``), and centre labels that are
    numbers (``TransformedTargetRegressor``).

    Parameters
    ----------
    prior
        The law of a weight, ``GaussianPrior()`` if left out. X is used as given: for rows of norm about 1 a prior of
        variance 1 makes z of order one, for entries of order one a variance of 1/d does. ``GaussianPrior(C)`` with
        ``Logistic()`` is the model of scikit-learn's ``LogisticRegression(C=C)``, ``GaussianPrior(1/alpha)`` with
        ``GaussianNoise(1.0)`` that of its ``Ridge(alpha)``.
    channel
        The law of a label, ``Logistic()`` if left out.
    damping
        "auto" shortens the steps when they turn round, and only then (on independent columns it makes none), and begins
        again with shorter ones if the run diverges all the same. A number as in `GAMP`.
    iterations, tolerance, variances
        As in `GAMP`. "vector" variances allow columns of unequal size.
    start
        "auto" is ``SpectralStart()`` for channels that do not see the sign of z and the prior mean (None) for others;
        or ``RandomStart(scale)``.
    seed
        For the starts that are random.

    Attributes
    ----------
    coef_, coef_variance_
        Posterior mean and variance of each weight. Of a fit that did not converge, those after the iteration that
        changed them least (the start, if each changed them wholly).
    status_, converged_, n_iter_, change_
        "ok", "not_converged" or "diverged"; whether it is the first; iterations made; the last relative change of
        ``coef_``. A fit that did not converge warns (``ConvergenceWarning``), and its probabilities stay 1/(n + 2)
        away from 0 and 1: from n samples nobody can be more certain without a posterior (Laplace's rule).
    n_samples_fit_
        n.
    classes_
        The two labels in order, numbers or texts, for binary channels only; -1 and +1 stand for them.
    """

    def __init__(
        self,
        prior: AbstractPrior | None = None,
        channel: AbstractChannel | None = None,
        *,
        damping: float | str = "auto",
        iterations: int = 2000,
        tolerance: float = 1e-6,
        variances: str = "vector",
        start: AbstractStart | str | None = "auto",
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

    @double
    def fit(self, X, y) -> "GAMPEstimator":
        """Run message passing on inputs X (n, d) and labels y (n,)."""
        model, start, rule = self._model(), self._start(), self._rule()
        check_seed("GAMP.fit", self.seed)
        check_start("GAMP.fit", model, start, teacher=False)
        X = self._inputs(X, reset=True)
        labels = self._labels(y, len(X))

        live = traced(model)
        data = gather(jnp.asarray(X), jnp.asarray(labels), rule.variances)
        a, v = _start(live, data, traced(start), jax.random.key(self.seed))
        begun, tolerance = begin(a, v, len(X)), jnp.asarray(float(rule.tolerance))
        if self._auto:
            run = settle(live, data, begun, tolerance, rule.iterations)
        else:
            damping, iterations = jnp.asarray(float(rule.damping)), jnp.asarray(rule.iterations)
            run = converge(live, data, begun, damping, tolerance, iterations)

        self.coef_, self.coef_variance_ = np.asarray(run.state.a), np.asarray(run.state.v)
        self.n_samples_fit_, self.n_iter_, self.change_ = len(X), int(run.steps), float(run.change)
        self.converged_ = bool(run.converged(float(rule.tolerance)))
        self.status_ = "ok" if self.converged_ else "diverged" if bool(run.diverged) else "not_converged"
        self._warn()
        return self

    def predict_field(self, X) -> tuple[np.ndarray, np.ndarray]:
        r"""Posterior mean :math:`\sum_i X_i a_i` and variance :math:`\sum_i X_i^2 v_i` of z for new inputs."""
        check_is_fitted(self)
        X = self._inputs(X, reset=False)
        return X @ self.coef_.astype(X.dtype), np.square(X) @ self.coef_variance_.astype(X.dtype)

    @double
    def predict_mean(self, X) -> np.ndarray:
        """The mean label of new inputs, averaged over the posterior; of -1 and +1 for binary channels."""
        fields = self._posterior(X)
        mean = np.asarray(_mean_label(traced(self._model().channel), *fields))
        return 2 * self._certain((1 + mean) / 2) - 1 if _binary(self) and not self.converged_ else mean

    def predict(self, X) -> np.ndarray:
        """The likelier class if labels are binary, else the mean label."""
        mean = self.predict_mean(X)
        return self.classes_[(mean >= 0).astype(int)] if _binary(self) else mean

    @available_if(_binary)
    @double
    def predict_proba(self, X) -> np.ndarray:
        """Probabilities of the two ``classes_``, averaged over the posterior."""
        fields = self._posterior(X)
        return self._certain(np.asarray(_probabilities(traced(self._model().channel), *fields)))

    def _certain(self, probability: np.ndarray) -> np.ndarray:
        """Probabilities that a fit which did not converge may give."""
        least = 0.0 if self.converged_ else 1 / (self.n_samples_fit_ + 2)
        return np.clip(probability, least, 1 - least)

    def score(self, X, y, sample_weight=None) -> float:
        """Accuracy if labels are binary, else R^2."""
        guess = self.predict(X)
        measure = accuracy_score if _binary(self) else r2_score
        return float(measure(y, guess, sample_weight=sample_weight))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        if _binary(self):
            even = getattr(self.channel, "even", False)
            tags.estimator_type = "classifier"
            tags.classifier_tags = ClassifierTags(multi_class=False, poor_score=bool(even))
        else:
            clean = getattr(self.channel, "clean", float)
            signed = float(clean(-1.0)) < 0 and not getattr(self.channel, "even", False)
            tags.estimator_type, tags.regressor_tags = "regressor", RegressorTags(poor_score=not signed)
            tags.target_tags.positive_only = not _makes(self.channel, -1.0)
        return tags

    @property
    def _auto(self) -> bool:
        return isinstance(self.damping, str) and self.damping == "auto"

    def _rule(self) -> GAMP:
        """The numbers, checked as those of the rule."""
        damping: Any = 0.0 if self._auto else self.damping
        if isinstance(damping, str):
            raise InputError(f'GAMP.fit: damping must be "auto" or 0 <= damping < 1; got {damping!r}.')
        return GAMP(damping=damping, iterations=self.iterations, tolerance=self.tolerance, variances=self.variances)

    def _model(self) -> Model:
        asked = Asked("GAMP.fit", InputError)
        prior = GaussianPrior() if self.prior is None else self.prior
        channel = Logistic() if self.channel is None else self.channel
        return Model(
            asked.part(prior, AbstractPrior, "a prior such as GaussianPrior()", "Set prior to one."),
            asked.part(channel, AbstractChannel, "a channel such as Sign()", "Set channel to one."),
        )

    def _start(self) -> AbstractStart | None:
        if isinstance(self.start, str):
            if self.start != "auto":
                raise InputError(f'GAMP.fit: start must be "auto", None or a start; got {self.start!r}.')
            return SpectralStart() if self._model().channel.even else None
        return self.start

    def _inputs(self, X: Any, *, reset: bool) -> np.ndarray:
        try:
            return np.asarray(validate_data(self, X, reset=reset, dtype=[np.float64, np.float32]))
        except ValueError as error:
            first, *rest = str(error).split("\n")  # the rest repeats the array or is a lecture, but for one line
            what = " ".join([first, *(line for line in rest if line.startswith("Reshape"))])
            raise InputError(f"GAMP: X must be a table (samples, features) of finite numbers. {what}") from error

    def _labels(self, y: Any, n: int) -> np.ndarray:
        """Labels as the channel has them; the two classes of a classifier are kept in ``classes_``."""
        if y is None:
            raise InputError("GAMPEstimator requires y to be passed, but the target y is None. Give the labels.")
        if _binary(self):
            y = self._classes(y)
        y = self._model().channel.check_labels(y, by="GAMP")
        if y.shape == (n, 1):
            y = column_or_1d(y, warn=True)
        if y.shape != (n,):
            raise InputError(f"GAMP needs one label for each row of X: y of shape ({n},); got shape {y.shape}.")
        return y

    def _classes(self, y: Any) -> np.ndarray:
        """-1 for the first of two classes, +1 for the second."""
        y = np.asarray(y)
        if y.dtype.kind == "f" and not np.all(np.isfinite(y)):
            raise InputError(f"GAMP: labels y must be finite; {int(np.sum(~np.isfinite(y)))} of them are NaN or inf.")
        try:
            check_classification_targets(y)
        except ValueError as error:
            raise InputError(f"GAMP: labels y of a binary channel must be two classes. {error}") from error
        if y.dtype.kind in "fi" and y.size and np.all(np.abs(y) == 1):  # the channel's own: one of them is enough
            self.classes_ = np.array([-1, 1], y.dtype)
            return y.astype(float)
        self.classes_, which = np.unique(y, return_inverse=True)
        if len(self.classes_) != 2:
            shown = ", ".join(map(repr, self.classes_[:3].tolist())) + (", ..." if len(self.classes_) > 3 else "")
            words = "Only binary classification is supported. The type of the target is multiclass."
            raise InputError(
                f"GAMP: labels y of a binary channel must be of two classes; got {len(self.classes_)} class"
                f"{'es' if len(self.classes_) > 1 else ''} ({shown}). {words if len(self.classes_) > 2 else ''}".strip()
            )
        return np.reshape(2.0 * which - 1, y.shape)

    def _posterior(self, X) -> tuple[jax.Array, jax.Array]:
        mean, variance = self.predict_field(X)
        floor = FLOOR * float(self._model().prior.second_moment)
        return jnp.asarray(mean, float), jnp.maximum(jnp.asarray(variance, float), floor)

    def _warn(self) -> None:
        if self.converged_:
            return
        kept, auto = "coef_ is the state that changed least", "" if self._auto else ', or use damping="auto"'
        more = (
            f"GAMP diverged after {self.n_iter_} iterations; {kept}. Columns of X may be correlated, of unequal size "
            f"or have a mean: standardise X{auto}."
            if self.status_ == "diverged"
            else f"GAMP did not converge in {self.n_iter_} iterations: the weights still change by {self.change_:.2g}, "
            f"more than tolerance={self.tolerance:g}; {kept}. Use more iterations, or standardise X{auto}."
        )
        warnings.warn(more, ConvergenceWarning, stacklevel=4)


def _makes(channel: Any, label: float) -> bool:
    """Whether a channel could have made this label."""
    try:
        channel.check_labels([label], by="GAMP")
    except InputError:
        return False
    except AttributeError:  # not a channel: `fit` says so
        pass
    return True


_start = filter_jit(start_from)


@filter_jit
def _mean_label(channel, w, V):
    return channel.mean_label(w, V)


@filter_jit
def _probabilities(channel, w, V):
    plus, minus = (jnp.exp(channel.output(jnp.full_like(w, sign), w, V).log_z) for sign in (1.0, -1.0))
    return jnp.stack([minus, plus], axis=-1)
