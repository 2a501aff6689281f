"""What can go wrong, in words. Every message says what was needed, what came, and what to do."""

__all__ = [
    "AccuracyWarning",
    "ArgumentError",
    "ConvergenceError",
    "DamagedFileWarning",
    "EngineError",
    "InputError",
    "LimitUndefinedError",
    "LimitlabError",
    "RepresentationWarning",
    "ResultFileError",
    "SpecError",
]


class LimitlabError(Exception):
    """Base of every error that limitlab raises on purpose."""


class InputError(LimitlabError, ValueError):
    """A value outside its range: the message names the field, the value and the remedy."""


class ArgumentError(InputError, TypeError):
    """An argument that a part does not have; the message names the one that was meant."""


class SpecError(InputError):
    """A problem file or table that does not describe a problem."""


class LimitUndefinedError(LimitlabError, ValueError):
    """A limit was asked of a problem for which it is not defined; the message names one to try instead."""


class ResultFileError(LimitlabError, OSError):
    """A result file that cannot be read as a limitlab Dataset (truncated, foreign, or of another schema)."""


class ConvergenceError(LimitlabError, RuntimeError):
    """An iteration stopped before it converged. The last value reached is in ``estimate``."""

    def __init__(self, message: str, estimate: object = None):
        super().__init__(message)
        self.estimate = estimate


class EngineError(LimitlabError, RuntimeError):
    """The processes that compute a sweep cannot be reached, or are gone. What they stored is kept."""


class AccuracyWarning(UserWarning):
    """A result whose estimated error is larger than one would expect of it."""


class DamagedFileWarning(UserWarning):
    """A file of a store is not what its name says; its point has to be computed again."""


class RepresentationWarning(UserWarning):
    """The student can never represent some terms of the target, whatever it learns."""
