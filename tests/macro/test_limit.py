"""What a limit is: one of a user's own, names and usual limits, what is refused and in which words."""

from typing import ClassVar

import numpy as np
import pytest

import limitlab as ll
from cases import committee, mixture
from limitlab.algorithms.settings.one_pass import CommitteeOnePass, LabelledOnePass, SparseOnePass
from limitlab.macro.predict import LIMITS
from limitlab.problems.asked import Asked
from limitlab.results.schema import Variable, dataset

TIMES = np.array([0.0, 0.5, 1.0])


class Decay(ll.AbstractLimit):
    """A user's own: the risk falls as exp(-speed t), and so does something that nobody else reports."""

    speed: float = 1.0

    reference: ClassVar[str] = "saad1995online"
    rate: ClassVar[dict[str, float]] = {"d": -1.0}
    variables: ClassVar[dict[str, Variable]] = {"glow": Variable(("time",), "what is left of the light")}

    def check(self, problem):
        if problem.student is None:
            raise ll.errors.LimitUndefinedError("Decay needs a student; got none. Add one.")

    def solve(self, problem, times):
        risk = np.exp(-self.speed * times)
        variables = {"risk": (("time",), risk), "glow": (("time",), risk**2), "status": ((), "ok")}
        return dataset(problem, variables, {"time": times}, method="Decay", declared=self.variables)


def test_a_limit_of_a_users_own_is_a_limit(tmp_path):
    result = ll.predict(committee(), Decay(2.0), TIMES)
    np.testing.assert_allclose(result.glow, np.exp(-4 * TIMES))
    assert result.glow.attrs["long_name"] == "what is left of the light"
    ll.save(result, tmp_path / "own.nc")
    np.testing.assert_array_equal(ll.load(tmp_path / "own.nc").glow, result.glow)
    swept = ll.sweep(ll.predict, committee(), {"limit.speed": [1.0, 2.0]}, limit=Decay(), times=TIMES)
    np.testing.assert_allclose(swept.glow.sel({"limit.speed": 2.0}), result.glow)
    with pytest.raises(ll.errors.LimitUndefinedError, match="Decay needs a student"):
        ll.predict(ll.Problem(teacher=ll.Committee(1)), Decay(), TIMES)
    assert Decay().in_time and Decay().kin(committee()) is None and Decay().curve(committee(), [1.0]) is None
    assert [float(x.risk[1]) for x in Decay().many([committee()] * 2, TIMES)] == [np.exp(-0.5)] * 2


def test_what_is_not_declared_is_refused():
    with pytest.raises(ll.errors.InputError, match="'glow' is not a variable of the schema"):
        dataset(committee(), {"glow": (("time",), TIMES)}, {"time": TIMES}, method="Decay")
    wrong = {"glow": Variable(("iteration",), "by iterations")}
    with pytest.raises(ll.errors.InputError, match="may not have the dimension 'time'"):
        dataset(committee(), {"glow": (("time",), TIMES)}, {"time": TIMES}, method="Decay", declared=wrong)


def test_a_limit_by_name_or_none():
    named, usual = ll.predict(committee(), "OverlapODE", TIMES), ll.predict(committee(), times=TIMES)
    np.testing.assert_array_equal(named.risk, ll.predict(committee(), ll.OverlapODE(), TIMES).risk)
    np.testing.assert_array_equal(usual.risk, named.risk)
    with pytest.raises(ll.errors.InputError, match="Did you mean 'OverlapODE'"):
        ll.predict(committee(), "OverlapOde", TIMES)
    with pytest.raises(ll.errors.InputError, match="no usual limit of a problem without a rule"):
        ll.predict(ll.Problem(teacher=ll.Committee(1)), times=TIMES)
    with pytest.raises(ll.errors.InputError, match="predict needs a Problem; got 3"):
        ll.predict(3)


@pytest.mark.parametrize("name", LIMITS)
def test_every_limit_refuses_an_empty_problem_in_words(name):
    with pytest.raises(ll.errors.LimitUndefinedError, match=f"^{name} needs .*; got "):
        LIMITS[name]().check(ll.Problem(teacher=ll.Committee(1), sample_ratio=1.0))


@pytest.mark.parametrize(
    ("kind", "problem"),
    [(CommitteeOnePass, committee()), (SparseOnePass, ll.library.merged_staircase()), (LabelledOnePass, mixture())],
)
def test_a_setting_is_the_problem_parsed(kind, problem):
    setting = kind.of(problem, Asked("the test"))
    assert ll.spec_hash(setting.problem) == ll.spec_hash(problem)
    assert setting.clock(10.0) == problem.algorithm.clock(problem, 10.0)
    with pytest.raises(ll.errors.InputError, match=r"^the test needs .*sample_ratio=2.0"):
        kind.of(ll.Problem(**{**vars(problem), "sample_ratio": 2.0}), Asked("the test", ll.errors.InputError))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"inputs": ll.Hypercube()}, "needs Gaussian inputs"),
        ({"channel": ll.Sign()}, "needs additive label noise"),
        ({"student": None}, r"needs Problem.student; got none. Add student=Committee\("),
        ({"start": None}, r"needs Problem.start; got none. Add start=RandomStart\(\)."),
        ({"loss": ll.LogisticLoss()}, "needs the square loss"),
        ({"algorithm": ll.GradientDescent(0.1)}, "see limits"),
        ({"algorithm": ll.OnlineSGD(0.1, weight_decay=0.1)}, "without weight decay"),
        ({"algorithm": ll.OnlineSGD(0.1, temperature=0.1)}, "needs algorithm.temperature=0; got 0.1. Biases"),
        ({"student": ll.Committee(2, "sign")}, "derivative is zero almost everywhere"),
    ],
)
def test_what_the_limits_of_committees_refuse(changes, words):
    problem = ll.Problem(**{**vars(committee()), **changes})
    for limit in (ll.OverlapODE(), ll.OverlapSDE(), ll.HighDimMeanField()):
        with pytest.raises(ll.errors.LimitUndefinedError, match=words):
            limit.check(problem)
    assert ll.OverlapODE().kin(problem) is None or "derivative" in words


def test_starts_say_what_they_do_not_know():
    assert ll.RandomStart(scale=2.0, sphere=True).neurons(ll.Committee(3)).scale == 2.0
    with pytest.raises(ll.errors.InputError, match="InformedStart does not know the law of a single unit"):
        ll.InformedStart(0.1).neurons(ll.Committee(3))
