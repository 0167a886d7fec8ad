"""The tables of errors that standards accept, as rows of platforms that a contract may name: `platform="wgsl"`. Their
ulp is that of the exact result, and none is larger than what a contract calls an ulp. The numbers are those for f32,
except in `opencl-f16`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from fuzz.core.base.platform import Fact, Flushed, InAnyOrder, Inherited, Platform, Unspecified
from oracles.formula.contract import Besides, Within

_VULKAN = "Vulkan specification, Precision and Operation of SPIR-V Instructions"
_WGSL = "WebGPU Shading Language, accuracy of built-in functions"
_CTS = "WebGPU CTS, src/webgpu/util/floating_point.ts"
_OPENCL = "OpenCL CTS, math_brute_force/function_list.cpp at 04033bf"
_RELAXED = f"{_OPENCL}, relaxed"
_UNTESTED = f"{_OPENCL}, a row that is disabled"

# One ulp of 1 is 2^-23.
_SHADED: Mapping[str, tuple[Within | Besides, ...]] = {
    "exp": (Within(3.0, growth=2.0),),
    "exp2": (Within(3.0, growth=2.0),),
    "log": (Within(3.0), Besides(4.0, 0.5, 2.0)),  # 2^-21
    "log2": (Within(3.0), Besides(4.0, 0.5, 2.0)),
    "rsqrt": (Within(2.0),),
    "divide": (Within(2.5),),  # the divisor from 2^-126 to 2^126
    "sin": (Within(0.5, low=-math.pi, high=math.pi), Besides(4096.0)),  # 2^-11
    "cos": (Within(0.5, low=-math.pi, high=math.pi), Besides(4096.0)),
    "atan": (Within(4096.0),),
    "atan2": (Within(4096.0),),
}
"""What Vulkan and WGSL have alike."""
_INHERITED = {
    "sqrt": "1 / rsqrt(x)", "pow": "exp2(p log2(x))", "tan": "sin(x) / cos(x)",
    "asin": "atan2(x, sqrt(1 - x x))", "acos": "atan2(sqrt(1 - x x), x)",
    "sinh": "(exp(x) - exp(-x)) / 2", "cosh": "(exp(x) + exp(-x)) / 2", "tanh": "sinh(x) / cosh(x)",
}  # fmt: skip
_INHERITED_BY_WGSL = {
    "asinh": "log(x + sqrt(x x + 1))", "acosh": "log(x + sqrt(x x - 1))", "atanh": "log((1 + x) / (1 - x)) / 2",
}  # fmt: skip
_POLYNOMIAL = 6.77e-5 * 2.0**23
"""The absolute error of an arcsine or arccosine, in ulp of 1, for kernels that calculate a polynomial."""
_FULL = {
    "acos": 4, "acosh": 4, "asin": 4, "asinh": 4, "atan": 5, "atan2": 6, "atanh": 5, "cbrt": 2, "cos": 4, "cosh": 4,
    "exp": 3, "exp2": 3, "exp10": 3, "expm1": 3, "hypot": 4, "log": 3, "log2": 3, "log10": 3, "log1p": 2, "pow": 16,
    "rsqrt": 2, "sin": 4, "sinh": 4, "sqrt": 3, "tan": 5, "tanh": 5,
}  # fmt: skip
"""The ulp of OpenCL's full profile."""
_HALF = {**dict.fromkeys(_FULL, 2.0), "pow": 4.0, "rsqrt": 1.0, "sqrt": 0.5, "divide": 0.5}
"""The ulp of OpenCL's functions of f16, for kernels that calculate in f16. Half an ulp is correctly rounded."""
_FAST: Mapping[str, tuple[Within | Besides, ...]] = {
    **{name: (Within(4096.0),) for name in ("acos", "asin", "atan")},
    **{name: (Within(3.0, growth=2.0),) for name in ("exp", "exp2")},  # 3 + floor(|2 x|)
    **{name: (Within(8192.0),) for name in ("exp10", "tan", "pow")},  # where they are not made of others
    **{name: (Within(3.0), Besides(4.0, 0.5, 2.0)) for name in ("log", "log2", "log10")},  # 2^-21
    **{name: (Within(0.5, low=-math.pi, high=math.pi), Besides(4096.0)) for name in ("sin", "cos")},  # 2^-11
}
"""What OpenCL's relaxed functions have in place of that."""
_ERRORS = {"erf": 16, "erfc": 16, "tgamma": 16}


def _facts() -> Iterator[Fact]:
    for name, source in (("vulkan", _VULKAN), ("wgsl", _WGSL)):
        yield from (Fact(name, about, value, source) for about, values in _SHADED.items() for value in values)
        yield from (Fact(name, about, Inherited(words), source) for about, words in _INHERITED.items())
        yield Fact(name, "subnormal numbers", Flushed(), source)
        yield Fact(name, "NaN and infinities", Unspecified(), source)
    yield from (Fact("wgsl", about, Inherited(words), _WGSL) for about, words in _INHERITED_BY_WGSL.items())
    yield from (Fact("wgsl", about, Besides(_POLYNOMIAL), f"{_CTS}: 6.77e-5") for about in ("asin", "acos"))
    yield Fact("wgsl", "sums", InAnyOrder(), f"{_CTS}: dot takes the hull over all permutations")
    for name in ("opencl", "opencl-relaxed"):
        fast = _FAST if name == "opencl-relaxed" else {}
        yield from (Fact(name, about, Within(ulp), _OPENCL) for about, ulp in _FULL.items() if about not in fast)
        yield from (Fact(name, about, value, _RELAXED) for about, values in fast.items() for value in values)
        yield from (Fact(name, about, Within(ulp), _UNTESTED) for about, ulp in _ERRORS.items())
        yield Fact(name, "divide", Within(2.5), "OpenCL C specification, relative error as ULP values: x / y")
    yield from (Fact("opencl-f16", about, Within(ulp), f"{_OPENCL}, half") for about, ulp in _HALF.items())
    yield Fact("opencl-relaxed", "tan", Inherited("sin(x) / cos(x)"), f"{_RELAXED}, derived")
    yield Fact("opencl-relaxed", "pow", Inherited("exp2(p log2(x))"), f"{_RELAXED}, derived")
    yield Fact("opencl-relaxed", "NaN and infinities", Unspecified(), "OpenCL C specification: -cl-finite-math-only")


ACCEPTED: tuple[Fact, ...] = tuple(_facts())
"""All rows of the tables."""
TABLES: Mapping[str, Platform] = {
    name: Platform(name, tuple(each for each in ACCEPTED if each.platform == name))
    for name in dict.fromkeys(each.platform for each in ACCEPTED)
}
"""The tables by name."""
