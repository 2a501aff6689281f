"""Parts refuse what they cannot be, in words that name the field, the value and the remedy."""

import jax.numpy as jnp
import numpy as np
import pytest

import limitlab as ll
from cases import committee

BAD = {
    "negative noise": (lambda: ll.GaussianNoise(variance=-0.1), ["GaussianNoise.variance", "-0.1"]),
    "NaN noise": (lambda: ll.GaussianNoise(variance=float("nan")), ["GaussianNoise.variance", "nan"]),
    "zero rate": (lambda: ll.OnlineSGD(learning_rate=0.0), ["OnlineSGD.learning_rate", "0.0"]),
    "negative rate": (lambda: ll.OnlineSGD(learning_rate=-1), ["OnlineSGD.learning_rate", "-1"]),
    "rate as text": (lambda: ll.OnlineSGD(learning_rate="fast"), ["OnlineSGD.learning_rate", "fast"]),
    "zero width": (lambda: ll.Committee(width=0), ["Committee.width", "0"]),
    "fractional width": (lambda: ll.Committee(width=1.5), ["Committee.width", "1.5"]),
    "overlap above one": (lambda: ll.InformedStart(overlap=1.2), ["InformedStart.overlap", "1.2"]),
    "asymmetric Q": (
        lambda: ll.OverlapStart(Q=[[1, 0.2], [0.1, 1]], M=[[0.0], [0.0]], P=1.0),
        ["OverlapStart.Q", "symmetric"],
    ),
    "overlap beyond Cauchy-Schwarz": (
        lambda: ll.OverlapStart(Q=1.0, M=1.5, P=1.0),
        ["OverlapStart.Omega", "positive semi-definite"],
    ),
    "wrong shapes": (lambda: ll.OverlapStart(Q=np.eye(2), M=[[0.1, 0.2]], P=1.0), ["OverlapStart", "(2, 2)"]),
    "unknown activation": (lambda: ll.Committee(width=1, activation="rellu"), ["activation", "rellu", "relu"]),
    "unknown second layer": (
        lambda: ll.Committee(width=1, second_layer="learned"),
        ["Committee.second_layer", "learned", "trained"],
    ),
    "too few output weights": (
        lambda: ll.Committee(width=3, output_weights=[1.0, 2.0]),
        ["Committee.output_weights", "3"],
    ),
    "hermite of negative degree": (lambda: ll.hermite(-1), ["hermite.k", "-1"]),
    "unsorted knots": (lambda: ll.piecewise((1.0, 0.0), (0.0, 1.0)), ["piecewise.knots", "increasing"]),
    "numpy-only function": (lambda: ll.Committee(width=1, activation=lambda x: np.sin(float(x))), ["jax.numpy"]),
    "alpha": (
        lambda: ll.Problem(teacher=ll.Committee(width=1), sample_ratio=0.0),
        ["Problem.sample_ratio", "0.0"],
    ),
    "trained teacher": (
        lambda: ll.Problem(teacher=ll.Committee(width=1, second_layer="trained")),
        ["Problem.teacher", "fixed"],
    ),
    "class instead of object": (
        lambda: ll.Problem(teacher=ll.Committee(width=1), algorithm=ll.OnlineSGD),
        ["Problem.algorithm", "OnlineSGD"],
    ),
    "start of another width": (
        lambda: committee(p=3, k=1, start=ll.OverlapStart(Q=np.eye(2), M=[[0.1], [0.1]], P=1.0)),
        ["Problem.start", "width 3"],
    ),
    "times not increasing": (lambda: ll.simulate(committee(), 10, [1.0, 0.5]), ["times", "1", "0.5"]),
    "negative times": (lambda: ll.predict(committee(), ll.OverlapODE(), [-1.0]), ["times", "-1"]),
    "no times": (lambda: ll.predict(committee(), ll.OverlapODE(), []), ["times"]),
    "d too small": (lambda: ll.simulate(committee(p=2, k=2), 3, [0.1]), ["d must be at least 4", "d=3"]),
    "fractional d": (lambda: ll.simulate(committee(), 10.5, [0.1]), ["simulate.d", "10.5"]),
    "no replicas": (lambda: ll.simulate(committee(), 10, [0.1], replicas=0), ["simulate.replicas", "0"]),
    "unknown representation": (
        lambda: ll.simulate(committee(), 10, [0.1], representation="spins"),
        ["simulate.representation", "spins"],
    ),
    "limit class": (lambda: ll.predict(committee(), ll.OverlapODE, [0.1]), ["OverlapODE()"]),
    "not a problem": (lambda: ll.simulate("problem", 10, [0.1]), ["Problem"]),
    "student without gradient": (lambda: ll.simulate(committee(student="sign"), 10, [0.1]), ["sign", "erf"]),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_in_words(name):
    make, words = BAD[name]
    with pytest.raises(ll.errors.InputError) as caught:
        make()
    for word in words:
        assert word in str(caught.value), str(caught.value)


def test_a_missing_part_is_named():
    problem = ll.Problem(teacher=ll.Committee(width=1), algorithm=ll.OnlineSGD(learning_rate=0.1))
    with pytest.raises(ll.errors.InputError, match=r"Problem\.student"):
        ll.simulate(problem, 10, [0.1])


def test_limits_say_why_they_do_not_apply_and_what_to_try():
    fixed = ll.Problem(
        teacher=ll.Committee(width=1),
        student=ll.Committee(width=1),
        loss=ll.SquareLoss(),
        start=ll.RandomStart(),
        sample_ratio=2.0,
        algorithm=ll.OnlineSGD(learning_rate=0.1),
    )
    why = ll.limits(fixed)["OverlapODE"]
    assert "sample_ratio=2.0" in why
    assert "fresh sample" in why
    assert ll.limits(committee())["OverlapODE"] == "applies"
    with pytest.raises(ll.errors.LimitUndefinedError):
        ll.predict(fixed, ll.OverlapODE(), [1.0])


def test_nouns_are_frozen():
    with pytest.raises(Exception, match=r"cannot assign|frozen|FrozenInstance"):
        committee().algorithm.learning_rate = 1.0


@pytest.mark.parametrize("name", ["erf", "relu", "square", "linear", "tanh", "sigmoid", "abs", "hermite(4)"])
def test_terms_derivatives_and_functions_are_the_same_activation(name):
    """The declared derivative is the automatic one, and E sigma(s) s = E sigma'(s) (Stein) holds for the terms."""
    import jax

    from limitlab.numerics.gauss.terms import Term, expectation

    f = ll.activation(name)
    x = jnp.array([-2.1, -0.4, 0.3, 1.7])
    np.testing.assert_allclose(jax.vmap(jax.grad(f.function))(x), jax.vmap(f.derivative)(x), rtol=1e-12, atol=1e-14)
    one = jnp.asarray(1.0)
    left = expectation([f.terms, (Term(1.0, 1),)], lambda a, b: one, labels=[0, 0])
    right = expectation([f.derivative_terms], lambda a, b: one)
    np.testing.assert_allclose(left, right, rtol=1e-12, atol=1e-12)


def test_piecewise_and_shifted_do_what_they_say():
    ramp = ll.piecewise((0.5, -2.5), (1.5, 7.5))
    assert [float(ramp(x)) for x in (0.0, 1.0, 9.0)] == [-2.5, 2.5, 7.5]
    assert [float(ramp.derivative(x)) for x in (0.0, 1.0, 9.0)] == [0.0, 10.0, 0.0]
    assert float(ll.shifted("relu", 0.5)(0.25)) == 0.75
    assert ll.activation(ramp.name).name == ramp.name


def test_saad_solla_scaling_is_translated():
    """A plain sum with rate eta: one step must move w_i by eta * sigma' * error * x."""
    problem = ll.library.soft_committee(width=3, learning_rate=0.4)
    p = problem.student.width
    np.testing.assert_allclose(problem.algorithm.learning_rate / p * problem.student.output_weights, 0.4)
    np.testing.assert_allclose(problem.teacher.output_weights / p, 1.0)
    assert problem.algorithm.clock(problem, 100) == pytest.approx(0.4 / (3 * 100))
