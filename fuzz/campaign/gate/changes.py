"""The kernels that a change touches: their sources, headers, data, pack or engine differ from a git reference."""

from __future__ import annotations

import hashlib
import io
import os
import re
import stat
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import oracles
from fuzz.core.adapters.build import BuildError
from fuzz.core.adapters.registry import adapter_of
from fuzz.core.base.errors import UsageError
from fuzz.core.base.git import DIFF, GitError, git, raw, root_of
from fuzz.core.base.kernel import Kernel
from fuzz.core.base.text import printable

_ENGINE = (Path(__file__).resolve().parents[2], Path(oracles.__file__).resolve().parent)
_CODE = frozenset({".py", ".c", ".h", ".cu", ".ptx", ".mjs"})
"""The suffixes of the files that are the engine's code."""
_COMPILED = frozenset({".c", ".h", ".cc", ".hh", ".cpp", ".hpp", ".cxx", ".hxx", ".cu", ".cuh"})
"""The suffixes of C and CUDA sources and headers, which name the files that they include."""
_TEXTS = frozenset({".md", ".rst", ".pyc"})
"""The suffixes of files that count only if a kernel names them: documentation, and Python's compiled modules."""
_NO_DATA = frozenset({"tests", "findings", "corpora", "__pycache__"})
"""The folders of a pack that tests and gates read and write, and kernels do not."""
_PIECE = re.compile(r"""(?<=["'/])[^"'/\n]+(?=["'/])""")
"""Matches a name in quotes, or one part of a path in quotes."""
_LINK, _SYMBOLIC, _PROGRAM = "160000", "120000", "100755"
"""The modes of submodules, symbolic links and executable files, as git lists them."""
_NAMED = 6
"""The most changed files that a note names, which fill about a line."""


class ChangesError(UsageError):
    """Git does not know a reference. The message says what to do."""


@dataclass(frozen=True)
class Changes:
    """The files that differ from the commit `base`; None if unknown, and then all files count as changed."""

    base: str
    files: frozenset[Path] | None
    """The files that differ, and the files that git does not track."""
    same: frozenset[str] = frozenset()
    """The files with the same bytes as before, by their names below `root`. All other files count as changed."""
    notes: tuple[str, ...] = ()
    """Lines that say why the differing files are unknown, or what they were compared with instead."""
    root: Path = Path("/")
    """The root of the repository with the commit `base`."""
    start: str = ""
    """The commit at which the change began; '' if unknown."""
    ignored: frozenset[Path] = frozenset()
    """The files and folders that git ignores."""

    @property
    def unused(self) -> str:
        """A sentence for a change that touches no kernel, which names the files that differ."""
        written = [
            path for path in sorted(self.files or ()) if path.suffix != ".pyc"
        ]  # Python wrote .pyc files as we loaded the pack
        names = [printable(os.path.relpath(path, self.root)) for path in written]
        if not names:
            return f"no file differs from {self.base}"
        more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
        return f"no kernel depends on what changed since {self.base}: {', '.join(names[:_NAMED])}{more}"

    def why(self, path: Path) -> str:
        """Return the reason why a file counts as changed, in words; '' if its bytes are the same as before."""
        # The changed name may be a link to a folder that holds the file.
        if self.files is None or path in self.files or not self.files.isdisjoint(path.parents):
            return path.name
        name = path.relative_to(self.root).as_posix() if path.is_relative_to(self.root) else ""
        return "" if name in self.same else f"{path.name}, which git does not follow"


def changes_since(base: str | None, folder: Path) -> Changes:
    """Return the difference between the merge base with `base` and the working files of the repository around `folder`,
    its submodules, and, if it is a submodule, the project that has it. Without a base, outside a repository, or if git
    fails, every file counts as changed. Raises ChangesError."""
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
        start = git(root, "merge-base", commit, "HEAD")  # the other branch's commits are not part of this change
    except GitError as error:
        if error.code != 1 or error.said:
            raise
        notes.append(f"git knows no common ancestor of {base} and HEAD: compared with {base} itself")
    found = _Comparison(root, notes)
    found.compare(root, start)
    changed, ignored = (frozenset((root / name).resolve() for name in each) for each in (found.changed, found.ignored))
    return Changes(base, changed, frozenset(found.same), tuple(notes), root.resolve(), start, ignored)


