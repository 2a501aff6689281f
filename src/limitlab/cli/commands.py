"""The commands. Each reads its arguments, calls one verb of the library, and says where the result is."""

from pathlib import Path
from typing import Annotated, Any

import typer

from limitlab.cli.app import BAD_INPUT, CLAIM_FAILED, Force, LimitName, Out, Settings, Spec, Times, Wanted
from limitlab.cli.curve_command import curve
from limitlab.cli.remembered import remembered
from limitlab.cli.screen import Bar, complain, say, show, show_table, summary

__all__ = ["register"]

SHOWN_TERMS = 40


def register(app: typer.Typer) -> None:
    """Add all commands to the program."""
    for name, command in COMMANDS.items():
        settings = {"ignore_unknown_options": True} if name == "staircase" else None  # a target may begin with -
        app.command(name, context_settings=settings)(command)


def list_() -> None:
    """What there is: gallery entries, library problems, limits, activations."""
    from limitlab.cli import listing

    made = [[name, title, f"{seconds:.0f} s"] for name, title, seconds in listing.entries()]
    show_table("gallery entries: limitlab run NAME", ["name", "what it shows", "takes about"], made)
    show_table(
        "library problems: limitlab spec NAME prints one", ["name", "what it is"], [*map(list, listing.problems())]
    )
    rows = [*map(list, listing.limits())]
    show_table("limits: limitlab predict SPEC --limit NAME", ["name", "what it is", "reference"], rows)
    others = ["hermite(k)", "shifted(name, by)", "piecewise((x, y), ...)"]
    show_table("activations", ["name"], [[", ".join([*listing.activations(), *others])]])


def spec(spec: Spec) -> None:
    """Print a problem as TOML, every field written out, to save and edit.

    \b
      limitlab spec soft-committee > my.toml
    """
    typer.echo(remembered(["spec"], spec, str, lambda: _spec(spec)), nl=False)


def _spec(spec: str) -> str:
    from limitlab.cli.arguments import problem_of
    from limitlab.spec import dumps

    return dumps(problem_of(spec))


def limits(spec: Spec) -> None:
    """Which limits a problem has, and why not the others.

    \b
      limitlab limits soft-committee
    """
    answers = remembered(["limits"], spec, dict, lambda: _limits(spec))
    show_table(f"limits of {spec}", ["limit", "answer"], [[name, answer] for name, answer in answers.items()])


def _limits(spec: str) -> dict[str, str]:
    from limitlab.cli.arguments import problem_of
    from limitlab.macro.predict import limits

    return dict(limits(problem_of(spec)))


def simulate(
    spec: Spec,
    d: Annotated[float, typer.Option(help="Input dimension; 1e6 is understood.", metavar="INTEGER")] = 1000,
    times: Times = None,
    replicas: Annotated[int, typer.Option(help="Independent runs.")] = 16,
    seed: Annotated[int, typer.Option(help="Same seed, same numbers.")] = 0,
    representation: Annotated[
        str, typer.Option(help="weights, or overlaps: exact in law, at a cost that does not grow with d.")
    ] = "weights",
    out: Out = None,
    force: Force = False,
    progress: Wanted = None,
) -> None:
    """Run a problem at finite dimension and save its risk and overlaps.

    A run that diverges is a result too: it ends with a warning, its numbers up to then are saved.

    \b
      limitlab simulate soft-committee --d 500 --replicas 8
      limitlab simulate my.toml --d 1e6 --representation overlaps --times 0,1,2,5
    """
    from limitlab.cli.arguments import has_clock, place_of, problem_of, times_of
    from limitlab.micro.simulate import simulate
    from limitlab.spec import spec_hash

    problem = problem_of(spec)
    grid = times_of(times or "0:10:51") if times is not None or has_clock(problem) else None
    path = place_of(out, f"simulate_{spec_hash(problem)}_d{d:g}_seed{seed}.nc", force)
    with Bar(f"simulate {spec}", progress) as bar:
        size: Any = d  # simulate takes 1e6 for 1000000 and refuses 10.5 in its own words
        result = simulate(problem, size, grid, replicas, seed, representation, bar)
    _keep(result, path)


