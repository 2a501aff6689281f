"""Sums over k = 1, 2, ... of functions of k^-a: an exact head, then Gauss-Legendre nodes in log k."""

from typing import NamedTuple

import numpy as np

from limitlab.numerics.gauss.rules import legendre

__all__ = ["PowerModes", "power_modes"]

HEAD = 300  # modes that are taken one by one
FAR = 1e12  # up to which nodes go; what is beyond is known by its sums
NODES = 8  # on each third of a decade


class PowerModes(NamedTuple):
    """Eigenvalues s, signal v^2 of one mode, how many modes each stands for, and the sums of s and v^2 beyond them."""

    s: np.ndarray
    signal: np.ndarray
    counts: np.ndarray
    beyond: float
    signal_beyond: float


def power_modes(decay: float, target_decay: float, modes: int | None = None) -> PowerModes:
    """s_k = k^-decay, v_k^2 = k^-target_decay for k up to ``modes``, or for ever (both powers above 1)."""
    top = FAR if modes is None else float(modes)
    head = np.arange(1.0, min(HEAD, top) + 1)
    k, counts = head, np.ones(len(head))
    if top > HEAD:
        low, high = np.log(HEAD + 0.5), np.log(top + (0.5 if modes is not None else 0.0))
        panels = max(1, int(np.ceil((high - low) / (np.log(10) / 3))))
        edges = np.linspace(low, high, panels + 1)
        x, w = legendre(NODES)
        log = (edges[:-1, None] + (edges[1:] - edges[:-1])[:, None] * (x + 1) / 2).ravel()
        step = ((edges[1:] - edges[:-1])[:, None] * w / 2).ravel()
        k, counts = np.concatenate([k, np.exp(log)]), np.concatenate([counts, np.exp(log) * step])
    beyond = [0.0 if modes is not None else FAR ** (1 - power) / (power - 1) for power in (decay, target_decay)]
    return PowerModes(k**-decay, k**-target_decay, counts, *beyond)
