"""A program that a test starts, compiled as users compile."""

import os
import sys


def environment() -> dict[str, str]:
    """Without the flags of the default run (conftest.py): for last digits, and for what compiled programs take."""
    without = {name: value for name, value in os.environ.items() if name not in ("XLA_FLAGS", "OPENBLAS_NUM_THREADS")}
    return without | {"PYTHONPATH": os.pathsep.join(sys.path)}
