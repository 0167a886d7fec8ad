"""Conversions between formats, which have one right result: all inputs of 16 bits and less, and of longer formats those
next to each number of the target and half-way between two."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fuzz.core.base.text import counted
from fuzz.core.transport.python.arrays import TorchArrays
from fuzz.references.parameters import library_of, name_of
from fuzz.tasks.check.results import CheckError, CheckFailed, told
from fuzz.tasks.codes import CODED, KNOWN, Between, Coded, Codes, Rounding, between, pairs, read, storage, unpaired

__tracebackhide__ = told
Overflow = Literal["infinite", "saturate", "saturate numbers", "nan"]
Nan = Literal["any", "quiet", "sign", "payload"]
Kind = Literal["NaN", "zeros", "negative"]
Library = Literal["torch", "numpy", "jax"]
_TAILS = (1, 2, 3, 5, 7, 8, 9, 15, 17, 31, 33)
"""The lengths of further calls: kernels convert several elements at once, and the last ones otherwise."""
_MOST = 1 << 17
"""The most numbers of a longer target format of which the neighbours are tried."""
_FEW = 64
"""How many wrong results another way must explain before it is tried on all."""
_PAYLOADS = 256
"""The NaNs of any payload that are tried of a longer format, beside those of one bit, of all, and of all but one."""


@dataclass(frozen=True)
class Policy:
    """What is right where formats leave a choice."""

    overflow: Overflow = "infinite"
    ties: Rounding = "even"
    nan: Nan = "any"
    codes: Mapping[Kind, int] = field(default_factory=dict)


@dataclass(frozen=True)
class ConversionCheck:
    """What was tried of a conversion that passed."""

    source: str
    target: str
    tried: Mapping[str, int]
    """The number of inputs of each kind."""
    free: tuple[str, ...] = ()
    """The kinds whose results were not judged."""

    def __str__(self) -> str:
        every = "all " if CODED[self.source].bits <= 16 else ""
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in self.tried.items() if count)
        rest = f"; not judged: {', '.join(self.free)}" if self.free else ""
        return f"{self.source} to {self.target}: {every}{sum(self.tried.values()):,} inputs: {kinds}{rest}"


def check_conversion(
    kernel: Callable[..., Any], source: str, target: str, *, overflow: Overflow = "infinite", ties: Rounding = "even",
    nan: Nan = "any", codes: Mapping[Kind, int] | None = None, packed: bool = False, arrays: Library | None = None,
) -> ConversionCheck:  # fmt: skip
    """Check a kernel that converts a tensor of one format to another, and return what was tried. Formats are spelled as
    in torch and NumPy, or as in reports: "float8_e4m3fn" or "e4m3fn".

    A number that is too large becomes an infinity, or NaN in a format without infinities; with `overflow="saturate"` it
    becomes the largest number, and so does an infinity, with "saturate numbers" only the number, and with "nan" it
    becomes NaN. NaN becomes `nan`: any NaN, a quiet one, one of the same sign, or that of the same sign and "payload",
    cut off and made quiet. `codes` say the one code that a kind of input becomes where the target has no code for it,
    such as {"NaN": 7}. `ties` are "even", "away", "towards zero", which cuts off, or "upward", to the next larger one.
    The kernel is given a tensor of torch, or an array if its code calls NumPy or JAX or `arrays` says so, and codes
    where the library lacks the format; it may return codes as integers. `packed` are two codes of 4 bits in a byte, the
    first in the low half. Raises CheckFailed for a wrong kernel."""
    one, other = (format_of(each) for each in (source, target))
    right = Right(one, other, Policy(overflow, ties, nan, codes or {}))
    right.refuse(packed)
    given = _inputs(one, other)
    call = _Call(kernel, one, other, arrays or library_for(kernel), packed)
    some = np.random.default_rng(0).permutation(len(given))
    for length in (len(given), *_TAILS):
        alone = f", of {counted(length, 'element')} alone" if length < len(given) else ""
        own = given[some[: length + length % 2 * packed]] if alone else given
        if wrong := right.wrong(own, call(own)):
            title = f"FAIL  {name_of(kernel)}  wrong values, {one.name} to {other.name}{alone}"
            raise CheckFailed(f"{title}\n{wrong}")
        some = np.roll(some, -length)
    tried = {name: int(mask.sum()) for name, mask in right.kinds(given)}
    return ConversionCheck(one.name, other.name, tried, tuple(name for name in right.free if tried.get(name)))


def every(dtype: str, library: Library = "torch") -> Any:
    """Return a tensor, or array, of all values of a format of 8 or 16 bits, each once: NaNs and infinities too."""
    form = format_of(dtype)
    if form.bits > 16:
        raise CheckError(f"{form.name} has too many values: every() is for formats of 8 and 16 bits")
    return tensor_of(_all(form), form, library)


def format_of(name: str) -> Coded:
    if name not in CODED:
        raise CheckError(f"{name!r} is no format: known are {', '.join(KNOWN)}")
    return CODED[name]


def library_for(kernel: Callable[..., Any]) -> Library:
    found = library_of(kernel)
    return "numpy" if found == "numpy" else "jax" if found == "jax" else "torch"


def _all(form: Coded) -> Codes:
    return np.arange(1 << form.bits, dtype=np.uint64)


def _inputs(one: Coded, other: Coded) -> Codes:
    """Return the inputs: all, or the numbers of the other format, those half-way, their neighbours, and any others."""
    if one.bits <= 16:
        return _all(one)
    random, top = np.random.default_rng(0), np.uint64(one.infinity or 0)
    if other.bits >= one.bits:
        other = one  # whose numbers are all exact: any do
    if other.bits <= 16:
        some = np.arange(other.largest + 2, dtype=np.uint64)
    else:
        ends = [0, 1, other.largest, other.largest + 1]
        some = np.append(random.integers(0, other.largest, _MOST, dtype=np.uint64), np.array(ends, np.uint64))
    low, high = other.sizes(some), other.sizes(some + np.uint64(1))
    middle = low + (np.where(np.isfinite(high), high, low) - low) / 2.0
    at = one.below(np.concatenate([np.where(np.isfinite(low), low, 0.0), middle, [0.0, 2.0 * other.most]]))
    near = np.concatenate([np.where(at > 0, at - np.uint64(1), at), at, at + np.uint64(1), [top, top - np.uint64(1)]])
    bits = np.uint64(1) << np.arange(one.mantissa, dtype=np.uint64)
    payload = [bits, bits | np.uint64(one.quiet), random.integers(1, int(bits[-1]), _PAYLOADS, dtype=np.uint64)]
    payload += [np.array([one.quiet - 1, 2 * one.quiet - 1], np.uint64)]
    size = np.concatenate([np.minimum(near, top), top | np.concatenate(payload)])
    any_bits = random.integers(0, 1 << one.bits - 1, _MOST, dtype=np.uint64) * np.uint64(2)
    any_bits += random.integers(0, 2, _MOST, dtype=np.uint64)
    return np.concatenate([size, size | np.uint64(one.sign), any_bits])


@dataclass(frozen=True)
class Right:
    """The right results of a conversion."""

    source: Coded
    target: Coded
    policy: Policy

    @property
    def free(self) -> tuple[str, ...]:
        """The kinds of inputs for which the target has no result, and of which nothing is said."""
        kinds = (("NaN", self.target.nan), ("zeros", self.target.signed), ("negative", self.target.signed))
        return tuple(name for name, own in kinds if own in (None, False) and name not in self.policy.codes)

    def refuse(self, packed: bool) -> None:
        """Raise CheckError for a policy that the formats do not have."""
        one, other, name = self.source, self.target, self.policy.overflow
        if packed and 4 not in (one.bits, other.bits):
            raise CheckError("packed=True is for formats of 4 bits, such as e2m1")
        if other.nan is None and name != "saturate" and one.most > other.most:
            raise CheckError(f"{other.name} has neither infinities nor NaN: pass overflow='saturate'")
        for kind, code in self.policy.codes.items():
            if code >= 1 << other.bits or (kind != "NaN" and (other.signed or kind not in ("zeros", "negative"))):
                raise CheckError(f"codes={{{kind!r}: {code}}}: {other.name} has no such code, or a result of its own")
        own = {"sign": (), "quiet": (other,), "payload": (one, other)}.get(self.policy.nan, ())
        if lacking := next((each.name for each in own if not each.quiet), ""):
            raise CheckError(f"{lacking} has no quiet NaNs: pass nan='any', or codes={{'NaN': ...}}")
        if self.policy.nan == "sign" and other.specials not in ("ieee", "fn"):
            raise CheckError(f"{other.name} has no NaNs of two signs: pass nan='any', or codes={{'NaN': ...}}")

    def of(self, given: Codes) -> Codes:
        """Return the right codes of inputs, with the usual NaN for a NaN."""
        wide, other, policy = self.source.numbers(given), self.target, self.policy
        negative = np.signbit(wide)
        found = between(wide, other).rounded(policy.ties, negative)
        most, nan = np.uint64(other.largest), np.uint64(other.nan or 0)
        infinity = nan if other.infinity is None else np.uint64(other.infinity)
        past = {"infinite": infinity, "nan": nan}.get(policy.overflow, most)
        found = np.where(found > most, past, found)
        found = np.where(np.isinf(wide), most if policy.overflow == "saturate" else infinity, found)
        signed = negative & ~((found == 0) & (other.specials == "fnuz"))
        found = np.where(signed, found | np.uint64(other.sign), found)
        found = np.where(np.isnan(wide), self._payload(given) if policy.nan == "payload" else nan, found)
        kinds: tuple[tuple[Kind, Any], ...] = ("NaN", np.isnan(wide)), ("zeros", wide == 0.0), ("negative", wide < 0.0)
        for name, mask in kinds:
            found = np.where(mask, np.uint64(policy.codes[name]), found) if name in policy.codes else found
        return found

    def _payload(self, given: Codes) -> Codes:
        """Return NaNs of the same sign and the first bits of the payload, made quiet."""
        one, other = self.source, self.target
        shift, own = one.mantissa - other.mantissa, given & np.uint64((1 << one.mantissa) - 1)
        kept = own >> np.uint64(shift) if shift >= 0 else own << np.uint64(-shift)
        sign = np.where(given & np.uint64(one.sign), np.uint64(other.sign), np.uint64(0))
        found: Codes = sign | kept | np.uint64(other.nan or 0)
        return found

    def allowed(self, given: Codes, got: Codes, right: Codes) -> NDArray[np.bool_]:
        """Return the mask of results that are right."""
        other, policy = self.target, self.policy
        same = np.asarray(got == right)
        if other.nan is not None:
            some = other.is_nan(got)
            if policy.nan == "quiet":
                some &= (got & np.uint64(other.quiet)) != 0
            if policy.nan == "sign":
                some &= ((got & np.uint64(other.sign)) != 0) == ((given & np.uint64(self.source.sign)) != 0)
            some &= policy.nan != "payload" and "NaN" not in policy.codes
            same |= np.where(self.source.is_nan(given), some, other.is_nan(got) & other.is_nan(right))
        for name, mask in self.kinds(given) if self.free else ():
            same |= mask & any(name.endswith(each) for each in self.free)
        return same

    def kinds(self, given: Codes) -> Iterator[tuple[str, NDArray[np.bool_]]]:
        """Yield the kinds of inputs, each with its mask; they do not overlap."""
        one, other = self.source, self.target
        wide, left = one.numbers(given), np.ones(given.shape, bool)
        place: Between = between(wide, other)
        silent = (given & np.uint64(one.quiet)) == 0 if one.quiet else ~left
        masks = {
            "signalling NaN": np.isnan(wide) & silent, "NaN": np.isnan(wide), "infinities": np.isinf(wide),
            "zeros": wide == 0.0, "negative": (wide < 0.0) & (not other.signed), "too large": np.abs(wide) > other.most,
            "exact": place.rest == 0.0, "half-way": place.is_tie,
            "that become subnormal or 0": np.abs(wide) < other.tiny,
            "that are rounded": left,
        }  # fmt: skip
        for name, mask in masks.items():
            yield name, mask & left
            left = left & ~mask

    def wrong(self, given: Codes, got: Codes) -> str:
        """Return lines about wrong results by kind of input, with the first of each; '' if there are none."""
        right = self.of(given)
        wrong, lines = ~self.allowed(given, got, right), list[str]()
        for name, mask in self.kinds(given) if wrong.any() else ():
            if count := int((wrong & mask).sum()):
                at = int(np.argmax(wrong & mask))
                shown = [_shown(each[at], form) for each, form in ((given, self.source), (got, self.target))]
                need = _shown(right[at], self.target)
                if (
                    name.endswith("NaN")
                    and self.policy.nan in ("any", "quiet", "sign")
                    and "NaN" not in self.policy.codes
                ):
                    need = {"any": "NaN", "quiet": "a quiet NaN", "sign": "a NaN of the same sign"}[self.policy.nan]
                values = f"{shown[0]} became {shown[1]}, must be {need}"
                lines.append(f"  {name}: {count:,} of {int(mask.sum()):,} wrong, such as {values}")
        if lines and (words := self._instead(given, got)):
            lines.append(f"  {words}")
        return "\n".join(lines)

    def _instead(self, given: Codes, got: Codes) -> str:
        """Return what would make all results of numbers right, '' if nothing that is known."""
        numbers = ~self.source.is_nan(given)
        of = "" if self.allowed(given, got, self.of(given))[~numbers].all() else "numbers are "
        given, got = given[numbers], got[numbers]
        wrong = ~self.allowed(given, got, self.of(given))
        some = np.flatnonzero(wrong)[:_FEW]  # most other ways differ from the kernel here, which is soon seen
        for words, made in self._others() if wrong.any() else ():
            if all(made(given[own], got[own]).all() for own in (some, slice(None))):
                return f"{of}{words}"
        return ""

    def _others(self) -> Iterator[tuple[str, Callable[[Codes, Codes], NDArray[np.bool_]]]]:
        """Yield further ways to convert: their words, and which results are right by them."""
        for ties in ("even", "away", "towards zero", "upward"):
            yield f"right only as ties={ties!r}", self._with(ties=ties).judged
        for overflow in ("infinite", "saturate", "saturate numbers", "nan"):
            if self.target.nan is not None or overflow == "saturate":
                yield f"right only as overflow={overflow!r}", self._with(overflow=overflow).judged
        one = self.source
        for form in (CODED[name] for name in ("f32", "bf16", "f16")):
            if form.bits < one.bits and form is not self.target:
                first, then = Right(one, form, Policy()), Right(form, self.target, self.policy)
                words = f"right if values are first rounded to {form.name}"
                yield words, partial(_in_two, first, then)
        if "zeros" in self.free:  # which may become anything
            return
        yield "right if subnormal inputs count as 0", lambda given, got: self.judged(_flushed(given, one), got)
        yield "right if subnormal results are 0", lambda given, got: got == _flushed(self.of(given), self.target)
        yield "right if numbers below the normal ones of the target are 0", self._early

    def _early(self, given: Codes, got: Codes) -> NDArray[np.bool_]:
        below = np.abs(self.source.numbers(given)) < self.target.tiny
        return self.judged(np.where(below, given & np.uint64(self.source.sign), given), got)

    def judged(self, given: Codes, got: Codes) -> NDArray[np.bool_]:
        """Return the mask of results that are right."""
        return self.allowed(given, got, self.of(given))

    def _with(self, **fields: Any) -> Right:
        return replace(self, policy=replace(self.policy, **fields))


@dataclass(frozen=True)
class _Call:
    kernel: Callable[..., Any]
    source: Coded
    target: Coded
    library: Library
    packed: bool

    def __call__(self, given: Codes) -> Codes:
        """Return what the kernel makes of inputs. Raises CheckFailed if that has another dtype or length."""
        with np.errstate(all="ignore"):  # NumPy warns where a number becomes infinite, as it must
            found = self.kernel(tensor_of(given, self.source, self.library, packed=self.packed))
        halved = self.packed and self.target.bits == 4
        return codes_of(found, self.target, (len(given) // (2 if halved else 1),), name_of(self.kernel), packed=halved)


def codes_of(found: Any, form: Coded, shape: tuple[int, ...], name: str, *, packed: bool = False) -> Codes:
    """Return the codes in an array that a kernel returned. Raises CheckFailed if that has another dtype or shape."""
    if not hasattr(found, "data_ptr"):
        found = np.asarray(found)
    dtype, size = str(found.dtype).removeprefix("torch."), int(found.dtype.itemsize)
    known = {form.spelling, f"{form.spelling}_x2" if packed else form.spelling, f"uint{8 * size}", f"int{8 * size}"}
    if dtype not in known or size != form.size or tuple(found.shape) != shape:
        own = "x".join(map(str, found.shape))
        raise CheckFailed(f"{name} returned {own} {dtype}, not {'x'.join(map(str, shape))} {form.name}")
    if hasattr(found, "data_ptr"):
        import torch

        data = TorchArrays().bits(found.view(torch.uint8) if packed else found)
    else:
        data = found.tobytes()
    codes = read(data, form).reshape(shape)
    return unpaired(codes) if packed else codes


def tensor_of(codes: Codes, form: Coded, library: Library, *, packed: bool = False) -> Any:
    """Return a tensor or array of codes; of integers, if the library lacks the format. Raises CheckError if JAX is not
    set to have it."""
    halved = packed and form.bits == 4
    plain = pairs(codes) if halved else codes.astype(f"<u{form.size}")
    if library == "torch":
        import torch

        held = (
            torch.from_numpy(plain.view(f"<i{form.size}").copy()) if form.size > 1 else torch.from_numpy(plain.copy())
        )
        own = getattr(torch, f"{form.spelling}_x2" if halved else form.spelling, None)
        return held if own is None else held.view(own)
    array = plain if halved else plain.view(storage(form))
    if library == "numpy":
        return array.copy()
    import jax.numpy as jnp

    found = jnp.asarray(array)
    if found.dtype != array.dtype:
        raise CheckError(f"JAX makes {found.dtype} of {form.name}: set jax_enable_x64")
    return found


def _in_two(first: Right, then: Right, given: Codes, got: Codes) -> NDArray[np.bool_]:
    return then.judged(first.of(given), got)


def _flushed(codes: Codes, form: Coded) -> Codes:
    """Return codes in which those of subnormal numbers are of zeros of the same sign, if there are two."""
    subnormal = (form.unsigned(codes) < np.uint64(1 << form.mantissa)) & ~form.is_nan(codes)
    return np.where(subnormal, codes & np.uint64(0 if form.specials == "fnuz" else form.sign), codes)


def _shown(code: Any, form: Coded) -> str:
    number = float(form.numbers(np.array([code], np.uint64))[0])
    return f"{number:.9g} ({int(code):#0{2 + -(-form.bits // 4)}x})"
