"""The pages of the explorer, one file each.

How a page is added:

1. Write ``pages/my_page.py`` with ``PAGE = Page(...)`` (`limitlab.explorer.description.Page`), and put its
   module into `ORDER` below. Its tab and its address ``/my_page`` are there at the next start.
2. ``controls`` is the form: `Number`, `Choice`, `Text`, `Switch` of `limitlab.explorer.controls`. Each has plain words,
   a symbol, one sentence of help, a default, and a group (nature, learner, look). ``values`` below is key -> value.
3. ``problem(values)`` makes the `Problem`. Raise `FieldError(key, words)` for what a control is to blame for: the
   sentence then stands beside it. Typed text goes into parts of limitlab as it is; it is never evaluated.
4. ``asks(values, table)`` says what follows the controls: `Ask(name, Request(verb, table, arguments))`, where ``table``
   is the problem as plain tables and a verb is one of `limitlab.jobs.requests.VERBS`. Quick ones (below 0.3 s) need
   nothing more; of a slow one give ``coarse=Request(...)`` that takes less than a second. Keep one grid of times
   (`plain_times`), so that a program is compiled once. Only `Choice` and `Text` may change the shape of an answer: then
   old answers are forgotten at once; after a `Number` the old curve stays until the new one is there.
5. ``runs(values, table)`` is the request that *run it* sends (``simulate``), ``cost(values)`` says what it costs before
   it is sent, ``against`` names the answer with which runs are compared (same times).
6. ``figure(values, answers)`` draws a `limitlab.figures.Drawing` (at most two panels) of ``answers.get(name)``, each of
   which may be None, and of ``answers.runs``. ``words(values, answers)`` gives the title sentence, what is going on,
   and facts.
7. ``snippet(values)`` is the Python after ``problem = ...`` that gives the same numbers.
8. ``remedies(values)`` are changes that lead to a theory where there is none; ``references`` are keys of
   references.bib.
9. What a form and a figure cannot do: ``screen`` gives a Plotly figure of your own (films), ``above`` adds elements
   above the form (a place to drop a file), ``below`` under the figure (what plays a film).

The page computes nothing: it asks, draws and tells. `tests/explorer` has checks that run over all pages.
"""

from limitlab.explorer.description import Page
from limitlab.explorer.pages import cloud, descent, escape, learn, my_data, samples

__all__ = ["pages"]

ORDER = (learn, escape, samples, descent, cloud, my_data)


def pages() -> dict[str, Page]:
    """The pages by name, in the order of their tabs."""
    return {page.PAGE.name: page.PAGE for page in ORDER}
