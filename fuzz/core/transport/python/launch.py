"""Launches of functions in a cubin, in a worker. Code generated from a prototype calls these functions."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from typing import Any

_STATIC_SHARED_BYTES = 48 << 10
"""The bytes of shared memory above which CUDA requires that a function's limit is raised before a launch."""
_TYPES: dict[str, Any] = {
    "p": ctypes.c_void_p, "f": ctypes.c_float, "d": ctypes.c_double,
    **{f"i{size}": kind for size, kind in
       ((1, ctypes.c_int8), (2, ctypes.c_int16), (4, ctypes.c_int32), (8, ctypes.c_int64))},
}  # fmt: skip
"""The types of arguments: pointers, floats, and integers by their size in bytes."""


class LaunchError(RuntimeError):
    """A function that cannot be launched in this way."""


class CubinFunction:
    """A function of a cubin. It is loaded at its first launch, since the process may have no device before."""

    def __init__(self, cubin: str, symbol: str, name: str, types: Sequence[str]) -> None:
        self._cubin, self._symbol, self._name = cubin, symbol, name
        self._types = tuple(_TYPES[each] for each in types)
        self._function: Any = None
        self._room = _STATIC_SHARED_BYTES

    def __call__(self, grid: Sequence[int], block: Sequence[int], shared: int, *given: Any) -> None:
        """Launch the function after the work that torch has queued. Raise LaunchError."""
        import torch

        if 0 in grid:  # CUDA refuses an empty grid, and callers have nothing to do then
            return
        driver = _driver()
        self._enter(driver)
        if self._function is None:
            module = self._made(driver.cuModuleLoad(os.fsencode(self._cubin)), "loaded")
            self._function = self._made(driver.cuModuleGetFunction(module, self._symbol.encode()), "found")
        if shared > self._room:
            most = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            self._made(driver.cuFuncSetAttribute(self._function, most, shared), f"given {shared} bytes to share")
            self._room = shared
        values = tuple(each.data_ptr() if hasattr(each, "data_ptr") else each or 0 for each in given)
        self._made(
            driver.cuLaunchKernel(
                self._function, *_three(grid), *_three(block), shared, torch.cuda.current_stream().cuda_stream,
                (values, self._types), 0,
            ),
            f"launched with grid={_shown(grid)}, block={_shown(block)}, shared={shared}",
        )  # fmt: skip

    def _enter(self, driver: Any) -> None:
        """Make the device's context, which torch uses too, current in this thread, which may be a new one."""
        if int(self._made(driver.cuCtxGetCurrent(), "asked for")) == 0:
            self._made(
                driver.cuCtxSetCurrent(self._made(driver.cuDevicePrimaryCtxRetain(0), "given a device")), "entered"
            )

    def _made(self, answer: tuple[Any, ...], what: str) -> Any:
        """Return the result of a call of the driver. Raise LaunchError, which says what failed, for an error."""
        error, *found = answer
        if int(error) != 0:
            said = _driver().cuGetErrorString(error)[1]
            words = said.decode() if isinstance(said, bytes) else "unknown error"
            raise LaunchError(f"{self._name} cannot be {what}: {words} ({getattr(error, 'name', error)})")
        return found[0] if found else None


def _driver() -> Any:
    from cuda.bindings import driver

    return driver


def _three(size: Sequence[int]) -> tuple[int, ...]:
    return (*size, 1, 1)[:3]


def _shown(size: Sequence[int]) -> str:
    return str(tuple(size)) if len(size) > 1 else str(size[0])


def cdiv(whole: int, part: int) -> int:
    """Return the quotient, rounded up."""
    return -(-whole // part)


def extent(tensor: Any, from_end: int) -> int:
    """Return the extent of a dimension, counted from the last one; 1 if the tensor has no such dimension."""
    return int(tensor.shape[-from_end]) if from_end <= tensor.dim() else 1


def rows(tensor: Any, own: int) -> int:
    """Return the number of rows of a tensor whose last `own` dimensions form one row."""
    count = 1
    for size in tensor.shape[: tensor.dim() - own]:
        count *= int(size)
    return count


def stride(tensor: Any) -> int:
    """Return the distance in elements from one row of a tensor to the next."""
    sizes = [*zip(tensor.shape, tensor.stride(), strict=True)][:-1]
    return next((int(step) for size, step in reversed(sizes) if size > 1), extent(tensor, 1))
