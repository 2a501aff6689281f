"""A learning curve: what theory says, what real fits say, which rows are hard, and what a reader must know."""

import dataclasses
import json
import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from limitlab.errors import AccuracyWarning, InputError
from limitlab.numerics.checks import check_number
from limitlab.problems.inputs.ridge_curve import not_reached, stays_below
from limitlab.results.compare import Comparison, compare
from limitlab.results.files import load, save
from limitlab.results.schema import table_stamp, validate
from limitlab.text import html_table

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["ENOUGH", "LearningCurve", "assemble"]

FITS = "fits_"  # before the names of what was measured, in a file
WORDS = {
    "risk": "expected loss of a row that was not trained on",
    "train_loss": "mean loss of the rows trained on",
    "generalisation_error": "probability of a wrong sign",
    "argmax_error": "probability that another class has the largest output",
}
MSE = "mean-square error of a row that was not trained on"


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class LearningCurve:
    """The answer of `learning_curve`.

    Attributes
    ----------
    prediction
        Dataset over ``samples`` (and ``penalty``, ``label`` if there are several): ``risk``, ``train_loss``,
        ``generalisation_error`` (wrong signs if targets are -1 and +1, else the mean square), each with its ``_band``;
        ``status``, ``rounds``, and ``kind``: where the numbers come from.
    fits
        The same of real fits, over ``replica`` too (the subsets); None if there were none.
    rows
        Dataset over ``row`` as well: ``mean`` and ``sd`` of the output for a row that was left out, ``error`` and
        ``loss`` expected for it, ``leverage``. None of the pool formula.
    notes
        What a reader must know, in words.
    """

    prediction: "xr.Dataset"
    fits: "xr.Dataset | None" = None
    rows: "xr.Dataset | None" = None
    notes: tuple[str, ...] = ()

    def samples_for(self, error: float, variable: str = "generalisation_error") -> Any:
        """The n from which on the predicted error stays at or below ``error``: at most the first n of the curve if it
        is there from the start, and NaN with a warning if the curve ends above it.

        Between the n of the curve by a straight line in logarithms. An array if there are several penalties or labels.
        """
        error = check_number("samples_for", "error", error, low=0, open_low=True, remedy="Give the error to reach.")
        if variable not in self.prediction:
            raise InputError(
                f'samples_for: the prediction has no {variable}. Use variable="risk", or theory="rows" for wrong signs.'
            )
        values = self.prediction[variable].transpose("samples", ...)
        flat = values.values.reshape(len(values), -1)
        found = np.array([stays_below(values["samples"].values, column, error) for column in flat.T])
        if np.any(np.isnan(found)):
            warnings.warn(not_reached(error, int(values["samples"].values[-1])), AccuracyWarning, stacklevel=2)
        return float(found[0]) if flat.shape[1] == 1 else found.reshape(values.shape[1:])

    def results(self) -> "list[xr.Dataset]":
        """What is drawn: fits, then theory."""
        return [ds for ds in (self.fits, self.prediction) if ds is not None]

    def sides(self) -> "tuple[xr.Dataset, xr.Dataset]":
        """Fits and theory where both are, to be compared."""
        if self.fits is None:
            raise InputError("This learning curve has no fits to compare with. Ask for fits=20.")
        names = [name for name in ("risk", "train_loss", "generalisation_error") if name in self.prediction]
        others = [dim for dim in self.prediction["risk"].dims if dim != "samples"]
        here, there = self.prediction[names], self.fits[[name for name in names if name in self.fits]]
        there = there.transpose("samples", ..., "replica")
        here = here.sel(samples=there["samples"].values)
        sound = here.notnull().all(others).to_array().all("variable")
        whole = there.notnull().all([*others, "replica"]).to_array().all("variable")
        keep = np.nonzero((sound & whole).values)[0]
        if not len(keep):
            raise InputError("No n has both a theory and fits that all ended well: see status.")
        return there.isel(samples=keep), here.isel(samples=keep)

    def compare(self, **options: Any) -> Comparison:
        """z-scores of the fits against the theory: `limitlab.compare` of the two."""
        return compare(*self.sides(), **options)

    def save(self, path: str | os.PathLike) -> Path:
        """Write all of it to one netCDF file."""
        return save(self.as_dataset(), path)

    def as_dataset(self) -> "xr.Dataset":
        """All of it in one Dataset, the fits under names that begin with ``fits_``."""
        import xarray as xr

        parts = [self.prediction.drop_attrs(deep=False)]
        if self.fits is not None:
            held = self.fits.drop_attrs(deep=False).rename({name: f"{FITS}{name}" for name in self.fits.data_vars})
            parts.append(held.rename(samples="fitted_samples", replica="subset"))
        if self.rows is not None:
            parts.append(
                self.rows.drop_attrs(deep=False)
                .rename({n: f"row_{n}" for n in self.rows.data_vars})
                .rename(samples="row_samples")
            )
        whole = xr.merge(parts)
        own = {} if self.fits is None else dict(self.fits.attrs)
        whole.attrs = {**self.prediction.attrs, "notes": list(self.notes), "of_fits": own, "verb": "learning_curve"}
        return whole

    @classmethod
    def load(cls, path: str | os.PathLike) -> "LearningCurve":
        """Read what `save` wrote."""
        ds = load(path)
        if ds.attrs.get("verb") != "learning_curve":
            raise InputError(f"{path} is a result, but no learning curve. Read it with limitlab.load.")
        about = {k: v for k, v in ds.attrs.items() if k not in ("notes", "of_fits", "verb")}
        mine = [n for n in ds.data_vars if not str(n).startswith((FITS, "row_"))]
        fits = [n for n in ds.data_vars if str(n).startswith(FITS)]
        rows = [n for n in ds.data_vars if str(n).startswith("row_")]
        prediction = ds[mine]
        prediction.attrs = about
        held = seen = None
        if fits:
            held = ds[fits].rename({n: str(n)[len(FITS) :] for n in fits})
            held = held.rename(fitted_samples="samples", subset="replica")
            held.attrs = dict(ds.attrs["of_fits"])
        if rows:
            seen = ds[rows].rename({n: str(n)[4:] for n in rows}).rename(row_samples="samples")
            seen.attrs = about
        return cls(prediction, held, seen, tuple(ds.attrs.get("notes", ())))

    def table(self) -> list[tuple[str, ...]]:
        """Rows of text: n, the theory with its band, the fits with their standard error, z."""
        heads = (
            "samples",
            *(["penalty"] if "penalty" in self.prediction.dims else []),
            *(["label"] if "label" in self.prediction.dims else []),
            "error",
            "band",
            "fits",
            "s.e.",
            "z",
            "status",
        )
        rows: list[tuple[str, ...]] = [heads]
        name = self._shown()
        values, band = self.prediction[name], self.prediction[f"{name}_band"]
        others = [dim for dim in values.dims if dim != "samples"]
        for index in np.ndindex(*values.shape):
            at = {dim: values[dim].values[k] for dim, k in zip(values.dims, index, strict=True)}
            value, wide = float(values.values[index]), float(band.values[index])
            fitted = self._fitted(name, at)
            z = (fitted[0] - value) / fitted[1] if self._enough() and fitted is not None and fitted[1] > 0 else np.nan
            first = [f"{at['samples']}", *(str(at[dim]) if dim == "label" else f"{at[dim]:g}" for dim in others)]
            status = str(self.prediction["status"].values[index])
            cells = [value, wide, *(fitted or (np.nan, np.nan))]
            rows.append(
                (
                    *first,
                    *(f"{x:.4g}" if np.isfinite(x) else "-" for x in cells),
                    f"{z:+.1f}" if np.isfinite(z) else "-",
                    status,
                )
            )
        return rows

    def _asked(self) -> str:
        """Loss and penalty, in words."""
        asked = json.loads(self.prediction.attrs["problem"])
        one = "" if "penalty" in self.prediction.dims else f", penalty {asked['penalty'][0]:g}"
        return f" ({asked['loss']}{one})"

    def _shown(self) -> str:
        return "generalisation_error" if "generalisation_error" in self.prediction else "risk"

    def _enough(self) -> bool:
        return self.fits is not None and self.fits.sizes["replica"] >= ENOUGH

    def _fitted(self, name: str, at: dict) -> tuple[float, float] | None:
        if self.fits is None or at["samples"] not in self.fits["samples"].values:
            return None
        runs = self.fits[name].sel({dim: [value] for dim, value in at.items()}).values.ravel()
        runs = runs[np.isfinite(runs)]
        if not len(runs):
            return None
        return float(runs.mean()), float(runs.std(ddof=1) / np.sqrt(len(runs))) if len(runs) > 1 else np.nan

    def __str__(self) -> str:
        rows = self.table()
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        lines = ["  ".join(cell.rjust(w) for cell, w in zip(row, widths, strict=True)) for row in rows]
        about = self.prediction[self._shown()].attrs.get("long_name", "error")
        head = f"{self.prediction.attrs['method']}: {about}{self._asked()}"
        return "\n".join(
            [head, *lines, *(f"note: {note}" for note in self.notes), *([MEANS] if self.fits is not None else [])]
        )

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        rows = self.table()
        told = [(row[0], ", ".join(f"{h} {c}" for h, c in zip(rows[0][1:], row[1:], strict=True))) for row in rows[1:]]
        return html_table(f"{self.prediction.attrs['method']}\n" + "\n".join(self.notes), told, ("samples", "error"))


