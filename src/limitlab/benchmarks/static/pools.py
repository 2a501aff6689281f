"""Learning curves of pools against refitting: the pool formula, and the row theory of logistic regression.

Refits are those of scikit-learn on random subsets, a few of them timed and scaled.
"""

import tracemalloc
from typing import Any

import numpy as np

import limitlab as ll
from limitlab.benchmarks.table import Table, run, together
from limitlab.data.on_pools import pool_formula
from limitlab.data.rows.general import general_rows
from limitlab.data.rows.theory import Design

TIMED = 200  # refits
MOST = {0.1: 30, 1e-3: 60}  # rounds


def formula(table: Table) -> None:
    """50 n x 20 penalties against 20 refits at each."""
    from sklearn.linear_model import Ridge

    rng = np.random.default_rng(0)
    N, d = 1500, 600
    X = rng.standard_normal((N, d)) * np.linspace(0.2, 2, d) / np.sqrt(d)
    y = X @ rng.standard_normal(d) + rng.standard_normal(N)
    ns, penalties = np.linspace(30, 1400, 50).astype(int), np.geomspace(1e-3, 10, 20)

    def ours() -> Any:
        return pool_formula(ll.Pool(X, y), y, ns, penalties).test

    def theirs() -> None:
        for k in range(TIMED):
            some = rng.permutation(N)[: ns[k % len(ns) * 7 % len(ns)]]
            Ridge(alpha=penalties[k % 20]).fit(X[some], y[some])

    fast, slow = together(ours, theirs, repeats=1)
    scaled = slow * (len(ns) * len(penalties) * 20) / (TIMED)
    table.ratio(
        "ridge, 50 n x 20 penalties, N = 1500, d = 600: 20 refits each / pool formula", scaled, fast, ">= 100", 0
    )


def rows(table: Table) -> None:
    """One solution of the row theory in refits, and in rounds."""
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(0)
    N, d, n = 2000, 100, 500
    X = rng.standard_normal((N, d)) / np.sqrt(d)
    y = np.where(X @ rng.standard_normal(d) * 2 + 0.5 * rng.standard_normal(N) > 0, 1.0, -1.0)
    subsets = [rng.permutation(N)[:n] for _ in range(5)]
    for penalty, most in MOST.items():
        design = Design.of(X, penalty, True)

        def ours(design=design) -> Any:
            return general_rows(ll.LogisticLoss(), design, y, n / N)[0]

        def theirs(penalty=penalty) -> None:
            for some in subsets:
                LogisticRegression(C=1 / penalty, max_iter=1000).fit(X[some], y[some])

        found = ours()
        words = f"logistic rows, N = 2000, d = 100, n = 500, penalty {penalty:g}"
        held = found.rounds <= most or found.status != "ok"
        table.add(f"{words}: rounds to 1e-5 ({found.status})", str(found.rounds), f"<= {most}", held)
        mine, refits = together(ours, theirs)
        if penalty == 0.1:
            table.ratio("   in refits of scikit-learn", mine, refits / len(subsets), "<= 25", 1)
        else:
            table.add("   in refits of scikit-learn", f"{mine / refits * len(subsets):.1f}")
    tracemalloc.start()
    general_rows(ll.LogisticLoss(), Design.of(X, 0.1, True), y, n / N)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    table.add("   peak memory in units of X", f"{peak / X.nbytes:.1f}", "<= 12", peak <= 12 * X.nbytes)


if __name__ == "__main__":
    run({"formula": formula, "rows": rows})
