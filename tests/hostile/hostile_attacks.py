"""What a stranger could put into a file, as a program that tries it out.

``python tests/hostile_attacks.py attack FOLDER`` prints for each attack how it ended, how long it took and how far the
memory rose; ``mutate FOLDER SEED SECONDS`` reads a result again and again with bytes changed.
"""

import json
import os
import resource
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

SECONDS = 5.0  # of processor time for an attack; most take milliseconds, and reading 1 MB of TOML one second
MEGABYTES = 200.0
HUGE = 100_000_000
GOOD = '[teacher]\nkind = "Committee"\nwidth = 2\n'
COMMITTEE = {"kind": "Committee", "width": 2}

# --- attacks on problem files ---------------------------------------------------------------------------------


def spec_attacks(folder: Path) -> Iterator[tuple[str, str, Callable[[], Any]]]:
    """(name, reader, maker of the hostile value)."""
    field = {"width": GOOD.replace("2", "{}"), "weights": GOOD + "output_weights = {}\n"}
    rate = GOOD + '[algorithm]\nkind = "OnlineSGD"\nlearning_rate = {}\n'
    start = GOOD + '[start]\nkind = "RandomStart"\nP = {}\n'
    loss = GOOD + '[loss]\nkind = "CustomLoss"\nof = "margin"\nscale = 1.0\nfunction = "linear"\nkinks = {}\n'
    name = GOOD + "activation = '{}'\n"
    target = '[inputs]\nkind = "Hypercube"\n[teacher]\nkind = "SparseTarget"\ntext = "{}"\n'
    texts = {
        "brackets": "x = " + "[" * 100_000,
        "closed brackets": "x = " + "[" * 100_000 + "]" * 100_000,
        "inline tables": "x = " + "{a = " * 100_000,
        "dotted key": ".".join("a" * 100_000) + " = 1",
        "dotted quoted key": '"".' * 100_000 + '"" = 1',
        "dotted header": "[" + ".".join("a" * 100_000) + "]",
        "dotted inline key": "x = {" + " . ".join("a" * 100_000) + " = 1}",
        "many keys": "\n".join(f"a{i} = 1" for i in range(80_000)),
        "many tables": "[[a]]\n[[a.b]]\n" * 60_000,
        "digits": "sample_ratio = " + "9" * 100_000,
        "hexadecimal width": field["width"].format("0x" + "f" * 100_000),
        "hexadecimal batch": rate.format(1) + "batch_size = 0x" + "f" * 100_000,
        "negative hexadecimal width": field["width"].format(-(10**4000)),
        "width": field["width"].format(10**18),
        "batch": rate.format(1) + f"batch_size = {10**18}",
        "many weights": field["weights"].format("[" + "0," * 400_000 + "]"),
        "three-dimensional P": start.format("[[[1.0]]]"),
        "empty P": start.format("[[]]"),
        "huge P": start.format("[[1e308, -1e308], [-1e308, 1e308]]"),
        "many kinks": loss.format("[" + ",".join(map(str, range(100_000))) + "]"),
        "nan": rate.format("nan"),
        "inf": rate.format("-inf"),
        "1e400": rate.format("1e400"),
        "minus zero": rate.format("-0.0"),
        "hermite": name.format("hermite(1000000000)"),
        "hermite of a power": name.format("hermite(10**9)"),
        "shifted": name.format("shifted(" * 10_000 + "erf" + ",1)" * 10_000),
        "shifted a little": name.format("shifted(" * 300 + "erf" + ",1)" * 300),
        "knots": name.format("piecewise(" + "(0,0)," * 100_000 + ")"),
        "steep knots": name.format("piecewise((0,0),(5e-324,1))"),
        "parentheses in a name": name.format("piecewise(" + "(" * 3000),
        "minus signs in a name": name.format("hermite(" + "-" * 3000 + "1)"),
        "code": name.format('hermite(__import__("os").system("true"))'),
        "power of z": target.format("0*z1^1000000"),
        "high power": target.format("(z1+z2)^1000000"),
        "z999999999": target.format("z999999999"),
        "a million terms": target.format("z1" + "+z1" * 330_000 + "+q"),
        "all products": target.format("*".join(f"(1+z{i})" for i in range(1, 21))),
        "many products": target.format("+".join(["(1+z1)*(1+z2)*(1+z3)*(1+z4)*(1+z5)*(1+z6)*(1+z7)"] * 8000)),
        "parentheses": target.format("(" * 100_000),
        "long product": target.format("1*" * 400_000 + "("),
        "kind is code": '[teacher]\nkind = "os.system"',
        "kind is a path": '[teacher]\nkind = "../../etc/passwd"',
        "kind is a class": '[teacher]\nkind = "__class__"\n__class__ = "x"',
        "lookalike": GOOD.replace("Committee", "C\N{CYRILLIC SMALL LETTER O}mmittee"),
        "right to left": GOOD.replace("Committee", "Committee\u202e"),
        "escape sequence": GOOD + '"\\u001b[31m\\u0007" = 1',
        "escape sequence as value": GOOD + 'activation = "\\u001b[2J"',
        "null byte": GOOD + '"a\\u0000b" = 1',
        "twice": GOOD + "width = 2",
        "100 MB": "#" * HUGE,
        "BOM": "\ufeff" + GOOD,
    }
    for label, text in texts.items():
        yield f"TOML: {label}", "loads", lambda text=text: text
    for label, text in {
        "brackets": "[" * 500_000,
        "tables": '{"a":' * 100_000,
        "twice": "{" + ",".join(f'"{i}":1' for i in range(60_000)) + ',"1":1}',
        "surrogate": '{"\\ud800": 1}',
        "surrogate twice": '{"\\ud800": 1, "\\ud800": 2}',
        "surrogate as kind": '{"teacher": {"kind": "\\udfff"}}',
        "digits": '{"sample_ratio": ' + "9" * 500_000 + "}",
        "1e400": '{"sample_ratio": 1e400}',
        "-Infinity": '{"sample_ratio": -Infinity}',
        "100 MB": '"' + "a" * HUGE + '"',
        "BOM": "\ufeff{}",
    }.items():
        yield f"JSON: {label}", "from_json", lambda text=text: text
    loop: dict[str, Any] = {}
    loop["teacher"] = loop
    wide: list[Any] = []
    wide += [wide] * 1000

    class Rude:
        def __repr__(self) -> str:
            raise RuntimeError("no")

    tables: dict[str, Callable[[], Any]] = {
        "itself": lambda: loop,
        "itself, a thousand times": lambda: {"x": wide},
        "100 MB": lambda: {"teacher": {**COMMITTEE, "activation": "a" * HUGE}},
        "100 MB of bytes": lambda: {"teacher": b"\x1b" * HUGE},
        "100 MB key": lambda: {"a" * HUGE: 1},
        "many numbers": lambda: {"teacher": {**COMMITTEE, "output_weights": [0.0] * 10_000_000}},
        "a view of 10^12 numbers": lambda: {"x": np.broadcast_to(0.0, (10**6, 10**6))},
        "objects": lambda: {"teacher": {**COMMITTEE, "output_weights": np.array([print, {}], dtype=object)}},
        "numbers as keys": lambda: {1: 2},
        "an exotic key": lambda: {Rude(): 2},
        "an exotic value": lambda: {"teacher": Rude()},
        "a list": lambda: [1],
    }
    for label, make in tables.items():
        yield f"dict: {label}", "from_dict", make
    for label, make in spec_files(folder).items():
        yield f"file: {label}", "load_spec", make


