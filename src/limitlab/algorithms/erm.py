"""Empirical risk minimisation."""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from limitlab.algorithms.base import AbstractFit
from limitlab.algorithms.data import DRAW, draw_set, replica_key, sample_count
from limitlab.algorithms.random_features import TESTS, Drawn, warn_beyond_equivalence
from limitlab.algorithms.settings.fixed_data import ConvexFit
from limitlab.modules import filter_jit
from limitlab.numerics.checks import check_number
from limitlab.numerics.convex.fit import Fit
from limitlab.numerics.machine import Memory
from limitlab.numerics.trees import as_array, traced
from limitlab.problems.inputs import Modes
from limitlab.problems.population import errors
from limitlab.problems.predictor import Predictor
from limitlab.states.overlaps import mode_coordinates
from limitlab.states.request import Request, Seen

__all__ = ["ERM", "draw_data"]

COPIES = 4  # of the n x d inputs, that a solver holds at once


class ERM(AbstractFit):
    r"""Exact minimisation of :math:`\sum_\mu \ell(y_\mu, w\cdot x_\mu) + \tfrac12\,\mathrm{penalty}\,|w|^2`."""

    axis: ClassVar[str] = ""
    takes: ClassVar[str] = "a fixed data set"
    reference: ClassVar[tuple[str, ...]] = ("aubin2020generalization",)

    penalty: float = 0.0

    def __check_init__(self):
        check_number("ERM", "penalty", self.penalty, low=0, remedy="Use 0 for none.")

    def usual_limit(self, problem):
        return "ERMAsymptotics"

    def setting(self, problem, asked) -> ConvexFit:
        return ConvexFit.of(problem, asked)

    def memory(self, setting: ConvexFit, asked: Request) -> Memory:
        d, features = asked.d, setting.features
        n, p = sample_count("simulate", setting.ratio, d), d if features is None else features.width(d)
        more = 0 if features is None else p * d + TESTS * (d + 2 * p) + n * d
        return Memory(  # replicas are fitted one after the other
            8 * (COPIES * n * p + 3 * min(n, p) ** 2 + 40 * asked.replicas + more),
            f"It fits n = {n} samples in d = {d} dimensions, {asked.replicas} times. Use a smaller d or sample_ratio, "
            "or fewer replicas.",
        )

    def run(self, setting: ConvexFit, asked: Request) -> Seen:
        r"""Fit ``replicas`` independent data sets of n = round(alpha d) samples and measure each fit.

        .. math:: w = \mathrm{argmin} \sum_{\mu \le n} \ell(y_\mu, w \cdot x_\mu) + \tfrac\lambda2 |w|^2,
                  \qquad x \sim N(0, I/d), \quad m = w\cdot w^*/d, \quad q = |w|^2/d

        With a spectrum m and q are overlaps of fields, w C w*/d and w C w/d; ``squared_norm`` is \|w\|^2/d, and
        ``m_mode`` and ``q_mode`` are the overlaps per direction of each mode. With `RandomFeatures` m = E[z* f] and
        q = E[f^2] are measured on new samples, as errors are, and ``squared_norm`` is that of the read-out.

        Errors on new samples are exact population values for the fitted weights: no test set is drawn. A fit that
        does not exist (separable labels without penalty, max margin on labels that are not separable) has NaN and the
        status "undefined"; the reason is in the attribute ``notes``.
        """
        d, loss, modes = asked.d, setting.loss, setting.inputs.modes
        n = sample_count("simulate with ERM", setting.ratio, d)
        setting.inputs.check(d)
        rows, fits = [], []
        features = setting.features
        if features is not None:
            warn_beyond_equivalence(features, n, d)
        for replica in range(asked.replicas):
            X, y, w_star = draw_data(setting, d, asked.seed, replica)
            drawn = None if features is None else Drawn(setting, features, w_star, asked.seed, replica)
            X = X if drawn is None else drawn.features(X)
            found = loss.minimise(X, y, setting.penalty)
            fits.append(found)
            rows.append(_measure(setting, found, X, y, w_star) if drawn is None else drawn.measure(found, X, y))
            if asked.progress is not None:
                asked.progress(replica + 1, asked.replicas, f"ERM, d = {d}")
        values = {name: np.array([row[name] for row in rows]) for name in rows[0]}
        values = {name: (("replica", "mode")[: x.ndim], x) for name, x in values.items()}
        if loss.hard:
            del values["risk"]
        told = sorted({found.words for found in fits if found.words})
        worst = max((found.error for found in fits if np.isfinite(found.error)), default=float("nan"))
        return Seen(
            {**values, "status": (("replica",), [found.status for found in fits])},
            {} if modes is None or "m_mode" not in values else mode_coordinates(modes),
            "simulate (ERM)",
            None,
            {
                "d": d,
                "n": n,
                "seed": asked.seed,
                "bytes_needed": self.memory(setting, asked).bytes,
                "optimality_error": worst,
                "risk_from": None if setting.features is None else f"{TESTS} new samples",
                "notes": "; ".join(told) or None,
            },
        )


def draw_data(setting: ConvexFit, d: int, seed: int, replica: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Inputs (n, d), labels and the teacher of one replica: the same data set that `GAMP` sees with the same seed."""
    n = sample_count("simulate with ERM", setting.ratio, d)
    key = jax.random.fold_in(replica_key(seed, replica), DRAW)
    w_star, X, y = _draw(setting.inputs, setting.teacher, setting.channel, key, n, d)
    return np.array(X), np.asarray(y), np.asarray(w_star)


_draw = filter_jit(draw_set)


def _measure(setting: ConvexFit, found: Fit, X, y, w_star) -> dict[str, Any]:
    loss, d, modes = setting.loss, len(w_star), setting.inputs.modes
    w, aim = (np.asarray(setting.inputs.visible(as_array(x))) for x in (found.w, w_star))
    m, q, rho = (float(x) / d for x in (w @ aim, w @ w, aim @ aim))
    rho += 0.0 if modes is None else float(modes.unexplained)
    numbers = (jnp.asarray(x, float) for x in (m, q, rho))
    row: dict[str, Any] = {name: float(x) for name, x in _errors(*traced((setting.channel, loss)), *numbers).items()}
    train = 0.0 if loss.hard else float(np.mean(loss.value(jnp.asarray(y), jnp.asarray(X @ found.w))))
    row |= {"m": m, "q": q, "train_loss": train}
    if modes is not None:
        row |= _by_mode(modes, found.w, w_star)
    return row if found.status in ("ok", "not_converged") else {name: x * float("nan") for name, x in row.items()}


def _by_mode(modes: Modes, w: np.ndarray, w_star: np.ndarray) -> dict[str, Any]:
    """What fields do not tell of the weights."""
    d = len(w)
    whole = {"mse": float(np.mean(np.square(w - w_star))), "squared_norm": float(np.mean(np.square(w)))}
    sizes, places = modes.sizes(d), np.asarray(modes.places(d))
    if np.any(sizes == 0):  # a mode without a direction has no overlap
        return whole
    sums = {"m_mode": w * w_star, "q_mode": np.square(w)}
    return whole | {name: np.bincount(places, x, modes.count) / sizes for name, x in sums.items()}


@filter_jit
def _errors(channel, loss, m, q, rho):
    return errors(channel, loss, Predictor.of(m, q, rho))
