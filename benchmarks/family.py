"""Speed of predicting many problems that differ in numbers, in families against one by one. Compile apart."""

import sys
import time

import numpy as np
from timing import Table

import limitlab as ll

TIMES = np.linspace(0, 10, 21)
PROBLEMS, ALONE = 1000, 50


def problems(count: int) -> list[ll.Problem]:
    rng = np.random.default_rng(0)
    return [
        ll.Problem(
            teacher=ll.Committee(width=2, activation="erf"),
            channel=ll.GaussianNoise(variance=variance),
            student=ll.Committee(width=4, activation="erf"),
            loss=ll.SquareLoss(),
            start=ll.InformedStart(overlap=0.2),
            algorithm=ll.OnlineSGD(learning_rate=rate),
        )
        for rate, variance in zip(rng.uniform(0.1, 1, count), rng.uniform(0, 0.5, count), strict=True)
    ]


def seconds(call) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def main() -> None:
    table, limit, many = Table(), ll.OverlapODE(), problems(PROBLEMS)
    widths = [int(x) for x in sys.argv[1:]] or [64]

    def loop():
        return [ll.predict(problem, limit, TIMES) for problem in many[:ALONE]]

    ll.predict(many[0], limit, TIMES)  # compile
    for width in widths:
        parts = [many[n : n + width] for n in range(0, PROBLEMS, width)]
        parts[-1] = (parts[-1] * width)[:width]  # filled up, as a sweep does

        def families(parts=parts):
            for part in parts:
                if len({limit.family_key(problem) for problem in part}) == 1:
                    limit.family(part, TIMES)

        first = seconds(lambda parts=parts: limit.family(parts[0], TIMES))
        slow, fast = np.inf, np.inf
        for _ in range(3):  # in turn, so that a busy moment of the machine hits both
            slow, fast = min(slow, seconds(loop) / ALONE), min(fast, seconds(families) / PROBLEMS)
        points = limit.family(parts[0], TIMES)
        apart = max(
            float(np.max(np.abs(points[n].variables[name][1] - alone[name].values)))
            for n, alone in enumerate(loop()[:5])
            for name in ("risk", "M", "Q")
        )
        ratio = slow / fast
        table.add(f"1000 ODE, erf 4 x 2: one by one / families of {width}", f"{ratio:.1f}", ">= 20", ratio >= 20)
        table.add("   milliseconds a problem: one by one, families", f"{1e3 * slow:.1f}, {1e3 * fast:.2f}")
        table.add("   largest difference of risk, M, Q in five problems", f"{apart:.1e}", "<= 1e-8", apart <= 1e-8)
        table.add("   seconds of the first family, compile included", f"{first:.1f}")
    print("\n" + table.markdown())


if __name__ == "__main__":
    main()
