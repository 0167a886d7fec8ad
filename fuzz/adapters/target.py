"""A target: where and how a kernel runs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import overload

from fuzz.adapters.c_target import CTarget, c_targets
from fuzz.adapters.python_target import PythonTarget, python_targets
from fuzz.adapters.toolchain import Host
from fuzz.base.kernel import CKernel, Kernel

Target = CTarget | PythonTarget


@overload
def expand(kernels: Iterable[CKernel], host: Host) -> tuple[CTarget, ...]: ...


@overload
def expand(kernels: Iterable[Kernel], host: Host) -> tuple[Target, ...]: ...


def expand(kernels: Iterable[Kernel], host: Host) -> tuple[Target, ...]:
    """Every target of these kernels, whether or not it can run here: nothing is left out silently."""
    found: list[Target] = []
    for kernel in kernels:
        found += c_targets([kernel], host) if isinstance(kernel, CKernel) else python_targets([kernel])
    return tuple(found)
