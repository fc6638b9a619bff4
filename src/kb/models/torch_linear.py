"""Linear functions of an int8 graph in torch, for padded batches.

`Int8Linear` has the arithmetic of the graph: the input of each text is rounded to 8 bits, with a
scale for the whole text, and products are added as integers. So its results equal those of the CPU
up to float32 rounding. `HalfLinear` multiplies in half precision without such rounding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from numpy.typing import NDArray

_BLOCK = 8  # int8 kernels require widths that are multiples of this
_MIN_ROWS = 32  # and more than 16 rows
_LEVELS = 255
_MIDDLE = 128


class LinearWeights(NamedTuple):
    """A linear function of the graph: `weight` is int8, [inputs, outputs], and `scale` has a factor
    for each output. The input is multiplied by `smaller` before rounding."""

    weight: NDArray[Any]
    scale: NDArray[Any]
    bias: NDArray[Any] | None
    smaller: NDArray[Any] | None


class HalfLinear:
    """A linear function in half precision."""

    def __init__(self, weights: LinearWeights, device: str, dtype: Any) -> None:
        import torch

        weight = weights.weight.astype("f4") * weights.scale
        if weights.smaller is not None:
            weight = weight * weights.smaller[:, None]
        self._weight = torch.tensor(weight.T.copy(), device=device).to(dtype)
        self._bias = None
        if weights.bias is not None:
            self._bias = torch.tensor(weights.bias, device=device).to(dtype)

    def __call__(self, x: Any, mask: Any) -> Any:  # noqa: ARG002  # as `Int8Linear`
        from torch.nn import functional as nn

        return nn.linear(x, self._weight, self._bias)


class Int8Linear:
    """A linear function with the arithmetic of the int8 graph."""

    def __init__(self, weights: LinearWeights, device: str, *, integers: bool) -> None:
        import numpy as np
        import torch

        inputs, self._outputs = weights.weight.shape
        self._padding = -inputs % _BLOCK
        padded = np.pad(weights.weight, ((0, self._padding), (0, -self._outputs % _BLOCK)))
        # Kernels for int8 expect the second matrix by columns.
        self._weight = torch.tensor(padded.T.copy(), device=device).t()
        if not integers:
            self._weight = self._weight.float()
        self._integers = integers
        sums = weights.weight.astype(np.int32).sum(0)
        self._sums = torch.tensor(sums, device=device)
        self._scale = torch.tensor(weights.scale.astype("f4"), device=device)
        self._bias = None if weights.bias is None else torch.tensor(weights.bias, device=device)
        self._smaller = (
            None if weights.smaller is None else torch.tensor(weights.smaller, device=device)
        )

    def __call__(self, x: Any, mask: Any) -> Any:
        """Apply the function to [texts, tokens, inputs]; `mask` is 0 where a text is padded."""
        import torch
        from torch.nn import functional as nn

        x = x * (mask if self._smaller is None else mask * self._smaller)
        # The range of an int8 scale contains 0, so that padding, which is 0, does not change it.
        low, high = x.amin((1, 2), keepdim=True), x.amax((1, 2), keepdim=True)
        low, high = low.clamp(max=0), high.clamp(min=0)
        scale = (high - low) / _LEVELS
        scale = torch.where(scale == 0, torch.ones_like(scale), scale)
        zero = (-low / scale).round().clamp(0, _LEVELS)
        rounded = (x / scale).round_().add_(zero).clamp_(0, _LEVELS).sub_(_MIDDLE)
        rows = rounded.view(-1, x.shape[-1])
        rows = nn.pad(rows, (0, self._padding, 0, max(0, _MIN_ROWS - len(rows))))
        products = self._multiply(rows)[: x.shape[0] * x.shape[1], : self._outputs]
        products = products.reshape(*x.shape[:2], -1)
        shift = (_MIDDLE - zero).to(torch.int32) * self._sums
        result = (products + shift).float() * (scale * self._scale)
        return result if self._bias is None else result + self._bias

    def _multiply(self, rows: Any) -> Any:
        import torch

        if self._integers:
            return torch._int_mm(rows.to(torch.int8), self._weight)
        return (rows @ self._weight).round().to(torch.int32)


def has_integer_kernels(device: str) -> bool:
    """Whether torch multiplies int8 matrices on this device."""
    import torch

    rows = torch.ones((_MIN_ROWS, _BLOCK), dtype=torch.int8, device=device)
    columns = torch.ones((_BLOCK, _BLOCK), dtype=torch.int8, device=device).t()
    try:
        return bool((torch._int_mm(rows, columns) == _BLOCK).all())
    except (RuntimeError, AttributeError):
        return False
