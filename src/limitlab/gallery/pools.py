"""Data that ship with scikit-learn, as arrays of inputs and targets."""

from typing import Any

import numpy as np

__all__ = ["cancer", "diabetes", "digits", "friedman", "heavy", "iris", "moons", "relu_digits", "standard", "wine"]


def standard(X: Any) -> np.ndarray:
    """Columns of s.d. 1 over sqrt(columns), constant ones left out."""
    X = np.asarray(X, float)
    X = X[:, X.std(axis=0) > 0]
    return (X - X.mean(axis=0)) / X.std(axis=0) / np.sqrt(X.shape[1])


def _signs(wanted: Any) -> np.ndarray:
    return np.where(wanted, 1.0, -1.0)


def cancer() -> tuple[np.ndarray, np.ndarray]:
    from sklearn.datasets import load_breast_cancer

    X, y = load_breast_cancer(return_X_y=True)
    return standard(X), _signs(np.asarray(y) == 1)


def diabetes() -> tuple[np.ndarray, np.ndarray]:
    from sklearn.datasets import load_diabetes

    X, y = (np.asarray(x) for x in load_diabetes(return_X_y=True))
    return standard(X), (y - y.mean()) / y.std()


def digits(*classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Pixels over 128, odd against even; or one class (+1) against another."""
    from sklearn.datasets import load_digits

    X, y = (np.asarray(x) for x in load_digits(return_X_y=True))
    if not classes:
        return X / 128, _signs(y % 2 == 1)
    keep = np.isin(y, classes)
    return X[keep] / 128, _signs(y[keep] == classes[0])


def relu_digits(width: int = 600) -> tuple[np.ndarray, np.ndarray]:
    """Random relu features of the images, each of norm 1."""
    X, y = digits()
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    F = np.random.default_rng(0).standard_normal((X.shape[1], width))
    return np.maximum(unit @ F, 0) / np.sqrt(width), y


def wine() -> tuple[np.ndarray, np.ndarray]:
    from sklearn.datasets import load_wine

    X, y = load_wine(return_X_y=True)
    return standard(X), _signs(np.asarray(y) == 1)


def iris() -> tuple[np.ndarray, np.ndarray]:
    """Versicolor against virginica."""
    from sklearn.datasets import load_iris

    X, y = (np.asarray(x) for x in load_iris(return_X_y=True))
    return standard(X[y > 0]), _signs(y[y > 0] == 2)


def friedman() -> tuple[np.ndarray, np.ndarray]:
    from sklearn.datasets import make_friedman1

    X, y = make_friedman1(600, 20, noise=1.0, random_state=0)
    return standard(X), (y - y.mean()) / y.std()


def moons() -> tuple[np.ndarray, np.ndarray]:
    """Two moons with all monomials up to degree 4."""
    from sklearn.datasets import make_moons
    from sklearn.preprocessing import PolynomialFeatures

    X, y = make_moons(500, noise=0.25, random_state=0)
    return standard(PolynomialFeatures(4, include_bias=False).fit_transform(X)), _signs(y == 1)


def heavy(rows: int = 800, columns: int = 100) -> tuple[np.ndarray, np.ndarray]:
    """Rows of a Student law of three degrees of freedom, a linear target with noise."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((rows, columns)) / np.sqrt(columns)
    X /= np.sqrt(rng.chisquare(3, rows) / 3)[:, None]
    return X, X @ rng.standard_normal(columns) + 0.3 * rng.standard_normal(rows)
