"""``python -m limitlab.cli`` is ``limitlab``."""

from limitlab.cli import main

main()
