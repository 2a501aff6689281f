"""How the files in this folder were made, before anything was moved:

    PYTHONPATH=tests python -m golden.stored.make_stored FOLDER

They promise that nothing stored is lost. A later version must read all of them, give the same hashes, and compute no
point of the sweep again that the store has (`swept` with the store returns at once, bit for bit the saved sweep).
"""

import json
import sys
from pathlib import Path

import numpy as np

import limitlab as ll

TIMES = [0.0, 0.5, 1.0]


def library():
    """Every constructor of `limitlab.library` with its default arguments."""
    return {name.replace("-", "_"): make() for name, make in ll.library.LIBRARY.items()}


def written():
    """Problems by hand, so that every part that a file may name occurs."""
    gauss, sign = ll.SingleIndex(ll.GaussianPrior()), ll.Sign(variance=0.1, flip=0.05)

    def fixed(loss, channel, algorithm, start=None, prior=None, alpha=2.0, student=None):
        return ll.Problem(
            teacher=gauss if prior is None else ll.SingleIndex(prior),
            channel=channel,
            sample_ratio=alpha,
            loss=loss,
            start=start,
            algorithm=algorithm,
            student=student,
        )

    def one_pass(student, teacher, start, **rule):
        return ll.Problem(
            teacher=teacher,
            channel=ll.GaussianNoise(0.1),
            student=student,
            loss=ll.SquareLoss(),
            start=start,
            algorithm=ll.OnlineSGD(**rule),
        )

    def sparse(text, activation, algorithm):
        return ll.Problem(
            inputs=ll.Hypercube(),
            teacher=ll.SparseTarget(text),
            channel=ll.GaussianNoise(0.2),
            student=ll.Committee(30, activation, second_layer="trained"),
            loss=ll.SquareLoss(),
            start=ll.RandomStart(second_layer="uniform"),
            algorithm=algorithm,
        )

    wide = ll.Committee(width=10, activation="square")
    return {
        "sgd_trained": one_pass(
            ll.Committee(3, "relu", second_layer="trained"),
            ll.Committee(2, "erf", output_weights=[1.0, -0.5]),
            ll.RandomStart(0.7, second_layer="gaussian", P=[[1.0, 0.2], [0.2, 0.8]]),
            learning_rate=0.5,
            batch_size=4,
            second_layer_rate=0.3,
        ),
        "sgd_overlap_start": one_pass(
            ll.Committee(2, "hermite(3)"),
            ll.Committee(1, "shifted(sigmoid, -0.5)"),
            ll.OverlapStart(Q=[[1.0, 0.1], [0.1, 0.5]], M=[[0.3], [0.0]], P=[[1.0]]),
            learning_rate=0.1,
        ),
        "sgd_spherical": one_pass(
            ll.Committee(4, "abs"),
            ll.Committee(2, "tanh"),
            ll.InformedStart(0.25),
            learning_rate=0.2,
            spherical=True,
        ),
        "sgd_linear": one_pass(
            ll.Committee(1, "linear"), ll.Committee(1, "sign"), ll.RandomStart(sphere=True), learning_rate=0.2
        ),
        "layerwise": sparse("z1 + z1*z2", "shifted(relu, 0.5)", ll.LayerwiseSGD(2.0, 1.0, interacting=False)),
        "layerwise_ridge": sparse("(z1 - z3)*z2 + 0.25", "tanh", ll.LayerwiseSGD(2.0, 1.0, 1e-3, ridge_samples=500)),
        "mixture_noisy": ll.Problem(
            inputs=ll.AnisotropicMixture(0.7, 0.25),
            student=ll.Committee(50, ll.piecewise((0.5, -2.5), (1.5, 7.5)), second_layer="trained", bias="trained"),
            loss=ll.SquareLoss(),
            start=ll.RandomStart(0.4, second_layer="rademacher", bias_scale=0.1),
            algorithm=ll.OnlineSGD(0.5, weight_decay=0.1, temperature=0.01, schedule=ll.PowerSchedule(0.25, onset=0.0)),
        ),
        "gamp_sign": fixed(None, sign, ll.GAMP(0.1, 30, 1e-8, "vector", "float32"), prior=ll.RademacherPrior()),
        "gamp_modulus": fixed(None, ll.Modulus(0.01), ll.GAMP(), ll.SpectralStart(0.4)),
        "gamp_sparse": fixed(None, ll.Rectified(0.1), ll.GAMP(), prior=ll.GaussBernoulliPrior(0.2, 5.0)),
        "gamp_door": fixed(None, ll.Door(0.7), ll.GAMP(), ll.InformedStart(0.1), ll.LaplacePrior(0.5)),
        "bayes_only": ll.Problem(teacher=gauss, channel=ll.SquaredModulus(0.2), sample_ratio=1.5),
        "erm_logistic": fixed(ll.LogisticLoss(), ll.Logistic(), ll.ERM(0.1)),
        "erm_hinge": fixed(ll.HingeLoss(), sign, ll.ERM(0.5), prior=ll.GaussianPrior(2.0)),
        "erm_margin": fixed(ll.MaxMargin(), ll.Sign(), ll.ERM()),
        "erm_square": fixed(ll.SquareLoss(), sign, ll.ERM(1.0)),
        "erm_huber": fixed(ll.HuberLoss(0.7), ll.GaussianNoise(0.3), ll.ERM(0.1)),
        "erm_pseudo_huber": fixed(ll.PseudoHuberLoss(0.7), ll.GaussianNoise(0.3), ll.ERM(0.1)),
        "erm_custom": fixed(
            ll.CustomLoss("abs", of="residual", kinks=(0.0,), scale=0.5), ll.GaussianNoise(0.3), ll.ERM(0.1)
        ),
        "descent_amplitude": fixed(
            ll.AmplitudeLoss(0.25), ll.Modulus(), ll.GradientDescent(0.02, False, 0.1), ll.RandomStart(0.5)
        ),
        "descent_stochastic": fixed(
            ll.SquaredHingeLoss(0.8), sign, ll.StochasticGD(0.02, 0.5, scale="1"), ll.InformedStart(0.2)
        ),
        "descent_persistent": fixed(
            ll.PhaseRetrievalLoss(0.5, "intensity"),
            ll.SquaredModulus(),
            ll.PersistentSGD(0.02, 0.5, 0.4),
            ll.InformedStart(0.2),
        ),
        "descent_langevin": fixed(
            ll.PhaseRetrievalLoss(), ll.Modulus(), ll.Langevin(0.02, 0.1), ll.RandomStart(), alpha=3.0
        ),
        "descent_wide": fixed(
            ll.SquareLoss(), ll.SquaredModulus(), ll.GradientDescent(0.1, False), ll.RandomStart(), student=wide
        ),
    }


