"""A limit of your own: copy, rename, change `check` and `solve`, and declare how fast runs approach it."""

from typing import ClassVar

import numpy as np

import limitlab as ll
from limitlab import extending as ex
from limitlab import testing


class LinearFlow(ll.AbstractLimit):
    """One linear unit on a linear teacher: E = |w - w*|^2/d obeys dE/dt = -(2 - gamma) E + gamma Delta."""

    grows: ClassVar[str] = "d"
    stays: ClassVar[str] = "learning rate γ, noise Δ, time"
    needs: ClassVar[str] = "OnlineSGD, one linear unit on each side, an InformedStart"
    cost: ClassVar[str] = "nothing: a formula"
    reference: ClassVar[str] = "saad1995online"  # a key of references.bib
    rate: ClassVar[dict[str, float]] = {"d": -0.5}  # a single run at dimension d is off by about d^-1/2

    def check(self, problem):  # what was needed, what came, what to do
        if not isinstance(problem.algorithm, ll.OnlineSGD) or not isinstance(problem.start, ll.InformedStart):
            raise ll.errors.LimitUndefinedError(
                "LinearFlow needs OnlineSGD and an InformedStart; got something else. Use OverlapODE()."
            )

    def solve(self, problem, times):
        gamma, noise = float(problem.algorithm.learning_rate), float(problem.channel.variance)
        floor, start = gamma * noise / (2 - gamma), 2 - 2 * float(problem.start.overlap)
        E = floor + (start - floor) * np.exp(-(2 - gamma) * times)
        risk = {"risk": (("time",), (E + noise) / 2), "status": ((), "ok")}
        return ex.dataset(problem, risk, {"time": times}, method="LinearFlow", reference=self.reference)


def check():
    problem = ll.Problem(
        teacher=ll.Committee(width=1, activation="linear"),
        channel=ll.GaussianNoise(variance=0.1),
        student=ll.Committee(width=1, activation="linear"),
        loss=ll.SquareLoss(),
        start=ll.InformedStart(overlap=0.2),
        algorithm=ll.OnlineSGD(learning_rate=0.5),
    )
    testing.check_limit(LinearFlow(), problem, np.linspace(0, 2, 5), sizes=(40, 120, 360))
