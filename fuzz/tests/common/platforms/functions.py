"""How the functions of each platform are called: with arrays of f32, of which they return one."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fuzz.core.adapters.build import Builder
from fuzz.core.adapters.toolchain import LINKED, library
from fuzz.extras.cuda import cubin_of

F32 = NDArray[np.float32]
Call = Callable[[F32, F32], F32]
SQUARE_PLUS = "square_plus"
"""x x + y, whose product may be rounded or not."""
SUM = "sum"
_UNARY = ("exp", "exp2", "expm1", "log", "log2", "log1p", "tanh", "sqrt")
_OF_C = (*_UNARY, "sin", "cos", "erf", "atan", "divide", "add", "multiply", SQUARE_PLUS)
_OF_TORCH = (*_UNARY, "sin", "cos", "erf", "atan", "rsqrt", "sigmoid")
_OF_TRITON = ("exp", "exp2", "log", "log2", "sin", "cos", "erf", "sigmoid", "sqrt", "rsqrt")
_OF_LIBDEVICE = ("tanh", "expm1", "log1p", "atan")
_OTHERS = ("divide", "add", "multiply", SQUARE_PLUS)


def calls_of(platform: str) -> Mapping[str, Call]:
    """Return the functions of a platform by what is called, such as "rsqrt" or "rsqrt as 1 / sqrt". Raises what its
    libraries raise, where one is missing."""
    kind, _, place = platform.partition("@")
    return _KINDS[kind](place)


def halves_of(platform: str) -> Mapping[str, Call]:
    """Return what a platform calculates of 16 bits, as it documents: of all numbers of f16, and of a sum."""
    if not platform.startswith("torch"):
        return {}
    import torch

    place = platform.partition("@")[2]

    def of(function: Any) -> Call:
        return lambda x, y: np.asarray(function(torch.from_numpy(x).to(place).half()).float().cpu().numpy())

    return {"exp": of(torch.exp), "tanh": of(torch.tanh), SUM: of(lambda x: x.sum().reshape(1))}


def bf16_of(platform: str) -> Mapping[str, Call]:
    """Return what a platform calculates of bf16, by what facts call it: of a subnormal x and of ones the results are
    subnormal."""
    if not platform.startswith("torch"):
        return {}
    import torch

    place = platform.partition("@")[2]

    def of(function: Any) -> Call:
        def called(x: F32, y: F32) -> F32:
            tensors = (torch.from_numpy(each).to(place).bfloat16() for each in (x, y))
            return np.asarray(function(*tensors).float().cpu().numpy())

        return called

    return {
        **{name: of(lambda x, y, name=name: getattr(torch, name)(x)) for name in ("tanh", "expm1", "log1p", "sin")},
        "erf": of(lambda x, y: torch.nn.functional.gelu(x)),
        "add": of(lambda x, y: x + 0 * y),
        "multiply": of(lambda x, y: x * y),
        "divide": of(lambda x, y: x / y),
        "dot": of(lambda x, y: (x[:, None] @ y.repeat(2)[None])[:, 0]),  # a small one is of torch itself
        SUM: of(lambda x, y: x[:1].sum().reshape(1)),
    }


def _of_numpy(place: str) -> Mapping[str, Call]:
    def of(function: Any) -> Call:
        return lambda x, y: np.asarray(function(x), dtype=np.float32)

    one = np.float32(1)
    return {
        **{name: of(getattr(np, name)) for name in (*_UNARY, "sin", "cos")},
        "atan": of(np.arctan),
        "rsqrt as 1 / sqrt": lambda x, y: one / np.sqrt(x),
        "divide": lambda x, y: x / y,
        "add": lambda x, y: x + y,
        "multiply": lambda x, y: x * y,
        SQUARE_PLUS: lambda x, y: x * x + y,
    }


def _of_torch(place: str) -> Mapping[str, Call]:
    import torch

    def of(function: Any) -> Call:
        def called(x: F32, y: F32) -> F32:
            tensors = (torch.from_numpy(each.copy()).to(place) for each in (x, y))
            found: F32 = function(*tensors).cpu().numpy()
            return found

        return called

    return {
        **{name: of(lambda x, y, name=name: getattr(torch, name)(x)) for name in _OF_TORCH},
        "rsqrt as 1 / sqrt": of(lambda x, y: 1 / torch.sqrt(x)),
        "divide": of(lambda x, y: x / y),
        "add": of(lambda x, y: x + y),
        "multiply": of(lambda x, y: x * y),
        SQUARE_PLUS: of(lambda x, y: x * x + y),
    }


def _of_c(place: str) -> Mapping[str, Call]:
    path = library(Builder(), Path(__file__).with_name("mathematics.c"), ("-fno-builtin",), LINKED)
    if not path:
        raise OSError("no compiler of C is here: kernelfuzz doctor --install")
    loaded = ctypes.CDLL(path)

    def of(name: str) -> Call:
        function = loaded[f"kf_{name}"]
        function.restype = None

        def called(x: F32, y: F32) -> F32:
            arrays = [np.ascontiguousarray(each, dtype=np.float32) for each in (x, y)]
            found = np.empty_like(arrays[0])
            pointers = [ctypes.c_void_p(each.ctypes.data) for each in (*arrays, found)]
            function(*pointers, ctypes.c_long(found.size))
            return found

        return called

    return {name: of(name) for name in _OF_C}


def _of_triton(place: str) -> Mapping[str, Call]:
    import torch

    from fuzz.tests.common.platforms import triton_functions

    device = "cuda" if place == "cuda" else "cpu"

    def of(name: str, *, library: bool = False) -> Call:
        def called(x: F32, y: F32) -> F32:
            a, b = (torch.from_numpy(np.ascontiguousarray(each)).to(device) for each in (x, y))
            found = torch.empty_like(a)
            triton_functions.call(name, a, b, found, library=library)
            array: F32 = found.cpu().numpy()
            return array

        return called

    found = {name: of(name) for name in (*_OF_TRITON, *_OTHERS)}
    found["rsqrt as 1 / sqrt"] = of("one over sqrt")
    if place == "cuda":  # the interpreter has no library of a device
        found |= {name: of(name, library=True) for name in _OF_LIBDEVICE}
    return found


def _of_cuda(*flags: str) -> Mapping[str, Call]:
    import torch

    from fuzz.core.transport.python.launch import CubinFunction, cdiv

    cubin = cubin_of(Path(__file__).with_name("functions.cu"), flags, Builder())

    def of(name: str) -> Call:
        program = CubinFunction(str(cubin), f"kf_{name}", name, ["p", "p", "p", "i4"])

        def called(x: F32, y: F32) -> F32:
            a, b = (torch.from_numpy(np.ascontiguousarray(each)).to("cuda") for each in (x, y))
            found = torch.empty_like(a)
            program((cdiv(a.numel(), 256),), (256,), 0, a, b, found, a.numel())
            array: F32 = found.cpu().numpy()
            return array

        return called

    # Nothing that holds for all arguments is documented of these where they are fast.
    names = [each for each in (*_OF_C, "rsqrt", "sigmoid") if not flags or each not in ("log", "log2", "sin", "cos")]
    return {**{name: of(name) for name in names}, "rsqrt as 1 / sqrt": of("one_over_sqrt")}


_KINDS: Mapping[str, Callable[[str], Mapping[str, Call]]] = {
    "numpy": _of_numpy, "torch": _of_torch, "c": _of_c, "triton": _of_triton,
    "cuda": lambda place: _of_cuda(), "cuda --use_fast_math": lambda place: _of_cuda("--use_fast_math"),
}  # fmt: skip
