"""The tools of this machine: its processor, compilers and emulators; the packages that provide missing ones; and
libraries of this package with which workers are started."""

from __future__ import annotations

import platform
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from fuzz.core.adapters.isa import ISAS, Emulator, Value, architectures
from fuzz.core.base.packages import how

if TYPE_CHECKING:
    from fuzz.core.adapters.build import Builder

_RENAMED_ARCHES = {"ppc64le": "powerpc64le"}
"""The names of architectures that compilers use, if they differ from those of Linux and QEMU."""


@dataclass(frozen=True)
class Compiler:
    """A family of compilers. {arch} stands for the architecture in names, and for its dashed spelling in packages."""

    program: str
    package: str
    cross: str
    """The program that compiles for another architecture."""
    cross_package: str
    cross_arguments: tuple[str, ...] = ()
    links_with: str = ""
    """The family whose cross compiler provides the libraries."""
    optional: bool = False
    """Whether the compiler may be missing. Then nothing is built with it, and no message says so."""
    usual: bool = True
    """Whether the family builds kernels that name no compiler."""
    links_by: tuple[str, ...] = ()
    """Further options for the linker."""


_WASI = Compiler(
    "clang-19",
    "clang-19",
    "clang-19",
    "clang-19",
    ("--target=wasm32-wasi", "-D_WASI_EMULATED_SIGNAL"),
    usual=False,
    # a stack overflow then ends below address 0, not in other data
    links_by=("-Wl,--stack-first", "-Wl,-z,stack-size=8388608"),
)
COMPILERS: dict[str, Compiler] = {
    "wasi": _WASI,
    "gcc": Compiler("gcc", "gcc libc6-dev", "{arch}-linux-gnu-gcc", "gcc-{arch}-linux-gnu"),
    "clang": Compiler(
        "clang", "clang", "clang", "clang", ("--target={arch}-linux-gnu",), links_with="gcc", optional=True
    ),
    "clang19": Compiler(
        "clang-19", "clang-19", "clang-19", "clang-19", ("--target={arch}-linux-gnu",), links_with="gcc", usual=False
    ),
}
CPP_COMPILERS: dict[str, Compiler] = {
    "wasi": replace(_WASI, program="clang++-19", cross="clang++-19"),
    "gcc": Compiler("g++", "g++", "{arch}-linux-gnu-g++", "g++-{arch}-linux-gnu"),
    "clang": Compiler(
        "clang++", "clang", "clang++", "clang", ("--target={arch}-linux-gnu",), links_with="gcc", optional=True
    ),
    "clang19": Compiler(
        "clang++-19",
        "clang-19",
        "clang++-19",
        "clang-19",
        ("--target={arch}-linux-gnu",),
        links_with="gcc",
        usual=False,
    ),
}
"""The C++ compilers of the same families."""
USUAL = tuple(name for name, row in COMPILERS.items() if row.usual)
"""The families that build kernels which name no compiler."""


@dataclass(frozen=True)
class Tool:
    """A program that a target needs. It was found at `path`, or the Debian or Ubuntu `package` has it."""

    name: str
    package: str
    path: str | None
    prefix: tuple[str, ...] = ()
    """The arguments that always follow the path."""
    optional: bool = False

    @property
    def command(self) -> tuple[str, ...]:
        """The program and its fixed arguments. Only for a tool that was found."""
        assert self.path is not None, f"{self.name} is not installed"
        return (self.path, *self.prefix)

    @property
    def version(self) -> str:
        """The first line of the output of `--version`, or '' if the tool is missing."""
        return _version(self.path) if self.path is not None else ""

    @property
    def missing(self) -> str | None:
        """Why the tool cannot be used and how to install it, or None if it was found."""
        if self.path is not None:
            return None
        if "/" in self.name:  # a file that a user named, which is in no package
            wrong = f"is not executable: chmod +x {self.name}" if Path(self.name).exists() else "does not exist"
            return f"{self.name} {wrong}"
        return f"{self.name} is not installed{how(self.package)}"


@dataclass(frozen=True)
class Host:
    """The processor that this process runs on. `features` uses the names in `CAttestation.features`."""

    arch: str
    features: frozenset[str]
    settings: Mapping[str, Value] = field(default_factory=dict, hash=False)
    """The values of settings that the processor's instruction sets leave open, by the settings' words."""


