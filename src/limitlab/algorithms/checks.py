"""What rules check alike, and cite alike."""

from typing import Any

from limitlab.numerics.checks import check_number

__all__ = ["SPHERE", "check_rate"]

SPHERE = ("benarous2021online", "arnaboldi2023escaping")  # of rules that keep the norm of the weights


def check_rate(rule: Any) -> None:
    check_number(
        type(rule).__name__,
        "learning_rate",
        rule.learning_rate,
        low=0,
        open_low=True,
        remedy="Use a positive learning rate.",
    )
