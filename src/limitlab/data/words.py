"""The verdict on a learning curve in words: where more data helps, which penalty, how sure."""

from typing import Any

import numpy as np

from limitlab.data.curve import LearningCurve
from limitlab.errors import InputError

__all__ = ["verdict"]

HELPS = 0.03  # share of the error that another doubling must save


def verdict(curve: LearningCurve, best: Any = None, penalty: float | None = None) -> str:
    """A few sentences; ``best`` is an answer of `optimal_penalty` at the last n within the pool."""
    name = "generalisation_error" if "generalisation_error" in curve.prediction else "risk"
    values = curve.prediction[name]
    if values.dims != ("samples",):
        return str(curve)
    n, good = values["samples"].values, np.isfinite(values.values)
    what = values.attrs.get("long_name", name)
    lines = [f"{curve.prediction.attrs['method']}: {what}."]
    if good.sum() < 2:
        return "\n".join([*lines, "Too few n have a theory to say more: see status.", *curve.notes])
    n, e = n[good], values.values[good]
    lines.append(f"From {n[0]} to {n[-1]} samples it goes from {e[0]:.4g} to {e[-1]:.4g}.")
    if n[-1] >= 2 * n[0]:
        half = float(np.exp(np.interp(np.log(n[-1] / 2), np.log(n), np.log(np.maximum(e, 1e-300)))))
        saved = 1 - e[-1] / half
        word = "More data helps" if saved > HELPS else "More data hardly helps"
        lines.append(
            f"{word}: the last doubling, from {n[-1] / 2:.0f} to {n[-1]}, saves {100 * saved:.1f} % of the error."
        )
    top = int(np.argmax(e))
    if 0 < top < len(e) - 1 and e[top] > 1.2 * e[0]:
        lines.append(
            f"It rises to {e[top]:.4g} at {n[top]} samples first (double descent): a larger penalty removes that."
        )
    if best is not None:
        low, high = best.within
        lines.append(
            f"Best penalty there: {best.penalty:.3g} (within 0.1 % from {low:.3g} to {high:.3g}), error "
            f"{best.generalisation_error:.4g}" + (f"; yours is {penalty:g}." if penalty is not None else ".")
        )
    if curve.fits is not None:
        try:
            gap = curve.compare()
            fits, theory = curve.sides()
            off = np.median(np.abs((fits[name].mean("replica") / theory[name] - 1).values))
            word = "agree" if gap.agrees else "DISAGREE"
            lines.append(
                f"How sure: {curve.fits.sizes['replica']} real fits {word} with the theory (median gap "
                f"{100 * off:.1f} %; largest |z| {gap.max_z:.1f}, corrected for how many were looked at)."
            )
        except InputError as error:
            lines.append(f"How sure: not known. {error}")
    return "\n".join([*lines, *(f"Note: {note}." for note in curve.notes)])
