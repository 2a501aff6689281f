"""The square on fixed data sets: GAMP at d = 2000 follows state evolution at every iteration, for all parts."""

import pytest

import limitlab as ll

START = ll.InformedStart(overlap=0.2)
PAIRS = {
    "sign": (ll.GaussianPrior(), ll.Sign(), 1.5, None),
    "noisy sign": (ll.RademacherPrior(), ll.Sign(variance=0.2), 1.2, None),
    "flipped sign": (ll.GaussBernoulliPrior(0.3), ll.Sign(flip=0.1), 2.0, None),
    "linear": (ll.GaussBernoulliPrior(0.2), ll.GaussianNoise(variance=0.05), 0.6, None),
    "relu": (ll.LaplacePrior(0.7), ll.Rectified(), 1.2, None),
    "noisy relu": (ll.RademacherPrior(), ll.Rectified(variance=0.2), 1.2, None),
    "logistic": (ll.LaplacePrior(2.0), ll.Logistic(), 2.0, None),
    "door": (ll.GaussianPrior(), ll.Door(width=0.6), 1.8, START),
    "modulus": (ll.GaussianPrior(2.0), ll.Modulus(), 0.8, START),
    "noisy modulus": (ll.GaussBernoulliPrior(0.5), ll.Modulus(variance=0.1), 1.5, START),
    "square": (ll.GaussianPrior(), ll.SquaredModulus(variance=0.5), 1.5, START),
}


def problem(name, alpha_factor=1.0):
    prior, channel, alpha, start = PAIRS[name]
    return ll.Problem(
        teacher=ll.SingleIndex(prior),
        channel=channel,
        sample_ratio=alpha * alpha_factor,
        start=start,
        algorithm=ll.GAMP(iterations=10),
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", PAIRS)
def test_gamp_follows_state_evolution(name):
    sim = ll.simulate(problem(name), d=2000, replicas=16, seed=5)
    gap = ll.compare(sim, ll.predict(problem(name), ll.StateEvolution()))
    assert gap.agrees, str(gap)


@pytest.mark.slow
def test_the_square_is_open_for_a_wrong_sample_ratio():
    """Negative control: a sample ratio 10 % off must be seen."""
    sim = ll.simulate(problem("sign"), d=2000, replicas=16, seed=5)
    wrong = ll.predict(problem("sign", 1.1), ll.StateEvolution())
    assert not ll.compare(sim, wrong, check_problem=False).agrees


@pytest.mark.slow
def test_gamp_from_a_random_start_follows_the_mismatched_equations():
    """Off the Nishimori line (q = 0.3 V, m = 0): sign labels, a start that knows nothing and is too sure of it."""
    random = ll.Problem(
        teacher=ll.SingleIndex(ll.GaussianPrior()),
        channel=ll.Sign(),
        sample_ratio=1.5,
        start=ll.RandomStart(scale=0.5),
        algorithm=ll.GAMP(iterations=8),
    )
    sim = ll.simulate(random, d=2000, replicas=16, seed=6)
    gap = ll.compare(sim, ll.predict(random, ll.StateEvolution()))
    assert gap.agrees, str(gap)
