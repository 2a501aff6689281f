"""Links: how the fields of several directions become one output."""

from limitlab.problems.links.base import AbstractLink
from limitlab.problems.links.words import LINKS, link

__all__ = ["LINKS", "AbstractLink", "link"]
