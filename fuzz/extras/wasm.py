"""The adapter of C kernels in WebAssembly: the worker is a module, which the host program of an engine runs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

from fuzz.core.adapters import toolchain
from fuzz.core.adapters.build import Builder
from fuzz.core.adapters.c import CAdapter, CAttestation, CProgram
from fuzz.core.adapters.c_build import compilers_of
from fuzz.core.adapters.export import Script
from fuzz.core.adapters.target import Target, Unavailable
from fuzz.core.adapters.toolchain import Tool
from fuzz.core.base.errors import UsageError
from fuzz.core.transport import child
from fuzz.core.transport.process import Process

_HOSTS = Path(child.__file__).parent
_LIBRARIES = {
    "wasi-libc": Path("/usr/lib/wasm32-wasi/libc.a"),
    "libclang-rt-19-dev-wasm32": Path("/usr/lib/llvm-19/lib/clang/19/lib/wasi/libclang_rt.builtins-wasm32.a"),
}
"""The libraries to link with, by Debian package. They are listed as tools only if they are missing, as they report no
version."""
_START_LIMIT_S = 30.0
_MISSING = "missing="
"""The beginning of a host's hello if its engine cannot run the module."""


class WasmAdapter(CAdapter):
    """The adapter of C kernels in WebAssembly."""

    def unavailable(self, target: Target) -> str | None:
        if _engine(target) != "node" and find_spec("wasmtime") is None:
            return "wasmtime is not installed (pip install wasmtime)"
        return super().unavailable(target)

    def tools(self, target: Target) -> tuple[Tool, ...]:
        libraries = (Tool(name, name, None) for name, path in _LIBRARIES.items() if not path.exists())
        engines = [replace(toolchain.program("node", "nodejs"), optional=True)] if _engine(target) == "node" else []
        return (*compilers_of(target), toolchain.program("wasm-ld-19", "lld-19"), *libraries, *engines)

    def program(self, target: Target, builder: Builder) -> WasmProgram:
        return WasmProgram(**vars(super().program(target, builder)))

    def export(self, target: Target, script: Script, about: Sequence[str], name: str) -> str:
        raise UsageError(f"--script: {target.kernel.name} is run by a host of an engine: use repro itself")


def _engine(target: Target) -> str:
    """Return the engine and its mode, from the target's settings."""
    return next(str(value) for setting, value in target.settings if setting.word == "engine")


@dataclass(frozen=True)
class WasmProgram(CProgram):
    """A worker that is a WebAssembly module."""

    @property
    def command(self) -> tuple[str, ...]:
        engine = _engine(self.target)
        if engine == "node":
            return ("node", "--no-warnings", str(_HOSTS / "wasm_host.mjs"), str(self.path))
        return (sys.executable, str(_HOSTS / "wasm_host.py"), engine, str(self.path))

    def process(self, limit: float, start_limit: float | None = None) -> Process:
        start = child.command(self.command, sandbox=self.sandbox)
        return Process(start, limit, start_limit=start_limit or _START_LIMIT_S, sandboxed=self.sandbox is not None)

    def bystander(self) -> None:
        return None  # the host reports what it cannot run

    def attested(self, hello: str) -> CAttestation:
        if hello.startswith(_MISSING):
            raise Unavailable(hello.removeprefix(_MISSING))
        return super().attested(hello)


ADAPTER = WasmAdapter()