def compiler(family: str, arch: str, host: Host, language: str = "c") -> Tool:
    """Return the family's compiler that produces code for `arch` on `host`, or a missing tool that this needs."""
    row = (CPP_COMPILERS if language == "c++" else COMPILERS)[family]
    if arch == host.arch:
        return _find(row.program, row.package, optional=row.optional)
    called = _RENAMED_ARCHES.get(arch, arch)
    arguments = tuple(argument.format(arch=called) for argument in row.cross_arguments)
    package = row.cross_package.format(arch=called.replace("_", "-"))
    found = _find(row.cross.format(arch=called), package, arguments, row.optional)
    if row.links_with and (linker := compiler(row.links_with, arch, host, language)).path is None:
        # report both at once, so that nobody installs one only to hear about the other
        both = found.path is None and not found.optional
        return replace(linker, package=f"{linker.package} {package}") if both else linker
    return found


def emulator(row: Emulator, arch: str) -> Tool:
    """Return the emulator's program for `arch`: the first one that is installed, or else the first name."""
    tools = [_find(name.format(arch=arch), row.package) for name in row.programs]
    return next((tool for tool in tools if tool.path is not None), tools[0])


def program(name: str, package: str = "") -> Tool:
    """Return a program. Its package has the same name, such as g++, unless another one is given."""
    return _find(name, package or name)


def families(host: Host) -> tuple[str, ...]:
    """Return the usual families of compilers: gcc in any case, so its absence shows, and clang if it is installed."""
    return tuple(
        name for name in USUAL if not COMPILERS[name].optional or compiler(name, host.arch, host).path is not None
    )


def this_host() -> Host:
    """Return the machine that this process runs on. Raise RuntimeError on an architecture that has no C targets."""
    arch = platform.machine()
    if arch not in architectures():
        raise RuntimeError(f"C kernels run on {' and '.join(architectures())}, not on {arch}")
    features = _cpu_features()
    there = (row for row in ISAS.values() if row.arch == arch and row.features <= features)
    found = {setting.word: setting.here() for row in there for setting in row.settings}
    return Host(arch, features, {word: value for word, value in found.items() if value is not None})


def _find(name: str, package: str, prefix: tuple[str, ...] = (), optional: bool = False) -> Tool:
    return Tool(name, package, shutil.which(name), prefix, optional)


@lru_cache(maxsize=32)
def _version(path: str) -> str:
    answer = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
    return (answer.stdout.splitlines() or ["unknown version"])[0]


_RENAMED = {"asimd": "neon", "asimdhp": "fp16"}
"""The compilers' names of aarch64 features, by Linux's names."""


@lru_cache(maxsize=1)
def _cpu_features() -> frozenset[str]:
    """Return the flags of the first processor in /proc/cpuinfo, renamed by `_RENAMED`."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("flags", "Features"):
            return frozenset(_RENAMED.get(flag, flag) for flag in value.split())
    return frozenset()


_FLAGS = ("-O2", "-std=gnu11", "-shared", "-fPIC")
LINKED = ("-Wl,--no-as-needed", "-lm", "-ldl")
"""Libraries that a kernel may call. They are linked whatever the emulator itself needs."""


def fault_watcher(builder: Builder) -> str:
    """Return the path of the library by which a worker of Python kernels records accesses beyond tensors. Return '' if
    no compiler can build it; such an access then ends the worker."""
    from fuzz.core.adapters.build import NATIVE, machine

    arch = platform.machine()
    headers = [path for path in (NATIVE / "machine.h", NATIVE / f"{arch}.h") if path.is_file()]
    return library(builder, NATIVE.parent / "python" / "faults.c", (machine(arch),), also=headers)


def emulator_helper(builder: Builder, host: Host) -> str:
    """Return the path of the library that makes an emulator faster, or '' if it would not help or cannot be built."""
    if host.arch != "x86_64" or "avx" not in host.features:
        return ""
    return library(builder, Path(__file__).with_name("vzeroupper.c"), ("-mavx", "-fno-builtin"), LINKED)


def library(
    builder: Builder, source: Path, flags: Sequence[str] = (), linked: Sequence[str] = (), also: Sequence[Path] = ()
) -> str:
    """Return the path of the library built from `source`, perhaps before, or '' if no compiler can build it."""
    from fuzz.core.adapters.build import BuildError, digest_of

    tool = next((found for name in COMPILERS if (found := program(name)).path is not None), None)
    if tool is None:
        return ""
    texts = [path.read_text(encoding="utf-8") for path in (source, *also)]
    digest = digest_of([tool.command, tool.version, _FLAGS, flags, linked, *texts])
    words = [*tool.command, *_FLAGS, *flags, str(source), *linked]
    try:
        return str(builder.compiled(f"{source.stem}-{digest[:32]}.so", lambda output: [[*words, "-o", str(output)]]))
    except BuildError:
        return ""
