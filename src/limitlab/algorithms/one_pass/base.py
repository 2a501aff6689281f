r"""Rules that see a fresh sample at every step: one step, one loop, whatever is learned.

.. math:: \theta \leftarrow \theta - \gamma\, \mathrm{rate}(\theta)\, \Big\langle \partial_f \ell(y, f(x))\,
          \nabla_\theta f(x) \Big\rangle

A rule of a user's own subclasses `AbstractOnePass` and says in `move` what it does with the gradient.
"""

from abc import abstractmethod
from collections.abc import Callable
from functools import cache, partial
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from limitlab.algorithms.checks import SPHERE, check_sphere
from limitlab.algorithms.data import given
from limitlab.algorithms.loop import Steps, advance, march
from limitlab.algorithms.one_pass.chain import overlaps_drawn, overlaps_moved
from limitlab.algorithms.one_pass.setting import OnePass, Sample
from limitlab.algorithms.one_pass.views import seen_bytes, view_of
from limitlab.errors import InputError
from limitlab.modules import AbstractVar, filter_jit
from limitlab.numerics.checks import check_choice
from limitlab.numerics.keys import Stream, keys_of
from limitlab.numerics.machine import Memory, blank
from limitlab.numerics.random import normal
from limitlab.numerics.shapes import seats
from limitlab.numerics.trees import traced
from limitlab.problems.asked import has_own
from limitlab.problems.base import AbstractAlgorithm
from limitlab.problems.networks import Committee
from limitlab.states.overlaps import begun, check_room
from limitlab.states.request import Request, Seen
from limitlab.states.run import FIELD_BOUND, OUTPUT_BOUND, Learner, Run, after_the_end
from limitlab.states.view import AbstractView, Report

__all__ = ["AbstractOnePass", "Stage", "begin", "chain_columns", "check_start", "in_words", "stepper"]


SPARE = 2**28  # bytes up to which replicas that do not move are kept
TEACHER = 3  # stream below that of a start: the one from which `AbstractStart.network` draws a teacher


class Stage(NamedTuple):
    """Steps of ``rule`` up to the step ``last``; or, if it is given, ``once(setting, d, run, keys)`` and then rest."""

    rule: "AbstractOnePass"
    last: int = np.iinfo(np.int64).max
    once: Callable | None = None