ENOUGH = 5  # fits from which a standard error, and so z, means anything
MEANS = "The curve is a mean over subsets: a single one scatters more."
FIT_METHOD = "fits on random subsets"
METHODS = {"rows": "row theory", "pool": "pool formula"}
REFERENCES = {"rows": "malzahn2002statistical, obuchi2019semi", "pool": "cui2021generalization"}


def assemble(model, theory: str, n, predicted, bands, formula, measured, further, notes, seed: int) -> LearningCurve:
    """The Datasets of a curve, in the schema."""
    import xarray as xr

    dims, coords, drop = ["samples", "penalty", "label"], {"samples": n}, []
    within = n[n <= len(model.pool)]
    if model.single:
        drop.append("penalty")
    else:
        coords["penalty"] = model.penalties
    if len(model.targets) == 1:
        drop.append("label")
    else:
        coords["label"] = np.array(list(model.targets))

    def thin(values, dims):
        keep = tuple(0 if dim in drop else slice(None) for dim in dims)
        return tuple(dim for dim in dims if dim not in drop), np.asarray(values)[keep]

    names = {"risk": "risk", "train_loss": "train_loss", "error": "generalisation_error"}
    about = {**WORDS, **({} if model.signs else {"generalisation_error": MSE})}
    data: dict[str, Any] = {}
    for key, name in names.items():
        value, band = getattr(predicted, key), bands[key]
        if key == "error" and theory == "pool" and model.signs:
            continue  # wrong signs need the law of every row
        if further is not None:
            wide = getattr(further, f"{key}_band")
            value, band = np.concatenate([value, getattr(further, key)]), np.concatenate([band, wide])
        data[name] = (*thin(value, dims), {"long_name": about[name]})
        data[f"{name}_band"] = (*thin(band, dims), {"long_name": f"how far {name} may be off"})
    status, rounds = predicted.status.astype("<U16"), predicted.rounds
    kind = np.full(len(within), METHODS[theory], dtype="<U40")
    if further is not None:
        status = np.concatenate([status, np.where(np.isfinite(further.risk), "ok", "undefined")])
        rounds = np.concatenate([rounds, np.zeros(further.risk.shape, int)])
        kind = np.concatenate([kind, np.full(len(n) - len(within), further.kind)])
    if theory == "rows" and formula is not None and len(within) == len(n):
        data["pool_risk"] = (*thin(formula.risk, dims), {"long_name": "risk by the pool formula"})
    data["status"], data["rounds"] = thin(status, dims), thin(rounds, dims)
    data["kind"] = (("samples",), kind)
    table = {**model.table, "samples": n.tolist()}
    prediction = _dataset(
        xr, data, coords, table, METHODS[theory], {"rows": len(model.pool), "reference": REFERENCES[theory]}
    )
    if further is not None:
        notes = (
            *notes,
            f"above {len(model.pool)} samples: {further.kind}" + (", not a theory" if "fitted" in further.kind else ""),
        )
    held = None
    if measured is not None:
        runs = [*dims, "replica"]
        data = {name: (*thin(getattr(measured, key), runs), {"long_name": about[name]}) for key, name in names.items()}
        data["status"] = thin(measured.status, runs)
        if measured.argmax is not None:
            data["argmax_error"] = (
                *thin(measured.argmax, ["samples", "penalty", "replica"]),
                {"long_name": about["argmax_error"]},
            )
        places = {**coords, "samples": within, "replica": np.arange(measured.risk.shape[-1])}
        held = _dataset(xr, data, places, table, FIT_METHOD, {"rows": len(model.pool), "seed": seed})
    return LearningCurve(prediction, held, _rows(xr, model, within, predicted, thin, coords, table), tuple(notes))


