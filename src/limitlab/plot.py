"""plot: simulations and predictions of one problem in one figure."""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from limitlab.errors import InputError
from limitlab.figures import (
    Drawing,
    Key,
    Panel,
    average,
    describe,
    draw_on,
    drawn,
    new_figure,
    palette,
    save_figure,
    short,
    style_axes,
    time_label,
    title,
)
from limitlab.results.schema import RESERVED_DIMENSIONS, pairs_of
from limitlab.results.signs import without_signs
from limitlab.text import show

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["described", "new_figure", "palette", "plot", "save_figure", "style_axes"]

LINES = ("-", "--", "-.", ":")
MARKERS = ("o", "s", "^", "D", "v", "P")
PANELS = (
    "risk",
    "train_loss",
    "generalisation_error",
    "mse",
    "M",
    "Q",
    "a",
    "m",
    "q",
    "V",
    "alignment",
    "free_energy",
    "fourier",
    "free_entropy",
)
POSITIVE = ("risk", "train_loss", "generalisation_error", "mse")  # may be drawn on a logarithmic axis
NAMED_CURVES = 8  # a panel with more curves draws them thin and does not name each
DRAWN_CURVES = 60  # and of still more it draws so many, spread evenly
DRAWN_POINTS = 40  # markers of one simulated curve, at most
SAME = 1e-6  # of the largest value: entries that differ by less are drawn as one line
LOG_DECADES = 1.5  # a risk that spans more is drawn on a logarithmic axis


class Curve(NamedTuple):
    """One entry of one variable: its mean over replicas and the standard error of that mean."""

    entry: tuple[int, ...]
    mean: np.ndarray
    error: np.ndarray | None


class Source(NamedTuple):
    """A result and how it is drawn: a simulation by its marker, a prediction by its line."""

    data: "xr.Dataset"
    label: str
    colour: str
    simulated: bool
    style: str


def plot(
    sim: "xr.Dataset | Any" = None,
    pred: "xr.Dataset | Any" = None,
    *more: Any,
    variables: "list[str] | tuple[str, ...] | str | None" = None,
    ax: "Axes | Sequence[Axes] | np.ndarray | None" = None,
) -> "Figure":
    r"""Draw any number of results, in any order: predictions as lines, simulations as points.

    Points carry the standard error of the mean over replicas, and so does the band of a prediction that has
    replicas. Of a simulated curve at most 40 points are drawn, evenly chosen. A result with swept parameters
    is drawn once for every value.

    Parameters
    ----------
    sim, pred, more
        Results of `simulate` and `predict`, or learning curves; the two names only suggest an order. A prediction that
        says how far it may be off (a variable ``risk_band`` beside ``risk``) is drawn with that band.
    variables
        Which variables to draw; None means the risk, the overlaps and what else moves: constants are left out.
    ax
        Axes of yours to draw in, one for each variable; left out, a new figure is made.

    Returns
    -------
    matplotlib.figure.Figure
        Known to pyplot: ``plt.show()`` shows it, and so does a notebook. Write it with ``fig.savefig``, and in a long
        loop forget it with ``plt.close(fig)``.

    Notes
    -----
    Overlaps whose sign is drawn by chance (`compare` says which) are drawn as absolute values: \|M\|.
    """
    figure, names = described([ds for ds in (sim, pred, *more) if ds is not None], variables, inside=ax is not None)
    if ax is None:
        return drawn(figure, known=True)
    axes = _given(ax, names)
    draw_on(axes, figure.panels)
    own: Any = axes[0].get_figure()
    return own


def described(results: list[Any], variables: Any = None, *, inside: bool = False) -> tuple[Drawing, list[str]]:
    """What `plot` draws, before it is drawn, and the variables of its panels; ``inside`` axes of a user's."""
    sources, unsigned = _sources([one for ds in results for one in (ds.results() if hasattr(ds, "results") else [ds])])
    names = _choose(sources, variables)
    figure, panels = new_figure(len(names))
    for panel, name in zip(panels, names, strict=True):
        _draw_panel(panel, name, sources, name in unsigned)
    _name_sources(figure, sources, inside)
    figure.suptitle(title([s.data for s in sources]), fontsize="medium")
    return figure, names


def _given(ax: Any, names: list[str]) -> "list[Axes]":
    """A user's own axes, one for each variable."""
    from matplotlib.axes import Axes

    panels = list(np.asarray(ax, dtype=object).ravel())
    if not panels or not all(isinstance(one, Axes) for one in panels):
        raise InputError(f"plot.ax must be axes of matplotlib, such as plt.subplots()[1]; got {show(ax)}.")
    if any(one.name != "rectilinear" for one in panels):
        raise InputError("plot.ax must be plain axes with an x and a y, such as plt.subplots()[1]; got other ones.")
    if len(panels) != len(names):
        raise InputError(
            f"plot.ax must be one axes for each variable; got {len(panels)} for {len(names)} "
            f"({', '.join(names)}). Choose as many with variables=[...]."
        )
    return panels


