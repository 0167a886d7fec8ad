"""A target: where and how a kernel runs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import overload

from fuzz.adapters.c_target import CTarget, c_targets
from fuzz.adapters.python_target import PythonTarget, python_targets
from fuzz.adapters.toolchain import Host
from fuzz.base.kernel import CKernel, Kernel


@dataclass(frozen=True)
class TargetId:
    """Which kernel runs where, and how it was built: `c-sve@qemu:vl=256,gcc-O0`, `triton-persistent@interpret`."""

    kind: str
    """of the kernel: that of its adapter."""
    kernel: str
    place: str
    """'native', an emulator, or a device."""
    settings: tuple[tuple[str, str], ...] = ()
    """of the place, such as ("vl", "256")."""
    compiler: str = ""
    opt: str = ""

    @classmethod
    @lru_cache(maxsize=4096)
    def parse(cls, text: str) -> TargetId:
        """The id that `str` wrote. Other text is read as far as it goes: case files may hold anything."""
        head, _, where = text.partition("@")
        kind, dash, kernel = head.partition("-")
        place, _, details = where.partition(":")
        parts = [part for part in details.split(",") if part]
        settings = [part.partition("=")[::2] for part in parts if "=" in part]
        compiler, _, opt = next((part for part in parts if "=" not in part), "").partition("-")
        return cls(kind if dash else "", kernel if dash else head, place, tuple(settings), compiler, opt)

    def __str__(self) -> str:
        return f"{self.implementation}@{self.where}"

    @property
    def implementation(self) -> str:
        """The kernel with its kind, wherever it runs: `c-sve`."""
        return f"{self.kind}-{self.kernel}" if self.kind else self.kernel

    @property
    def where(self) -> str:
        """All but the kernel: `qemu:vl=256,gcc-O0`."""
        details = [*self.set_there, *([f"{self.compiler}-{self.opt}"] if self.compiler else [])]
        return f"{self.place}:{','.join(details)}" if details else self.place

    @property
    def set_there(self) -> tuple[str, ...]:
        """The settings as they are printed: `vl=256`."""
        return tuple(f"{name}={value}" for name, value in self.settings)


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
