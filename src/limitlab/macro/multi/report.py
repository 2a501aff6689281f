r"""The Bayes-optimal estimate and message passing of K directions, as Datasets."""

from typing import Any

import numpy as np

from limitlab.algorithms.settings.multi_index import MultiGLM
from limitlab.macro.multi.branches import Model, State, branches, evolve, settle, told_at
from limitlab.macro.multi.committees import (
    Unspecialised,
    alike_units,
    at_overlap,
    is_committee,
    specialisation,
    unspecialised,
)
from limitlab.macro.multi.information import (
    Information,
    certainty,
    evidence,
    field_law,
    information,
    sobol_rule,
    surest,
)
from limitlab.numerics.checks import check_integer
from limitlab.problems.asked import Asked
from limitlab.problems.problem import Problem
from limitlab.results.schema import dataset

__all__ = ["bayes_matrix", "check_bins", "evolved_matrix", "follows", "matrix_setting"]

FULL = 3  # directions at most whose overlap is any matrix
UNSETTLED = 1e-3  # a last change of M above which an iteration has not ended
SMALL = 1e-9  # overlap that stands for none
COARSER = 1.5  # times the step of a grid, for its error: one that falls with the square of the step is covered


def check_bins(by: str, bins: int | None) -> None:
    """`InputError` unless there are at least two bins, or None."""
    if bins is not None:
        check_integer(by, "bins", bins, low=2, high=1000, remedy="Real labels are put in so many bins.")


def matrix_setting(problem: Problem, asked: Asked, bins: int | None) -> MultiGLM:
    """The setting of a multi-index teacher; what no rule of ours integrates is refused."""
    setting = MultiGLM.of(problem, asked)
    remedy = f"Use {asked.by}(bins=64), say, or channel=GaussianNoise(variance) with a variance > 0."
    setting.check_labels(asked, bins, remedy)
    K, link = setting.teacher.width, setting.link
    if K <= FULL:
        return setting
    if not is_committee(link) or not setting.gaussian:
        asked.refuse(
            f"at most {FULL} directions for an overlap that is any matrix; beyond, the committee ansatz "
            'M = q_d I + q_a 11^T/K with alike units (q_d = 0) for link="sign_sum" or "majority" behind any '
            "channel that tells the sign of their mean, with Gaussian weights",
            f"width={K}, link={link!r}",
            "Use a smaller width or one of these committees; GAMP() can be simulated at any width.",
        )
    return setting


def follows(setting: MultiGLM, M: np.ndarray) -> bool:
    """Whether the iteration from the overlap M can be followed: wide committees need alike units."""
    K = setting.teacher.width
    return K <= FULL or bool(np.max(np.abs(M - np.mean(M))) < SMALL)


def bayes_matrix(setting: MultiGLM, bins: int | None, method: str, reference: str):
    """The fixed point of largest free entropy, beside all that were found."""
    if setting.teacher.width > FULL:
        return _alike(setting, method, reference)
    model = _model(setting, bins)
    found = branches(model, setting.ratio)
    best = max(found, key=lambda state: state.free_entropy)
    mse, error, kind = _errors(model, best.M, best.at)
    attrs = {
        **_about(model, best.M, best.at),
        "branch": best.name,
        "generalisation_error_kind": kind,
    }
    names = ("teacher", "teacher_2")
    variables = {
        "M": (names, best.M),
        "M_eigenvalues": ("teacher", np.linalg.eigvalsh(best.M)[::-1]),
        "mse": ((), 1 - float(np.trace(best.M)) / len(best.M)),
        "label_mse": ((), mse),
        "generalisation_error": ((), error),
        "free_entropy": ((), best.free_entropy),
        "M_branch": (("branch", *names), np.stack([s.M for s in found])),
        "free_entropy_branch": ("branch", np.array([s.free_entropy for s in found])),
        "status": ((), _status(found)),
    }
    return dataset(
        setting.problem, variables, {"branch": [s.name for s in found]}, method=method, reference=reference, attrs=attrs
    )


def evolved_matrix(
    setting: MultiGLM, start: np.ndarray, iterations: int, bins: int | None, method: str, reference: str
):
    """The iteration from the overlap ``start``, and where it ends."""
    K = setting.teacher.width
    if K > FULL:
        M, errors, end, last, kind = _alike_path(setting, float(np.sum(start)) / K, iterations)
        attrs, status = _alike_about(setting), "ok"
    else:
        model = _model(setting, bins)
        M = evolve(model, setting.ratio, start, iterations)
        end, left = settle(model, setting.ratio, M[-1])
        errors = np.array([_errors(model, one, told_at(model, one))[1] for one in M])
        at = told_at(model, end)
        _, last, kind = _errors(model, end, at)
        attrs, status = _about(model, end, at), "ok" if left < UNSETTLED else "not_converged"
    along, names = ("iteration",), ("teacher", "teacher_2")
    variables = {
        "M": ((*along, *names), M),
        "M_eigenvalues": ((*along, "teacher"), np.linalg.eigvalsh(M)[:, ::-1]),
        "mse": (along, 1 - np.trace(M, axis1=1, axis2=2) / K),
        "generalisation_error": (along, errors),
        "M_fixed": (names, end),
        "mse_fixed": ((), 1 - float(np.trace(end)) / K),
        "generalisation_error_fixed": ((), last),
        "status": ((), status),
    }
    attrs["generalisation_error_kind"] = kind
    return dataset(setting.problem, variables, method=method, reference=reference, attrs=attrs)