# --- what is drawn ------------------------------------------------------------------------------------------


def _sources(datasets: list) -> tuple[list[Source], tuple[str, ...]]:
    """What is drawn and how, and the variables that have lost their sign."""
    import xarray as xr

    if not datasets:
        raise InputError("plot needs at least one result of simulate or predict; got none.")
    for ds in datasets:
        if not isinstance(ds, xr.Dataset):
            raise InputError(f"plot needs results of simulate or predict; got an object of {type(ds).__name__}.")
    parts = [part for ds in datasets for part in _unswept(_in_order(ds))]
    if len(parts) > NAMED_CURVES:
        raise InputError(f"plot draws at most {NAMED_CURVES} results; got {len(parts)}. Select some with .sel(...).")
    seen, unsigned = without_signs([ds for ds, _ in parts])
    parts = [(ds, where) for ds, (_, where) in zip(seen, parts, strict=True)]
    several = len({ds.attrs.get("spec_hash") for ds, _ in parts}) > 1
    sources, count = [], {True: 0, False: 0}
    points = [str(where) for _, where in parts]
    distinct = list(dict.fromkeys(points))
    paired = len(distinct) > 1 and all(points.count(point) > 1 for point in distinct)  # theory and runs of each point
    for k, (ds, where) in enumerate(parts):
        colour = palette[distinct.index(points[k]) if paired else k]
        simulated = str(ds.attrs.get("method", "")).startswith(("simulate", "fits"))
        styles = MARKERS if simulated else LINES
        label = describe(ds, where) + (f" [{ds.attrs.get('spec_hash', '?')[:6]}]" if several else "")
        sources.append(Source(ds, label, colour, simulated, styles[count[simulated] % len(styles)]))
        count[simulated] += 1
    return sources, unsigned


def _in_order(ds: "xr.Dataset") -> "xr.Dataset":
    """The result along its axis, from left to right."""
    axis = _along(ds)
    if axis is None:
        return ds
    if ds.sizes[axis] == 0:
        raise InputError(f"plot needs results with a {axis} at least; got one with none.")
    x = ds[axis].values
    return ds.isel({axis: np.argsort(x, kind="stable")}) if np.any(x[1:] < x[:-1]) else ds


def _unswept(ds: "xr.Dataset") -> "Iterator[tuple[xr.Dataset, str]]":
    """The points of a sweep one by one, each with words that say which it is."""
    swept = [dim for dim in ds.dims if dim not in RESERVED_DIMENSIONS and dim != _along(ds)]
    for index in product(*(range(ds.sizes[dim]) for dim in swept)):
        point = ds.isel(dict(zip(swept, index, strict=True)))
        yield point, ", ".join(f"{dim} = {short(point[dim].values[()])}" for dim in swept)


def _variable(ds: "xr.Dataset", name: str) -> "xr.DataArray | None":
    """The variable, or what a cloud of particles has in its place: a particle's m is a row of M."""
    if name == "M" and "M" not in ds and "m" in ds and "teacher" in ds["m"].dims:
        return ds["m"]
    return ds[name] if name in ds.data_vars else None


def _along(data: "xr.Dataset | xr.DataArray") -> str | None:
    """The horizontal axis: time, iterations, overlaps, or else the swept number with most values."""
    own = next((dim for dim in ("time", "iteration", "overlap") if dim in data.dims), None)
    swept = [str(dim) for dim in data.dims if dim not in RESERVED_DIMENSIONS and data[dim].dtype.kind in "fiu"]
    return own or max(swept, key=lambda dim: data.sizes[dim], default=None)


def _choose(sources: list[Source], variables: Any) -> list[str]:
    everything = {str(name): array for s in sources for name, array in s.data.data_vars.items()}
    drawable = {name for name, array in everything.items() if _along(array) and array.dtype.kind == "f"}
    if variables is not None:
        names = [variables] if isinstance(variables, str) else list(variables)
        for name in names or ["nothing"]:
            if name not in drawable:
                raise InputError(f"variables must be among {', '.join(sorted(drawable))}; got {name!r}.")
        return names
    merged = {"m"} if any("M" in s.data for s in sources) else set()
    names = [name for name in PANELS if name in drawable - merged]
    names = [name for name in names if any(_moves(s.data, name) for s in sources)] or names
    if "fourier" in names:  # what a network computes says more than its neurons
        names = [name for name in names if name in ("risk", "fourier")]
    if not names:
        came = ", ".join(sorted(everything)) or "no variables"
        raise InputError(f"plot needs a variable over time, iteration or a swept number; the results have {came}.")
    return names


