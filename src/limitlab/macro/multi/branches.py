r"""Fixed points of Bayes-optimal state evolution of K directions, and the iteration itself.

.. math:: A = \alpha E[g g^T](M), \qquad M \leftarrow M_w(A), \qquad
          f = \Phi_w(A) + \alpha \Phi_{out}(M) - \tfrac12 \mathrm{tr}(M A)

An iteration follows message passing from its start. Once it is slow it is finished by Newton's method, unless the fixed
point found so is one that the iteration leaves.
"""

from typing import NamedTuple

import numpy as np

from limitlab.macro.multi.information import RANK, FieldLaw, Information, certainty, information
from limitlab.macro.multi.weights import weights_of

__all__ = ["Model", "State", "branches", "evolve", "free_entropy", "settle", "told_at"]

PLAIN = 400  # iterations at most
CLOSE = 3e-3  # a change from which on Newton's method is tried
EXACT = 1e-10  # a change of M that is none
THREE = 1e-7  # the same of three directions, whose grid errs by more
ROUGH = 2e-4  # the same where nodes are random
AGAIN = {1: 4, 2: 4, 3: 100}  # the fall of a change before Newton's method is tried again: it costs many steps
PERFECT = 2e-3  # of the error of +-1 weights that still falls, without noise: they are recovered
SAME = 1e-4
WEAK = 1e-3  # of a push off a fixed point


class Model(NamedTuple):
    """A law of labels, and whether weights are Gaussian (else +-1)."""

    law: FieldLaw
    gaussian: bool

    def told(self, M: np.ndarray) -> np.ndarray:
        """E g g^T, what a label tells at the overlap M."""
        return information(self.law, M).gg

    def answer(self, A: np.ndarray) -> np.ndarray:
        """The overlap that a signal A leaves."""
        return weights_of(self.gaussian)(A).M

    def step(self, alpha: float, M: np.ndarray) -> np.ndarray:
        """One iteration."""
        return self.answer(alpha * self.told(M))


class State(NamedTuple):
    """A fixed point: M, its free entropy, what labels tell there, and how far another step would move it."""

    name: str
    M: np.ndarray
    free_entropy: float
    at: Information
    residual: float


def evolve(model: Model, alpha: float, M: np.ndarray, iterations: int) -> np.ndarray:
    """The start and the iterations after it, stacked."""
    path = [M]
    for _ in range(iterations):
        M = M if _perfect(M) else _recovered(model, M, model.step(alpha, M))
        path.append(M)
    return np.stack(path)


def settle(model: Model, alpha: float, M: np.ndarray) -> tuple[np.ndarray, float]:
    """The fixed point that the iteration from M goes to, and the last change."""
    K, sharp, change, tried = len(M), model.law.rule.name != "sobol", np.inf, np.inf
    none = (EXACT if K < 3 else THREE) if sharp else ROUGH
    for _ in range(PLAIN):
        if _perfect(M):
            return M, 0.0
        after = _recovered(model, M, model.step(alpha, M))
        change, M = float(np.max(np.abs(after - M))), after
        if change < none:
            break
        if sharp and change < min(CLOSE, tried / AGAIN[K]):
            tried = change
            polished = _newton(model, alpha, M)
            if polished is not None:
                return polished, EXACT
    return M, change


def branches(model: Model, alpha: float, informed: np.ndarray | None = None) -> list[State]:
    """All fixed points that are found: from nothing, from there by a push in all directions, and from the truth."""
    K = model.law.width
    first, left = settle(model, alpha, np.zeros((K, K)))
    found = [_state(model, alpha, "uninformed", first, left)]
    push = np.diag(np.linspace(1.0, 0.5, K)) * WEAK
    near = 0.9 * np.eye(K) if informed is None else informed
    if not model.gaussian and model.law.sharp:
        near = np.eye(K)  # perfect recovery is always a fixed point, and stable
    for name, start in (("specialised", (1 - 2 * WEAK) * first + push), ("informed", near)):
        M, left = settle(model, alpha, start)
        if all(np.max(np.abs(_canonical(M) - _canonical(s.M))) > max(SAME, 10 * left) for s in found):
            found.append(_state(model, alpha, name, M, left))
    return found


def _state(model: Model, alpha: float, name: str, M: np.ndarray, left: float) -> State:
    if not model.gaussian and _perfect(M):
        K = len(M)
        f = alpha * certainty(model.law).phi - K * np.log(2.0)
        return State(name, np.eye(K), f, told_at(model, np.eye(K)), 0.0)
    at = information(model.law, M)
    other = information(model.law, M, 0.5)
    A = alpha * at.gg
    phi = weights_of(model.gaussian)(A).phi
    f = phi + alpha * (at.phi + other.phi) / 2 - float(np.trace(M @ A)) / 2
    return State(name, M, f, at, left)


def free_entropy(model: Model, alpha: float, M: np.ndarray) -> float:
    """f at a fixed point."""
    return _state(model, alpha, "", M, 0.0).free_entropy


def told_at(model: Model, M: np.ndarray) -> Information:
    """What labels tell at the overlap M; nothing is left to tell where all is known."""
    if _perfect(M):
        known = certainty(model.law)
        return Information(np.zeros_like(M), known.phi, known.predicted)
    return information(model.law, M)


def _canonical(M: np.ndarray) -> np.ndarray:
    """The same for all images under permutations and signs, as far as that is easily told."""
    return np.concatenate([np.sort(np.linalg.eigvalsh(M)), np.sort(np.diag(M))])


def _perfect(M: np.ndarray) -> bool:
    return bool(np.max(1 - np.diag(M)) < 1e-12)


def _recovered(model: Model, M: np.ndarray, after: np.ndarray) -> np.ndarray:
    """+-1 weights whose error is tiny and still falls are known; a sharper posterior is beyond the grid."""
    tiny = np.max(1 - np.diag(after)) < min(PERFECT, float(np.max(1 - np.diag(M))))
    return np.eye(len(M)) if not model.gaussian and model.law.sharp and tiny else after


def _newton(model: Model, alpha: float, M: np.ndarray) -> np.ndarray | None:
    """The fixed point next to M; None if there is none, or if the iteration leaves it.

    Directions without any overlap stay so in the iteration, and are left out.
    """
    K = len(M)
    sizes, axes = np.linalg.eigh(M)
    span = np.eye(K) if np.all(sizes > RANK) else axes[:, sizes > RANK]
    rows, columns = np.triu_indices(span.shape[1])

    def unpacked(x):
        out = np.zeros((span.shape[1],) * 2)
        out[rows, columns] = out[columns, rows] = x
        return span @ out @ span.T

    def packed(M):
        return (span.T @ M @ span)[rows, columns]

    x = packed(M)
    for _ in range(4):
        values = np.linalg.eigvalsh(unpacked(x))
        if values[0] < -1e-9 or values[-1] > 1 - 1e-4:
            return None
        base = packed(model.step(alpha, unpacked(x)))
        size = 1e-5
        J = np.empty((len(x), len(x)))
        for j in range(len(x)):
            moved = x.copy()
            moved[j] += -size if x[j] > 0.5 else size
            J[:, j] = (packed(model.step(alpha, unpacked(moved))) - base) / (moved[j] - x[j])
        if not np.all(np.isfinite(J)) or np.max(np.abs(np.linalg.eigvals(J)), initial=0.0) > 1 - 1e-6:
            return None
        move = np.linalg.solve(np.eye(len(x)) - J, base - x)
        if np.max(np.abs(move), initial=0.0) > 0.1:
            return None
        x = x + move
        if np.max(np.abs(move), initial=0.0) < 1e-9:
            return unpacked(x)
    return None
