"""What a standalone program shows: its calls, and what is allowed of the outputs of the last one, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fuzz.base.case import ITEMSIZE, Case, Tensor

MAGNITUDE, NEGATIVE, MAY_BE_NAN, MUST_BE_NAN, MAY_BE_ZERO, MAY_BE_NONFINITE = 1, 2, 4, 8, 16, 32
"""bits of a rule: the interval is of magnitudes, and the sign must be this one; special values that conform."""


@dataclass(frozen=True)
class Allowed:
    """One element: its flat index in C order, the ends of what is allowed, and bits of special rules."""

    index: int
    low: float
    high: float
    rule: int


@dataclass(frozen=True)
class Script:
    """The calls in order; the last one is judged."""

    cases: tuple[Case, ...]
    allowed: Mapping[str, list[Allowed]] = field(default_factory=dict)
    """by output of the last call."""
    invalid: bool = False
    """the last call must be rejected."""
    law: bool = False
    """the last call is the twin, by a law, of the one before it."""
    origins: Mapping[str, list[int]] = field(default_factory=dict)
    """for a law that picks rows: by output, which element of the case each of the twin's must equal."""


def hex_words(tensor: Tensor) -> list[str]:
    """The elements' bits, each as one number."""
    size = ITEMSIZE[tensor.dtype]
    return [tensor.bits[i : i + size][::-1].hex() for i in range(0, len(tensor.bits), size)]