def _moves(ds: "xr.Dataset", name: str) -> bool:
    """True if the variable is not constant along its axis, to rounding."""
    array = _variable(ds, name)
    axis = None if array is None else _along(array)
    if array is None or axis is None:
        return False
    values = array.transpose(axis, ...).values
    size = np.max(np.abs(np.nan_to_num(values)), initial=0.0)
    return len(values) == 1 or bool(np.any(np.abs(values - values[0]) > 1e-9 * size))


def _curves(array: "xr.DataArray", band: "xr.DataArray | None" = None) -> list[Curve]:
    axis = _along(array)
    others = [dim for dim in array.dims if dim not in (axis, "replica")]
    pairs = pairs_of(others)
    if "replica" in array.dims:
        mean, error = average(array.transpose("replica", axis, *others).values)
    else:
        mean = array.transpose(axis, *others).values
        error = None if band is None else band.transpose(axis, *others).values
    curves = []
    for entry in product(*(range(array.sizes[dim]) for dim in others)):
        if any(entry[others.index(i)] > entry[others.index(j)] for i, j in pairs):
            continue  # of a symmetric matrix one half is enough
        at = (slice(None), *entry)
        curves.append(Curve(entry, mean[at], None if error is None else error[at]))
    return curves


# --- how it is drawn ----------------------------------------------------------------------------------------


def _draw_panel(axes: Panel, name: str, sources: list[Source], unsigned: bool = False) -> None:
    arrays = [(source, array) for source in sources if (array := _variable(source.data, name)) is not None]
    axis = str(_along(arrays[0][1]))
    note, values, named, bar = "", [], {}, "|" if unsigned else ""
    if "term" in arrays[0][1].dims:
        arrays, note = _largest_terms(arrays)
    drawn = [(source, array, _curves(array, source.data.get(f"{name}_band"))) for source, array in arrays]
    first = {} if "term" in arrays[0][1].dims else _alike([(s, curves) for s, _, curves in drawn])
    for source, array, curves in drawn:
        values = [*values, *(curve.mean for curve in curves)]
        curves = [curve for curve in curves if source.simulated or first.get(curve.entry, curve.entry) == curve.entry]
        total = len(set(first.values())) or len(curves)
        if len(curves) > DRAWN_CURVES:
            note = f" ({DRAWN_CURVES} of {len(curves)} entries)"
            curves = [curves[i] for i in np.linspace(0, len(curves) - 1, DRAWN_CURVES).astype(int)]
        order = list(dict.fromkeys(first.get(curve.entry, curve.entry) for curve in curves))
        for curve in curves:
            leader = first.get(curve.entry, curve.entry)
            number = order.index(leader)
            colour, word = _colour(name, bar, leader, number, total, source)
            more = list(first.values()).count(leader) - 1
            if word is not None and more > 0 and total <= NAMED_CURVES:
                word += f" and {more} alike"
            if "term" in array.dims and total > 1:
                word = str(array["term"].values[curve.entry[0]])
            if word is not None:
                named.setdefault(word, colour)
            draw = _draw_points if source.simulated else _draw_line
            # Later curves are thinner: where two coincide, both are seen.
            width = 0.0 if total > NAMED_CURVES else 1.8 if total == 1 else 2.4 - 0.2 * number
            draw(axes, array[axis].values, curve, source.style, colour, width)
    label = time_label([source.data for source in sources], axis)
    about = next((array.attrs["long_name"] for _, array in arrays if "long_name" in array.attrs), name)
    about += ", without its sign" if unsigned else ""
    style_axes(axes, x=label, y=f"{bar}{name}{bar}", title=about + note)
    flat = np.concatenate([v[np.isfinite(v)] for v in values])
    if name in POSITIVE and flat.size and flat.min() > 0 and np.log10(flat.max() / flat.min()) > LOG_DECADES:
        axes.set_yscale("log")
    _scale_time(axes, arrays[0][1][axis].values)
    if named:
        keys = [Key(word, colour, width=2) for word, colour in named.items()]
        axes.legend(handles=keys, fontsize="small", frameon=False)


def _alike(drawn: "list[tuple[Source, list[Curve]]]") -> dict[tuple[int, ...], tuple[int, ...]]:
    """Entry -> the first entry that every prediction without scatter draws in the same place; {} if there is none."""
    sure = [curves for source, curves in drawn if not source.simulated and curves[0].error is None]
    if not sure or any([c.entry for c in curves] != [c.entry for c in sure[0]] for _, curves in drawn):
        return {}
    paths = np.array([[np.nan_to_num(curve.mean) for curve in curves] for curves in sure])
    size = np.max(np.abs(paths), initial=0.0)
    first: dict[tuple[int, ...], tuple[int, ...]] = {}
    for i, curve in enumerate(sure[0]):
        same = (j for j in range(i) if np.max(np.abs(paths[:, i] - paths[:, j])) <= SAME * size)
        first[curve.entry] = first[sure[0][j].entry] if (j := next(same, None)) is not None else curve.entry
    return first


