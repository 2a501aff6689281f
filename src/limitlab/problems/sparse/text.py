r"""From a text such as ``z1 + 0.5*z1*z2`` to the coefficients of a polynomial of +-1 variables, reduced by z^2 = 1.

A small parser of its own: the text is never evaluated, and what it may cost is bounded.
"""

import math
import re
from abc import ABC, abstractmethod
from typing import Any, NamedTuple, NoReturn

import numpy as np

from limitlab.errors import InputError

__all__ = ["MAX_VARIABLE", "NUMBER", "Polynomial", "Reader", "Token", "parse"]

MAX_VARIABLE = 20
MAX_TEXT = 4_000_000  # characters
MAX_PARSED = 250_000  # characters of a text that is not a plain sum of products
MAX_DEPTH = 50  # of parentheses
MAX_POWER = 64  # of a sum
MAX_DIGITS = 9  # of any power
MAX_WORK = 2**21  # pairs of terms in all products of a text, and terms in all its sums
MAX_TERMS = 2**18  # of a polynomial
ROUNDING = 1e-14  # of the sum of sizes: what is left where terms cancel
SMALL_WORK = 256  # pairs above which NumPy multiplies

Polynomial = dict[int, float]  # bits of a set of variables -> coefficient

NUMBER = r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_FACTOR = rf"(?:{NUMBER}|z[0-9]+)"
_TOKEN = re.compile(rf"\s*(?:({NUMBER})|([A-Za-z_]\w*)|(\*\*|[-+*^()]))")
_MONOMIAL = re.compile(rf"([\s+-]*+)({_FACTOR}(?:\s*+\*\s*+{_FACTOR})*+)\s*+(?=[+-]|\Z)")
_VARIABLES = {f"z{i}": 1 << i - 1 for i in range(1, MAX_VARIABLE + 1)}
_KINDS = {1: "number", 2: "name", 3: ""}


def parse(text: str) -> Polynomial:
    """The coefficients by sets, without those that cancel; `InputError` points at what cannot be read."""
    if len(text) > MAX_TEXT:
        raise InputError(
            f"SparseTarget.text has {len(text)} characters; at most {MAX_TEXT} are read. Leave out small terms."
        )
    plain = _plain_sum(text)
    if plain is None and len(text) > MAX_PARSED:
        raise InputError(
            f"SparseTarget.text has {len(text)} characters; above {MAX_PARSED} it must be a sum of products of finite "
            f"numbers and z1 to z{MAX_VARIABLE}, without parentheses and powers. Write it as such a sum."
        )
    terms, sizes = plain or (_Parser(text).read(), _Parser(text, absolute=True).read())
    if not all(map(math.isfinite, terms.values())):
        raise InputError("SparseTarget: a coefficient is not finite (it overflowed). Use smaller numbers.")
    return {mask: value for mask, value in terms.items() if abs(value) > ROUNDING * sizes[mask]}


def _plain_sum(text: str) -> tuple[Polynomial, Polynomial] | None:
    """A sum of monomials without parentheses and powers, several times faster; None for anything else.

    The second table adds up sizes instead of values: what is small against it is rounding.
    """
    total: Polynomial = {}
    sizes: Polynomial = {}
    at = 0
    while at < len(text):
        match = _MONOMIAL.match(text, at)
        if match is None:
            return None
        signs, monomial = match.groups()
        mask, value = 0, -1.0 if signs.count("-") % 2 else 1.0
        for factor in monomial.split("*"):
            bit = _VARIABLES.get(factor) or _VARIABLES.get(factor.strip())
            if bit is not None:
                mask ^= bit
            elif "z" in factor:
                return None
            else:
                value *= float(factor.strip())
        if math.isinf(value):
            return None  # the parser says where
        total[mask] = total.get(mask, 0.0) + value
        sizes[mask] = sizes.get(mask, 0.0) + abs(value)
        at = match.end()
    return (total, sizes) if total else None


