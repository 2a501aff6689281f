"""limitlab sweep: a verb at every point of a grid, kept point by point in a folder."""

import contextlib
import errno
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from limitlab.cli.app import INTERRUPTED, POINTS_FAILED, LimitName, Settings, Spec, Times, Wanted
from limitlab.cli.interrupts import Stop, stoppable
from limitlab.cli.screen import Bar, complain, say, show_table
from limitlab.errors import InputError
from limitlab.text import one_line

if TYPE_CHECKING:
    import xarray as xr

    from limitlab.problems.problem import Problem

__all__ = ["register"]

SHOWN = 5  # reasons, and warnings
OF_LIMITS = ("set", "replicas", "seed")  # options that a verb with a limit hands on to it
DEFAULTS = {"replicas": 16, "d": 1000}  # of a verb that takes them


def register(app: typer.Typer) -> None:
    app.command("sweep")(sweep)


def sweep(
    spec: Spec,
    over: Annotated[
        list[str],
        typer.Option(
            help="A parameter and its values, start:stop:step, start:stop:count:log, or a list with commas; may be "
            "repeated. A path in the problem (algorithm.learning_rate), or d, seed, limit.",
            metavar="NAME=VALUES",
        ),
    ],
    out: Annotated[Path, typer.Option(help="Folder that keeps the points; made if it is not there.", metavar="DIR")],
    verb: Annotated[
        str | None,
        typer.Option(help="simulate, predict or thresholds; if left out predict with --limit, else simulate."),
    ] = None,
    limit: LimitName = None,
    settings: Settings = None,
    d: Annotated[
        float | None, typer.Option(help="Input dimension of simulate; 1000 if left out.", metavar="INTEGER")
    ] = None,
    times: Times = None,
    replicas: Annotated[
        int | None, typer.Option(help="Independent runs at every point; 16 of simulate if left out.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Same seed, same numbers, on any number of processes.")] = None,
    representation: Annotated[str | None, typer.Option(help="Of simulate: weights, or overlaps.")] = None,
    workers: Annotated[int | None, typer.Option(help="Local processes; this one if left out.")] = None,
    scheduler: Annotated[
        str | None, typer.Option(help="Of a dask cluster, such as tls://host:8786.", metavar="ADDRESS")
    ] = None,
    tls_ca_file: Annotated[
        Path | None, typer.Option(help="Certificate by which the cluster is known.", metavar="FILE")
    ] = None,
    tls_cert: Annotated[Path | None, typer.Option(help="Your own certificate for the cluster.", metavar="FILE")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="The key of your certificate.", metavar="FILE")] = None,
    time_limit: Annotated[float | None, typer.Option(help="For a point.", metavar="SECONDS")] = None,
    memory_limit: Annotated[
        str | None, typer.Option(help='For the process of a point: bytes, or "2 GB".', metavar="SIZE")
    ] = None,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Compute points again that failed.")] = False,
    progress: Wanted = None,
) -> None:
    """Compute a problem at every point of a grid of parameters, as one result with a dimension for each.

    Every point is kept in DIR as soon as it is done. Stopped by Ctrl-C, a crash or a power cut, the same command goes
    on where it was; points that are there are not computed again. limitlab status DIR shows how far it is, from any
    terminal. A point that diverges, fails, or takes more time or memory than it may is recorded with its reason, and
    the sweep goes on: exit code 3 says that there are such points.

    \b
      limitlab sweep my.toml --over sample_ratio=0.5:3:0.05 --over d=100,200 --out runs
      limitlab sweep my.toml --over algorithm.learning_rate=0.01:1:9:log --limit OverlapODE
          --out runs --workers 2 --time-limit 60
      limitlab sweep soft-committee --over student.activation=erf,relu --out runs
      limitlab sweep my.toml --over d=100,200 --out runs --scheduler tls://host:8786
          --tls-ca-file ca.pem --tls-cert me.pem --tls-key me.key
      limitlab sweep linear.toml --verb thresholds --over channel.variance=0:1:0.1 --out runs
    """
    from limitlab.cli.arguments import grid_of, problem_of
    from limitlab.sweep import sweep

    given = {"limit": limit, "set": settings, "d": d, "times": times, "replicas": replicas, "seed": seed}
    given["representation"] = representation
    with stoppable() as stop:
        try:
            problem, grid = problem_of(spec), grid_of(over)
            function, keywords = _request(problem, spec, verb, grid, given)
            certificates = {"ca-file": tls_ca_file, "client.cert": tls_cert, "client.key": tls_key}
            with _secured(certificates), _few_warnings(), Bar(f"sweep {spec}", progress, counted=True) as bar:
                result = sweep(
                    function,
                    problem,
                    grid,
                    seed=seed,
                    store=out,
                    workers=workers,
                    scheduler=scheduler,
                    time_limit=time_limit,
                    memory_limit=memory_limit,
                    retry_failed=retry_failed,
                    progress=_Told(bar, stop),
                    **keywords,
                )
            well = _keep(result, out)
        except KeyboardInterrupt as error:
            complain(_interrupted(out))
            raise typer.Exit(INTERRUPTED) from error
    if not well:
        raise typer.Exit(POINTS_FAILED)