def spec_files(folder: Path) -> dict[str, Callable[[], Any]]:
    def put(name: str, data: bytes) -> Path:
        (folder / name).write_bytes(data)
        return folder / name

    def grown() -> Path:
        with open(folder / "sparse.toml", "wb") as file:
            file.truncate(10**12)
        return folder / "sparse.toml"

    def pipe() -> Path:
        os.mkfifo(folder / "pipe.toml")
        return folder / "pipe.toml"

    def link(name: str, to: str) -> Path:
        os.symlink(to, folder / name)
        return folder / name

    return {
        "100 MB": lambda: put("big.toml", b"#" * HUGE),
        "a terabyte of nothing": grown,
        "a pipe": pipe,
        "a link to a pipe": lambda: link("link.toml", "pipe.toml"),
        "a link to itself": lambda: link("self.toml", "self.toml"),
        "/dev/zero": lambda: "/dev/zero",
        "/dev/stdin": lambda: "/dev/stdin",
        "a process": lambda: "/proc/self/environ",
        "a folder": lambda: folder,
        "a folder in a file": lambda: put("a.toml", b"") / "b.toml",
        "null byte": lambda: "a\0b.toml",
        "long name": lambda: "a" * 10_000,
        "escape sequence in its name": lambda: put("\x1b[31m.toml", b"x ="),
        "escape sequence in a neighbour's name": lambda: folder / "\x1b[31m.tom",
        "not UTF-8": lambda: put("c.toml", b"\xff\xfe\x00"),
        "BOM": lambda: put("bom.toml", b"\xef\xbb\xbf" + GOOD.encode()),
    }


