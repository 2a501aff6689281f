"""Run the cells of a MyST notebook (```{code-cell} blocks) one after the other, as a reader would: notebook.py PAGE"""

import re
import sys
import time
from pathlib import Path

CELL = re.compile(r"^```\{code-cell\}[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
OPTION = re.compile(r"^:[\w-]+:.*\n", re.MULTILINE)  # of a cell, such as :tags: [hide-input]


def main(page: Path) -> None:
    began, text, names = time.monotonic(), page.read_text(encoding="utf-8"), {"__name__": "__main__"}
    cells = list(CELL.finditer(text))
    for cell in cells:
        line = text[: cell.start()].count("\n") + 1
        exec(compile("\n" * line + OPTION.sub("\n", cell[1]), str(page), "exec"), names)
    print(f"{page.name}: {len(cells)} cells in {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
