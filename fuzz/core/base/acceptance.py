"""The tables of errors that standards accept, as rows of platforms that a contract may name: `platform="wgsl"`. Their
ulp is that of the exact result, and none is larger than what a contract calls an ulp. The numbers are those for f32,
except in `opencl-f16` and `wgsl-f16`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from fuzz.core.base.platform import Fact, Inherited, May, Platform
from oracles.formula.contract import Besides, Within

_Bound = Within | Besides
_VULKAN = "Vulkan specification, Precision and Operation of SPIR-V Instructions"
_WGSL = "WebGPU Shading Language, accuracy of built-in functions"
_CTS = "WebGPU CTS, src/webgpu/util/floating_point.ts"
_OPENCL = "OpenCL CTS, math_brute_force/function_list.cpp at 04033bf"
_RELAXED = f"{_OPENCL}, relaxed"
_UNTESTED = f"{_OPENCL}, a row that is disabled"


def _shaded(exponential: float, next_to_1: float, turn: float, arctangent: float) -> Mapping[str, tuple[_Bound, ...]]:
    log = (Within(3.0), Besides(next_to_1, 0.5, 2.0))
    sine = (Within(0.5, low=-math.pi, high=math.pi), Besides(turn))
    return {
        **dict.fromkeys(("exp", "exp2"), (Within(exponential, growth=2.0),)),
        **dict.fromkeys(("log", "log2"), log),
        "rsqrt": (Within(2.0),),
        "divide": (Within(2.5),),  # the divisor from 2^-126 to 2^126, in f16 from 2^-14 to 2^14
        **dict.fromkeys(("sin", "cos"), sine),
        **dict.fromkeys(("atan", "atan2"), (Within(arctangent),)),
    }


_SHADED = _shaded(3.0, 4.0, 4096.0, 4096.0)  # 2^-21 and 2^-11; one ulp of 1 is 2^-23
"""What Vulkan and WGSL have alike."""
_SHADED_HALF = _shaded(1.0, 8.0, 8.0, 5.0)  # 2^-7; one ulp of 1 is 2^-10
"""What WGSL has for f16."""
_INHERITED = {
    "sqrt": "1 / rsqrt(x)", "pow": "exp2(p log2(x))", "tan": "sin(x) / cos(x)",
    "asin": "atan2(x, sqrt(1 - x x))", "acos": "atan2(sqrt(1 - x x), x)",
    "sinh": "(exp(x) - exp(-x)) / 2", "cosh": "(exp(x) + exp(-x)) / 2", "tanh": "sinh(x) / cosh(x)",
}  # fmt: skip
_INHERITED_BY_WGSL = {
    "asinh": "log(x + sqrt(x x + 1))", "acosh": "log(x + sqrt(x x - 1))", "atanh": "log((1 + x) / (1 - x)) / 2",
}  # fmt: skip
_POLYNOMIAL = {
    "wgsl": {"asin": 6.81e-5 * 2.0**23, "acos": 6.77e-5 * 2.0**23, "tanh": 1e-5 * 2.0**23},
    "wgsl-f16": {"asin": 3.91e-3 * 2.0**10, "acos": 3.91e-3 * 2.0**10, "tanh": 1e-5 * 2.0**10},
}
"""The absolute errors, in ulp of 1, that WGSL accepts besides, for kernels that calculate a polynomial."""
_FULL = {
    "acos": 4, "acosh": 4, "asin": 4, "asinh": 4, "atan": 5, "atan2": 6, "atanh": 5, "cbrt": 2, "cos": 4, "cosh": 4,
    "exp": 3, "exp2": 3, "exp10": 3, "expm1": 3, "hypot": 4, "log": 3, "log2": 3, "log10": 3, "log1p": 2, "pow": 16,
    "rsqrt": 2, "sin": 4, "sinh": 4, "sqrt": 3, "tan": 5, "tanh": 5,
}  # fmt: skip
"""The ulp of OpenCL's full profile."""
_HALF = {**dict.fromkeys(_FULL, 2.0), "pow": 4.0, "rsqrt": 1.0, "sqrt": 0.5, "divide": 0.5}
"""The ulp of OpenCL's functions of f16, for kernels that calculate in f16. Half an ulp is correctly rounded."""
_FAST: Mapping[str, tuple[_Bound, ...]] = {
    **{name: (Within(4096.0),) for name in ("acos", "asin", "atan")},
    **{name: (Within(3.0, growth=2.0),) for name in ("exp", "exp2")},  # 3 + floor(|2 x|)
    **{name: (Within(8192.0),) for name in ("exp10", "tan", "pow")},  # where they are not made of others
    **{name: (Within(3.0), Besides(4.0, 0.5, 2.0)) for name in ("log", "log2", "log10")},  # 2^-21
    **{name: (Within(0.5, low=-math.pi, high=math.pi), Besides(4096.0)) for name in ("sin", "cos")},  # 2^-11
}
"""What OpenCL's relaxed functions have in place of that."""
_ERRORS = {"erf": 16, "erfc": 16, "tgamma": 16}


def _facts() -> Iterator[Fact]:
    for name, shaded, source in (
        ("vulkan", _SHADED, _VULKAN), ("wgsl", _SHADED, _WGSL), ("wgsl-f16", _SHADED_HALF, f"{_WGSL}, f16"),
    ):  # fmt: skip
        yield from (Fact(name, about, value, source) for about, values in shaded.items() for value in values)
        yield from (Fact(name, about, Inherited(words), source) for about, words in _INHERITED.items())
        yield Fact(name, "subnormal numbers", May.FLUSH, source)
        yield Fact(name, "NaN and infinities", May.UNSPECIFIED, source)
    for name, errors in _POLYNOMIAL.items():
        yield from (Fact(name, about, Inherited(words), _WGSL) for about, words in _INHERITED_BY_WGSL.items())
        yield from (Fact(name, about, Besides(error), _WGSL) for about, error in errors.items())
        yield Fact(name, "sums", May.ANY_ORDER, f"{_CTS}: dot takes the hull over all permutations")
    for name in ("opencl", "opencl-relaxed"):
        fast = _FAST if name == "opencl-relaxed" else {}
        yield from (Fact(name, about, Within(ulp), _OPENCL) for about, ulp in _FULL.items() if about not in fast)
        yield from (Fact(name, about, value, _RELAXED) for about, values in fast.items() for value in values)
        yield from (Fact(name, about, Within(ulp), _UNTESTED) for about, ulp in _ERRORS.items())
        yield Fact(name, "divide", Within(2.5), "OpenCL C specification, relative error as ULP values: x / y")
    yield from (Fact("opencl-f16", about, Within(ulp), f"{_OPENCL}, half") for about, ulp in _HALF.items())
    yield Fact("opencl-relaxed", "tan", Inherited("sin(x) / cos(x)"), f"{_RELAXED}, derived")
    yield Fact("opencl-relaxed", "pow", Inherited("exp2(p log2(x))"), f"{_RELAXED}, derived")
    yield Fact("opencl-relaxed", "NaN and infinities", May.UNSPECIFIED, "OpenCL C specification: -cl-finite-math-only")


ACCEPTED: tuple[Fact, ...] = tuple(_facts())
"""All rows of the tables."""
TABLES: Mapping[str, Platform] = {
    name: Platform(name, tuple(each for each in ACCEPTED if each.platform == name))
    for name in dict.fromkeys(each.platform for each in ACCEPTED)
}
"""The tables by name."""
