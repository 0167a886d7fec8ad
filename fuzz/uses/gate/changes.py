"""What a change touches: the kernels whose sources, headers, pack or engine differ from a git reference."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import oracles
from fuzz.adapters.build import BuildError
from fuzz.adapters.registry import adapter_of
from fuzz.base.errors import UsageError
from fuzz.base.git import DIFF, GitError, git, root_of
from fuzz.base.kernel import Kernel
from fuzz.base.text import printable

_ENGINE = (Path(__file__).resolve().parents[2], Path(oracles.__file__).resolve().parent)
_CODE = frozenset({".py", ".c", ".h"})
"""The suffixes of what the engine and a pack's own modules are written in."""
_LINK = "160000 "
"""The mode of a submodule, as git lists it."""
_NAMED = 6
"""The changed files that a note names: about a line."""


class ChangesError(UsageError):
    """A reference that git does not know. The message says what to do."""


@dataclass(frozen=True)
class Changes:
    """How the files differ from `base`; `files` is None where that cannot be told, and everything counts as changed."""

    base: str
    files: frozenset[Path] | None
    """The files that differ, and those that git does not follow."""
    same: frozenset[str] = frozenset()
    """The files that git says are as they were, by their names below `root`: any other one counts as changed."""
    notes: tuple[str, ...] = ()
    """Why it cannot be told which files differ, or what they were compared with instead."""
    root: Path = Path("/")
    """The root of the repository that `base` is a commit of."""
    start: str = ""
    """The commit from which on this change was made; '' where that is not known."""

    @property
    def unused(self) -> str:
        """The sentence that is true if no kernel is touched, with the files that differ."""
        written = [
            path for path in sorted(self.files or ()) if path.suffix != ".pyc"
        ]  # Python did, as we loaded the pack
        names = [printable(os.path.relpath(path, self.root)) for path in written]
        if not names:
            return f"no file differs from {self.base}"
        more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
        return f"no kernel depends on what changed since {self.base}: {', '.join(names[:_NAMED])}{more}"

    def why(self, path: Path) -> str:
        """Return the words for why a file counts as changed; '' where git says that it is as it was."""
        # What changed may be a link to a folder.
        if self.files is None or path in self.files or not self.files.isdisjoint(path.parents):
            return path.name
        name = path.relative_to(self.root).as_posix() if path.is_relative_to(self.root) else ""
        return "" if name in self.same else f"{path.name}, which git does not follow"


def changes_since(base: str | None, folder: Path) -> Changes:
    """Return what differs between the merge base with `base` and the files as they lie in the repository around
    `folder`, and in its submodules; where that is one itself, in the project that has it.

    Without a base, outside a repository, and where git fails, everything counts as changed. Raises ChangesError.
    """
    if base is None:
        return Changes("", None)
    everything = "every kernel counts as changed"
    if root_of(folder.resolve()) is None:
        return Changes(base, None, notes=(f"{folder} is in no git repository: {everything}",))
    try:
        return _compared(base, Path(git(folder, "rev-parse", "--show-toplevel")))
    except GitError as error:
        return Changes(base, None, notes=(f"{error}: {everything}",))


def _compared(base: str, own: Path) -> Changes:
    root, commit, notes = _named(base, _projects(own))
    start = commit
    try:
        start = git(root, "merge-base", commit, "HEAD")  # what the other branch did since is not this change's doing
    except GitError as error:
        if error.code != 1 or error.said:
            raise
        notes.append(f"git knows no common ancestor of {base} and HEAD: compared with {base} itself")
    found = _Comparison(root, notes)
    found.compare(root, start)
    changed = frozenset((root / name).resolve() for name in found.changed)
    return Changes(base, changed, frozenset(found.same), tuple(notes), root.resolve(), start)


def _projects(root: Path) -> list[Path]:
    """Return the repository and those that have it as a submodule, the outermost first."""
    if root_of(root.parent) is None:
        return [root]
    outer = Path(git(root.parent, "rev-parse", "--show-toplevel"))
    entry = git(outer, "ls-files", "--stage", "-z", "--", os.path.relpath(root, outer))
    return [*_projects(outer), root] if entry.startswith(_LINK) else [root]


