"""A channel of your own: copy, rename, change the law of y given z.

`sample` is enough for simulations. The rest is the calculus of Z(y, w, V) = E P(y | z), z ~ N(w, V), that message
passing and theories use. ``ll.CustomChannel`` makes all of it from a density, by quadrature.
"""

from typing import ClassVar

import jax
import jax.numpy as jnp
from jax.scipy.special import ndtr

import limitlab as ll
from limitlab import extending as ex
from limitlab import testing


class Rounded(ll.AbstractChannel):
    """y = z + noise that is uniform on [-half, half]."""

    labels: ClassVar[str] = "real"  # or "binary": y = -1, +1

    half: float = 0.5

    def sample(self, key, z):
        return z + self.half * jax.random.uniform(key, z.shape, z.dtype, -1.0, 1.0)

    def output(self, y, w, V):  # log Z, its first and second derivative in w
        s = jnp.sqrt(V)
        up, down = (y + self.half - w) / s, (y - self.half - w) / s
        mass = ndtr(up) - ndtr(down)
        phi_up, phi_down = (jnp.exp(-(t**2) / 2) / jnp.sqrt(2 * jnp.pi) for t in (up, down))
        g = (phi_down - phi_up) / (s * mass)
        return ex.Output(jnp.log(mass / (2 * self.half)), g, (down * phi_down - up * phi_up) / (V * mass) - g**2)

    def mean_label(self, w, V):  # E y
        return w

    def label_mse(self, m, V):  # E (y - E y)^2
        return V + self.half**2 / 3

    def law(self, q, slope, V0, V):  # nodes for theories of fits; a refusal in words is allowed
        raise ll.errors.InputError("Rounded has no nodes for theories. Use CustomChannel.")


def check():
    testing.check_channel(Rounded())
