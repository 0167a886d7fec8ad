"""Targets of Python kernels: one kernel, on one device, compiled or interpreted."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib.util import find_spec

from fuzz.adapters.toolchain import Tool, program
from fuzz.base.dispatch import SMALL, Largest
from fuzz.base.kernel import DEVICES, Device, PythonKernel
from oracles.numerics import Numerics

INSTALL = "pip install 'kernelfuzz[torch]'"


@dataclass(frozen=True)
class PythonTarget:
    """A kernel on a device: 'interpret' (Triton's interpreter), 'cpu' or 'cuda'."""

    kernel: PythonKernel
    device: Device

    @cached_property
    def id(self) -> str:
        """Such as `triton-persistent@interpret`."""
        return f"{self.kernel.framework}-{self.kernel.name}@{self.device}"

    @property
    def numerics(self) -> Numerics:
        return self.kernel.numerics

    @property
    def mode(self) -> str:
        """How its code must be seen to run."""
        if self.kernel.framework == "torch":
            return "torch"
        return "interpreted" if self.device == "interpret" else "compiled"

    @property
    def case_limit(self) -> float:
        """Seconds. The first call of a compiled kernel compiles it, and a whole frame is in flight on a GPU."""
        return 120.0 if self.device == "cuda" else 30.0 if self.device == "interpret" else 60.0

    @property
    def largest(self) -> Largest | None:
        """The largest case that it is given in a search: the interpreter needs milliseconds for each program."""
        return SMALL if self.device == "interpret" else None

    @property
    def slow(self) -> bool:
        """A case takes it hundreds of times as long as other targets, so that they are spared some."""
        return self.device == "interpret" or self.kernel.slow

    @property
    def batched(self) -> bool:
        """Cases of one frame are launched together, so that a death does not tell which of them caused it."""
        return self.device == "cuda"

    @property
    def checked(self) -> bool:
        """Tools that check device memory are of use to it."""
        return self.device == "cuda"

    @property
    def programs(self) -> tuple[Tool, ...]:
        """What it needs beside its packages; of no use without these."""
        wanted = () if self.device == "cuda" or self._missing_package() is not None else self.kernel.programs
        return tuple(program(name) for name in wanted)

    def unavailable(self) -> str | None:
        """Why this target cannot run here and how to get it, or None when it can."""
        missing = self._missing_package()
        if missing is None and self.device == "cuda":
            missing = no_cuda_device()
        return missing or next((tool.missing for tool in self.programs if tool.missing), None)

    def _missing_package(self) -> str | None:
        for package in dict.fromkeys(("torch", self.kernel.framework)):
            if find_spec(package) is None:
                return f"{package} is not installed: {INSTALL}"
        return None


def python_targets(kernels: Iterable[PythonKernel]) -> tuple[PythonTarget, ...]:
    """Every target of these kernels, whether or not it can run here."""
    return tuple(
        PythonTarget(kernel, device) for kernel in kernels for device in kernel.devices or DEVICES[kernel.framework]
    )


@lru_cache(maxsize=1)
def no_cuda_device() -> str | None:
    """Why there is no CUDA device, or None when there is one. The driver is asked: importing torch takes seconds."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return "no CUDA device (the driver, libcuda.so.1, is not installed)"
    count = ctypes.c_int(0)
    if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0 or count.value == 0:
        return "no CUDA device"
    return None
