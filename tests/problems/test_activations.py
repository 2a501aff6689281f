"""Activations: one class each, equal by value, with their lines, smoothers and texts."""

import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

import limitlab as ll
from limitlab.numerics.gauss.normal import erf
from limitlab.numerics.gauss.smoothing import (
    ErfSmoother,
    LogisticSmoother,
    PiecewiseSmoother,
    PolynomialSmoother,
    TrapezoidSmoother,
)

RAMP = "piecewise((-1.0, 0.5), (0.25, 2.0), (1.5, -1.0))"
TEXTS = {
    "erf": ErfSmoother,
    "relu": PiecewiseSmoother,
    "square": PolynomialSmoother,
    "linear": PolynomialSmoother,
    "tanh": LogisticSmoother,
    "sigmoid": LogisticSmoother,
    "sign": TrapezoidSmoother,
    "abs": PiecewiseSmoother,
    "hermite(3)": PolynomialSmoother,
    RAMP: PiecewiseSmoother,
    "shifted(tanh, 0.5)": LogisticSmoother,
    "shifted(shifted(erf, 1.0), 0.25)": ErfSmoother,
    "shifted(abs, -0.4)": PiecewiseSmoother,
    "shifted(hermite(2), 0.3)": PolynomialSmoother,
}


@pytest.mark.parametrize("text", TEXTS)
def test_an_activation_is_its_text(text):
    one, two = ll.activation(text), ll.activation(text)
    assert one == two and hash(one) == hash(two) and one.name == text and repr(one) == f'"{text}"'
    copy = pickle.loads(pickle.dumps(one))
    assert copy == one and hash(copy) == hash(one)
    assert jax.tree.structure(one) == jax.tree.structure(copy) and not jax.tree.leaves(one)
    others = [ll.activation(other) for other in TEXTS if other != text]
    assert one not in others


@pytest.mark.parametrize("text", TEXTS)
def test_smoothers_average_over_a_gaussian(text):
    sigma = ll.activation(text)
    rounded = sigma.smoother()
    assert isinstance(rounded, TEXTS[text]) and sigma.smoother(0.9) is rounded  # widths are rounded up: few rules
    x, w = np.linspace(-9, 9, 180_001), 0.6
    for m in (-0.7, 0.3):
        values = np.asarray(sigma(jnp.asarray(m + w * x))) * np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi)
        got = float(rounded(jnp.asarray(m), jnp.asarray(w)).value)
        assert abs(got - np.sum(values) * (x[1] - x[0])) < (0.1 if text == "sign" else 2e-4)


@pytest.mark.parametrize("text", TEXTS)
def test_pieces_and_unit_functions_are_the_function(text):
    sigma = ll.activation(text)
    x = jnp.asarray([[-3.1, -1.2, -0.3], [0.2, 0.9, 2.6]])
    value, slope = sigma.unit_functions()
    np.testing.assert_allclose(value(x), sigma(x), rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(slope(x), jax.vmap(jax.vmap(sigma.derivative))(x), rtol=1e-13, atol=1e-12)
    pieces = sigma.pieces()
    assert (pieces is not None) == (TEXTS[text] is PiecewiseSmoother or text == "linear")
    if pieces is not None:
        lines = pieces.level + pieces.tilt * x + np.maximum(x[..., None] - pieces.places, 0) @ pieces.bends
        np.testing.assert_allclose(lines, sigma(x), atol=1e-12)


def test_the_lines_of_a_users_function_are_found_and_a_curve_has_none():
    leaky = ll.activation(lambda x: jnp.maximum(x, 0.3 * x))
    np.testing.assert_allclose(leaky.pieces().bends, [0.7], atol=1e-9)
    np.testing.assert_allclose(ll.shifted(leaky, 0.5).pieces().places, [-0.5], atol=1e-9)
    constant = ll.activation(lambda x: 0.4 + 0.0 * x)
    assert constant.pieces() is not None  # a line of one level; it has the shape of its argument
    np.testing.assert_array_equal(constant.unit_functions()[0](jnp.zeros((2, 3))), np.full((2, 3), 0.4))
    assert not leaky.named and not ll.shifted(leaky, 0.5).named
    assert ll.activation(jnp.sin).pieces() is None
    assert isinstance(ll.activation(jnp.sin).smoother(), TrapezoidSmoother)
    assert ll.activation(jnp.sin) == ll.activation(jnp.sin) != ll.activation(jnp.cos)


def test_a_class_of_the_users_own_is_an_activation():
    class Cubic(ll.Activation):
        @property
        def name(self):
            return "cubic"

        def function(self, x):
            return x**3

        def derivative(self, x):
            return 3 * x**2

    def problem():
        network = {"width": 2, "activation": Cubic()}
        parts = {"teacher": ll.Committee(**network), "student": ll.Committee(**network), "loss": ll.SquareLoss()}
        return ll.Problem(algorithm=ll.OnlineSGD(0.1), start=ll.InformedStart(0.3), **parts)

    one, two = (ll.simulate(problem(), 10, [0.0, 0.05]) for _ in range(2))
    np.testing.assert_array_equal(one.risk, two.risk)
    assert np.isfinite(one.risk).all()
    assert not Cubic().flat and ll.activation("sign").flat


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float32", "float64"])
def test_the_error_function_in_every_precision(kind):
    """Coefficients and powers, from 1e-17 to 6^24, are no numbers in float16, where it was wrong by 1 from 4 on."""
    x = jnp.linspace(-9.0, 9.0, 721).astype(kind)
    got = jax.jit(lambda x: erf(x, jnp))(x)
    assert got.dtype == x.dtype
    exact = special.erf(np.asarray(x, float))
    np.testing.assert_allclose(np.asarray(got, float), exact, atol=4 * float(jnp.finfo(kind).eps))


def test_a_fresh_problem_with_an_equal_activation_compiles_nothing():
    compiled = []

    def listen(event, *_, **__):
        if "backend_compile" in event:
            compiled.append(event)

    def run():
        parts = {"student": ll.Committee(2, "shifted(erf, 0.25)"), "teacher": ll.Committee(1, "erf")}
        problem = ll.Problem(loss=ll.SquareLoss(), algorithm=ll.OnlineSGD(0.1), start=ll.InformedStart(0.3), **parts)
        compiled.clear()
        ll.simulate(problem, 10, [0.0, 0.05])
        return len(compiled)

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        assert run() > 0
        assert run() == 0
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
