"""What a change touches: the kernels whose sources, headers, pack or engine differ from a git reference."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import oracles
from fuzz.adapters.build import BuildError
from fuzz.adapters.registry import adapter_of
from fuzz.base.errors import UsageError
from fuzz.base.git import git
from fuzz.base.kernel import Kernel

_ENGINE = (Path(__file__).resolve().parents[2], Path(oracles.__file__).resolve().parent)
_CODE = frozenset({".py", ".c", ".h"})
"""The suffixes of what the engine and a pack's own modules are written in."""


class ChangesError(UsageError):
    """A reference that git does not know. The message says what to do."""


@dataclass(frozen=True)
class Changes:
    """Files that differ from `base`; `files` is None where that cannot be told, and everything counts as changed."""

    base: str
    files: frozenset[Path] | None
    note: str = ""
    """Why it cannot be told which files differ."""
    root: Path = Path("/")
    """The root of the repository: what lies above it says nothing of a file."""
    start: str = ""
    """The commit from which on this change was made; '' where that is not known."""


def changes_since(base: str | None, folder: Path) -> Changes:
    """What differs between the merge base with `base` and the files as they lie in the repository around `folder`.

    Without a base, or outside a repository, everything counts as changed. Raises ChangesError.
    """
    if base is None:
        return Changes("", None)
    root = git(folder, "rev-parse", "--show-toplevel")
    if root is None:
        return Changes(base, None, f"{folder} is in no git repository: every kernel counts as changed")
    if git(folder, "rev-parse", "--verify", "--quiet", f"{base}^{{commit}}") is None:
        raise ChangesError(f"--base {base}: git knows no such commit; in a shallow clone, fetch it first")
    # What the other branch did since is not this change's doing. A shallow clone may have no common ancestor.
    start = git(folder, "merge-base", base, "HEAD") or base
    changed = git(folder, "diff", "--name-only", "-z", "--no-renames", start, "--") or ""
    untracked = git(Path(root), "ls-files", "--others", "--exclude-standard", "-z") or ""
    names = [name for name in (changed + "\0" + untracked).split("\0") if name]
    return Changes(
        base, frozenset((Path(root) / name).resolve() for name in names), root=Path(root).resolve(), start=start
    )


def touched(kernels: Iterable[Kernel], pack: Path, changes: Changes) -> dict[str, str]:
    """Kernels that the change touches, by name, each with the file that does it."""
    everyone = list(kernels)
    if changes.files is None:
        return {kernel.name: "everything counts as changed" for kernel in everyone}
    changed = sorted(path for path in changes.files if not _is_test(path, changes.root))
    shared = [path for path in changed if path.suffix in _CODE and _is_shared(path, pack.resolve(), everyone)]
    if shared:
        return {kernel.name: shared[0].name for kernel in everyone}
    files = {kernel.name: _files_of(kernel) for kernel in everyone}
    reasons = {name: next((path.name for path in changed if path in own), "") for name, own in files.items()}
    return {name: reason for name, reason in reasons.items() if reason}


def _is_test(path: Path, root: Path) -> bool:
    """The repository itself may lie in a folder called `tests`, and a symbolic link may lead out of it."""
    return "tests" in (path.relative_to(root) if path.is_relative_to(root) else path).parts


def _is_shared(path: Path, pack: Path, kernels: Iterable[Kernel]) -> bool:
    """Engine files, and Python files of the pack that are no kernel's own: who uses them cannot be told cheaply."""
    if any(path.is_relative_to(folder) for folder in _ENGINE):
        return True
    sources = {kernel.source.resolve() for kernel in kernels}
    return path.suffix == ".py" and path.is_relative_to(pack) and path not in sources


def _files_of(kernel: Kernel) -> frozenset[Path]:
    """What the kernel is made of."""
    try:
        return frozenset(adapter_of(kernel).files(kernel))
    except BuildError:  # what cannot be read is told when it is built; what it is declared with counts all the same
        return frozenset(path.resolve() for _, path in kernel.paths)
