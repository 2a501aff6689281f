"""The points of a sweep: what each asks for, what names it, and what comes back from it."""

import dataclasses
import functools
import importlib.metadata
import platform
import time
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import jax

from limitlab.errors import InputError, LimitlabError
from limitlab.numerics.trees import changed_fields
from limitlab.problems.problem import Problem
from limitlab.results.points import Point
from limitlab.results.schema import schema_stamp
from limitlab.sweep.engine.cost import cost
from limitlab.sweep.engine.families import family_of
from limitlab.sweep.grid import fields_of, keywords_of
from limitlab.sweep.identity import NUMERICS_VERSION, Identity, describe, hash_of, point_seed, verb_name
from limitlab.sweep.table import table_of
from limitlab.text import writable

__all__ = ["Job", "Task", "stamped", "versions", "visit"]


KEPT = 10_000  # parts of problems that are kept while points are named


@dataclasses.dataclass(frozen=True)
class Job:
    """What all points of a sweep share.

    ``seeded`` says where a point's own seed goes: "argument" of the verb, field of its "limit", or "" (nowhere);
    ``strict`` that arguments must be told apart by their descriptions, as a store needs; ``named`` that points need
    names at all, which a sweep in memory without random numbers does not; ``version`` what a user calls the code that
    is not limitlab's, which is then not looked into.
    """

    verb: Callable
    problem: Problem
    arguments: dict[str, Any]
    seed: int = 0
    seeded: str = ""
    strict: bool = True
    named: bool = True
    version: str | None = None

    @property
    def name(self) -> str:
        return verb_name(self.verb)

    @functools.cached_property
    def described(self) -> dict[str, Any]:
        """All of it, described."""
        return {
            "problem": self.identity(self.problem),
            "verb": self._verb(self.strict),
            "arguments": self.identity(self.arguments),
            "seed": self.seed if self.seeded else None,
            "numerics_version": NUMERICS_VERSION,
        }

    @property
    def identity(self) -> Identity:
        """What tells values of this sweep apart."""
        return self._describe(self.strict)

    def _describe(self, strict: bool) -> Identity:
        if strict not in self._identities:
            self._identities[strict] = Identity(strict, self.version)
        return self._identities[strict]

    def _verb(self, strict: bool) -> Any:
        about = self._describe(strict)(self.verb)
        return about if self.version is None else {"named": self.version, "verb": about}

    @functools.cached_property
    def _identities(self) -> dict[bool, Identity]:
        return {}

    def ask(self, here: dict[str, Any]) -> tuple[Problem, dict[str, Any]]:
        """The problem and the keywords of the verb at one point; a refusal of the problem is raised."""
        parts = {tuple(name.split(".")): value for name, value in here.items()}
        inside = {path: value for path, value in parts.items() if path[0] in fields_of(self.problem)}
        known, free = keywords_of(self.verb)
        outside = {}
        for path, value in parts.items():
            if path not in inside:
                own = path[0] in known or free or len(path) > 1
                outside[path if own else ("limit", *path)] = value
        keywords = {**self.arguments, **changed_fields(self.arguments, outside)}
        return self._with(self._changed_parts(inside)), keywords

    def _with(self, parts: dict[str, Any]) -> Problem:
        """The problem with other parts, through its tree: a fifth of the time of `dataclasses.replace`.

        Parts were checked when they were made, and the problem checks how they fit together.
        """
        own, shape = self._frame
        problem = jax.tree.unflatten(shape, {**own, **parts}.values())
        problem.__check_init__()
        return problem

    @functools.cached_property
    def _frame(self) -> tuple[dict[str, Any], Any]:
        """The parts of the problem by name, and the tree of which they are the leaves."""
        parts, shape = jax.tree.flatten(self.problem, is_leaf=lambda x: x is not self.problem)
        return dict(zip(fields_of(self.problem), parts, strict=True)), shape

    def _changed_parts(self, inside: dict[tuple[str, ...], Any]) -> dict[str, Any]:
        """The parts of the problem that change. On a grid the same part comes again and again: it is made once."""
        parts = {}
        for field in dict.fromkeys(path[0] for path in inside):
            own = {path: value for path, value in inside.items() if path[0] == field}
            known = all(isinstance(value, (int, float, str)) for value in own.values())
            key = (field, *((path, type(value), value) for path, value in own.items())) if known else None
            if key is None or key not in self._made:
                made = changed_fields(vars(self.problem), own)[field]
                if key is None or len(self._made) >= KEPT:
                    parts[field] = made
                    continue
                self._made[key] = made
            parts[field] = self._made[key]
        return parts

    @functools.cached_property
    def _made(self) -> dict[tuple, Any]:
        return {}

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("_made", "_frame", "_identities")}

    def task(self, index: int, here: dict[str, Any]) -> "Task":
        """The point at one place of the grid, named."""
        if not self.named:
            return self._nameless(index, here)
        try:
            return self._named(index, here, True)
        except InputError:
            if self.strict:
                raise
        task = self._named(index, here, False)  # descriptions may coincide: names must not
        return dataclasses.replace(task, key=hash_of(task.key, index))

    def _nameless(self, index: int, here: dict[str, Any]) -> "Task":
        try:
            problem, keywords = self.ask(here)
        except LimitlabError as error:
            return Task(index, here, "", refused=_words(error))
        family = self._family(problem, keywords)
        return Task(index, here, "", family=family, asked=None if family is None else (problem, keywords))

    def _named(self, index: int, here: dict[str, Any], strict: bool) -> "Task":
        verb, describe = self.described["verb"] if self.strict == strict else self._verb(strict), self._describe(strict)
        try:
            problem, keywords = self.ask(here)
        except LimitlabError as error:
            name = hash_of("refused", describe.table(self.problem), verb, describe(here), NUMERICS_VERSION)
            return Task(index, here, name, refused=_words(error))
        about = describe(problem)
        seed = None
        if self.seeded:
            root = keywords.pop("seed", self.seed) if self.seeded == "argument" else self.seed
            # Replicas and times are left out: more of them extend the same runs.
            fixed = {k: describe(v) for k, v in keywords.items() if k not in ("replicas", "times")}
            if self.seeded == "limit":
                fixed["limit"] = {k: v for k, v in fixed["limit"].items() if k not in ("seed", "replicas")}
            seed = point_seed(root, hash_of(about, verb, fixed))
        key = hash_of(about, verb, describe(keywords), seed, NUMERICS_VERSION)
        return Task(index, here, key, seed, cost(self.verb, problem, keywords), self._family(problem, keywords))

    def seed_into(self, keywords: dict[str, Any], seed: int | None) -> dict[str, Any]:
        """The keywords with the point's own seed in its place."""
        if self.seeded == "argument":
            return {**keywords, "seed": seed}  # in place of that of the grid, from which it is made
        if self.seeded == "limit":
            return {**keywords, "limit": dataclasses.replace(keywords["limit"], seed=seed)}
        return keywords

    def _family(self, problem: Problem, keywords: dict[str, Any]) -> Any:
        """Points with the same family differ in numbers only and can share a compiled call; None has no family."""

        def described() -> str | None:
            same = all(value is self.arguments.get(name) for name, value in keywords.items())
            return None if same else hash_of(describe(keywords))

        try:
            return None if self.seeded == "limit" else family_of(self.verb, problem, keywords, described)
        except InputError:  # nobody knows whether others have the same keywords
            return None


