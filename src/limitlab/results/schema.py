"""The labelled Dataset that simulations and predictions share: names, dimensions, attributes, checks."""

import datetime
import functools
import importlib.metadata
import json
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from limitlab.errors import InputError
from limitlab.problems.problem import Problem
from limitlab.problems.signs import unsigned
from limitlab.spec import table_hash, to_dict
from limitlab.states.committee import CommitteeView
from limitlab.states.direction import Belief, MatrixBelief, TwoTimes
from limitlab.states.fourier import FourierView
from limitlab.states.matrix import Retrieved
from limitlab.states.overlaps import ByMode, Overlaps
from limitlab.states.radii import RadiiView, UnitLaw
from limitlab.states.run import Run
from limitlab.states.success import Criterion
from limitlab.states.view import Variable, assembled
from limitlab.text import did_you_mean

if TYPE_CHECKING:
    import xarray as xr

__all__ = [
    "ATTRIBUTES",
    "DERIVED",
    "RESERVED_DIMENSIONS",
    "SCHEMA_VERSION",
    "STATUSES",
    "VARIABLES",
    "Variable",
    "dataset",
    "declared_in",
    "derived",
    "overlap_dataset",
    "pairs_of",
    "schema_stamp",
    "table_stamp",
    "validate",
]

SCHEMA_VERSION = 1

# A variable over a dimension and its second copy (student, student_2) is a symmetric matrix.
RESERVED_DIMENSIONS: dict[str, str] = {
    "time": "macroscopic time t (the clock of the learning rule)",
    "time_2": "the earlier of two times",
    "iteration": "iteration of message passing or state evolution",
    "replica": "independent runs",
    "student": "student unit",
    "student_2": "student unit",
    "teacher": "teacher unit",
    "teacher_2": "teacher unit",
    "particle": "particle of a mean-field cloud",
    "latent": "latent coordinate",
    "term": "monomial of a target, such as z1*z2",
    "radius": "norm r of a unit's weights over sqrt(d), at which a density is seen",
    "block": "informative coordinates, and the others",
    "overlap": "overlap m at which a landscape is seen",
    "branch": "a fixed point, by where the iteration to it began",
    "mode": "directions that share an eigenvalue of the inputs' covariance",
}

FAILURES = ("failed", "out_of_time", "out_of_memory", "killed")  # of points of a sweep that gave nothing
STATUSES = ("ok", "diverged", "not_converged", "max_steps", "not_reached", "undefined", *FAILURES)

ATTRIBUTES = (
    "problem",
    "spec_hash",
    "method",
    "limitlab_version",
    "jax_version",
    "created",
    "schema_version",
)
DERIVED = ("clock", "target_terms", "unsigned")  # told by the parts of the problem where the result has such; optional


# Every name is described in the class that it belongs to. Limits and questions lie above and refer to these, so that a
# file is read alike whatever is loaded; what only one of them reports travels with the result (``declared``).
VARIABLES: dict[str, Variable] = assembled(
    CommitteeView, FourierView, RadiiView, UnitLaw, Retrieved, Belief, MatrixBelief, TwoTimes, ByMode, Criterion, Run
)

COORDINATES = {
    "step": "number of steps of the learning rule",
    "d": "input dimension",
    "seed": "seed of the run",
    "eigenvalue": "eigenvalue c of a mode",
    "share": "share h of all directions that a mode has",
}