# --- attacks on result files ---------------------------------------------------------------------------------


def good_result(**more: Any):
    import limitlab as ll
    from limitlab.results.schema import dataset

    problem = ll.Problem(teacher=ll.Committee(width=2), student=ll.Committee(width=2))
    variables = {"risk": (("time", "replica"), np.arange(6.0).reshape(3, 2)), "status": ("replica", ["ok", "ok"])}
    return dataset(problem, variables, {"time": [0.0, 0.1, 3.0]}, method="test", attrs={"flag": True, **more})


def result_attacks(folder: Path) -> Iterator[tuple[str, str, Callable[[], Any]]]:
    import h5py

    from limitlab.results.files import save, seal

    secret = h5py.File(folder / "secret.h5", "w")
    secret["risk"] = np.full((3, 2), 42.0)
    secret.close()
    (folder / "secret.bin").write_bytes(b"\1" * 64)

    def with_dataset(**how: Any) -> Callable[[Any], None]:
        return lambda f: f.create_dataset("extra", **how)

    def layout() -> Any:
        virtual = h5py.VirtualLayout((3, 2), float)
        virtual[:] = h5py.VirtualSource(folder / "secret.h5", "risk", (3, 2))
        return virtual

    def link(f: Any, to: Any) -> None:
        f["extra"] = to

    def set_attribute(name: str, value: Any, on: str = "/") -> Callable[[Any], None]:
        return lambda f: f[on].attrs.__setitem__(name, value)

    def bomb(f: Any) -> None:
        data = f.create_dataset("extra", (10**11,), "u1", chunks=(10**7,), compression="gzip")
        data[: 2 * 10**7] = 0

    def many_attributes(f: Any) -> None:
        for i in range(1001):
            f.attrs[f"a{i}"] = 1

    def many_variables(f: Any) -> None:
        for i in range(1001):
            f[f"v{i}"] = 1.0

    def heap_reference(f: Any) -> None:
        f.attrs.create("extra", f["risk"].ref, dtype=h5py.ref_dtype)

    def longer(f: Any) -> None:
        scales = f["risk"].attrs["DIMENSION_LIST"]
        del f["risk"]
        f["risk"] = np.zeros((4, 2))
        f["risk"].attrs.create("DIMENSION_LIST", scales, dtype=h5py.vlen_dtype(h5py.ref_dtype))

    def instead(f: Any) -> None:
        del f["risk"]
        f["risk"] = h5py.ExternalLink(str(folder / "secret.h5"), "/risk")

    texts = h5py.string_dtype()
    enum = h5py.enum_dtype({"a": 1}, basetype="i4")
    holes = {"shape": (10**12,), "dtype": float}
    attacks: dict[str, Callable[[Any], Any]] = {
        "external link": lambda f: link(f, h5py.ExternalLink(str(folder / "secret.h5"), "/risk")),
        "external link for a variable": instead,
        "soft link": lambda f: link(f, h5py.SoftLink("/risk")),
        "dangling link": lambda f: link(f, h5py.SoftLink("/../../etc/passwd")),
        "external storage": with_dataset(
            shape=(8,), dtype=float, external=[(str(folder / "secret.bin"), 0, h5py.h5f.UNLIMITED)]
        ),
        "virtual storage": lambda f: f.create_virtual_dataset("extra", layout()),
        "group": lambda f: f.create_group("extra"),
        "group that is the root": lambda f: link(f, f["/"]),
        "type": lambda f: link(f, np.dtype("f8")),
        "references": with_dataset(shape=(2,), dtype=h5py.ref_dtype),
        "enum": with_dataset(shape=(2,), dtype=enum, data=[1, 1]),
        "compound": with_dataset(shape=(2,), dtype=np.dtype([("a", "f8"), ("b", "i4")])),
        "opaque": with_dataset(data=np.void(b"\x80\x04.")),
        "lists": with_dataset(shape=(2,), dtype=h5py.vlen_dtype("f8")),
        "bytes": with_dataset(data=np.array([b"a"])),
        "no shape": with_dataset(data=h5py.Empty("f8")),
        "a terabyte of nothing": with_dataset(**holes),
        "a terabyte of missing chunks": with_dataset(**holes, chunks=(10**6,), fillvalue=1.0),
        "a terabyte of texts": with_dataset(shape=(10**12,), dtype=texts),
        "compression": bomb,
        "32 dimensions": with_dataset(data=np.zeros((1,) * 32)),
        "1001 attributes": many_attributes,
        "1001 variables": many_variables,
        "pickled attribute": set_attribute("extra", np.void(b"\x80\x04.")),
        "reference as attribute": heap_reference,
        "list as attribute": set_attribute("extra", np.zeros(1000)),
        "texts as attribute": set_attribute("extra", ["a"] * 1000),
        "no attribute": set_attribute("extra", h5py.Empty("f8")),
        "deep JSON": set_attribute("extra", "json:" + "[" * 100_000 + "]" * 100_000),
        "JSON not so deep": set_attribute("extra", "json:" + "[" * 100 + "]" * 100),
        "long JSON": set_attribute("extra", "json:[" + "[]," * 2_000_000 + "[]]"),
        "broken JSON": set_attribute("extra", "json:{"),
        "JSON digits": set_attribute("extra", "json:" + "9" * 100_000),
        "long version": set_attribute("schema_version", "a" * 10_000_000),
        "escape sequence as version": set_attribute("schema_version", "\x1b[31m"),
        "escape sequence as name": lambda f: f.create_dataset("\x1b[31m", data=1.0),
        "dots": lambda f: f.create_dataset("..", data=1.0),
        "path": lambda f: f.create_dataset("../../etc/passwd", data=1.0),
        "unknown variable": lambda f: f.create_dataset("__class__", data=1.0),
        "dimensions that clash": longer,
        "dimension twice": lambda f: f["risk"].attrs.__setitem__("DIMENSION_LIST", f["status"].attrs["DIMENSION_LIST"]),
    }
    plain = unsealed(save(good_result(), folder / "good.nc"))
    for i, (label, attack) in enumerate(attacks.items()):

        def damage(attack: Callable[[Any], Any] = attack, path: Path = folder / f"r{i}.nc") -> Path:
            path.write_bytes(plain)
            with h5py.File(path, "a") as file:
                attack(file)
            seal(path)  # anybody can make a checksum
            return path

        yield f"result: {label}", "load", damage
    yield "result: texts that share their bytes", "load", lambda: shared_texts(folder / "shared.nc", plain)
    yield "result: no checksum", "load", lambda: cut(folder / "cut.nc", plain)
    for label, make in spec_files(folder).items():
        if "UTF" not in label and "a folder in" not in label and "pipe" not in label and "itself" not in label:
            yield f"result: {label}", "load", make
    yield "result: a pipe", "load", lambda: folder / "pipe.toml"


