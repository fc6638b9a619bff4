"""The separate heads of BGE-M3: linear functions from hidden states to term weights and token
vectors.

The authors distribute them beside the network, as `sparse_linear.pt` and `colbert_linear.pt`;
exports of the network alone lack them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kb.errors import ModelBroken
from kb.models.manifest import HINT, Manifest

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float32]

HEAD_FILES = {"sparse": "sparse_linear.pt", "tokens": "colbert_linear.pt"}
HEAD_SOURCE = "https://huggingface.co/BAAI/bge-m3"  # shown to users, never contacted


@dataclass(frozen=True, slots=True)
class LinearHead:
    """`weight` has a row per output. Term weights are never negative."""

    weight: Array
    bias: Array
    positive: bool

    def __call__(self, hidden: Array) -> Array:
        """Apply the head to the hidden states of a text, a row per token."""
        import numpy as np

        if hidden.ndim != 2 or hidden.shape[1] != self.weight.shape[1]:
            raise ModelBroken(
                f"a head for {self.weight.shape[1]} values cannot read hidden states of the shape "
                f"{hidden.shape}",
                HINT,
            )
        values: Array = hidden.astype(np.float32, copy=False) @ self.weight.T + self.bias
        return np.maximum(values, 0.0) if self.positive else values


def read_head(manifest: Manifest, part: str) -> LinearHead:
    """Read the head of a part. Raises `ModelBroken` if its file contains anything but a linear
    function."""
    import numpy as np

    from kb.models import torch_file  # loads `pickle` and `zipfile`, which few models need

    path = manifest.path(manifest.heads[part])
    try:
        state = torch_file.read(path)
    except (OSError, ValueError) as error:
        raise ModelBroken(f"{path} cannot be read: {error}", _hint(part)) from error
    weight: Any = state.get("weight")
    width = 1 if part == "sparse" else manifest.spec.token_dimension
    if weight is None or weight.ndim != 2 or len(weight) != width:
        shape = None if weight is None else weight.shape
        raise ModelBroken(f"{path} is not a head for {part}: its weight is {shape}", _hint(part))
    bias = state.get("bias", np.zeros(len(weight), np.float32))
    if bias.shape != (len(weight),) or not (np.isfinite(weight).all() and np.isfinite(bias).all()):
        raise ModelBroken(f"{path} is not a head for {part}: its bias is {bias.shape}", _hint(part))
    return LinearHead(weight, bias, positive=part == "sparse")


def _hint(part: str) -> str:
    return f"use {HEAD_FILES[part]} from {HEAD_SOURCE}"
