"""Teachers and students."""

from limitlab.problems.base import AbstractStudent, AbstractTeacher
from limitlab.problems.networks.committee import Committee
from limitlab.problems.networks.multi_index import MultiIndex
from limitlab.problems.networks.network import Network
from limitlab.problems.networks.random_features import RandomFeatures
from limitlab.problems.networks.single_index import SingleIndex

__all__ = ["AbstractStudent", "AbstractTeacher", "Committee", "MultiIndex", "Network", "RandomFeatures", "SingleIndex"]
