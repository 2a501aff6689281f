"""Figures of entries go through both drawers."""

import json

from limitlab.figures import Drawing, drawn
from limitlab.figures.on_screen import on_screen


def both(figure):
    """The figure on paper; on the screen it must be plain JSON with as many curves at least."""
    made = drawn(figure)
    if isinstance(figure, Drawing):
        shown = on_screen(figure)
        json.dumps(shown, allow_nan=False)
        assert shown["layout"]["title"]["text"]
        for number, axes in enumerate(made.axes, start=1):
            name = "x" if number == 1 else f"x{number}"
            assert any(trace["xaxis"] == name for trace in shown["data"])
            assert shown["layout"][f"{name[0]}axis{name[1:]}"]["type"] == axes.get_xscale().replace("sym", "")
    return made