def swept(store):
    """The sweep whose store is kept: four points of simulations."""
    return ll.sweep(
        ll.simulate,
        written()["sgd_linear"],
        {"algorithm.learning_rate": [0.1, 0.2], "d": [10, 20]},
        times=TIMES,
        replicas=2,
        seed=5,
        store=store,
    )


def results(store):
    """What the result files hold, by their names."""
    problem = written()["sgd_spherical"]
    return {
        "simulate": ll.simulate(problem, d=20, times=TIMES, replicas=2, seed=3),
        "predict": ll.predict(problem, ll.OverlapODE(d=50, replicas=2, seed=3), times=TIMES),
        "sweep": swept(store),
    }


def main(folder):
    folder = Path(folder)
    problems, hashes = {**library(), **written()}, {}
    for part in ("problems", "results"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    for name, problem in problems.items():
        path = ll.save_spec(problem, folder / "problems" / f"{name}.toml")
        hashes[name] = ll.spec_hash(problem)
        assert ll.spec_hash(ll.load_spec(path)) == hashes[name], name
    (folder / "spec_hashes.json").write_text(json.dumps(hashes, indent=2) + "\n")
    for name, ds in results(folder / "store").items():
        path = ll.save(ds, folder / "results" / f"{name}.nc")
        for key, values in ll.load(path).variables.items():
            np.testing.assert_array_equal(values.values, ds[key].values)


if __name__ == "__main__":
    main(sys.argv[1])
