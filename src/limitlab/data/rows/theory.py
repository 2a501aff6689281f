"""What the row theory says of a pool: the law of every row's field, and what is paid on average."""

from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

__all__ = ["Design", "RowTheory", "wrong_signs"]


class Design(NamedTuple):
    """Features of all rows with a penalty on each: columns of penalty 0 are free, such as that of an intercept."""

    Z: np.ndarray
    penalty: np.ndarray

    @classmethod
    def of(cls, features: np.ndarray, penalty: float, intercept: bool) -> "Design":
        each = np.full(features.shape[1] + intercept, float(penalty))
        if not intercept:
            return cls(features, each)
        each[-1] = 0.0
        return cls(np.concatenate([features, np.ones((len(features), 1))], axis=1), each)


class RowTheory(NamedTuple):
    """Per row: mean and s.d. of its field when it is left out, leverage, and what is expected to be paid for it.

    ``status`` is "ok" or "not_converged"; ``rounds`` and ``residual`` say how the fixed point was found.
    """

    mean: np.ndarray
    sd: np.ndarray
    leverage: np.ndarray
    test_loss: np.ndarray
    train_loss: np.ndarray
    rounds: int
    residual: float
    status: str

    def wrong(self, y: np.ndarray) -> np.ndarray:
        """The probability of a wrong sign for every row, labels -1 and +1."""
        return wrong_signs(y, self.mean, self.sd)


def wrong_signs(y: np.ndarray, mean: np.ndarray, sd: np.ndarray) -> np.ndarray:
    """P(sign(h) != y) of h ~ N(mean, sd^2)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        score = np.where(sd > 0, -y * mean / sd, -np.inf * np.sign(y * mean))
    return ndtr(np.where(np.isnan(score), 0.0, score))
