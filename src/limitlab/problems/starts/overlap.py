"""A start with given overlaps."""

from typing import ClassVar

import jax.numpy as jnp
import numpy as np

from limitlab.errors import InputError
from limitlab.modules import field
from limitlab.numerics.checks import check_psd
from limitlab.numerics.linalg import gram_factor
from limitlab.numerics.random import normal
from limitlab.problems.networks.committee import Committee
from limitlab.problems.starts.base import AbstractStart
from limitlab.problems.starts.matrices import (
    check_matrix,
    matrix,
)

__all__ = ["OverlapStart"]


class OverlapStart(AbstractStart):
    r"""Given overlaps, realised exactly at every d not below the rank of the joint Gram matrix.

    Parameters
    ----------
    Q, M, P
        Student-student (p, p), student-teacher (p, k) and teacher-teacher (k, k) overlaps. Numbers are taken as
        1x1 matrices.
    """

    joint: ClassVar[bool] = True

    Q: np.ndarray = field(converter=matrix)
    M: np.ndarray = field(converter=matrix)
    P: np.ndarray = field(converter=matrix)

    def __check_init__(self):
        for name in ("Q", "M", "P"):
            check_matrix("OverlapStart", name, getattr(self, name))
        p, k = self.M.shape
        if self.Q.shape != (p, p) or self.P.shape != (k, k):
            raise InputError(
                f"OverlapStart needs Q (p, p), M (p, k), P (k, k); got shapes {self.Q.shape}, {self.M.shape}, "
                f"{self.P.shape}. M has one row per student unit and one column per teacher unit."
            )
        check_psd("OverlapStart", "Q", self.Q)
        check_psd("OverlapStart", "P", self.P)
        check_psd("OverlapStart", "Omega = [[Q, M], [M^T, P]]", np.block([[self.Q, self.M], [self.M.T, self.P]]))

    def check_beside(self, problem):
        p, k = self.M.shape
        for what, network, width in (("student", problem.student, p), ("teacher", problem.teacher, k)):
            if isinstance(network, Committee) and network.width != width:
                raise InputError(
                    f"Problem.start has overlaps M of shape {(p, k)} (students, teachers), but the {what} has width "
                    f"{network.width}. Give M one row per student unit and one column per teacher unit."
                )

    def draw(self, key, d, p, k):
        return self.limit(p, k)

    def weights(self, key, p, d, directions):
        """Beside a teacher that draws its own: exact overlaps with its directions, taken at the Gram matrix P."""
        k = self.M.shape[1]
        if directions is None or directions.shape[0] != k or self.M.shape[0] != p:
            came = 0 if directions is None else directions.shape[0]
            raise InputError(
                f"OverlapStart has M of shape {self.M.shape}, one row per student unit and one column per direction of "
                f"the teacher; got {p} units beside {came} directions. Give M and P that shape, or use RandomStart()."
            )
        if d < p + k:
            raise InputError(f"OverlapStart needs d >= {p + k} dimensions for {p} units and {k} directions; got d={d}.")
        L = gram_factor(jnp.block([[self.P, self.M.T], [self.M, self.Q]]))[k:]
        frame, up = jnp.linalg.qr(jnp.concatenate([directions.T, normal(key, (d, p))], axis=1))
        return jnp.sqrt(float(d)) * L @ (frame * jnp.sign(jnp.diagonal(up))).T

    def limit(self, p, k):
        return jnp.asarray(self.Q), jnp.asarray(self.M), jnp.asarray(self.P)

    @property
    def blind(self):
        return not np.any(self.M) and not np.any(self.Q - np.diag(np.diag(self.Q)))

    @property
    def given_norms(self):
        return np.diag(self.Q)
