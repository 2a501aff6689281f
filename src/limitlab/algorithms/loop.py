"""The loop that rules with many cheap steps share: compiled pieces, seen at the asked steps only."""

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from limitlab.modules import filter_jit, is_array
from limitlab.states.run import Run
from limitlab.verbs import Progress

__all__ = ["Steps", "advance", "advance_many", "march"]

PIECE_SECONDS = 0.25  # a compiled piece of the march lasts about this long, so that progress and Ctrl-C work
BLOCK = 2**17  # bytes of random numbers from one key: enough for the processor, and within its cache
LONGEST = 64  # steps in a block, where these are few bytes
SIDE_BY_SIDE = 2**15  # bytes of runs that make a step together: more leave the cache
CROWD = 16  # runs from which on it pays to have them side by side: the program takes longer to compile


class Steps(NamedTuple):
    """The steps of a kind of rule, in two halves.

    Attributes
    ----------
    draw
        (rule, d, run, key, count) -> all random numbers of ``count`` steps from one key: a tree of arrays, steps along
        the first axis.
    move
        (rule, d, run, drawn, n) -> the run after step n.
    ahead
        (rule, d, run) -> whether they may be drawn some steps ahead: what `draw` sees of a run stays as it is.
    """

    draw: Callable[[Any, Any, Run, jax.Array, int], Any]
    move: Callable[[Any, Any, Run, Any, jax.Array], Run]
    ahead: Callable[[Any, Any, Run], bool]


class _Plan(NamedTuple):
    """How many steps a block has, and how many replicas make a step side by side.

    Blocks are cut at multiples of their ``length``, and each is drawn from the key of its number: the numbers of a step
    depend on the length, which the size of a step alone decides, and on nothing else of the plan.
    """

    groups: int
    together: int
    length: int


