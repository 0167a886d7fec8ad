"""What this machine has: its processor, compilers and emulators; and which package provides what is missing."""

from __future__ import annotations

import ctypes
import platform
import shutil
import subprocess
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

Arch = Literal["x86_64", "aarch64"]
Family = Literal["gcc", "clang"]

ARCHES: tuple[Arch, ...] = ("x86_64", "aarch64")
FAMILIES: tuple[Family, ...] = ("gcc", "clang")


@dataclass(frozen=True)
class Tool:
    """A program that a target needs: found at `path`, or to be had from the Debian or Ubuntu `package`."""

    name: str
    package: str
    path: str | None
    prefix: tuple[str, ...] = ()
    """arguments that always follow the path."""

    @property
    def command(self) -> tuple[str, ...]:
        """The program and its fixed arguments. Only for a tool that was found."""
        assert self.path is not None, f"{self.name} is not installed"
        return (self.path, *self.prefix)

    @property
    def version(self) -> str:
        """First line of what `--version` prints; empty when the tool is missing."""
        return _version(self.path) if self.path is not None else ""

    @property
    def missing(self) -> str | None:
        """Why it cannot be used and how to get it, or None when it is there."""
        return None if self.path is not None else f"{self.name} is not installed (apt-get install {self.package})"


@dataclass(frozen=True)
class Host:
    """The processor this process runs on. `features` use the names of `Attestation.features`."""

    arch: Arch
    features: frozenset[str]
    sve_bits: int = 0
    """vector length of SVE registers, 0 without SVE."""


def compiler(family: Family, arch: Arch, host: Host) -> Tool:
    """The compiler of that family that produces code for `arch` on `host`.

    Clang is a cross compiler by itself, but it links with the other gcc's libraries.
    """
    if arch == host.arch:
        return _find("gcc", "gcc libc6-dev") if family == "gcc" else _find("clang", "clang")
    cross_gcc = _find(f"{arch}-linux-gnu-gcc", f"gcc-{arch.replace('_', '-')}-linux-gnu")
    if family == "gcc" or cross_gcc.path is None:
        return cross_gcc
    return _find("clang", "clang", (f"--target={arch}-linux-gnu",))


def emulator(arch: Arch) -> Tool:
    """QEMU's user-mode emulator for `arch`. Debian's is qemu-ARCH-static; other systems name it qemu-ARCH."""
    static = _find(f"qemu-{arch}-static", "qemu-user-static")
    plain = _find(f"qemu-{arch}", "qemu-user-static")
    return plain if static.path is None and plain.path is not None else static


def program(name: str) -> Tool:
    """A program whose package has its name, such as g++."""
    return _find(name, name)


def families(host: Host) -> tuple[Family, ...]:
    """Compiler families to build with: gcc always, so that its absence shows; clang where it is installed."""
    return tuple(family for family in FAMILIES if family == "gcc" or compiler(family, host.arch, host).path is not None)


def this_host() -> Host:
    """The machine we are on. Raises RuntimeError on an architecture that has no C targets."""
    machine = platform.machine()
    for arch in ARCHES:
        if machine == arch:
            features = _cpu_features()
            return Host(arch, features, _sve_bits() if "sve" in features else 0)
    raise RuntimeError(f"C kernels run on {' and '.join(ARCHES)}, not on {machine}")


def _find(name: str, package: str, prefix: tuple[str, ...] = ()) -> Tool:
    return Tool(name, package, shutil.which(name), prefix)


@lru_cache(maxsize=32)
def _version(path: str) -> str:
    answer = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
    return (answer.stdout.splitlines() or ["unknown version"])[0]


@lru_cache(maxsize=1)
def _cpu_features() -> frozenset[str]:
    """Flags of the first processor in /proc/cpuinfo; aarch64 calls its baseline vectors asimd, we neon."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("flags", "Features"):
            return frozenset("neon" if flag == "asimd" else flag for flag in value.split())
    return frozenset()


def _sve_bits() -> int:
    """Vector length the kernel gives to new processes, by prctl(PR_SVE_GET_VL); its low 16 bits are bytes."""
    pr_sve_get_vl, length_mask = 51, 0xFFFF
    answer = int(ctypes.CDLL(None).prctl(pr_sve_get_vl, 0, 0, 0, 0))
    return (answer & length_mask) * 8 if answer > 0 else 0