class AbstractOnePass(AbstractAlgorithm):
    """What the rules with a fresh sample at every step share: everything but `move`."""

    learning_rate: AbstractVar[float]
    takes: ClassVar[str] = "a fresh sample (or batch) at every step"
    clock_words: ClassVar[str] = "t = γ·step/(p·d)"
    in_portions: ClassVar[bool] = True
    chained: ClassVar[bool] = False  # has a chain of overlaps that is exact in law
    memories: ClassVar[int] = 0  # numbers that it remembers for every parameter

    def __init_subclass__(cls, **keywords):
        """Who changes a step or the run has no chain of the rule that it was made from, unless it says so."""
        super().__init_subclass__(**keywords)
        own = {"move", "sample", "step", "stages", "run", "remember"} & set(vars(cls))
        if own and "chained" not in vars(cls):
            cls.chained = False
        if "run" in own and "in_portions" not in vars(cls):
            cls.in_portions = False

    @abstractmethod
    def move(self, setting: OnePass, d: int, state: Learner, gradient: Any, sample: Sample, n: jax.Array) -> Learner:
        """The state after step n, from the gradient of the loss, the mean over the batch."""

    def remember(self, student: Any) -> Any:
        """What the rule remembers of earlier steps, before the first (None: nothing)."""
        return None

    @property
    def batch(self) -> int:
        """Fresh samples in a step: the field ``batch_size``, or 1 for a rule that has none."""
        return getattr(self, "batch_size", 1)

    @property
    def heated(self) -> bool:
        """Whether a step draws thermal noise."""
        return False

    @property
    def on_sphere(self) -> bool:
        """Whether units are kept on the sphere, from the start on."""
        return False

    def pull(self, setting: OnePass, y: jax.Array, f: jax.Array) -> jax.Array:
        """The derivative of the loss in the output."""
        return setting.loss.gradient(y, f)[0]

    def clock(self, problem, d):
        """Macroscopic time per step, gamma/(p d)."""
        (student,) = problem.need("student", by="A clock")
        return self.learning_rate / (student.units * d)

    def references(self):
        return (*self.reference, *SPHERE) if self.on_sphere else self.reference

    def usual_limit(self, problem):
        if problem.inputs.labelled:
            return "RadialFlow"
        return "DimensionFree" if problem.teacher is not None and problem.teacher.latent else "OverlapODE"

    def setting(self, problem, asked) -> OnePass:
        setting = OnePass.of(problem, asked)
        check_sphere(setting.student, self.on_sphere, asked)
        return setting

    def sample(self, setting: OnePass, d: int, state: Learner, key: jax.Array) -> Sample:
        """All random numbers of one step.

        They are drawn for many steps at once. A class with a `sample` of its own may look at what is learned: its
        steps are drawn one by one.
        """
        x, y = setting.draw(state.teacher, key, self.batch, d)
        heat = jax.tree.map(lambda x: x[0], _heat(state.student, key, 1)) if self.heated else None
        return Sample(x, y, heat)

    def step(self, setting: OnePass, d: int, run: Run, sample: Sample, n: jax.Array) -> Run:
        """One step; a run whose fields or outputs leave all bounds dies and keeps the state that it had."""
        f, size, back = setting.student.respond(run.state.student, sample.x)
        pull = self.pull(setting, sample.y, f)
        sound = (size < FIELD_BOUND) & (jnp.max(jnp.abs(f)) < OUTPUT_BOUND) & jnp.all(jnp.isfinite(pull))
        return run.onward(self.move(setting, d, run.state, back(pull / len(f)), sample, n), sound, n)

    def stages(self, clock: float) -> tuple[Stage, ...]:
        """The rules that are followed one after the other."""
        return (Stage(self),)

    def samples(self, steps: np.ndarray, clock: float) -> np.ndarray:
        """How many samples were seen after so many steps."""
        return steps * self.batch

    def memory(self, setting: OnePass, asked: Request) -> Memory:
        return Memory(_bytes(setting, self, asked, _seated(setting, self, asked)), _smaller(setting, asked))

    def run(self, setting: OnePass, asked: Request) -> Seen:
        """Runs of the rule, seen at the asked steps."""
        d, wide = asked.d, _seated(setting, self, asked)
        index, chain = jnp.asarray(wide.numbers), chain_columns(setting, self, asked)
        setting.inputs.check(d)
        check_start(setting, self, self.on_sphere, d)
        live, rule = setting.live(), traced(self)
        start = begin(live, rule, d, jnp.asarray(asked.seed), index, asked.representation)  # traced: compiled once
        view = view_of(setting, asked, start, keys_of(asked.seed, Stream.LOOK, index))
        seen, run = _follow(live, rule, asked, Run.of(start, wide.replicas), view, chain)
        seen, run = jax.tree.map(lambda x: np.asarray(x)[: asked.replicas], (seen, run))
        gone = after_the_end(run, asked.clocked[1])
        path = {
            name: np.stack(x) if name in view.steady else blank(np.stack(x), gone)
            for name, x in ((name, [one[name] for one in seen]) for name in seen[0])
        }
        return in_words(self, asked, run, view.report(path), self.memory(setting, asked).bytes)


def in_words(rule: AbstractOnePass, asked: Request, run: Run, report: Report, needed: int) -> Seen:
    """What was seen of all replicas, with how and when they ended."""
    (times, steps), lost = asked.clocked, np.asarray(run.died) >= 0
    ends = {
        "status": (("replica",), ["diverged" if x else "ok" for x in lost]),
        "end_time": (("replica",), np.where(lost, np.asarray(run.died) * asked.clock, times[-1])),
    }
    along = {
        "time": times,
        "step": ("time", steps),
        "samples": ("time", rule.samples(steps, asked.clock)),
    }
    about = {
        "d": int(asked.d),
        "seed": int(asked.seed),
        "representation": asked.representation,
        "bytes_needed": int(needed),
    }
    return Seen(
        {**report.variables, **ends},
        {**along, **report.coords},
        f"simulate ({asked.representation})",
        None,
        {**about, **report.attrs},
    )


