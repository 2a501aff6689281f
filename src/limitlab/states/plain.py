"""What is seen of a learner about which nothing more is known: its risk on test points."""

from typing import ClassVar

from limitlab.modules import field
from limitlab.states.test_risk import TestRisk
from limitlab.states.view import AbstractView, Report, Variable

__all__ = ["PlainView"]


class PlainView(AbstractView):
    """The risk and its standard error."""

    variables: ClassVar[dict[str, Variable]] = TestRisk.variables

    tests: TestRisk
    floor: float
    words: str = field(static=True)

    def see(self, state, step):
        risk, error = self.tests(state.student)
        return {"risk": risk, "risk_error": error}

    def report(self, path):
        at = ("time", "replica")
        variables = {"risk": (at, path["risk"] + self.floor), "risk_error": (at, path["risk_error"])}
        return Report(variables, attrs={"risk_from": self.words})
