"""The Python lines that a page hands out make the numbers that it shows."""

import ast
import os

import numpy as np
import pytest

pytest.importorskip("nicegui", reason="the explorer needs pip install 'limitlab[explorer]'")

from limitlab.explorer import downloads
from limitlab.explorer.pages import my_data, pages
from limitlab.jobs.frames import Frame
from limitlab.jobs.worker import Desk, _answered

PAGES = pages()
SMALL = {  # values that take seconds, and which answer of the page is which name in the lines
    "learn": ({"target": "z1", "scale": 2.0, "horizon": 2.37, "d": 30, "width": 20, "step": 0.05, "replicas": 2}, {}),
    "escape": ({"d": 100, "horizon": 1.3, "replicas": 4}, {}),
    "samples": ({"channel": "linear", "variance": 0.1, "d": 200, "replicas": 4, "fit": "erm"}, {"path": "theory"}),
    "descent": ({"horizon": 0.5, "d": 50, "replicas": 2}, {}),
    "cloud": ({"d": "20", "horizon": 0.7, "width": 50, "step": 0.02, "replicas": 2}, {}),
    "my_data": ({"fits": 5, "model": "ridge"}, {"runs": "curve"}),
}


class Quiet:
    """A line on which nobody listens."""

    def waiting(self):
        return False

    def say(self, *words):
        pass


def answer(request):
    """What a worker answers, as an array of every variable that is a number."""
    head = {"id": 1, "verb": request.verb, "problem": request.problem, "arguments": request.arguments}
    desk = Desk(Quiet(), Frame(head, request.data))
    told, data = _answered(desk)
    assert told["said"] == "done", told
    return data


@pytest.mark.parametrize("name", [name for name in SMALL if name in ("learn", "escape", "descent", "cloud")])
def test_the_times_are_those_of_the_page(name):
    page = PAGES[name]
    for changes in ({}, SMALL[name][0], {"horizon": 1.83}):
        values = {**page.defaults, **changes}
        line = next(line for line in page.snippet(values).splitlines() if line.startswith("times = "))
        made = eval(
            compile(ast.parse(line.removeprefix("times = "), mode="eval"), "", "eval"), {"np": np, "float": float}
        )
        request = page.runs(values, page.table(values))
        assert made.tolist() == request.arguments["times"], "equal to the last digit, or a run may take one step more"


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_the_lines_make_the_numbers_of_the_page(name, tmp_path, monkeypatch):
    from limitlab.jobs.answers import from_bytes

    page, (changes, renamed) = PAGES[name], SMALL[name]
    values = {**page.defaults, **changes}
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    if name == "my_data":
        (tmp_path / my_data.EXAMPLE).write_bytes(my_data._example())
    made = {}
    exec(compile(downloads.python(page, values), "lines", "exec"), made)
    assert [file for file in os.listdir(tmp_path) if file.endswith(".png")]
    table = page.table(values)
    asked = {ask.name: ask.request for ask in page.asks(values, table)}
    asked = {"runs": page.runs(values, table), **{name: asked[name] for name in page.data if name in asked}}
    if name == "my_data":
        del asked["curve"]  # ridge follows the hand by the pool formula, the lines and the run by the rows
    for what, request in asked.items():
        shown, mine = from_bytes(answer(request)), made[renamed.get(what, what)]
        mine = mine.as_dataset() if hasattr(mine, "as_dataset") else mine
        numbers = [v for v in shown.data_vars if v in mine and shown[v].dtype.kind == "f"]
        assert numbers, what
        for variable in numbers:
            np.testing.assert_allclose(
                mine[variable], shown[variable], rtol=1e-9, atol=1e-12, err_msg=f"{what} {variable}"
            )
