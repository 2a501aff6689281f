r"""Is the teacher the only positive matrix that fits the data? A certificate for over-parametrised phase retrieval.

.. math:: \mathcal M = \{A \ge 0 : x_\mu^T A x_\mu = (x_\mu \cdot w^*)^2\ \forall\mu\} \ni w^* w^{*T}

With t = x . w* and z the part of x orthogonal to w*, numbers lambda that obey :math:`\sum_\mu \lambda_\mu t_\mu x_\mu =
0` and :math:`\sum_\mu \lambda_\mu z_\mu z_\mu^T > 0` prove that there is no other: for A in M they give
:math:`0 = \sum_\mu \lambda_\mu x_\mu^T (A - A^*) x_\mu = \mathrm{tr}(D \sum_\mu \lambda_\mu z_\mu z_\mu^T)` with D >= 0
the block of A orthogonal to w*, hence D = 0 and A = A*.
"""

from dataclasses import dataclass, replace

import numpy as np

from limitlab.algorithms.data import sample_count
from limitlab.algorithms.descent.wide import draw_instance
from limitlab.algorithms.settings.fixed_data import PhaseData
from limitlab.errors import ConvergenceError, InputError
from limitlab.macro.wide.matrix_flow import flow
from limitlab.numerics.checks import check_array, check_integer, check_number, check_seed
from limitlab.numerics.machine import Memory, check_memory, one_thread, relieve
from limitlab.problems.asked import Asked
from limitlab.problems.problem import Problem
from limitlab.states.matrix import Instance, look
from limitlab.text import Record
from limitlab.verbs import Watch, verb

__all__ = ["Certificate", "SecondSolution", "Uniqueness", "uniqueness"]

MARGIN = 1e-6  # a kappa above it is far beyond rounding: a proof
DECIDED = 2e-3  # below minus this, flows end at another matrix; in between some are still decaying at s = 1e6
FEASIBLE = 1e-10  # of the constraint, relative to its terms
SHARPNESS = (3.0, 10.0, 30.0, 100.0, 300.0, 1e3, 3e3, 1e4, 3e4, 1e5)  # inverse temperatures of the soft minimum
ELSEWHERE = 1e-3  # a relative error above it, at a loss below ZERO, is another solution
ZERO = 1e-20
POLISH = 50  # Gauss-Newton steps at most


@dataclass(frozen=True)
class Certificate(Record):
    """What a lambda proves, computed from the data alone.

    Attributes
    ----------
    kappa
        Lowest eigenvalue of sum lambda z z^T for lambda of norm 1, in units of sqrt(n)/d.
    residual
        Norm of sum lambda t x, over that of (lambda t) times the largest singular value of X: rounding if 1e-15.
    """

    kappa: float
    residual: float

    @property
    def valid(self) -> bool:
        """True if it proves that the teacher is the only positive matrix that fits the data."""
        return self.kappa > MARGIN and self.residual < FEASIBLE


@dataclass(frozen=True)
class SecondSolution(Record):
    """The solution next to where the flow from A = I was at s: A, its mean squared residual, its relative error."""

    A: np.ndarray
    loss: float
    error: float
    s: float

    @property
    def distinct(self) -> bool:
        """True if A fits the data to rounding and is not the teacher's."""
        return self.loss < ZERO and self.error > ELSEWHERE