def predict(
    spec: Spec,
    limit: LimitName = None,
    times: Times = None,
    settings: Settings = None,
    out: Out = None,
    force: Force = False,
    progress: Wanted = None,
) -> None:
    """Solve a problem in a limit and save its risk and overlaps.

    \b
      limitlab predict soft-committee
      limitlab predict perceptron --limit BayesOptimal
      limitlab predict escaping-mediocrity --set d=1000 --set replicas=16
      limitlab predict my.toml --limit OverlapSDE --set d=200 --times 0.01:50:31:log
    """
    from limitlab.cli.arguments import limit_of, place_of, problem_of, times_of, usual_limit
    from limitlab.macro.predict import predict
    from limitlab.spec import spec_hash

    problem = problem_of(spec)
    if limit is None:
        limit = usual_limit(problem)
        say(f"limit: {limit} (choose another with --limit; see limitlab limits {spec})")
    chosen = limit_of(limit, settings or [])
    grid = None if times is None and not chosen.in_time else times_of(times or "0:10:51")
    path = place_of(out, f"{limit}_{spec_hash(problem)}.nc", force)
    with Bar(f"predict {spec}", progress) as bar:
        result = predict(problem, chosen, grid, bar)
    _keep(result, path)
    if problem.start is not None and problem.start.random and getattr(chosen, "d", 0) is None:
        say("note: a random start has M = 0 in the limit, often a fixed point; --set d=1000 draws it instead")


def compare(
    a: Annotated[Path, typer.Argument(metavar="A", help="A result file, usually of simulate.")],
    b: Annotated[Path, typer.Argument(metavar="B", help="Another, usually of predict.")],
    plot: Annotated[Path | None, typer.Option(help="Also draw both into this file.")] = None,
    threshold: Annotated[float, typer.Option(help="They agree if every |z| is below.")] = 4.0,
    margin: Annotated[
        float | None, typer.Option(help="Differences below this share of a variable's size do not matter: 0.01.")
    ] = None,
    paired: Annotated[bool, typer.Option("--paired", help="Replica by replica (same d and seed).")] = False,
    force: Force = False,
) -> None:
    """How far two results of one problem are apart, in standard errors.

    Exit code 1 if they disagree, 2 if there is nothing to compare.

    \b
      limitlab compare sim.nc ode.nc --plot both.png
      limitlab compare sim.nc ode.nc --margin 0.01
    """
    from limitlab.results.compare import compare
    from limitlab.results.comparison import NOTHING
    from limitlab.results.files import load

    first, second = load(a), load(b)
    comparison = compare(first, second, threshold=threshold, margin=margin, paired=paired)
    show(comparison)
    if plot is not None:
        _draw([first, second], plot, force)
    if not comparison.agrees:
        raise typer.Exit(BAD_INPUT if comparison.word == NOTHING else CLAIM_FAILED)


def plot(
    results: Annotated[list[Path], typer.Argument(metavar="A [B...]", help="Result files.")],
    out: Annotated[Path, typer.Option(help="Figure to write (.png, .pdf, .svg).")] = Path("figure.png"),
    variable: Annotated[list[str] | None, typer.Option(help="Draw only this; may be repeated.")] = None,
    force: Force = False,
) -> None:
    """Draw results: predictions as lines, simulations as points with error bars.

    \b
      limitlab plot sim.nc ode.nc --out both.png
      limitlab plot sim.nc ode.nc --variable risk --out risk.pdf
    """
    from limitlab.results.files import load

    _draw([load(path) for path in results], out, force, variable)


def cite(
    spec: Spec,
    limit: Annotated[list[str] | None, typer.Option(help="A limit that was used; may be repeated.")] = None,
) -> None:
    """Print BibTeX of what a problem and its limits rest on.

    \b
      limitlab cite soft-committee --limit OverlapODE > used.bib
    """
    typer.echo(remembered(["cite", *(limit or [])], spec, str, lambda: _cite(spec, limit or [])), nl=False)


def _cite(spec: str, used: list[str]) -> str:
    from limitlab.cite import cite
    from limitlab.cli.arguments import limit_class, problem_of

    return cite(problem_of(spec), [limit_class(name) for name in used])


