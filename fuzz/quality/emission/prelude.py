"""The first part of every emitted kernel: its dtypes, and how they are rounded, loaded and stored.

`float` and `double` hold the formats with their names. Numbers of any other format are held in a float, and rounded to
it after each operation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from oracles.dtypes import DOUBLE, DTYPES, FORMATS, SINGLE, Format, Integer

_NATIVE = (SINGLE.name, DOUBLE.name)
"""The formats that C has; their types have the same names."""
HELD = tuple(name for name in FORMATS if name not in _NATIVE)
"""The formats whose numbers are held in a float."""


def pieces(name: str) -> Mapping[str, str]:
    """Return the pieces of a file of C beside this one, by the names that it gives them."""
    _, *found = re.split(r"/\* ==== (\w+) \*/\n", Path(__file__).with_name(name).read_text(encoding="utf-8"))
    return dict(zip(found[::2], found[1::2], strict=True))


_COMMON = pieces("prelude.c")
PLAIN = "#define SATURATED(value, max) (value)\n"
SATURATED = """
#define SATURATED(value, max) \\
    (isinf(value) ? ((value) > 0 ? (max) : -(max)) : (value))
"""


def _is_upper(form: Format) -> bool:
    """Whether the format's numbers are the upper bits of a float."""
    return form.emin == SINGLE.emin


def _bits(form: Format) -> str:
    """Return the constants that `decoded` and `encoded` need to know of a format."""
    return f"{8 * form.itemsize}, {form.precision}, {form.emin}, {int(form.infinities)}"


def _nearest(form: Format, value: str) -> str:
    return f"nearest({value}, {form.precision}, {form.emin}, {form.max.hex()})"


def _rounding(form: Format) -> Iterator[str]:
    """Yield the type of a format, and its rounding from a double or a float: to NaN where the format lacks infinity."""
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
    """Return the type of elements in memory: unsigned integers where C has no type of the format."""
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
    """Return how a value of f32, or of f64, is stored: rounded once, then saturated where that is promised. A whole
    number outside the integer's range has no stored value."""
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
    parts = [_COMMON["head"], *("\n".join(_rounding(FORMATS[name])) + "\n" for name in HELD)]
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
    # Values stored in few bits are taken unchanged: a conversion from f64 could flush them.
    parts += (
        f"COMMON {name} load_{name}(const kf_tensor *t, int64_t at) {{\n    return t->dtype == KF_F64 ? "
        f"to_{name}({_element(DOUBLE.name)}) : round_{name}(load_f32(t, at));\n}}\n"
        for name in HELD
    )
    return "\n".join([*parts, _COMMON["tail"]])


HEAD = _head()
