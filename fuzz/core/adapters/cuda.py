"""The CUDA devices of this machine, as far as they can be told without a context: with one, a process must not fork;
and the tools that watch a kernel on one, each as one more target of it.

How a tool is asked for, and what it writes: NVIDIA's documentation, "Compute Sanitizer", command line options.
"""

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
    """Why there is no CUDA device, or None when there is one. The driver is asked: importing torch takes seconds."""
    if _driver_devices() is None:
        return "no CUDA device (the driver, libcuda.so.1, is not installed)"
    return None if visible_devices() else "no CUDA device"


def use_device(name: str) -> None:
    """Have the workers that this process starts use that device alone."""
    os.environ[VISIBLE] = name


def visible_devices() -> tuple[str, ...]:
    """Return the CUDA devices that there are for this process, each as $CUDA_VISIBLE_DEVICES names it alone."""
    count = _driver_devices() or 0
    named = [name for each in os.environ.get(VISIBLE, "").split(",") if (name := each.strip())]
    return tuple(named[:count] if named else map(str, range(count)))


def capability() -> str:
    """Return what compilers call the first device, such as sm_90; without one the oldest that nvcc 13 knows."""
    found = _driver()
    return found[1] if found is not None and found[1] else _OLDEST


def _driver_devices() -> int | None:
    found = _driver()
    return None if found is None else found[0]


@lru_cache(maxsize=1)
def _driver() -> tuple[int, str] | None:
    """How many devices the driver has, and what compilers call the first; None where there is no driver. All is asked
    at once: in a process that is forked afterwards the driver answers nothing."""
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
"""The attributes of a device that have its capability, major and minor."""
_OLDEST = "sm_75"


class _DeviceMemory(ctypes.Structure):
    """nvmlMemory_t of nvml.h."""

    _fields_ = tuple((name, ctypes.c_ulonglong) for name in ("total", "free", "used"))


def free_device_memory() -> tuple[int, ...]:
    """Return the free bytes of each visible CUDA device that something tells of. The management library is asked: it
    needs no context, and this process must not have one when others are forked."""
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
"""The setting of a target's place that names its tool."""
TOOLS = {
    "memcheck": "accesses outside of what is allocated",
    "initcheck": "reads of device memory that nothing was written to",
    "racecheck": "threads of a block that do not wait for one another where they share memory",
}
"""What each tool sees."""
MISSING = "compute-sanitizer is not installed; it comes with NVIDIA's CUDA toolkit"
_TOOLKIT = "/usr/local/cuda/bin"
"""The CUDA toolkit installs itself here, often without being on the PATH."""
_ONLY = {"memcheck": ("--destroy-on-device-error", "kernel")}
"""The options of one tool. A stray access ends the kernel, not the context with all that is in it: the process would
have to be started again after each, and torch aborts where it cannot free a tensor."""
_SLOWER = 4
"""Its limit of a case is so much longer: a tool looks at each access. The number is chosen, not measured."""


def sanitized(target: Target) -> Iterator[Target]:
    """The target under each of the tools, if they are of use to it. It is given small cases one after the other, so
    that each report is of one call."""
    for tool in TOOLS if target.sanitizable else ():
        yield replace(
            target,
            name=replace(target.name, settings=((SETTING, tool),)),
            traits=(*target.traits, (SETTING, tool)),
            case_limit=_SLOWER * target.case_limit,
            size_limit=SMALL,
            slow=True,
            specialised=False,  # or each case would be followed by others of its program
            batched=False,
            sanitizable=False,
            sanitizer=tool,
        )


def program_of(tool: str) -> tuple[str, ...] | None:
    """The command that a worker runs under, without the file for its reports; None without such a command."""
    found = shutil.which("compute-sanitizer", path=os.pathsep.join([os.environ.get("PATH", ""), _TOOLKIT]))
    # Each report is of a call of its own, so that no number of them is enough. What libraries ask of the driver in vain
    # is no fault of the kernel.
    errors = ("--print-limit", "0", "--show-backtrace", "device", "--report-api-errors", "no")
    return None if found is None else (found, "--tool", tool, *errors, *_ONLY.get(tool, ()))
