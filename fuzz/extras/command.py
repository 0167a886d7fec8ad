"""The adapter of executables that speak the workers' protocol themselves."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fuzz.core.adapters import toolchain
from fuzz.core.adapters.build import Builder, BuildError
from fuzz.core.adapters.command_kernel import CommandKernel
from fuzz.core.adapters.export import Script
from fuzz.core.adapters.target import NO_PROGRAM, Adapter, Attestation, AttestationError, Target, TargetId, sandbox_of
from fuzz.core.adapters.toolchain import Host, Tool
from fuzz.core.base.errors import UsageError
from fuzz.core.base.kernel import Kernel
from fuzz.core.transport.child import command
from fuzz.core.transport.process import Process
from fuzz.core.transport.sandbox import Sandbox

VERSION = "1"
"""The version of the protocol that an executable must name."""
_LIMIT_S, _START_LIMIT_S = 5.0, 60.0


class CommandAdapter(Adapter):
    """Executables that speak the workers' protocol."""

    suffix = NO_PROGRAM

    def targets(self, kernel: Kernel, host: Host) -> Iterator[Target]:
        name = TargetId(kernel.kind, kernel.name, "native")
        yield Target(name, kernel, self, (("processor", f"native {host.arch}"),), _LIMIT_S, arch=host.arch, host=host)

    def unavailable(self, target: Target) -> str | None:
        return next((tool.missing for tool in self.tools(target) if tool.missing is not None), None)

    def tools(self, target: Target) -> tuple[Tool, ...]:
        return tuple(toolchain.program(word) for word in CommandKernel.of(target.kernel).interpreter[:1])

    def program(self, target: Target, builder: Builder) -> CommandProgram:
        known = CommandKernel.of(target.kernel)
        if not known.interpreter and not os.access(known.source, os.X_OK):
            raise BuildError(
                f"{known.source} is not executable: chmod +x, or name what runs it with interpreter=(...,)"
            )
        return CommandProgram(known, _digest(known), sandbox_of(known, known.source.parent))

    def export(self, target: Target, script: Script, about: Sequence[str], name: str) -> str:
        raise UsageError(f"--script: {target.kernel.name} is a program itself: use repro alone")

    def definition(self, kernel: Kernel) -> str:
        return CommandKernel.of(kernel).source.name

    def files(self, kernel: Kernel) -> Mapping[Path, str]:
        known = CommandKernel.of(kernel)
        return {known.source.resolve(): _digest(known)}


def _digest(kernel: CommandKernel) -> str:
    try:
        return hashlib.sha256(kernel.source.read_bytes()).hexdigest()
    except OSError as error:
        raise BuildError(f"cannot read {kernel.source}: {error.strerror}") from error


@dataclass(frozen=True)
class CommandAttestation(Attestation):
    """An executable's own description of itself."""

    program: str
    said: str
    """The lines of its hello that are not part of the protocol, joined into one line."""

    @property
    def words(self) -> str:
        return ", ".join([f"{self.program} {self.digest[:16]}", *([self.said] if self.said else [])])

    @property
    def surroundings(self) -> str:
        return self.said or self.program


@dataclass(frozen=True)
class CommandProgram:
    """An executable, with all that starting it needs."""

    kernel: CommandKernel
    digest: str
    sandbox: Sandbox | None = None
    household = order = ""

    def process(self, limit: float) -> Process:
        kernel = self.kernel
        words = [*kernel.interpreter, str(kernel.source), *kernel.options]
        start = command(words, sandbox=self.sandbox)
        return Process(start, limit, start_limit=_START_LIMIT_S, sandboxed=self.sandbox is not None, foreign=True)

    def bystander(self) -> None:
        return None  # the pack names the program, so a mistake in it is the kernel's own

    def attested(self, hello: str) -> CommandAttestation:
        kernel, lines = self.kernel, dict(line.partition("=")[::2] for line in hello.splitlines())
        for word, wanted in (("protocol", VERSION), ("op", kernel.op)):
            if (said := lines.get(word, "nothing")) != wanted:
                raise BuildError(f"{kernel.source.name}: its hello says {word}={said}, and {wanted} is wanted")
        if _digest(kernel) != self.digest:
            raise AttestationError(f"{kernel.source} is not what it was when the session began")
        own = (f"{name} {value}" for name, value in lines.items() if name not in ("protocol", "op", "pid"))
        return CommandAttestation(self.digest, kernel.source.name, ", ".join(own))


ADAPTER = CommandAdapter()
