"""The record of what was measured of a kernel's arithmetic; it prints as one line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from oracles.dtypes import COMPUTED, FORMATS

_TF32 = 11
_ONCE = 0.505
"""The largest error in ulp of a correctly rounded result: one half, plus a margin for the error of the exact value."""


@dataclass(frozen=True)
class SumOrder:
    """The order of the sums along some dimensions."""

    along: str
    terms: int
    """The number of terms of the measured sum."""
    chain: int
    """The number of additions on the longest path from a term to the total."""
    words: str
    """The name of the order; '' if it has none, or if several orders fit."""
    read: bool
    """Whether the order was read term by term; if not, it is a known order whose outputs match the kernel's."""

    @property
    def text(self) -> str:
        """The order in words, such as "sums over n in 8 lanes"."""
        how = f", at most {self.chain} of {self.terms} one after the other"
        return f"sums over {self.along} {self.words}" if self.words else f"sums over {self.along}{how}"


@dataclass(frozen=True)
class Measured:
    """The facts that were measured of one target; None or an empty field means that nothing was measured."""

    target: str
    dtype: str
    """The dtype of the first input."""
    sums: tuple[SumOrder, ...] = ()
    unread: Mapping[str, str] = field(default_factory=dict)
    """The reasons why the orders of the other sums are not known, by the dimensions of these sums."""
    accumulator: int | None = None
    """The precision in bits of a partial sum."""
    products: int | None = None
    """The number of significant bits of an input element that go into a product; None if about as many as f32 has."""
    fused: bool | None = None
    """Whether products are added to a sum without being rounded first."""
    flushes: bool | None = None
    """Whether the kernel replaces subnormal numbers by zero."""
    accuracy: Mapping[str, float] = field(default_factory=dict)
    """The largest measured errors in ulp, by the name of a function or of an output."""
    casts: Mapping[str, bool] = field(default_factory=dict)
    """Whether the kernel rounds a value that its contract lets it round or not, by the name of the value."""
    repeats: bool | None = None
    """Whether repeated calls with the same inputs return the same bits."""
    trouble: str = ""
    """The reason if nothing, or not everything, was measured."""
    configuration: str = ""
    """The configuration in which it was measured, where the kernel has others."""

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
        where = f" with {self.configuration}" if self.configuration else ""
        return f"measured{where}: {', '.join(said)}" if said else f"nothing measured{where}{why}"

    @property
    def tightens(self) -> bool:
        """Whether the record narrows a contract: it knows casts, or a sum whose order is not that of a plain loop."""
        return bool(self.casts) or any(each.chain < each.terms - 1 for each in self.sums)


def words_of_bits(bits: int | None) -> str:
    """Return the name of the format that has this many significant bits, or such as "13 bits" if no format has."""
    return next((name for name in COMPUTED if FORMATS[name].precision == bits), f"{bits} bits")
