"""Small simulations side by side in one compiled march are what each is alone."""

import dataclasses
import functools

import jax
import numpy as np
import pytest

import limitlab as ll
from cases import committee, spread
from limitlab.micro.online_family import family, family_key
from limitlab.results.points import families_of, in_families
from limitlab.sweep.storage.store import Store

TIMES = [0.0, 0.3, 1.0]
START = ll.InformedStart(overlap=0.3)


CASES = {
    "weights": (spread(), "weights"),
    "overlaps": (spread(), "overlaps"),
    "one unit, linear": (spread(student="linear", teacher="linear", p=1, k=1), "weights"),
    "trained second layer": (spread(trained=True, second_layer_rate=0.5, start=ll.RandomStart()), "overlaps"),
    "random second layer": (spread(trained=True, start=ll.RandomStart(second_layer="gaussian")), "weights"),
    "sphere, batches": (spread(spherical=True, batch_size=2), "overlaps"),
    "batches by weights": (spread(batch_size=3, p=3, k=1), "weights"),
}


def worth(patch, smallest):
    """So few simulations are worth a call."""
    patch.setattr(ll.simulate, "families", dataclasses.replace(families_of(ll.simulate), smallest=smallest))


SEEDS = [7 + 2**40 * n for n in range(8)]


def check_members(found, problems, members, representation):
    for n in members:
        alone = ll.simulate(problems[n], 20, TIMES, 2, SEEDS[n], representation)
        for name, x in {**alone.data_vars, **alone.coords}.items():
            ours = found[n][name]
            assert (ours.dims, ours.dtype, ours.shape) == (x.dims, x.dtype, x.shape)
            if x.dtype.kind == "f":
                np.testing.assert_allclose(ours, x, rtol=1e-10, atol=1e-12, err_msg=str(name))
            else:
                assert np.array_equal(ours, x), name
        assert {k: v for k, v in found[n].attrs.items() if k != "created"} == {
            k: v for k, v in alone.attrs.items() if k != "created"
        }


@pytest.mark.more_of("overlaps", "batches by weights", "sphere, batches", "random second layer", "trained second layer")
@pytest.mark.parametrize("name", CASES)
def test_each_member_is_what_simulate_gives(name):
    """The first has no noise on its labels, which is another program when it is alone: here for two, below for all."""
    problems, representation = CASES[name]
    found = family(problems, SEEDS, 20, TIMES, 2, representation)
    check_members(found, problems, (0, 3, 7) if name in ("weights", "overlaps") else (3, 7), representation)
    assert len({int(x.step[-1]) for x in found}) > 3  # each went its own number of steps
    # Another seed is another run.
    other = ll.simulate(problems[3], 20, TIMES, 2, SEEDS[2], representation)
    assert abs(other.Q.values[-1] - found[3].Q.values[-1]).max() > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_a_member_without_noise_is_what_simulate_gives(name):
    problems, representation = CASES[name]
    check_members(family(problems, SEEDS, 20, TIMES, 2, representation), problems, (0,), representation)


@pytest.mark.parametrize("representation", [pytest.param("weights", marks=pytest.mark.more), "overlaps"])
def test_a_member_depends_neither_on_the_others_nor_on_its_place(representation):
    problems = spread(12, student="square", teacher="square", start=START, learning_rate=0.05)
    problems += [dataclasses.replace(problems[0], algorithm=ll.OnlineSGD(learning_rate=5.0))]  # dies
    rng, seen, dead = np.random.default_rng(1), {}, 0
    for members in [list(range(8)), *(rng.permutation(12)[:8].tolist() for _ in range(3)), [12, 3, 3, 4, 5, 6, 7, 0]]:
        results = family([problems[n] for n in members], [100 + n for n in members], 30, TIMES, 2, representation)
        for n, result in zip(members, results, strict=True):
            assert set(result.status.values.tolist()) == ({"diverged"} if n == 12 else {"ok"})
            dead += n == 12
            for name, x in result.data_vars.items():
                first = seen.setdefault((n, name), x.values)
                assert np.array_equal(first, x.values, equal_nan=x.dtype.kind == "f"), (n, name)
    assert dead == 1
    assert len({n for n, _ in seen}) > 8


def test_who_may_be_in_a_family():
    one = committee()
    key = family_key(one, 20, TIMES)
    assert key is not None
    assert key == family_key(committee(learning_rate=0.7, variance=0.3), 20, TIMES)
    assert key != family_key(committee(p=3), 20, TIMES)
    assert key != family_key(committee(batch_size=2), 20, TIMES)
    for alone in (
        family_key(one, 3, TIMES),  # fewer dimensions than units: the start is looked at more closely
        family_key(one, 10_000, TIMES),  # large enough to fill the processor
        family_key(one, 100, [1e7]),  # long enough to be kept one by one
        family_key(one, 100.0, TIMES),
        family_key(committee(temperature=0.1), 20, TIMES),  # draws noise of its own
        family_key(one, 100, TIMES, representation="pictures"),
        family_key(ll.Problem(teacher=ll.SingleIndex(ll.GaussianPrior()), algorithm=ll.GAMP()), 100, TIMES),
    ):
        assert alone is None
    with pytest.raises(ll.errors.InputError, match="numbers only"):
        family([one, committee(p=3)], [0, 1], 20, TIMES)


