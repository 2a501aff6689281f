"""Laws of the eigenvalues of the inputs' covariance."""

from abc import abstractmethod
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from limitlab._setup import double
from limitlab.errors import InputError
from limitlab.modules import field
from limitlab.numerics.checks import check_array, check_integer, check_number, check_psd
from limitlab.numerics.spectra.power_law import PowerModes, power_modes
from limitlab.numerics.trees import plain
from limitlab.problems.inputs.modes import Modes
from limitlab.problems.inputs.ridge_curve import RidgeCurve, ridge_curve
from limitlab.problems.part import Part

__all__ = ["AbstractSpectrum", "MarchenkoPastur", "PowerLaw", "Spectrum"]

NODES = 400  # of a smooth law
ROUNDING = 1e-9  # by how much matrices may contradict each other
SMALL = 1e-12  # eigenvalues below this share of the largest are 0


class AbstractSpectrum(Part):
    """The eigenvalues of the covariance C of inputs x ~ N(0, C/d), and what the teacher has on each."""

    reference: ClassVar[tuple[str, ...]] = ("loureiro2021learning",)

    @property
    @abstractmethod
    def atoms(self) -> Modes:
        """Eigenvalues, shares and the teacher's components, as a problem has them: free of d."""

    def check_finite(self) -> None:
        """Raise `InputError` if there are infinitely many modes: then no problem at a dimension d has them."""


def _row(name: str):
    def convert(value: Any) -> Any:
        return None if value is None else check_array(f"Spectrum.{name}", value)

    return convert


