"""Answers of git about a folder. A command that fails is an error, never an empty answer."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from fuzz.core.base.text import masked, printable

_KEPT = (
    "GIT_CONFIG", "GIT_SSH", "GIT_SSL", "GIT_HTTP", "GIT_PROXY",
    "GIT_ASKPASS", "GIT_EXEC", "GIT_CEILING", "GIT_DISC",
)  # fmt: skip
"""Prefixes of git's variables that decide how it reaches a remote and which folders it trusts. Other variables, such as
GIT_DIR in a hook, GIT_EXTERNAL_DIFF or GIT_TRACE, would change the question or the answer."""
_SETTINGS = {
    "core.fsmonitor": "false",  # a program of the user that lists changed files
    "core.untrackedCache": "false",
    "core.hooksPath": "/dev/null",  # a checkout for our own use runs no program of the user
    "diff.relative": "false",
    "log.showSignature": "false",
    "submodule.recurse": "false",
}
DIFF = (
    "--no-color", "--no-ext-diff", "--no-textconv", "--no-renames", "--ignore-submodules=dirty", "-O/dev/null",
    "--inter-hunk-context=0",
)  # fmt: skip
"""Options of every diff, so that the user's configuration has no influence."""
_MOST = 300
"""The largest number of characters of git's message that are quoted, about three lines."""


class GitError(Exception):
    """A git command that failed. The message names the command and quotes git."""

    def __init__(self, command: str, folder: Path, said: str, code: int | None = None) -> None:
        self.code, self.said = code, masked(printable(" ".join(said.split())[:_MOST]))
        super().__init__(f"git {command} failed in {folder}: {self.said or f'exit code {code}'}")


def git(folder: Path, *arguments: str) -> str:
    """Return git's output in the folder, as text without the last line end. Raise GitError."""
    # names of files, sources and messages can be in any encoding
    return raw(folder, *arguments).decode("utf-8", "surrogateescape").removesuffix("\n")


def raw(folder: Path, *arguments: str) -> bytes:
    """Return git's output in the folder, whatever the user's settings and environment are. Raise GitError."""
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
    """Return git's output, or None if git fails. Only for additions to a report that nothing depends on."""
    try:
        return git(folder, *arguments)
    except GitError:
        return None


def root_of(path: Path) -> Path | None:
    """Return the nearest folder at or above the path with a `.git`, which git may refuse to read, or None."""
    return next((folder for folder in (path, *path.parents) if os.path.lexists(folder / ".git")), None)


def commit_of(folder: Path) -> str | None:
    """Return the commit checked out around the folder, such as b88a1c2, and whether files differ; None if git fails."""
    commit = said_of(folder, "rev-parse", "--short", "HEAD")
    if commit is None:
        return None
    status = said_of(folder, "status", "--porcelain", "--untracked-files=no", "--ignore-submodules=none")
    if status is None:
        return f"{commit}, perhaps with changes"
    return f"{commit}, with changes" if status else commit
