"""Blocks that share a scale, as in OCP MX: a power of two for the block, and elements of few bits. Into blocks, the
scale of each block and the code of each element have one right value; out of them, all elements are tried with all
scales."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fuzz.references.parameters import name_of
from fuzz.tasks.check.results import CheckError, CheckFailed, told
from fuzz.tasks.codes import CODED, Coded, Codes
from fuzz.tasks.conversion import Library, Overflow, Policy, Right, codes_of, format_of, library_for, tensor_of
from oracles.doubledouble import F64

__tracebackhide__ = told
Shared = Literal["floor", "even", "ceil", "least"]
_SCALE, _EXACT = CODED["e8m0"], CODED["f64"]
_SHAPES = ((1, 1), (1, 3), (2, 1), (3, 5), (7, 2))
"""Further shapes, in rows and blocks of a row: kernels take several blocks at once, and the last ones otherwise."""
_NEAR = 2.0**-21
"""How near a power of two the quotient of the "least" scale may be for both neighbours to be right: kernels calculate
it in f32, some with a rounded reciprocal."""


@dataclass(frozen=True)
class BlockCheck:
    """What was tried of a conversion that passed."""

    source: str
    target: str
    blocks: int
    elements: int
    free: int = 0
    """The number of blocks with NaN or infinities, of which nothing was judged."""

    def __str__(self) -> str:
        rest = f"; not judged: {self.free:,} blocks with NaN or infinities" if self.free else ""
        return f"{self.source} to {self.target}: {self.blocks:,} blocks, {self.elements:,} elements{rest}"


def check_blocks(
    kernel: Callable[..., Any], source: str, target: str, *, block: int = 32, shared: Shared = "floor",
    overflow: Overflow = "saturate", nan_scale: bool = False, partial: bool = False, packed: bool = False,
    arrays: Library | None = None,
) -> BlockCheck:  # fmt: skip
    """Check a kernel that converts floats to blocks with a scale of e8m0 each, or back, and return what was tried. One
    of the formats is that of the elements, of at most 8 bits.

    To blocks, the kernel takes a tensor of rows, and returns elements and scales, one for `block` elements of a row.
    The scale is a power of two by the block's largest magnitude m, and `shared` says which: "floor" as in OCP MX 1.0,
    2^floor(log2(m)) over the largest power of two of the elements; "even" the same with m first rounded to the bits of
    an element; "ceil" with the power of two from m on; "least" the smallest with which m is no larger than the largest
    element. Scales end at 2^-127 and 2^127. Elements are rounded to nearest even, and too large ones are saturated. A
    block of zeros may have any scale but NaN. Blocks with NaN or infinities are judged only with `nan_scale`: they have
    the scale NaN. With `partial`, rows also end within a block, of which only the elements that are there count. Back,
    the kernel takes elements and scales. `packed` and `arrays` are as for `check_conversion`.
    Raises CheckFailed for a wrong kernel."""
    one, other = format_of(source), format_of(target)
    if (one.bits <= 8) == (other.bits <= 8):
        raise CheckError(
            "check_blocks is for floats of 16 bits and more on one side, and elements of 8 and less on the other"
        )
    if packed and 4 not in (one.bits, other.bits):
        raise CheckError("packed=True is for formats of 4 bits, such as e2m1")
    if one.bits == 64 or other.bits == 64:
        raise CheckError("check_blocks is for f32, f16 and bf16")
    library = arrays or library_for(kernel)
    if one.bits <= 8:
        return _unblocked(kernel, one, other, block, library, packed, partial)
    made = _Blocks(one, other, block, shared, Policy(overflow), nan_scale)
    rows = made.inputs()
    random = np.random.default_rng(1)
    free, tried = 0, 0
    cuts = [(5, 3, cut) for cut in _cuts(block, partial)] + [(2, 1, cut) for cut in _cuts(block, partial)]
    for many, wide, cut in [(len(rows) // 4, 4, 0), *((*each, 0) for each in _SHAPES), *cuts]:
        some = random.permutation(len(rows))[: many * wide]
        given, length = rows[some].reshape(many, wide * block).copy(), wide * block - cut
        given[:, length:] = 0
        with np.errstate(all="ignore"):
            found = kernel(tensor_of(given[:, :length].copy(), one, library))
        if not isinstance(found, (tuple, list)) or len(found) != 2:
            raise CheckFailed(f"{name_of(kernel)} returned {type(found).__name__}, not elements and scales")
        shape = (many, length // (2 if packed else 1))
        elements = codes_of(found[0], other, shape, f"{name_of(kernel)}, elements:", packed=packed)
        elements = np.pad(elements.reshape(many, length), ((0, 0), (0, cut)))
        scales = codes_of(found[1], _SCALE, (many, wide), f"{name_of(kernel)}, scales:")
        if wrong := made.wrong(given.reshape(-1, block), elements.reshape(-1, block), scales.reshape(-1)):
            where = f"{many} rows of {length}"
            raise CheckFailed(f"FAIL  {name_of(kernel)}  wrong blocks, {one.name} to {other.name}, {where}\n{wrong}")
        free, tried = free + made.free(given.reshape(-1, block)), tried + many * wide
    return BlockCheck(one.name, other.name, tried, tried * block, free)


def _cuts(block: int, partial: bool) -> Sequence[int]:
    """Return how many elements rows lack of whole blocks; even numbers, since two may share a byte."""
    return sorted({2, block // 2, block - 2} - {0, block}) if partial else ()


@dataclass(frozen=True)
class _Blocks:
    source: Coded
    element: Coded
    block: int
    shared: Shared
    policy: Policy
    nan_scale: bool

    def inputs(self) -> Codes:
        """Return blocks: largest magnitudes at each power of two and next to where a scale changes, with numbers of the
        elements' format below them, those half-way, and neighbours."""
        one, element, random = self.source, self.element, np.random.default_rng(0)
        own = np.arange(element.largest + 1, dtype=np.uint64)
        points = element.sizes(own)
        points = np.concatenate([points, points + (element.sizes(own + np.uint64(1)) - points) / 2.0]) / element.most
        top = 2.0 ** np.floor(np.log2(element.most))
        steps = np.array(
            [1.0, 2.0 - 2.0**-element.mantissa, element.most / top, 2.0 - 2.0 ** (-1 - element.mantissa), 1.25]
        )
        powers = np.arange(1 - one.offset - one.mantissa, one.offset + 1)
        high = one.below((steps[:, None] * 2.0**powers).ravel())
        high = np.unique(np.concatenate([high, high + np.uint64(1), np.where(high > 0, high - np.uint64(1), high)]))
        high = high[high <= one.largest]
        rest = one.below(random.choice(points, (len(high), self.block)) * one.sizes(high)[:, None] * element.most / top)
        near = random.integers(-1, 2, rest.shape)
        rest = np.where((near < 0) & (rest > 0), rest - np.uint64(1), rest + (near > 0).astype(np.uint64))
        rest = np.minimum(rest, high[:, None])
        at = np.arange(len(high))
        rest[at, at % self.block] = high
        words = random.integers(0, 1 << one.bits - 1, (64, self.block), dtype=np.uint64)
        zeros = np.zeros((4, self.block), np.uint64)
        odd = np.repeat(rest[: 2 * self.block], 2, 0)
        odd[np.arange(len(odd)), np.arange(len(odd)) % self.block] = one.infinity or 0
        odd[::2][np.arange(len(odd) // 2), np.arange(len(odd) // 2) % self.block] = one.nan or 0
        found = np.concatenate([rest, words, zeros, odd])
        return np.where(random.integers(0, 2, found.shape) == 1, found | np.uint64(one.sign), found)

    def _known(self, given: Codes) -> NDArray[np.bool_]:
        """Return the mask of blocks of finite numbers."""
        return np.asarray(np.isfinite(self.source.numbers(given)).all(-1))

    def free(self, given: Codes) -> int:
        return 0 if self.nan_scale else int((~self._known(given)).sum())

    def scales(self, most: F64, shared: Shared) -> Iterator[Codes]:
        """Yield the right scales of blocks with these largest magnitudes, and where two are right the other ones."""
        element = self.element
        emax = int(np.floor(np.log2(element.most)))
        part, exponent = np.frexp(np.where(most > 0.0, most, 1.0))
        share = 2.0 * part  # m is share 2^(exponent - 1), and 1 <= share < 2
        carries = {
            "floor": 0.0 * share, "even": share >= 2.0 - 2.0 ** (-1 - element.mantissa), "ceil": share > 1.0,
            "least": share > element.most / 2.0**emax,
        }[shared]  # fmt: skip
        power = exponent - 1 - emax
        yield np.clip(power + carries.astype(int) + 127, 0, 254).astype(np.uint64)
        if shared == "least":
            near = np.abs(share / (element.most / 2.0**emax) - 1.0) <= _NEAR
            yield np.clip(power + (carries != near).astype(int) + 127, 0, 254).astype(np.uint64)

    def wrong(self, given: Codes, elements: Codes, scales: Codes) -> str:
        """Return lines about wrong scales, or else about wrong elements."""
        wide, known = self.source.numbers(given), self._known(given)
        most = np.where(known, np.abs(np.where(np.isfinite(wide), wide, 0.0)).max(-1), 0.0)

        def right_by(shared: Shared) -> NDArray[np.bool_]:
            same = np.logical_or.reduce([scales == each for each in self.scales(most, shared)])
            same = np.where(most == 0.0, scales <= np.uint64(_SCALE.largest), same)
            return np.where(known, same, (scales == np.uint64(_SCALE.nan or 0)) | (not self.nan_scale))

        same = right_by(self.shared)
        if not same.all():
            at = int(np.argmin(same))
            need = "NaN" if not known[at] else f"2^{int(next(self.scales(most, self.shared))[at]) - 127}"
            got = "NaN" if scales[at] == _SCALE.nan else f"2^{int(scales[at]) - 127}"
            value = f"{got} of a block whose largest is {np.abs(wide[at]).max():.9g}, must be {need}"
            line = f"  scales: {int((~same).sum()):,} of {len(same):,} wrong, such as {value}"
            others: tuple[Shared, ...] = ("floor", "even", "ceil", "least")
            other = next((each for each in others if right_by(each).all()), None)
            return f"{line}\n  right only as shared={other!r}" if other else line
        judged = known & (scales <= np.uint64(_SCALE.largest))
        ratio = np.ldexp(wide[judged], 127 - scales[judged].astype(np.int64)[:, None]).ravel()
        lines = Right(_EXACT, self.element, self.policy).wrong(ratio.view(np.uint64), elements[judged].ravel())
        return f"  elements, as the quotients by their scales:\n{lines}" if lines else ""


def _unblocked(
    kernel: Callable[..., Any], one: Coded, other: Coded, block: int, library: Library, packed: bool,
    partial: bool,
) -> BlockCheck:  # fmt: skip
    """Check a kernel that makes floats of elements and scales, with each element in a block of each scale."""
    codes = np.arange(-(-(1 << one.bits) // block) * block, dtype=np.uint64) % np.uint64(1 << one.bits)
    scales = np.arange(256, dtype=np.uint64)
    rows = np.broadcast_to(codes, (256, len(codes)))
    own = np.repeat(scales[:, None], len(codes) // block, 1)
    ways = [(some, 0) for some in (slice(None), slice(100, 101), slice(120, 127))]
    for some, cut in [*ways, *((slice(120, 127), cut) for cut in _cuts(block, partial))]:
        these = rows[some, : len(codes) - cut].copy()
        given = tensor_of(these, one, library, packed=packed), tensor_of(own[some], _SCALE, library)
        with np.errstate(all="ignore"):
            got = codes_of(kernel(*given), other, these.shape, name_of(kernel))
        with np.errstate(all="ignore"):
            exact = one.numbers(these) * _SCALE.numbers(scales[some])[:, None]
        if wrong := Right(_EXACT, other, Policy()).wrong(exact.ravel().view(np.uint64), got.ravel()):
            raise CheckFailed(f"FAIL  {name_of(kernel)}  wrong values, blocks of {one.name} to {other.name}\n{wrong}")
    return BlockCheck(one.name, other.name, own.size, rows.size)