def dataset(
    problem: Problem,
    variables: Mapping[str, tuple[Any, Any]],
    coords: Mapping[str, Any] | None = None,
    *,
    method: str,
    reference: str | None = None,
    attrs: Mapping[str, Any] | None = None,
    declared: Mapping[str, Variable] | None = None,
) -> "xr.Dataset":
    """A Dataset in the schema, stamped with the problem and the versions that made it, and validated.

    Parameters
    ----------
    variables
        name -> (dims, values); names and dims as in `VARIABLES`.
    coords
        name -> values of a dimension, or (dims, values). Dimensions left out are numbered from 0, except
        times and terms, which have no default.
    method, reference
        The name of the rule or limit, and its key in ``references.bib``.
    attrs
        More attributes (plain values; None is left out).
    declared
        Variables that `VARIABLES` does not have: a rule or limit that reports them says what they are. The words
        travel with the result.
    """
    import xarray as xr

    known = _known(declared or {})
    data = {name: (_names(dims), _values(values)) for name, (dims, values) in variables.items()}
    labels = {name: c if isinstance(c, tuple) else (name, c) for name, c in (coords or {}).items()}
    labels = {name: (_names(dims), _values(values)) for name, (dims, values) in labels.items()}
    for name, (dims, values) in data.items():
        if values.ndim != len(dims):
            raise InputError(
                f"{name} has {values.ndim} axes (shape {values.shape}) but dimensions {dims}. Name each axis once."
            )
        for dim, size in zip(dims, values.shape, strict=True):
            if dim in RESERVED_DIMENSIONS and dim not in ("time", "time_2", "term"):
                labels.setdefault(dim, ((dim,), np.arange(size)))
    words = {**RESERVED_DIMENSIONS, **COORDINATES, **{name: variable.long_name for name, variable in known.items()}}
    told = {name: {"long_name": words[name]} for name in (*data, *labels) if name in words}
    try:
        ds = xr.Dataset(
            {name: (*value, told.get(name, {})) for name, value in data.items()},
            {name: (*value, told.get(name, {})) for name, value in labels.items()},
        )
    except ValueError as error:
        raise InputError(f"The variables do not fit together: {error}. Give every dimension one length.") from error
    own = {name: words for name, words in (declared or {}).items() if name not in VARIABLES and name in ds}
    brought = {name: {"dims": list(v.dims), "long_name": v.long_name} for name, v in own.items()}
    stamp = {**schema_stamp(problem, method), "reference": reference, "declared": brought or None}
    taken = sorted(set(stamp) & set(attrs or {}))
    if taken:
        raise InputError(f"attrs may not set {', '.join(taken)}: the schema stamps these itself. Use other names.")
    about = {**stamp, **derived(problem, ds.dims), **(attrs or {})}
    ds.attrs = {name: _plain(value) for name, value in about.items() if value is not None}
    validate(ds)
    return ds


def derived(problem: Problem, dims: Iterable[Any]) -> dict[str, Any]:
    """What a reader needs to know of the problem: its clock, the monomials of its target, overlaps without a sign."""
    there, told = set(dims), {}
    if "time" in there and problem.algorithm is not None:
        told["clock"] = problem.algorithm.clock_in_words(problem)
    if "term" in there and problem.teacher is not None:
        told["target_terms"] = list(problem.teacher.monomials)
    told["unsigned"] = list(unsigned(problem))
    return {name: value for name, value in told.items() if value}


def pairs_of(dims: Iterable[Any]) -> list[tuple[str, str]]:
    """The dimensions of symmetric matrices, such as (student, student_2); at two times there is no symmetry."""
    there = [str(dim) for dim in dims]
    return [] if "time_2" in there else [(dim, f"{dim}_2") for dim in there if f"{dim}_2" in there]


def declared_in(attrs: Mapping[Any, Any]) -> dict[str, Variable]:
    """The variables that a result with these attributes brings the words for."""
    table = attrs.get("declared", {})
    try:
        own = {str(name): Variable(tuple(map(str, v["dims"])), str(v["long_name"])) for name, v in table.items()}
    except (AttributeError, KeyError, TypeError):
        raise InputError(
            "The attribute declared must be a table of names, each with dims and long_name. Make the Dataset with "
            "limitlab.results.schema.dataset."
        ) from None
    return own


