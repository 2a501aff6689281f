"""How runs of one-pass rules are looked at: which macrostate describes them, and how their risk is known."""

from typing import Any

import jax
import numpy as np

from limitlab.algorithms.one_pass.setting import OnePass
from limitlab.numerics.random import normal
from limitlab.numerics.shapes import filled
from limitlab.numerics.trees import as_arrays
from limitlab.problems.base import Points
from limitlab.problems.networks import Committee
from limitlab.problems.sparse.representable import warn_of
from limitlab.problems.sparse.target import SparseTarget
from limitlab.states.committee import CommitteeView, FieldRisk
from limitlab.states.fourier import FourierView, workspace
from limitlab.states.overlaps import error_sum, risks
from limitlab.states.plain import PlainView
from limitlab.states.radii import RadiiView
from limitlab.states.request import Request
from limitlab.states.test_risk import TestRisk, test_count
from limitlab.states.view import AbstractView

__all__ = ["closed", "seen_bytes", "view_of"]

FIELDS = 2**14  # fields drawn for a risk
MODEST = 2**24  # numbers kept of u or r in a result (128 MiB); beyond, they are left out


def closed(setting: OnePass) -> bool:
    """Whether the risk is a known function of the overlaps."""
    return setting.committees is not None and setting.inputs.normal_fields and setting.clean


def by_fields(setting: OnePass) -> bool:
    """Whether fields drawn from their law tell the risk."""
    teacher = setting.teacher
    return (
        setting.inputs.normal_fields
        and isinstance(setting.student, Committee)
        and teacher is not None
        and teacher.by_fields
    )


def view_of(setting: OnePass, asked: Request, start: Any, keys: jax.Array) -> AbstractView:
    """The view of runs that begin at ``start`` (one entry a replica)."""
    student, teacher, d = setting.student, setting.teacher, asked.d
    floor = float(getattr(setting.channel, "variance", 0.0)) / 2 if setting.clean else 0.0
    words = setting.inputs.test_words(test_count(d))
    live, inputs = as_arrays(setting), setting.inputs

    def tests() -> TestRisk:
        return TestRisk(_tests(setting, start, keys, asked.replicas, d), setting.loss, student)

    if not isinstance(student, Committee):
        return PlainView(tests(), floor, words)
    if teacher is None:
        blocks = setting.inputs.blocks(d)
        units = len(asked.clocked[0]) * asked.replicas * student.width * (1 if blocks is None else 2)
        moves = student.second_layer == "trained" or student.output_weights is not None or not setting.start.one_layer
        kept = ("r", "b", *(["a"] if moves else [])) if units <= MODEST else ()
        return RadiiView(tests(), blocks, kept, floor, words)
    if isinstance(teacher, SparseTarget):
        keep_u = len(asked.clocked[0]) * asked.replicas * student.width * teacher.latent <= MODEST
        exact = setting.clean
        note = warn_of(student.activation, teacher) if exact and student.bias == "none" else None
        return FourierView(
            teacher, student, keys, keep_u, d, floor, None if exact else tests(), None if exact else words, note
        )
    if closed(setting):
        pair: Any = setting.committees
        sums, of = as_arrays(error_sum(pair)), as_arrays(pair)
        return CommitteeView(teacher, inputs, lambda path: np.asarray(risks(of, sums, path)), None, None, floor, d)
    if by_fields(setting):
        count = student.width + _directions(setting, start)
        draw = jax.vmap(lambda key: normal(jax.random.fold_in(key, 0), (FIELDS, count)))
        risk = FieldRisk(
            draw(keys),
            jax.vmap(lambda k: jax.random.fold_in(k, 1))(keys),
            student,
            teacher,
            live.channel,
            live.loss,
            setting.clean,
            inputs,
        )
        return CommitteeView(teacher, inputs, None, risk, f"{FIELDS} draws of the fields", floor, d)
    if _directions(setting, start):
        return CommitteeView(teacher, inputs, None, tests(), words, floor, d)
    return PlainView(tests(), floor, words)


def _directions(setting: OnePass, start: Any) -> int:
    """How many directions the teacher has."""
    if isinstance(start, dict):
        return start["M"].shape[-1]
    one = jax.tree.map(lambda x: x[0], start.teacher)
    found = None if setting.teacher is None else setting.teacher.directions(one)
    return 0 if found is None else found.shape[0]


def _tests(setting: OnePass, start: Any, keys: jax.Array, replicas: int, d: int) -> Points:
    """Test points of every replica with their labels, without noise if that is averaged exactly.

    Replicas that do not move have those of the last one that does.
    """
    made, data = [], np.asarray(jax.random.key_data(keys))
    for r in range(replicas):
        key = jax.random.wrap_key_data(jax.device_put(data[r]))  # an index of keys would be compiled
        tests = setting.inputs.test_points(key, test_count(d), d)
        y: Any = tests.y
        if setting.teacher is not None:
            y = setting.teacher.output(jax.tree.map(lambda x: x[r], start.teacher), tests.x)  # noqa: B023
            y = setting.inputs.unseen(jax.random.fold_in(key, 2), y)
        if not setting.clean:
            y = setting.channel.sample(jax.random.fold_in(key, 1), y)
        made.append(Points(tests.x, y, tests.mirrored))
    return jax.tree.map(lambda *x: jax.device_put(filled(np.stack(x), len(keys))), *made)


def seen_bytes(setting: OnePass, asked: Request, replicas: int) -> int:
    """Bytes of test points, of what is kept, and of what a measurement holds at once; ``replicas`` with idle ones."""
    student, teacher = setting.student, setting.teacher
    looks, p = len(asked.clocked[0]) * replicas, student.units
    if isinstance(teacher, SparseTarget) and isinstance(student, Committee):
        P = teacher.latent
        keep_u = len(asked.clocked[0]) * asked.replicas * p * P <= MODEST
        kept = looks * (2**P + p * (P + 2 if keep_u else 1)) * 2  # as pieces, and stacked
        needed = 8 * kept + 2**P * (100 + 16 * P) + workspace(asked.d, p, P)
        return needed if setting.clean else needed + 8 * replicas * test_count(asked.d) * asked.d
    k = 0 if teacher is None else teacher.units
    kept = 8 * looks * (p * (p + k) + k * k + p)
    if closed(setting):
        return kept
    if by_fields(setting):
        return kept + 8 * replicas * FIELDS * (p + k)
    return kept + 8 * (replicas * test_count(asked.d) * asked.d + 4 * 512 * p)
