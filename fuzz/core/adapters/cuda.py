"""CUDA devices of this machine, queried without creating a context, since a process with a context must not fork. Also
the tools of Compute Sanitizer, each of which makes one more target. For their options and output see NVIDIA's
documentation, "Compute Sanitizer", command line options."""

from __future__ import annotations

import ctypes
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

from fuzz.core.adapters.target import Target
from fuzz.core.base.dispatch import SMALL

VISIBLE = "CUDA_VISIBLE_DEVICES"


@lru_cache(maxsize=1)
def no_cuda_device() -> str | None:
    """Return why there is no CUDA device, or None if there is one. The driver is asked, since torch loads slowly."""
    if _driver_devices() is None:
        return "no CUDA device (the driver, libcuda.so.1, is not installed)"
    return None if visible_devices() else "no CUDA device"


def use_device(name: str) -> None:
    """Make workers that this process starts later see only this device."""
    os.environ[VISIBLE] = name


def visible_devices() -> tuple[str, ...]:
    """Return the CUDA devices that this process can use, each by its name in $CUDA_VISIBLE_DEVICES."""
    count = _driver_devices() or 0
    named = [name for each in os.environ.get(VISIBLE, "").split(",") if (name := each.strip())]
    return tuple(named[:count] if named else map(str, range(count)))


def capability() -> str:
    """Return the compute capability of the first device, such as sm_90, or without a device the oldest of nvcc 13."""
    found = driver_answer()
    return found[1] if found is not None and found[1] else _OLDEST


def _driver_devices() -> int | None:
    found = driver_answer()
    return None if found is None else found[0]


@lru_cache(maxsize=1)
def driver_answer() -> tuple[int, str] | None:
    """Return the number of the driver's devices and the capability of the first, or None without a driver. Both are
    read at once, since in a process forked afterwards the driver answers nothing."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    count, device, major, minor = (ctypes.c_int(0) for _ in range(4))
    if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0 or not count.value:
        return 0, ""
    driver.cuDeviceGet(ctypes.byref(device), 0)
    for attribute, value in zip(_CAPABILITY, (major, minor), strict=True):
        driver.cuDeviceGetAttribute(ctypes.byref(value), attribute, device)
    return count.value, f"sm_{major.value}{minor.value}"


_CAPABILITY = (75, 76)
"""The driver's numbers for two attributes of a device: the major and the minor compute capability."""
_OLDEST = "sm_75"


class _DeviceMemory(ctypes.Structure):
    """The structure nvmlMemory_t of nvml.h."""

    _fields_ = tuple((name, ctypes.c_ulonglong) for name in ("total", "free", "used"))


def free_device_memory() -> tuple[int, ...]:
    """Return the free bytes of each visible CUDA device, as far as they are known. They come from the management
    library, which needs no context: this process must have none when it forks others."""
    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return ()
    if library.nvmlInit_v2() != 0:
        return ()
    found = (_free_memory_of(library, name) for name in visible_devices())
    return tuple(each for each in found if each is not None)


def _free_memory_of(library: ctypes.CDLL, name: str) -> int | None:
    device, memory = ctypes.c_void_p(), _DeviceMemory()
    if name.isdigit():
        failed = library.nvmlDeviceGetHandleByIndex_v2(int(name), ctypes.byref(device))
    else:
        failed = library.nvmlDeviceGetHandleByUUID(name.encode(), ctypes.byref(device))
    failed = failed or library.nvmlDeviceGetMemoryInfo(device, ctypes.byref(memory))
    return None if failed else int(memory.free)


SETTING = "sanitizer"
"""The setting in a target's id that names the target's tool."""
TOOLS = {
    "memcheck": "accesses outside of what is allocated",
    "initcheck": "reads of device memory that nothing was written to",
    "racecheck": "threads of a block that do not wait for one another where they share memory",
}
"""What each tool reports."""
MISSING = "compute-sanitizer is not installed; it comes with NVIDIA's CUDA toolkit"
_TOOLKIT = "/usr/local/cuda/bin"
"""The default folder of the CUDA toolkit, which is often not on the PATH."""
_ONLY = {"memcheck": ("--destroy-on-device-error", "kernel")}
"""Options for one tool. This one makes an access outside of memory end the kernel but not the context. Otherwise the
process would have to be restarted after each error, and torch aborts when it cannot free a tensor."""
_SLOWER = 4
"""The factor on the time limit of a case, since a tool checks each access. Chosen, not measured."""


def sanitized(target: Target) -> Iterator[Target]:
    """Yield the target under each useful tool. It gets small cases, one at a time, so a report belongs to one call."""
    for tool in TOOLS if target.sanitizable else ():
        yield replace(
            target,
            name=replace(target.name, settings=(*target.name.settings, (SETTING, tool))),
            traits=(*target.traits, (SETTING, tool)),
            case_limit=_SLOWER * target.case_limit,
            size_limit=SMALL,
            slow=True,
            specialised=False,  # else each case would be followed by others that use the same program
            batched=False,
            sanitizable=False,
            sanitizer=tool,
        )


def program_of(tool: str) -> tuple[str, ...] | None:
    """Return the command under which a worker runs, without the file for its reports, or None without the tool."""
    found = shutil.which("compute-sanitizer", path=os.pathsep.join([os.environ.get("PATH", ""), _TOOLKIT]))
    # Each report belongs to one call, so their number is not limited. Errors that libraries provoke in the driver on
    # purpose are no fault of the kernel.
    errors = ("--print-limit", "0", "--show-backtrace", "device", "--report-api-errors", "no")
    return None if found is None else (found, "--tool", tool, *errors, *_ONLY.get(tool, ()))