def _known(declared: Mapping[str, Variable]) -> dict[str, Variable]:
    """The variables of the schema and declared ones; a name has one meaning."""
    for name, variable in declared.items():
        if VARIABLES.get(name, variable) != variable or name in RESERVED_DIMENSIONS or not name.isidentifier():
            what = VARIABLES[name].long_name if name in VARIABLES else RESERVED_DIMENSIONS.get(name, "not a name")
            raise InputError(f"{name!r} cannot be declared as {variable.long_name!r}: it is {what}. Use another name.")
    return {**VARIABLES, **declared}


def schema_stamp(problem: Problem, method: str) -> dict[str, Any]:
    """The attributes that every result has."""
    return table_stamp(to_dict(problem), method)


def table_stamp(table: dict[str, Any], method: str) -> dict[str, Any]:
    """The same for what is told by a table of its own, such as a user's data."""
    return {
        "problem": json.dumps(table, allow_nan=False),
        "spec_hash": table_hash(table),
        "method": method,
        "limitlab_version": _version(),
        "jax_version": jax.__version__,
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "schema_version": SCHEMA_VERSION,
    }


def overlap_dataset(
    problem: Problem,
    times: Any,
    path: Overlaps,
    risks: Any,
    *,
    status: list[str],
    end_time: list[float],
    method: str,
    reference: str | None = None,
    replicated: bool = True,
    coords: Mapping[str, Any] | None = None,
    attrs: Mapping[str, Any] | None = None,
) -> "xr.Dataset":
    """Trajectories of overlaps as a Dataset.

    Parameters
    ----------
    path, risks
        Overlaps with leading axes (time, replica) and risks (time, replica); NaN after a run has ended.
    status, end_time
        How and when each replica ended.
    replicated
        False drops the replica axis (of length 1): a deterministic prediction.
    coords
        Further coordinates, such as ``step=("time", steps)``.
    """
    run = ("time", "replica")
    P_dims, P = _constant(np.asarray(path.P))
    variables: dict[str, tuple[tuple[str, ...], np.ndarray]] = {
        "risk": (run, np.asarray(risks)),
        "M": ((*run, "student", "teacher"), np.asarray(path.M)),
        "Q": ((*run, "student", "student_2"), np.asarray(path.Q)),
        "a": ((*run, "student"), np.asarray(path.a)),
        "P": ((*P_dims, "teacher", "teacher_2"), P),
        "status": (("replica",), np.asarray(status)),
        "end_time": (("replica",), np.asarray(end_time, dtype=float)),
    }
    if not replicated:
        for name, (dims, values) in variables.items():
            if "replica" in dims:
                axis = dims.index("replica")
                if values.shape[axis] != 1:
                    raise InputError(f"{name} has {values.shape[axis]} replicas; replicated=False needs exactly one.")
                variables[name] = (dims[:axis] + dims[axis + 1 :], np.take(values, 0, axis=axis))
    labels = {"time": np.asarray(times, dtype=float), **(coords or {})}
    return dataset(problem, variables, labels, method=method, reference=reference, attrs=attrs)


def validate(ds: "xr.Dataset") -> None:
    """Raise `InputError` unless the Dataset obeys the schema; nothing is changed."""
    missing = [name for name in ATTRIBUTES if name not in ds.attrs]
    if missing:
        raise InputError(
            f"The Dataset lacks the attributes {', '.join(missing)}. Make it with simulate, predict or "
            "limitlab.results.schema.dataset."
        )
    if ds.attrs["schema_version"] != SCHEMA_VERSION:
        raise InputError(
            f"The Dataset has schema version {ds.attrs['schema_version']}; this limitlab reads "
            f"version {SCHEMA_VERSION}. Make it again, or use the limitlab that made it."
        )
    known = _known(declared_in(ds.attrs))
    for name in ds.data_vars:
        _check_variable(str(name), tuple(map(str, ds.variables[name].dims)), known, swept="verb" in ds.attrs)
    for dim in ds.dims:
        if dim not in ds.coords:
            raise InputError(f"The dimension {dim!r} has no coordinate. Give its labels in coords.")
    for dim in ("time", "time_2"):
        if dim in ds.dims and not _increasing(ds.variables[dim].values):
            raise InputError(f"{dim} must be finite and increase strictly; got {ds[dim].values.tolist()}.")
    _check_status(ds)


