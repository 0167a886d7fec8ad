"""Targets of C kernels: one kernel, built one way, on one real or emulated processor."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal

from fuzz.adapters import toolchain
from fuzz.adapters.toolchain import Arch, Family, Host, Tool
from fuzz.base.dispatch import Largest
from fuzz.base.kernel import CKernel, Isa
from oracles.numerics import Numerics

Opt = Literal["O0", "O2"]

OPTS: tuple[Opt, ...] = ("O0", "O2")
SVE_BITS: tuple[int, ...] = (128, 256, 384, 512, 1024, 2048)
"""vector lengths that SVE kernels are emulated at; 384 is legal and no power of two."""
GUEST_LIMIT: Mapping[Arch, tuple[str, ...]] = {"aarch64": ("-R", "4G"), "x86_64": ()}
"""QEMU options that bound the guest's memory. Without them a guest that asks for more than the worker's own limit keeps
QEMU searching for a free range until it times out; an x86-64 guest needs its vsyscall page beyond any bound."""


@dataclass(frozen=True)
class IsaFacts:
    """What an instruction set asks for."""

    arch: Arch
    flags: tuple[str, ...]
    """of gcc and of clang."""
    features: frozenset[str]
    """processor features that the flags let the compiler use."""
    emulated: bool = True
    """QEMU's user mode has it."""


ISAS: dict[Isa, IsaFacts] = {
    "avx2": IsaFacts("x86_64", ("-mavx2", "-mfma", "-mf16c"), frozenset({"avx2", "fma", "f16c"})),
    "avx512": IsaFacts(
        "x86_64", ("-mavx512f", "-mfma", "-mf16c"), frozenset({"avx512f", "fma", "f16c"}), emulated=False
    ),
    "neon": IsaFacts("aarch64", (), frozenset({"neon"})),
    "sve": IsaFacts("aarch64", ("-march=armv8.2-a+sve",), frozenset({"neon", "sve"})),
}


@dataclass(frozen=True)
class CTarget:
    """Where and how a kernel runs. `vector_bits` is set for scalable vectors only."""

    case_limit: ClassVar[float] = 5.0
    """seconds; a busy machine is slow, an endless loop is endless."""
    slow: ClassVar[bool] = False
    batched: ClassVar[bool] = False
    """every case is answered before the next one starts: silence names the culprit."""

    kernel: CKernel
    host: Host
    arch: Arch
    emulated: bool
    compiler: Family = "gcc"
    opt: Opt = "O2"
    vector_bits: int | None = None

    @property
    def largest(self) -> Largest | None:
        """The largest case that it is given in a search: what is emulated or not optimised is slow, and what is both
        takes several microseconds for each row, so that it is spared the cases of very many."""
        if self.emulated:
            return Largest(1 << 20, 1 << (17 if self.opt == "O2" else 15))
        return Largest(1 << 22, 1 << 20, far=True) if self.opt == "O0" else None

    @cached_property
    def id(self) -> str:
        """Such as `c-sve@qemu:vl=256,gcc-O0`; unique among the targets of one host."""
        details = [f"{self.compiler}-{self.opt}"]
        if self.vector_bits is not None:
            details.insert(0, f"vl={self.vector_bits}")
        if self.emulated and self.kernel.isa not in ISAS:
            details.insert(0, f"arch={self.arch}")
        return f"c-{self.kernel.name}@{'qemu' if self.emulated else 'native'}:{','.join(details)}"

    @cached_property
    def numerics(self) -> Numerics:
        """The kernel's numerics at this vector length."""
        return self.kernel.numerics.at(self.vector_bits)

    @property
    def features(self) -> frozenset[str]:
        """Processor features without which the kernel must not be called."""
        return ISAS[self.kernel.isa].features if self.kernel.isa in ISAS else frozenset()

    @property
    def flags(self) -> tuple[str, ...]:
        """Compiler flags of the kernel's object."""
        isa = ISAS[self.kernel.isa].flags if self.kernel.isa in ISAS else ()
        return (f"-{self.opt}", *isa, *self.kernel.flags)

    @property
    def compiler_tool(self) -> Tool:
        return toolchain.compiler(self.compiler, self.arch, self.host)

    @property
    def prefix(self) -> tuple[str, ...]:
        """What to put before the worker's path to run it.

        The vector length is set in bytes by sve-default-vector-length: sveNNN=on does not, it is silently capped.
        """
        if not self.emulated:
            return ()
        cpu = "max" if self.vector_bits is None else f"max,sve-default-vector-length={self.vector_bits // 8}"
        return (*toolchain.emulator(self.arch).command, *GUEST_LIMIT[self.arch], "-cpu", cpu)

    def unavailable(self) -> str | None:
        """Why this target cannot run here and how to get it, or None when it can."""
        if not self.emulated and self.arch != self.host.arch:
            return f"needs a {self.arch} processor with {' '.join(sorted(self.features))}; QEMU does not have it"
        missing = sorted(self.features - self.host.features)
        if not self.emulated and missing:
            return f"this processor has no {' '.join(missing)}"
        tools = [self.compiler_tool, toolchain.emulator(self.arch)] if self.emulated else [self.compiler_tool]
        return "; ".join(tool.missing for tool in tools if tool.missing is not None) or None


def c_targets(kernels: Iterable[CKernel], host: Host) -> tuple[CTarget, ...]:
    """Every target of these kernels, whether or not it can run here."""
    families = toolchain.families(host)
    return tuple(
        CTarget(kernel, host, arch, emulated, family, opt, bits)
        for kernel in kernels
        for arch, emulated, bits in _places(kernel.isa, host)
        for family in families
        for opt in OPTS
    )


def _places(isa: Isa, host: Host) -> Iterator[tuple[Arch, bool, int | None]]:
    """Where code of that instruction set runs: architecture, emulated or not, scalable vector length."""
    if isa not in ISAS:
        yield host.arch, False, None
        if isa == "runtime":
            yield from ((arch, True, None) for arch in toolchain.ARCHES if arch != host.arch)
        return
    facts = ISAS[isa]
    if facts.arch == host.arch or not facts.emulated:
        yield facts.arch, False, host.sve_bits if isa == "sve" else None
    if isa == "sve":
        yield from ((facts.arch, True, bits) for bits in SVE_BITS)
    elif facts.emulated and (isa == "avx2" or facts.arch != host.arch):
        # AVX2 is emulated even where it is native: the translator is one more implementation of each instruction.
        yield facts.arch, True, None
