"""What the worker of a C kernel says it is, checked against what its target asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fuzz.adapters.c_target import CTarget
from fuzz.base.attestation import Attestation, AttestationError


@dataclass(frozen=True)
class CAttestation(Attestation):
    """What a worker observed about its processor, and what its compiler wrote into it."""

    arch: str
    features: frozenset[str]
    """instruction sets that the processor has and the operating system enables."""
    needs: frozenset[str]
    """instruction sets that the compiler was free to use in the kernel."""
    vector_bits: int
    """width of its vector registers, read back from the hardware."""
    emulator: str
    """'tcg' under QEMU's translator, 'none', or 'unknown'."""
    compiler: str
    """of the kernel's own object."""
    flags: str
    page: int
    """bytes."""
    flushes: bool
    """subnormals were flushed to zero when the worker started."""

    @property
    def words(self) -> str:
        where = "on hardware" if self.emulator == "none" else "emulated"
        uses = " ".join(sorted(self.needs)) or "baseline instructions"
        width = f", vectors of {self.vector_bits} bits" if "sve" in self.needs else ""
        return f"{self.arch} {where}, {uses}{width}, {self.compiler}"


def parse(text: str) -> CAttestation:
    """Read the `name=value` lines of a hello frame."""
    lines: Mapping[str, str] = dict(line.split("=", 1) for line in text.splitlines())
    return CAttestation(
        arch=lines["arch"],
        features=frozenset(lines["features"].split()),
        needs=frozenset(lines["needs"].split()),
        vector_bits=int(lines["vector_bits"]),
        emulator=lines["emulator"],
        compiler=lines["compiler"],
        flags=lines["flags"],
        digest=lines["digest"],
        page=int(lines["page"]),
        flushes=lines["flushes"] == "yes",
    )


def check(found: CAttestation, target: CTarget, digest: str) -> None:
    """Raise AttestationError where `found` is not what `target` and the build's `digest` ask for."""
    wrong = []
    if found.arch != target.arch:
        wrong.append(f"architecture {target.arch} was requested, the worker runs on {found.arch}")
    if target.vector_bits is not None and found.vector_bits != target.vector_bits:
        wrong.append(f"vectors of {target.vector_bits} bits were requested, the worker has {found.vector_bits}")
    missing = sorted((target.features | found.needs) - found.features)
    if missing:
        wrong.append(f"{' '.join(missing)} was requested, the worker has {' '.join(sorted(found.features))}")
    if target.emulated and found.emulator == "none":
        wrong.append("an emulator was requested, the worker runs on hardware")
    if found.digest != digest:
        wrong.append(f"code {digest[:16]} was requested, the worker runs {found.digest[:16]}")
    if wrong:
        raise AttestationError(f"{target.id}: {'; '.join(wrong)}")
