"""Message passing on arrays that the user brings: scikit-learn's conventions, and what it refuses."""

import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.utils.estimator_checks import check_estimator

import limitlab as ll
from limitlab.algorithms.gamp.estimator import GAMPEstimator
from limitlab.problems.starts import SpectralStart

N, D = 300, 100


def data(channel="sign", dtype=float, seed=0):
    rng = np.random.default_rng(seed)
    X, w = rng.normal(size=(N, D)) / np.sqrt(D), rng.normal(size=D)
    z = X @ w
    y = {"sign": np.sign(z), "linear": z + 0.3 * rng.normal(size=N), "modulus": np.abs(z)}[channel]
    return X.astype(dtype), y, w


def sign(**options):
    return GAMPEstimator(ll.GaussianPrior(), ll.Sign(), **options)


def test_fit_predict_score():
    X, y, w = data()
    fit = ll.GAMP(iterations=100).fit(X, y, prior=ll.GaussianPrior(), channel=ll.Sign())
    assert isinstance(fit, GAMPEstimator) and fit.fit(X, y) is fit
    assert (fit.status_, fit.converged_, fit.n_features_in_) == ("ok", True, D)
    assert 1 < fit.n_iter_ < 100 and fit.change_ <= 1e-6
    assert fit.coef_.shape == fit.coef_variance_.shape == (D,)
    assert np.corrcoef(fit.coef_, w)[0, 1] > 0.8
    assert set(fit.predict(X)) == {-1.0, 1.0} and fit.score(X, y) > 0.95
    P = fit.predict_proba(X)
    assert np.allclose(P.sum(1), 1) and np.allclose(P[:, 1] - P[:, 0], fit.predict_mean(X))
    assert np.array_equal(fit.classes_[P.argmax(1)], fit.predict(X))
    mean, variance = fit.predict_field(X)
    assert np.allclose(mean, X @ fit.coef_) and np.allclose(variance, X**2 @ fit.coef_variance_)


def test_probabilities_are_calibrated():
    """Of new samples said to be +1 with probability p, a share p is."""
    X, y, w = data()
    new = np.random.default_rng(9).normal(size=(20_000, D)) / np.sqrt(D)
    p = sign().fit(X, y).predict_proba(new)[:, 1]
    truth = new @ w > 0
    for low in (0.0, 0.25, 0.5, 0.75):
        inside = (p >= low) & (p < low + 0.25)
        # many new samples share one posterior: the weights of a single data set limit the agreement, not their number
        assert abs(truth[inside].mean() - p[inside].mean()) < 0.06


def test_contract_of_scikit_learn():
    X, y, _ = data()
    model = sign(damping=0.1)
    assert model.get_params()["damping"] == 0.1
    assert clone(model).set_params(damping=0.2).damping == 0.2
    assert is_classifier(model) and is_regressor(GAMPEstimator(ll.GaussianPrior(), ll.GaussianNoise()))
    assert not hasattr(GAMPEstimator(ll.GaussianPrior(), ll.GaussianNoise()), "predict_proba")
    with pytest.raises(NotFittedError):
        model.predict(X)
    scores = cross_val_score(model, X, y, cv=3)
    assert scores.shape == (3,) and scores.mean() > 0.7
    search = GridSearchCV(model, {"damping": [0.0, 0.3]}, cv=3).fit(X, y)
    assert search.best_score_ > 0.7
    again = pickle.loads(pickle.dumps(search.best_estimator_))
    assert np.array_equal(again.predict(X), search.predict(X))


def test_scikit_learns_own_checks_pass():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        checks = check_estimator(GAMPEstimator(ll.GaussianPrior(), ll.GaussianNoise(variance=1.0)), on_fail=None)
    assert [c["check_name"] for c in checks if c["status"] == "failed"] == []
    assert len(checks) > 40


def test_regression_and_single_precision():
    X, y, _ = data("linear", np.float32)
    model = GAMPEstimator(ll.GaussianPrior(), ll.GaussianNoise(variance=0.09))
    fit = model.fit(X, y)
    double = clone(model).fit(X.astype(float), y)
    assert fit.status_ == "ok" and fit.predict_field(X)[0].dtype == np.float32
    assert np.max(np.abs(fit.coef_ - double.coef_)) < 1e-4
    assert fit.score(X, y) > 0.8 and np.array_equal(fit.predict(X), fit.predict_mean(X))


