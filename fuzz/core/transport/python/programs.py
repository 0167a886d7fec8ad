"""The programs that Triton compiles for kernels, by its own keys, noted in a file that all workers of a run add to."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Programs:
    """The distinct programs that ran."""

    compiled: int
    """How many were compiled."""
    cached: int
    """How many were there already."""

    @property
    def count(self) -> int:
        return self.compiled + self.cached

    def __str__(self) -> str:
        return f"{self.count:,} programs, {self.cached:,} of them from the cache"


@cache
def note_programs(file: str) -> None:
    """Note each program that this process makes or finds from now on. A Triton that tells nothing is older than 3.4."""
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
    """Return the digest of source, constants, types, alignment, options and target under which Triton keeps a
    program."""
    found = metadata["hash"] if isinstance(metadata, dict) else metadata.hash
    return str(found)


def programs_in(file: Path) -> Programs:
    """Count the programs of a file. One that a process compiled counts so, whoever found it in the cache then."""
    lines = [line.split() for line in file.read_text(encoding="utf-8").splitlines()]
    compiled = {key for key, how in lines if how == "compiled"}
    return Programs(len(compiled), len({key for key, _ in lines} - compiled))
