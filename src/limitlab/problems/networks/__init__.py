"""Teachers and students."""

from limitlab.problems.base import AbstractTeacher
from limitlab.problems.networks.committee import Committee
from limitlab.problems.networks.single_index import SingleIndex

__all__ = ["AbstractTeacher", "Committee", "SingleIndex"]
