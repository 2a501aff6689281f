"""One thread for small matrices: a second one does not help, and on a busy machine they wait for each other."""

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["one_thread"]


@contextmanager
def one_thread() -> Iterator[None]:
    """Products and decompositions of NumPy and SciPy inside use a single thread."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=1, user_api="blas"):
        yield
