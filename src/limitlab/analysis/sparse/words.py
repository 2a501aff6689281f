"""The answer of `limitlab.staircase` in sentences."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from limitlab.analysis.sparse.staircase import Staircase

__all__ = ["summary"]

SHOWN = 6  # terms named in a sentence


def summary(s: "Staircase") -> str:
    text = s.target.text if len(s.target.text) <= 60 else s.target.text[:57] + "..."
    if s.leap == 0:
        return f"{text} is constant: there is nothing to find, and any method needs a handful of samples."
    lines = []
    if s.merged_staircase:
        lines.append(
            f"{text} is a merged staircase: its terms can be climbed so that each brings at most one new variable."
        )
        lines.append(f"Order: {_some(s.order)}. Leap 1.")
    else:
        at = next(i for i, new in enumerate(s.new_variables) if new > 1)
        lines.append(f"{text} is not a merged staircase: its leap is {s.leap}.")
        before = f"After {_some(s.order[:at])}" if at else "Already at the start"
        lines.append(
            f"{before}, every term that is left brings at least {s.new_variables[at]} new variables at once "
            f"(such as {s.order[at]}), and single steps never reach {_some(s.stuck)}."
        )
    lines += _symmetry_words(s)
    if s.floor > 0:
        lines.append(
            "In the dimension-free limit (large d, O(d) samples, small steps) the risk never falls below "
            f"{s.floor:.6g}; noise comes on top."
        )
    elif s.degenerate:
        lines.append("These ties alone do not forbid learning (floor 0), but the dynamics may still fail: try it.")
    hope = "" if s.merged_staircase else " (a conjecture)"
    lines.append(
        f"Samples: SGD {s.sgd_samples}{hope}; a linear method (kernel, random features) at least {s.linear_samples}."
    )
    return "\n".join(lines)


def _symmetry_words(s: "Staircase") -> list[str]:
    group, number = s.symmetries, s.target.variables
    if group.order == 1:
        return [] if group.complete else ["The search for symmetries was cut: the floor may be higher than computed."]
    ties = [
        " = ".join(("-" if i < 0 else "") + f"u{number[abs(i) - 1]}" for i in o) for o in group.orbits if len(o) > 1
    ]
    if group.frozen:
        ties.append(" = ".join(f"u{number[i - 1]}" for i in group.frozen) + " = 0")
    words = f"{group.order if group.complete else f'At least {group.order}'} symmetries (signed swaps of variables)"
    return [f"{words} leave it as it is and keep the weights at {', '.join(ties)}."]


def _some(names: list[str]) -> str:
    return ", ".join(names[:SHOWN]) + (f", ... ({len(names)} in all)" if len(names) > SHOWN else "")
