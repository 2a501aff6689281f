"""The logger ``limitlab`` is silent by default, and says when verbs and sweeps begin and end if it is asked."""

import logging
import subprocess
import sys

import limitlab as ll
from limitlab.verbs import logger

CODE = """
import limitlab as ll
ll.staircase("z1")
ll.sweep(lambda problem, d: {"x": d}, ll.library.perceptron(), {"d": [1]})
"""


def test_it_says_nothing_unless_asked():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_debug_has_verbs_and_info_has_sweeps(caplog):
    with caplog.at_level(logging.DEBUG, "limitlab"):
        ll.sweep(lambda problem, d: {"x": d}, ll.library.perceptron(), {"d": [1, 2]})
    said = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert said[0] == ("DEBUG", "sweep begins")
    assert ("INFO", "sweep of value finished: 2 points, 0 found, 2 done, 0 failed") in said
    assert said[-1][1].startswith("sweep ends after ")
    assert {record.name for record in caplog.records} == {"limitlab"}


def test_there_is_one_logger_and_its_handler_drops_all():
    assert [type(handler) for handler in logger.handlers] == [logging.NullHandler]
