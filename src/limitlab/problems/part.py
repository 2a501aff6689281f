"""What all nouns share: they print as the code that makes them, and answer a wrong argument with the right one."""

import dataclasses
import functools
import inspect
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import numpy as np

from limitlab.errors import ArgumentError
from limitlab.modules import Module
from limitlab.text import call, code, html_table, nearest, show

__all__ = ["Part", "right_name"]

# What others call our fields, and in which order the fields are looked for in a class.
NAMES: dict[tuple[str, ...], str] = {
    ("learning_rate",): "lr eta gamma alpha rate step_size stepsize dt learningrate",
    ("sample_ratio",): "alpha n n_samples num_samples samples ratio n_over_d",
    ("penalty", "weight_decay"): "lambda lambda_ lam reg l2 alpha regularisation regularization ridge decay wd "
    "weight_decay penalty",
    ("variance", "temperature"): "noise noise_variance sigma2 sigma delta Delta var",
    ("temperature",): "T temp",
    ("batch_size", "batch_fraction"): "bs batch batchsize minibatch B b fraction batch_size batch_fraction",
    ("persistence_time",): "tau persistence",
    ("momentum", "beta1"): "mu beta momentum",
    ("beta1",): "b1",
    ("beta2",): "b2",
    ("epsilon",): "eps",
    ("spherical", "sphere"): "sphere spherical projected normalised normalized",
    ("width",): "p k K m size hidden units neurons n_units hidden_units num_units",
    ("activation",): "sigma act phi nonlinearity f",
    ("output_weights",): "a a_star weights",
    ("density",): "rho sparsity",
    ("scale",): "b sigma std",
    ("variance",): "rho sigma",
    ("overlap",): "m m0 M alignment",
    ("text",): "target polynomial expression formula",
    ("fraction",): "share ratio",
    ("iterations",): "steps max_iter n_iter num_iter iters max_steps",
    ("tolerance", "rtol"): "tol atol rtol epsilon tolerance",
    ("replicas",): "runs n_runs paths repeats",
    ("trajectories", "particles", "samples"): "n samples particles n_samples n_particles trajectories paths",
    ("d",): "N dim dimension n",
    ("seed",): "key rng random_state",
    ("step",): "dt h step_size",
    ("inputs",): "data x X covariates",
    ("teacher",): "target truth",
    ("student",): "network model learner net",
    ("channel",): "labels output likelihood",
    ("start",): "init initialisation initialization initial",
    ("algorithm",): "rule optimizer optimiser solver method",
    ("loss",): "cost objective criterion",
}


class Part(Module):
    """A frozen description.

    It prints as the code that makes it (defaults left out), and as a table in notebooks; functions of a user's are
    printed by their names, arrays of many numbers by their shapes. A part that is made of wrong arguments says which
    are right.

    Attributes
    ----------
    always
        Arguments that are printed even if they have their default.
    """

    always: ClassVar[tuple[str, ...]] = ()

    def __new__(cls, *args: Any, **kwargs: Any):
        _check(cls, args, kwargs)
        return super().__new__(cls)

    @classmethod
    def hint(cls, name: str, value: Any, given: Mapping[str, Any]) -> str:
        """What to do about an argument that does not exist; ``given`` are all that came."""
        right = right_name(name, _arguments(cls))
        if right is None:
            return "Leave it out."
        return f"{right} is given already." if right in given else f"Write {cls.__name__}({right}={show(value)})."

    def __repr__(self) -> str:
        changed = {}
        for name, default in _arguments(type(self)).items():
            if not _same(value := getattr(self, name, default), default) or name in self.always:
                changed[name] = value
        return call(type(self).__name__, changed)

    def _repr_html_(self) -> str:
        arguments = _arguments(type(self))
        values = {name: getattr(self, name, default) for name, default in arguments.items()}
        rows = [(name, code(value)) for name, value in values.items() if value is not None]
        return html_table(type(self).__name__, rows) if rows else html_table(repr(self), [])


@functools.cache
def _parameters(cls: type) -> Mapping[str, inspect.Parameter]:
    """What a class is made of."""
    return dict(list(inspect.signature(cls.__init__).parameters.items())[1:])


@functools.cache
def _arguments(cls: type) -> dict[str, Any]:
    """The arguments of a class that have names, each with its default as it is kept (`Parameter.empty`: none)."""
    fields = {field.name: field for field in dataclasses.fields(cls)} if dataclasses.is_dataclass(cls) else {}
    out = {}
    for name, parameter in _parameters(cls).items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        default, field = parameter.default, fields.get(name)
        if field is not None and default is not parameter.empty:
            if field.default_factory is not dataclasses.MISSING:
                default = field.default_factory()
            default = field.metadata.get("converter", lambda kept: kept)(default)
        out[name] = default
    return out


def _check(cls: Any, args: tuple, kwargs: Mapping[str, Any]) -> None:
    """Refuse arguments that do not exist. Those that are missing are Python's own affair."""
    if not args and not kwargs:
        return  # also how pickle and copy ask for an empty object
    parameters = _parameters(cls)
    kinds = {parameter.kind for parameter in parameters.values()}
    by_place = [n for n, p in parameters.items() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    takes = f"{cls.__name__} takes {', '.join(_arguments(cls)) or 'no arguments'}"
    for name, value in kwargs.items():
        if name not in parameters and inspect.Parameter.VAR_KEYWORD not in kinds:
            given = {**dict(zip(by_place, args, strict=False)), **kwargs}
            raise ArgumentError(f"{takes}; got {name}={show(value)}. {cls.hint(name, value, given)}")
        if name in by_place[: len(args)]:
            raise ArgumentError(f"{takes}; got {name} twice: {show(args[by_place.index(name)])} and {show(value)}.")
    if len(args) > len(by_place) and inspect.Parameter.VAR_POSITIONAL not in kinds:
        extra = show(args[len(by_place)])
        named = [name for name in _arguments(cls) if name not in by_place]
        remedy = f"Give it by its name, such as {cls.__name__}({named[0]}=...)." if named else "Leave it out."
        raise ArgumentError(f"{takes}; got {extra} as argument {len(by_place) + 1} without a name. {remedy}")


def right_name(name: str, known: Iterable[str]) -> str | None:
    """The field that is meant: by another name that it has in the literature, else the one that looks alike."""
    known = set(known)
    for fields, others in NAMES.items():
        for field in fields:
            if field in known and name in others.split():
                return field
    return nearest(name, sorted(known)) or nearest(name.lower(), sorted(known))


def _same(value: Any, default: Any) -> bool:
    """Whether a value need not be written; if in doubt, it is."""
    if value is default:
        return True
    try:
        if isinstance(value, np.ndarray):
            return np.shape(default) == value.shape and bool(np.all(value == np.asarray(default, value.dtype)))
        return type(value) is type(default) and bool(value == default)
    except Exception:  # while being traced, or of a user's own class
        return False
