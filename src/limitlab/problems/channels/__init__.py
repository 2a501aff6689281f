"""How a label y comes from the teacher's output z, one file each."""

from typing import TYPE_CHECKING

from limitlab._lazy import namespace

if TYPE_CHECKING:  # a kind is loaded when it is first asked for
    from limitlab.problems.channels.base import AbstractChannel as AbstractChannel
    from limitlab.problems.channels.base import Law as Law
    from limitlab.problems.channels.base import Output as Output
    from limitlab.problems.channels.binary import BinaryChannel as BinaryChannel
    from limitlab.problems.channels.custom import CustomBinary as CustomBinary
    from limitlab.problems.channels.custom import CustomChannel as CustomChannel
    from limitlab.problems.channels.door import Door as Door
    from limitlab.problems.channels.gaussian_noise import GaussianNoise as GaussianNoise
    from limitlab.problems.channels.logistic import Logistic as Logistic
    from limitlab.problems.channels.modulus import Modulus as Modulus
    from limitlab.problems.channels.noisy import AbstractNoisyChannel as AbstractNoisyChannel
    from limitlab.problems.channels.rectified import Rectified as Rectified
    from limitlab.problems.channels.sign import Sign as Sign
    from limitlab.problems.channels.squared_modulus import SquaredModulus as SquaredModulus
else:
    __getattr__, __dir__, __all__ = namespace(__name__)