class Token(NamedTuple):
    kind: str  # "number", "name", a symbol, or "end"
    text: str
    at: int


class Reader(ABC):
    """Tokens of a text, one by one, and words that point at the one which cannot be read."""

    subject = "SparseTarget.text"  # what the text is called in a refusal
    example = "z1 + z1*z2"
    signs = "+ - * ^ and parentheses"
    tokens = _TOKEN

    def __init__(self, text: str):
        self.text, self.at, self.end = text, 0, len(text.rstrip())
        self.now = self.next()

    def next(self) -> Token:
        if self.at >= self.end:
            return Token("end", "", self.end)
        match = self.tokens.match(self.text, self.at)
        if match is None:
            at = self.at + len(self.text[self.at :]) - len(self.text[self.at :].lstrip())
            what = f"{self.text[at]!r} cannot be read"
            self.fail(what, at, f"Use numbers, z1 to z{MAX_VARIABLE}, {self.signs}.")
        group, self.at = match.lastindex or 0, match.end()
        word = match[group]
        return Token(_KINDS[group] or word, word, self.at - len(word))

    def take(self) -> Token:
        token, self.now = self.now, self.next()
        return token

    def fail(self, what: str, at: int, remedy: str) -> NoReturn:
        start = max(0, at - 60)
        shown = "".join(c if c.isprintable() else " " for c in self.text[start : start + 110])
        where = f"    {shown}\n    {' ' * (at - start)}^"
        raise InputError(f"{self.subject}: {what} at character {at + 1}. {remedy}\n{where}")

    def read(self) -> Any:
        """All of the text."""
        if self.now.kind == "end":
            raise InputError(f'{self.subject} is empty. Write a target such as "{self.example}".')
        total = self.sum(0)
        if self.now.kind != "end":
            what = "a ')' without its '('" if self.now.kind == ")" else f"{self.now.text[:40]!r} follows without a sign"
            self.fail(what, self.now.at, "Write products with *, as in 2*z1*z2.")
        return total

    @abstractmethod
    def sum(self, depth: int) -> Any:
        """What stands up to the next parenthesis that is not its own."""

    def inside(self, opened: Token, depth: int) -> Any:
        """What stands in a parenthesis that ``opened``, and is the present token; up to its end."""
        if depth >= MAX_DEPTH:
            self.fail(f"parentheses are nested more than {MAX_DEPTH} deep", opened.at, "Write the target as a sum.")
        self.take()
        within = self.sum(depth + 1)
        if self.now.kind != ")":
            self.fail("a ')' is missing", self.now.at, f"It closes the '(' at character {opened.at + 1}.")
        self.take()
        return within

    def number(self, token: Token) -> float:
        """The value of the present token, a number."""
        value = float(token.text)
        if not math.isfinite(value):
            self.fail(f"the number {token.text[:40]} is too large", token.at, "Coefficients must be finite.")
        self.take()
        return value

    def missing(self, token: Token) -> NoReturn:
        """Nothing that has a value begins here."""
        what = "the text ends" if token.kind == "end" else f"{token.text!r} stands"
        self.fail(f"{what} where a number or a variable was needed", token.at, f"Write z1 to z{MAX_VARIABLE}.")


