"""Kernels in executables of their own, which speak the workers' protocol."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from fuzz.core.adapters.build import plain_path
from fuzz.core.base.capability import CONTIGUOUS_F32, Capabilities, DeclarationError
from fuzz.core.base.kernel import PLAIN, Kernel
from oracles.formula.contract import Contract


@dataclass(frozen=True)
class CommandKernel(Kernel):
    """An executable, in any language, that reads cases on stdin and answers on stdout; see
    `fuzz/docs/worker-protocol.md`."""

    name: str
    op: str
    program: Path | str
    """The executable, or the file that its interpreter runs. A relative path starts at the pack's folder."""
    interpreter: tuple[str, ...] = ()
    """The words before the program, such as ("node",) or ("qemu-ppc64le",)."""
    options: tuple[str, ...] = ()
    """The words after the program."""
    contract: Contract = PLAIN
    capabilities: Capabilities = CONTIGUOUS_F32
    edits: tuple[tuple[str, str], ...] = ()
    laws: tuple[str, ...] = ("rerun",)
    summary: str = ""
    keeps: tuple[str, ...] = ()
    untrusted: bool = False
    """Whether the kernel's workers run in a sandbox, because nobody vouches for it."""

    shares_memory: ClassVar[bool] = False  # it is sent elements, without a place in memory

    def __post_init__(self) -> None:
        if not isinstance(self.program, Path | str):
            raise DeclarationError(f"program: {self.program!r} is no path")
        for field in ("interpreter", "options"):
            words = getattr(self, field)
            if not isinstance(words, tuple) or not all(isinstance(word, str) for word in words):
                raise DeclarationError(f"{field}: write a tuple of words, {field}=({words!r},) - mind the comma")
        object.__setattr__(self, "program", Path(self.program))
        super().__post_init__()

    def at(self, folder: Path) -> CommandKernel:
        return replace(self, program=plain_path(folder / self.program))

    @property
    def kind(self) -> str:
        return "command"

    @property
    def source(self) -> Path:  # type: ignore[override]
        return Path(self.program)

    @property
    def written(self) -> tuple[Path, ...]:
        return ()

    @property
    def blamed(self) -> str:
        return f"the program {self.source.name}"

    @property
    def paths(self) -> Iterator[tuple[str, Path]]:
        yield "program", self.source
