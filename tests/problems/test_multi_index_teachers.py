"""Multi-index teachers: links by name, by text and by function; ties; refusals that point at the place."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import erf

import limitlab as ll
from limitlab.errors import InputError, SpecError
from limitlab.spec import dumps, loads, spec_hash

Z = np.random.default_rng(3).normal(size=(500, 3))
S = np.sign(Z)
NAMED = {
    "sign_sum": S.sum(1),
    "majority": np.sign(S.sum(1)),
    "parity": S.prod(1),
    "product": Z.prod(1),
    "squares": (Z**2).mean(1),
    "and": (Z > 0).all(1).astype(float),
}
TEXTS = {
    "z1^2 + sign(z1*z2*z3)": Z[:, 0] ** 2 + S.prod(1),
    "-z1**3/4 + 2*abs(z2)*relu(z3) - 1": -(Z[:, 0] ** 3) / 4 + 2 * abs(Z[:, 1]) * np.maximum(Z[:, 2], 0) - 1,
    "(erf(z1) + tanh(z2))^2*z3": (erf(Z[:, 0] / np.sqrt(2)) + np.tanh(Z[:, 1])) ** 2 * Z[:, 2],
}


@pytest.mark.parametrize("link", NAMED | TEXTS)
def test_links_mean_what_they_say(link):
    right = (NAMED | TEXTS)[link]
    teacher = ll.MultiIndex(3, link)
    assert np.allclose(teacher.link.on_host(Z), right, atol=1e-14)
    assert np.allclose(teacher.link(jnp.asarray(Z)), right, atol=1e-12)


def test_labels_are_the_value_of_the_link_and_directions_are_orthonormal():
    teacher = ll.MultiIndex(2, "z1 + z1*z2")
    W = teacher.draw(jax.random.key(0), 50)
    assert np.allclose(W @ W.T / 50, np.eye(2), atol=1e-12)
    x = jax.random.normal(jax.random.key(1), (7, 50)) / np.sqrt(50)
    z = np.asarray(x @ W.T)
    assert np.allclose(ll.GaussianNoise().sample(jax.random.key(2), teacher.output(W, x)), z[:, 0] * (1 + z[:, 1]))
    rough = ll.MultiIndex(2, "parity", prior=ll.RademacherPrior()).draw(jax.random.key(0), 40)
    assert rough.shape == (2, 40)
    assert np.all(np.abs(rough) == 1)


def test_a_tie_is_zero_or_a_fair_coin_that_nothing_else_tells():
    z = np.random.default_rng(5).normal(size=(100_000, 2))
    tie = z[:, 0] * z[:, 1] < 0
    zero = ll.MultiIndex(2, "majority", ties="zero").link.on_host(z)
    coin = ll.MultiIndex(2, "majority", ties="coin").link.on_host(z)
    assert np.all(zero[tie] == 0)
    assert np.array_equal(zero[~tie], coin[~tie])
    tossed = coin[tie]
    assert np.all(np.abs(tossed) == 1)
    for feature in (np.ones(tie.sum()), z[tie, 0], z[tie].sum(1), z[tie, 0] ** 2 - 1, np.sin(50 * z[tie, 1])):
        score = np.mean(tossed * feature) / np.sqrt(np.mean(feature**2) / tie.sum())
        assert abs(score) < 4
    assert np.allclose(ll.MultiIndex(2, "majority", ties="coin").link(jnp.asarray(z)), coin)


def test_parity_of_the_output():
    for link, parity in (("majority", -1), ("parity", 1), ("squares", 1), ("and", 0), ("z1 + z1*z2", 0)):
        ties = "coin" if link == "majority" else None
        assert ll.MultiIndex(2, link, ties=ties).parity == parity


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"width": 0, "link": "parity"}, "width must be a whole number >= 1"),
        ({"width": 2, "link": "majority"}, "ties must be"),
        ({"width": 2, "link": "parity", "ties": "coin"}, "Leave it out"),
        ({"width": 2, "link": "majority", "ties": "heads"}, "ties must be one of"),
        ({"width": 3, "link": "z1*z2"}, "ignores z3"),
        ({"width": 2, "link": "z1 + z2 - z2"}, "ignores z2"),
        ({"width": 2, "link": "1 + 0*z1"}, "must not be constant"),
        ({"width": 2, "link": lambda z: z[0]}, "ignores z2"),
        ({"width": 2, "link": lambda z: 0 * z[0]}, "must not be constant"),
        ({"width": 2, "link": lambda z: z}, "gives shape"),
        ({"width": 2, "link": lambda z: z[0] * z[2]}, "Count from 0"),
        ({"width": 2, "link": lambda z: 1j * z[0] * z[1]}, "gives a complex one"),
        ({"width": 2, "link": lambda z: 1 / (z[0] > z[1])}, "finite"),
        ({"width": 2, "link": "majorty"}, "Did you mean 'majority'"),
        ({"width": 2, "link": 3}, "must be one of"),
        ({"width": 2, "link": "z1*z2", "prior": ll.GaussianPrior(2.0)}, "E w^2 = 1"),
        ({"width": 2, "link": "z1*z2", "prior": 1.0}, "must be a prior"),
        ({"width": 2, "link": " "}, "empty"),
    ],
)
def test_refusals(arguments, words):
    with pytest.raises(InputError) as caught:
        ll.MultiIndex(**arguments)
    assert words in str(caught.value).replace("\n", " ")


@pytest.mark.parametrize(
    ("text", "at", "words"),
    [
        ("z1 + sin(z2)", 6, "unknown function 'sin'"),
        ("z1 + z2*z3", 9, "beyond the width"),
        ("z1 + q", 6, "unknown variable 'q'"),
        ("z1 + sign z2", 11, "sign needs a '('"),
        ("z1/z2", 4, "division is by a number"),
        ("z2 + z1^0.5", 9, "whole number"),
        ("z1*(z2 + 1", 11, "')' is missing"),
        ("z1 z2", 4, "follows without a sign"),
        ("z1 + $z2", 6, "cannot be read"),
        ("z1*__import__('os')*z2", 4, "unknown function"),
    ],
)
def test_a_text_that_cannot_be_read_points_at_the_place(text, at, words):
    with pytest.raises(InputError) as caught:
        ll.MultiIndex(2, text)
    message = str(caught.value)
    assert f"at character {at}." in message
    assert words in message
    lines = message.splitlines()
    assert lines[-1].index("^") - 4 == at - 1


def test_files_bring_teachers_back():
    teachers = [
        ll.MultiIndex(3, "z1^2 + sign(z1*z2*z3)"),
        ll.MultiIndex(2, "majority", ties="coin"),
        ll.MultiIndex(2, "majority", ties="zero"),
        ll.MultiIndex(4, "sign_sum", prior=ll.RademacherPrior()),
    ]
    problems = [ll.Problem(teacher=teacher, sample_ratio=2.0) for teacher in teachers]
    for problem in problems:
        assert loads(dumps(problem)) == problem
    assert len({spec_hash(problem) for problem in problems}) == len(problems)
    mine = dataclasses.replace(problems[0], teacher=ll.MultiIndex(2, lambda z: jnp.tanh(z[0] + z[1] ** 3)))
    other = dataclasses.replace(problems[0], teacher=ll.MultiIndex(2, lambda z: jnp.tanh(z[0] - z[1] ** 3)))
    assert len({spec_hash(problem) for problem in (problems[0], mine, other)}) == 3
    with pytest.raises(SpecError, match="Python function"):
        dumps(mine)
    text = dumps(problems[0]).replace("sign(", "sine(")
    with pytest.raises(SpecError, match=r"teacher.link: .*unknown function 'sine'"):
        loads(text)


def test_width_can_be_swept_and_teachers_print_as_code():
    problem = ll.Problem(teacher=ll.MultiIndex(3, "sign_sum"), sample_ratio=2.0)
    wide = dataclasses.replace(problem.teacher, width=5)
    assert wide == ll.MultiIndex(5, "sign_sum")
    assert repr(wide) == 'MultiIndex(width=5, link="sign_sum")'
    assert eval(repr(ll.MultiIndex(2, "majority", ties="zero")), vars(ll)) == ll.MultiIndex(2, "majority", ties="zero")
    assert all(a != b for a, b in itertools.combinations([wide, problem.teacher, ll.MultiIndex(3, "parity")], 2))
