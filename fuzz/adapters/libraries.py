"""The libraries of ours that workers are started with."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from pathlib import Path

from fuzz.adapters import toolchain
from fuzz.adapters.build import NATIVE, Builder, BuildError, digest_of, machine
from fuzz.adapters.toolchain import Host

_FLAGS = ("-O2", "-std=gnu11", "-shared", "-fPIC")
LINKED = ("-Wl,--no-as-needed", "-lm", "-ldl")
"""Whose function it calls must be there, whatever the emulator needs by itself."""


def fault_watcher(builder: Builder) -> str:
    """The library by which a worker of Python kernels notes what they touch beyond their tensors: its path. '' where no
    compiler makes it, as where none is installed; then a touch ends the worker."""
    arch = platform.machine()
    headers = [path for path in (NATIVE / "machine.h", NATIVE / f"{arch}.h") if path.is_file()]
    return library(builder, NATIVE.parent / "python" / "faults.c", (machine(arch),), also=headers)


def emulator_helper(builder: Builder, host: Host) -> str:
    """The library that an emulator is started with, to be faster: its path. '' where it is of no use, or no compiler
    makes it."""
    if host.arch != "x86_64" or "avx" not in host.features:
        return ""
    return library(builder, Path(__file__).with_name("vzeroupper.c"), ("-mavx", "-fno-builtin"), LINKED)


def library(
    builder: Builder, source: Path, flags: Sequence[str] = (), linked: Sequence[str] = (), also: Sequence[Path] = ()
) -> str:
    """Return the path of a library that is compiled from this source; '' where no compiler makes it."""
    tool = next((found for name in toolchain.COMPILERS if (found := toolchain.program(name)).path is not None), None)
    if tool is None:
        return ""
    texts = [path.read_text(encoding="utf-8") for path in (source, *also)]
    digest = digest_of([tool.command, tool.version, _FLAGS, flags, linked, *texts])
    words = [*tool.command, *_FLAGS, *flags, str(source), *linked]
    try:
        return str(builder.compiled(f"{source.stem}-{digest[:32]}.so", lambda output: [[*words, "-o", str(output)]]))
    except BuildError:
        return ""
