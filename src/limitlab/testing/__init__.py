"""Contracts: a checker for each kind of part, for our own parts and for those of third parties.

Each takes a part, tries it, and raises `ContractError` in words if it breaks its contract. In a test of your own:

    from limitlab.testing import check_loss

    def test_my_loss():
        check_loss(MyLoss(scale=2.0))
"""

from limitlab.testing.common import ContractError
from limitlab.testing.laws import check_channel, check_loss, check_prior
from limitlab.testing.networks import check_inputs, check_start, check_student, check_teacher
from limitlab.testing.roads import check_algorithm, check_limit

__all__ = [
    "ContractError",
    "check_algorithm",
    "check_channel",
    "check_inputs",
    "check_limit",
    "check_loss",
    "check_prior",
    "check_start",
    "check_student",
    "check_teacher",
]