@dataclass(frozen=True)
class Uniqueness(Record):
    """Whether the data single out the teacher among positive matrices.

    Attributes
    ----------
    verdict
        "unique" (proved by ``multipliers``); "not unique" (another solution was found, with ``confirm=True``); "not
        shown unique" (kappa < -0.002: the flow is expected to end elsewhere); "undecided" in between.
    kappa
        The largest lowest eigenvalue found, in units of sqrt(n)/d; minus infinity if no lambda obeys the constraint.
    multipliers
        The lambda that reaches it, of norm 1; None if there is none.
    second
        What the flow from A = I led to, if it was asked for.
    instance
        The data: inputs X, squared labels b, teacher.
    """

    verdict: str
    kappa: float
    multipliers: np.ndarray | None
    instance: Instance
    second: SecondSolution | None = None

    @property
    def unique(self) -> bool:
        """True if it is proved."""
        return self.verdict == "unique"

    def verify(self, multipliers: np.ndarray | None = None) -> Certificate:
        """Recompute from the data what ``multipliers`` (by default the ones found) prove."""
        values = self.multipliers if multipliers is None else check_array("verify: multipliers", multipliers)
        n = len(self.instance.b)
        if values is None:
            return Certificate(-np.inf, 0.0)
        if values.shape != (n,) or not np.all(np.isfinite(values)) or not np.any(values):
            raise InputError(f"verify needs {n} finite numbers, one per sample, not all zero; got {values!r}.")
        return certify(self.instance, values)

    def _asdict(self) -> dict[str, object]:
        """The plain values, as `sweep` collects them."""
        return {"verdict": self.verdict, "kappa": self.kappa, "unique": self.unique}

    def __str__(self) -> str:
        told = f"kappa = {self.kappa:.4g}"
        if self.multipliers is None:
            told = "no lambda obeys the constraint: there are not more samples than dimensions"
        if self.second is not None:
            told += f"; the flow led to loss {self.second.loss:.1e} at error {self.second.error:.2g}"
        return f"{self.verdict} ({told})"


@verb
def uniqueness(
    problem: Problem,
    d: int = 20,
    seed: int = 0,
    *,
    replica: int = 0,
    confirm: bool = False,
    s: float = 1e7,
    progress: Watch = None,
) -> Uniqueness:
    r"""Look for a proof that the teacher is the only positive matrix that fits the data.

    .. math:: \kappa = \frac{d}{\sqrt n} \max_{|\lambda| = 1,\ \sum \lambda_\mu t_\mu x_\mu = 0}
              \lambda_{\min}\Big(\sum_\mu \lambda_\mu z_\mu z_\mu^T\Big)

    kappa > 0 is a proof, and can be checked again with ``verify()``. A negative one is none: ask for ``confirm=True``
    to follow the flow of a student of infinite width, which ends at another solution if there is one.

    Parameters
    ----------
    problem
        Noiseless phase retrieval at some ``sample_ratio``; the learner is not used.
    d, seed, replica
        Which data set: that of replica ``replica`` of ``MatrixFlow(d=d, seed=seed)`` and of ``simulate``.
    confirm, s
        Follow dA/ds = S A + A S from A = I up to ``s``, then go to the nearest positive matrix that fits the data.
    progress
        True draws a bar; a function is called as progress(done, total, label); None is silent.
    """
    relieve()
    asked = Asked("uniqueness", InputError)
    problem = asked.part(problem, Problem, "a Problem", "Describe what is learned with Problem(...).")
    data = PhaseData.of(problem, asked)
    d = check_integer("uniqueness", "d", d, low=2, remedy="It is the input dimension.")
    seed = check_seed("uniqueness", seed)
    replica = check_integer("uniqueness", "replica", replica, low=0, high=2**31, remedy="The first replica is 0.")
    s = check_number("uniqueness", "s", s, low=0, open_low=True, remedy="It is the time up to which the flow goes.")
    n = sample_count("uniqueness", data.ratio, d)
    needed = 8 * (6 * n * d + 3 * n * max(n - d, 0) + (12 * n**2 if confirm else 0) + 20 * d**2)
    check_memory(Memory(needed, f"It looks for n = {n} multipliers. Use a smaller d or sample_ratio."), "uniqueness")
    instance = draw_instance("uniqueness", data, d, seed, replica)
    best = _best_multipliers(instance)
    kappa = -np.inf if best is None else certify(instance, best).kappa
    found = Uniqueness(_verdict(kappa), kappa, best, instance)
    if not confirm:
        return found
    second = _follow(instance, s)
    if not second.distinct:
        return replace(found, second=second)
    return replace(found, second=second, verdict="undecided" if found.unique else "not unique")


