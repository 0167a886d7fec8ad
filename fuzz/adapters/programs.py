"""Programs: what a target's worker processes are started from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from fuzz.adapters import c_attestation
from fuzz.adapters.build import Binary, Builder
from fuzz.adapters.c_target import CTarget
from fuzz.adapters.python_program import python_program
from fuzz.adapters.target import Target
from fuzz.base.attestation import Attestation
from fuzz.transport.process import Process, command


class Program(Protocol):
    """Starts worker processes of one target, and knows what they have to be."""

    def process(self, limit: float) -> Process:
        """Start one. Raises OSError."""
        ...

    def attested(self, hello: str) -> Attestation:
        """What a process said of itself.

        Raises AttestationError where that is not what the target asks for, Unavailable where the target turns out not
        to run here, BuildError where its kernel cannot be loaded.
        """
        ...


@dataclass(frozen=True)
class CProgram:
    """A worker executable with a C kernel linked in."""

    target: CTarget
    binary: Binary

    def process(self, limit: float) -> Process:
        return Process(command([*self.target.prefix, str(self.binary.path)]), limit)

    def attested(self, hello: str) -> Attestation:
        found = c_attestation.parse(hello)
        c_attestation.check(found, self.target, self.binary.digest)
        return found


class Programs:
    """Makes the programs of targets, into `cache`; those of CUDA kernels run under `tool`. Safe for many threads."""

    def __init__(self, cache: Path | None, jobs: int | None, tool: tuple[str, ...] = ()) -> None:
        self._builder = Builder(cache, jobs)
        self._tool = tool

    def stop(self) -> None:
        """Kill what is building."""
        self._builder.stop()

    def program(self, target: Target) -> Program:
        """The program of `target`, built unless the cache has it. Raises BuildError."""
        if isinstance(target, CTarget):
            return CProgram(target, self._builder.build(target))
        return python_program(target, self._builder.cache, self._tool if target.checked else ())
