"""The adapters by name, which is usually the name of a kind of kernel, and all targets of kernels of any kind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from importlib import import_module

from fuzz.core.adapters.python import PythonAdapter
from fuzz.core.adapters.python_kernel import FRAMEWORKS
from fuzz.core.adapters.target import Adapter, Target
from fuzz.core.adapters.toolchain import Host, this_host
from fuzz.core.base.kernel import Kernel

_MODULES: Mapping[str, str] = {
    "c": "fuzz.core.adapters.c",
    "shared": "fuzz.extras.shared",
    "command": "fuzz.extras.command",
    "cuda": "fuzz.extras.cuda",
    "wasm": "fuzz.extras.wasm",
}
"""The module of each adapter, loaded when a kernel names the adapter. Other adapters are for Python frameworks."""
NAMES = (*_MODULES, *FRAMEWORKS)


@cache
def adapter_named(name: str) -> Adapter:
    """Return the adapter of this name."""
    if name in FRAMEWORKS:
        return PythonAdapter(FRAMEWORKS[name])
    found: Adapter = import_module(_MODULES[name]).ADAPTER
    return found


def adapter_of(kernel: Kernel) -> Adapter:
    """Return the adapter for kernels of this kernel's kind."""
    return adapter_named(kernel.adapter)


def expand(kernels: Iterable[Kernel], host: Host | None = None) -> tuple[Target, ...]:
    """Return every target of these kernels on `host`, by default this machine. Targets that cannot run here are
    included, so that nothing is left out silently."""
    host = host or this_host()
    return tuple(target for kernel in kernels for target in adapter_of(kernel).targets(kernel, host))
