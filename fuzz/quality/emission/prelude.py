"""What every emitted kernel begins with: its dtypes, and how they are rounded, loaded and stored.

`float` and `double` hold what has their names. Numbers of any other format are held in a float, and rounded to it after
each operation.
"""

from __future__ import annotations

from collections.abc import Iterator

from oracles.dtypes import DOUBLE, DTYPES, FORMATS, SINGLE, Format, Integer

_NATIVE = (SINGLE.name, DOUBLE.name)
"""The formats that C has, whose types are called as they are."""
HELD = tuple(name for name in FORMATS if name not in _NATIVE)
"""The formats whose numbers are held in a float."""

_HEAD = """
#include "kernelfuzz.h"
#include <stdlib.h>
#include <string.h>
#include <tgmath.h>

#define COMMON static inline __attribute__((unused))

typedef float f32;
typedef double f64;

COMMON f32 float_of(uint32_t bits) {
    f32 value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

COMMON uint32_t bits_of(f32 value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* To nearest, ties to even, in a format of so many bits whose smallest normal number is 2^emin. */
COMMON f64 nearest(f64 value, int precision, int emin, f64 max) {
    if (isnan(value) || isinf(value))
        return value;
    if (value == 0) /* a subnormal float that was made a double is so too, where the processor flushes operands */
        return copysign(0.0, value);
    int exponent;
    frexp(value, &exponent);
    int unit = exponent - precision > emin - precision + 1 ? exponent - precision : emin - precision + 1;
    f64 found = ldexp(nearbyint(ldexp(value, -unit)), unit);
    return fabs(found) > max ? copysign((f64)INFINITY, found) : found;
}

/* A double that was only moved: what a float holds too stays as it is, where a conversion could flush it. */
COMMON f32 kept_f32(f64 value) {
    const f64 units = fabs(value) * 0x1p149;
    if (!(units < 0x1p23) || units != rint(units))
        return (f32)value;
    return float_of((uint32_t)units | (uint32_t)!!signbit(value) << 31);
}

/* To nearest in a format that has the exponents of f32 and lacks so many bits: by its bits, since a conversion to f64
 * could take a subnormal number for zero. */
COMMON f32 nearest_upper(f32 value, int lacks) {
    const uint32_t bits = bits_of(value), step = (uint32_t)1 << lacks, half = step / 2 - 1 + (bits >> lacks & 1);
    return float_of(isnan(value) ? bits | 0x400000 : (bits + half) & ~(step - 1));
}

/* The number of a format of so many bits, of which its exponents are fewer than those of f32. */
COMMON f32 decoded(uint32_t bits, int width, int precision, int emin, int infinities) {
    const uint32_t hidden = (uint32_t)1 << (precision - 1), most = ((uint32_t)1 << (width - precision)) - 1;
    const uint32_t fraction = bits & (hidden - 1), exponent = bits >> (precision - 1) & most;
    const f32 units = (f32)(exponent ? fraction + hidden : fraction);
    f32 size = ldexpf(units, emin - precision + (exponent ? (int)exponent : 1));
    if (exponent == most && (infinities || fraction == hidden - 1))
        size = fraction ? NAN : INFINITY;
    return bits >> (width - 1) ? -size : size;
}

/* Its bits. What is infinite is NaN where the format has no infinity. */
COMMON uint32_t encoded(f32 value, int width, int precision, int emin, int infinities) {
    const uint32_t hidden = (uint32_t)1 << (precision - 1), sign = bits_of(value) >> 31 << (width - 1);
    const uint32_t nan = ((uint32_t)1 << (width - 1)) - 1;
    const f32 size = fabsf(value);
    if (isnan(value) || isinf(value))
        return sign | (isnan(value) || !infinities ? nan : nan - (hidden - 1));
    if (size < ldexpf(1, emin))
        return sign | (uint32_t)ldexpf(size, precision - 1 - emin);
    int exponent;
    f32 mantissa = frexpf(size, &exponent);
    return sign | ((uint32_t)(exponent - emin) * hidden + (uint32_t)ldexpf(mantissa, precision) - hidden);
}
"""
_TAIL = """
COMMON void store_kept(const kf_tensor *t, int64_t at, f64 value) {
    const f32 kept = kept_f32(value);
    if (t->dtype != KF_F64 && kept == value)
        store_f32(t, at, kept);
    else
        store_f64(t, at, value);
}

/* A factor of 'columns' for row r: its own element, or of rank 2 that of row r mod so many. */
COMMON int64_t column(const kf_tensor *t, int64_t r, int64_t i, int64_t n) {
    return t->rank == 2 ? r % t->shape[0] * n + i : i;
}
"""
PLAIN = "#define SATURATED(value, max) (value)\n"
SATURATED = """
#define SATURATED(value, max) \\
    (isinf(value) ? ((value) > 0 ? (max) : -(max)) : (value))
"""


