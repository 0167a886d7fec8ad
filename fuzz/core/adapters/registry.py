"""The adapters by name, which is most often that of a kind of kernel, and every target of kernels of any kind."""

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
"""The module of each adapter, which is loaded when a kernel names it. The others are of frameworks in Python."""
NAMES = (*_MODULES, *FRAMEWORKS)


@cache
def adapter_named(name: str) -> Adapter:
    """Return the adapter of that name."""
    if name in FRAMEWORKS:
        return PythonAdapter(FRAMEWORKS[name])
    found: Adapter = import_module(_MODULES[name]).ADAPTER
    return found


def adapter_of(kernel: Kernel) -> Adapter:
    """Return what acts on kernels of its kind."""
    return adapter_named(kernel.adapter)


def expand(kernels: Iterable[Kernel], host: Host | None = None) -> tuple[Target, ...]:
    """Return every target of these kernels on `host`, by default this one, whether or not it can run here: nothing is
    left out silently."""
    host = host or this_host()
    return tuple(target for kernel in kernels for target in adapter_of(kernel).targets(kernel, host))
