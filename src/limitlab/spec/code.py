"""What Python code does and reads, from its bytecode: no source is needed, and none is run."""

import dis
import itertools
import sys
import types
from collections.abc import Iterator
from typing import Any, NamedTuple

__all__ = ["Import", "code_table", "diaries", "imports", "names_in", "read_names", "read_whole"]

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"  # bytecode is that of one version of Python
LOADS = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT", "LOAD_FAST", "STORE_FAST_LOAD")
KINDS = ("VARARGS", "VARKEYWORDS", "GENERATOR", "COROUTINE", "ITERABLE_COROUTINE", "ASYNC_GENERATOR")
MEANT = sum(flag for flag, name in dis.COMPILER_FLAG_NAMES.items() if name in KINDS)  # not where it was defined
ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD")


def tree(code: types.CodeType) -> Iterator[types.CodeType]:
    """The code and all code in it: of functions, classes and comprehensions."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from tree(constant)


def code_table(code: types.CodeType) -> list[Any]:
    """All that a code does, and nothing of what it is called and where it is written: no lines, no names of files."""
    counts = [code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags & MEANT]
    names = [code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars]
    caught = getattr(code, "co_exceptiontable", b"").hex()
    return [PYTHON, code.co_code.hex(), caught, counts, names, [_constant(constant) for constant in code.co_consts]]


def _constant(value: Any) -> Any:
    if isinstance(value, types.CodeType):
        return code_table(value)
    if isinstance(value, tuple):
        return ["tuple", *map(_constant, value)]
    if isinstance(value, frozenset):  # whose order changes from process to process
        return ["set", *sorted(str(_constant(item)) for item in value)]
    return [type(value).__name__, repr(value)]


def names_in(code: types.CodeType) -> set[str]:
    """All names of globals, attributes and imports."""
    return {name for each in tree(code) for name in each.co_names}


def read_names(code: types.CodeType) -> list[str]:
    """The globals that the code reads, in order. Every class reads the name of its module, and only notes it."""
    kinds = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS")
    steps = [step for each in tree(code) for step in _steps(each) if step.opname in kinds]
    return sorted({step.argval for step in steps if (step.opname, step.argval) != ("LOAD_NAME", "__name__")})


def read_whole(code: types.CodeType) -> set[str]:
    """Variables (and attributes, with a dot) that the code reads other than for an attribute: as in ``f(module)``."""
    found = set()
    for each in tree(code):
        for step, after in itertools.pairwise([*_steps(each), None]):
            if step is None:
                continue
            names = (f".{step.argval}",) if step.opname in ATTRIBUTES else _loaded(step)
            found.update(names if after is None or after.opname not in ATTRIBUTES else names[:-1])
    return found


class Import(NamedTuple):
    """An import inside a function: the module, how many folders up it is looked for, what is taken from it."""

    module: str
    level: int
    taken: tuple[str, ...]
    stored: str


def imports(code: types.CodeType) -> list[Import]:
    """The imports in the code."""
    found = []
    for each in tree(code):
        steps = _steps(each)
        for i, step in enumerate(steps):
            if step.opname == "IMPORT_NAME":
                level, taken = steps[i - 2].argval, steps[i - 1].argval
                stored = next((s.argval for s in steps[i + 1 :] if s.opname.startswith("STORE_")), "")
                stored = stored[0] if isinstance(stored, tuple) else stored
                found.append(Import(step.argval, level or 0, tuple(taken or ()), str(stored)))
    return found


def diaries(code: types.CodeType) -> set[str]:
    """Variables that are written into and never read: all that is done with them is ``name.append(...)``.

    What is in them cannot change what the code computes, and grows with every call.
    """
    written, read = set(), set()
    for each in tree(code):
        steps = _steps(each)
        for i, step in enumerate(steps):
            names = _loaded(step)
            if names:
                (written if _appended(steps, i) else read).add(names[-1])
                read.update(names[:-1])
    return written - read


def _appended(steps: list[dis.Instruction], i: int) -> bool:
    """Whether the variable loaded here has something appended, and what that returns is thrown away."""
    if i + 1 >= len(steps) or steps[i + 1].opname not in ATTRIBUTES or steps[i + 1].argval != "append":
        return False
    depth = 2  # the method and its list
    for step, after in itertools.pairwise(steps[i + 2 :]):
        if step.opcode in dis.hasjrel or step.opcode in dis.hasjabs:
            return False
        depth += dis.stack_effect(step.opcode, step.arg, jump=False)
        if depth <= 1:
            return step.opname == "CALL" and after.opname == "POP_TOP"
    return False


def _steps(code: types.CodeType) -> list[dis.Instruction]:
    return [step for step in dis.get_instructions(code) if step.opname not in ("CACHE", "EXTENDED_ARG", "NOP")]


def _loaded(step: dis.Instruction) -> tuple[str, ...]:
    """The variables that an instruction puts on the stack, in order."""
    if not step.opname.startswith(LOADS):
        return ()
    if isinstance(step.argval, tuple):
        return step.argval[1:] if step.opname.startswith("STORE") else step.argval
    return (step.argval,)
