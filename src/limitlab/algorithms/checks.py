"""What rules check alike."""

from typing import Any

from limitlab.numerics.checks import check_number

__all__ = ["check_rate"]


def check_rate(rule: Any) -> None:
    check_number(
        type(rule).__name__,
        "learning_rate",
        rule.learning_rate,
        low=0,
        open_low=True,
        remedy="Use a positive learning rate.",
    )
