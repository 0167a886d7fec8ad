"""What git says about a folder. A command that fails is an error, never an empty answer."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from fuzz.core.base.text import masked, printable

_KEPT = (
    "GIT_CONFIG", "GIT_SSH", "GIT_SSL", "GIT_HTTP", "GIT_PROXY",
    "GIT_ASKPASS", "GIT_EXEC", "GIT_CEILING", "GIT_DISC",
)  # fmt: skip
"""Prefixes of git's variables that say how it reaches a remote and which folders it trusts. All others, such as GIT_DIR
in a hook, GIT_EXTERNAL_DIFF or GIT_TRACE, would change what it is asked, or its answer."""
_SETTINGS = {
    "core.fsmonitor": "false",  # a program of the user's that says which files may have changed
    "core.untrackedCache": "false",
    "diff.relative": "false",
    "log.showSignature": "false",
    "submodule.recurse": "false",
}
DIFF = (
    "--no-color", "--no-ext-diff", "--no-textconv", "--no-renames", "--ignore-submodules=dirty", "-O/dev/null",
    "--inter-hunk-context=0",
)  # fmt: skip
"""Options of each diff, so that it does not depend on the user's configuration."""
_MOST = 300
"""The most characters of git's message that are quoted: about three lines."""


class GitError(Exception):
    """A git command that did not answer. The message says which, and what git said."""

    def __init__(self, command: str, folder: Path, said: str, code: int | None = None) -> None:
        self.code, self.said = code, masked(printable(" ".join(said.split())[:_MOST]))
        super().__init__(f"git {command} failed in {folder}: {self.said or f'exit code {code}'}")


def git(folder: Path, *arguments: str) -> str:
    """Return what git prints in the folder, as text without the last line end. Raises GitError."""
    # names of files, sources and messages can be in any encoding
    return raw(folder, *arguments).decode("utf-8", "surrogateescape").removesuffix("\n")


def raw(folder: Path, *arguments: str) -> bytes:
    """Return what git prints in the folder, whatever its user's settings and environment. Raises GitError."""
    settings = [word for name, value in _SETTINGS.items() for word in ("-c", f"{name}={value}")]
    surroundings = {name: value for name, value in os.environ.items() if name[:4] != "GIT_" or name.startswith(_KEPT)}
    surroundings |= {"GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0"}  # git neither asks nor locks
    surroundings |= {
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_GRAFT_FILE": "/dev/null/none",
    }  # replacement objects are ignored: a commit is what its digest says
    command = ["git", "--no-pager", "--literal-pathspecs", *settings, "-C", str(folder), *arguments]
    try:
        answer = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False, env=surroundings)
    except FileNotFoundError:
        raise GitError(arguments[0], folder, "git is not installed, or not on the PATH") from None
    except OSError as error:
        raise GitError(arguments[0], folder, str(error)) from error
    if answer.returncode:
        raise GitError(arguments[0], folder, os.fsdecode(answer.stderr), answer.returncode)
    return answer.stdout


def said_of(folder: Path, *arguments: str) -> str | None:
    """Return what git prints, or None if it fails: for additions to a report that nothing depends on."""
    try:
        return git(folder, *arguments)
    except GitError:
        return None


def root_of(path: Path) -> Path | None:
    """Return the nearest folder around the path that git calls a repository, by its `.git`, which git itself may refuse
    or be missing to read."""
    return next((folder for folder in (path, *path.parents) if os.path.lexists(folder / ".git")), None)


def commit_of(folder: Path) -> str | None:
    """Return the commit that is checked out around the folder, such as 'b88a1c2', and whether files differ from it."""
    commit = said_of(folder, "rev-parse", "--short", "HEAD")
    if commit is None:
        return None
    status = said_of(folder, "status", "--porcelain", "--untracked-files=no", "--ignore-submodules=none")
    if status is None:
        return f"{commit}, perhaps with changes"
    return f"{commit}, with changes" if status else commit
