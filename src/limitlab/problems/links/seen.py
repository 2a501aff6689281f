"""A link behind a channel: what its value becomes before noise is added."""

from typing import Any

import numpy as np

from limitlab.errors import InputError
from limitlab.modules import field
from limitlab.problems.channels.base import AbstractChannel
from limitlab.problems.links.base import AbstractLink

__all__ = ["SeenLink", "seen_through"]

PROBE = np.linspace(-8.0, 8.0, 801)
LOOKED = 20  # fields at most that are tried one by one


class SeenLink(AbstractLink):
    """E[y|z] of a channel on the value of a link: that of its label without noise, or of labels -1 and +1.

    ``known``: it is the mean itself, and no longer a label that chance decides on.
    """

    link: AbstractLink = field(static=True)
    channel: AbstractChannel = field(static=True)
    known: bool = field(static=True, default=False)

    @property
    def name(self):
        return f"{self.channel!r} of {self.link!r}"

    @property
    def named(self):
        return False

    def __repr__(self):
        return self.name

    def value(self, z, xp):
        return self.shown(self.link.expected.value(z, xp), xp)

    def on_host(self, z):
        return np.asarray(self.shown(self.link.expected.on_host(z), np), float)

    def shown(self, v: Any, xp: Any) -> Any:
        """What the channel makes of values v; if a coin decides on them before, v is their mean."""
        ends = self.link.sides
        if ends is None:
            return self.channel.told(v, xp)
        low, high = self.channel.told(np.array(ends), np)
        return low + (high - low) * (v - ends[0]) / (ends[1] - ends[0])

    @property
    def sides(self):
        if self.known:
            return None
        if self.channel.labels == "binary":
            told = self.channel.told(PROBE if self.link.sides is None else np.array(self.link.sides), np)
            sure = self.link.sides is None and bool(np.all(np.abs(told) == 1))
            return None if sure else (-1.0, 1.0)
        if self.link.sides is None:
            return None
        low, high = self.channel.told(np.array(self.link.sides), np)
        return (float(low), float(high))

    @property
    def expected(self):
        return self if self.sides is None else SeenLink(self.link, self.channel, known=True)

    def check(self, width):
        if width <= LOOKED:
            SeenLink(self.link, self.channel, known=True)._look(width)

    def _look(self, width):
        try:
            super().check(width)
        except InputError as error:
            raise InputError(f"The labels of {self.channel!r} on link={self.link!r} tell too little. {error}") from None


def seen_through(link: AbstractLink, channel: AbstractChannel, width: int) -> AbstractLink | None:
    """The link behind a channel, checked; None if the channel does not say what its labels are on average."""
    told = channel.told(PROBE, np)
    if told is None:
        return None
    if channel.labels != "binary" and channel.added_variance is None:
        return None
    if channel.labels == "real" and np.array_equal(told, PROBE):
        return link
    seen = SeenLink(link, channel)
    seen.check(width)
    return seen
