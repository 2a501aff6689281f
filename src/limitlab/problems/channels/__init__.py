"""How a label y comes from the teacher's output z, one file each."""

from limitlab.problems.channels.base import AbstractChannel, Law, Output
from limitlab.problems.channels.binary import BinaryChannel
from limitlab.problems.channels.custom import CustomBinary, CustomChannel
from limitlab.problems.channels.door import Door
from limitlab.problems.channels.gaussian_noise import GaussianNoise
from limitlab.problems.channels.logistic import Logistic
from limitlab.problems.channels.modulus import Modulus
from limitlab.problems.channels.noisy import AbstractNoisyChannel
from limitlab.problems.channels.rectified import Rectified
from limitlab.problems.channels.sign import Sign
from limitlab.problems.channels.squared_modulus import SquaredModulus

__all__ = [
    "AbstractChannel",
    "AbstractNoisyChannel",
    "BinaryChannel",
    "CustomBinary",
    "CustomChannel",
    "Door",
    "GaussianNoise",
    "Law",
    "Logistic",
    "Modulus",
    "Output",
    "Rectified",
    "Sign",
    "SquaredModulus",
]
