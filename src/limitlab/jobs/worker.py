"""A worker: reads requests from its input, computes, and writes what it has to say to its output.

Run as ``python -P -m limitlab.jobs.worker``. It ends with its service: when its input ends, or by the signal that Linux
sends when a parent dies.
"""

import base64
import contextlib
import csv
import ctypes
import functools
import io
import json
import os
import select
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from limitlab.analysis.exits.exit_time import exit_time
from limitlab.analysis.exits.rates import critical_learning_rate, optimal_learning_rate
from limitlab.analysis.linear.landscape import free_entropy
from limitlab.analysis.linear.penalty import optimal_penalty
from limitlab.analysis.linear.phases import phase_diagram
from limitlab.analysis.linear.thresholds import thresholds
from limitlab.analysis.sparse.staircase import staircase
from limitlab.data.learning_curve import learning_curve
from limitlab.data.tables import pool_of_file, usual_samples
from limitlab.data.words import verdict
from limitlab.errors import InputError, LimitlabError
from limitlab.figures import png
from limitlab.gallery import ENTRIES, run
from limitlab.jobs.answers import from_bytes, plain, to_bytes
from limitlab.jobs.frames import LENGTHS, Frame, lengths, pack, unpacked
from limitlab.jobs.tables import MOST, check_table
from limitlab.macro.predict import LIMITS, limits, predict
from limitlab.micro.simulate import joined, portion, simulate
from limitlab.numerics.machine import resident
from limitlab.results.compare import compare
from limitlab.spec.kinds import known_kinds
from limitlab.spec.read import from_dict
from limitlab.sweep.run import sweep
from limitlab.text import show

__all__ = ["main"]

BETWEEN = 0.1  # seconds between two frames of progress
HEADS = ("variable", "compared", "worst", "where", "gap", "stderr", "percent", "z")
FEWER = 4  # by which the first runs of a simulation are fewer than all of them, and again
PORTIONS = 8  # in which runs come
DIES_WITH_PARENT = 1  # PR_SET_PDEATHSIG of Linux


class Cancelled(Exception):
    """Raised inside a verb whose visitor wants no answer any more."""


class Line:
    """The two pipes to the service."""

    def __init__(self) -> None:
        self._in, self._out = os.dup(0), os.dup(1)
        with open(os.devnull, "rb") as nothing:
            os.dup2(nothing.fileno(), 0)
        os.dup2(2, 1)  # whatever prints must not disturb the frames

    def read(self) -> Frame | None:
        """The next frame; None at the end."""
        first = self._exactly(LENGTHS.size)
        if first is None:
            return None
        text, data = lengths(first)
        head, rest = self._exactly(text), self._exactly(data)
        return None if head is None or rest is None else unpacked(head, rest)

    def waiting(self) -> bool:
        """Whether a frame, or the end, is there to be read."""
        return bool(select.select([self._in], [], [], 0)[0])

    def say(self, head: dict[str, Any], data: bytes = b"") -> None:
        rest = memoryview(pack(Frame(head, data)))
        while rest:
            rest = rest[os.write(self._out, rest) :]

    def _exactly(self, count: int) -> bytes | None:
        parts = bytearray()
        while len(parts) < count:
            part = os.read(self._in, min(count - len(parts), 1 << 20))
            if not part:
                return None
            parts += part
        return bytes(parts)


class Desk:
    """One request at work: tells how far it is, and looks whether it is still wanted."""

    def __init__(self, line: Line, frame: Frame):
        self._line, self.frame, self.id = line, frame, frame.head["id"]
        self._last, self.share = 0.0, (0.0, 1.0)

    def progress(self, done: int, total: int, label: str) -> None:
        while self._line.waiting():
            frame = self._line.read()
            if frame is None:
                os._exit(0)
            if frame.head.get("do") == "cancel" and frame.head.get("id") == self.id:
                raise Cancelled
        if time.perf_counter() - self._last > BETWEEN:
            self._last = time.perf_counter()
            begin, length = self.share
            share = begin + length * done / max(total, 1)
            self._line.say({"id": self.id, "said": "progress", "share": share, "label": label})

    def partial(self, ds: Any) -> None:
        self._line.say({"id": self.id, "said": "partial"}, to_bytes(ds))


def main() -> None:
    """Serve until the input ends."""
    _die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in a terminal is for the service
    line = Line()
    line.say({"said": "ready", "pid": os.getpid()})
    while (frame := line.read()) is not None:
        if frame.head.get("do") != "run":  # a cancel that came too late
            continue
        line.say(*_answered(Desk(line, frame)))


