r"""Diffusion of the overlaps of one-pass SGD at a large but finite dimension."""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from limitlab.algorithms.settings.one_pass import CommitteeOnePass
from limitlab.errors import AccuracyWarning, InputError
from limitlab.macro.limit import AbstractLimit
from limitlab.macro.overlaps.drift import drift
from limitlab.macro.overlaps.finite_size import finite_size_drift
from limitlab.macro.overlaps.increments import increment_sum, noise_variance
from limitlab.macro.overlaps.size import overlap_bytes, path_bytes, start_bytes
from limitlab.modules import Module, field, filter_jit
from limitlab.numerics.checks import check_choice, check_integer, check_number, check_seed
from limitlab.numerics.gauss.fields import AbstractFieldSum
from limitlab.numerics.keys import Stream, root
from limitlab.numerics.linalg import gram_factor, nearest_psd, pseudo_inverse
from limitlab.numerics.machine import Memory
from limitlab.numerics.ode.integrate import plus, runge_kutta_step
from limitlab.numerics.random import normal
from limitlab.numerics.shapes import seats
from limitlab.numerics.trees import as_array, as_arrays, plain
from limitlab.problems.asked import Asked
from limitlab.problems.problem import Problem
from limitlab.results.schema import overlap_dataset
from limitlab.states.overlaps import Overlaps, error_sum, initial_overlaps, risks, start_key
from limitlab.states.run import Run
from limitlab.states.view import AbstractView, Variable, assembled
from limitlab.verbs import Pace, caution, tick

__all__ = ["OverlapSDE", "draw", "feasible", "noise"]

FEW = 5  # dimensions per unit, below which an expansion in 1/d is not to be trusted
LONGEST_STEP, FEWEST_STEPS = 0.05, 1000  # a long run takes longer steps where the drift turns slowly
TURN = 0.25  # largest step times the local rate |db|/|dY|: leaves a relative error of about TURN^2/24 in the variance
MOST_STEPS = 10**9  # hours; beyond about 1e15 time itself would not move
SOFT_START = 64  # the first step is this much shorter, because the local rate is not yet known
FORGET = 0.7  # how fast a past rate is forgotten: steps grow by at most 1/FORGET each
BOUND = 1e8  # an overlap beyond it counts as diverged, as in `integrate`
ROUNDING = 1e-10  # a negative eigenvalue above -ROUNDING is rounding, not an infeasible point
BLOCK = 2**24  # numbers held at once by the drifts of a block of paths (128 MiB)


