"""Instruction sets and emulators as rows of data. A new one is a row here and what `native/attest.c` observes of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Flags = Mapping[str, tuple[str, ...]]
"""Compiler flags by family of compilers."""


@dataclass(frozen=True, eq=False)
class Emulator:
    """A program that runs the code of another processor."""

    place: str
    """The place as targets' ids say it."""
    programs: tuple[str, ...]
    """The names that systems know it by; the first one that is installed is used."""
    package: str
    limits: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The options by architecture that bound what the guest may do to its host."""
    hides_preload: tuple[str, ...] = ()
    """The options by which the guest does not see that a library was preloaded; without any, none is."""
    attested: frozenset[str] = frozenset({"tcg", "unknown"})
    """What a worker may observe of what it runs on; 'none' is hardware."""


QEMU = Emulator(
    "qemu",
    # The one that is linked dynamically takes a library of ours, with which it is faster; see `emulator_helper`.
    ("qemu-{arch}", "qemu-{arch}-static"),
    "qemu-user",
    # Without a bound on its memory a guest that asks for more than the worker's own limit keeps QEMU searching for a
    # free range until it times out; an x86-64 guest needs its vsyscall page beyond any bound.
    {"aarch64": ("-R", "4G")},
    ("-U", "LD_PRELOAD"),
)


@dataclass(frozen=True, eq=False)
class InstructionSet:
    """What code for an instruction set asks of compilers, processors and emulators."""

    arch: str | None
    """The architecture; None for portable code, which runs on any."""
    flags: Flags = field(default_factory=dict)
    features: frozenset[str] = frozenset()
    """The processor features that the flags let the compiler use. The worker must attest them all."""
    emulator: Emulator | None = QEMU
    """The emulator that has it; None where none does, or where to emulate it shows nothing new."""
    processor: tuple[str, ...] = ("-cpu", "max")
    """Options by which the emulator takes a processor that has it; {bytes} and {bits} stand for the vector length."""
    always_emulated: bool = False
    """Whether it is emulated also where the real processor is here, and not only in its place."""
    vector_lengths: tuple[int, ...] = ()
    """The lengths of scalable vectors in bits: where it is emulated, it is run once at each. The worker must attest the
    one asked for."""


def _alike(*flags: str) -> Flags:
    """The same flags for gcc and for clang."""
    return dict.fromkeys(("gcc", "clang"), flags)


ISAS: dict[str, InstructionSet] = {
    "any": InstructionSet(None, emulator=None),
    "runtime": InstructionSet(None),
    # The translator is one more implementation of each instruction.
    "avx2": InstructionSet(
        "x86_64", _alike("-mavx2", "-mfma", "-mf16c"), frozenset({"avx2", "fma", "f16c"}), always_emulated=True
    ),
    "avx512": InstructionSet(
        "x86_64", _alike("-mavx512f", "-mfma", "-mf16c"), frozenset({"avx512f", "fma", "f16c"}), emulator=None
    ),
    "neon": InstructionSet("aarch64", features=frozenset({"neon"})),
    "sve": InstructionSet(
        "aarch64",
        _alike("-march=armv8.2-a+sve"),
        frozenset({"neon", "sve"}),
        # In bytes. sveNNN=on does not set the length: it is silently capped.
        processor=("-cpu", "max,sve-default-vector-length={bytes}"),
        always_emulated=True,
        vector_lengths=(128, 256, 384, 512, 1024, 2048),  # 384 is legal and no power of two
    ),
}
"""The instruction sets by the name that a kernel's declaration gives. 'any' is portable C; 'runtime' picks instructions
when it runs, so that it is tried on every architecture."""


def architectures() -> tuple[str, ...]:
    """Every architecture that some instruction set is of."""
    return tuple(dict.fromkeys(row.arch for row in ISAS.values() if row.arch is not None))
