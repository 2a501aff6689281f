"""Compiled programs are given up before a test process has more memory maps than Linux allows (65530)."""

import pytest

from limitlab.numerics.machine import relieve


@pytest.fixture(autouse=True)
def few_memory_maps():
    """Verbs and questions mind the maps themselves; many tests compile what is inside them."""
    yield
    relieve()
