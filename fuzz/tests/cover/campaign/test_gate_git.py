"""What a gate believes of git: a command that fails, a setting, a submodule never mean that no file differs."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fuzz.campaign.gate.changes import Changes, ChangesError, changes_since, touched
from fuzz.core.adapters.c_kernel import CKernel
from fuzz.core.base.git import commit_of
from fuzz.report.source import change_of

_EVERYTHING = {"a": "everything counts as changed", "b": "everything counts as changed"}
_ONLY_A = {"a": "a.c"}


def _git(folder: Path, *arguments: str) -> str:
    settings = ("user.name=t", "user.email=t@t", "init.defaultBranch=main", "protocol.file.allow=always")
    words = [word for each in settings for word in ("-c", each)]
    done = subprocess.run(["git", *words, *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def _commit(folder: Path, subject: str = "change") -> str:
    _git(folder, "add", "-A")
    _git(folder, "commit", "-m", subject)
    return _git(folder, "rev-parse", "HEAD")


def _repository(folder: Path) -> Path:
    """A pack `kern` of a.c and b.c in a repository of two commits, the second of which changes a.c."""
    (folder / "kern").mkdir(parents=True)
    for name in "ab":
        (folder / "kern" / f"{name}.c").write_text(f"int {name};\n")
    _git(folder, "init")
    _commit(folder, "first")
    (folder / "kern" / "a.c").write_text("int wrong;\n")
    _commit(folder, "second")
    return folder


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return _repository(tmp_path / "repo")


def _seen(repository: Path, base: str = "HEAD~1", names: str = "ab") -> tuple[dict[str, str], Changes]:
    pack = repository / "kern"
    changes = changes_since(base, pack)
    return touched([CKernel(name, "rms_norm", pack / f"{name}.c") for name in names], pack, changes), changes


@contextmanager
def _written(path: Path, content: bytes) -> Iterator[None]:
    before = path.read_bytes()
    path.write_bytes(content)
    yield
    path.write_bytes(before)


def _note(changes: Changes) -> str:
    [note] = changes.notes
    return note


def _wrap(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Put another git on the PATH: a shell script that ends with the true one."""
    true = shutil.which("git")
    folder.mkdir()
    (folder / "git").write_text(f'#!/bin/sh\n{script}\nexec {true} "$@"\n')
    (folder / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def test_what_a_change_touches_is_told_with_nothing_in_the_way(repository: Path) -> None:
    assert _seen(repository)[0] == _ONLY_A


def test_a_partial_clone_whose_remote_is_gone_counts_everything(repository: Path, tmp_path: Path) -> None:
    _git(repository, "config", "uploadpack.allowFilter", "true")
    _git(tmp_path, "clone", "--filter=tree:0", f"file://{repository}", "part")
    repository.rename(tmp_path / "gone")
    found, changes = _seen(tmp_path / "part")
    assert found == _EVERYTHING
    assert "git ls-tree failed" in _note(changes)
    assert _note(changes).endswith("every kernel counts as changed")


def test_a_damaged_object_counts_everything(repository: Path) -> None:
    tree = _git(repository, "rev-parse", "HEAD~1^{tree}")
    (repository / ".git" / "objects" / tree[:2] / tree[2:]).unlink()
    found, changes = _seen(repository)
    assert found == _EVERYTHING
    assert "git ls-tree failed" in _note(changes)


@pytest.mark.parametrize("command", ["rev-parse --show-toplevel", "merge-base", "ls-tree", "ls-files", "diff"])
def test_whichever_command_fails_counts_everything(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    failing = f'case "$* " in *" {command} "*) echo "fatal: no luck at https://u:PW@h" >&2; exit 128;; esac'
    _wrap(tmp_path / "bin", monkeypatch, failing)
    found, changes = _seen(repository)
    assert found == _EVERYTHING
    name = command.partition(" ")[0]
    assert f"git {name} failed in " in _note(changes)
    assert "fatal: no luck at https://u:***@h" in _note(changes)


def test_a_repository_of_somebody_else_is_not_taken_for_none(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _wrap(tmp_path / "bin", monkeypatch, "export GIT_TEST_ASSUME_DIFFERENT_OWNER=1")
    found, changes = _seen(repository)
    assert found == _EVERYTHING
    assert "in no git repository" not in _note(changes)
    assert "safe.directory" in _note(changes)


def test_without_git_everything_counts(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    found, changes = _seen(repository)
    assert found == _EVERYTHING
    assert "git is not installed" in _note(changes)
    assert commit_of(repository) is None


@pytest.mark.some(5)
@pytest.mark.parametrize(
    "setting",
    [
        "diff.relative=true",
        "diff.noprefix=true",
        "diff.external=false",
        "diff.orderFile=/nowhere",
        "diff.ignoreSubmodules=all",
        "core.ignoreStat=true",
        "core.excludesFile=everything",
        "core.fsmonitor=true",
        "status.showUntrackedFiles=no",
        "submodule.recurse=true",
    ],
)
def test_no_setting_of_the_user_hides_a_change(repository: Path, setting: str) -> None:
    (repository / "everything").write_text("*\n")
    _git(repository, "config", *setting.replace("=everything", f"={repository / 'everything'}").split("=", 1))
    (repository / "kern" / "c.c").write_text("int c;\n")
    found, _ = _seen(repository, names="abc")
    assert found["a"] == "a.c"
    assert set(found) == {"a", "c"}, "c.c is not committed"


@pytest.mark.parametrize(
    ("name", "value"),
    [("GIT_DIR", ".git"), ("GIT_EXTERNAL_DIFF", "false"), ("GIT_INDEX_FILE", "/nowhere"), ("GIT_TRACE", "1")],
)
def test_no_variable_of_git_hides_a_change(
    repository: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    assert _seen(repository)[0] == _ONLY_A


def test_file_names_are_read_in_any_encoding(repository: Path) -> None:
    for raw in (b"\xc3\xa9.c", b"\xe9.c"):
        source = repository / "kern" / os.fsdecode(raw)
        kernels = [CKernel("e", "rms_norm", source)]
        source.write_text("int e;\n")
        _commit(repository)
        for base, expected in (("HEAD~1", {"e": source.name}), ("HEAD", {})):
            assert touched(kernels, source.parent, changes_since(base, source.parent)) == expected


def test_a_file_that_git_was_told_not_to_look_at_is_looked_at(repository: Path) -> None:
    for word in ("--assume-unchanged", "--skip-worktree"):
        _git(repository, "update-index", word, "kern/b.c")
        assert _seen(repository)[0] == _ONLY_A
        with _written(repository / "kern" / "b.c", b"int wrong;\n"):
            assert _seen(repository)[0] == {"a": "a.c", "b": "b.c"}
            (repository / "kern" / "b.c").unlink()
            assert _seen(repository)[0] == {"a": "a.c", "b": "b.c"}
            (repository / "kern" / "b.c").touch()
        _git(repository, "update-index", word.replace("--", "--no-"), "kern/b.c")


def test_a_change_that_keeps_size_and_time_is_seen(repository: Path) -> None:
    for setting in ("core.checkStat=minimal", "core.trustctime=false"):
        _git(repository, "config", *setting.split("="))
    source = repository / "kern" / "b.c"
    os.utime(source, (1e9, 1e9))
    _git(repository, "update-index", "--refresh")
    source.write_text("int d;\n")
    os.utime(source, (1e9, 1e9))
    assert not _git(repository, "diff", "--name-only")
    assert _seen(repository, "HEAD")[0] == {"b": "b.c"}


def test_what_a_filter_of_git_hides_is_seen(repository: Path) -> None:
    (repository / ".gitattributes").write_text("*.c filter=hide\n")
    _commit(repository)
    _git(repository, "config", "filter.hide.clean", "git show HEAD:%f")
    (repository / "kern" / "b.c").write_text("int wrong;\n")
    assert not _git(repository, "diff", "--name-only")
    assert _seen(repository, "HEAD")[0] == {"b": "b.c"}


def test_what_git_converts_is_as_a_checkout_of_the_base_writes_it(repository: Path) -> None:
    _git(repository, "config", "core.autocrlf", "true")
    for name in "ab":
        source = repository / "kern" / f"{name}.c"
        source.write_bytes(source.read_bytes().replace(b"\n", b"\r\n"))
    assert _seen(repository)[0] == _ONLY_A
    (repository / ".gitattributes").write_text("b.c text eol=crlf\n")
    assert _seen(repository)[0] == {"a": "a.c", "b": "b.c"}, "how it is converted changed"


def test_neither_replaced_objects_nor_grafts_hide_a_change(repository: Path) -> None:
    first, second = _git(repository, "rev-parse", "HEAD~1"), _git(repository, "rev-parse", "HEAD")
    _git(repository, "replace", first, second)
    assert _seen(repository, first)[0] == _ONLY_A
    _git(repository, "replace", "-d", first)
    _git(repository, "branch", "other", second)
    _git(repository, "commit", "--allow-empty", "-m", "third")
    (repository / ".git" / "info" / "grafts").write_text(f"{first} {second}\n")
    assert _seen(repository, first)[0] == _ONLY_A


def test_a_file_that_cannot_be_executed_any_more_or_became_a_link_counts_as_changed(repository: Path) -> None:
    source = repository / "kern" / "b.c"
    source.chmod(0o755)
    _commit(repository)
    source.chmod(0o644)
    assert _seen(repository, "HEAD")[0] == {"b": "b.c"}
    _commit(repository)
    source.rename(repository / "b.c")
    source.symlink_to("../b.c")
    assert _seen(repository, "HEAD")[0] == {"b": "b.c"}


def test_a_file_that_git_does_not_follow_counts_as_changed(repository: Path, tmp_path: Path) -> None:
    (repository / ".gitignore").write_text("built.c\n")
    _commit(repository)
    (repository / "kern" / "built.c").write_text("int built;\n")
    (tmp_path / "outside.c").write_text("int outside;\n")
    changes = changes_since("HEAD", repository / "kern")
    kernels = [
        *(CKernel(name, "rms_norm", repository / "kern" / f"{name}.c") for name in ("a", "built")),
        CKernel("outside", "rms_norm", tmp_path / "outside.c"),
    ]
    assert touched(kernels, repository / "kern", changes) == {
        "built": "built.c, which git does not follow",
        "outside": "outside.c, which git does not follow",
    }


def test_a_pack_among_the_tests_of_a_project_is_no_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    repository = _repository(tmp_path / "repo")
    _git(repository, "mv", "kern", "tests")
    (repository / "tests" / "kern").mkdir()
    for name in "ab":
        _git(repository, "mv", f"tests/{name}.c", f"tests/kern/{name}.c")
    _commit(repository)
    (repository / "tests" / "kern" / "b.c").write_text("int wrong;\n")
    assert _seen(repository / "tests", "HEAD")[0] == {"b": "b.c"}


def test_a_shallow_clone_without_the_base_says_what_to_fetch(repository: Path, tmp_path: Path) -> None:
    first = _git(repository, "rev-parse", "HEAD~1")
    _git(tmp_path, "clone", "--depth=1", f"file://{repository}", "shallow")
    with pytest.raises(ChangesError, match="the clone is shallow, so fetch it first: git fetch --unshallow"):
        changes_since(first, tmp_path / "shallow" / "kern")


def test_without_a_common_ancestor_the_base_itself_is_compared(repository: Path, tmp_path: Path) -> None:
    first = _git(repository, "rev-parse", "HEAD~1")
    _git(repository, "branch", "earlier", first)
    _git(repository, "commit", "--allow-empty", "-m", "third")
    _git(tmp_path, "clone", "--depth=1", f"file://{repository}", "shallow")
    _git(tmp_path / "shallow", "fetch", "--depth=1", "origin", "earlier:earlier")
    found, changes = _seen(tmp_path / "shallow", "earlier")
    assert found == _ONLY_A
    assert _note(changes) == "git knows no common ancestor of earlier and HEAD: compared with earlier itself"


def test_the_lines_of_a_change_are_numbered_whatever_the_settings(repository: Path) -> None:
    source = repository / "kern" / "a.c"
    source.write_text("".join(f"int a{number};\n" for number in range(9)))
    _commit(repository)
    lines = source.read_text().splitlines(keepends=True)
    source.write_text("".join([lines[0], "int x;\n", *lines[2:4], "int y;\n", *lines[5:]]))
    for setting in ("diff.interHunkContext=9", "diff.noprefix=true", "color.ui=always"):
        _git(repository, "config", *setting.split("="))
    changed = change_of(CKernel("a", "rms_norm", source))
    assert changed is not None
    assert changed.lines == ((2, "int x;"), (5, "int y;"))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project that has the repository as its submodule `sub`, at the first commit; the second one is checked out."""
    origin, project = _repository(tmp_path / "origin"), tmp_path / "project"
    project.mkdir()
    _git(project, "init")
    _git(project, "commit", "--allow-empty", "-m", "empty")
    _git(project, "submodule", "add", str(origin), "sub")
    _git(project / "sub", "checkout", "main~1")
    _commit(project, "pointer")
    _git(project, "branch", "origin/main")
    _git(project / "sub", "checkout", "main")
    monkeypatch.chdir(project)
    return project


def test_a_pack_in_a_submodule_is_compared_with_the_commit_that_the_base_of_the_project_names(project: Path) -> None:
    assert _seen(project / "sub", "HEAD")[0] == _ONLY_A, "moved, not committed"
    _commit(project, "bump")
    assert _seen(project / "sub", "origin/main")[0] == _ONLY_A, "that is the submodule's own origin/main"
    assert _seen(project / "sub", "HEAD")[0] == {}
    (project / "sub" / "kern" / "b.c").write_text("int wrong;\n")
    assert _seen(project / "sub", "HEAD")[0] == {"b": "b.c"}


def test_a_submodule_that_the_base_does_not_have_or_whose_commit_is_not_here_is_new(project: Path) -> None:
    assert _seen(project / "sub", "HEAD~1")[0] == {"a": "a.c", "b": "b.c"}
    first = _git(project / "sub", "rev-parse", "HEAD~1")
    shutil.rmtree(project / ".git" / "modules" / "sub")
    shutil.rmtree(project / "sub")
    _git(project.parent, "clone", "--depth=1", f"file://{project.parent / 'origin'}", str(project / "sub"))
    found, changes = _seen(project / "sub", "HEAD")
    assert found == {"a": "a.c", "b": "b.c"}
    assert _note(changes) == f"sub: its commit {first[:9]} is not here: everything in it counts as changed"


def test_a_nested_submodule_is_compared_through_all_projects(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    top = project.parent / "top"
    top.mkdir()
    _git(top, "init")
    _commit(project, "bump")
    _git(project, "checkout", "HEAD~1")
    _git(top, "submodule", "add", str(project), "middle")
    _git(top / "middle", "checkout", _git(project, "rev-parse", "main~1"))
    _git(top / "middle", "submodule", "update", "--init")
    _commit(top, "pointer")
    _git(top / "middle", "checkout", _git(project, "rev-parse", "main"))
    _git(top / "middle", "submodule", "update")
    monkeypatch.chdir(top)
    assert _seen(top / "middle" / "sub", "HEAD")[0] == _ONLY_A
    _commit(top, "bump")
    assert _seen(top / "middle" / "sub", "HEAD~1")[0] == _ONLY_A
    assert _seen(top / "middle" / "sub", "HEAD")[0] == {}


def test_a_base_is_looked_up_in_the_submodule_by_its_digest_or_from_inside(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = _git(project / "sub", "rev-parse", "HEAD~1")
    found, changes = _seen(project / "sub", first)
    assert found == _ONLY_A
    assert _note(changes) == f"--base {first} is a commit of the submodule sub, which alone is compared with it"
    _git(project / "sub", "branch", "theirs", first)
    with pytest.raises(ChangesError, match=r"no such commit in .*/project: .*; to compare with a commit of .*/sub"):
        _seen(project / "sub", "theirs")
    monkeypatch.chdir(project / "sub")
    found, changes = _seen(project / "sub", "theirs")
    assert found == _ONLY_A
    assert "is a commit of the submodule sub" in _note(changes)


def test_headers_in_a_submodule_touch_the_kernels_that_include_them(project: Path) -> None:
    pack = project / "pack"
    pack.mkdir()
    (pack / "k.c").write_text('#include "../sub/kern/a.c"\n')
    (pack / "l.c").write_text('#include "../sub/kern/b.c"\n')
    _git(project, "add", "pack")
    _git(project, "commit", "-m", "pack")
    kernels = [CKernel(name, "rms_norm", pack / f"{name}.c") for name in "kl"]
    assert touched(kernels, pack, changes_since("HEAD", pack)) == {"k": "a.c"}


def test_what_changed_is_named_if_no_kernel_depends_on_it(repository: Path) -> None:
    assert changes_since("HEAD", repository / "kern").unused == "no file differs from HEAD"
    for number in range(9):
        (repository / f"{number}.md").write_text("text\n")
    found, changes = _seen(repository, "HEAD")
    assert not found
    assert changes.unused == (
        "no kernel depends on what changed since HEAD: 0.md, 1.md, 2.md, 3.md, 4.md, 5.md and 3 more"
    )
