"""A fuzz target for problem files, driven by coverage: ``python tests/fuzz_specs.py FOLDER SECONDS``.

Seeds (the library as TOML and JSON) and a dictionary of kinds, fields and activations are written into FOLDER first.
The first byte of an input chooses the reader. `judge` is what must hold for every input; `test_hostile` uses it too.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

LONGEST = 2000  # characters of a message
MEMORY = 4000  # MB, of which JAX takes some 500
SLOW = 20  # seconds for one input


def judge(read: Callable[[Any], Any], source: Any) -> str:
    """Read: a problem that survives every format, or a refusal that can be shown. Anything else is raised."""
    from limitlab.errors import InputError
    from limitlab.spec import dumps, from_dict, from_json, loads, spec_hash, to_dict, to_json

    try:
        problem = read(source)
    except InputError as error:
        message = str(error)
        assert 10 < len(message) <= LONGEST, len(message)
        assert all(c.isprintable() or c == "\n" for c in message), ascii(message)
        return "refused"
    table = to_dict(problem)
    for back in (from_dict(table), loads(dumps(problem)), from_json(to_json(problem))):
        assert to_dict(back) == table, (table, to_dict(back))
        assert spec_hash(back) == spec_hash(problem)
    return "read"


def as_part(field: str) -> Callable[[str], Any]:
    """A reader of one text inside a problem."""
    from limitlab.spec import from_dict

    kind = {"activation": {"kind": "Committee", "width": 2}, "text": {"kind": "SparseTarget"}}[field]
    return lambda text: from_dict({"inputs": {"kind": "Hypercube"}, "teacher": {**kind, field: text}})


def readers() -> list[Callable[[str], Any]]:
    from limitlab.spec import from_json, loads

    return [loads, from_json, as_part("activation"), as_part("text")]


def target(data: bytes) -> None:
    """One input of the fuzzer."""
    if data:
        judge(readers()[data[0] % 4], data[1:].decode("utf-8", "surrogateescape"))


def seeds() -> list[bytes]:
    """The library in both formats, and texts of every kind of activation and target."""
    from limitlab.library import LIBRARY
    from limitlab.spec import dumps, to_json

    made = [make() for make in LIBRARY.values()]
    texts = [b"\0" + dumps(p).encode() for p in made] + [b"\1" + to_json(p).encode() for p in made]
    names = ["erf", "hermite(3)", "shifted(shifted(tanh, 1), -0.5)", "piecewise((-1, 0), (0.3, 1e2))"]
    targets = ["z1 + z1*z2", "(1 - 0.5*z1)^3*(z2 + z20)", "-z1**2 + 2e-3"]
    return texts + [b"\2" + t.encode() for t in names] + [b"\3" + t.encode() for t in targets]


def words() -> list[str]:
    """Names that a blind fuzzer would not guess."""
    from limitlab.problems.activations import ACTIVATIONS
    from limitlab.problems.problem import Problem
    from limitlab.spec.kinds import fields_of, known_kinds

    kinds = {name: cls for group in known_kinds().values() for name, cls in group.items()}
    fields = {field for cls in (Problem, *kinds.values()) for field in fields_of(cls)}
    signs = ["kind", "trained", "nan", "inf", "1e400", "-0.0", "[[1.0]]", "0xffff", "'''", '"""', "__class__"]
    return [*kinds, *sorted(fields), *ACTIVATIONS, "hermite(", "shifted(", "piecewise((", *signs]


def main(folder: Path, seconds: int) -> None:
    """Write seeds and dictionary, then fuzz; libFuzzer ends the process, with 0 if nothing was found."""
    import atheris

    with atheris.instrument_imports(include=["limitlab.spec", "limitlab.problems", "tomllib"]):
        import limitlab.spec.kinds

        limitlab.spec.kinds.known_kinds()
    corpus = folder / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    for i, seed in enumerate(seeds()):
        (corpus / f"seed{i}").write_bytes(seed)
    (folder / "words.dict").write_text("".join(json.dumps(word) + "\n" for word in words()))
    options = [
        f"-max_total_time={seconds}",
        f"-dict={folder / 'words.dict'}",
        f"-artifact_prefix={folder}/",
        f"-rss_limit_mb={MEMORY}",
        f"-timeout={SLOW}",
        "-max_len=20000",
        "-print_final_stats=1",
    ]
    atheris.Setup([sys.argv[0], *options, str(corpus)], target)
    atheris.Fuzz()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
