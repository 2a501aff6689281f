"""Pictures of the explorer's cards: ``limitlab run all --quick --report REPORT``, then python .ci/cards.py REPORT.

The first panel of every entry's figure, small and without its words, from the data of the report.
"""

import sys
from pathlib import Path

import limitlab as ll
from limitlab.explorer.cards import PICTURES
from limitlab.figures import Drawing, drawn
from limitlab.gallery import ENTRIES
from limitlab.gallery.entry import quick_sizes

WORDS = frozenset("set_xlabel set_ylabel set_title legend text annotate set_xticks set_yticks tick_params grid".split())
SIZE, DPI = (3.2, 2.0), 110  # inches, dots in each


def small(figure):
    """Its first panel alone."""
    if isinstance(figure, Drawing):
        alone = Drawing(1, *SIZE)
        alone.panels[0].calls = [call for call in figure.panels[0].calls if call.name not in WORDS]
        alone.panels[0].tick_params(labelsize=7)
        alone.panels[0].tick_params(which="minor", labelbottom=False, labelleft=False)
        return drawn(alone)
    first, *others = figure.axes  # a map, drawn on paper only
    for axes in others:
        axes.remove()
    figure.suptitle("")
    first.set_title("", loc="left")
    first.set(xlabel="", ylabel="", position=(0.1, 0.13, 0.86, 0.82))
    first.tick_params(labelsize=7)
    for words in (first.get_legend(), *first.texts):
        if words is not None:
            words.remove()
    figure.set_layout_engine("none")
    figure.set_size_inches(*SIZE)
    return figure


def main(report: Path) -> None:
    PICTURES.mkdir(exist_ok=True)
    for name, entry in ENTRIES.items():
        data = {path.stem: ll.load(path) for path in sorted((report / "entries" / name).glob("*.nc"))}
        with quick_sizes(entry):
            small(entry.figure(data)).savefig(PICTURES / f"{name}.png", dpi=DPI, metadata={"Software": None})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
