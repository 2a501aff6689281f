"""How tests run: programs compile fast rather than run fast, and are given up before a process has too many of them.

A test runs most of its programs once, so the default run compiles them without optimisation and with XLA's older
emitters of loops, in less than half the time. Slow tests compile as users do, and so do the few programs that need it
(`users.environment`); the others that tests start inherit the flags. ``XLA_FLAGS`` of one's own are left alone.

What is marked `more` is a further case of what the default run tests (another activation, channel, limit of a table;
the same law at another size). It is `slow` too, so that the default run stays within ten minutes of a fresh machine; it
compiles as the default run does, and `.ci/run` runs it right after that. Every negative control stays in the default
run: what is `more` as a whole has none, or has a smaller twin that has it (`contracts/test_controls.py`).
"""

import gc
import os

import pytest

from limitlab.numerics.machine import relieve

FLAGS = {
    "xla_backend_optimization_level": "0",
    "xla_cpu_use_fusion_emitters": "false",
    "xla_cpu_parallel_codegen_split_count": "1",
}
CHEAP = " ".join(f"--{name}={value}" for name, value in FLAGS.items())
THREADS = "OPENBLAS_NUM_THREADS"  # two workers with two threads each wait for each other


def pytest_configure(config):
    """Before JAX and NumPy read them (those of a worker, and of programs that tests start)."""
    if config.option.markexpr in ("not slow", "more"):
        os.environ.setdefault("XLA_FLAGS", CHEAP)
        os.environ.setdefault(THREADS, "1")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Cases that `more_of` names are marked `more`, and what is `more` is `slow`."""
    unknown = {}
    for item in items:
        for mark in item.iter_markers("more_of"):
            left = unknown.setdefault((item.path, item.originalname), set(mark.args))
            if item.callspec.id in mark.args:
                left.discard(item.callspec.id)
                item.add_marker("more")
        if item.get_closest_marker("more"):
            item.add_marker("slow")
    if any(unknown.values()) and not any("::" in str(arg) for arg in config.args):
        raise pytest.UsageError(f"more_of names cases that are not there: {[(*k, v) for k, v in unknown.items() if v]}")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """A file's tests stay on one worker, where its programs are, until the other worker has nothing left to do."""
    if config.option.dist == "load":  # nothing else was asked for
        from xdist.scheduler import WorkStealingScheduling

        return WorkStealingScheduling(config, log)
    return None


def pytest_collection_finish(session):
    """What the tests were collected to stays: the garbage collector need not walk through it after every trace."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)


@pytest.fixture(autouse=True)
def few_memory_maps():
    """Verbs and questions mind the maps themselves; many tests compile what is inside them."""
    yield
    relieve()
