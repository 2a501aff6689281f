r"""Overlaps of a committee with the directions of its teacher, and its risk.

The risk is exact where a formula is known (Gaussian inputs, two committees, additive noise, squared errors). For other
losses, channels and links of Gaussian inputs it is a mean over fields drawn from their law N(0, Omega), for other
inputs one over test points; both come with their standard error.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from limitlab.modules import Module, field, filter_jit
from limitlab.numerics.linalg import gram_factor
from limitlab.problems.base import AbstractInputs, AbstractTeacher
from limitlab.problems.channels import AbstractChannel
from limitlab.problems.inputs import Gaussian, Modes
from limitlab.problems.losses import AbstractLoss
from limitlab.problems.networks import Committee
from limitlab.states.overlaps import ByMode, Overlaps, mode_coordinates
from limitlab.states.run import Learner
from limitlab.states.test_risk import TestRisk, mean_and_error
from limitlab.states.view import AbstractView, Report, Variable, assembled

__all__ = ["CommitteeView", "FieldRisk", "measure_all", "overlap_variables"]

AT = ("time", "replica")


@filter_jit
def measure_all(teacher: AbstractTeacher, inputs: AbstractInputs, state: Learner) -> dict[str, jax.Array]:
    """Q, M, P, a and biases of all replicas: overlaps of fields, and those mode by mode if inputs have a spectrum."""

    def one(state: Learner):
        rows, aim = state.student.rows, jnp.asarray(teacher.directions(state.teacher))
        d = rows.shape[-1]
        W, S = inputs.visible(rows), inputs.visible(aim)
        seen = {"Q": W @ W.T / d, "M": W @ S.T / d, "P": S @ S.T / d, "a": state.student.a}
        if inputs.modes is not None:
            seen |= _by_mode(inputs.modes, rows, aim)
        return seen if state.student.b is None else {**seen, "b": state.student.b}

    return jax.vmap(one)(state)


def _by_mode(modes: Modes, W: jax.Array, S: jax.Array) -> dict[str, jax.Array]:
    """w_i . w_j and w_i . w*_r over the directions of each mode, per direction; and |w_i|^2/d."""
    d = W.shape[-1]
    places = modes.places(d)
    size = jax.ops.segment_sum(jnp.ones(d), places, modes.count)

    def mean(A, B):
        products = jax.vmap(lambda a: jax.vmap(lambda b: jax.ops.segment_sum(a * b, places, modes.count))(B))(A)
        return products / jnp.maximum(size, 1.0)

    return {"Q_mode": mean(W, W), "M_mode": mean(W, S), "squared_norm": jnp.sum(jnp.square(W), axis=1) / d}


class FieldRisk(Module):
    """Standard normal g (replica, count, p + k) that become fields s = L g, L L^T = Omega; keys for labels."""

    g: jax.Array
    keys: jax.Array
    student: Committee
    teacher: AbstractTeacher
    channel: AbstractChannel
    loss: AbstractLoss
    clean: bool = field(static=True)
    inputs: AbstractInputs = Gaussian()

    @filter_jit
    def __call__(self, seen: dict[str, jax.Array]) -> tuple[jax.Array, jax.Array]:
        """Mean loss of each replica and its standard error."""
        return jax.lax.map(lambda all: self._one(*all), (self.g, self.keys, seen))

    def _one(self, g, key, seen):
        p = seen["a"].shape[0]
        o = Overlaps(seen["Q"], seen["M"], seen["P"], seen["a"])
        s = g @ gram_factor(o.omega).T
        lam = s[:, :p] + seen["b"] if "b" in seen else s[:, :p]
        unseen, label = jax.random.split(key)
        z = self.inputs.unseen(unseen, self.teacher.link(s[:, p:]))
        y = z if self.clean else self.channel.sample(label, z)
        loss = self.loss.value(y, self.student.activation(lam) @ o.a / p)
        return mean_and_error(jnp.sum(loss), jnp.sum(jnp.square(loss)), len(loss))


class CommitteeView(AbstractView):
    """Q, M, P, a and the risk; ``exact`` gives it from overlaps along (time, replica), ``tests`` measures it."""

    teacher: AbstractTeacher
    inputs: AbstractInputs
    exact: Any
    tests: TestRisk | FieldRisk | None
    words: str | None = field(static=True)
    floor: float
    d: int = field(static=True, default=0)

    variables: ClassVar[dict[str, Variable]] = assembled(TestRisk, Overlaps, ByMode, Learner)
    steady: ClassVar[tuple[str, ...]] = ("P",)

    def see(self, state: Any, step):
        seen = measure_all(self.teacher, self.inputs, state) if isinstance(state, Learner) else state
        if self.tests is None:
            return seen
        risk, error = self.tests(seen if isinstance(self.tests, FieldRisk) else state.student)
        return {**seen, "risk": risk, "risk_error": error}

    def relative_error(self, path: Mapping[str, Any], risk: np.ndarray) -> np.ndarray | None:
        """E (f - f*)^2/E f*^2 along a path of risks of squared errors with additive noise; None if not known.

        E f*^2 is twice the risk of an output of zero, above the floor of the noise.
        """
        P, p = np.asarray(path["P"])[:1, :1], np.shape(path["a"])[-1]
        first = {"Q": np.eye(p)[None, None], "M": np.zeros((1, 1, p, P.shape[-1])), "P": P, "a": np.zeros((1, 1, p))}
        if self.exact is not None:
            size = float(self.exact(Overlaps(**first))[0, 0]) - self.floor
        elif isinstance(self.tests, FieldRisk):
            many = len(self.tests.keys)
            size = float(self.tests({name: jnp.repeat(jnp.asarray(x[0]), many, 0) for name, x in first.items()})[0][0])
        else:
            return None
        return (risk - self.floor) / size

    def report(self, path):
        path = dict(path)
        if self.exact is not None:
            path["risk"] = self.exact(Overlaps(path["Q"], path["M"], path["P"], path["a"]))
        else:
            path["risk"] = path["risk"] + self.floor
        path["P"] = path["P"][0]
        same = np.max(np.abs(path["P"] - path["P"][0])) <= 1e-9 * max(1.0, float(np.max(np.abs(path["P"][0]))))
        variables = overlap_variables(path)
        units = ("teacher", "teacher_2")
        variables["P"] = (units, path["P"][0]) if same else (("replica", *units), path["P"])
        modes = self.inputs.modes
        if modes is None:
            return Report(variables, attrs={"risk_from": self.words})
        coords = mode_coordinates(modes)
        if np.any(modes.sizes(self.d) == 0):  # a mode without a direction has no overlap
            variables, coords = {name: x for name, x in variables.items() if "mode" not in x[0]}, {}
        return Report(variables, coords, {"risk_from": self.words})


def overlap_variables(path: Mapping[str, Any]) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Overlaps along (time, replica) in the schema."""
    dims = {
        "risk": AT,
        "risk_error": AT,
        "M": (*AT, "student", "teacher"),
        "Q": (*AT, "student", "student_2"),
        "P": (),
        "C": (*AT, "time_2", "student", "student_2"),
        "a": (*AT, "student"),
        "b": (*AT, "student"),
        "squared_norm": (*AT, "student"),
        "M_mode": (*AT, "student", "teacher", "mode"),
        "Q_mode": (*AT, "student", "student_2", "mode"),
    }
    return {name: (dims[name], np.asarray(path[name])) for name in dims if name in path}
