"""A store from a stranger: nothing outside of it is touched or read, nothing blocks, bursts or steers a terminal."""

import json
import os
import subprocess
import sys
import time
import zlib
from pathlib import Path

import numpy as np
import pytest
from hostile_attacks import mutated

from limitlab.results.points import Point

SECONDS, MEGABYTES = 8.0, 400.0  # of a command; the largest file is 100 MB


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """Every command after every attack; a pipe that is opened would wait for ever, so the program has a time limit."""
    folder = tmp_path_factory.mktemp("stranger")
    program = Path(__file__).parent / "store_attacks.py"
    paths = [str(program.parents[1]), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    done = subprocess.run(
        [sys.executable, str(program), str(folder)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_no_attack_reaches_out_blocks_or_bursts(outcomes):
    names = {name for name, *_ in outcomes}
    assert len(names) >= 55 and len(outcomes) == 10 * len(names)
    assert [(name, command, fault) for name, command, fault, *_ in outcomes if fault] == []
    assert [(name, command, took) for name, command, _, took, _ in outcomes if took > SECONDS] == []
    assert [(name, command, rose) for name, command, _, _, rose in outcomes if rose > MEGABYTES] == []


def test_changed_points_with_the_right_checksum_are_read_or_refused():
    """The reader of points sees what a stranger signs: 4000 changes of a good one are read or refused, no more."""
    from limitlab.errors import ResultFileError
    from limitlab.sweep.storage.files.encoding import LENGTHS, decode, encode

    rng, counts = np.random.default_rng(0), {"read": 0, "refused": 0}
    tables = {
        "M": (("time", "student"), rng.normal(size=(3, 2))),
        "status": (("replica",), np.asarray(["ok", "no"])),
        "flag": (("replica",), np.asarray([True, False])),
        "when": ((), np.asarray("2020-01-01", "datetime64[D]")),
    }
    point = Point(tables, {"time": (("time",), np.arange(3.0))}, {"a": [1, {"b": None}], "c": "text"}, ("x",))
    data = encode(point)
    here, whole = LENGTHS.unpack_from(data)
    text, arrays = zlib.decompress(data[LENGTHS.size :][:here]), data[LENGTHS.size + here :]
    assert len(text) == whole
    began = time.process_time()
    for number in range(4000):
        if number % 2:
            changed = mutated(data, rng)
        else:  # through the packing, so that the table of contents itself is changed
            other = mutated(text, rng)
            packed = zlib.compress(other)
            changed = LENGTHS.pack(len(packed), len(other)) + packed + arrays
        try:
            decode(changed, "it")
            counts["read"] += 1
        except ResultFileError:
            counts["refused"] += 1
    assert time.process_time() - began < 20
    assert counts["refused"] > 2000 and counts["read"] > 100
