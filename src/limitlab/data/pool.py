r"""A pool: N labelled rows, or their kernel, from which training sets are drawn at random.

The question that a pool answers: train on a random n of the N rows, test on the others; mean over subsets. Rows and
labels are what they are: no teacher, noise level or Gaussian assumption is needed.
"""

import dataclasses
import hashlib
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from limitlab.data.best import best_penalty
from limitlab.data.curve import LearningCurve
from limitlab.data.on_pools import curve_of_pool
from limitlab.errors import InputError
from limitlab.numerics.machine import Memory, check_memory
from limitlab.text import html_table

__all__ = ["Modes", "Pool"]

SMALL = 1e-12  # eigenvalues below this share of the largest are none
CLASSES = 100  # of labels that are still classes
SYMMETRIC = 1e-8


class Modes(NamedTuple):
    """Rows in the eigenvectors of their second moment (features = U sqrt(N s)), centred if there is an intercept."""

    eigenvalues: np.ndarray
    U: np.ndarray

    @property
    def features(self) -> np.ndarray:
        return self.U * np.sqrt(len(self.U) * self.eigenvalues)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Pool:
    """Labelled rows to learn from: ``Pool(X, y)``, or ``Pool(kernel=K, y=y)``.

    Parameters
    ----------
    X
        Rows by columns, numbers: a NumPy array or a pandas frame. Taken as it comes: nothing is scaled.
    y
        One number for each row; or labels of two or more classes (numbers, texts, truth values).
    intercept
        Fit a constant without penalty. Left out: yes with X, no with a kernel (as scikit-learn's KernelRidge).
    standardise
        Divide every column by its s.d. in the pool and by sqrt(columns), so that rows have squared norm about 1. It
        uses all rows, those that are tested on as well.
    kernel
        The symmetric, positive matrix of all rows, in place of X.
    """

    X: Any = None
    y: Any = None
    intercept: Any = None
    standardise: bool = False
    kernel: Any = None

    def __post_init__(self):
        if (self.X is None) == (self.kernel is None):
            raise InputError("Pool needs either X, rows by columns, or kernel, rows by rows; got both or none of them.")
        if self.y is None:
            raise InputError(
                "Pool.y must be the target of every row; got none. Write Pool(X, y) or Pool(kernel=K, y=y)."
            )
        if not isinstance(self.standardise, bool) or self.intercept not in (None, True, False):
            raise InputError("Pool.intercept and Pool.standardise must be True or False.")
        keep = object.__setattr__
        keep(self, "intercept", self.kernel is None if self.intercept is None else bool(self.intercept))
        if self.kernel is not None:
            if self.standardise:
                raise InputError("Pool.standardise needs columns; a kernel has none. Standardise X before the kernel.")
            keep(self, "kernel", _kernel(self.kernel))
        else:
            names = _names(self.X)
            keep(self, "X", _columns(self.X))
            if self.standardise:
                keep(self, "X", _standard(self.X, names))
        keep(self, "y", _target(self.y, len(self)))

    def __len__(self) -> int:
        return len(self.X if self.X is not None else self.kernel)

    @property
    def columns(self) -> int | None:
        """How many columns X has; None of a kernel."""
        return None if self.X is None else self.X.shape[1]

    @property
    def classes(self) -> tuple | None:
        """The labels, sorted, if y has few values that are no measurements (texts, whole numbers); else None."""
        values = np.unique(self.y)
        whole = self.y.dtype.kind != "f" or bool(np.all(values == np.round(values)))
        return tuple(values.tolist()) if whole and len(values) <= CLASSES else None

    @property
    def numbers(self) -> np.ndarray | None:
        """y as numbers; texts of two classes as -1 and +1, of more classes None."""
        if self.y.dtype.kind == "f":
            return self.y
        values = np.unique(self.y)
        return np.where(self.y == values[-1], 1.0, -1.0) if len(values) == 2 else None

    def replaced(self, **changes: Any) -> "Pool":
        """The pool with other parts; rows are not standardised again."""
        parts: dict[str, Any] = {"X": self.X, "y": self.y, "intercept": self.intercept, "kernel": self.kernel}
        return Pool(**{**parts, **changes})

    @cached_property
    def modes(self) -> Modes:
        """Of X by its singular values, of a kernel by its eigenvalues; once for every n and penalty."""
        from scipy.linalg import eigh, svd

        N = len(self)
        if self.X is None:
            K = self.kernel
            if self.intercept:
                mean = K.mean(axis=0)
                K = K - mean - mean[:, None] + mean.mean()
            values, vectors = eigh(K)
            values, vectors = values[::-1], vectors[:, ::-1]
        else:
            X = self.X - self.X.mean(axis=0) if self.intercept else self.X
            vectors, roots, _ = svd(X, full_matrices=False, check_finite=False)
            values = roots**2
        if self.X is None and values[-1] < -SYMMETRIC * max(values[0], 0.0):
            raise InputError(
                f"Pool.kernel must have no negative eigenvalue; the lowest is {values[-1]:.3g} beside {values[0]:.3g}. "
                "Give a positive kernel."
            )
        keep = values > SMALL * max(values[0], 0.0)
        if not np.any(keep):
            raise InputError("Pool: all rows are alike, so that there is nothing to learn from. Give other columns.")
        return Modes(values[keep] / N, np.ascontiguousarray(vectors[:, keep]))

    @cached_property
    def duplicates(self) -> int:
        """Rows that repeat another one."""
        rows = np.ascontiguousarray(self.X if self.X is not None else self.kernel)
        return len(rows) - len({row.tobytes() for row in rows})

    @property
    def table(self) -> dict[str, Any]:
        """What the pool is, in plain words and with a digest of its numbers: part of a result's identity."""
        digest = hashlib.sha256(np.ascontiguousarray(self.X if self.X is not None else self.kernel).tobytes())
        digest.update("|".join(map(str, self.y.tolist())).encode())
        about = {"rows": len(self), "columns": self.columns, "intercept": self.intercept}
        return {**{k: v for k, v in about.items() if v is not None}, "digest": digest.hexdigest()[:16]}

    def learning_curve(self, loss: Any, penalty: Any, **asked: Any) -> LearningCurve:
        """What `limitlab.learning_curve` asks of its source."""
        return curve_of_pool(self, loss, penalty, **asked)

    def optimal_penalty(self, **asked: Any) -> tuple[float, float, tuple[float, float], str]:
        """What `limitlab.optimal_penalty` asks: the penalty, the error there, the range within 0.1 %, and a note."""
        return best_penalty(self, **asked)

    def __repr__(self) -> str:
        what = f"{len(self)} rows, {self.columns} columns" if self.X is not None else f"kernel of {len(self)} rows"
        about = f"{len(self.classes)} classes" if self.classes else "numbers"
        how = [what, about, "with intercept" if self.intercept else "without intercept"]
        return f"<Pool: {', '.join(how + (['standardised'] if self.standardise else []))}>"

    def _repr_html_(self) -> str:
        rows = [("rows", str(len(self))), ("columns", str(self.columns or "a kernel"))]
        rows += [("target", f"{len(self.classes)} classes" if self.classes else "numbers")]
        rows += [
            ("intercept", "yes" if self.intercept else "no"),
            ("standardised", "yes" if self.standardise else "no"),
        ]
        return html_table("Pool", rows)