@dataclasses.dataclass(frozen=True)
class Task:
    """One point: its place in the grid, its values there, its name, its seed; ``refused`` if its problem is none.

    ``asked`` keeps what `Job.ask` gave where that is needed again soon.
    """

    index: int
    here: dict[str, Any]
    key: str
    seed: int | None = None
    cost: float = 0.0
    family: Any = None
    refused: str = ""
    asked: tuple[Problem, dict[str, Any]] | None = None


def visit(job: Job, task: Task, problem: Problem, keywords: dict[str, Any]) -> Point:
    """Compute a point. Whatever its verb raises becomes its reason; only an interruption goes through."""
    if task.refused:
        return Point(reason=task.refused)
    try:
        result = job.verb(problem, **job.seed_into(keywords, task.seed))
    except LimitlabError as error:
        return Point(reason=_words(error))
    except MemoryError as error:
        return Point(reason=_words(error), failure="out_of_memory")
    except (Exception, SystemExit) as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        reason = f"{_words(error)} (in {place.name}, line {place.lineno})"
        warnings.warn(f"{job.name} at {task.here} raised {reason}; the sweep goes on.", RuntimeWarning, stacklevel=2)
        return Point(reason=reason)
    return table_of(result, job.name)


def _words(error: BaseException) -> str:
    """What an error says, as any file can hold it."""
    try:
        said = str(error)
    except Exception:  # whoever wrote it made a mistake there too
        said = "(it cannot say what)"
    return writable(f"{type(error).__name__}: {said}")


def stamped(job: Job, task: Task, problem: Problem, point: Point, seconds: float) -> Point:
    """The point with everything that is needed to know where it comes from, for its file."""
    foreign = "schema_version" not in point.attrs
    stamp = schema_stamp(problem, f"sweep of {job.name}") if foreign else {}
    provenance = {
        "key": task.key,
        "verb": job.described["verb"],
        "arguments": job.described["arguments"],
        "point": describe(task.here, False),
        "root_seed": job.seed if job.seeded else None,
        "seed": task.seed,
        "numerics_version": NUMERICS_VERSION,
        "seconds": round(seconds, 6),
        "stored_at": round(time.time(), 3),
        **versions(),
    }
    variables = {**point.variables, "status": point.status}
    attrs = {**stamp, **point.attrs, "verb": job.name, "provenance": provenance}
    return dataclasses.replace(point, variables=variables, attrs=attrs)


@functools.cache
def versions() -> dict[str, str]:
    """What the numbers were made with and where."""
    names = ("limitlab", "jax", "jaxlib", "numpy", "scipy", "xarray")
    found = {f"{name}_version": importlib.metadata.version(name) for name in names}
    return {
        **found,
        "python_version": platform.python_version(),
        "platform": platform.platform(),
        "host": platform.node(),
    }