def _check_variable(name: str, dims: tuple[str, ...], known: Mapping[str, Variable], swept: bool) -> None:
    """Names and axes are those of the schema; a sweep and its points have whatever their verb gave."""
    if swept:
        return
    swept_only = dims and not set(dims) & set(RESERVED_DIMENSIONS)
    if name not in known and not swept_only:
        names = tuple(known)
        raise InputError(
            f"{name!r} is not a variable of the schema; these are: {', '.join(names)}.{_near(name, names)} One of "
            "your own has to be declared."
        )
    for dim in dims:
        if dim in RESERVED_DIMENSIONS:
            if dim not in known[name].dims:
                raise InputError(f"{name} may not have the dimension {dim!r}; it may have {known[name].dims}.")
        elif not re.fullmatch(r"[A-Za-z]\w*(\.\w+)*", dim) or _near(dim, tuple(RESERVED_DIMENSIONS)):
            raise InputError(
                f"{dim!r} of {name} is neither a reserved dimension ({', '.join(RESERVED_DIMENSIONS)}) nor "
                f"the name of a swept parameter.{_near(dim, tuple(RESERVED_DIMENSIONS))}"
            )


def _check_status(ds: "xr.Dataset") -> None:
    if "status" in ds:
        unknown = sorted(set(ds["status"].values.ravel().tolist()) - set(STATUSES))
        if unknown:
            raise InputError(f"status must be one of {', '.join(STATUSES)}; got {', '.join(map(repr, unknown))}.")
    for name in ds.data_vars:
        values = ds.variables[name]
        if values.dtype.kind not in "fc" or not np.isnan(values.values).any():
            continue
        nan = ds[name].isnull()
        if "status" not in ds:
            raise InputError(f"{name} has NaN but the Dataset has no status that says why. Add the variable status.")
        ok = ds["status"] == "ok"
        ok = ok.all([dim for dim in ok.dims if dim not in nan.dims])
        if bool((nan & ok).any()):
            raise InputError(
                f'{name} has NaN where status is "ok". Say there how the run ended: {", ".join(STATUSES[1:])}.'
            )


def _constant(P: np.ndarray) -> tuple[tuple[str, ...], np.ndarray]:
    """The teacher's Gram matrix without its axes (time, replica) if it is the same along them to rounding."""
    flat = P.reshape(-1, *P.shape[2:])
    finite = flat[np.all(np.isfinite(flat), axis=(1, 2))]
    if len(finite) == 0:
        return (), flat[0]
    if np.max(np.abs(finite - finite[0])) <= 1e-9 * max(1.0, float(np.max(np.abs(finite[0])))):
        return (), finite[0]
    return ("time", "replica"), P


def _names(dims: Any) -> tuple[str, ...]:
    return (dims,) if isinstance(dims, str) else tuple(dims)


def _values(values: Any) -> np.ndarray:
    array = np.asarray(values)
    return array.astype(str) if array.dtype.kind in "OT" else array


def _plain(value: Any) -> Any:
    """An attribute as a plain Python value, so that it reads back from a file as it was."""
    if isinstance(value, (np.generic, np.ndarray, jax.Array)):
        return np.asarray(value).tolist()
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    return value


@functools.lru_cache(maxsize=1024)
def _near(name: str, known: tuple[str, ...]) -> str:
    return did_you_mean(name, known, 0.8)


def _increasing(values: np.ndarray) -> bool:
    return bool(np.all(np.isfinite(values)) and np.all(np.diff(values) > 0))


@functools.cache
def _version() -> str:
    try:
        return importlib.metadata.version("limitlab")
    except importlib.metadata.PackageNotFoundError:  # run from a source tree that was never installed
        return "uninstalled"