def _names(X: Any) -> list[str] | None:
    return [str(name) for name in X.columns] if hasattr(X, "columns") else None


def _columns(X: Any) -> np.ndarray:
    """X as finite numbers; what is wrong is said with the name of its column."""
    names = _names(X)
    if hasattr(X, "toarray"):
        raise InputError("Pool.X must be a dense array or a frame; got a sparse matrix. Use X.toarray().")
    if names is not None and hasattr(X, "dtypes"):
        text = [name for name, kind in zip(names, X.dtypes, strict=True) if getattr(kind, "kind", "O") not in "fiub"]
        if text:
            raise InputError(
                f"Pool.X must be numbers; the columns {_list(text)} are not. Encode them (pandas.get_dummies(X)) or "
                f"leave them out (X.drop(columns={text[:3]!r}))."
            )
    try:
        array = np.asarray(X)
        if array.dtype.kind not in "fiubO":
            raise TypeError
        array = array.astype(float)
    except (TypeError, ValueError):
        raise InputError(
            "Pool.X must be an array or a frame of numbers, rows by columns; some entries are not numbers. Encode "
            "texts as columns of 0 and 1, or leave them out."
        ) from None
    if array.ndim != 2 or array.shape[0] < 3 or array.shape[1] < 1:
        raise InputError(
            f"Pool.X must have at least 3 rows and 1 column; got shape {array.shape}. Use X[:, None] for one."
        )
    rows, columns = array.shape
    check_memory(
        Memory(8 * (4 * rows * columns + 3 * min(rows, columns) ** 2), "Use fewer columns, or float rows of a sample."),
        f"a pool of {rows} rows and {columns} columns",
    )
    bad = ~np.isfinite(array)
    if bad.any():
        which = np.nonzero(bad.any(axis=0))[0]
        shown = _list([names[k] if names else str(k) for k in which])
        rows = int(bad.any(axis=1).sum())
        raise InputError(
            f"Pool.X must be finite; the columns {shown} have NaN or infinite entries ({rows} rows). Fill these in, or "
            "leave these rows out."
        )
    return array


