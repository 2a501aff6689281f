"""kill -9 of processes that write to one store, pack it and throw away: what was written is there, whole."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from store_writer import key_of, point_of, unwanted

from limitlab.results.points import Point
from limitlab.sweep.identity import NUMERICS_VERSION
from limitlab.sweep.storage.care import gc
from limitlab.sweep.storage.pack import pack
from limitlab.sweep.storage.store import Store

HERE = Path(__file__).parent


def start(folder, task, first, step):
    words = [sys.executable, str(HERE / "store_writer.py"), str(folder), task, str(first), str(step)]
    return subprocess.Popen(words, stdout=subprocess.PIPE)


def killed(processes, pause):
    """Kill processes a moment after all of them are at work."""
    for process in processes:
        assert process.stdout.readline() == b"ready\n"
    time.sleep(pause)
    for process in processes:
        process.send_signal(signal.SIGKILL)
    for process in processes:
        process.communicate()


def check(folder):
    """Everything that was written before a kill is there; what belongs to no sweep may have been thrown away."""
    store = Store(folder, create=False)
    numbers = sorted({int(line) for line in (folder.parent / "diary").read_text().split()})
    wanted = [number for number in numbers if not unwanted(number)]
    for number in numbers:
        found = store.peek(key_of(number))
        if found is None and unwanted(number):
            continue
        assert isinstance(found, Point), (number, found)
        np.testing.assert_array_equal(found.variables["x"][1], point_of(number).variables["x"][1])
    good, bad = store.verify()
    assert bad == [] and good >= len(wanted)
    return len(wanted)


@pytest.mark.parametrize(
    "rounds", [2, pytest.param(4, marks=pytest.mark.more), pytest.param(40, marks=pytest.mark.slow)]
)
def test_writers_packers_and_collectors_are_killed_at_any_moment(tmp_path, rounds):
    """Two writers, one that packs (two if slow) and one that throws away, all killed, often: 8, 16 or 200 kills."""
    rng, folder = np.random.default_rng(rounds), tmp_path / "store"
    last = 1000 * rounds + 30_000  # a writer that starts long before the others writes far more than 1000
    wanted = [key_of(number) for number in range(last) if not unwanted(number)]
    Store(folder).keep_sweep("all", {"numerics_version": NUMERICS_VERSION}, wanted)
    for number in range(rounds):
        first = 1000 * number
        tasks = [("write", first, 2), ("write", first + 1, 2), ("gc", 0, 1)] + [("pack", 0, 1)] * (1 + (rounds > 4))
        killed([start(folder, *words) for words in tasks], float(rng.uniform(0.0, 0.25)))
        assert check(folder) > 0 or number < 3
    written = check(folder)
    assert written > 20
    assert len(os.listdir(folder / "points")) <= 2 + 2 * rounds
    gc(Store(folder))
    pack(Store(folder))
    assert check(folder) == written and len(os.listdir(folder / "points")) == 1
    assert set(Store(folder).keys()) <= set(wanted)
