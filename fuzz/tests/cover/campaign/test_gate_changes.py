"""What a change touches, told from git."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from fuzz.campaign.gate.changes import Changes, ChangesError, changes_since, touched
from fuzz.core.adapters.c_kernel import CKernel
from fuzz.core.adapters.pack import built_in, load
from fuzz.core.adapters.python_kernel import PythonKernel
from fuzz.tests.conftest import CHECKOUT


def _git(folder: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=t", "-c", "user.email=t@t", "-c", "init.defaultBranch=main"]
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


def _commit_all(pack: Path) -> None:
    _git(pack.parent, "add", "-A")
    _git(pack.parent, "commit", "-m", "more")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A pack in a repository: a.c and b.c include shared.h, c.c nothing; t.py imports helper, u.py nothing."""
    top = tmp_path / "tests"  # where a repository lies says nothing of its files
    pack = top / "pack"
    (pack / "tests").mkdir(parents=True)
    for name in ("a", "b"):
        (pack / f"{name}.c").write_text('#include "shared.h"\n')
    (pack / "c.c").write_text("int c;\n")
    (pack / "shared.h").write_text("int shared;\n")
    (pack / "t.py").write_text("from helper import x\n")
    for name in ("u", "helper", "pack"):
        (pack / f"{name}.py").write_text("x = 1\n")
    _git(top, "init")
    _git(top, "add", "-A")
    _git(top, "commit", "-m", "first")
    return pack


def _kernels(pack: Path) -> tuple[CKernel | PythonKernel, ...]:
    return (
        *(CKernel(name, "rms_norm", pack / f"{name}.c") for name in "abc"),
        *(PythonKernel(name, "rms_norm", pack / f"{name}.py", "triton") for name in "tu"),
    )


def _touched(pack: Path, base: str = "HEAD") -> dict[str, str]:
    return touched(_kernels(pack), pack, changes_since(base, pack))


def test_an_untouched_checkout_touches_nothing(repository: Path) -> None:
    assert _touched(repository) == {}


@pytest.mark.parametrize(
    ("changed", "kernels"),
    [
        ("a.c", "a"),
        ("shared.h", "ab"),
        ("u.py", "u"),
        ("pack.py", "abctu"),
        ("tests/test_a.py", ""),
        ("README.md", ""),
    ],
)
def test_a_file_touches_the_kernels_that_are_made_of_it(repository: Path, changed: str, kernels: str) -> None:
    (repository / changed).write_text("changed\n")
    assert _touched(repository) == dict.fromkeys(kernels, Path(changed).name)


def test_a_module_that_is_a_kernel_touches_the_kernels_that_name_it(repository: Path) -> None:
    kernels = (*_kernels(repository), PythonKernel("h", "rms_norm", repository / "helper.py", "triton"))
    (repository / "helper.py").write_text("x = 2\n")
    found = touched(kernels, repository, changes_since("HEAD", repository))
    assert found == {"t": "helper.py", "h": "helper.py"}


def test_commits_since_the_base_count_and_those_of_the_base_do_not(repository: Path) -> None:
    _git(repository, "branch", "feature")
    (repository / "b.c").write_text("int b;\n")
    _git(repository, "commit", "-am", "on main")
    _git(repository, "checkout", "feature")
    (repository / "a.c").write_text("int a;\n")
    _git(repository, "commit", "-am", "on the branch")
    assert _touched(repository, "main") == {"a": "a.c"}