class Spectrum(AbstractSpectrum):
    r"""Atoms: a share h_k of all directions has the eigenvalue c_k, and there the teacher's components are t_k^2.

    .. math:: x \sim N(0, C/d), \qquad z^* = w^*\cdot x + \sqrt{\rho_\perp}\,\xi, \qquad
              \rho = \sum_k h_k c_k t_k^2 + \rho_\perp

    Eigenvalues are used as given; with a mean of 1, |x|^2 is about 1. At dimension d atom k has h_k d coordinates, by
    largest remainder.

    Parameters
    ----------
    eigenvalues
        c_k >= 0.
    weights
        Shares h_k, whose sum is 1; None: all alike.
    teacher
        Squared components t_k^2 of w* on the directions of atom k, for a teacher SingleIndex(GaussianPrior(1)). None:
        the second moment of the prior on every one.
    unexplained
        rho_perp, the variance of the part of the teacher's field that is not linear in x.
    """

    eigenvalues: np.ndarray = field(converter=_row("eigenvalues"))
    weights: np.ndarray | None = field(converter=_row("weights"), default=None)
    teacher: np.ndarray | None = field(converter=_row("teacher"), default=None)
    unexplained: float = 0.0

    @double
    def __check_init__(self):
        c = self.eigenvalues
        if c is None or c.ndim != 1 or not c.size:
            raise InputError("Spectrum.eigenvalues must be a list of at least one number. Give Spectrum([0.5, 1.5]).")
        for name in ("eigenvalues", "weights", "teacher"):
            values = getattr(self, name)
            if values is None:
                continue
            if values.shape != c.shape:
                raise InputError(
                    f"Spectrum.{name} must be {c.size} numbers, one for each eigenvalue; got shape {values.shape}."
                )
            wrong = ~(np.isfinite(values) & (values >= 0))
            if np.any(wrong):
                where = int(np.argmax(wrong))
                what = {"eigenvalues": "A covariance has", "weights": "Shares are", "teacher": "Squares are"}[name]
                raise InputError(
                    f"Spectrum.{name} must be finite and >= 0; got {values[where]:g} (position {where}). {what} none "
                    "below 0."
                )
        if not np.any(c > 0):
            raise InputError("Spectrum.eigenvalues must not all be 0: such inputs say nothing. Give one above 0.")
        if self.weights is not None and abs(float(self.weights.sum()) - 1) > ROUNDING:
            raise InputError(
                f"Spectrum.weights must be shares whose sum is 1; got {float(self.weights.sum()):.10g}. Divide them by "
                "their sum: nothing is normalised silently."
            )
        check_number(
            "Spectrum", "unexplained", self.unexplained, low=0, remedy="It is the variance rho_perp of what x misses."
        )

    @property
    def atoms(self):
        c = self.eigenvalues
        h = np.full(len(c), 1 / len(c)) if self.weights is None else self.weights
        return Modes(c, h, self.teacher, self.unexplained)

    @classmethod
    def from_covariances(cls, Psi: Any, Omega: Any, Phi: Any, theta0: Any) -> "Spectrum":
        r"""The Gaussian covariate model: a teacher on features u and a student on features v, jointly normal.

        .. math:: z^* = \theta_0 \cdot u/\sqrt k, \quad f = w \cdot v/\sqrt p, \qquad
                  E uu^T = \Psi, \quad E vv^T = \Omega, \quad E uv^T = \Phi

        One atom for each of the p eigenvalues of Omega; what of z* is not linear in v is ``unexplained``.
        """
        Psi, Omega, Phi, theta = (
            check_array(f"Spectrum.from_covariances: {name}", value)
            for name, value in (("Psi", Psi), ("Omega", Omega), ("Phi", Phi), ("theta0", theta0))
        )
        k, p = theta.size, len(Omega) if Omega.ndim else 0
        for name, matrix, shape in (
            ("Psi", Psi, (k, k)),
            ("Omega", Omega, (p, p)),
            ("Phi", Phi, (k, p)),
            ("theta0", theta, (k,)),
        ):
            if matrix.shape != shape or not matrix.size:
                raise InputError(
                    f"Spectrum.from_covariances.{name} must have shape {shape}, for k = {k} features of the teacher "
                    f"and p = {p} of the student; got {matrix.shape}."
                )
            if not np.all(np.isfinite(matrix)):
                raise InputError(f"Spectrum.from_covariances.{name} must be finite. Remove NaN and infinite entries.")
        check_psd("Spectrum.from_covariances", "Psi", Psi)
        check_psd("Spectrum.from_covariances", "Omega", Omega)
        values, vectors = np.linalg.eigh((Omega + Omega.T) / 2)
        b = np.sqrt(p / k) * (vectors.T @ (Phi.T @ theta))
        rho = float(theta @ Psi @ theta) / k
        seen = values > SMALL * max(values[-1], 0.0)
        linear = float(np.sum(b[seen] ** 2 / values[seen])) / p
        outside = float(np.sum(b[~seen] ** 2)) / p
        if rho - linear < -ROUNDING * max(rho, 1.0) or outside > ROUNDING * max(rho, 1.0) * max(values[-1], 1e-300):
            raise InputError(
                f"Spectrum.from_covariances needs matrices that fit together: the part of the teacher's field that is "
                f"linear in v has the variance {linear + outside:.6g}, more than all of it, {rho:.6g} (rho_perp < 0). "
                "Psi, Omega and Phi must be blocks of one covariance matrix: take all three from the same features."
            )
        return cls(
            np.where(seen, values, 0.0),
            teacher=np.where(seen, b / np.where(seen, values, 1.0), 0.0) ** 2,
            unexplained=max(0.0, rho - linear),
        )

    @classmethod
    def from_data(cls, X: Any, w: Any = None) -> "Spectrum":
        r"""The second moments of rows X (n, d), and a teacher z* = w.x (None: that of the prior).

        .. math:: C/d = X^T X/n, \qquad t_i = u_i \cdot w

        Rows are taken as they come, not centred and not scaled.
        """
        X = check_array("Spectrum.from_data: X", X)
        if X.ndim != 2 or not X.size or not np.all(np.isfinite(X)):
            raise InputError(
                f"Spectrum.from_data.X must be finite rows (samples, features); got shape {X.shape} with "
                f"{int(np.sum(~np.isfinite(X)))} entries that are not finite. Drop or fill them."
            )
        n, d = X.shape
        values, vectors = np.linalg.eigh(X.T @ X * (d / n))
        values = np.where(values > SMALL * max(values[-1], 0.0), values, 0.0)
        if w is None:
            return cls(values)
        w = check_array("Spectrum.from_data: w", w)
        if w.shape != (d,) or not np.all(np.isfinite(w)):
            raise InputError(
                f"Spectrum.from_data.w must be {d} finite numbers, one for each column of X; got shape {w.shape}."
            )
        return cls(values, teacher=(vectors.T @ w) ** 2)


