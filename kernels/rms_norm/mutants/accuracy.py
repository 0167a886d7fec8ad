"""Planted losses of accuracy: results a little off, so that only where little is allowed they are wrong."""

from __future__ import annotations

from fuzz import Mutant

_ROOT = "return 1 / root(total / (real)r->n + (real)call->eps);"
_TOTAL = "        total += x * x;\n"


def _bits(value: str, kept: int) -> str:
    """C: `value` as a float of so many bits; the others are cut off."""
    lost = (1 << (24 - kept)) - 1
    return f"({{ union {{ float f; uint32_t u; }} c = {{.f = {value}}}; c.u &= ~{lost:#x}u; c.f; }})"


def _inaccurate(name: str, base: str, old: str, new: str, trigger: str, provenance: str) -> Mutant:
    caught_as = ("FAIL_NUMERIC", "FAIL_NONFINITE", "FAIL_LAW")
    return Mutant(name, base, ((old, new),), ("*@native:*-O2",), trigger, caught_as, provenance, of_size=True)


MUTANTS: tuple[Mutant, ...] = (
    _inaccurate(
        "weighted-root-in-23-bits", "weighted", _ROOT,
        f"return {_bits('1 / root(total / (real)r->n + (real)call->eps)', 23)};",
        "short rows, where the sum is allowed little", "a reciprocal root a bit short of correct",
    ),
    _inaccurate(
        "weighted-eps-in-21-bits", "weighted", "(real)call->eps)", f"{_bits('call->eps', 21)})",
        "a mean of squares comparable to eps", "eps kept in a narrower format, scaled down",
    ),
    _inaccurate(
        "weighted-total-in-21-bits", "weighted", _TOTAL,
        _TOTAL + f"        if (i % 16 == 15) total = {_bits('total', 21)};\n",
        "n >= 16", "partial sums handed on in a narrower format, scaled down",
    ),
    _inaccurate(
        "weighted-total-in-20-bits", "weighted", _TOTAL,
        _TOTAL + f"        if (i % 64 == 63) total = {_bits('total', 20)};\n",
        "n >= 64", "partial sums stored in a narrow buffer between blocks",
    ),
    _inaccurate(
        "weighted-total-in-17-bits", "weighted", _TOTAL,
        _TOTAL + f"        if (i % 1024 == 1023) total = {_bits('total', 17)};\n",
        "n >= 1024", "partial sums stored in a narrow buffer between long blocks",
    ),
    _inaccurate(
        "weighted-long-rows-in-22-bits", "weighted", _TOTAL,
        _TOTAL + f"        if (i > 1000) total = {_bits('total', 22)};\n",
        "n > 1001", "an accumulator that becomes narrower for long rows",
    ),
    _inaccurate(
        "add-total-in-18-bits", "add-generic",
        "    for (int64_t i = 0; i < n; i++) total += values[i] * values[i];",
        "    for (int64_t i = 0; i < n; i++) {\n        total += values[i] * values[i];\n"
        f"        if (i % 256 == 255) total = {_bits('total', 18)};\n    }}",
        "n >= 256", "partial sums handed from block to block in a narrower format",
    ),
    _inaccurate(
        "backward-projection-in-21-bits", "backward-generic", "    return total / (real)r->n;\n",
        f"    return {_bits('total / (real)r->n', 21)};\n",
        "dy along x, or short rows", "the row's projection stored in a narrower format before it is subtracted",
    ),
    _inaccurate(
        "backward-dw-in-20-bits", "backward-generic", "dw[i] += load(&call->dy, at(r, &call->dy, i)) * h;",
        "{\n            dw[i] += load(&call->dy, at(r, &call->dy, i)) * h;\n"
        f"            if (r->number % 8 == 7) dw[i] = {_bits('dw[i]', 20)};\n        }}",
        "dw over 8 rows or more", "partial gradients of the weight stored in a narrower format between blocks of rows",
    ),
)  # fmt: skip
