r"""The nouns of a problem, and what each must offer.

A part of a user's own is a frozen class in one file that has the abstract methods below; nothing else needs to know its
name. `limitlab.testing` has a checker for each.
"""

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from limitlab.errors import InputError
from limitlab.modules import Module, field
from limitlab.numerics.machine import Memory
from limitlab.numerics.random import normal
from limitlab.numerics.trees import is_zero
from limitlab.problems.asked import Asked, check_promise, has_own
from limitlab.problems.part import Part

if TYPE_CHECKING:
    from limitlab.problems.inputs.modes import Modes
    from limitlab.problems.problem import Problem

__all__ = [
    "CHUNK",
    "AbstractAlgorithm",
    "AbstractInputs",
    "AbstractStudent",
    "AbstractTeacher",
    "Pace",
    "Points",
    "Response",
]


CHUNK = 512  # test points in one product; they come in whole chunks


class Points(Module):
    """Test points x (m, d); labels y (m,) if the inputs bring them. ``mirrored``: each stands for itself and for -x."""

    x: jax.Array
    y: jax.Array | None = None
    mirrored: bool = field(static=True, default=False)


class AbstractInputs(Part):
    """A law of inputs x in d dimensions with E|x|^2 about 1.

    Attributes
    ----------
    labelled
        Samples come with their label y: a problem with these has no teacher.
    signs
        Entries are +-1/sqrt(d).
    normal
        Fields w.x are exactly normal with covariance w.w'/d: overlaps are all that matters. A class that always is
        says ``normal = True``.
    """

    labelled: ClassVar[bool] = False
    signs: ClassVar[bool] = False

    @property
    def normal(self) -> bool:
        return False

    @property
    def modes(self) -> "Modes | None":
        """The covariance C of inputs that are exactly normal with another one than the identity; else None."""
        return None

    @property
    def normal_fields(self) -> bool:
        """Whether fields w.x are exactly normal, with whatever covariance."""
        return self.normal or self.modes is not None

    def visible(self, rows: jax.Array) -> jax.Array:
        """Weights (..., d) as fields see them: sqrt(C) w. Their overlaps are the covariance of the fields."""
        modes = self.modes
        return rows if modes is None else rows * jnp.asarray(modes.deviations(rows.shape[-1]))

    def unseen(self, key: jax.Array, z: jax.Array) -> jax.Array:
        """The teacher's fields z with what the inputs do not show of them."""
        modes = self.modes
        if modes is None or is_zero(modes.unexplained):
            return z
        return z + jnp.sqrt(jnp.asarray(modes.unexplained, z.dtype)) * normal(key, z.shape, z.dtype)

    @abstractmethod
    def draw(self, key: jax.Array, count: int, d: int, dtype: Any = float) -> Any:
        """``count`` samples x (count, d); of labelled inputs the pair (x, y)."""

    def test_points(self, key: jax.Array, count: int, d: int) -> Points:
        """About ``count`` new samples, on which a risk is measured: whole chunks; a mirror image counts as one."""
        drawn = self.draw(key, -(-count // CHUNK) * CHUNK, d)
        return Points(*drawn) if self.labelled else Points(drawn)

    def test_words(self, count: int) -> str:
        """In words, what `test_points` are."""
        return f"{count} new samples"

    def check(self, d: int) -> None:
        """Raise `InputError` if nothing can be drawn at dimension d."""

    def blocks(self, d: int) -> int | None:
        """How many of the first coordinates tell something, if they differ from the others; else None."""
        return None


class AbstractTeacher(Part):
    """Something that turns an input into a clean output z.

    Attributes
    ----------
    by_start
        The directions are drawn together with the student's, from the overlaps of the start: it has `units` and
        `with_directions`.
    by_fields
        The output depends on x through the fields of its directions only: it has `link` and `directions`.
    """

    by_start: ClassVar[bool] = False
    by_fields: ClassVar[bool] = False

    def __check_init__(self):
        check_promise(self, AbstractTeacher, "by_start", "units", "with_directions")
        check_promise(self, AbstractTeacher, "by_fields", "link", "directions")

    @property
    def units(self) -> int:
        """The number k of its directions, if it is known without drawing them; else 0."""
        return 0

    @property
    def moment(self) -> Any:
        """The squared norm |w*|^2/d of the directions that it draws itself."""
        return 1.0

    @property
    def parity(self) -> int:
        """1 if the output stays when all directions are turned around, -1 if it changes its sign, else 0."""
        return 0

    @property
    def latent(self) -> int:
        """On how many of the first coordinates, taken as signs, the output depends; 0 if it is not of this kind."""
        return 0

    @property
    def monomials(self) -> tuple[str, ...]:
        """The monomials that the output is made of, such as z1*z2; none if it is no polynomial of signs."""
        return ()

    def check_beside(self, problem: "Problem") -> None:
        """`InputError` if it cannot teach beside the problem's other parts; a `Problem` asks."""

    @abstractmethod
    def draw(self, key: jax.Array, d: int) -> Any:
        """The weights of one teacher: any tree of arrays."""

    def draw_on(self, inputs: AbstractInputs, key: jax.Array, d: int) -> Any:
        """`draw`, for inputs whose spectrum may say which components the teacher has."""
        return self.draw(key, d)

    def off_spectrum(self, modes: "Modes") -> tuple[str, object, str] | None:
        """(needed, came, remedy) if the teacher cannot be what a spectrum says of it, else None."""
        for name, given in (("teacher", modes.t2 is not None), ("unexplained", not is_zero(modes.unexplained))):
            if given:
                return (
                    f"a single direction, SingleIndex(GaussianPrior(1)), beside a spectrum with `{name}`",
                    self,
                    f"Leave `{name}` out of the spectrum, or use that teacher.",
                )
        return None

    @abstractmethod
    def output(self, weights: Any, x: jax.Array) -> jax.Array:
        """z (n,) at the inputs x (n, d)."""

    def live(self) -> "AbstractTeacher":
        """The same teacher as numbers, so that one compiled program serves all of its kind."""
        return self

    def directions(self, weights: Any) -> jax.Array | None:
        """The directions (k, d) with which overlaps are taken; None if it has none."""
        return None

    def with_directions(self, rows: jax.Array) -> Any:
        """The weights of a teacher with these directions (k, d), if ``by_start``."""
        raise TypeError(f"{type(self).__name__} draws its own directions.")

    def link(self, fields: jax.Array) -> jax.Array:
        """z (n,) from the fields (n, k) of its directions, if ``by_fields``."""
        raise TypeError(f"{type(self).__name__} does not act on fields alone.")

    def misfit(self, inputs: AbstractInputs) -> tuple[str, object, str] | None:
        """(needed, came, remedy) if the output makes no sense on these inputs, else None."""
        return None


class Pace(NamedTuple):
    """How a parameter moves: by learning_rate * ``rate`` times its gradient, with thermal noise times ``spread``."""

    rate: Any
    spread: Any


class Response(NamedTuple):
    """Outputs f (n,), the size of the largest field, and ``back(pull)``: the gradient of sum_mu pull_mu f(x_mu)."""

    f: jax.Array
    size: jax.Array
    back: Any


class AbstractStudent(Part):
    """A network that learns: parameters in any tree of arrays, and the output f(x) that they give.

    Attributes
    ----------
    frozen
        Only a linear read-out of features is fitted, the rest is drawn once: see `RandomFeatures`.
    """

    frozen: ClassVar[bool] = False

    @property
    def units(self) -> int:
        """The number p by which the clock of a rule is divided; the output is a mean over so many units."""
        return 1

    @property
    def linear(self) -> bool:
        """True if the output is w.x, one direction and nothing else."""
        return False

    @property
    def squares(self) -> bool:
        """True if the output is a mean of squared fields: it stands where a single unit has its output squared."""
        return False

    @abstractmethod
    def begin(self, key: jax.Array, frame: jax.Array, start: Any, teacher: "AbstractTeacher | None", d: int) -> Any:
        """Parameters at time 0, and the weights of the teacher: (parameters, weights).

        ``key`` is for all that a start draws, ``frame`` for the orientation of what only its overlaps are known of.
        """

    @abstractmethod
    def output(self, parameters: Any, x: jax.Array) -> jax.Array:
        """f (n,) at the inputs x (n, d)."""

    def respond(self, parameters: Any, x: jax.Array) -> Response:
        """The outputs and how to pull on them; by automatic differentiation unless a class knows better."""
        f, back = jax.vjp(lambda p: self.output(p, x), parameters)
        return Response(f, jnp.max(jnp.abs(f)), lambda pull: back(pull)[0])

    def pace(self, parameters: Any, d: Any, second_layer_rate: Any) -> Any:
        """A `Pace` in the place of every parameter, or None for one that stands still."""
        return jax.tree.map(lambda _: Pace(1.0, jnp.sqrt(d)), parameters)

    def on_sphere(self, parameters: Any) -> Any:
        """Every unit put on the sphere of radius sqrt(d), for rules with ``spherical=True``."""
        raise TypeError(f"{type(self).__name__} does not know a sphere.")

    def off_sphere(self) -> tuple[str, object, str] | None:
        """(needed, came, remedy) if its units cannot be put on a sphere, else None."""
        if has_own(self, AbstractStudent, "on_sphere"):
            return None
        name = type(self).__name__
        return (
            "a student that can be put on the sphere (spherical=True)",
            f"{name}, which has no method `on_sphere`",
            f"Use spherical=False, or give {name} that method.",
        )

    def unsigned(self, start: Any) -> tuple[str, ...]:
        """The variables that change their sign when a unit is turned around, if the output and the start's law stay."""
        return ()

    def unmoved(self) -> tuple[str, object, str] | None:
        """(needed, came, remedy) if no gradient can move it, else None."""
        return None

    def directions(self, parameters: Any) -> jax.Array | None:
        """The weights (p, d) with which overlaps are taken; None if there are none."""
        return None


class AbstractAlgorithm(Part):
    """How the learner uses its samples.

    Attributes
    ----------
    axis
        Along what a run is reported: "time", "iteration", or "" for a rule that ends in one estimate.
    takes
        Which samples a step uses, in a few words.
    clock_words
        The clock in words, such as "t = γ·step/(p·d)".
    in_portions
        Whether `run` heeds the number of the first run, so that it can be asked for a part of them.
    reference
        Keys of ``references.bib``.
    """

    axis: ClassVar[str] = "time"
    takes: ClassVar[str] = ""
    clock_words: ClassVar[str] = ""
    in_portions: ClassVar[bool] = False
    reference: ClassVar[tuple[str, ...]] = ()

    def clock(self, problem: "Problem", d: float) -> Any:
        """Macroscopic time per step."""
        return 1.0

    def clock_in_words(self, problem: "Problem") -> str:
        """The clock as it is on this problem; ``clock_words`` unless a class knows better."""
        return self.clock_words

    def references(self) -> tuple[str, ...]:
        """Keys of ``references.bib`` for the rule as it is set; ``reference`` unless a class knows better."""
        return self.reference

    def usual_limit(self, problem: "Problem") -> str | None:
        """The name of the limit that describes this rule on this problem; None if none is known."""
        return None

    def check_beside(self, problem: "Problem") -> None:
        """`InputError` if numbers of the rule do not go with the problem's other parts; a `Problem` asks."""

    def setting(self, problem: "Problem", asked: Asked) -> Any:
        """The problem as this rule sees it: every part there, with its type; or a refusal in words."""
        asked.refuse("a rule that can be simulated", self, "Give it a method `setting`.")

    def memory(self, setting: Any, asked: Any) -> Memory | None:
        """The bytes that `run` holds at its peak, from its arguments alone; None if they are few or not known.

        `simulate` asks before it runs, and refuses what this machine cannot hold.
        """
        return None

    def run(self, setting: Any, asked: Any) -> Any:
        """Run the rule as asked (`limitlab.states.request.Request`) and say what was seen (`Seen`)."""
        raise InputError(f"{type(self).__name__} does not know how to run. Give it a method `run`.")
