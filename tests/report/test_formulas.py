"""Each formula is what it should be, and the mistake beside it would be seen."""

import pytest

from limitlab.report.formulas import FORMULAS, Measured

# Those that compile or draw much; they run in every report.
SLOW = {
    "sparse/dissipation",
    "sparse/start-of-the-flow",
    "sparse/finite-width-depends-on-r",
    "linear/free-entropy",
    "linear/message-passing",
    "linear/first-step-of-state-evolution",
    "descent/first-step",
    "descent/first-step-of-half",
    "mean-field/minimising-movement",
    "mean-field/transport",
    "mean-field/speed",
    "mean-field/first-variation",
    "mean-field/risk-of-a-law",
    "mean-field/potential",
}
FAST_COMMITTEES = ("increment-of-m", "increment-of-q", "fields", "formulas-meet", "diffusion", "decomposition", "gain")


def slow(name: str) -> bool:
    return name in SLOW or (name.startswith("committees/") and not name.endswith(FAST_COMMITTEES))


def test_the_slow_ones_are_there():
    assert set(FORMULAS) >= SLOW


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if slow(name) else name for name in FORMULAS]
)
def test_a_formula_holds_and_its_mistake_does_not(name):
    found = FORMULAS[name].measure()
    assert found.ok, found.detail
    assert not found._replace(value=found.wrong).ok


def test_a_control_that_could_not_fail_is_no_control():
    assert Measured(1.0, 1.0, 0.1, 2.0).ok
    assert not Measured(1.0, 1.0, 0.1, 1.05).ok
    assert not Measured(1.2, 1.0, 0.1, 2.0).ok
    assert not Measured(float("nan"), 1.0, 0.1, 2.0).ok