def _heat(student: Any, key: jax.Array, count: int) -> Any:
    """Standard normal numbers in the shape of the parameters, for so many steps."""
    leaves, structure = jax.tree.flatten(student)
    keys = jax.random.split(jax.random.fold_in(key, 2), len(leaves))
    return jax.tree.unflatten(structure, [normal(k, (count, *x.shape)) for k, x in zip(keys, leaves, strict=True)])


@filter_jit
def begin(setting: OnePass, rule: AbstractOnePass, d: Any, seed: Any, replicas: jax.Array, representation: str) -> Any:
    """Replicas at time 0: learners, or the overlaps of committees."""

    def overlaps(pair, key):
        o = begun(pair.student, pair.teacher, setting.start, key, d, rule.on_sphere)
        return {"Q": o.Q, "M": o.M, "P": o.P, "a": o.a}

    def learner(key, frame):
        beside = setting.teacher
        if beside is not None and not beside.by_start and setting.inputs.modes is not None:
            beside = given(beside, beside.draw_on(setting.inputs, jax.random.fold_in(key, TEACHER), d))
        student, teacher = setting.student.begin(key, frame, setting.start, beside, d)
        student = setting.student.on_sphere(student) if rule.on_sphere else student
        return Learner(student, teacher, rule.remember(student))

    keys = keys_of(seed, Stream.START, replicas)
    if representation == "overlaps":
        return jax.vmap(partial(overlaps, setting.committees))(keys)
    return jax.vmap(learner)(keys, keys_of(seed, Stream.FRAME, replicas))


def _drawn(both: tuple[AbstractOnePass, OnePass], d: int, run: Run, key: jax.Array, count: int) -> Sample:
    rule, setting = both
    if has_own(rule, AbstractOnePass, "sample"):  # looks at what is learned: one step at a time
        return jax.tree.map(lambda x: x[None], rule.sample(setting, d, run.state, key))
    x, y = setting.draw(run.state.teacher, key, count * rule.batch, d)
    x, y = (v.reshape(count, -1) for v in (x, y))  # an axis of length one would be moved, by a copy
    return Sample(x, y, _heat(run.state.student, key, count) if rule.heated else None)


def _moved(both: tuple[AbstractOnePass, OnePass], d: int, run: Run, sample: Sample, n: jax.Array) -> Run:
    rule, setting = both
    if not has_own(rule, AbstractOnePass, "sample"):
        sample = sample._replace(x=sample.x.reshape(rule.batch, -1))
    return rule.step(setting, d, run, sample, n)


def _steady(both: tuple[AbstractOnePass, OnePass], d: int, run: Run) -> bool:
    """Whether samples do not follow what is learned: drawn as by all rules, and no step moves the teacher."""
    rule, _ = both
    if has_own(rule, AbstractOnePass, "sample"):
        return False
    same = []

    def look(run, key, n):
        after = _moved(both, d, run, jax.tree.map(lambda x: x[0], _drawn(both, d, run, key, 1)), n)
        pairs = zip(*(jax.tree.leaves(r.state.teacher) for r in (after, run)), strict=True)
        same.append(all(new is old for new, old in pairs))

    jax.eval_shape(look, run, jax.random.key(0), jnp.asarray(0))
    return same[0]


@cache
def stepper(columns: int | None) -> Steps:
    """Steps in weight space, or those of a chain with so many columns; one object each, so that it compiles once."""
    if columns is None:
        return Steps(_drawn, _moved, _steady)
    return Steps(partial(overlaps_drawn, columns), partial(overlaps_moved, columns), lambda *_: True)


def chain_columns(setting: OnePass, rule: AbstractOnePass, asked: Request) -> int | None:
    """The number of columns of the chain of overlaps, or None in weight space."""
    check_choice("simulate", "representation", asked.representation, ("weights", "overlaps"))
    if asked.representation == "weights":
        return None
    pair = setting.committees
    if pair is None or not (setting.inputs.normal and rule.chained and not rule.heated and setting.start.joint):
        raise InputError(
            'representation="overlaps" follows OnlineSGD without temperature of a committee without biases on Gaussian '
            f"inputs of a committee teacher, of which overlaps are all that matters; got {rule!r} on "
            f"{setting.inputs!r}. Leave representation out."
        )
    return min(pair.student.width + pair.teacher.width, asked.d)


