"""The nouns of a problem: what inputs, teachers, starts and learning rules must offer."""

from typing import ClassVar

import equinox as eqx

__all__ = ["AbstractAlgorithm", "AbstractInputs", "AbstractTeacher"]


class AbstractInputs(eqx.Module):
    """A law of inputs x in d dimensions with E|x|^2 about 1."""

    labelled: ClassVar[bool] = False


class AbstractTeacher(eqx.Module):
    """Something that turns an input into a clean output."""


class AbstractAlgorithm(eqx.Module):
    """How the learner uses its samples."""