def _standard(X: np.ndarray, names: list[str] | None = None) -> np.ndarray:
    sd = X.std(axis=0)
    constant = np.nonzero(sd <= 1e-13 * np.abs(X).max(axis=0, initial=0.0))[0]
    if len(constant):
        which = _list([names[k] if names else str(k) for k in constant])
        raise InputError(
            f"Pool.standardise divides by the s.d. of every column; the columns {which} are constant. Leave them out."
        )
    return X / (sd * np.sqrt(X.shape[1]))


def _kernel(K: Any) -> np.ndarray:
    try:
        K = np.asarray(K, dtype=float)
    except (TypeError, ValueError):
        raise InputError("Pool.kernel must be a square matrix of numbers.") from None
    if K.ndim != 2 or K.shape[0] != K.shape[1] or len(K) < 3:
        raise InputError(f"Pool.kernel must be square, rows by rows, at least 3; got shape {K.shape}.")
    check_memory(Memory(8 * 6 * K.size, "Use the kernel of a sample of the rows."), f"a kernel of {len(K)} rows")
    if not np.all(np.isfinite(K)):
        raise InputError("Pool.kernel must be finite; it has NaN or infinite entries. Leave these rows out.")
    apart = float(np.max(np.abs(K - K.T)))
    if apart > SYMMETRIC * float(np.max(np.abs(K))):
        raise InputError(
            f"Pool.kernel must be symmetric; entries differ by {apart:.3g} from those across. Symmetrise it."
        )
    return (K + K.T) / 2


def _target(y: Any, rows: int) -> np.ndarray:
    """Numbers, or texts that name classes."""
    array = np.asarray(y)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.shape != (rows,):
        raise InputError(f"Pool.y must be one value for each of the {rows} rows; got shape {array.shape}.")
    if array.dtype.kind in "OUSTb":
        if any(value is None or value != value for value in array.tolist()):
            raise InputError("Pool.y has missing values. Leave these rows out.")
        if array.dtype.kind == "O" and all(isinstance(value, (int, float)) for value in array.tolist()):
            array = array.astype(float)
        else:
            array = array.astype(str)
    elif array.dtype.kind in "fiu":
        array = array.astype(float)
    else:
        raise InputError(f"Pool.y must be numbers or labels of classes; got values of type {array.dtype}.")
    if array.dtype.kind == "f" and not np.all(np.isfinite(array)):
        raise InputError("Pool.y must be finite; it has NaN or infinite values. Leave these rows out.")
    values = len(np.unique(array))
    if values == 1:
        raise InputError(f"Pool.y has one value only ({array[0]}), so that there is nothing to learn.")
    if array.dtype.kind == "U" and (values > CLASSES or values > max(2, len(array) // 2)):
        raise InputError(
            f"Pool.y must be numbers or labels of at most {CLASSES} classes with several rows each; got {values} "
            f"different texts in {len(array)} rows. If they are numbers, use y.astype(float)."
        )
    return array


def _list(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