def unsealed(path: Path) -> bytes:
    """A saved result without the checksum at its end."""
    from limitlab.results.files import TRAILER

    return path.read_bytes()[:-TRAILER]


def cut(path: Path, plain: bytes) -> Path:
    path.write_bytes(plain)
    return path


def shared_texts(path: Path, plain: bytes) -> Path:
    """50,000 texts that are all the same megabyte of the file: 50 GB if they were read."""
    import h5py

    from limitlab.results.files import seal

    path.write_bytes(plain)
    with h5py.File(path, "a") as file:
        data = file.create_dataset("extra", (50_000,), h5py.string_dtype())
        data[:] = "a"
        data[0] = "b" * 1_000_000
        at, size = data.id.get_offset(), data.id.get_storage_size() // 50_000
    raw = bytearray(path.read_bytes())
    assert struct.unpack_from("<I", raw, at)[0] == 1_000_000
    raw[at : at + 50_000 * size] = bytes(raw[at : at + size]) * 50_000
    path.write_bytes(raw)
    seal(path)
    return path


# --- the child -----------------------------------------------------------------------------------------------


def peak() -> float:
    """Peak memory in MB since `forget_peak`, or since the start where Linux is not there to ask."""
    status = Path("/proc/self/status")
    if status.exists():
        return next(int(line.split()[1]) for line in status.read_text().splitlines() if "VmHWM" in line) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def forget_peak() -> None:
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        pass


