"""Fixed points of a map of a long vector, by Anderson's mixing of the last few steps."""

import numpy as np

__all__ = ["Anderson"]

CUT = 1e-10  # of the singular values of the last differences


class Anderson:
    """The next point from the last ones: `mixed` wants a point x and its image, and remembers both."""

    def __init__(self, depth: int = 5):
        self._depth = depth
        self._points: list[np.ndarray] = []
        self._moves: list[np.ndarray] = []

    def mixed(self, x: np.ndarray, image: np.ndarray) -> np.ndarray:
        """The combination of images whose move is least, by a linear model of the map."""
        move = image - x
        self._points, self._moves = [*self._points, x][-self._depth - 1 :], [*self._moves, move][-self._depth - 1 :]
        if len(self._points) == 1:
            return image
        steps = np.diff(np.stack(self._points, axis=1), axis=1)
        bends = np.diff(np.stack(self._moves, axis=1), axis=1)
        return image - (steps + bends) @ np.linalg.lstsq(bends, move, rcond=CUT)[0]
