"""How tests run: programs compile fast rather than run fast, and are given up before a process has too many of them.

A test runs most of its programs once, so the default run compiles them without optimisation, the few that run long
(`LONG`, and all of a test marked ``optimised``) with a little of it, and all with XLA's older emitters of loops. Slow
tests compile as users do, and so do the few processes that need it (`users.environment`); others that tests start
inherit the flags, and optimise a little. ``XLA_FLAGS`` of one's own are left alone.
"""

import functools
import gc
import os
import re

import pytest

from limitlab.numerics.machine import relieve

FLAGS = {
    "xla_backend_optimization_level": "1",
    "xla_cpu_use_fusion_emitters": "false",
    "xla_cpu_parallel_codegen_split_count": "1",
}
CHEAP = " ".join(f"--{name}={value}" for name, value in FLAGS.items())
THREADS = "OPENBLAS_NUM_THREADS"  # two workers with two threads each wait for each other
LONG = re.compile(r'"jit_(_settle|_evolve|_chunk|_end_values|_landscape|__call__|_average_units)"$')  # by name
optimised = False  # whether the test that runs is marked so


def pytest_configure(config):
    """Before JAX and NumPy read them (those of a worker, and of programs that tests start)."""
    if config.option.markexpr == "not slow":
        os.environ.setdefault("XLA_FLAGS", CHEAP)
        os.environ.setdefault(THREADS, "1")


def compile_faster():
    """Programs that are not `LONG` are not optimised, and all of them are written down in one and the same context.

    Both doors are JAX's own; where they are not as here, that is left out.
    """
    if os.environ.get("XLA_FLAGS") != CHEAP:
        return
    from jax._src import compiler
    from jax._src.interpreters import mlir

    if hasattr(mlir, "make_ir_context"):  # a new one takes longer than a small program
        mlir.make_ir_context = functools.cache(mlir.make_ir_context)
    compile_one = getattr(compiler, "compile_or_get_cached", None)
    if compile_one is None:
        return

    def compiled(backend, computation, devices, options, *args, **kwargs):
        if not optimised and not LONG.match(str(computation.operation.attributes["sym_name"])):
            options.executable_build_options.debug_options.xla_backend_optimization_level = 0
        return compile_one(backend, computation, devices, options, *args, **kwargs)

    compiler.compile_or_get_cached = compiled


def pytest_runtest_setup(item):
    global optimised
    optimised = item.get_closest_marker("optimised") is not None


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """A file's tests stay on one worker, where its programs are, until the other worker has nothing left to do."""
    if config.option.dist == "load":  # nothing else was asked for
        from xdist.scheduler import WorkStealingScheduling

        return WorkStealingScheduling(config, log)
    return None


def pytest_collection_finish(session):
    """What the tests were collected to stays: the garbage collector need not walk through it after every trace."""
    compile_faster()
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)


@pytest.fixture(autouse=True)
def few_memory_maps():
    """Verbs and questions mind the maps themselves; many tests compile what is inside them."""
    yield
    relieve()