def staircase(
    target: Annotated[str, typer.Argument(metavar="TARGET", help='A polynomial of +-1 variables: "z1 + z1*z2".')],
    out: Annotated[Path | None, typer.Option(help="Also save the terms and the answer to this file.")] = None,
    force: Force = False,
) -> None:
    """Is a sparse target easy to learn? Its leap, an order of its terms that proves it, symmetries, samples needed.

    \b
      limitlab staircase "z1 + z1*z2 + z3*z4"
      limitlab staircase "z1 + 0.5*z1*z2*z3" --out staircase.nc
    """
    from limitlab.analysis.sparse.staircase import staircase
    from limitlab.cli.arguments import place_of

    path = None if out is None else place_of(out, "staircase.nc", force)
    answer = staircase(target)
    rows = [
        [name, f"{answer.fourier[name]:.6g}", str(new)]
        for name, new in zip(answer.order, answer.new_variables, strict=True)
    ]
    if len(rows) > SHOWN_TERMS:
        rows = [*rows[:SHOWN_TERMS], [f"... {len(rows) - SHOWN_TERMS} more", "", ""]]
    say(answer.summary)
    if rows:
        show_table("\nterms in the order that proves the leap", ["term", "coefficient", "new variables"], rows)
    if path is not None:
        from limitlab.results.files import save

        say(f"saved to {save(answer.dataset(), path)}")


def run(
    name: Annotated[str, typer.Argument(help="A gallery entry (see limitlab list), or all.")] = "staircase",
    out: Annotated[Path | None, typer.Option(help="Folder; default limitlab-runs/NAME.")] = None,
    page: Annotated[
        bool, typer.Option("--html", help="Also page.html: all of it in one file that answers to the mouse.")
    ] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Smaller sizes, which are stated.")] = False,
    report: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Of all: where the reproduction report goes; limitlab-runs/report if left out."
        ),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=0, help="Of all: local processes; one for each core if left out, 0 is this one.")
    ] = None,
    progress: Wanted = None,
) -> None:
    """Make a gallery entry: simulate, predict, check its claim, write figure, data and verdict into a folder.

    Exit code 1 if the claim fails. With all: every entry and every formula of the sources, as one page; a run that was
    killed goes on where it was.

    \b
      limitlab run staircase
      limitlab run plateau --out plateau --html
      limitlab run all --report report --quick
    """
    if name == "all":
        return _report(report or out or Path("limitlab-runs") / "report", quick, workers, page, progress)
    from limitlab.errors import InputError
    from limitlab.gallery import ENTRIES, run_entry
    from limitlab.gallery.page import check_plotly, write_page

    if report is not None or workers is not None:
        raise InputError("--report and --workers are for the whole gallery: limitlab run all --report DIR.")
    if page:
        check_plotly()

    if name in ENTRIES:
        entry = ENTRIES[name]
        seconds = entry.quick.seconds if quick and entry.quick is not None else entry.seconds
        typer.echo(f"{name}: about {seconds:.0f} s on two quiet cores", err=True)
    with Bar(f"run {name}", progress) as bar:
        verdict = run_entry(name, Path("limitlab-runs") / name if out is None else out, bar, quick)
    say(verdict.text.rstrip())
    say(f"figure, data and verdict are in {verdict.folder}")
    if page:
        say(f"the page is {write_page(ENTRIES[name], verdict)}")
    if not verdict.ok:
        raise typer.Exit(CLAIM_FAILED)


def _report(folder: Path, quick: bool, workers: int | None, page: bool, progress: bool | None) -> None:
    """The whole gallery as a report."""
    from limitlab.errors import InputError
    from limitlab.numerics.machine import cores
    from limitlab.report import report

    if page:
        raise InputError("--html is the page of one entry; the report of all entries is a page by itself.")
    with Bar("run all", progress, counted=True) as bar:
        made = report(folder, quick, workers=(cores() if workers is None else workers) or None, progress=bar)
    for row in made.rows:
        if row.state == "CHECK FAILS":
            complain(f"claim {row.claim.key} fails: {row.claim.sentence}")
    for name, one in made.outcomes.items():
        for words in [one.reason] if one.reason else [check.statement for check in one.checks if not check.ok]:
            complain(f"{name}: {words}")
    say(str(made))
    say(f"the report is {made.page}" + ("" if made.pdf is None else f", printed as {made.pdf}"))
    if not made.ok:
        raise typer.Exit(CLAIM_FAILED)


