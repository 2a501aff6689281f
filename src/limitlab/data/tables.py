"""Tables on disk as pools: CSV, Parquet, npz. Nothing in a file is run: no pickle is read."""

import os
from pathlib import Path
from typing import Any

import numpy as np

from limitlab.data.pool import Pool
from limitlab.errors import InputError
from limitlab.files import open_plain
from limitlab.text import did_you_mean, printable

__all__ = ["pool_of_file", "usual_samples"]

KINDS = (".csv", ".parquet", ".npz")


def pool_of_file(
    path: str | os.PathLike,
    target: str | None = None,
    *,
    standardise: bool = False,
    one_hot: bool = False,
    drop: tuple[str, ...] = (),
    drop_rows: bool = False,
    intercept: bool = True,
    most: int | None = None,
) -> Pool:
    """The pool in a file.

    Parameters
    ----------
    path
        A table (.csv, .parquet), one column of which is the ``target``; or .npz with arrays X and y.
    one_hot
        Texts become columns of 0 and 1; without it they are refused by name.
    drop, drop_rows
        Columns to leave out; whether to leave out rows with missing values, which are refused otherwise.
    most
        Numbers that the table may have once texts are columns: one that would have more is refused before it is made.
    """
    path = Path(path)
    if path.suffix.lower() not in KINDS:
        raise InputError(
            f"A table must end in {', '.join(KINDS)}; got {printable(path.name)!r}. Pickles are never read."
        )
    if path.suffix.lower() == ".npz":
        X, y = _arrays(path)
        return Pool(X, y, intercept=intercept, standardise=standardise)
    import pandas as pd

    table = _table(path)
    names = [str(name) for name in table.columns]
    table.columns = names
    if target is None or target not in names:
        hint = did_you_mean(str(target), names) if target else ""
        raise InputError(
            f"--target must be one of the columns {', '.join(map(printable, names[:20]))}; got {target!r}.{hint}"
        )
    for name in drop:
        if name not in names or name == target:
            raise InputError(
                f"--drop must name a column other than the target; got {name!r}.{did_you_mean(name, names)}"
            )
    table = table.drop(columns=list(drop))
    if drop_rows:
        table = table.dropna()
    if not len(table):
        raise InputError(
            f"{printable(path.name)} has a head but no rows{' without missing values' if drop_rows else ''}; a table "
            "needs rows below its head."
        )
    if len(table.columns) < 2:
        raise InputError(
            f"{printable(path.name)} has no column besides the target {printable(target)!r} to learn from."
        )
    y, X = table[target], table.drop(columns=[target])
    lacking = [str(name) for name in table.columns if bool(table[name].isna().any())]
    if lacking:
        raise InputError(
            f"Values are missing in {_list(lacking)}. Leave these columns out (--drop {lacking[0]}) or these rows "
            "(--drop-rows)."
        )
    text = [str(name) for name in X.columns if X[name].dtype.kind not in "fiub"]
    if text and not one_hot:
        raise InputError(
            f"{_list(text)} {'are' if len(text) > 1 else 'is'} text. Use --one-hot for columns of 0 and 1, or leave "
            f"out: --drop {text[0]}."
        )
    if text:
        _check_words(X, text, most)
        X = pd.get_dummies(X, columns=text, dtype=float)
    return Pool(X, y.to_numpy(), intercept=intercept, standardise=standardise)


def usual_samples(rows: int, count: int = 12) -> list[int]:
    """The n of a curve when none are asked for: at most so many, even in logarithms, up to nine tenths of the rows."""
    if rows < 4:
        raise InputError(f"A learning curve needs at least 4 rows: some to learn from, some to test on; got {rows}.")
    first, last = max(3, min(20, rows // 4)), max(3, int(0.9 * rows))
    return sorted(set(np.geomspace(first, last, count).round().astype(int).tolist()))


def _check_words(X: Any, text: list[str], most: int | None) -> None:
    """Refuse words that would become too many columns; a column of names, one for each row, is the usual case."""
    if most is None:
        return
    kinds = {name: int(X[name].nunique()) for name in text}
    count = len(X) * (len(X.columns) - len(text) + sum(kinds.values()))
    if count > most:
        widest = max(kinds, key=lambda name: kinds[name])
        raise InputError(
            f"{printable(widest)} has {kinds[widest]:,} different words; with a column for each the table would have "
            f"{count:,} numbers, and {most:,} is the most. Leave it out."
        )


def _table(path: Path) -> Any:
    import pandas as pd

    with _opened(path) as file:
        try:
            return pd.read_csv(file) if path.suffix.lower() == ".csv" else pd.read_parquet(file)
        except ImportError as error:
            raise InputError("Reading Parquet needs pyarrow: pip install 'limitlab[parquet]'.") from error
        except Exception as error:  # whatever a damaged file makes a reader say
            raise InputError(
                f"{printable(str(path))} cannot be read as a table: {printable(str(error))[:200]}."
            ) from None


def _arrays(path: Path) -> tuple[np.ndarray, np.ndarray]:
    with _opened(path) as file:
        try:
            with np.load(file, allow_pickle=False) as held:
                if not {"X", "y"} <= set(held.files):
                    raise InputError(
                        f"{printable(path.name)} must hold arrays X and y; it has {', '.join(held.files)}."
                    )
                return held["X"], held["y"]
        except InputError:
            raise
        except Exception as error:
            raise InputError(f"{printable(str(path))} cannot be read: {printable(str(error))[:200]}.") from None


def _opened(path: Path) -> Any:
    try:
        return open_plain(path, "table", "Give a .csv, .parquet or .npz file.")
    except (OSError, ValueError) as error:
        raise InputError(printable(str(error))) from None


def _list(names: list[str]) -> str:
    shown = ", ".join(map(printable, names[:5]))
    return shown + (f" and {len(names) - 5} more" if len(names) > 5 else "")
