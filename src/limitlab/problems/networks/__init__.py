"""Teachers and students."""

from typing import TYPE_CHECKING

from limitlab._lazy import namespace

if TYPE_CHECKING:  # a kind is loaded when it is first asked for
    from limitlab.problems.base import AbstractStudent as AbstractStudent
    from limitlab.problems.base import AbstractTeacher as AbstractTeacher
    from limitlab.problems.networks.committee import Committee as Committee
    from limitlab.problems.networks.multi_index import MultiIndex as MultiIndex
    from limitlab.problems.networks.network import Network as Network
    from limitlab.problems.networks.random_features import RandomFeatures as RandomFeatures
    from limitlab.problems.networks.single_index import SingleIndex as SingleIndex
else:
    __getattr__, __dir__, __all__ = namespace(__name__)
