"""The source of a kernel, as reports point to it: the line that defines its function, and the last changed lines."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from fuzz.core.adapters.registry import adapter_of
from fuzz.core.base.git import DIFF, root_of, said_of
from fuzz.core.base.kernel import Kernel
from fuzz.core.base.text import printable

_HUNK = re.compile(r"@@ -\S+ \+(\d+)(?:,\d+)? @@")
_PLAIN = ("--unified=0", *DIFF)
_MOST_LINES = 12
"""The most changed lines in a report: about half a screen."""


@dataclass(frozen=True)
class Location:
    """The place of a kernel's source, as a code host shows it. `path` is relative to the repository."""

    path: str
    line: int


@dataclass(frozen=True)
class SourceChange:
    """The last change to the source of a kernel."""

    title: str
    """The commit and its subject, or a remark that the change is not committed."""
    lines: tuple[tuple[int, str], ...]
    """The line numbers and texts of the lines that were added or changed, at most `_MOST_LINES`."""
    more: int = 0
    """The number of further lines that were changed."""


def change_of(kernel: Kernel, since: str = "") -> SourceChange | None:
    """Return the changes of the kernel's source since a commit; without a commit, those in the working tree, or else
    those of the last commit that touched it. Return None if git knows no change, or not the file."""
    source = kernel.source.resolve()
    folder, name = source.parent, source.name
    if since:
        return _read(f"since {since[:9]}", said_of(folder, "diff", *_PLAIN, since, "--", name))
    if found := _read("not committed", said_of(folder, "diff", *_PLAIN, "HEAD", "--", name)):
        return found
    title = said_of(folder, "log", "-1", "--format=%h %s", "--", name)
    commit = title.partition(" ")[0] if title else ""
    return _read(printable(title or ""), said_of(folder, "show", "--format=", *_PLAIN, commit, "--", name))


def _read(title: str, diff: str | None) -> SourceChange | None:
    """Return the lines that a diff without context adds; None if it adds none."""
    number, added = 0, list[tuple[int, str]]()
    for line in (diff or "").splitlines():
        if hunk := _HUNK.match(line):
            number = int(hunk[1])
        elif number and line.startswith("+"):
            added.append((number, printable(line[1:])))
            number += 1
    return SourceChange(title, tuple(added[:_MOST_LINES]), len(added[_MOST_LINES:])) if added else None


def location_of(kernel: Kernel, change: SourceChange | None = None) -> Location:
    """Return the first changed line of the kernel's source if there is a change, or else the line that defines its
    function, or else line 1."""
    if change is not None:
        return Location(_from_root(kernel.source.resolve()), change.lines[0][0])
    called = re.compile(rf"\b{re.escape(adapter_of(kernel).definition(kernel))}\s*\(")
    for source in (path.resolve() for path in kernel.written):
        lines = source.read_text(encoding="utf-8", errors="replace").splitlines() if source.is_file() else []
        for number, line in enumerate(lines, start=1):
            if called.search(line):
                return Location(_from_root(source), number)
    return Location(_from_root(kernel.source.resolve()), 1)


def _from_root(source: Path) -> str:
    root = root_of(source.parent) or Path.cwd().resolve()
    return source.relative_to(root).as_posix() if source.is_relative_to(root) else source.name
