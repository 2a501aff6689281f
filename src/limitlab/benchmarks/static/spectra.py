"""Inputs with a spectrum: what many modes cost, and how many steps of SGD one decomposition gives."""

import numpy as np

import limitlab as ll
from limitlab.benchmarks.table import Table, run, together

MODES, RATIOS = 400, np.linspace(0.5, 4.0, 8)
STEPS = np.unique(np.geomspace(1, 1e7, 60).astype(int))


def _fit(spectrum: ll.Spectrum | None, ratio: float) -> ll.Problem:
    return ll.Problem(
        inputs=ll.Gaussian(spectrum=spectrum),
        teacher=ll.SingleIndex(ll.GaussianPrior()),
        channel=ll.Sign(),
        sample_ratio=ratio,
        loss=ll.LogisticLoss(),
        algorithm=ll.ERM(penalty=0.1),
    )


def fits(table: Table) -> None:
    """Eight points of a curve of logistic regression, with and without 400 modes."""
    c = np.arange(1, MODES + 1) ** -1.0
    many = ll.Spectrum(c / c.mean())

    def curve(spectrum: ll.Spectrum | None) -> list:
        return [ll.predict(_fit(spectrum, ratio), ll.ERMAsymptotics()).m.values for ratio in RATIOS]

    spread, flat = together(lambda: curve(many), lambda: curve(None))
    table.ratio(f"logistic asymptotics, {MODES} modes / isotropic", spread, flat, "<= 2")


def sgd(table: Table) -> None:
    """Risks after up to 10^7 steps of one-pass SGD."""
    law = ll.PowerLaw(decay=1.5, target_decay=2.5)
    (took,) = together(lambda: ll.scaling_law(law, 0.1, STEPS, modes=500).mse, repeats=3)
    table.add("500 modes, 10^7 steps of SGD: seconds", f"{took:.2f}", "<= 1", took <= 1)


if __name__ == "__main__":
    run({"fits": fits, "sgd": sgd})
