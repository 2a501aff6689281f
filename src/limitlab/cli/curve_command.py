"""limitlab curve: how the error of a model falls with the number of rows of a table."""

from pathlib import Path
from typing import Annotated

import typer

from limitlab.cli.app import Wanted
from limitlab.cli.screen import Bar, say

__all__ = ["curve"]

MORE = 8  # n within the rows where those asked for lie beyond


def curve(
    table: Annotated[Path, typer.Argument(help="A table: .csv, .parquet, or .npz with X and y.")],
    target: Annotated[str | None, typer.Option(help="The column to predict (not of .npz).")] = None,
    model: Annotated[str, typer.Option(help="ridge, logistic, squared-hinge or pseudo-huber.")] = "ridge",
    penalty: Annotated[float, typer.Option(help="lambda of sum of losses + lambda |w|^2/2.")] = 0.1,
    samples: Annotated[
        str | None, typer.Option(help="start:stop:count, start:stop:count:log, or a list with commas.")
    ] = None,
    theory: Annotated[str, typer.Option(help="rows, or pool (ridge only).")] = "rows",
    fits: Annotated[int, typer.Option(help="Random subsets for real fits beside the theory.")] = 20,
    seed: Annotated[int, typer.Option(help="Of the subsets.")] = 0,
    standardise: Annotated[
        bool, typer.Option("--standardise", help="Divide columns by their s.d. and sqrt(columns).")
    ] = False,
    one_hot: Annotated[bool, typer.Option("--one-hot", help="Texts become columns of 0 and 1.")] = False,
    drop: Annotated[list[str] | None, typer.Option(help="A column to leave out; may be repeated.")] = None,
    drop_rows: Annotated[bool, typer.Option("--drop-rows", help="Leave out rows with missing values.")] = False,
    no_intercept: Annotated[bool, typer.Option("--no-intercept", help="Fit no constant.")] = False,
    out: Annotated[Path | None, typer.Option(help="Folder; default limitlab-runs/curve-NAME.")] = None,
    progress: Wanted = None,
) -> None:
    """A learning curve of your own data: theory beside real fits, in a folder with figure, data and verdict.

    \b
      limitlab curve data.csv --target price --penalty 0.1 --samples 50:2000:20 --out DIR
      limitlab curve data.parquet --target ill --model logistic --standardise --one-hot
    """
    import matplotlib
    import numpy as np

    from limitlab.analysis.linear.penalty import optimal_penalty
    from limitlab.cli.arguments import numbers_of
    from limitlab.data.beyond import LEAST
    from limitlab.data.learning_curve import learning_curve
    from limitlab.data.models import MODELS
    from limitlab.data.tables import pool_of_file, usual_samples
    from limitlab.data.words import verdict
    from limitlab.errors import InputError
    from limitlab.figures import close_figure, save_figure
    from limitlab.files import whole
    from limitlab.plot import plot

    matplotlib.use("Agg")
    if model not in MODELS:
        raise InputError(f"--model must be one of {', '.join(MODELS)}; got {model!r}.")
    pool = pool_of_file(
        table,
        target,
        standardise=standardise,
        one_hot=one_hot,
        drop=tuple(drop or ()),
        drop_rows=drop_rows,
        intercept=not no_intercept,
    )
    rows = len(pool)
    asked = usual_samples(rows) if samples is None else numbers_of(samples, "--samples").round().astype(int).tolist()
    ns = [n for n in sorted(set(asked)) if n != rows or fits == 0]
    if (
        ns and ns[-1] > rows and len([n for n in ns if n < rows]) < LEAST
    ):  # what lies beyond the rows is told from within
        ns = sorted(
            {*ns, *np.geomspace(max(3, min(20, rows // 4)), max(4, int(0.9 * rows)), MORE).round().astype(int).tolist()}
        )
    folder = Path("limitlab-runs") / f"curve-{table.stem}" if out is None else out
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file; a folder was needed for figure and data. Choose another name.")
    loss = MODELS[model]()
    with Bar(f"curve {table.name}", progress) as bar:
        found = learning_curve(pool, loss, penalty, samples=ns, theory=theory, fits=fits, seed=seed, progress=bar)
        best, within = None, [n for n in ns if n < rows]
        if within and "label" not in found.prediction.dims:
            best = optimal_penalty(pool, loss, samples=within[-1], theory=theory, progress=bar)
    head = f"{table.name}: {rows} rows, {pool.columns} columns, {model}, penalty {penalty:g}"
    text = f"{head}\n{verdict(found, best, penalty)}"
    folder.mkdir(parents=True, exist_ok=True)
    found.save(folder / "curve.nc")
    figure = plot(found)
    save_figure(figure, folder / "figure.png")
    close_figure(figure)
    table_too = "" if str(found) in text else f"\n{found}\n"
    with whole(folder / "verdict.txt") as part:
        part.write_text(f"{text}\n{table_too}", encoding="utf-8", newline="\n")
    say(text)
    say(f"figure, data and verdict are in {folder}")