def _projects(root: Path) -> list[Path]:
    """Return the repository and those that hold it as a submodule, the outermost first."""
    if root_of(root.parent) is None:
        return [root]
    outer = Path(git(root.parent, "rev-parse", "--show-toplevel"))
    entry = git(outer, "ls-files", "--stage", "-z", "--", os.path.relpath(root, outer))
    return [*_projects(outer), root] if entry.startswith(f"{_LINK} ") else [root]


def _named(base: str, projects: list[Path]) -> tuple[Path, str, list[str]]:
    """Return the repository that has the commit `base`, the commit, and notes on the choice. The repository around the
    current folder is tried first, then the others from the outermost on. In these only a digest is looked up, since the
    name of a branch may mean another one there."""
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
    """A comparison of the working files of a repository and its submodules with the blobs of a commit, by names below
    `top`. It reads the bytes of files, and trusts neither git's index nor the output of a filter."""

    top: Path
    notes: list[str]
    changed: set[str] = field(default_factory=set)
    same: set[str] = field(default_factory=set)
    ignored: set[str] = field(default_factory=set)

    def compare(self, root: Path, start: str | None) -> None:
        """Compare one repository; without a commit everything in it counts as changed. Raises GitError."""
        below = "" if root == self.top else f"{root.relative_to(self.top).as_posix()}/"
        there = _names(git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"))
        ignored = _names(git(root, "ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory"))
        before = _tree(root, start) if start else {}
        differing, same = set[str](), set[str]()
        for name in sorted(there | before.keys()):
            mode, blob = before.get(name, ("", ""))
            if mode in ("", _LINK) and name[-1] != "/" and os.path.lexists(root / name / ".git"):
                self.compare(root / name, self._commit_here(root / name, name, blob))
            else:
                (same if _is_same(root / name, mode, blob) else differing).add(name)
        if before and differing:
            same |= _converted(root, str(start), differing, before.keys())
        self.changed |= {below + name for name in differing - same}
        self.same |= {below + name for name in same}
        self.ignored |= {below + name for name in ignored}

    def _commit_here(self, root: Path, name: str, commit: str) -> str | None:
        """Return `commit`, by which a project names its submodule; None if the project names none, or if git does not
        have the commit here."""
        try:
            git(root, "cat-file", "-e", f"{commit}^{{commit}}")
        except GitError:
            if commit:
                self.notes.append(f"{name}: its commit {commit[:9]} is not here: everything in it counts as changed")
            return None
        return commit


def _names(listed: str) -> set[str]:
    return set(filter(None, listed.split("\0")))


def _tree(root: Path, commit: str) -> dict[str, tuple[str, str]]:
    """Return the mode and the digest of each file in a commit, by name."""
    entries = (each.partition("\t") for each in _names(git(root, "ls-tree", "-r", "-z", "--full-tree", commit)))
    return {name: (told.split()[0], told.split()[2]) for told, _, name in entries}


def _is_same(path: Path, mode: str, blob: str) -> bool:
    """Whether a file has the bytes of a blob, and is a link or executable exactly if `mode` says so."""
    try:
        now = path.lstat().st_mode
        if mode == _LINK:  # not checked out, so it holds nothing
            return stat.S_ISDIR(now) and not any(path.iterdir())
        if not mode or stat.S_ISLNK(now) != (mode == _SYMBOLIC) or (mode == _PROGRAM and not now & stat.S_IXUSR):
            return False
        return _digest(path, "sha1" if len(blob) == 40 else "sha256") == blob
    except OSError:
        return False


def _digest(path: Path, algorithm: str) -> str:
    """Return git's digest of a file's bytes, or of the path that a link holds."""
    with io.BytesIO(os.fsencode(path.readlink())) if path.is_symlink() else path.open("rb") as file:
        digest = hashlib.new(algorithm, b"blob %d\0" % file.seek(0, os.SEEK_END), usedforsecurity=False)
        file.seek(0)
        for piece in iter(partial(file.read, 1 << 20), b""):
            digest.update(piece)
    return digest.hexdigest()


def _converted(root: Path, start: str, names: set[str], before: Collection[str]) -> set[str]:
    """Return the files that a checkout of the commit would write as they are, although their bytes differ from the
    blob: git converts line ends, or calls a filter such as LFS. Return none if .gitattributes is among the names."""
    if any(name.rpartition("/")[2] == ".gitattributes" for name in names):
        return set()
    told = _names(git(root, "diff", *DIFF, "--name-only", "-z", start, "--"))
    return {name for name in names - told if name in before and _is_as_written(root / name, root, f"{start}:{name}")}


def _is_as_written(path: Path, root: Path, name: str) -> bool:
    if path.is_symlink() or not path.is_file() or not os.access(path, os.R_OK):
        return False
    return raw(root, "cat-file", "--filters", name) == path.read_bytes()


def touched(kernels: Iterable[Kernel], pack: Path, changes: Changes) -> dict[str, str]:
    """Return the kernels that the change touches, by name, each with the file that touches it."""
    everyone, pack = list(kernels), pack.resolve()
    if changes.files is None:
        return {kernel.name: "everything counts as changed" for kernel in everyone}
    declared = {path.resolve() for kernel in everyone for _, path in kernel.paths}
    others = [path for path in sorted(changes.files) if path not in declared]
    shared = next((path for path in others if _is_shared(path, pack)), None)
    if shared is not None:
        return {kernel.name: shared.name for kernel in everyone}
    reasons = {kernel.name: _reason(kernel, others, changes) for kernel in everyone}
    return {name: reason for name, reason in reasons.items() if reason}


def _is_shared(path: Path, pack: Path) -> bool:
    """Whether a file belongs to the engine, or is a module or data of the pack. All kernels count as users of such a
    file, since it is costly to find out which ones are."""
    folder = next((each for each in (*_ENGINE, pack) if path.is_relative_to(each)), None)
    if folder is None or "tests" in path.relative_to(folder).parts:
        return False
    return path.suffix in _CODE if folder in _ENGINE else path.suffix == ".py" or _is_data(path, pack)


def _is_data(path: Path, folder: Path) -> bool:
    """Whether a file below the folder may be read by a kernel under a name that its code builds as it runs."""
    parts = path.relative_to(folder).parts if path.is_relative_to(folder) else (".",)
    is_apart = not _NO_DATA.isdisjoint(parts) or any(part[0] == "." for part in parts)
    return not is_apart and path.suffix not in {".py", *_COMPILED, *_TEXTS}


def _reason(kernel: Kernel, others: Iterable[Path], changes: Changes) -> str:
    """Return the file by which a change touches the kernel: one that the kernel consists of, that its text names, or
    that it may read; '' if there is none."""
    files = _files_of(kernel)
    if made := next(filter(None, map(changes.why, sorted(files))), ""):
        return made
    named = {piece for text in files.values() for piece in _PIECE.findall(text)}
    compiled, folder = kernel.source.suffix in _COMPILED, kernel.source.resolve().parent
    ignored = [path for path in sorted(changes.ignored) if _is_data(path, changes.root)]
    for path in (*others, *ignored):
        if path.suffix == ".py" or (compiled and path.suffix in _COMPILED):
            continue
        if not named.isdisjoint(path.relative_to(changes.root).parts if path.is_relative_to(changes.root) else ()):
            return changes.why(path)
        if path not in changes.ignored and kernel.source.suffix == ".py" and _is_data(path, folder):
            return path.name
    return ""


def _files_of(kernel: Kernel) -> Mapping[Path, str]:
    """Return the files that the kernel consists of, with their texts."""
    try:
        return adapter_of(kernel).files(kernel)
    except BuildError:  # building the kernel reports it; the files of its declaration still count
        return {path.resolve(): "" for _, path in kernel.paths}