def benchmark(
    name: Annotated[str | None, typer.Argument(help="One of the list; without it, what there is.")] = None,
    parts: Annotated[list[str] | None, typer.Argument(help="Parts of it; default all.")] = None,
    against: Annotated[
        Path | None, typer.Option(help="The JSON of an earlier run: what got slower beyond noise? Exit code 1 if any.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="File; default limitlab-runs/benchmarks/NAME.json.")] = None,
) -> None:
    """How fast limitlab is: ratios to bare arithmetic or to another method, with the limits of this machine.

    \b
      limitlab benchmark
      limitlab benchmark gamp
      limitlab benchmark gamp run --against limitlab-runs/benchmarks/gamp.json --out now.json
    """
    from limitlab.benchmarks import BENCHMARKS, measure, read, slower

    if name is None:
        rows = [[name, one.words, f"{one.minutes:g} min"] for name, one in BENCHMARKS.items()]
        show_table("benchmarks: limitlab benchmark NAME", ["name", "what it measures", "takes about"], rows)
        return
    before = None if against is None else read(against)
    path = Path("limitlab-runs") / "benchmarks" / f"{name}.json" if out is None else out
    now = measure(name, parts or [], path)
    say(f"numbers are in {path}")
    if before is not None:
        worse = slower(now, before)
        for line in worse:
            say(f"slower: {line}")
        say(f"{len(worse)} of {len(now['rows'])} rows are slower than in {against}, beyond noise")
        if worse:
            raise typer.Exit(CLAIM_FAILED)


def explore(
    port: Annotated[int, typer.Option(min=1, max=65535, help="Where it listens.")] = 8765,
    host: Annotated[
        str, typer.Option(help="Another address than this machine's own; visitors then need the token that is shown.")
    ] = "127.0.0.1",
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open a browser.")] = True,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes that compute; default: one per core.")] = None,
    warm: Annotated[bool, typer.Option("--warm/--no-warm", help="Compute first answers before anybody asks.")] = True,
) -> None:
    """Open a local web page on which theory follows a slider and simulations arrive beside it. Ctrl-C ends it.

    \b
      limitlab explore
      limitlab explore --port 9000 --no-browser
    """
    from limitlab.explorer import check_extra

    check_extra()
    from limitlab.explorer.server import explore

    explore(port, host, browser, say, workers, warm)


def doctor() -> None:
    """Versions, devices, cache and threads, and a self-check against known values in about ten seconds.

    Exit code 1 if a dependency is too old, a file does not come back as it was saved, or a number is wrong.

    \b
      limitlab doctor
    """
    from limitlab.report.doctor import about, examine

    show_table("this installation", ["what", "found"], [[name, found] for name, found in about().items()])
    findings = examine()
    rows = [["ok" if one.ok else "FAILED", one.name, one.found] for one in findings]
    show_table("self-check", ["", "what", "found"], rows)
    bad = [one.name for one in findings if not one.ok]
    if bad:
        complain(f"{len(bad)} of {len(findings)} findings are bad: {', '.join(bad)}")
        raise typer.Exit(CLAIM_FAILED)
    say(f"all {len(findings)} findings are well")


COMMANDS = {
    "list": list_,
    "run": run,
    "spec": spec,
    "limits": limits,
    "simulate": simulate,
    "predict": predict,
    "compare": compare,
    "plot": plot,
    "cite": cite,
    "curve": curve,
    "staircase": staircase,
    "benchmark": benchmark,
    "explore": explore,
    "doctor": doctor,
}


def _keep(result: Any, path: Path) -> None:
    from limitlab.results.files import save

    save(result, path)
    summary(result)
    say(f"saved to {path}")


def _draw(results: list, path: Path, force: bool, variables: list[str] | None = None) -> None:
    import matplotlib

    from limitlab.cli.arguments import place_of
    from limitlab.figures import close_figure
    from limitlab.plot import plot, save_figure

    matplotlib.use("Agg")  # nothing is shown here, so that no window need be possible
    path = place_of(path, "figure.png", force)
    figure = plot(*results, variables=variables)
    say(f"figure saved to {save_figure(figure, path)}")
    close_figure(figure)