def _model(setting: MultiGLM, bins: int | None) -> Model:
    return Model(field_law(setting.link, setting.teacher.width, setting.variance, bins), setting.gaussian)


def _about(model: Model, M: np.ndarray, at: Information) -> dict[str, Any]:
    """How E gg^T was computed, and its error: of the outer grid, and of random nodes."""
    law = model.law
    if np.max(1 - np.diag(M)) < 1e-12:
        return {"rule": law.rule.name, "quadrature_error": 0.0}
    other = law if law.rule.name != "sobol" else law._replace(rule=sobol_rule(law.width, 1))
    if law.rule.name == "grid":
        other = law._replace(rule=law.rule._replace(step=COARSER * law.rule.step))
    gap = float(np.max(np.abs(information(other, M, 0.5).gg - at.gg)))
    about = {"rule": law.rule.name, "quadrature_error": gap}
    return about | ({"bins": len(law.labels.y)} if law.labels.kind == "binned" else {})


def _errors(model: Model, M: np.ndarray, at: Information) -> tuple[float, float, str]:
    """The mean-square error on a new label, the error in the sense of the labels, and its name."""
    mse = _mean_square(model) - at.predicted
    if model.law.labels.binary:
        known = np.max(1 - np.diag(M)) < 1e-12
        right = certainty(model.law).surest if known else surest(model.law, M)
        return mse, 1 - right, "classification error"
    return mse, mse, "mean-square error"


def _mean_square(model: Model) -> float:
    """E y^2."""
    K, labels = model.law.width, model.law.labels
    Z, _ = evidence(model.law, np.zeros((1, K)), np.eye(K))
    return float(Z[0] @ (labels.weight * labels.y**2))


def _status(found: list[State]) -> str:
    return "ok" if all(state.residual < UNSETTLED for state in found) else "not_converged"


def _alike(setting: MultiGLM, method: str, reference: str):
    """The fixed point of a wide sign committee whose units are alike."""
    K = setting.teacher.width
    at = unspecialised(alike_units(setting.link, K, setting.variance), setting.ratio)
    M = _spread(at.lam, K)
    mse, error, kind = _alike_errors(setting, at)
    f = (np.log1p(-at.lam) + at.lam) / 2 + setting.ratio * at.phi
    names = ("teacher", "teacher_2")
    variables = {
        "M": (names, M),
        "M_eigenvalues": ("teacher", np.append(at.lam, np.zeros(K - 1))),
        "mse": ((), 1 - at.lam / K),
        "label_mse": ((), mse),
        "generalisation_error": ((), error),
        "free_entropy": ((), f),
        "M_branch": (("branch", *names), M[None]),
        "free_entropy_branch": ("branch", np.array([f])),
        "status": ((), "ok"),
    }
    attrs = {**_alike_about(setting), "generalisation_error_kind": kind}
    coords = {"branch": ["unspecialised"]}
    return dataset(setting.problem, variables, coords, method=method, reference=reference, attrs=attrs)


def _alike_about(setting: MultiGLM) -> dict[str, Any]:
    from_there = specialisation(setting.link, setting.teacher.width, setting.variance).alpha
    note = f"alike units are the only branch looked for; they are stable below sample_ratio={from_there:.6g}"
    return {"rule": "exact", "quadrature_error": 1e-6, "branch": "unspecialised", "note": note}


def _alike_errors(setting: MultiGLM, at: Unspecialised) -> tuple[float, float, str]:
    units = alike_units(setting.link, setting.teacher.width, setting.variance)
    density = units.ds * np.exp(-(units.s**2) / 2) / np.sqrt(2 * np.pi)
    mse = float((units.weight * units.y**2) @ (units.P @ density)) - at.predicted
    if units.y.tolist() == [-1.0, 1.0]:
        return mse, 1 - at.surest, "classification error"
    return mse, mse, "mean-square error"


def _alike_path(
    setting: MultiGLM, lam: float, iterations: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, float, str]:
    """M and the error along the iteration from lam 11^T/K, M and the error at its end, and what the error is."""
    K = setting.teacher.width
    units, path, errors, kind = alike_units(setting.link, K, setting.variance), [], [], ""
    for _ in range(iterations + 1):
        at = at_overlap(units, max(lam, SMALL))
        _, error, kind = _alike_errors(setting, at)
        path.append(_spread(lam, K))
        errors.append(error)
        A = setting.ratio * at.lam / ((1 - at.lam) * at.alpha)
        lam = A / (1 + A)
    end = unspecialised(units, setting.ratio)
    return np.stack(path), np.array(errors), _spread(end.lam, K), _alike_errors(setting, end)[1], kind


def _spread(lam: float, K: int) -> np.ndarray:
    return np.full((K, K), lam / K)
