"""The programs that Triton compiles for kernels, by its own keys. All workers of a session append them to one file."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Programs:
    """How many distinct programs ran."""

    compiled: int
    """The number of programs that were compiled."""
    cached: int
    """The number of programs that were in the cache already."""

    @property
    def count(self) -> int:
        return self.compiled + self.cached

    def __str__(self) -> str:
        return f"{self.count:,} programs, {self.cached:,} of them from the cache"


@cache
def note_programs(file: str) -> None:
    """Append each program that this process compiles or finds from now on. Do nothing with Triton before 3.4, which
    does not report them."""
    try:
        from triton import knobs
    except ImportError:
        return
    descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
    before = knobs.compilation.listener

    def listen(**told: Any) -> None:
        os.write(descriptor, f"{_key(told['metadata'])} {'cached' if told['cache_hit'] else 'compiled'}\n".encode())
        if before is not None:
            before(**told)

    knobs.compilation.listener = listen


def _key(metadata: Any) -> str:
    """Return the digest by which Triton keeps a program: of source, constants, types, alignment, options and target."""
    found = metadata["hash"] if isinstance(metadata, dict) else metadata.hash
    return str(found)


def programs_in(file: Path) -> Programs:
    """Count the programs in a file. One that some process compiled counts as compiled, even if others found it."""
    lines = [line.split() for line in file.read_text(encoding="utf-8").splitlines()]
    compiled = {key for key, how in lines if how == "compiled"}
    return Programs(len(compiled), len({key for key, _ in lines} - compiled))
