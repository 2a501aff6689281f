"""A store from a stranger, as a program that puts one thing after another into it and runs every command on it.

``python tests/hostile/store_attacks.py FOLDER`` prints for each attack which commands changed or read something outside
the store, what they said that could steer a terminal, how long they took and how far the memory rose. Names of attacks
after it choose some: a limitlab that waits for ever can be shown one after the other.
"""

import contextlib
import io
import json
import os
import shutil
import socket
import sys
import time
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hostile_attacks import forget_peak, peak
from typer.testing import CliRunner

import limitlab as ll
from cases import committee
from limitlab.cli import app

RATE, RATES = "algorithm.learning_rate", [0.1, 0.2, 0.4, 0.8]
COMMANDS: dict[str, list[str]] = {
    "status": ["status", "{}"],
    "ls": ["store", "ls", "{}"],
    "points": ["store", "ls", "{}", "--points"],
    "export": ["store", "export", "{}", "--out", "{}.csv", "--force"],
    "sweep": [],
    "verify": ["store", "verify", "{}"],
    "pack": ["store", "pack", "{}"],
    "migrate": ["store", "migrate", "{}"],
    "gc": ["store", "gc", "{}", "--quarantine"],
    "sweep again": [],
}
EMPTY = b'{"labels":[],"arrays":[],"attributes":{"a":%s}}'
ESCAPE = "\x1b[31m\x9b31m\u202e"


def doubled(problem: ll.Problem) -> float:
    return 2 * problem.algorithm.learning_rate


def swept(folder: Path) -> Any:
    return ll.sweep(doubled, committee("linear", "linear", p=1, k=1), {RATE: RATES}, store=folder)


def a_file(store: Path) -> Path:
    """A file with points in it."""
    return next(path for path in sorted((store / "points").rglob("*")) if path.is_file())


def record_of(store: Path, end: str) -> Path:
    return next((store / "sweeps").glob(f"*{end}"))


def instead(path: Path, make: Callable[[Path], None]) -> None:
    shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    make(path)


def link_to(target: Path) -> Callable[[Path], None]:
    return lambda path: path.symlink_to(target)


def attacks(outside: Path) -> dict[str, Callable[[Path], None]]:
    """Each puts one thing into a store."""
    found: dict[str, Callable[[Path], None]] = {
        "a link for the file of points": lambda s: instead(a_file(s), link_to(outside / "secret.txt")),
        "a link to another segment": lambda s: instead(a_file(s), link_to(outside / a_file(outside / "store").name)),
        "a hard link to another segment": lambda s: hard_link(s, outside),
        "a pipe for the file of points": lambda s: instead(a_file(s), os.mkfifo),
        "a socket for the file of points": lambda s: instead(a_file(s), bind),
        "a folder for the file of points": lambda s: instead(a_file(s), Path.mkdir),
        "a link for the record of a sweep": lambda s: instead(record_of(s, ".json"), link_to(outside / "secret.txt")),
        "a pipe for the record of a sweep": lambda s: instead(record_of(s, ".json"), os.mkfifo),
        "a pipe for the list of points": lambda s: instead(record_of(s, ".keys"), os.mkfifo),
        "a pipe for the record of a run": lambda s: os.mkfifo(s / "runs" / "pipe.json"),
        "a link to an endless device for the record of a run": lambda s: endless(s / "runs" / "z.json"),
        "a link to an endless device for the list of points": lambda s: instead(
            record_of(s, ".keys"), link_to(Path("/dev/zero"))
        ),
        "a link to an endless device for the mark": lambda s: instead(
            s / "limitlab-store.json", link_to(Path("/dev/zero"))
        ),
        "a pipe for the mark": lambda s: instead(s / "limitlab-store.json", os.mkfifo),
        "a terabyte for the mark": lambda s: os.truncate(s / "limitlab-store.json", 10**12),
        "a terabyte for the record of a run": lambda s: large(s / "runs" / "large.json"),
        "a terabyte for the list of points": lambda s: large(record_of(s, ".keys")),
        "a terabyte for the file of points": lambda s: os.truncate(a_file(s), 10**12),
        "two gigabytes of nothing after the points": lambda s: os.truncate(a_file(s), 2 * 10**9),
        "links in quarantine": lambda s: quarantined(s, outside),
        "a link in parts": lambda s: parted(s, outside),
        "a pipe in quarantine with a note": lambda s: piped(s),
        "a link for the result": lambda s: [
            (s / f"{path.stem}.nc").symlink_to(outside / "secret.txt") for path in (s / "sweeps").glob("*.json")
        ],
        "escape sequences in the record of a sweep": lambda s: escaped(s),
        "escape sequences in names": lambda s: named(s),
        "the record of a run that writes elsewhere": lambda s: traversing(s),
    }
    for name in ("points", "sweeps", "runs", "quarantine", "parts", "index"):
        found[f"a link for {name}"] = lambda s, name=name: linked(s, name, outside)
    if os.geteuid() == 0:
        found["a device for the record of a run"] = lambda s: os.mknod(s / "runs" / "d.json", 0o20644, os.makedev(1, 5))
    with contextlib.suppress(ImportError):
        found.update(new_attacks())
    return found


