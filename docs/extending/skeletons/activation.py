"""An activation of your own: copy, rename, change `function` and `derivative`. Any jax function would do as well."""

import jax
import jax.numpy as jnp
import numpy as np

import limitlab as ll


class Softplus(ll.Activation):
    """log(1 + e^x). Gaussian moments are taken by quadrature, since it has no `terms`."""

    @property
    def name(self):
        return "softplus"

    def function(self, x):
        return jax.nn.softplus(x)

    def derivative(self, x):
        return jax.nn.sigmoid(x)


def check():
    """Its derivative is the derivative, and a committee takes it."""
    x = jnp.linspace(-4.0, 4.0, 33)
    np.testing.assert_allclose(jax.vmap(jax.grad(Softplus().function))(x), Softplus().derivative(x), rtol=1e-12)
    assert isinstance(ll.Committee(width=2, activation=Softplus()).activation, Softplus)
