"""Launches of functions in a cubin, in a worker: the code that is generated from a prototype calls these."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from typing import Any

_STATIC_SHARED_BYTES = 48 << 10
"""A function must be told if it has more shared memory than this."""
_TYPES: dict[str, Any] = {
    "p": ctypes.c_void_p, "f": ctypes.c_float, "d": ctypes.c_double,
    **{f"i{size}": kind for size, kind in
       ((1, ctypes.c_int8), (2, ctypes.c_int16), (4, ctypes.c_int32), (8, ctypes.c_int64))},
}  # fmt: skip
"""The types of arguments: pointers, floats, and integers by their bytes."""


class LaunchError(RuntimeError):
    """A function that cannot be launched like this."""


class CubinFunction:
    """A function of a cubin. It is loaded when it is first launched: earlier, the process may have no device."""

    def __init__(self, cubin: str, symbol: str, name: str, types: Sequence[str]) -> None:
        self._cubin, self._symbol, self._name = cubin, symbol, name
        self._types = tuple(_TYPES[each] for each in types)
        self._function: Any = None
        self._room = _STATIC_SHARED_BYTES

    def __call__(self, grid: Sequence[int], block: Sequence[int], shared: int, *given: Any) -> None:
        """Launch it after what torch has queued. Raises LaunchError."""
        import torch

        if 0 in grid:  # CUDA refuses such a grid, and every caller leaves it out
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
        """Make the device's context, which is torch's too, current in this thread: the kernel may be called from a new
        one."""
        if int(self._made(driver.cuCtxGetCurrent(), "asked for")) == 0:
            self._made(
                driver.cuCtxSetCurrent(self._made(driver.cuDevicePrimaryCtxRetain(0), "given a device")), "entered"
            )

    def _made(self, answer: tuple[Any, ...], what: str) -> Any:
        """Return what the driver made. Raises LaunchError, which says what failed."""
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
    """Return a quotient that is rounded up."""
    return -(-whole // part)


def extent(tensor: Any, from_end: int) -> int:
    """Return the extent of a dimension, counted from the last one."""
    return int(tensor.shape[-from_end]) if from_end <= tensor.dim() else 1


def rows(tensor: Any, own: int) -> int:
    """Return how many rows a tensor has; its last `own` dimensions are the row's own."""
    count = 1
    for size in tensor.shape[: tensor.dim() - own]:
        count *= int(size)
    return count


def stride(tensor: Any) -> int:
    """Return the elements from one row of a tensor to the next."""
    sizes = [*zip(tensor.shape, tensor.stride(), strict=True)][:-1]
    return next((int(step) for size, step in reversed(sizes) if size > 1), extent(tensor, 1))
