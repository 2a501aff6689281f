"""What this machine has, and arrays with blanks."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from limitlab.errors import InputError
from limitlab.verbs import Progress

__all__ = ["Progress", "blank", "check_memory", "one_thread"]


@contextmanager
def one_thread() -> Iterator[None]:
    """Products and decompositions of NumPy and SciPy inside use a single thread.

    For small matrices a second one does not help, and on a busy machine they wait for each other.
    """
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=1, user_api="blas"):
        yield


def blank(values: np.ndarray, gone: np.ndarray) -> np.ndarray:
    """NaN where ``gone`` (time, replica), along all further axes of ``values``."""
    return np.where(gone.reshape(gone.shape + (1,) * (values.ndim - gone.ndim)), np.nan, values)


def check_memory(needed: int, remedy: str, by: str = "simulate") -> None:
    """Raise `InputError` if the machine has less memory than ``needed`` bytes."""
    have = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 2**62
    if needed > 0.8 * have:
        raise InputError(
            f"{by} needs about {needed / 2**30:.1f} GiB, this machine has {have / 2**30:.1f} GiB. {remedy}"
        )
