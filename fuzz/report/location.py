"""Where a kernel's source is, as a code host shows it: a path from the root of the repository, and a line."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from fuzz.adapters.registry import adapter_of
from fuzz.base.kernel import Kernel


@dataclass(frozen=True)
class Location:
    """A line of a file. `path` is relative to the repository where the file lies in one."""

    path: str
    line: int


def location_of(kernel: Kernel) -> Location:
    """The line that defines the kernel's function; the first one where it cannot be found."""
    source = kernel.source.resolve()
    name = adapter_of(kernel).definition(kernel)
    lines = source.read_text(encoding="utf-8", errors="replace").splitlines() if source.is_file() else []
    found = [number for number, line in enumerate(lines, start=1) if re.search(rf"\b{re.escape(name)}\s*\(", line)]
    return Location(_from_root(source), found[0] if found else 1)


def _from_root(source: Path) -> str:
    root = next((folder for folder in source.parents if (folder / ".git").exists()), Path.cwd().resolve())
    return source.relative_to(root).as_posix() if source.is_relative_to(root) else source.name
