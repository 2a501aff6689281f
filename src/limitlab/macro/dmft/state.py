"""Where a run of dynamical mean-field theory stands, in memory and on disk."""

import io
import json
import os
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from limitlab.errors import InputError, ResultFileError
from limitlab.files import whole
from limitlab.macro.dmft.paths import Block, Front, Sample
from limitlab.macro.dmft.rows import Kernels
from limitlab.macro.dmft.solve import Batch
from limitlab.modules import Module, field, tree_at
from limitlab.text import brief, html_table

__all__ = ["DMFTState"]


class DMFTState(Module):
    """All batches of a run, with what made them: `DMFT.resume` goes on from here to later times."""

    batches: tuple[Batch, ...]
    spec_hash: str = field(static=True)
    settings: str = field(static=True)

    @property
    def steps(self) -> int:
        """The last step whose kernels are known."""
        return self.batches[0].t - 1

    def _repr_html_(self) -> str:
        rows = [("steps", brief(self.steps)), ("batches", brief(len(self.batches))), ("problem", self.spec_hash)]
        return html_table("DMFTState", [*rows, ("settings", self.settings)])

    def check(self, spec_hash: str, settings: str) -> None:
        """Raise `InputError` unless the state is of this problem and of these settings."""
        for what, here, there in (("problem", self.spec_hash, spec_hash), ("settings", self.settings, settings)):
            if here != there:
                raise InputError(
                    f"DMFT.resume needs the state of the same {what}; the state has {here}, this run has {there}. "
                    "Use the limit and the problem that made the state, or start anew with DMFT.run."
                )

    def save(self, path: str | os.PathLike) -> Path:
        """Write all arrays to a .npz file (no pickle), whole or not at all."""
        leaves = jax.tree.leaves(self.batches)
        about = {
            "spec_hash": self.spec_hash,
            "settings": self.settings,
            "past": [len(batch.past) for batch in self.batches],
        }
        file = io.BytesIO()
        arrays: dict[str, Any] = {f"a{i}": np.asarray(x) for i, x in enumerate(leaves)}
        np.savez(file, about=np.array(json.dumps(about)), **arrays)
        with whole(path) as part:
            part.write_bytes(file.getvalue())
        return Path(path)

    @staticmethod
    def load(path: str | os.PathLike) -> "DMFTState":
        """Read what `save` wrote."""
        try:
            with np.load(path, allow_pickle=False) as file:
                about = json.loads(str(file["about"]))
                frame = tuple(_skeleton(count) for count in about["past"])
                leaves = [file[f"a{i}"] for i in range(len(jax.tree.leaves(frame)))]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ResultFileError(
                f"{path} is not a state of DMFT ({type(error).__name__}: {error}). Give a file written by "
                "DMFTState.save."
            ) from error
        batches = jax.tree.unflatten(jax.tree.structure(frame), [jnp.asarray(x) for x in leaves])
        batches = tuple(tree_at(lambda b: b.t, batch, int(batch.t)) for batch in batches)
        return DMFTState(batches, about["spec_hash"], about["settings"])


def _skeleton(count: int) -> Batch:
    """A batch with ``count`` finished blocks and no numbers: the frame that leaves are put into."""
    kinds: tuple[Any, ...] = (Sample, Block, Front, Kernels)
    sample, block, front, kernels = (kind(*(0,) * len(kind.__annotations__)) for kind in kinds)
    return Batch(sample, (block,) * count, block, front, kernels, 0)
