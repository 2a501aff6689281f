"""How fast limitlab is, as ratios in one run: ``limitlab benchmark NAME``.

Each benchmark is a program of its own in one of the folders, which fills a table; this is the list of them.
"""

from limitlab.benchmarks.programs import BENCHMARKS, Benchmark, measure, read, slower

__all__ = ["BENCHMARKS", "Benchmark", "measure", "read", "slower"]