def _request(problem: "Problem", spec: str, verb: str | None, grid: dict, given: dict) -> tuple[Any, dict[str, Any]]:
    """The verb, and its arguments that are the same at all points."""
    from limitlab.cli.arguments import has_clock, limit_of, usual_limit
    from limitlab.sweep.grid import keywords_of

    verbs = _verbs()
    verb = verb or ("predict" if given["limit"] or "limit" in grid else "simulate")
    if verb not in verbs:
        raise InputError(f"--verb must be one of {', '.join(verbs)}; got {verb!r}.")
    takes, _ = keywords_of(verbs[verb])
    by_limit = "limit" in takes
    for name, value in given.items():
        if value is not None and name not in takes and not (by_limit and name in OF_LIMITS):
            remedy = "The dimension of a limit is its own field: --set d=1000. " if by_limit and name == "d" else ""
            raise InputError(
                f"--{name} is not for {verb}; got {value!r}. {remedy}Leave it out, or choose another --verb."
            )
    keywords = {name: given[name] for name in ("replicas", "representation") if given[name] is not None}
    if "replicas" in takes:
        keywords.setdefault("replicas", DEFAULTS["replicas"])
    if "d" in takes and ("d" not in grid or given["d"] is not None):
        size = DEFAULTS["d"] if given["d"] is None else given["d"]
        keywords["d"] = int(size) if float(size).is_integer() else size
    clock = has_clock(problem)
    if by_limit and "limit" in grid and given["limit"] is None:
        grid["limit"] = [limit_of(str(name), given["set"] or []) for name in grid["limit"]]
        clock = any(one.in_time for one in grid["limit"])
    elif by_limit:
        if given["limit"] is None:
            given["limit"] = usual_limit(problem)
            say(f"limit: {given['limit']} (choose another with --limit; see limitlab limits {spec})")
        keywords["limit"] = limit_of(given["limit"], given["set"] or [])
        clock = keywords["limit"].in_time
    return verbs[verb], {**keywords, **(_times(given["times"], clock) if "times" in takes else {})}


def _verbs() -> dict[str, Callable]:
    """What can be swept from the command line; the options of each are those of its signature."""
    from limitlab.analysis.linear.thresholds import thresholds
    from limitlab.macro.predict import predict
    from limitlab.micro.simulate import simulate

    return {"simulate": simulate, "predict": predict, "thresholds": thresholds}


def _times(text: str | None, clock: bool) -> dict[str, Any]:
    """Times as the other commands take them: left out for rules and limits that have none."""
    from limitlab.cli.arguments import times_of

    return {"times": times_of(text or "0:10:51")} if clock or text is not None else {}


@contextlib.contextmanager
def _secured(certificates: dict[str, Path | None]) -> Iterator[None]:
    """Certificates as dask finds them, by its settings."""
    given = {f"distributed.comm.tls.{name}": str(path) for name, path in certificates.items() if path is not None}
    if not given:
        yield
        return
    import dask.config

    names = ("--tls-ca-file", "--tls-cert", "--tls-key")
    for option, path in zip(names, certificates.values(), strict=True):
        if path is None or not path.is_file():
            told = "it is missing" if path is None else f"there is no file {path}"
            raise InputError(f"A cluster with certificates needs all of {', '.join(names)}; of {option} {told}.")
    _check_certificates(*map(str, certificates.values()))
    with dask.config.set({**given, "distributed.comm.require-encryption": True}):
        yield


def _check_certificates(ca_file: str, cert: str, key: str) -> None:
    """Raise, naming the file, unless these are certificates and a key that belong together."""
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        told = f"--tls-ca-file {ca_file} is no certificate (PEM)"
        context.load_verify_locations(ca_file)
        told = f"--tls-cert {cert} is no certificate (PEM), or --tls-key {key} is no key"
        context.load_cert_chain(cert, key, password="")  # one with a password would ask for it
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        if "KEY_VALUES_MISMATCH" in str(error):
            told = f"--tls-key {key} is not the key of --tls-cert {cert}"
        raise InputError(f"{told}. Give the files that the cluster was started with.") from error


