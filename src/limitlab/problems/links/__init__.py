"""Links: how the fields of several directions become one output."""

from typing import TYPE_CHECKING

from limitlab._lazy import namespace

if TYPE_CHECKING:  # a kind is loaded when it is first asked for
    from limitlab.problems.links.base import AbstractLink as AbstractLink
    from limitlab.problems.links.words import LINKS as LINKS
    from limitlab.problems.links.words import link as link
else:
    __getattr__, __dir__, __all__ = namespace(__name__)