def hard_link(store: Path, outside: Path) -> None:
    """A file of points that has a second name elsewhere."""
    name = next((outside / "store" / "points").rglob("*.*")).name
    os.link(outside / "linked.bin", store / "points" / (name[:-20] + "0" * 16 + ".seg"))


def endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


def bind(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        here = os.getcwd()
        os.chdir(path.parent)
        try:
            one.bind(path.name)
        finally:
            os.chdir(here)


def large(path: Path) -> None:
    path.write_bytes(b"{")
    os.truncate(path, 10**12)


def linked(store: Path, name: str, outside: Path) -> None:
    shutil.rmtree(store / name, ignore_errors=True)
    (store / name).symlink_to(outside / "store" / name)


def quarantined(store: Path, outside: Path) -> None:
    (store / "quarantine" / "a").symlink_to(outside / "secret.txt")
    (store / "quarantine" / "a.txt").symlink_to(outside / "secret.txt")
    (store / "quarantine" / "b").symlink_to(outside / "store")


def parted(store: Path, outside: Path) -> None:
    name = f"{socket.gethostname()}@999999999.abc"
    (store / "parts" / name).symlink_to(outside / "secret.txt")
    (store / "parts" / f"{name}2").symlink_to(outside / "store")


def piped(store: Path) -> None:
    os.mkfifo(store / "quarantine" / "a")
    os.mkfifo(store / "quarantine" / "a.txt")


def escaped(store: Path) -> None:
    path = record_of(store, ".json")
    about = json.loads(path.read_text())
    path.write_text(json.dumps({**about, "name": ESCAPE, "axes": {ESCAPE: about["axes"][RATE]}}))
    run = {"state": ESCAPE, "verb": ESCAPE, "note": ESCAPE, "sweep": ESCAPE, "failed": ESCAPE, "total": ESCAPE}
    (store / "runs" / "a.json").write_text(json.dumps({**run, "began": [ESCAPE], "updated": 1e300, "host": ESCAPE}))


def named(store: Path) -> None:
    (store / "points" / f"{ESCAPE}.seg").write_text("hello")
    (store / "sweeps" / f"{ESCAPE}.json").write_text(record_of(store, ".json").read_text())
    (store / "sweeps" / f"{ESCAPE}.keys").write_text("x")
    (store / "quarantine" / ESCAPE).write_text("hello")
    (store / "quarantine" / f"{ESCAPE}.txt").write_text(f"{ESCAPE}\n{ESCAPE}\n")


def traversing(store: Path) -> None:
    run = {"state": "finished", "sweep": "../outside/written", "host": socket.gethostname(), "process": os.getpid()}
    (store / "runs" / "z.json").write_text(json.dumps({**run, "began": 1e11}))


# --- attacks on the format itself: whole records, with the right checksums, that lie -------------------------------


def new_attacks() -> dict[str, Callable[[Path], None]]:
    from limitlab.sweep.storage.files.encoding import LENGTHS
    from limitlab.sweep.storage.files.records import CLAIM, MAGIC, POINT, VOID, VOIDED, frame

    def contents(table: Any, arrays: bytes = b"", packed: bool = True, whole: int | None = None) -> bytes:
        text = table if isinstance(table, bytes) else json.dumps(table).encode()
        data = zlib.compress(text, 9) if packed else text
        return LENGTHS.pack(len(data), (len(text) if whole is None else whole) if packed else 0) + data + arrays

    def point(*rows: list, attributes: Any = None, arrays: bytes = b"", **more: Any) -> bytes:
        return contents({"labels": [], "arrays": list(rows), "attributes": attributes or {}, **more}, arrays)

    bombs = {
        "a packed gigabyte": contents(b" " * (1 << 28), whole=(1 << 20)),
        "a packed gigabyte that says so": contents(b" " * (1 << 28)),
        "a table of contents beyond the end": LENGTHS.pack(1 << 31, 0) + b"{}",
        "a shape of a petabyte": point(["x", ["a"], "<f8", [10**15]]),
        "a shape that overflows": point(["x", ["a", "b"], "<f8", [2**40, 2**40]]),
        "a shape of nothing times a lot": point(["x", ["a", "b"], "<f8", [0, 10**18]]),
        "a negative shape": point(["x", ["a"], "<f8", [-1]], arrays=b"x" * 8),
        "a thousand dimensions": point(["x", ["a"] * 1000, "<f8", [1] * 1000], arrays=b"x" * 8),
        "texts without length": point(["x", ["a"], "<U0", [10**12]]),
        "objects": point(["x", [], "|O", []], arrays=b"x" * 8),
        "records": point(["x", [], "f8,f8", []], arrays=b"x" * 16),
        "a kind that is code": point(["x", [], "__import__('os').system('id')", []]),
        "characters beyond all": point(["x", [], "<U1", []], arrays=b"\xff\xff\xff\x7f"),
        "a truth value of 7": point(["x", [], "|b1", []], arrays=b"\x07"),
        "a million arrays": point(*[["x", [], "|b1", []]] * 10**5),
        "deep attributes": contents(EMPTY % (b"[" * 10**5 + b"]" * 10**5)),
        "many lists": contents(EMPTY % (b"[" + b"[]," * 10**7 + b"[]]"), packed=False),
        "lists of six megabytes": contents(EMPTY % (b"[" + b"[]," * (2 * 10**6) + b"[]]"), packed=False),
        "digits": contents(EMPTY % (b"9" * 10**5)),
        "no table": contents(b"[]"),
        "an escape sequence": point(attributes={"provenance": {"key": ESCAPE}}, reason=ESCAPE, failure=ESCAPE),
        "names that are numbers": contents({"labels": [[1, [2], 3, 4]], "arrays": [], "attributes": {}}),
    }

    def put(store: Path, content: bytes) -> None:
        key = (next((store / "sweeps").glob("*.keys"))).read_text().split("\n")[0]
        path = a_file(store)
        rest = [frame(POINT, bytes.fromhex(key), content)]
        (path.with_name("stranger-" + "0" * 16 + ".seg")).write_bytes(MAGIC + b"".join(rest))
        path.unlink()  # the stranger's is the only one
        shutil.rmtree(store / "index", ignore_errors=True)

    out = {f"a point with {name}": lambda s, content=content: put(s, content) for name, content in bombs.items()}

    def voids(store: Path) -> None:
        names = [b"../../etc/passwd", b"\xff", b"", a_file(store).name.encode()]
        records = [frame(VOID, bytes(16), VOIDED.pack(2**63, 2**64 - 1) + name) for name in names]
        records += [frame(CLAIM, bytes(16), b"odd"), frame(CLAIM, bytes(16), b"\xff" * 10**6)]
        records += [frame(VOID, bytes(16), b"")]
        (store / "points" / ("stranger-" + "0" * 16 + ".seg")).write_bytes(MAGIC + b"".join(records))

    def marks(store: Path) -> None:  # a hundred megabytes of beginnings of records
        (store / "points" / ("stranger-" + "0" * 16 + ".seg")).write_bytes(MAGIC + b"\xf5LL\x02" * (25 * 10**6))

    return {**out, "voids of other places": voids, "beginnings without end": marks}


# --- the program ---------------------------------------------------------------------------------------------------


def picture(folder: Path) -> dict[str, Any]:
    """Everything outside: names, contents, times of change; times of reading where the system keeps them."""
    out = {}
    for path in sorted(folder.rglob("*")):
        about = os.lstat(path)
        read = about.st_atime_ns if path.is_file() and path.name != "linked.bin" else 0  # has two names by intent
        out[str(path)] = [about.st_mtime_ns, about.st_size, about.st_nlink, read]
    return out


def run(name: str, store: Path) -> str:
    """What a command says."""
    if name.startswith("sweep"):
        said = io.StringIO()
        with contextlib.redirect_stderr(said), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                swept(store)
            except ll.errors.LimitlabError as error:
                said.write(str(error))
        return said.getvalue() + "".join(str(one.message) for one in caught)
    done = CliRunner().invoke(app, [word.format(store) for word in COMMANDS[name]])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.output


def main(folder: Path, chosen: list[str]) -> None:
    outside, good = folder / "outside", folder / "good"
    outside.mkdir()
    swept(good)
    for name in COMMANDS:  # everything is imported and compiled before the clock runs
        run(name, good)
    swept(good)
    shutil.copytree(good, outside / "store")
    (outside / "secret.txt").write_text(json.dumps({"axes": {"secret": [1]}, "name": "secret"}))
    shutil.copy(a_file(good), outside / a_file(outside / "store").name)
    shutil.copy(a_file(good), outside / "linked.bin")
    for number, (name, attack) in enumerate(attacks(outside).items()):
        if chosen and name not in chosen:
            continue
        store = folder / f"s{number}" / "runs"
        shutil.copytree(good, store)
        attack(store)
        for path in outside.rglob("*"):
            os.utime(path, ns=(10**18, 2 * 10**18), follow_symlinks=False)  # reading would be seen
        before = picture(outside)
        for command in COMMANDS:
            forget_peak()
            memory, began = peak(), time.process_time()
            fault = ""
            try:
                said = run(command, store)
            except Exception as error:
                said, fault = "", f"{type(error).__name__}: {error}"
            took, rose = time.process_time() - began, peak() - memory
            if picture(outside) != before:
                fault = f"{fault} something outside was touched or read: " + str(
                    [path for path, about in picture(outside).items() if before.get(path) != about]
                    or sorted(set(before) - set(picture(outside)))
                )
                before = picture(outside)
            if any(not c.isprintable() and c != "\n" for c in said):
                fault = f"{fault} it said {said!a}"
            if "secret" in said.replace("secret.txt", ""):
                fault = f"{fault} it told a secret"
            print(json.dumps([name, command, fault, took, rose]), flush=True)
        shutil.rmtree(store.parent)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