def _plan(steps: Steps, rule: Any, d: Any, keys: jax.Array, run: Run) -> _Plan:
    """From the sizes of a run and of the numbers of a step alone."""
    one, key = jax.eval_shape(lambda *all: jax.tree.map(lambda x: x[0], all), run, keys)
    drawn = jax.eval_shape(lambda run, key: steps.draw(rule, d, run, key, 1), one, key)
    held, numbers, replicas = _bytes(one), max(1, _bytes(drawn)), len(run.died)
    most = min(replicas, SIDE_BY_SIDE // (held + numbers))
    groups = -(-replicas // (most if most >= CROWD else 1))
    fitting = max(1, BLOCK // numbers) if steps.ahead(rule, d, one) else 1
    return _Plan(groups, -(-replicas // groups), min(LONGEST, 1 << (fitting.bit_length() - 1)))


def _bytes(tree: Any) -> int:
    return sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(tree))


@filter_jit
def advance(
    steps: Steps, rule: Any, d: Any, keys: jax.Array, run: Run, first: jax.Array, last: jax.Array, live: Any = None
) -> Run:
    """Steps first, ..., last - 1 of the first ``live`` replicas (all). The bounds and ``live`` are traced.

    The random numbers of a block of steps are drawn at once. A piece that begins or ends inside of one draws all of it,
    so that numbers are the same wherever pieces end. Replicas that do not fit into the cache together go one group
    after the other.
    """
    plan, replicas = _plan(steps, rule, d, keys, run), len(run.died)

    def one(key, run):
        return _blocks(steps, rule, d, plan.length, key, run, first, last)

    group = _all(one, plan.together)
    if plan.groups == 1:
        return group(keys, run)

    def turn(i, done):
        place = jnp.minimum(i * plan.together, replicas - plan.together)  # the last one takes some of those before anew
        of = jax.tree.map(lambda x: jax.lax.dynamic_slice_in_dim(x, place, plan.together), (keys, run))
        return jax.tree.map(lambda x, new: jax.lax.dynamic_update_slice_in_dim(x, new, place, 0), done, group(*of))

    moving = plan.groups if live is None else -(-live // plan.together)
    return jax.lax.fori_loop(0, moving, turn, run)


def _all(one: Callable, count: int) -> Callable:
    """The function along a first axis of so many; of a single one without the axis, which slows products down."""
    if count > 1:
        return jax.vmap(one)
    return lambda *all: jax.tree.map(lambda x: x[None], one(*jax.tree.map(lambda x: x[0], all)))


def _blocks(steps: Steps, rule: Any, d: Any, length: int, key: jax.Array, run: Run, first: jax.Array, last: jax.Array):
    """Steps of one replica: the numbers of a block, then its steps that are asked for."""

    def block(state):
        now, run = state
        begin = now // length * length
        drawn = steps.draw(rule, d, run, jax.random.fold_in(key, now // length), length)
        end = jnp.minimum(begin + length, last)
        return end, jax.lax.fori_loop(now, end, lambda n, run: steps.move(rule, d, run, _at(drawn, n - begin), n), run)

    return jax.lax.while_loop(lambda state: state[0] < last, block, (first, run))[1]


def _at(drawn: Any, n: jax.Array) -> Any:
    return jax.tree.map(lambda x: jax.lax.dynamic_index_in_dim(x, n, 0, keepdims=False), drawn)


@filter_jit
def advance_many(steps: Steps, rules: Any, d: Any, keys: jax.Array, runs: Run, first: jax.Array, last: jax.Array):
    """The same for several problems along the first axis of everything, each from and to its own step.

    Their blocks go side by side, each from its own number on.
    """
    rule, key, run = jax.tree.map(lambda x: x[0] if is_array(x) else x, (rules, keys, runs))
    length = _plan(steps, rule, d, key, run).length

    def draw(rule, keys, run, number):
        return jax.vmap(lambda r, k: steps.draw(rule, d, r, jax.random.fold_in(k, number), length))(run, keys)

    def lane(rule, run, drawn, n, active):
        moved = jax.vmap(lambda r, q: steps.move(rule, d, r, q, n))(run, drawn)
        return jax.tree.map(lambda new, old: jnp.where(active, new, old), moved, run)

    def block(j, runs):
        number = first // length + j
        begin, drawn = number * length, jax.vmap(draw)(rules, keys, runs, number)

        def step(i, runs):
            n = begin + i
            now = jax.tree.map(lambda x: jax.lax.dynamic_index_in_dim(x, i, 2, keepdims=False), drawn)
            return jax.vmap(lane)(rules, runs, now, n, (first <= n) & (n < last))

        inside = jnp.clip(jnp.stack([first, last]) - begin, 0, length)
        return jax.lax.fori_loop(jnp.min(inside[0]), jnp.max(inside[1]), step, runs)

    return jax.lax.fori_loop(0, jnp.max((last - 1) // length - first // length) + 1, block, runs)


def march(
    onward: Callable[[Run, jax.Array, jax.Array], Run],
    look: Callable[[Any, Any], Any],
    run: Run,
    targets: Sequence,
    progress: Progress | None,
    label: str,
    now: Any = 0,
    total: int | None = None,
) -> tuple[list[Any], Run]:
    """Visit the target steps in order, keeping only what is seen there; pieces double until they last long enough.

    Parameters
    ----------
    onward
        (run, first, last) -> run, such as `advance` with its first arguments bound.
    look
        (state, step) -> a tree of arrays, kept as NumPy arrays.
    targets
        Steps; each an array of steps where the runs of several problems go side by side, everyone at its own pace.
    now, total
        The step that ``run`` is at, and the last one as told to ``progress`` (default: the last target).
    """
    now = np.asarray(now)
    path, piece, total = [], 64, int(np.max(targets[-1])) if total is None and len(targets) else total
    for target in map(np.asarray, targets):
        while np.any(now < target):
            upto, began = np.minimum(target, now + piece), time.perf_counter()
            run = onward(run, jnp.asarray(now), jnp.asarray(upto))
            if np.max(upto - now) == piece:
                run.died.block_until_ready()
                took = time.perf_counter() - began
                piece = (
                    piece * 2
                    if took < PIECE_SECONDS / 2
                    else max(64, piece // 2)
                    if took > 4 * PIECE_SECONDS
                    else piece
                )
            now = upto
            if progress is not None:
                done = int(np.max(now))
                progress(done, total or done, label)
        path.append(jax.tree.map(np.asarray, look(run.state, target)))
    return path, run
