"""The logger ``limitlab``: silent unless a user asks for it.

``DEBUG`` has one line when a verb begins and one when it ends, with its seconds. ``INFO`` has one line when a sweep
ends: points found, done and failed. ``WARNING`` has what a sweep had to wait for or do again. Nothing else is said, and
nothing is said twice: errors are raised, and what a user must know is a warning of Python. To see it::

    logging.basicConfig(level=logging.INFO)
    logging.getLogger("limitlab").setLevel(logging.DEBUG)
"""

import logging

__all__ = ["logger"]

logger = logging.getLogger("limitlab")
logger.addHandler(logging.NullHandler())
