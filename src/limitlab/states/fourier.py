r"""What a network on signs has learned: its Fourier coefficients and the two parts of its test error.

.. math::
    \hat f(S) = E_z[\chi_S(z) \bar f(z)], \quad \bar f(z) = E_r f(z, r), \qquad
    E(h - f)^2 = E_z (h - \bar f)^2 + E_z \mathrm{Var}_r f

All 2^P points z are visited. With few other coordinates the mean over their signs r is a sum over all of them. With
many it is a Gaussian mean with its first correction, :math:`E_r\sigma(m + v \cdot r) = E[\sigma(m + sG)
(1 - \kappa_4 He_4(G)/12)]`, :math:`s = |v|`, :math:`\kappa_4 = \sum_i v_i^4/s^4`, and the variance comes from random
draws of r. The error of that mean falls as d^-2: for Gaussian weights of norm 1 and a sine it is 1e-3 of a unit's value
at 12 coordinates, 1e-5 at 100, 5e-7 at 400.
"""

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from limitlab.modules import field, filter_jit
from limitlab.numerics.cube import cube_points, walsh
from limitlab.problems.activations import Activation
from limitlab.problems.networks import Committee, Network
from limitlab.problems.sparse.target import SparseTarget
from limitlab.states.run import Learner
from limitlab.states.test_risk import TestRisk
from limitlab.states.view import RUN, AbstractView, Report, Variable

__all__ = ["FourierView", "enumerated", "how", "observe", "smoothed_values", "workspace"]

ENUMERATED, ALL = 10, 16  # so many other signs, or so many in all: means are sums over all inputs
STEP, REACH = 0.085, 8.5  # trapezoid rule in G: error about exp(-pi^2/(s STEP)) for tanh, 4e-9 at s = 6
NUMBERS = 2**20  # held at once (8 MiB)
DRAWS, MAX_DRAWS, POINTS = 256, 4096, 2**15  # draws of r, and draws times points z, for the variance


def _rule() -> tuple[np.ndarray, np.ndarray]:
    half = round(REACH / STEP)
    G = STEP * np.arange(-half, half + 1)
    weight = np.exp(-(G**2) / 2)
    weight /= weight.sum()
    return G, np.stack([weight, weight * (G**4 - 6 * G**2 + 3) / 12], axis=1)


def smoothed_values(activation: Activation, m: jax.Array, s: jax.Array, kappa4: jax.Array) -> jax.Array:
    r""":math:`E[\sigma(m + sG)(1 - \kappa_4 He_4(G)/12)]`: in closed form for straight lines with kinks, else by a
    trapezoid rule."""
    kinks = activation.pieces()
    if kinks is None:
        G, weights = _rule()
        both = activation(m[..., None] + s[..., None] * G) @ weights
        return both[..., 0] - kappa4 * both[..., 1]
    intercept, slope, places, jumps = kinks
    s = jnp.maximum(s, 1e-300)
    total = jnp.asarray(intercept) + slope * m
    for place, jump in zip(places, jumps, strict=True):
        t = (m - place) / s
        phi = jnp.exp(-(t**2) / 2) / np.sqrt(2 * np.pi)
        mean = (m - place) * jax.scipy.special.ndtr(t) + s * phi
        total = total + jump * (mean - kappa4 * s * phi * (t**2 - 1) / 12)
    return total


def enumerated(d: int, P: int) -> bool:
    """Whether means over the other coordinates are exact sums."""
    return d - P <= ENUMERATED or d <= ALL


def how(activation: Activation, d: int, P: int) -> str:
    """In words, how means over the other coordinates are taken."""
    if enumerated(d, P):
        return f"all 2^{d - P} signs of the other coordinates"
    rule = "trapezoid rule" if activation.pieces() is None else "closed form"
    draws, points = _draws(d - P, P)
    where = "all latent points" if points == 2**P else f"{points} random latent points"
    return f"Gaussian mean with fourth cumulant ({rule}); variance from {draws} draws at {where}"


def workspace(d: int, p: int, P: int) -> int:
    """Bytes that `observe` holds at once for one network, apart from its output."""
    inner = 2 ** (d - P) if enumerated(d, P) else max(_draws(d - P, P)[0], len(_rule()[0]))
    return 8 * (4 * max(NUMBERS, inner * p) + 8 * 2**P + 2 * d * p)


