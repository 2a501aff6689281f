"""Pools that ship with scikit-learn, in the scalings of the printed figures."""

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits


def standard(X):
    return (X - X.mean(0)) / X.std(0) / np.sqrt(X.shape[1])


def cancer():
    data: tuple = load_breast_cancer(return_X_y=True)
    return standard(data[0]), np.where(data[1] == 1, 1.0, -1.0)


def diabetes():
    X, y = load_diabetes(return_X_y=True)
    return standard(X), (y - y.mean()) / y.std()


def digits():
    """Pixels over 16, odd against even."""
    X, y = load_digits(return_X_y=True)
    return X / 16, np.where(y % 2, 1.0, -1.0)


def relu_digits(width=600, seed=0):
    """Relu features of the images, each image of norm 1."""
    X, y = digits()
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    F = np.random.default_rng(seed).standard_normal((X.shape[1], width))
    return np.maximum(unit @ F, 0) / np.sqrt(width), y
