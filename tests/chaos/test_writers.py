"""kill -9 of processes that write to one store and pack it: what was written is there, whole, and nothing else is."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from store_writer import key_of, point_of

from limitlab.results.points import Point
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
    store = Store(folder, create=False)
    numbers = sorted({int(line) for line in (folder.parent / "diary").read_text().split()})
    for number in numbers:
        found = store.peek(key_of(number))
        assert isinstance(found, Point), (number, found)
        np.testing.assert_array_equal(found.variables["x"][1], point_of(number).variables["x"][1])
    good, bad = store.verify()
    assert bad == [] and good >= len(numbers)
    return len(numbers)


@pytest.mark.parametrize("rounds", [5, pytest.param(40, marks=pytest.mark.slow)])
def test_writers_and_packers_are_killed_at_any_moment(tmp_path, rounds):
    """Two writers and one that packs, all killed, again and again: 15 kills, 120 if there is time."""
    rng, folder = np.random.default_rng(rounds), tmp_path / "store"
    Store(folder)
    for number in range(rounds):
        first = 1000 * number
        tasks = [("write", first, 2), ("write", first + 1, 2), ("pack", 0, 1)]
        killed([start(folder, *words) for words in tasks], float(rng.uniform(0.0, 0.25)))
        assert check(folder) > 0 or number < 3
    written = check(folder)
    assert written > 20
    assert len(os.listdir(folder / "points")) <= 2 + 2 * rounds
    pack(Store(folder))
    assert check(folder) == written and len(os.listdir(folder / "points")) == 1
