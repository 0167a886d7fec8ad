"""The adapters by name, which is most often that of a kind of kernel, and every target of kernels of any kind."""

from __future__ import annotations

from collections.abc import Iterable

from fuzz.core.adapters.c import CAdapter
from fuzz.core.adapters.command import CommandAdapter
from fuzz.core.adapters.cuda_adapter import CUDA, CudaAdapter
from fuzz.core.adapters.python import PythonAdapter
from fuzz.core.adapters.python_kernel import FRAMEWORKS
from fuzz.core.adapters.shared import SharedAdapter
from fuzz.core.adapters.target import Adapter, Target
from fuzz.core.adapters.toolchain import Host, this_host
from fuzz.core.adapters.wasm import WasmAdapter
from fuzz.core.base.kernel import Kernel

ADAPTERS: dict[str, Adapter] = {
    "c": CAdapter(),
    "shared": SharedAdapter(),
    "command": CommandAdapter(),
    "cuda": CudaAdapter(CUDA),
    "wasm": WasmAdapter(),
    **{name: PythonAdapter(framework) for name, framework in FRAMEWORKS.items()},
}


def adapter_of(kernel: Kernel) -> Adapter:
    """What is done with kernels of its kind."""
    return ADAPTERS[kernel.adapter]


def expand(kernels: Iterable[Kernel], host: Host | None = None) -> tuple[Target, ...]:
    """Every target of these kernels on `host`, by default this one, whether or not it can run here: nothing is left out
    silently."""
    host = host or this_host()
    return tuple(target for kernel in kernels for target in adapter_of(kernel).targets(kernel, host))
