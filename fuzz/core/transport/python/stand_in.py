"""What stands in for a GPU where Triton's interpreter runs programs on the processor: published wrappers ask torch and
Triton about the GPU, and make their tensors there."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ContextDecorator, nullcontext
from types import SimpleNamespace
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

_CAPABILITY = (9, 0)
_FEW = 4
"""The number of multiprocessors. They are few, so that programs that loop over tiles, one for each multiprocessor, have
several tiles in small cases."""
_SHARED, _REGISTERS = 227 << 10, 1 << 16
_PROPERTIES = SimpleNamespace(
    name="Triton's interpreter", major=_CAPABILITY[0], minor=_CAPABILITY[1], multi_processor_count=_FEW,
    total_memory=80 << 30, warp_size=32, max_threads_per_multi_processor=2048, L2_cache_size=50 << 20,
    shared_memory_per_block=48 << 10, shared_memory_per_block_optin=_SHARED,
    shared_memory_per_multiprocessor=_SHARED + 1024, regs_per_multiprocessor=_REGISTERS,
)  # fmt: skip
_OF_TRITON = {
    "max_shared_mem": _SHARED, "max_num_regs": _REGISTERS, "multiprocessor_count": _FEW, "warpSize": 32,
    "sm_clock_rate": 1_755_000, "mem_clock_rate": 2_619_000, "mem_bus_width": 5120,
}  # fmt: skip
_TOLD = {
    "is_available": True, "device_count": 1, "current_device": 0, "get_device_name": _PROPERTIES.name,
    "get_device_capability": _CAPABILITY, "get_device_properties": _PROPERTIES, "is_bf16_supported": True,
    "synchronize": None, "set_device": None, "device": nullcontext(),
}  # fmt: skip


def stand_in() -> type[OnProcessor]:
    """Make torch and Triton tell of a GPU from now on. The result makes contexts for what runs as if there were one."""
    from triton.backends.compiler import GPUTarget
    from triton.runtime import driver

    for name, value in _TOLD.items():
        setattr(torch.cuda, name, _saying(value, getattr(torch.cuda, name)))
    torch.Tensor.is_cuda = property(lambda _: True)
    driver.set_active(
        SimpleNamespace(
            get_current_target=_saying(GPUTarget("cuda", 10 * _CAPABILITY[0] + _CAPABILITY[1], 32)),
            get_active_torch_device=_saying(torch.device("cpu")),
            get_current_device=_saying(0),
            get_device_interface=_saying(torch.cuda),
            utils=SimpleNamespace(get_device_properties=_saying(_OF_TRITON)),
        )
    )
    return OnProcessor


def _saying(value: Any, truly: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """Return a function that returns this value, whatever it is asked. Torch itself, which would use the GPU to compile
    or to draw random numbers, calls `truly` instead."""

    def said(*args: Any, **options: Any) -> Any:
        caller = sys._getframe(1).f_globals.get("__name__", "").partition(".")[0]
        return truly(*args, **options) if truly is not None and caller == "torch" else value

    return said


class OnProcessor(TorchFunctionMode, ContextDecorator):  # type: ignore[misc]
    """A context in which tensors for the GPU are made in memory of the processor. A call that it decorates enters it in
    whatever thread it is made, and has no frame of this file among its callers."""

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        given = {name: _here(each) if name == "device" else each for name, each in (kwargs or {}).items()}
        if func is torch.Tensor.cuda:
            return args[0]
        return func(*(map(_here, args) if func is torch.Tensor.to else args), **given)


def _here(device: Any) -> Any:
    """Return the processor for a device or the name of a device that is the GPU, and any other argument as it is."""
    is_there = isinstance(device, (torch.device, str)) and torch.device(device).type == "cuda"
    return "cpu" if is_there else device