def _follow(setting: OnePass, rule: AbstractOnePass, asked: Request, run: Run, view: AbstractView, chain: int | None):
    """All stages; steps at or before the end of a stage show it."""
    (_, steps), label = asked.clocked, f"SGD, d = {asked.d}"
    d = asked.d if chain is None else jnp.asarray(float(asked.d))
    index = jnp.asarray(range(asked.first, asked.first + len(run.died)))
    live = jnp.asarray(asked.replicas)
    keys = keys_of(asked.seed, Stream.STEPS, index)
    stages = rule.stages(asked.clock)
    rests = [before.last for before, after in pairwise(stages) if after.once is not None]
    total = min(int(steps[-1]), *rests) if rests else int(steps[-1])
    seen, now = [], 0
    for stage in stages:
        if stage.once is not None:
            run = stage.once(setting, asked.d, run, keys_of(asked.seed, Stream.RIDGE, index))
            after = int(np.sum(steps > now))
            return seen + ([jax.tree.map(np.asarray, view.see(run.state, now))] * after if after else []), run
        due = steps[(steps > now) & (steps <= stage.last)] if seen or now else steps[steps <= stage.last]
        onward = partial(advance, stepper(chain), (stage.rule, setting), d, keys, live=live)
        found, run = march(onward, view.see, run, due.tolist(), asked.progress, label, now=now, total=total)
        seen += found
        now = int(due[-1]) if len(due) else now
        if int(steps[-1]) <= stage.last:
            break
        _, run = march(onward, lambda *_: (), run, [stage.last], asked.progress, label, now=now, total=total)
        now = stage.last
    return seen, run


def check_start(setting: OnePass, rule: AbstractAlgorithm, sphere: bool, d: int) -> None:
    """A start that is known by its overlaps must fit into d dimensions, and onto the sphere of a spherical rule."""
    student, teacher, start = setting.student, setting.teacher, setting.start
    if not (isinstance(student, Committee) and teacher is not None and teacher.by_start and start.joint):
        return
    Q, M, P = (np.asarray(x) for x in start.limit(student.width, teacher.units))
    if sphere and np.any(np.diag(Q) <= 0):
        raise InputError(
            f"simulate with {type(rule).__name__} needs student units of non-zero norm for a spherical rule "
            f"(OverlapStart.Q_ii > 0); got Q_ii = {np.diag(Q).tolist()}. Give every unit a direction, or use "
            "spherical=False."
        )
    check_room(start, Q, M, P, d)


def _seated(setting: OnePass, rule: AbstractOnePass, asked: Request) -> Request:
    """With some more replicas, which begin but do not move: few counts are few programs. None if they are large."""
    wide = asked._replace(replicas=seats(asked.replicas))
    return wide if _bytes(setting, rule, asked, wide) <= SPARE else asked


def _bytes(setting: OnePass, rule: AbstractOnePass, asked: Request, wide: Request) -> int:
    return _state_bytes(setting, rule, wide) + seen_bytes(setting, asked, wide.replicas)


def _state_bytes(setting: OnePass, rule: AbstractOnePass, asked: Request) -> int:
    """Bytes of the states, their successors and their inputs."""
    p, k = setting.student.units, 0 if setting.teacher is None else setting.teacher.units
    if asked.representation == "overlaps":
        return asked.replicas * (p + k) * 4 * (p + k) * 8
    held = 3 * (p + k) + 2 * rule.memories * p + (2 * p if rule.heated else 0)
    return 8 * asked.replicas * (held * asked.d + rule.batch * (2 * asked.d + 4 * p))


def _smaller(setting: OnePass, asked: Request) -> str:
    P = 0 if setting.teacher is None else setting.teacher.latent
    if P:
        looks = len(asked.clocked[0]) * asked.replicas
        return (
            f"The 2^{P} coefficients at {len(asked.clocked[0])} times of {asked.replicas} replicas take "
            f"{looks * 2**P * 8 / 2**30:.1f} GiB of it, the weights "
            f"{3 * asked.replicas * setting.student.units * asked.d * 8 / 2**30:.1f} GiB. Use fewer replicas, times or "
            "latent coordinates, or a smaller d."
        )
    chain = setting.committees is not None and asked.representation == "weights"
    smaller = '; representation="overlaps" needs memory independent of d' if chain else ""
    return f"Use fewer replicas, units, times or samples in a batch, or a smaller d{smaller}."