@pytest.mark.more
def test_a_sweep_uses_it_and_loses_nothing_by_it(tmp_path, monkeypatch):
    calls = []
    counted = lambda *a, **k: calls.append(len(a[0])) or family(*a, **k)  # noqa: E731
    monkeypatch.setattr("limitlab.micro.online_family.family", counted)
    worth(monkeypatch, 20)
    grid = {"algorithm.learning_rate": np.linspace(0.2, 0.8, 5), "channel.variance": [0.0, 0.1, 0.2, 0.3], "d": [8, 9]}
    keywords = {"times": TIMES, "replicas": 2, "seed": 4}
    base = committee(p=1, k=1, variance=0.1, start=START)
    whole = ll.sweep(ll.simulate, base, grid, **keywords)
    assert calls == [32, 32]
    assert (whole.status == "ok").all()
    # Stored, half of it gone, computed again: the same bits.
    store = Store(tmp_path / "store")
    stored = ll.sweep(ll.simulate, base, grid, store=store, **keywords)
    for key in list(store.keys())[::2]:
        store.remove(key)
    again = ll.sweep(ll.simulate, base, grid, store=store, **keywords)
    for found in (stored, again):
        np.testing.assert_array_equal(found.Q, whole.Q)
    # One point alone, from the seed that its file states.
    point = store.read(next(iter(store.keys())))
    here, seed = point.attrs["provenance"]["point"]["table"], point.attrs["provenance"]["seed"]
    problem = dataclasses.replace(
        base,
        algorithm=ll.OnlineSGD(learning_rate=here["algorithm.learning_rate"]),
        channel=ll.GaussianNoise(variance=here["channel.variance"]),
    )
    alone = ll.simulate(problem, here["d"], TIMES, 2, seed)
    np.testing.assert_allclose(point.variables["Q"][1], alone.Q, rtol=1e-10)


def test_a_refused_member_is_refused_alone(monkeypatch):
    """The others are computed together all the same."""
    worth(monkeypatch, 8)
    rates = [*np.linspace(0.1, 0.8, 9), -1.0]
    found = ll.sweep(ll.simulate, committee(start=START), {"algorithm.learning_rate": rates}, d=10, times=TIMES)
    assert found.status.values[:, 0].tolist() == ["ok"] * 9 + ["failed"]
    assert np.isnan(found.risk.values[-1]).all()
    assert np.isfinite(found.risk.values[:-1]).all()


def test_a_verb_of_ones_own_may_do_many_and_a_wrapper_does_not_pass_for_what_it_wraps(monkeypatch):
    """A verb is asked how it does many points; none is known by its name."""
    calls = []

    def many(problems, seeds, keywords):
        calls.append(len(problems))
        return [rate(problem) for problem in problems]

    @in_families(4, lambda problem, keywords: "all", many)
    def rate(problem):
        return 2 * problem.algorithm.learning_rate

    grid = {"algorithm.learning_rate": [0.1, 0.2, 0.3, 0.4, 0.5]}
    assert ll.sweep(rate, committee(), grid).rate.values.tolist() == [0.2, 0.4, 0.6, 0.8, 1.0]
    assert calls == [8]  # filled up to a power of two

    @functools.wraps(ll.simulate)  # carries all attributes of simulate
    def twice(problem, **keywords):
        return ll.simulate(problem, **keywords).assign(a=1.0)

    worth(monkeypatch, 4)
    assert families_of(twice) is None is families_of(functools.partial(ll.simulate, d=10))
    found = ll.sweep(twice, committee(start=START), grid, d=10, times=TIMES)
    assert found.a.values.tolist() == [1.0] * 5


def test_a_rule_that_changes_a_step_has_no_chain_and_no_family():
    """Unless it says so: overlaps and calls of many problems would follow the rule that it was made from."""

    class Half(ll.OnlineSGD):
        def move(self, setting, d, state, gradient, sample, n):
            return super().move(setting, d, state, jax.tree.map(lambda g: g / 2, gradient), sample, n)

    class Named(ll.OnlineSGD):
        pass

    problem, half, named = (
        dataclasses.replace(committee(start=START), algorithm=rule(0.5)) for rule in (ll.OnlineSGD, Half, Named)
    )
    assert family_key(problem, 20, TIMES) is not None is not family_key(named, 20, TIMES)
    assert family_key(half, 20, TIMES) is None
    slow = ll.simulate(dataclasses.replace(problem, algorithm=ll.OnlineSGD(0.25)), 20, [0.0, 0.5])
    np.testing.assert_allclose(ll.simulate(half, 20, [0.0, 1.0]).Q[-1], slow.Q[-1])
    with pytest.raises(ll.errors.InputError, match="follows OnlineSGD"):
        ll.simulate(half, 20, TIMES, representation="overlaps")