def run_attacks(folder: Path) -> None:
    import limitlab.spec
    from limitlab.results.files import load, save

    tools = {**vars(limitlab.spec), "load": load}
    limitlab.spec.loads(GOOD)
    load(save(good_result(), folder / "warm.nc"))
    for attacks in (spec_attacks(folder), result_attacks(folder)):
        for name, tool, make in attacks:
            value = make()
            forget_peak()
            before, began = peak(), time.process_time()
            try:
                tools[tool](value)
                ended, message = "read", ""
            except Exception as error:
                ended, message = type(error).__name__, str(error)
            took, rose = time.process_time() - began, peak() - before
            print(json.dumps([name, ended, message, took, rose]), flush=True)


def run_mutations(folder: Path, seed: int, seconds: float) -> None:
    """Load a valid file with bytes changed, again and again; whatever kills the process is left in the folder."""
    from limitlab.errors import ResultFileError
    from limitlab.results.files import load, save, seal

    rng, counts = np.random.default_rng(seed), {"same": 0, "other data": 0, "refused": 0}
    good = good_result(text="some text", listed=[1, 2.5])
    plain, path = unsealed(save(good, folder / "plain.nc")), folder / f"mutated{seed}.nc"
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        path.write_bytes(mutated(plain, rng))
        seal(path)  # what is tested is the reader, not the checksum
        began = time.process_time()
        message = ""
        try:
            with np.errstate(all="ignore"):
                outcome = "same" if load(path).identical(good) else "other data"
        except ResultFileError as error:
            outcome, message = "refused", str(error)
        counts[outcome] += 1
        assert all(c.isprintable() or c == "\n" for c in message), ascii(message)
        assert time.process_time() - began < SECONDS
    assert peak() < 2000, peak()
    print(json.dumps(counts))


def mutated(data: bytes, rng: np.random.Generator) -> bytes:
    """One to four changes: a bit, a byte, a run of zeros or of noise, an insertion, a cut, a copy from elsewhere."""
    out = bytearray(data)
    for _ in range(rng.integers(1, 5)):
        at, size = int(rng.integers(0, len(out))), int(2 ** rng.uniform(0, 6))
        kind = int(rng.integers(0, 8))
        if kind == 0:
            out[at] ^= 1 << int(rng.integers(0, 8))
        elif kind == 1:
            out[at] = int(rng.integers(0, 256))
        elif kind == 2:
            out[at : at + size] = bytes(len(out[at : at + size]))
        elif kind == 3:
            out[at : at + size] = rng.bytes(len(out[at : at + size]))
        elif kind == 4:
            out[at:at] = rng.bytes(size)
        elif kind == 5:
            del out[at : at + size]
        elif kind == 6:
            out[at : at + 8] = b"\xff" * len(out[at : at + 8])
        else:
            source = int(rng.integers(0, len(out)))
            out[at : at + size] = out[source : source + size]
        if rng.random() < 0.02:
            del out[at:]
        out = out or bytearray(b"\0")
    return bytes(out)


def child(*arguments: Any, timeout: float) -> str:
    """What this file prints as a program."""
    command = [sys.executable, "-W", "error", "-W", "ignore::DeprecationWarning", __file__, *map(str, arguments)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=timeout, input="")
    assert run.returncode == 0, (run.returncode, run.stderr[-3000:])
    return run.stdout


if __name__ == "__main__":
    task, place, *rest = sys.argv[1:]
    if task == "attack":
        run_attacks(Path(place))
    else:
        run_mutations(Path(place), int(rest[0]), float(rest[1]))
