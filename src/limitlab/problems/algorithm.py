"""Learning rules. Each states its clock: the macroscopic time gained per step."""

import equinox as eqx

from limitlab.errors import InputError
from limitlab.numerics.checks import check_choice, check_integer, check_number
from limitlab.problems.schedules import AbstractSchedule

__all__ = [
    "ERM",
    "GAMP",
    "AbstractAlgorithm",
    "LayerwiseSGD",
    "OnlineSGD",
    "check_rate",
]


class AbstractAlgorithm(eqx.Module):
    """How the learner uses its samples."""


def check_rate(rule: AbstractAlgorithm) -> None:
    check_number(
        type(rule).__name__,
        "learning_rate",
        rule.learning_rate,  # type: ignore[attr-defined]
        low=0,
        open_low=True,
        remedy="Use a positive learning rate.",
    )


class OnlineSGD(AbstractAlgorithm):
    r"""One-pass stochastic gradient descent: fresh samples at every step.

    .. math::
        w_i \leftarrow w_i + \frac{\gamma}{p}\, \langle a_i \sigma'(\lambda_i)\, \mathcal E\, x \rangle, \qquad
        a_i \leftarrow a_i + \kappa \frac{\gamma}{p d}\, \langle \sigma(\lambda_i)\, \mathcal E \rangle,
        \qquad \mathcal E = y - f(x)

    with the mean over ``batch_size`` samples, gamma = ``learning_rate``, kappa = ``second_layer_rate``. With
    ``spherical=True`` every w_i is put on the sphere of radius sqrt(d) at the start and after each step. Weight decay
    lambda multiplies all that is trained by 1 - lambda gamma/(p d) at each step (-lambda theta on the clock); a
    ``temperature`` T adds Gaussian noise of variance 2 T gamma/(p d) to all of theta = (a_i, b_i, w_i/sqrt(d)), whose
    law then tends to exp(-Psi/T). A ``schedule`` multiplies gamma at each step, in all these places, and leaves the
    clock as it is. Clock: t = gamma * step / (p d).
    """

    learning_rate: float
    spherical: bool = eqx.field(static=True, default=False)
    batch_size: int = eqx.field(static=True, default=1)
    second_layer_rate: float = 1.0
    weight_decay: float = 0.0
    temperature: float = 0.0
    schedule: AbstractSchedule | None = None

    def __check_init__(self):
        check_rate(self)
        check_integer("OnlineSGD", "batch_size", self.batch_size, low=1, remedy="Each step needs a sample.")
        check_number(
            "OnlineSGD", "second_layer_rate", self.second_layer_rate, low=0, remedy="Use 0 to freeze the second layer."
        )
        check_number("OnlineSGD", "weight_decay", self.weight_decay, low=0, remedy="Use 0 for none.")
        check_number("OnlineSGD", "temperature", self.temperature, low=0, remedy="Use 0 for SGD without added noise.")
        if self.schedule is not None and not isinstance(self.schedule, AbstractSchedule):
            raise InputError(
                f"OnlineSGD.schedule must be a schedule such as PowerSchedule(0.25), or None; got {self.schedule!r}."
            )

    def clock(self, width: int, d: float):
        """Macroscopic time per step, gamma/(p d)."""
        return self.learning_rate / (width * d)


