"""The reproduction report: every claim of the five source documents, put to a check that runs, on one page."""

from limitlab.report.claims import Claim, Seed, read_claims
from limitlab.report.run import Report, report

__all__ = ["Claim", "Report", "Seed", "read_claims", "report"]
