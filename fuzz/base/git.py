"""What git says of a folder, where there is one."""

from __future__ import annotations

import subprocess
from pathlib import Path


def git(folder: Path, *arguments: str) -> str | None:
    """Return what git prints in the folder, or None where it fails or is not there."""
    try:
        answer = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, check=False)
    except FileNotFoundError:
        return None
    # Sources and messages are in any encoding.
    return answer.stdout.decode("utf-8", "replace").strip("\n") if answer.returncode == 0 else None


def commit_of(folder: Path) -> str | None:
    """Return the commit that is checked out around the folder, such as 'b88a1c2', and whether files differ from it."""
    commit = git(folder, "rev-parse", "--short", "HEAD")
    if commit is None:
        return None
    return f"{commit}, with changes" if git(folder, "status", "--porcelain", "--untracked-files=no") else commit
