"""limitlab warm: compile the common shapes once, so that first answers need no compiler."""

import time
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from limitlab.cli.app import Wanted
from limitlab.cli.screen import Bar, say

if TYPE_CHECKING:
    from limitlab.problems.problem import Problem

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    app.command("warm")(warm)


def warm(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME...]", help="Only these; all if left out.")] = None,
    progress: Wanted = None,
) -> None:
    """Compile the common shapes once, into the cache on disk: first answers then take a second.

    Numbers (rates, noise, times and how many of them) are no shapes; widths and dimensions are, and others than those
    of the README are compiled when they are met. What was compiled before is found and not done again.

    \b
      limitlab warm
      limitlab warm thresholds GAMP
    """
    import jax

    from limitlab.errors import InputError
    from limitlab.text import did_you_mean

    chosen = {name: one for name, one in cases().items() if not names or name in names}
    unknown = [name for name in names or [] if name not in chosen]
    if unknown:
        there = cases()
        raise InputError(
            f"There is nothing called {unknown[0]!r} to warm; there are: {', '.join(there)}."
            f"{did_you_mean(unknown[0], there)}"
        )
    folder = getattr(jax.config, "jax_compilation_cache_dir", None)
    if folder is None:
        raise InputError("There is no cache to warm: LIMITLAB_CACHE is off, or its folder cannot be written to.")
    began = time.monotonic()
    with warnings.catch_warnings(), Bar("warm", progress, counted=True) as bar:
        warnings.simplefilter("ignore")
        for number, (name, run) in enumerate(chosen.items()):
            bar(number, len(chosen), name)
            run()
        bar(len(chosen), len(chosen), "done")
    say(f"{len(chosen)} verbs are warm after {time.monotonic() - began:.0f} s; their programs are in {folder}")


def cases() -> dict[str, Callable[[], Any]]:
    """The README's problems at the README's sizes, by verb or limit."""
    import numpy as np

    import limitlab as ll

    def committee(activation: str, layer: str) -> "Problem":
        return ll.Problem(
            teacher=ll.Committee(width=2, activation="erf"),
            channel=ll.GaussianNoise(variance=0.1),
            student=ll.Committee(width=4, activation=activation, second_layer=layer),
            loss=ll.SquareLoss(),
            start=ll.InformedStart(overlap=0.2),
            algorithm=ll.OnlineSGD(learning_rate=0.5),
        )

    def linear(**rule: Any) -> "Problem":
        return ll.Problem(teacher=ll.SingleIndex(ll.GaussianPrior()), channel=ll.Sign(), sample_ratio=2.0, **rule)

    erf, relu = committee("erf", "fixed"), committee("relu", "trained")
    glm, fit = linear(algorithm=ll.GAMP(iterations=20)), linear(loss=ll.LogisticLoss(), algorithm=ll.ERM(penalty=0.1))
    climb, mixture = ll.library.merged_staircase("z1 + z1*z2 + z1*z2*z3"), ll.library.isotropic_mixture(delta=0.5)
    descent = ll.library.descent_phase_retrieval(algorithm=ll.GradientDescent(0.01), overlap=0.5)
    wide, times = ll.library.wide_phase_retrieval(), np.linspace(0, 2, 21)
    return {
        "OverlapODE": lambda: [ll.predict(one, ll.OverlapODE(), times=times) for one in (erf, relu)],
        "OverlapSDE": lambda: ll.predict(erf, ll.OverlapSDE(d=1000), times=times[:2]),
        "HighDimMeanField": lambda: ll.predict(erf, ll.HighDimMeanField(), times=times),
        "DimensionFree": lambda: [ll.predict(climb, ll.DimensionFree(corrected=c), times=times) for c in (True, False)],
        "MeanField": lambda: ll.predict(mixture, ll.MeanField(d=40), times=times[:2]),
        "RadialFlow": lambda: ll.predict(mixture, ll.RadialFlow(d=40), times=times),
        "DMFT": lambda: ll.predict(descent, ll.DMFT(trajectories=4096, batches=1), times=[0.0, 0.5, 1.0]),
        "MatrixFlow": lambda: ll.predict(wide, ll.MatrixFlow(d=20), times=[10.0]),
        "BayesOptimal": lambda: ll.predict(glm, ll.BayesOptimal()),
        "StateEvolution": lambda: ll.predict(glm, ll.StateEvolution()),
        "ERMAsymptotics": lambda: ll.predict(fit, ll.ERMAsymptotics()),
        "thresholds": lambda: ll.thresholds(ll.GaussianPrior(), ll.Modulus()),
        "GAMP": lambda: ll.simulate(glm, d=1000, replicas=16),
        "ERM": lambda: ll.simulate(fit, d=200, replicas=4),
        "OnlineSGD": lambda: ll.simulate(relu, d=1000, times=times[:2], replicas=16),
    }