def test_columns_of_any_size():
    """Vector variances take columns whose sizes differ by orders of magnitude; scalar ones say that they cannot."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(N, D)) * np.exp(rng.normal(size=D))
    y = X @ rng.normal(size=D) / 10 + 0.5 * rng.normal(size=N)
    model = GAMPEstimator(ll.GaussianPrior(variance=0.01), ll.GaussianNoise(variance=0.25), tolerance=1e-10)
    ridge = np.linalg.solve(X.T @ X + 25 * np.eye(D), X.T @ y)
    assert np.max(np.abs(model.fit(X, y).coef_ - ridge)) < 1e-8
    with pytest.warns(ConvergenceWarning, match="diverged"):
        fit = clone(model).set_params(variances="scalar").fit(X, y)
    assert fit.status_ == "diverged" and not fit.converged_ and np.all(np.isfinite(fit.coef_))


def test_phase_retrieval_from_arrays():
    X, y, w = data("modulus")
    fit = GAMPEstimator(ll.GaussianPrior(), ll.Modulus(), start=SpectralStart(), variances="scalar").fit(X, y)
    assert abs(fit.coef_ @ w) / np.linalg.norm(w) / np.linalg.norm(fit.coef_) > 1 - 1e-6
    with pytest.raises(ll.errors.InputError, match="SpectralStart"):
        GAMPEstimator(ll.GaussianPrior(), ll.Modulus()).fit(X, y)
    with pytest.raises(ll.errors.InputError, match="does not know the teacher"):
        GAMPEstimator(ll.GaussianPrior(), ll.Modulus(), start=ll.InformedStart(0.5)).fit(X, y)


def test_too_few_iterations_are_said():
    X, y, _ = data()
    with pytest.warns(ConvergenceWarning, match="did not converge in 3 iterations"):
        fit = sign(iterations=3).fit(X, y)
    assert (fit.status_, fit.n_iter_) == ("not_converged", 3)


def test_labels_all_satisfied_by_an_overshoot_are_not_recovery():
    """Inputs with a mean: the first step satisfies all labels with certainty, which must not count as converged."""
    rng = np.random.default_rng(2)
    X = (rng.normal(size=(N, D)) + 3) / np.sqrt(D)
    y = np.sign(X @ rng.normal(size=D))
    for damping in (0.0, 0.5, 0.7):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            fit = sign(damping=damping).fit(X, y)
        assert fit.status_ != "ok"
        assert np.all(np.isfinite(fit.coef_))


X, Y, _ = data()
HOLE = np.where(np.arange(N)[:, None] == 3, np.nan, X)
BAD = {
    "0/1 labels": (dict(X=X, y=(Y + 1) / 2), r"2\*y - 1"),
    "nan labels": (dict(X=X, y=np.where(Y > 0, np.nan, Y)), "finite"),
    "words": (dict(X=X, y=["yes"] * N), "numbers"),
    "nan inputs": (dict(X=HOLE, y=Y), "NaN"),
    "one axis": (dict(X=X[0], y=Y), "table"),
    "lengths": (dict(X=X[:-1], y=Y), "one label for each row"),
    "two columns": (dict(X=X, y=np.c_[Y, Y]), "one label for each row"),
    "empty": (dict(X=X[:0], y=Y[:0]), "0 sample"),
    "damping": (dict(X=X, y=Y, damping=1.5), "damping"),
    "iterations": (dict(X=X, y=Y, iterations=0), "iterations"),
    "seed": (dict(X=X, y=Y, seed=-1), "seed"),
    "prior": (dict(X=X, y=Y, prior="gauss"), "GaussianPrior"),
    "channel": (dict(X=X, y=Y, channel="sign"), "Sign"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused_in_words(case):
    options, match = BAD[case]
    options = dict(options)
    inputs, labels = options.pop("X"), options.pop("y")
    with pytest.raises(ll.errors.InputError, match=match):
        sign().set_params(**options).fit(inputs, labels)


def test_new_inputs_must_have_the_fitted_width():
    fit = sign().fit(X, Y)
    with pytest.raises(ll.errors.InputError, match="features"):
        fit.predict(X[:, :-1])
