"""What was measured of a kernel, as one record, which prints as one line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from oracles.dtypes import COMPUTED, FORMATS

_TF32 = 11
_ONCE = 0.505
"""The error in ulp up to which a result counts as correctly rounded: one half, with a margin for the exact value's
error."""


@dataclass(frozen=True)
class SumOrder:
    """The order of the sums along some dimensions."""

    along: str
    terms: int
    """The number of terms for which this was measured."""
    chain: int
    """The largest number of additions that a term goes through."""
    words: str
    """Its name; '' if it has none, or if several fit."""
    read: bool
    """Whether it was read term by term; else it follows from the orders that fit."""

    @property
    def text(self) -> str:
        """Words such as "sums over n in 8 lanes"."""
        how = f", at most {self.chain} of {self.terms} one after the other"
        return f"sums over {self.along} {self.words}" if self.words else f"sums over {self.along}{how}"


@dataclass(frozen=True)
class Measured:
    """What was measured of one target."""

    target: str
    dtype: str
    """The dtype of the first input."""
    sums: tuple[SumOrder, ...] = ()
    unread: Mapping[str, str] = field(default_factory=dict)
    """Why the order of other sums is not known, by their dimensions."""
    accumulator: int | None = None
    """The number of bits that are kept of a sum while it is formed."""
    products: int | None = None
    """The number of bits of an element that go into a sum, if fewer than f32 has."""
    fused: bool | None = None
    """Whether products go into a sum without being rounded."""
    flushes: bool | None = None
    """Whether subnormal numbers become zero."""
    accuracy: Mapping[str, float] = field(default_factory=dict)
    """The largest measured errors in ulp, of a function or of an output."""
    casts: Mapping[str, bool] = field(default_factory=dict)
    """Whether it rounds where it may, by the name of the rounded value."""
    repeats: bool | None = None
    """Whether a call gives the same bits each time."""
    trouble: str = ""
    """Why nothing was measured."""

    @property
    def text(self) -> str:
        """One line, such as "measured: accumulates in f32, sums over n in 8 lanes, exp 1.9 ulp"."""
        said = [f"accumulates in {words_of_bits(self.accumulator)}"] if self.accumulator else []
        if self.products:
            said.append(f"takes {self.products} bits of each element{' (TF32)' if self.products == _TF32 else ''}")
        said += [each.text for each in self.sums]
        said += [f"order of sums over {along} unknown" for along in self.unread]
        said += [] if self.fused is None else ["products fused" if self.fused else "products rounded"]
        said += ["subnormals flushed"] if self.flushes else []
        for name, error in self.accuracy.items():
            said.append(f"{name} rounded once" if error <= _ONCE else f"{name} {error:.2g} ulp")
        for name, rounds in self.casts.items():
            said.append(f"{name} {'rounded' if rounds else 'not rounded'} to the dtype of the inputs")
        said += [] if self.repeats is None else ["same bits each time" if self.repeats else "other bits each time"]
        why = f": {self.trouble}" if self.trouble else ""
        return f"measured: {', '.join(said)}" if said else f"nothing measured{why}"

    @property
    def tightens(self) -> bool:
        """Whether it says more than that sums have any order and casts are taken or not."""
        return bool(self.casts) or any(each.chain < each.terms - 1 for each in self.sums)


def words_of_bits(bits: int | None) -> str:
    """Return the name of the format that has this many bits, or how many they are."""
    return next((name for name in COMPUTED if FORMATS[name].precision == bits), f"{bits} bits")
