"""Which point is where: the index of a store in memory, by number of the segment and place in it."""

from collections.abc import Iterable, Iterator

__all__ = ["Places", "Segment"]

BITS = 33  # of a place within a segment
MASK = (1 << BITS) - 1
COPIES = 8  # of a point that are remembered besides the first: two sweeps or a pack that was killed leave one


class Segment:
    """What is known of one segment."""

    def __init__(self, number: int, name: str):
        self.number, self.name = number, name
        self.end = 0  # up to where it is known
        self.size = -1  # when it was last looked at
        self.records = self.saved = 0  # points known, and points in the index on disk
        self.claims: set[bytes] = set()
        self.fault = ""


class Places:
    """Where points are, where they are besides, and which records count no more."""

    def __init__(self) -> None:
        self._segments: list[Segment] = []
        self._where: dict[bytes, int] = {}  # a point: the number of its segment and the place in it
        self._others: dict[bytes, list[int]] = {}  # where it is besides
        self._voids: set[tuple[str, int]] = set()

    def __contains__(self, key: bytes) -> bool:
        return key in self._where

    def __len__(self) -> int:
        return len(self._where)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._where)

    def segment(self, name: str) -> Segment:
        """A segment that was not known."""
        self._segments.append(Segment(len(self._segments), name))
        return self._segments[-1]

    def of(self, key: bytes) -> tuple[Segment, int] | None:
        """The segment of a point, and the place in it."""
        where = self._where.get(key)
        return None if where is None else (self._segments[where >> BITS], where & MASK)

    def put(self, segment: Segment, key: bytes, place: int) -> None:
        """A point is there, unless it counts no more."""
        if (segment.name, place) in self._voids:
            return
        where = segment.number << BITS | place
        if self._where.setdefault(key, where) != where:
            others = self._others.setdefault(key, [])
            if where not in others and len(others) < COPIES:
                others.append(where)

    def void(self, name: str, place: int) -> None:
        """The record at a place of a segment counts no more, also if that is yet to be seen."""
        self._voids.add((name, place))

    def voided(self, name: str, place: int) -> bool:
        return (name, place) in self._voids

    def drop(self, segment: Segment, key: bytes, place: int) -> None:
        """A point is not there any more; it may be elsewhere."""
        where, others = segment.number << BITS | place, self._others.get(key, [])
        if where in others:
            others.remove(where)
        if self._where.get(key) == where:
            del self._where[key]
            if others:
                self._where[key] = others.pop()
        if not others:
            self._others.pop(key, None)

    def forget(self, segments: Iterable[Segment]) -> None:
        """Segments are gone, with all that was in them."""
        gone = {segment.number for segment in segments}
        if not gone:
            return
        for key in [key for key, where in self._where.items() if where >> BITS in gone]:
            del self._where[key]
        for key, places in list(self._others.items()):
            places[:] = [place for place in places if place >> BITS not in gone]
            if places and key not in self._where:
                self._where[key] = places.pop()
            if not places:
                del self._others[key]