def _answered(desk: Desk) -> tuple[dict[str, Any], bytes]:
    """The last frame of a request."""
    head: dict[str, Any] = {"id": desk.id, "said": "done"}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            answer = VERBS[desk.frame.head["verb"]](desk)
        except Cancelled:
            return {**head, "said": "cancelled", "memory": resident()}, b""
        except LimitlabError as error:
            return {**head, "said": "failed", "kind": type(error).__name__, "words": str(error)}, b""
        except MemoryError:
            return {**head, "said": "failed", "kind": "MemoryError", "words": "There is not enough memory for it."}, b""
        except Exception as error:
            traceback.print_exc()
            words = f"{type(error).__name__}: {error}. This is an error of limitlab; its log says where."
            return {**head, "said": "failed", "kind": type(error).__name__, "words": words}, b""
    said = dict.fromkeys(str(w.message) for w in caught if issubclass(w.category, UserWarning))
    head |= {"warned": list(said)[:20], "memory": resident()}
    if hasattr(answer, "data_vars"):
        return head, to_bytes(answer)
    return {**head, "answer": plain(answer)}, b""


# --- the verbs ------------------------------------------------------------------------------------------------------


def _problem(desk: Desk) -> Any:
    table = desk.frame.head.get("problem")
    if table is None:
        raise InputError(f"{desk.frame.head['verb']} needs a problem.")
    return from_dict(table)


def _arguments(desk: Desk) -> dict[str, Any]:
    """Keywords of a verb; a table with a ``kind`` is that limit or part."""
    return {name: _part(name, value) for name, value in desk.frame.head.get("arguments", {}).items()}


def _part(name: str, value: Any) -> Any:
    if not (isinstance(value, dict) and isinstance(value.get("kind"), str)):
        return value
    kind, fields = value["kind"], {key: each for key, each in value.items() if key != "kind"}
    known = {**LIMITS, **{k: cls for group in known_kinds().values() for k, cls in group.items()}}
    if kind not in known:
        raise InputError(f"{name}.kind must be the name of a limit or a part; got {kind!r}.")
    return known[kind](**fields)


def _predict(desk: Desk) -> Any:
    return predict(_problem(desk), progress=desk.progress, **_arguments(desk))


