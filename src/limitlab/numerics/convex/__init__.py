r"""Exact solvers of :math:`\min_w \sum_\mu \ell(y_\mu, w\cdot x_\mu) + \tfrac\lambda2 |w|^2` for one data set."""
