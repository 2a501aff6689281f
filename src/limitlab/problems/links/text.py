r"""Links as texts such as ``z1^2 + sign(z1*z2*z3)``: read by a small parser, never evaluated."""

import functools
import re
from typing import Any

import numpy as np

from limitlab.errors import InputError
from limitlab.modules import field
from limitlab.numerics.gauss.normal import erf
from limitlab.problems.links.base import AbstractLink
from limitlab.problems.sparse.text import MAX_VARIABLE, NUMBER, Reader
from limitlab.text import did_you_mean

__all__ = ["FUNCTIONS", "TextLink"]

MAX_TEXT = 4000  # characters
MAX_POWER = 64
FUNCTIONS = ("sign", "abs", "relu", "erf", "tanh")


class TextLink(AbstractLink):
    r"""A link written with numbers, z1 to z20, ``+ - * ^``, division by numbers, and the functions below.

    ``sign`` (0 at 0), ``abs``, ``relu``, ``tanh`` and ``erf``, which is erf(x/sqrt(2)) as everywhere here.
    """

    text: str = field(static=True)

    def __check_init__(self):
        _tree(self.text)

    @property
    def name(self):
        return self.text

    def value(self, z, xp):
        return _value(_tree(self.text), z, xp)

    def check(self, width):
        tree = _tree(self.text)
        for number, at in sorted(_variables(tree)):
            if number > width:
                _Parser(self.text).fail(
                    f"z{number} is beyond the width", at, f"At width {width} there are z1 to z{width}."
                )
        super().check(width)


@functools.lru_cache(maxsize=64)
def _tree(text: str) -> tuple:
    """The text as nested tuples, the first of each a number, "z", a sign or the name of a function."""
    if len(text) > MAX_TEXT:
        raise InputError(f"MultiIndex.link must be at most {MAX_TEXT} characters of text; got {len(text)}.")
    return _Parser(text).read()


class _Parser(Reader):
    """sum := product (("+" | "-") product)*; product := factor ("*" factor | "/" number)*;
    factor := "-" factor | atom ("^" n)?; atom := number | z | (sum) | function(sum)"""

    subject = "MultiIndex.link"
    example = "z1 + z1*z2"
    signs = f"+ - * / ^, parentheses, {', '.join(FUNCTIONS)}"
    tokens = re.compile(rf"\s*(?:({NUMBER})|([A-Za-z_]\w*)|(\*\*|[-+*/^()]))")

    def sum(self, depth: int) -> tuple:
        total = self.product(depth)
        while self.now.kind in ("+", "-"):
            total = (self.take().kind, total, self.product(depth))
        return total

    def product(self, depth: int) -> tuple:
        total = self.factor(depth)
        while self.now.kind in ("*", "/"):
            sign = self.take()
            if sign.kind == "*":
                total = ("*", total, self.factor(depth))
                continue
            token = self.now
            if token.kind != "number" or float(token.text) == 0:
                self.fail("division is by a number that is not 0", token.at, "Write (z1 + z2)/2, for instance.")
            total = ("*", total, ("number", 1 / self.number(token)))
        return total

    def factor(self, depth: int) -> tuple:
        negative = False
        while self.now.kind in ("+", "-"):
            negative ^= self.take().kind == "-"
        base = self.atom(depth)
        if self.now.kind in ("^", "**"):
            self.take()
            token = self.now
            if token.kind != "number" or not token.text.isdigit() or not 1 <= int(token.text[:9]) <= MAX_POWER:
                self.fail(f"a power is a whole number from 1 to {MAX_POWER}", token.at, "Write z1^2 or (z1 + z2)^3.")
            self.take()
            base = ("^", base, int(token.text))
        return ("*", ("number", -1.0), base) if negative else base

    def atom(self, depth: int) -> tuple:
        token = self.now
        if token.kind == "number":
            return ("number", self.number(token))
        if token.kind == "(":
            return self.inside(token, depth)
        if token.kind != "name":
            self.missing(token)
        self.take()
        if token.text in FUNCTIONS:
            if self.now.kind != "(":
                self.fail(f"{token.text} needs a '('", self.now.at, f"Write {token.text}(z1), for instance.")
            return (token.text, self.inside(self.now, depth))
        match = re.fullmatch(r"z([1-9][0-9]?)", token.text)
        if match is None or int(match[1]) > MAX_VARIABLE:
            what = "function" if self.now.kind == "(" else "variable"
            known = f"There are {', '.join(FUNCTIONS)} and z1 to z{MAX_VARIABLE}."
            self.fail(f"unknown {what} {token.text[:40]!r}", token.at, known + did_you_mean(token.text, FUNCTIONS))
        return ("z", int(match[1]), token.at)


def _variables(tree: tuple) -> set[tuple[int, int]]:
    if tree[0] == "z":
        return {tree[1:]}
    return set().union(*(_variables(part) for part in tree[1:] if isinstance(part, tuple)))


def _value(tree: tuple, z: Any, xp: Any) -> Any:
    kind = tree[0]
    if kind == "number":
        return xp.full(z.shape[:-1], tree[1], z.dtype)
    if kind == "z":
        return z[..., tree[1] - 1]
    x = _value(tree[1], z, xp)
    if kind == "^":
        return x ** tree[2]
    if len(tree) == 3:
        y = _value(tree[2], z, xp)
        return x + y if kind == "+" else x - y if kind == "-" else x * y
    if kind == "erf":
        return erf(x / np.sqrt(2.0).astype(z.dtype), xp)
    return xp.maximum(x, 0) if kind == "relu" else getattr(xp, kind)(x)