def test_without_a_base_or_a_repository_every_kernel_counts_as_changed(
    repository: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    assert set(touched(_kernels(repository), repository, changes_since(None, repository))) == set("abctu")
    outside = tmp_path_factory.mktemp("outside")
    changes = changes_since("HEAD", outside)
    assert changes.files is None
    assert changes.notes == (f"{outside} is in no git repository: every kernel counts as changed",)
    with pytest.raises(ChangesError, match="git knows no such commit"):
        changes_since("nowhere", repository)


def test_a_change_of_the_engine_or_of_a_shared_header_touches_the_built_in_kernels() -> None:
    pack = load(built_in())
    same = frozenset(path.relative_to(CHECKOUT).as_posix() for path in pack.path.rglob("*.*"))

    def changed(path: Path) -> Changes:
        return Changes("x", frozenset({path}), same, root=CHECKOUT)

    engine = changed(CHECKOUT / "fuzz" / "core" / "judge" / "judge.py")
    assert set(touched(pack.kernels, pack.path, engine)) == {kernel.name for kernel in pack.kernels}
    assert touched(pack.kernels, pack.path, changed(Path(__file__).resolve())) == {}
    avx2 = changed((pack.path / "rms_norm" / "c" / "avx2.c").resolve())
    assert "avx2" in touched(pack.kernels, pack.path, avx2)
    assert "neon" not in touched(pack.kernels, pack.path, avx2)


def test_cpp_its_headers_and_libraries_touch_the_kernel_that_names_them(repository: Path) -> None:
    (repository / "include").mkdir()
    (repository / "lib.a").touch()
    sources, include = (repository / "a.c", repository / "d.cpp"), (repository / "include",)
    several = CKernel("several", "rms_norm", sources=sources, include=include)
    linked = CKernel("linked", "rms_norm", repository / "b.c", libraries=(repository / "lib.a", "-lm"))
    for name, text, kernel in (
        ("d.cpp", "#include <d.hpp>\n", "several"),
        ("include/d.hpp", "int d;\n", "several"),
        ("lib.a", "no library\n", "linked"),
    ):
        (repository / name).write_text(text)
        same = frozenset(path.relative_to(repository).as_posix() for path in repository.rglob("*"))
        changes = Changes("x", frozenset({repository / name}), same, root=repository)
        assert touched([several, linked], repository, changes) == {kernel: Path(name).name}


def test_a_module_of_a_package_beside_a_kernel_touches_it(repository: Path) -> None:
    """Which module of a package is imported is written in the package."""
    beside = repository.parent / "src"
    (beside / "own").mkdir(parents=True)
    for name, text in (
        ("v.py", "from own import one\n"),
        ("own/__init__.py", "from .c import one\n"),
        ("own/c.py", ""),
    ):
        (beside / name).write_text(text)
    _commit_all(repository)
    kernels = (PythonKernel("v", "rms_norm", beside / "v.py", "numpy"),)
    assert touched(kernels, repository, changes_since("HEAD", repository)) == {}
    (beside / "own" / "c.py").write_text("one = 2\n")
    assert touched(kernels, repository, changes_since("HEAD", repository)) == {"v": "c.py"}


@pytest.mark.some(4)
@pytest.mark.parametrize(
    ("changed", "kernels"),
    [
        ("data/w1.bin", "abctu"),  # its name may be made up as a kernel runs
        ("data/notes.md", ""),
        ("findings/x.json", ""),
        (".hidden/x.json", ""),
        ("../named/w.bin", "t"),
        ("../named/k.cu", "t"),
        ("../other/w.bin", ""),
    ],
)
def test_data_touches_the_kernels_that_may_read_it(repository: Path, changed: str, kernels: str) -> None:
    (repository / "t.py").write_text("import os\nf = lambda: open(os.path.join('named', 'w' + '.bin'))\n")
    _commit_all(repository)
    (repository / changed).parent.mkdir()
    (repository / changed).write_text("data\n")
    assert _touched(repository) == dict.fromkeys(kernels, Path(changed).name), "added"
    _commit_all(repository)
    (repository / changed).unlink()
    assert _touched(repository) == dict.fromkeys(kernels, Path(changed).name), "deleted"


def test_data_below_a_python_kernel_outside_the_pack_touches_it(repository: Path) -> None:
    beside = repository.parent / "src"
    (beside / "data").mkdir(parents=True)
    for name, text in (("v.py", "name = 'w%d.bin'\n"), ("v.c", ""), ("data/w1.bin", "1")):
        (beside / name).write_text(text)
    _commit_all(repository)
    kernels = (PythonKernel("v", "rms_norm", beside / "v.py", "numpy"), CKernel("c", "rms_norm", beside / "v.c"))
    assert touched(kernels, repository, changes_since("HEAD", repository)) == {}
    (beside / "data" / "w1.bin").write_text("2")
    assert touched(kernels, repository, changes_since("HEAD", repository)) == {"v": "w1.bin"}


def test_data_that_git_ignores_touches_the_kernels_that_name_it(repository: Path) -> None:
    (repository / "t.py").write_text("where = 'data/w.bin'\n")
    (repository / ".gitignore").write_text("data\nmore\n__pycache__\n")
    _commit_all(repository)
    for folder in ("data", "more", "__pycache__"):
        (repository / folder).mkdir()
        (repository / folder / "w.bin").write_text("1")
    assert _touched(repository) == {"t": "data, which git does not follow"}