def _largest_terms(arrays: "list[tuple[Source, xr.DataArray]]") -> "tuple[list[tuple[Source, xr.DataArray]], str]":
    """The same terms of every result: those whose coefficient grows largest in any of them."""
    shared = [term for term in arrays[0][1]["term"].values if all(term in array["term"].values for _, array in arrays)]
    if not shared:
        return arrays, ""
    size = np.zeros(len(shared))
    for _, array in arrays:
        there = array.sel(term=shared)
        rest = [dim for dim in there.dims if dim != "term"]
        size = np.maximum(
            size,
            np.nan_to_num(
                abs(there.mean("replica") if "replica" in rest else there)
                .max([dim for dim in rest if dim != "replica"])
                .values
            ),
        )
    learned = arrays[0][0].data.attrs.get("target_terms", [])
    size = size + 1e3 * np.isin(shared, learned)  # what is to be learned comes first
    keep = [shared[i] for i in np.sort(np.argsort(-size, kind="stable")[:NAMED_CURVES])]
    note = f" ({len(keep)} largest of {len(shared)})" if len(keep) < len(shared) else ""
    return [(source, array.sel(term=keep)) for source, array in arrays], note


def _colour(name: str, bar: str, entry: tuple, number: int, total: int, source: Source) -> tuple[str, str | None]:
    """An entry's colour and its words in the legend; of many entries only their kind is told."""
    if total == 1:
        return source.colour, None
    if total <= NAMED_CURVES:
        return palette[number % len(palette)], f"${bar}{name}_{{{','.join(map(str, entry))}}}{bar}$"
    if name == "Q" and len(entry) == 2:
        return (palette[0], "$i = j$") if entry[0] == entry[1] else (palette[1], "$i \\neq j$")
    if name in ("M", "m") and len(entry) == 2 and entry[1] < len(palette):
        return palette[entry[1]], f"teacher {entry[1]}"
    return source.colour, None


def _draw_points(axes: Panel, x: np.ndarray, curve: Curve, style: str, colour: str, width: float) -> None:
    """Markers with error bars; width 0 is for a curve among many: small, pale, without bars."""
    pick = slice(None, None, max(1, -(-len(x) // DRAWN_POINTS)))
    size, alpha = (2 + width, 1.0) if width else (2.0, 0.5)
    error = curve.error[pick] if curve.error is not None and width else None
    points = {"fmt": style, "color": colour, "markersize": size, "alpha": alpha, "elinewidth": 1, "zorder": 3}
    axes.errorbar(x[pick], curve.mean[pick], yerr=error, **points)


def _draw_line(axes: Panel, x: np.ndarray, curve: Curve, style: str, colour: str, width: float) -> None:
    """A line with its band; width 0 is for a curve among many: thin, pale, without band."""
    axes.plot(x, curve.mean, style, color=colour, linewidth=width or 0.6, alpha=1.0 if width else 0.6)
    if curve.error is not None and width:
        low, high = curve.mean - curve.error, curve.mean + curve.error
        axes.fill_between(x, low, high, color=colour, alpha=0.25, linewidth=0)


def _name_sources(figure: Drawing, sources: list[Source], inside: bool = False) -> None:
    """Say once which mark is which result: in the first panel without a legend of its own, else above all.

    ``inside`` a user's axes there is no place above: there the first panel's legend is made longer.
    """
    free = next((panel for panel in figure.panels if not panel.named), None)
    keys = []
    for source in sources:
        line, marker = ("", source.style) if source.simulated else (source.style, "")
        colour = source.colour if free is not None else "0.3"  # colours there mean entries
        keys.append(Key(source.label, colour, line, marker))
    if free is not None:
        free.legend(handles=keys, fontsize="small", frameon=False)
    elif inside:
        first = figure.panels[0]
        own = next(call for call in first.calls if call.name == "legend")
        first.calls.remove(own)
        first.legend(handles=[*keys, *own.options["handles"]], fontsize="small", frameon=False)
    else:
        figure.legend(keys)


def _scale_time(axes: Panel, x: np.ndarray) -> None:
    """A logarithmic axis for times that were asked on a logarithmic grid (t = 0 keeps its place)."""
    positive = x[x > 0]
    if len(positive) > 3 and positive[-1] > 20 * np.median(positive):
        if len(positive) == len(x):
            axes.set_xscale("log")
        else:
            axes.set_xscale("symlog", linthresh=float(positive[0]))