def draw(overlaps: Overlaps, key: jax.Array, samples: int) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Fields (B, p+k), label noise (B,) and fair signs (B,) of fresh samples."""
    n = overlaps.Q.shape[0] + overlaps.P.shape[0]
    g = normal(key, (samples, n + 2))  # one call: the generator is what takes longest to compile
    return g[:, :n] @ gram_factor(overlaps.omega).T, g[:, n], jnp.sign(g[:, n + 1])


def noise(setting: CommitteeOnePass, overlaps: Overlaps, s: jax.Array, z: jax.Array, signs: jax.Array) -> Overlaps:
    r"""A random displacement with mean zero and covariance exactly :math:`\Sigma = \mathrm{cov}(X)`.

    .. math:: \xi = \frac{1}{\sqrt{B-1}} \sum_{b=1}^{B} \eta_b (X_b - \bar X), \qquad \eta_b = \pm 1

    over the B fresh samples of `draw`: white noise over sample space instead of a square root of Sigma, whose
    entries would be moments of up to eight fields. Given the samples the covariance is the sample covariance of X,
    which is Sigma on average; third moments vanish, and the excess fourth moment is that of X divided by about B,
    so that the sum over many steps is normal.
    """
    # sum_b eta_b (X_b - mean X) = sum_b (eta_b - mean eta) X_b
    return increment_sum(setting, overlaps, s, z, (signs - jnp.mean(signs)) / jnp.sqrt(len(z) - 1.0))


def feasible(overlaps: Overlaps, P_inverse: jax.Array, spherical: bool) -> tuple[Overlaps, jax.Array]:
    r"""The nearest overlaps that some weights have, at the same M and P, and whether anything was changed.

    The part of the students orthogonal to the teacher has Gram matrix :math:`Q - M P^+ M^T`; its negative
    eigenvalues are set to zero. On the sphere each row is then rescaled to Q_ii = 1, as the rule itself does.
    """
    inside = overlaps.M @ P_inverse @ overlaps.M.T
    rest = overlaps.Q - inside
    fixed = jnp.maximum(rest, 0.0) if rest.shape[0] == 1 else nearest_psd(rest)
    moved = jnp.max(jnp.abs(fixed - rest)) > ROUNDING * (1 + jnp.max(jnp.abs(overlaps.Q)))
    Q, M = inside + fixed, overlaps.M
    if spherical:
        norm = jnp.sqrt(jnp.diagonal(Q))
        Q, M = Q / (norm[:, None] * norm[None, :]), M / norm[:, None]
        Q = Q.at[jnp.diag_indices_from(Q)].set(1.0)
    return Overlaps((Q + Q.T) / 2, M, overlaps.P, overlaps.a), moved


class _Path(Module):
    """One path on its way: ``pending`` is the time by which the deterministic flow lags behind ``time``."""

    overlaps: Overlaps
    time: jax.Array
    pending: jax.Array
    rate: jax.Array
    steps: jax.Array
    corrections: jax.Array
    alive: jax.Array


def _step(
    args: Any, path: _Path, key: jax.Array, P_inverse: jax.Array, d, longest, target, samples: int, corrected: bool
) -> _Path:
    """Half a step of flow (joined to the half left over from the last step), noise, half a step of flow pending.

    At the target itself the step has no length: only the pending flow is done.
    """
    setting, sums = args
    left = target - path.time
    pieces = jnp.ceil(left / jnp.minimum(longest, TURN / path.rate) * (1 - 1e-12))
    h = left / jnp.maximum(pieces, 1.0)
    middle, rate = runge_kutta_step(lambda y: drift(setting, sums, y), path.overlaps, path.pending + h / 2)
    middle, _ = feasible(middle, P_inverse, setting.algorithm.spherical)
    s, z, signs = draw(middle, jax.random.fold_in(key, path.steps), samples)
    after = plus(middle, jnp.sqrt(h * noise_variance(setting, d)), noise(setting, middle, s, z, signs))
    if corrected:
        after = plus(after, h, finite_size_drift(setting, sums, middle, d, s, z))
    after, moved = feasible(after, P_inverse, setting.algorithm.spherical)
    entries = jnp.concatenate([jnp.ravel(x) for x in jax.tree.leaves(after)])
    alive = jnp.all(jnp.isfinite(entries)) & (jnp.max(jnp.abs(entries)) < BOUND)
    keep = jax.tree.map(lambda new, old: jnp.where(alive, new, old), after, path.overlaps)
    now = jnp.where(pieces <= 1, target, path.time + h)
    rate = jnp.maximum(jnp.where(jnp.isfinite(rate), rate, 0.0), FORGET * path.rate)
    return _Path(keep, now, h / 2, rate, path.steps + 1, path.corrections + moved, alive)


@filter_jit
def _begin(setting: CommitteeOnePass, seed: Any, index: jax.Array, d: Any) -> tuple[Overlaps, jax.Array]:
    stream = root(seed, Stream.NOISE)
    keys = jax.vmap(lambda r: jax.random.fold_in(stream, r))(index)
    return jax.vmap(lambda r: initial_overlaps(setting, start_key(seed, r), d))(index), keys


@filter_jit
def _advance(
    args: Any, paths: _Path, keys: jax.Array, d, longest, target, pause, samples: int, corrected: bool, block: int
) -> _Path:
    """All paths to the time ``target`` (traced: one compilation serves all save times), ``block`` at a time.

    A path stops after ``pause`` steps in all, as it would be there in one go.
    """

    def one(path: _Path, key: jax.Array) -> _Path:
        P_inverse = pseudo_inverse(path.overlaps.P)
        return jax.lax.while_loop(
            lambda p: p.alive & ((p.time < target) | (p.pending > 0)) & (p.steps < pause),
            lambda p: _step(args, p, key, P_inverse, d, longest, target, samples, corrected),
            path,
        )

    if block == len(keys):
        return jax.vmap(one)(paths, keys)
    return jax.lax.map(lambda x: one(*x), (paths, keys), batch_size=block)


def _block(sums: AbstractFieldSum, samples: int, replicas: int) -> int:
    """How many paths move side by side, so that their drifts fit into memory."""
    n, p = sums.p + sums.k, sums.p
    nodes = getattr(sums, "rule", None)
    if nodes is not None:
        numbers = 4 * n * len(nodes.weights)
    else:
        numbers = 8 * (p * n) ** 2 * (10**4 if "mixture" in sums.name else 1)
    most = max(1, BLOCK // (numbers + 4 * n * samples))
    # A divisor: a remainder would be a second shape to compile.
    return max(b for b in range(1, replicas + 1) if b <= most and replicas % b == 0)


class OverlapSDE(AbstractLimit):
    r"""Online SGD of committees at large finite d: the ODE plus the fluctuations of the samples.

    .. math::
        dY = E[X]\, dt + \sqrt{\frac{\gamma}{p d B}}\; \Sigma^{1/2} dB_t, \qquad
        \Sigma = E[XX^T] - E[X]E[X]^T, \qquad Y = (M, Q, a)

    with X the increment of `increments` (batches of B samples) and Sigma the full matrix: one sample moves all
    overlaps together. Needs what `OverlapODE` needs. Time: t = gamma * step / (p d).

    Parameters
    ----------
    d
        Dimension, at least p + k: sets the size of the noise and the law of the start.
    replicas, seed
        Number of paths. ``simulate`` with the same seed and d starts from the same overlaps.
    step
        The longest step of time; None means 0.05, or a thousandth of the last time if that is more. Steps are also at
        most a quarter of the time in which the drift turns, path by path, whatever is asked for here.
    samples
        Draws per step that make the noise of one path. Its covariance is exact for any number; more draws bring a
        single step closer to a normal law.
    corrected
        True takes for E[X] the mean of a step at dimension d (`finite_size`): means over paths are then right up to
        O(1/d^2). False leaves out the O(1/d) part, which is as large as what the noise itself does to the mean.
    method
        Gaussian moments of the drift, as in `OverlapODE`.

    Notes
    -----
    A step is symmetric: half a step of the drift by Runge-Kutta, `noise`, half a step of the drift. Its error in
    means and variances is O(h^4) + O(h^2/d) + O(h/d^2). After every step the overlaps are put back among those
    that some weights have (`feasible`); the attribute ``corrections`` counts how often that changed anything.
    Variances, themselves O(1/d), are right up to O(1/d^2): their relative error is O(1/d), about 12/d for squares on
    the sphere. Functions without closed form pay four to seven quadratures per step and path;
    tanh and sigmoid are slow as well (their closed form is a mixture).
    """

    d: float = 1000
    replicas: int = field(static=True, converter=plain, default=64)
    seed: int = field(static=True, converter=plain, default=0)
    step: float | None = None
    samples: int = field(static=True, converter=plain, default=64)
    corrected: bool = field(static=True, default=True)
    method: str = field(static=True, default="auto")

    grows: ClassVar[str] = "nothing: the next order in 1/d"
    stays: ClassVar[str] = "d, widths, γ, time"
    needs: ClassVar[str] = "what OverlapODE needs, and d of at least p + k"
    cost: ClassVar[str] = "samples × paths a step"
    reference: ClassVar[str] = "arnaboldi2023escaping"
    # Weak: of expectations over paths, not path by path. It is -1 without the correction.
    rate: ClassVar[dict[str, float]] = {"d": -2.0}
    variables: ClassVar[dict[str, Variable]] = assembled(AbstractView, Overlaps, Run)

    def __check_init__(self):
        check_number("OverlapSDE", "d", self.d, low=1, remedy="It is the dimension, which sets the noise.")
        check_integer("OverlapSDE", "replicas", self.replicas, low=1, remedy="Ask for at least one path.")
        check_seed("OverlapSDE", self.seed)
        check_integer("OverlapSDE", "samples", self.samples, low=2, remedy="A sample covariance needs two draws.")
        check_choice("OverlapSDE", "method", self.method, ("auto", "closed", "quadrature"))
        if self.step is not None:
            check_number("OverlapSDE", "step", self.step, low=0, open_low=True, remedy="None chooses it.")

    def setting(self, problem: Problem, asked: Asked) -> CommitteeOnePass:
        return CommitteeOnePass.of(problem, asked)

    def memory(self, setting: CommitteeOnePass, times: np.ndarray) -> Memory:
        p, k = setting.student.width, setting.teacher.width
        moments = overlap_bytes(setting, p, self.method)
        draws = 8 * 4 * (p + k) * self.samples
        side_by_side, room = 8 * BLOCK if self.replicas > 1 else 0, seats(self.replicas)
        return Memory(
            room * start_bytes(p, k)
            + path_bytes(p, k, len(times) * self.replicas)
            + max(moments + draws, min(side_by_side, room * (moments + draws))),
            f"It follows {self.replicas} paths of the overlaps of {p} student and {k} teacher units, with "
            f"{self.samples} samples a step. Use fewer units, replicas, samples or times.",
        )

    def solve(self, setting: CommitteeOnePass, times: np.ndarray):
        n = setting.student.width + setting.teacher.width
        if self.d < n:
            raise InputError(
                f"OverlapSDE.d must be at least {n}, the number of student and teacher units; got {self.d:g}. "
                'Below it the noise is not small: use simulate(..., representation="overlaps").'
            )
        if self.d < FEW * n:
            caution(
                f"OverlapSDE is an expansion in 1/d; at d = {self.d:g} with {n} units its means may be far "
                'off. simulate(..., representation="overlaps") is exact and as cheap there.',
                AccuracyWarning,
            )
        longest = max(LONGEST_STEP, times[-1] / FEWEST_STEPS) if self.step is None else self.step
        count = times[-1] / longest
        if count > MOST_STEPS:
            raise InputError(
                f"OverlapSDE.step = {self.step:g} makes {count:.0e} steps up to t = {times[-1]:g}; at most "
                f"{MOST_STEPS:.0e} are taken. Use a longer step, or None, which chooses it."
            )
        live = as_arrays(setting)
        args = (live.from_anywhere(), as_arrays(error_sum(setting, self.method)))
        dimension, reach = np.asarray(float(self.d)), np.asarray(float(longest))
        room = seats(self.replicas)  # those beyond the asked ones do not move
        begin, keys = _begin(live, np.asarray(self.seed), as_array(np.arange(room)), dimension)
        zero, count = np.zeros(room), np.zeros(room, int)
        rate = SOFT_START * TURN / reach + zero
        paths = _Path(
            begin,
            as_array(zero),
            as_array(zero),
            as_array(rate),
            as_array(count),
            as_array(count),
            as_array(np.arange(room) < self.replicas),
        )
        block = _block(args[1], self.samples, room)
        views, pace, last = [], Pace(1), float(times[-1])
        for target in times.tolist():
            while _behind(paths, target):
                end, pause = np.asarray(target), np.asarray(pace.upto(int(np.max(paths.steps))))
                paths = _advance(args, paths, keys, dimension, reach, end, pause, self.samples, self.corrected, block)
                tick(float(np.min(paths.time, where=np.asarray(paths.alive), initial=last)) / last)
            o = paths.overlaps
            asked = jax.tree.map(lambda x: np.asarray(x)[: self.replicas], (o.Q, o.M, o.a, paths.alive))
            views.append([_blank(x, asked[-1]) for x in asked[:-1]])
        P = np.asarray(begin.P)[: self.replicas]
        P = np.broadcast_to(P, (len(times), *P.shape))
        Q, M, a = (np.stack(x) for x in zip(*views, strict=True))
        path = jax.tree.unflatten(jax.tree.structure(begin), [Q, M, P, a])
        alive, end = (np.asarray(x)[: self.replicas] for x in (paths.alive, paths.time))
        return overlap_dataset(
            setting.problem,
            times,
            path,
            risks(*args, path),
            status=["ok" if x else "diverged" for x in alive],
            end_time=np.where(alive, times[-1], end).tolist(),
            method="OverlapSDE",
            reference=self.reference,
            replicated=True,
            attrs={
                "d": float(self.d),
                "seed": self.seed,
                "step": float(longest),
                "steps": int(np.max(np.asarray(paths.steps))),
                "samples": self.samples,
                "corrected": int(self.corrected),
                "corrections": int(np.sum(np.asarray(paths.corrections))),
                "gaussian_moments": args[1].name,
            },
        )


def _behind(paths: _Path, target: float) -> bool:
    """Whether a path has not come to the target yet."""
    alive, time, pending = (np.asarray(x) for x in (paths.alive, paths.time, paths.pending))
    return bool(np.any(alive & ((time < target) | (pending > 0))))


def _blank(values: np.ndarray, alive: np.ndarray) -> np.ndarray:
    return np.where(alive.reshape(-1, *[1] * (values.ndim - 1)), values, np.nan)
