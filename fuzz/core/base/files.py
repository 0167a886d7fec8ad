"""Files that are written whole or not at all, damaged files that are set aside, and folders that cannot be written."""

from __future__ import annotations

import os
from pathlib import Path


def write_whole(path: Path, content: str) -> None:
    """Write a text file. It appears whole or not at all: a full disk or a kill leaves no half file."""
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(content, encoding="utf-8", errors="replace")
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def set_aside(path: Path) -> Path:
    """Rename a damaged file, so that nothing is lost and a new file can take its place. Return the new name."""
    number = 1
    while os.path.lexists(aside := path.with_name(f"{path.name}.broken-{number}")):
        number += 1
    path.rename(aside)
    return aside


def unwritable(folder: Path) -> Path | None:
    """Return the folder, or its nearest parent that exists, if it cannot be written to, else None."""
    existing = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    return None if existing.is_dir() and os.access(existing, os.W_OK) else existing