def _named(base: str, projects: list[Path]) -> tuple[Path, str, list[str]]:
    """Return the repository that `base` names a commit of, the commit, and what is to be said of that.

    It is the one that the command is run in, else the outermost. Branches of one name are others in a submodule: there,
    only the digest of a commit is looked up besides.
    """
    here = root_of(Path.cwd().resolve())
    asked, *others = sorted(projects, key=lambda each: each != here)
    said = ""
    for root in (asked, *others):
        try:
            commit = git(root, "rev-parse", "--verify", "--quiet", f"{base}^{{commit}}")
        except GitError as error:
            said = said or error.said
            continue
        if root == asked or commit.startswith(base.lower()):
            alone = f"--base {base} is a commit of the submodule {root.name}, which alone is compared with it"
            return root, commit, [alone] if root != projects[0] else []
    shallow = git(asked, "rev-parse", "--is-shallow-repository") == "true"
    remedy = "the clone is shallow, so fetch it first: git fetch --unshallow" if shallow else "git fetch may bring it"
    inside = f"; to compare with a commit of {own}, run it in there" if (own := projects[-1]) != asked else ""
    raise ChangesError(f"--base {base}: git knows no such commit in {asked}: {said or remedy}{inside}")


@dataclass
class _Comparison:
    """The files of a repository and of its submodules, compared with a commit; by their names below `top`."""

    top: Path
    notes: list[str]
    changed: set[str] = field(default_factory=set)
    same: set[str] = field(default_factory=set)

    def compare(self, root: Path, start: str | None) -> None:
        """Compare one repository; without a commit everything in it counts as changed. Raises GitError."""
        below = "" if root == self.top else f"{root.relative_to(self.top).as_posix()}/"
        differing = _names(git(root, "diff", *DIFF, "--name-only", "-z", start, "--")) if start else set[str]()
        # Each with its tag: `H` is a file that git follows and looks at, no other one is.
        for entry in _names(git(root, "ls-files", "-v", "-z", "--stage", "--others", "--exclude-standard")):
            tag, told = entry[0], entry[2:]
            name = told if tag == "?" else told.partition("\t")[2]
            if told.startswith(_LINK) and tag != "?" and os.path.lexists(root / name / ".git"):
                differing.discard(name)
                self.compare(root / name, self._start_of(root, start, name))
            elif tag == "H" and start and name not in differing:
                self.same.add(below + name)
            else:
                differing.add(name)
        self.changed |= {below + name for name in differing}

    def _start_of(self, root: Path, start: str | None, name: str) -> str | None:
        """Return the commit of a submodule that a commit of its project names; None where none is named or here."""
        entry = git(root, "ls-tree", "-z", start, "--", name) if start else ""
        if not entry.startswith(_LINK):
            return None
        commit = entry.split()[2]
        try:
            git(root / name, "cat-file", "-e", f"{commit}^{{commit}}")
        except GitError:
            self.notes.append(f"{name}: its commit {commit[:9]} is not here: everything in it counts as changed")
            return None
        return commit


def _names(listed: str) -> set[str]:
    return set(filter(None, listed.split("\0")))


def touched(kernels: Iterable[Kernel], pack: Path, changes: Changes) -> dict[str, str]:
    """Return the kernels that the change touches, by name, each with the file that does it."""
    everyone = list(kernels)
    if changes.files is None:
        return {kernel.name: "everything counts as changed" for kernel in everyone}
    sources = {kernel.source.resolve() for kernel in everyone}
    shared = [path for path in sorted(changes.files) if _is_shared(path, pack.resolve()) and path not in sources]
    if shared:
        return {kernel.name: shared[0].name for kernel in everyone}
    reasons = {each.name: next(filter(None, map(changes.why, sorted(_files_of(each)))), "") for each in everyone}
    return {name: reason for name, reason in reasons.items() if reason}


def _is_shared(path: Path, pack: Path) -> bool:
    """Whether it is a file of the engine or a Python file of the pack, and no test: who uses them cannot be told
    cheaply."""
    folder = next((each for each in (*_ENGINE, pack) if path.is_relative_to(each)), None)
    if folder is None or "tests" in path.relative_to(folder).parts:
        return False
    return path.suffix in (_CODE if folder in _ENGINE else {".py"})


def _files_of(kernel: Kernel) -> frozenset[Path]:
    """What the kernel is made of."""
    try:
        return frozenset(adapter_of(kernel).files(kernel))
    except BuildError:  # what cannot be read is told when it is built; what it is declared with counts all the same
        return frozenset(path.resolve() for _, path in kernel.paths)