class _Told:
    """Hands a sweep's progress on to a bar. Points from the store come at once: they do not measure its speed."""

    def __init__(self, bar: Bar, stop: Stop):
        self._bar, self._stop = bar, stop

    def __call__(self, done: int, total: int, label: str) -> None:
        self._stop.check()
        if "/s" not in label:  # the label has a rate as soon as a point was computed
            self._bar.skip(done)
        self._bar(done, total, label)


@contextlib.contextmanager
def _few_warnings() -> Iterator[None]:
    """The first warnings, and how many there were: a sweep may repeat them at every point."""
    count = 0
    with warnings.catch_warnings():
        show = warnings.showwarning

        def few(*words: Any, **others: Any) -> None:
            nonlocal count
            count += 1
            if count <= SHOWN:
                show(*words, **others)

        warnings.showwarning = few
        try:
            yield
        finally:
            if count > SHOWN:
                complain(f"and {count - SHOWN} more warnings")


def _own_sweep(out: Path) -> tuple[Any, str]:
    """The store, and the name of the sweep that this process ran into it last."""
    import socket

    from limitlab.sweep import Store

    store = Store(out, create=False)
    own = (socket.gethostname(), os.getpid())
    names = list(store.sweeps())
    mine = [run for run in store.runs().values() if (run.get("host"), run.get("process")) == own]
    ran = [run["sweep"] for run in mine if run.get("sweep") in names]  # a record may be a stranger's
    return store, ran[-1] if ran else names[-1]


def _interrupted(out: Path) -> str:
    from limitlab.errors import LimitlabError

    try:
        store, name = _own_sweep(out)
        keys = store.keys_of(name)
    except (LimitlabError, IndexError):
        return "interrupted; nothing was computed yet"
    there = sum(map(store.has, keys))
    return f"interrupted; {there} of {len(keys)} points are stored in {out}; run the same command again to go on"


def _keep(result: "xr.Dataset", out: Path) -> bool:
    """Write the result beside its points and say what became of them; False if any did not end well."""
    from limitlab.errors import ResultFileError
    from limitlab.results.files import save
    from limitlab.sweep.table import BROKEN

    store, name = _own_sweep(out)
    try:
        path = save(result, store.path / f"{name}.nc")
    except ResultFileError as error:
        if not isinstance(error.__cause__, OSError) or error.__cause__.errno not in (errno.EROFS, errno.EACCES):
            raise
        path = None  # all points are in a store that may only be read
        complain(f"note: {error}")
    ends = _ends(result)
    words, counts = np.unique(ends, return_counts=True)
    rows = sorted(zip(words.tolist(), counts.tolist(), strict=True), key=lambda row: (row[0] != "ok", -row[1]))
    sizes = " x ".join(f"{axis} ({result.sizes[axis]})" for axis in result.attrs["swept"])
    show_table(f"sweep of {result.attrs['verb']} over {sizes}", ["status", "points"], [[w, str(n)] for w, n in rows])
    if result.attrs.get("left_out"):
        left_out = one_line(", ".join(result.attrs["left_out"]))
        say(f"not in the result, because shapes or kinds change from point to point or they are no numbers: {left_out}")
    bad = np.argwhere(np.isin(ends, BROKEN))
    if len(bad):
        complain(f"WARNING: {len(bad)} of {ends.size} points did not end well:")
        for place in bad[:SHOWN]:
            here = result.isel(dict(zip(result.attrs["swept"], place.tolist(), strict=True)))
            values = ", ".join(f"{axis}={here[axis].item()}" for axis in result.attrs["swept"])
            reason = here["reason"].item() if "reason" in here else ""
            complain(one_line(f"  {values}: {ends[tuple(place)]}: {reason}"))
        if len(bad) > SHOWN:
            complain(f"  and {len(bad) - SHOWN} more; see the variable reason")
    if path is not None:
        say(f"saved to {path if out.is_absolute() else out / path.name}")
    return not len(bad)


def _ends(result: "xr.Dataset") -> np.ndarray:
    """How each point ended: a word a point, the worst of its replicas."""
    from limitlab.sweep.table import BROKEN

    axes = result.attrs["swept"]
    words = result["status"].transpose(*axes, ...).values
    words = words.reshape(*words.shape[: len(axes)], -1)
    ends = np.full(words.shape[:-1], "ok", dtype=words.dtype if words.dtype.itemsize > 8 else "<U16")
    for word in sorted(set(words.ravel().tolist()) - {"ok"}, key=lambda word: (word in BROKEN, word)):
        ends[(words == word).any(axis=-1)] = word
    return ends
