"""The tolerances that people test with where they say none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from oracles.doubledouble import F64
from oracles.enclosure import Mask


@dataclass(frozen=True)
class Tolerance:
    """An element is right within `absolute + relative |expected|`."""

    whose: str
    absolute: float
    relative: float

    def allowed(self, expected: F64) -> F64:
        """How far each element may be off."""
        found: F64 = self.absolute + self.relative * np.abs(expected)
        return found

    def failing(self, got: F64, expected: F64) -> Mask:
        """The elements that are not."""
        with np.errstate(all="ignore"):
            near = np.abs(got - expected) <= self.allowed(expected)
        right: Mask = near | (got == expected) | (np.isnan(got) & np.isnan(expected))
        return ~right


TORCH: Mapping[str, Tolerance] = {
    "f64": Tolerance("torch", 1e-7, 1e-7),
    "f32": Tolerance("torch", 1e-5, 1.3e-6),
    "f16": Tolerance("torch", 1e-5, 1e-3),
    "bf16": Tolerance("torch", 1e-5, 1.6e-2),
}
"""The defaults of torch.testing.assert_close."""
NUMPY = Tolerance("numpy", 1e-8, 1e-5)
"""The defaults of numpy.allclose, of any dtype."""