def _is_upper(form: Format) -> bool:
    """Whether a number is the upper bits of a float."""
    return form.emin == SINGLE.emin


def _bits(form: Format) -> str:
    """What `decoded` and `encoded` must know of a format."""
    return f"{8 * form.itemsize}, {form.precision}, {form.emin}, {int(form.infinities)}"


def _nearest(form: Format, value: str) -> str:
    return f"nearest({value}, {form.precision}, {form.emin}, {form.max.hex()})"


def _rounding(form: Format) -> Iterator[str]:
    """The type of a format, and how a double or a float is rounded to it: to NaN where infinity is wanting."""
    name, finite = form.name, _nearest(form, "value")
    yield f"typedef float {name};"
    yield f"COMMON {name} to_{name}(f64 value) {{"
    yield f"    const f64 found = {finite};"
    yield f"    return ({name}){'found' if form.infinities else '(isinf(found) ? NAN : found)'};"
    yield "}"
    own = f"nearest_upper(value, {SINGLE.precision - form.precision})" if _is_upper(form) else f"to_{name}(value)"
    yield f"COMMON {name} round_{name}(f32 value) {{ return {own}; }}"
    yield f"COMMON {name} kept_{name}(f64 value) {{"
    yield "    const f32 kept = kept_f32(value);"
    yield f"    return kept == value ? round_{name}(kept) : to_{name}(value);"
    yield "}"


def _kind(name: str) -> str:
    """The type of elements in memory: unsigned integers where C has no type of the format."""
    return name if name in _NATIVE else f"{'uint' if name in HELD else 'int'}{8 * DTYPES[name].itemsize}_t"


def _element(name: str) -> str:
    return f"(({_kind(name)} *)t->data)[at]"


def _loaded(name: str, into: str) -> str:
    form = FORMATS.get(name)
    if form is None or name not in HELD:
        return f"({into}){_element(name)}"
    if _is_upper(form):
        return f"float_of((uint32_t){_element(name)} << {32 - 8 * form.itemsize})"
    return f"decoded({_element(name)}, {_bits(form)})"


def _stored(name: str, wide: bool) -> str:
    """What a value of f32, or of f64, is in memory: rounded once, and then saturated where that is promised. Of whole
    numbers that an integer does not hold it is nothing."""
    if isinstance(integer := DTYPES[name], Integer):
        return f"value >= {integer.lowest}.0 && value < {integer.highest + 1}.0 ? value : 0"
    form = FORMATS[name]
    if name not in HELD:
        return f"SATURATED(({name})value, {form.max.hex()}{'f' if form is SINGLE else ''})"
    if not _is_upper(form):
        return f"encoded((f32)SATURATED({_nearest(form, 'value')}, {form.max.hex()}), {_bits(form)})"
    rounded = f"{'to' if wide else 'round'}_{name}(value)"
    return f"bits_of(SATURATED({rounded}, {form.max.hex()}f)) >> {32 - 8 * form.itemsize}"


def _switch(head: str, rows: Iterator[str], otherwise: str) -> str:
    cases = "".join(f"    case {row}\n" for row in rows)
    return f"{head} {{\n    switch (t->dtype) {{\n{cases}    default: {otherwise}\n    }}\n}}\n"


def _head() -> str:
    parts = [_HEAD, *("\n".join(_rounding(FORMATS[name])) + "\n" for name in HELD)]
    for into in _NATIVE:
        loads = (f"KF_{name.upper()}: return {_loaded(name, into)};" for name in DTYPES)
        stores = (
            f"KF_{name.upper()}: {_element(name)} = ({_kind(name)})({_stored(name, into == DOUBLE.name)}); break;"
            for name in DTYPES
        )
        parts.append(_switch(f"COMMON {into} load_{into}(const kf_tensor *t, int64_t at)", loads, "return NAN;"))
        parts.append(
            _switch(f"COMMON void store_{into}(const kf_tensor *t, int64_t at, {into} value)", stores, "break;")
        )
    # What is stored in few bits is taken as it is: a conversion from f64 could flush it.
    parts += (
        f"COMMON {name} load_{name}(const kf_tensor *t, int64_t at) {{\n    return t->dtype == KF_F64 ? "
        f"to_{name}({_element(DOUBLE.name)}) : round_{name}(load_f32(t, at));\n}}\n"
        for name in HELD
    )
    return "\n".join([*parts, _TAIL])


HEAD = _head()