class FourierView(AbstractView):
    """All Fourier coefficients, the two parts of the risk, a, and if they are not too many u and s.

    Where labels are not the target with additive noise, or errors not squared, the risk is that of ``tests``.
    """

    target: SparseTarget
    student: Committee
    keys: jax.Array
    keep_u: bool = field(static=True)
    d: int = field(static=True)
    floor: float
    tests: TestRisk | None
    words: str | None = field(static=True)
    note: str | None = field(static=True)

    variables: ClassVar[dict[str, Variable]] = {
        **TestRisk.variables,
        **Learner.variables,
        "latent_risk": Variable(RUN, "half the mean square of h - E_r f, the part of f that the latent variables see"),
        "residual_risk": Variable(RUN, "half the variance of f over the coordinates that do not matter"),
        "fourier": Variable((*RUN, "term"), "Fourier coefficient of the student on a monomial"),
        "u": Variable((*RUN, "student", "particle", "latent"), "weights of a unit on the latent coordinates"),
        "s": Variable((*RUN, "student", "particle"), "norm of a unit's weights on all other coordinates"),
    }

    def see(self, state, step):
        seen = observe(
            self.student.activation, jnp.asarray(self.target.values), state.student, self.keys, jnp.asarray(step)
        )
        if not self.keep_u:
            del seen["u"], seen["s"]
        if self.tests is not None:
            del seen["latent_risk"], seen["residual_risk"]
            seen["risk"], seen["risk_error"] = self.tests(state.student)
        return seen

    def report(self, path):
        at, path = ("time", "replica"), dict(path)
        if self.tests is None:
            path["risk"] = path["latent_risk"] + path["residual_risk"] + self.floor
        dims = {
            **dict.fromkeys(("risk", "risk_error", "latent_risk", "residual_risk"), at),
            "fourier": (*at, "term"),
            **dict.fromkeys(("a", "b", "s"), (*at, "student")),
            "u": (*at, "student", "latent"),
        }
        coords = {"term": self.target.term_names}
        if self.keep_u:
            coords["latent"] = [f"z{i}" for i in self.target.variables]
        average = how(self.student.activation, self.d, self.target.latent)
        about = {"average": average, "risk_from": self.words, "note": self.note}
        return Report({name: (dims[name], path[name]) for name in dims if name in path}, coords, about)


@filter_jit
def observe(
    activation: Activation, table: jax.Array, state: Network, keys: jax.Array, step: jax.Array
) -> dict[str, jax.Array]:
    """The macrostates of all replicas, one after the other, so that memory stays bounded.

    u (p, P) and s (p,) are weights in units of inputs +-1.
    """

    def one(args):
        net, key = args
        return _observe(activation, table, net, jax.random.fold_in(key, step))

    return jax.lax.map(one, (state, keys))


def _observe(activation: Activation, table: jax.Array, net: Network, key: jax.Array) -> dict[str, jax.Array]:
    W = net.rows
    p, d = W.shape
    P = table.shape[0].bit_length() - 1
    scaled = W / jnp.sqrt(float(d))
    u, v = scaled[:, :P], scaled[:, P:]
    bias = 0.0 if net.b is None else net.b
    s = jnp.sqrt(jnp.sum(v**2, axis=1))
    if enumerated(d, P):
        fields = v @ jnp.asarray(cube_points(d - P)).T  # (p, 2^(d-P))

        def both(point):
            f = net.a @ activation((u @ _signs(point, P) + bias)[:, None] + fields) / p
            return jnp.mean(f), jnp.var(f)

        mean, variance = _over(both, jnp.arange(2**P), p * fields.shape[1])
    else:
        kappa4 = jnp.sum(v**4, axis=1) / jnp.maximum(s, 1e-300) ** 4

        def smooth(point):
            return net.a @ smoothed_values(activation, u @ _signs(point, P) + bias, s, kappa4) / p

        nodes = 1 if activation.pieces() is not None else len(_rule()[0])
        mean = _over(smooth, jnp.arange(2**P), p * nodes)
        variance = residual_variance(activation, net.a, u, v, bias, mean, key)
    seen = {
        "fourier": jnp.asarray(walsh(mean)),
        "latent_risk": jnp.mean((table - mean) ** 2) / 2,
        "residual_risk": jnp.mean(variance) / 2,
        "a": net.a,
        "u": u,
        "s": s,
    }
    return seen if net.b is None else {**seen, "b": net.b}


def residual_variance(activation: Activation, a, u, v, bias, mean, key) -> jax.Array:
    r"""Unbiased estimates of :math:`\mathrm{Var}_r f(z, r)`, one a latent point (some drawn at random if many).

    The draws are :math:`r_k = D H_k`, rows of a Hadamard matrix under one random flip D of the coordinates: each is
    uniform, and together they give the variance of a linear function of r without scatter if there are as many draws
    as coordinates. The part of f that SGD noise makes is nearly linear.
    """
    p, P = u.shape
    others = v.shape[1]
    draws, points = _draws(others, P)
    key_r, key_z = jax.random.split(key)
    flipped = v * jax.random.rademacher(key_r, (others,), dtype=float)
    folded = jnp.pad(flipped, ((0, 0), (0, -others % draws))).reshape(p, -1, draws).sum(axis=1)
    fields = draws * walsh(folded)  # (p, draws): v . r_k
    index = jnp.arange(2**P) if points == 2**P else jax.random.randint(key_z, (points,), 0, 2**P)

    def at(point):
        f = a @ activation((u @ _signs(point, P) + bias)[:, None] + fields) / p
        return jnp.mean((f - mean[point]) ** 2)

    return _over(at, index, p * draws)


def _draws(others: int, P: int) -> tuple[int, int]:
    """How many draws of r, at how many latent points."""
    draws = min(max(DRAWS, 1 << (others - 1).bit_length()), MAX_DRAWS)
    return draws, min(2**P, POINTS // draws)


def _signs(point: jax.Array, P: int) -> jax.Array:
    return 1.0 - 2.0 * ((point >> jnp.arange(P)) & 1)


def _over(function, points: jax.Array, numbers: int):
    return jax.lax.map(function, points, batch_size=max(1, min(len(points), NUMBERS // numbers)))
