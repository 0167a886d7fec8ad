"""The adapter of kernels in shared libraries: the worker is a few lines of C that load a library and call its
function."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path

from fuzz.core.adapters import linking
from fuzz.core.adapters.build import Builder, BuildError
from fuzz.core.adapters.c import CAdapter, CAttestation, CProgram
from fuzz.core.adapters.isa import ISAS
from fuzz.core.adapters.linking import Library
from fuzz.core.adapters.prototyped_kernel import SharedKernel
from fuzz.core.adapters.sites import Site, sites
from fuzz.core.adapters.target import AttestationError, Target, TargetId
from fuzz.core.adapters.toolchain import Host
from fuzz.core.base.kernel import Kernel

_MACHINES: Mapping[bytes, str] = {
    bytes((2, 1, 62, 0)): "x86_64",
    bytes((2, 1, 183, 0)): "aarch64",
    bytes((1, 1, 3, 0)): "i386",
    bytes((1, 1, 62, 0)): "x32",
    bytes((1, 1, 40, 0)): "arm",
    bytes((2, 1, 243, 0)): "riscv64",
    bytes((1, 1, 243, 0)): "riscv32",
    bytes((2, 1, 21, 0)): "ppc64le",
    bytes((2, 2, 21, 0)): "ppc64",
    bytes((2, 2, 22, 0)): "s390x",
    bytes((2, 1, 2, 1)): "loongarch64",
}
"""The names of architectures, by class, byte order and machine as in ELF headers."""
_WORD_BITS = {1: 32, 2: 64}
"""The size of a word in bits, by the class in an ELF header."""


class SharedAdapter(CAdapter):
    """The adapter of kernels in shared libraries. Their compiler is unknown, and the compiler of the calling lines does
    not matter, so there is one target for each site."""

    def targets(self, kernel: Kernel, host: Host) -> Iterator[Target]:
        known = SharedKernel.of(kernel)
        arch = _arch(known)
        found = [each for each in sites(known.isa, known.beside, host) if each.arch == arch]
        for site in found or [Site(ISAS[known.isa].arch or host.arch)]:
            yield Target(
                TargetId(kernel.kind, kernel.name, site.name, site.told), kernel, self, site.traits,
                site.case_limit, site.size_limit("O2"), arch=site.arch, emulator=site.emulator, own=site.own,
                settings=site.settings, host=host, flags=("-O2", *site.flags),
            )  # fmt: skip

    kind = "shared"

    def unavailable(self, target: Target) -> str | None:
        known = SharedKernel.of(target.kernel)
        try:
            library = _library(known)
        except BuildError:
            return None  # building its program reports the error, as a fault of the kernel
        arch = _MACHINES.get(library.machine, "")
        if arch == target.arch:
            return super().unavailable(target)
        bits = _WORD_BITS.get(library.machine[0], 0)
        what = f"{bits}-bit code for {arch or 'a machine that is not known here'}"
        return f"{library.path.name} is {what}, and a worker here is 64-bit code for {target.arch}"

    def program(self, target: Target, builder: Builder) -> SharedProgram:
        library = _library(SharedKernel.of(target.kernel))
        if not library.shared:
            raise BuildError(f"{library.path} is no shared library")
        made = super().program(target, builder)
        return SharedProgram(**vars(made), library=library)

    def definition(self, kernel: Kernel) -> str:
        return SharedKernel.of(kernel).function.name

    def files(self, kernel: Kernel) -> Mapping[Path, str]:
        known = SharedKernel.of(kernel)
        return {path.resolve(): linking.library(path, known.compiled.binaries).digest for _, path in known.paths}


def _library(kernel: SharedKernel) -> Library:
    return linking.library(kernel.source, kernel.compiled.binaries)


def _arch(kernel: SharedKernel) -> str:
    """Return the architecture of the library; '' if it is unknown."""
    try:
        return _MACHINES.get(_library(kernel).machine, "")
    except BuildError:
        return ""


@dataclass(frozen=True)
class SharedProgram(CProgram):
    """A worker executable that loads a shared library."""

    library: Library | None = None
    compiled_here = False

    def attested(self, hello: str) -> CAttestation:
        found = super().attested(hello)
        assert self.library is not None
        if found.unloadable:
            raise BuildError(f"{self.library.path.name}: {_why(found.unloadable, self.library)}")
        if self.library.changed:
            raise AttestationError(f"{self.library.path} is not what it was when the session began")
        return replace(found, loaded=f"{self.library.path.name} {self.library.digest[:16]}")


_LACKS = re.compile(r"(?P<name>\S+): cannot open shared object file: No such file or directory")
_UNDEFINED = re.compile(r"undefined symbol: (?P<name>\w+)")


def _why(said: str, library: Library) -> str:
    """Return why the library cannot be called, from the loader's message."""
    if said.startswith("no symbol "):
        wanted = said.removeprefix("no symbol ")
        close = next(iter(_names_like(wanted, library.path)), "")
        mangled = ', which is of C++: declare it extern "C", or write that name' if close.startswith("_Z") else ""
        return (
            f"it has no function {wanted!r}{f': did you mean {close!r}' if close else ''}{mangled}{'?' * bool(close)}"
        )
    if (lacks := _LACKS.search(said)) and Path(lacks["name"]) != library.path:
        return f"it needs {lacks['name']}, which is not found: name it with before=(...), or set its rpath"
    if undefined := _UNDEFINED.search(said):
        return f"it needs {undefined['name']!r}, which no library that it names has: load one with before=(...)"
    return said


def _names_like(wanted: str, path: Path) -> list[str]:
    """Return the names in the library that contain the wanted one, or else a similar name."""
    names = {each.decode() for each in re.findall(rb"(?<=\0)[A-Za-z_]\w+(?=\0)", path.read_bytes())}
    holding = sorted((each for each in names if wanted in each), key=len)
    return holding or get_close_matches(wanted, names, 1, cutoff=0.8)


ADAPTER = SharedAdapter()