def _simulate(desk: Desk) -> Any:
    """All runs, and the first of them before: the same seed gives the same runs, however many are asked for.

    A rule that can be asked for any of its runs does them portion by portion; of another one the first are done twice.
    """
    asked, problem = _arguments(desk), _problem(desk)
    replicas = asked.pop("replicas", 1)
    several = isinstance(replicas, int) and replicas > 1 and "representation" not in asked
    if several and problem.algorithm is not None and problem.algorithm.in_portions:
        return _in_portions(desk, problem, replicas, asked)
    sizes = [replicas]
    while isinstance(replicas, int) and sizes[0] >= 2 * FEWER:
        sizes.insert(0, sizes[0] // FEWER)
    begin, total = 0.0, sum(sizes) if len(sizes) > 1 else 1
    result = None
    for count in sizes:
        desk.share = (begin, count / total if len(sizes) > 1 else 1.0)
        result = simulate(problem, replicas=count, progress=desk.progress, **asked)
        begin += desk.share[1]
        if count != sizes[-1]:
            desk.partial(result)
    return result


def _in_portions(desk: Desk, problem: Any, replicas: int, asked: dict[str, Any]) -> Any:
    size = _portion(replicas)
    parts = []
    for first in range(0, replicas, size):
        count = min(size, replicas - first)
        desk.share = (first / replicas, count / replicas)
        parts.append(portion(problem, replicas=count, first=first, progress=desk.progress, **asked))
        if first + count < replicas:
            desk.partial(joined(parts))
    return joined(parts) if len(parts) > 1 else parts[0]


def _portion(replicas: int) -> int:
    """How many runs come at once: an equal share if there is one, so that one program does them all."""
    counts = [count for count in range(PORTIONS, PORTIONS // 2 - 1, -1) if replicas % count == 0]
    return max(1, replicas // counts[0] if counts else -(-replicas // PORTIONS))


def _limits(desk: Desk) -> Any:
    return limits(_problem(desk))


def _thresholds(desk: Desk) -> Any:
    if desk.frame.head.get("problem") is not None:
        return thresholds(_problem(desk), progress=desk.progress)
    return thresholds(progress=desk.progress, **_arguments(desk))


def _staircase(desk: Desk) -> Any:
    found = staircase(**_arguments(desk))
    return {**plain(found), "fourier": plain(found.fourier), "summary": found.summary}


def _exit_time(desk: Desk) -> Any:
    return exit_time(_problem(desk), progress=desk.progress, **_arguments(desk))


def _learning_rates(desk: Desk) -> Any:
    problem = _problem(desk)
    return {"optimal": plain(optimal_learning_rate(problem)), "critical": plain(critical_learning_rate(problem))}


def _free_entropy(desk: Desk) -> Any:
    return free_entropy(_problem(desk), progress=desk.progress, **_arguments(desk))


def _phase_diagram(desk: Desk) -> Any:
    return phase_diagram(_problem(desk), progress=desk.progress, **_arguments(desk))


def _sweep(desk: Desk) -> Any:
    """`predict` over a grid of fields of the problem."""
    asked = _arguments(desk)
    return sweep(predict, _problem(desk), asked.pop("grid"), progress=desk.progress, **asked)


def _entry(desk: Desk) -> Any:
    """An entry of the gallery at its quick sizes: its checks, and its figure as a picture."""
    name = desk.frame.head.get("arguments", {}).get("name")
    if not isinstance(name, str) or name not in ENTRIES:
        raise InputError(f"There is no entry {show(name)} of the gallery. `limitlab list` names them.")
    found = run(name, quick=True, progress=desk.progress)
    picture = "" if found.figure is None else base64.b64encode(png(found.figure)).decode()
    told = {"ok": found.ok, "left_out": list(found.left_out), "sizes": found.sizes, "picture": picture}
    return {**told, "checks": [check._asdict() for check in found.checks]}


def _learning_curve(desk: Desk) -> Any:
    """Of a table of the visitor's; ``points`` asks for the usual n, ``best`` for the best penalty and a verdict."""
    asked = _arguments(desk)
    pool, lines = _pool(desk.frame.data, str(asked.pop("name", "table.csv")), json.dumps(asked.pop("table", {})))
    best, points = asked.pop("best", False), asked.pop("points", None)
    if points is not None:
        asked["samples"] = usual_samples(len(pool), points)
    curve = learning_curve(pool, progress=desk.progress, **asked)
    found = curve.as_dataset()
    found.attrs |= {"rows": len(pool), "columns": pool.columns, "left_out": max(lines - len(pool), 0)}
    if best:
        least = None
        if "label" not in curve.prediction.dims:
            kept = {name: asked[name] for name in ("loss", "theory") if name in asked}
            least = optimal_penalty(pool, samples=int(asked["samples"][-1]), progress=desk.progress, **kept)
            found.attrs |= {"best_penalty": float(least.penalty), "best_within": [float(x) for x in least.within]}
        found.attrs["verdict"] = verdict(curve, least, asked.get("penalty"))
    return found


@functools.lru_cache(maxsize=2)
def _pool(data: bytes, name: str, table: str) -> Any:
    """The table as a pool, and how many rows it has: written to a file that only this process sees.

    The last two are remembered.
    """
    check_table(name, data)
    with tempfile.TemporaryDirectory(prefix="limitlab-") as folder:
        path = Path(folder) / f"table{Path(name).suffix}"
        path.write_bytes(data)
        try:
            pool = pool_of_file(path, most=MOST, **json.loads(table))
        except InputError as error:
            raise InputError(str(error).replace(str(path), "The table").replace(path.name, "the table")) from None
    if path.suffix.lower() == ".npz":
        return pool, len(pool)
    csv.field_size_limit(max(len(data), 1))  # what the table could be read with
    lines = csv.reader(io.StringIO(data.decode("utf-8-sig"), newline=None))
    return pool, sum(map(bool, lines)) - 1


def _compare(desk: Desk) -> Any:
    first = desk.frame.head["first"]
    sides = [from_bytes(desk.frame.data[:first]), from_bytes(desk.frame.data[first:])]
    found = compare(*sides, **_arguments(desk))
    entries = [dict(zip(HEADS, entry.row(), strict=True)) for entry in found.entries]
    told = {"word": found.word, "agrees": found.agrees, "max_z": found.max_z, "verdict": found.verdict}
    return {**told, "entries": entries}


VERBS: dict[str, Callable[[Desk], Any]] = {
    "predict": _predict,
    "simulate": _simulate,
    "limits": _limits,
    "thresholds": _thresholds,
    "staircase": _staircase,
    "learning_curve": _learning_curve,
    "compare": _compare,
    "exit_time": _exit_time,
    "learning_rates": _learning_rates,
    "free_entropy": _free_entropy,
    "phase_diagram": _phase_diagram,
    "sweep": _sweep,
    "entry": _entry,
}


def _die_with_parent() -> None:
    parent = os.getppid()
    with contextlib.suppress(Exception):
        ctypes.CDLL(None).prctl(DIES_WITH_PARENT, signal.SIGKILL)
        if os.getppid() != parent:  # it died before it could be asked
            sys.exit(0)


if __name__ == "__main__":
    main()