def _rows(xr, model, n, predicted, thin, coords, table):
    if not predicted.rows:
        return None
    shape, N, Y = predicted.risk.shape, len(model.pool), list(model.targets.values())
    names = ("mean", "sd", "leverage", "loss", "error")
    values = {name: np.full((*shape, N), np.nan) for name in names}
    for key, found in predicted.rows.items():
        y = Y[key[2]]
        wrong = found.wrong(y) if model.signs else (y - found.mean) ** 2 + found.sd**2
        for name, value in zip(names, (found.mean, found.sd, found.leverage, found.test_loss, wrong), strict=True):
            values[name][key] = value
    dims = ["samples", "penalty", "label", "row"]
    data: dict[str, Any] = {name: thin(value, dims) for name, value in values.items()}
    data["status"] = thin(predicted.status.astype("<U16"), dims[:3])
    return _dataset(
        xr,
        data,
        {**coords, "samples": n, "row": np.arange(N)},
        table,
        "row theory",
        {"rows": N, "reference": REFERENCES["rows"]},
    )


def _dataset(xr, data, coords, table, method: str, attrs):
    ds = xr.Dataset(data, coords)
    ds.attrs = {**table_stamp(table, method), **attrs}
    if "argmax_error" in ds:
        ds.attrs["declared"] = {"argmax_error": {"dims": ["replica"], "long_name": WORDS["argmax_error"]}}
    validate(ds)
    return ds
