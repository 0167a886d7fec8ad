"""How fast kernels are, compared with others in the same run, on memory that the call before did not touch."""

from __future__ import annotations

import math
from dataclasses import dataclass

MOVED = {
    "rms_norm": 2, "fused_add_rms_norm": 4, "rms_norm_backward": 3, "fused_add_rms_norm_backward": 4,
    "layer_norm": 2, "softmax": 2,
}  # fmt: skip
"""The number of tensors of the shape of x that a call must read or write at least once, by op."""
ITEMSIZES = {"f32": 4, "f16": 2, "bf16": 2}
EPS = 2.0**-17


@dataclass(frozen=True)
class Shape:
    """Rows of one length and dtype, for one op."""

    op: str
    dtype: str
    rows: int
    n: int

    @property
    def tensor_bytes(self) -> int:
        return self.rows * self.n * ITEMSIZES[self.dtype]


@dataclass(frozen=True)
class Timing:
    """Who took how long; NaN where it takes no such shape."""

    shape: Shape
    who: str
    seconds: float
    """The median of many calls."""

    @property
    def gigabytes_per_second(self) -> float:
        return MOVED[self.shape.op] * self.shape.tensor_bytes / self.seconds / 1e9

    @property
    def ran(self) -> bool:
        return not math.isnan(self.seconds)