class PowerLaw(AbstractSpectrum):
    r"""Eigenvalues and signal that fall as powers: :math:`s_k = k^{-\mathrm{decay}}`,
    :math:`s_k t_k^2 = k^{-\mathrm{target\_decay}}`, k = 1, 2, ...

    Parameters
    ----------
    decay, target_decay
        The two powers. With infinitely many modes both are above 1.
    modes
        How many. In a problem it is needed: then eigenvalues have the mean 1, and the linear signal (1/d) sum c t^2
        is 1. None: infinitely many, in raw units, for `learning_curve` and `scaling_law`.
    unexplained
        rho_perp, the variance of the part of the teacher's field that is not linear in x.
    """

    reference: ClassVar[tuple[str, ...]] = ("cui2021generalization",)

    decay: float
    target_decay: float
    modes: int | None = field(static=True, converter=plain, default=None)
    unexplained: float = 0.0

    def __check_init__(self):
        for name in ("decay", "target_decay"):
            check_number("PowerLaw", name, getattr(self, name), low=0, remedy="Eigenvalues and signal fall with k.")
        if self.modes is not None:
            check_integer("PowerLaw", "modes", self.modes, low=1, remedy="Use None for infinitely many.")
        check_number(
            "PowerLaw", "unexplained", self.unexplained, low=0, remedy="It is the variance rho_perp of what x misses."
        )

    def check_finite(self):
        if self.modes is None:
            raise InputError(
                "Gaussian.spectrum must have finitely many modes; got PowerLaw(modes=None), which is for "
                "learning_curve and scaling_law. Write PowerLaw(..., modes=400), say."
            )

    def raw(self) -> PowerModes:
        """The modes in raw units, finitely or infinitely many."""
        a, b = float(self.decay), float(self.target_decay)
        if self.modes is None and min(a, b) <= 1:
            raise InputError(
                f"PowerLaw with infinitely many modes needs decay > 1 and target_decay > 1, so that x and the target "
                f"have a finite variance; got {a:g} and {b:g}. Use larger ones, or give modes."
            )
        return power_modes(a, b, self.modes)

    def learning_curve(
        self,
        loss: Any = None,
        penalty: Any = None,
        *,
        samples: Any,
        noise: float = 0.0,
        theory: str | None = None,
        fits: int = 0,
        seed: int = 0,
    ) -> RidgeCurve:
        """What `limitlab.learning_curve` asks: ridge regression with these modes in raw units, in theory.

        ``penalty`` is a number >= 0 (0: the interpolator of least norm) or "best", for every number of samples the one
        of least error; left out, "best". Nothing is drawn: ``theory``, ``fits`` and ``seed`` are not used.
        """
        if loss is not None and not getattr(loss, "quadratic", False):
            raise InputError(f"learning_curve of a PowerLaw is known for SquareLoss(); got {loss!r}. Leave loss out.")
        return ridge_curve(float(self.decay), float(self.target_decay), self.raw(), samples, penalty, noise)

    @property
    def atoms(self):
        self.check_finite()
        xp: Any = jnp if isinstance(self.decay, jax.Array) or isinstance(self.target_decay, jax.Array) else np
        count: Any = self.modes
        log = np.log(np.arange(1, count + 1))
        s, signal = xp.exp(-self.decay * log), xp.exp(-self.target_decay * log)
        c = s / s.mean()
        return Modes(c, np.full(count, 1 / count), signal / signal.mean() / c, self.unexplained, smooth=True)


class MarchenkoPastur(AbstractSpectrum):
    r"""The eigenvalues of :math:`FF^T/D`, F standard normal with p rows and D columns, ``ratio`` = p/D.

    Their mean is 1. At dimension d coordinates are quantiles of the law.
    """

    ratio: float

    def __check_init__(self):
        check_number("MarchenkoPastur", "ratio", self.ratio, low=0, open_low=True, remedy="It is p/D.")

    @property
    def atoms(self):
        xp: Any = jnp if isinstance(self.ratio, jax.Array) else np
        angle = (np.arange(NODES) + 0.5) * np.pi / NODES
        s = (1 + self.ratio + 2 * xp.sqrt(self.ratio) * np.cos(angle))[::-1]
        h = 2 / NODES * np.sin(angle[::-1]) ** 2 / s
        none = xp.maximum(1 - 1 / self.ratio, 0.0)
        c, h = xp.concatenate([xp.zeros(1), s]), xp.concatenate([none + xp.zeros(1), h])
        return Modes(c, h / h.sum(), None, 0.0, smooth=True)
