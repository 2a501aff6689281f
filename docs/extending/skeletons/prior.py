"""A prior of your own: copy, rename, change the law of one weight."""

import jax
import jax.numpy as jnp
import numpy as np

import limitlab as ll
from limitlab import extending as ex
from limitlab import testing

SIDE = np.sqrt(3.0)


class UniformPrior(ll.AbstractPrior):
    """w uniform on [-sqrt(3), sqrt(3)]; the posterior mean is a sum over Gauss-Legendre nodes."""

    @property
    def second_moment(self):  # E w^2
        return 1.0

    @property
    def reach(self):  # beyond this no weight lies
        return 1.75

    def sample(self, key, shape):
        return jax.random.uniform(key, shape, minval=-SIDE, maxval=SIDE)

    def denoise(self, A, B):  # log of E exp(B w - A w^2/2), and mean and variance under that tilted law
        x, weight = np.polynomial.legendre.leggauss(60)
        w = jnp.asarray(SIDE * x)
        energy = B[..., None] * w - A[..., None] * w**2 / 2 + jnp.log(jnp.asarray(weight / 2))
        log_z = jax.scipy.special.logsumexp(energy, axis=-1)
        p = jnp.exp(energy - log_z[..., None])
        mean = jnp.sum(p * w, axis=-1)
        return ex.Posterior(log_z, mean, jnp.sum(p * w**2, axis=-1) - mean**2)


def check():
    testing.check_prior(UniformPrior())
