"""What the outcomes say about each claim: its verdict stands, its check fails, or nothing ran that could tell."""

from collections.abc import Mapping
from dataclasses import dataclass

from limitlab.gallery.entry import AT_FULL_SIZE, Check
from limitlab.report.claims import VERDICTS, Asked, Claim
from limitlab.report.points import Outcome

__all__ = ["FAILS", "NOT_RUN", "PARTLY", "STATES", "UNTESTABLE", "Row", "judged"]

FAILS, PARTLY, NOT_RUN, UNTESTABLE = "CHECK FAILS", "stands as far as run", AT_FULL_SIZE, "not testable"
STATES = (*VERDICTS, PARTLY, NOT_RUN, UNTESTABLE, FAILS)


@dataclass(frozen=True)
class Row:
    """A claim, what became of it (one of `STATES`), its checks as they ran, and what was left out or is missing."""

    claim: Claim
    state: str
    checks: tuple[tuple[Asked, Check], ...] = ()
    left_out: tuple[tuple[Asked, str], ...] = ()
    missing: tuple[str, ...] = ()


def judged(claim: Claim, outcomes: Mapping[str, Outcome]) -> Row:
    """The row of a claim. A check that is not there is as bad as one that fails."""
    if claim.untestable:
        return Row(claim, UNTESTABLE)
    checks: list[tuple[Asked, Check]] = []
    left_out: list[tuple[Asked, str]] = []
    missing: list[str] = []
    for asked in claim.checks:
        outcome = outcomes.get(asked.name)
        if outcome is None or outcome.reason:
            missing.append(f"{asked.name} did not run: {'it was not asked for' if outcome is None else outcome.reason}")
            continue
        ran = [(asked, check) for check in outcome.checks if asked.words in check.statement]
        not_ran = [(asked, statement) for statement in outcome.left_out if asked.words in statement]
        checks += ran
        left_out += not_ran
        if not ran and not not_ran:
            missing.append(f"{asked.name} has no check that says {asked.words!r}")
    failed = bool(missing) or any(not check.ok for _, check in checks)
    stands = PARTLY if left_out else claim.verdict
    state = FAILS if failed else stands if checks else NOT_RUN
    return Row(claim, state, tuple(checks), tuple(left_out), tuple(missing))