class LayerwiseSGD(AbstractAlgorithm):
    r"""One-pass SGD on the first layer up to ``switch_time``, then on the second layer alone.

    Up to ``switch_time`` the rule of `OnlineSGD` with a frozen second layer. Afterwards w is frozen, and the second
    layer is trained by SGD (``penalty=None``) or set once to the ridge fit of ``ridge_samples`` fresh samples,

    .. math:: \min_a \langle (y - f)^2 \rangle + \mathrm{penalty}\, \frac1p \sum_i a_i^2 .

    Clock: t = gamma * step / (p d), as for `OnlineSGD`.

    Parameters
    ----------
    interacting
        False leaves f out of the error of the first phase (y instead of y - f), as proofs like to do.
    """

    learning_rate: float
    switch_time: float
    penalty: float | None = None
    batch_size: int = eqx.field(static=True, default=1)
    second_layer_rate: float = 1.0
    interacting: bool = eqx.field(static=True, default=True)
    ridge_samples: int = eqx.field(static=True, default=10000)

    def __check_init__(self):
        check_rate(self)
        name = "LayerwiseSGD"
        check_number(name, "switch_time", self.switch_time, low=0, open_low=True, remedy="Use a positive time.")
        if self.penalty is not None:
            check_number(
                name, "penalty", self.penalty, low=0, open_low=True, remedy="Use a small one such as 1e-6, or None."
            )
        check_integer(name, "batch_size", self.batch_size, low=1, remedy="Each step needs a sample.")
        check_number(
            name, "second_layer_rate", self.second_layer_rate, low=0, open_low=True, remedy="Use a positive rate."
        )
        check_integer(name, "ridge_samples", self.ridge_samples, low=1, remedy="The ridge fit needs samples.")

    def clock(self, width: int, d: float):
        """Macroscopic time per step, gamma/(p d)."""
        return self.learning_rate / (width * d)


class GAMP(AbstractAlgorithm):
    r"""Generalised approximate message passing on a fixed data set. Clock: one iteration.

    .. math::
        \omega = X a - V g_{\rm old}, \quad g = g_{\rm out}(y, \omega, V), \quad
        A = -\alpha \langle \partial_\omega g \rangle, \quad B = A a + X^T g, \quad
        (a, v) \leftarrow (f_a, f_v)(A, B), \quad V = \langle v \rangle

    with the posterior mean and variance f_a, f_v of the prior and the output function g_out of the channel.

    Parameters
    ----------
    damping
        Share of the old (a, v) kept at each iteration. With damping the fixed points stay the same, but single
        iterations no longer follow state evolution.
    iterations
        How many iterations are made at most.
    tolerance
        Converged when :math:`|f_a - a| \le` tolerance :math:`|f_a|`.
    variances
        "scalar": one V and one A, as above; what state evolution describes. "vector": one for each sample and weight,
        :math:`V_\mu = \sum_i X_{\mu i}^2 v_i` and :math:`A_i = -\sum_\mu X_{\mu i}^2 \partial_\omega g_\mu`, for
        columns of unequal size; twice the work and memory.
    precision
        "float64" or "float32": the type of X and of the products with it in `simulate`; all else is float64.
    """

    damping: float = 0.0
    iterations: int = eqx.field(static=True, default=50)
    tolerance: float = 1e-6
    variances: str = eqx.field(static=True, default="scalar")
    precision: str = eqx.field(static=True, default="float64")

    def __check_init__(self):
        check_number("GAMP", "damping", self.damping, low=0, high=1, open_high=True, remedy="Use 0 <= damping < 1.")
        check_integer("GAMP", "iterations", self.iterations, low=1, remedy="Ask for at least one iteration.")
        check_number("GAMP", "tolerance", self.tolerance, low=0, remedy="It is a relative change, such as 1e-6.")
        check_choice("GAMP", "variances", self.variances, ("scalar", "vector"))
        check_choice("GAMP", "precision", self.precision, ("float64", "float32"))

    def fit(self, X, y, *, prior, channel, start=None, seed: int = 0):
        """Run on arrays that you bring: X (samples, features) and labels y; returns a fitted `GAMPEstimator`.

        X is used as given, z = X w, and keeps its type (float32 stays float32). ``start`` is None (the prior mean),
        ``SpectralStart()`` or ``RandomStart(scale)``; ``seed`` is for the latter two.
        """
        from limitlab.micro.estimator import GAMPEstimator  # problems know nothing of micro until they are run

        estimator = GAMPEstimator(
            prior=prior,
            channel=channel,
            damping=self.damping,
            iterations=self.iterations,
            tolerance=self.tolerance,
            variances=self.variances,
            start=start,
            seed=seed,
        )
        return estimator.fit(X, y)


class ERM(AbstractAlgorithm):
    r"""Exact minimisation of :math:`\sum_\mu \ell(y_\mu, w\cdot x_\mu) + \tfrac12\,\mathrm{penalty}\,|w|^2`."""

    penalty: float = 0.0

    def __check_init__(self):
        check_number("ERM", "penalty", self.penalty, low=0, remedy="Use 0 for none.")