class _Parser(Reader):
    """sum := product (("+" | "-") product)*; product := factor ("*" factor)*; factor := "-" factor | atom ("^" n)?"""

    def __init__(self, text: str, absolute: bool = False):
        self.minus = 1.0 if absolute else -1.0  # absolute: what the coefficients would be without cancellation
        self.work = 0
        super().__init__(text)

    def sum(self, depth: int) -> Polynomial:
        total = dict(self.product(depth))
        self.spend(len(total), self.now.at)
        while self.now.kind in ("+", "-"):
            token = self.take()
            sign, terms = 1.0 if token.kind == "+" else self.minus, self.product(depth)
            self.spend(len(terms), token.at)
            for mask, value in terms.items():
                total[mask] = total.get(mask, 0.0) + sign * value
        return total

    def spend(self, work: int, at: int) -> None:
        self.work += work
        if self.work > MAX_WORK:
            self.fail("the target becomes too much work", at, "Write it as a sum of products.")

    def product(self, depth: int) -> Polynomial:
        total = self.factor(depth)
        while self.now.kind == "*":
            star = self.take()
            total = self.times(total, self.factor(depth), star.at)
        return total

    def times(self, left: Polynomial, right: Polynomial, at: int) -> Polynomial:
        if len(left) == len(right) == 1:  # most of a long sum
            ((a, x),), ((b, y),) = left.items(), right.items()
            return {a ^ b: x * y}  # z^2 = 1
        pairs = len(left) * len(right)
        if self.work + pairs > MAX_WORK:
            what = f"this product of {len(left)} by {len(right)} terms is too much"
            self.fail(what, at, "Write the target as a sum.")
        self.work += pairs
        if pairs > SMALL_WORK:
            out = _times(left, right)
            if len(out) > MAX_TERMS:
                self.fail(f"this product has {len(out)} terms, more than {MAX_TERMS}", at, "Leave out small terms.")
            return out
        out: Polynomial = {}
        for a, x in left.items():
            for b, y in right.items():
                out[a ^ b] = out.get(a ^ b, 0.0) + x * y
        return out

    def factor(self, depth: int) -> Polynomial:
        sign = 1.0
        while self.now.kind in ("+", "-"):
            sign = sign * self.minus if self.take().kind == "-" else sign
        base = self.atom(depth)
        if self.now.kind in ("^", "**"):
            base = self.power(base, self.take())
        return {mask: sign * value for mask, value in base.items()} if sign < 0 else base

    def power(self, base: Polynomial, symbol: Token) -> Polynomial:
        token = self.now
        if token.kind != "number" or not token.text.isdigit():
            self.fail("a power needs a whole number", token.at, "Write z1^2 or (z1 + z2)^3.")
        self.take()
        most = MAX_POWER if len(base) > 1 else 10**MAX_DIGITS - 1
        power = int(token.text) if len(token.text) <= MAX_DIGITS else most + 1
        if power > most:
            self.fail(f"the power {token.text[:40]} is above {most}", token.at, "Use a smaller power.")
        if len(base) == 1:  # a monomial: only the parity counts for its variables
            ((mask, value),) = base.items()
            try:
                return {mask if power % 2 else 0: value**power}
            except OverflowError:
                self.fail("this power is too large for a number", token.at, "Use a smaller one.")
        out: Polynomial = {0: 1.0}
        for _ in range(power):
            out = self.times(out, base, symbol.at)
        return out

    def atom(self, depth: int) -> Polynomial:
        token = self.now
        if token.kind == "number":
            return {0: self.number(token)}
        if token.kind == "name":
            if token.text not in _VARIABLES:
                name = token.text[:40]
                self.fail(f"unknown variable {name!r}", token.at, f"The variables are z1 to z{MAX_VARIABLE}.")
            self.take()
            return {_VARIABLES[token.text]: 1.0}
        if token.kind == "(":
            return self.inside(token, depth)
        self.missing(token)


def _times(left: Polynomial, right: Polynomial) -> Polynomial:
    small, large = sorted((left, right), key=len)
    masks, values = np.array(list(large), np.int64), np.array(list(large.values()))
    size = 1 << max(max(left).bit_length(), max(right).bit_length())
    out, seen = np.zeros(size), np.zeros(size, bool)
    with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is refused at the end
        for mask, value in small.items():
            out[masks ^ mask] += value * values
            seen[masks ^ mask] = True
    places = np.nonzero(seen)[0]
    return dict(zip(places.tolist(), out[places].tolist(), strict=True))
