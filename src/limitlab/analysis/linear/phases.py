"""Where learning is impossible, hard or easy, over the sample ratio and any other parameter."""

from typing import TYPE_CHECKING

import numpy as np

from limitlab.algorithms.settings.fixed_data import GLM
from limitlab.analysis.linear.thresholds import Thresholds, read_thresholds
from limitlab.errors import InputError
from limitlab.macro.bayes.bayes_optimal import label_errors
from limitlab.macro.bayes.fixed_points import amp_state, curve, stable_states
from limitlab.numerics.checks import check_number
from limitlab.numerics.machine import relieve
from limitlab.problems.asked import Asked
from limitlab.problems.problem import Problem, replaced
from limitlab.results.schema import dataset
from limitlab.verbs import Watch, tell, verb

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["PHASES", "phase_diagram"]

PHASES = ("impossible", "hard", "easy")


@verb
def phase_diagram(
    problem: Problem, parameter: str, values, sample_ratios, progress: Watch = None, rough: bool = False
) -> "xr.Dataset":
    """The phase of learning at every sample ratio and every value of a parameter.

    Parameters
    ----------
    problem
        A generalised linear model; its own sample ratio is not used.
    parameter
        A path in the problem: "channel.variance", "teacher.prior.density", "channel.width", ...
    values, sample_ratios
        The two axes.
    progress
        True draws a bar; a function is called as progress(done, total, label) after every value; None is silent.
    rough
        Interpolates between a few dozen fixed points and solves for none: a first look, good to about a percent,
        less beside a jump, and blind to a hard phase that is narrower than that.

    Returns
    -------
    xarray.Dataset
        Over (parameter, sample_ratio): ``phase`` (0 impossible: even the best estimator stays on the badly informed
        branch; 1 hard: it does not, but message passing does; 2 easy: both are well informed), and the errors of both,
        ``mse_bayes``, ``mse_amp``, ``error_bayes``, ``error_amp``. Over the parameter: the thresholds
        ``weak_recovery``, ``information``, ``algorithmic`` (NaN with status "undefined" where there is none; such a
        problem is easy wherever weak recovery is).
    """
    relieve()
    asked = Asked("phase_diagram", InputError)
    problem = asked.part(problem, Problem, "a Problem", "Describe what is learned with Problem(...).")
    values, alphas = (np.atleast_1d(np.asarray(x, float)) for x in (values, sample_ratios))
    for alpha in alphas:
        check_number("phase_diagram", "sample_ratios", alpha, low=0, open_low=True, remedy="They are n/d.")
    shape = (len(values), len(alphas))
    names = ("mse_bayes", "mse_amp", "error_bayes", "error_amp")
    grid = {name: np.zeros(shape) for name in names}
    phase, lines = np.zeros(shape, int), np.full((3, len(values)), np.nan)
    for i, value in enumerate(values):
        here = replaced(problem, {parameter: float(value), "sample_ratio": float(alphas[0])})
        glm = GLM.of(here, asked)
        prior, channel = glm.prior, glm.channel
        line = curve(prior, channel, rough)
        t = read_thresholds(line)
        lines[:, i] = [np.nan if x is None else x for x in (t.weak_recovery, t.information, t.algorithmic)]
        found = stable_states(line, alphas)
        for name, states in (
            ("amp", [amp_state(s) for s in found]),
            ("bayes", [max(s, key=lambda x: x.free_entropy) for s in found]),
        ):
            m, V = (np.array([getattr(s, x) for s in states]) for x in ("m", "V"))
            grid[f"mse_{name}"][i] = V
            grid[f"error_{name}"][i] = label_errors(channel, m, V)[1]
        phase[i] = [_phase(t, alpha) for alpha in alphas]
        tell(i + 1, len(values), f"phase diagram over {parameter}")
    both = (parameter, "sample_ratio")
    status = np.where(np.isfinite(lines).all(0), "ok", "undefined")
    variables = {
        "phase": (both, phase),
        **{name: (both, x) for name, x in grid.items()},
        **{
            name: ((parameter,), x)
            for name, x in zip(("weak_recovery", "information", "algorithmic"), lines, strict=True)
        },
        "status": ((parameter,), status),
    }
    coords = {parameter: values, "sample_ratio": alphas}
    return dataset(problem, variables, coords, method="phase_diagram", reference="barbier2019optimal")


def _phase(t: Thresholds, alpha: float) -> int:
    if t.algorithmic is None or t.information is None:
        return 2 if alpha > t.weak_recovery else 0
    return 2 if alpha > t.algorithmic else 1 if alpha > t.information else 0
