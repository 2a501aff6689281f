"""What can go wrong, in words. Every message says what was needed, what came, and what to do.

Each class has a page in the documentation, named at the end of a traceback and of a complaint of the command line
(``docs: errors/InputError``). ``help(limitlab.errors.InputError)`` prints the same. All errors that limitlab raises on
purpose are a `LimitlabError`, and also what Python would have raised (``ValueError``, ``OSError``, ``RuntimeError``),
so that code which knows nothing of limitlab can catch them.
"""

from typing import Any

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
    """Base of every error that limitlab raises on purpose.

    Catch it to go on after any of them. What is not one of these (a ``TypeError`` deep in a traceback, say) is a
    mistake of limitlab or of a function of yours. The page of an error is a note on it (``__notes__``), below the
    message in a traceback; ``str(error)`` is the message alone.

    Examples
    --------
    >>> import limitlab as ll
    >>> try:
    ...     ll.OnlineSGD(learning_rate=-1.0)
    ... except ll.errors.LimitlabError as error:
    ...     print(type(error).__name__, error.__notes__)
    InputError ['docs: errors/InputError']
    """

    def __init__(self, *words: Any):
        super().__init__(*words)
        page = next(kind.__name__ for kind in type(self).__mro__ if kind.__module__ == __name__)
        self.add_note(f"docs: errors/{page}")


class InputError(LimitlabError, ValueError):
    """A value outside its range: the message names the field, the value and the remedy.

    Parts check their fields when they are made, verbs their arguments before they compute. Nothing is clipped or
    guessed. Read the message from its end: the last sentence is what to do.

    Examples
    --------
    >>> import limitlab as ll
    >>> try:
    ...     ll.OnlineSGD(learning_rate=-1.0)
    ... except ll.errors.InputError as error:
    ...     print(error)
    OnlineSGD.learning_rate must be a finite number in (0, inf); got -1.0. Use a positive learning rate.
    """


class ArgumentError(InputError, TypeError):
    """An argument that a part does not have; the message names the one that was meant.

    limitlab has one name for each thing. Names that others use (``lr``, ``eta``, ``alpha``, ``hidden``) are known, and
    answered with ours.

    Examples
    --------
    >>> import limitlab as ll
    >>> try:
    ...     ll.OnlineSGD(lr=0.5)
    ... except ll.errors.ArgumentError as error:
    ...     print("learning_rate" in str(error))
    True
    """


class SpecError(InputError):
    """A problem file or table that does not describe a problem.

    The message has the path of the field in the file, the value that stands there and the nearest known name. Nothing
    in a file is evaluated, and what it may cost is bounded. Write a file to start from by
    ``limitlab spec escaping-mediocrity``.

    Examples
    --------
    >>> from limitlab.spec import loads
    >>> import limitlab as ll
    >>> try:
    ...     loads('[algorithm]\\nkind = "OnlineSDG"\\nlearning_rate = 0.5')
    ... except ll.errors.SpecError as error:
    ...     print("OnlineSGD" in str(error))
    True
    """


class LimitUndefinedError(LimitlabError, ValueError):
    """A limit was asked of a problem for which it is not defined; the message names one to try instead.

    Every limit says what it needs (the table *Choose a limit* lists it), and ``limitlab.limits(problem)`` asks all of
    them at once. A limit is never bent to fit: a problem outside of it has no number, not an approximate one.

    Examples
    --------
    >>> import limitlab as ll
    >>> problem = ll.library.perceptron(sample_ratio=2.0)
    >>> try:
    ...     ll.predict(problem, ll.OverlapODE(), times=[0.0, 1.0])
    ... except ll.errors.LimitUndefinedError as error:
    ...     print(str(error).split(" needs")[0])
    OverlapODE
    """


class ResultFileError(LimitlabError, OSError):
    """A result file that cannot be read as a limitlab Dataset (truncated, foreign, or of another schema).

    The file is not changed. One that is damaged has to be made again; one of another program is not for ``load``. Also
    raised where figure and data cannot be written, before anything is computed if that can be known.

    Examples
    --------
    >>> import limitlab as ll
    >>> try:
    ...     ll.load("no-such-file.nc")
    ... except ll.errors.ResultFileError as error:
    ...     print("no-such-file.nc" in str(error))
    True
    """


class ConvergenceError(LimitlabError, RuntimeError):
    """An iteration stopped before it converged. The last value reached is in ``estimate``.

    It is raised by a single call whose only answer is the fixed point. In a sweep the point gets the status
    ``not_converged``, and the sweep goes on. Try more iterations, a start nearer to the solution, or look whether a
    fixed point exists there: next to a transition iterations slow down without end.

    Examples
    --------
    >>> from limitlab.errors import ConvergenceError
    >>> ConvergenceError("The overlap did not converge in 50 iterations.", estimate=0.31).estimate
    0.31
    """

    def __init__(self, message: str, estimate: object = None):
        super().__init__(message)
        self.estimate = estimate


class EngineError(LimitlabError, RuntimeError):
    """The processes that compute a sweep cannot be reached, or are gone. What they stored is kept.

    Call the same sweep again with the same store: only missing points are computed. If workers die as soon as they
    start, the message shows their last lines. See *Sweeps* and *Security* for schedulers, keys and versions.
    """


class AccuracyWarning(UserWarning):
    """A result whose estimated error is larger than one would expect of it.

    The result is there, and says in its attributes how far it can be off (``quadrature_error``, ``node_error``,
    ``residual``). More nodes, particles, trajectories or a smaller step usually help; the warning says which.
    """


class DamagedFileWarning(UserWarning):
    """A file of a store is not what its name says; its point has to be computed again.

    The file went to ``quarantine`` in the store, with the reason. ``limitlab store verify`` reads all others against
    their checksums.
    """


class RepresentationWarning(UserWarning):
    """The student can never represent some terms of the target, whatever it learns.

    An odd activation has no even terms, relu without a shift no odd term of degree 3 or more, a polynomial nothing
    above its degree. The risk then has a floor that no time removes. Shift the activation (``ll.shifted``) or take
    another.
    """