def certify(instance: Instance, multipliers: np.ndarray) -> Certificate:
    """kappa and the residual of the constraint for any lambda."""
    X = instance.X
    n, d = X.shape
    values = multipliers / np.linalg.norm(multipliers)
    t, Z = _split(instance)
    forces = values * t
    residual = np.linalg.norm(forces @ X) / (np.linalg.norm(X, 2) * np.linalg.norm(forces))
    lowest = np.linalg.eigvalsh((Z.T * values) @ Z)[0]
    return Certificate(float(lowest * d / np.sqrt(n)), float(residual))


def _split(instance: Instance) -> tuple[np.ndarray, np.ndarray]:
    """t = x . w*, and z in an orthonormal basis of the space orthogonal to w* (n, d - 1)."""
    X, _, w = instance
    basis, _ = np.linalg.qr(w[:, None], mode="complete")
    return X @ w, X @ basis[:, 1:]


def _verdict(kappa: float) -> str:
    if kappa > MARGIN:
        return "unique"
    return "not shown unique" if kappa < -DECIDED else "undecided"


def _best_multipliers(instance: Instance) -> np.ndarray | None:
    """Maximise the soft minimum of the eigenvalues over the feasible lambdas, sharper and sharper.

    Where the maximum is positive the problem is convex (a concave function on a ball), so that any climb finds it.
    """
    from scipy.optimize import minimize

    t, Z = _split(instance)
    n, d = instance.X.shape
    if n <= d:
        return None
    frame, _ = np.linalg.qr(t[:, None] * instance.X, mode="complete")
    feasible = frame[:, d:]  # (n, n - d): orthogonal to every column of diag(t) X
    unit = np.sqrt(n) / d

    def climb(u: np.ndarray, beta: float) -> tuple[float, np.ndarray]:
        length = float(np.linalg.norm(u))
        direction = u / length
        values, vectors = np.linalg.eigh((Z.T * (feasible @ direction)) @ Z)
        shares = np.exp(-beta * (values - values[0]))
        total = float(np.sum(shares))
        soft = values[0] - np.log(total) / beta
        slope = feasible.T @ (np.square(Z @ vectors) @ (shares / total))
        return -soft / unit, -(slope - direction * (direction @ slope)) / (length * unit)

    u = feasible.T @ np.ones(n)
    options = {"maxiter": 500, "maxcor": 30}
    with one_thread():
        for sharpness in SHARPNESS:
            done = minimize(climb, u, args=(sharpness / unit,), jac=True, method="L-BFGS-B", options=options)
            u = done.x / np.linalg.norm(done.x)
    return feasible @ u


def _follow(instance: Instance, s: float) -> SecondSolution:
    """The flow from A = I up to s."""
    d = instance.X.shape[1]
    run = flow(instance, np.eye(d), np.array([s]))
    V = run.states[-1]
    if V is None:
        raise ConvergenceError(f"uniqueness: the flow stopped at s = {run.end:g} ({run.status}). Use a smaller s.")
    V = _fitted(instance, V)
    _, loss, error = look(instance, V, 1.0)
    return SecondSolution(V @ V.T, loss, error, s)


def _fitted(instance: Instance, V: np.ndarray) -> np.ndarray:
    """The nearby V that fits the data, by Gauss-Newton steps of least norm as long as they lower the loss."""
    X, b, _ = instance
    gram, best, kept = X @ X.T, np.inf, V
    for _ in range(POLISH):
        H = X @ V
        residual = b - np.einsum("ij,ij->i", H, H)
        loss = float(np.mean(np.square(residual)))
        if loss >= best:
            return kept
        best, kept = loss, V
        g = np.linalg.lstsq(2 * gram * (H @ H.T), residual, rcond=1e-12)[0]
        V = V + X.T @ (g[:, None] * H)
    return kept
