"""A start of your own: copy, rename, change `weights`."""

import jax

import limitlab as ll
from limitlab import testing


class Corner(ll.AbstractStart):
    """Weights +-scale in every coordinate, so that |w|^2 = scale^2 d exactly."""

    scale: float = 1.0

    # joint = True, with `draw` and `limit`, lets it also choose the teacher's directions, and limits begin there.

    def weights(self, key, p, d, directions):  # (p, d)
        return self.scale * jax.random.rademacher(key, (p, d), dtype=float)


def check():
    testing.check_start(Corner(scale=0.5))
