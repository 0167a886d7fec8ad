"""The action, on the package as pip installs it."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import numpy
import pytest
import typer
import yaml

from fuzz.cli.exits import Exit
from fuzz.core.adapters.build import cache_directory
from fuzz.report.github import MARK
from fuzz.tests.common.validity import valid_sarif
from fuzz.tests.conftest import CHECKOUT, GENERIC, HANG_S, copy_headers, edited
from fuzz.tests.cover.docs.test_workflows import Runner

_PACK = """from pathlib import Path

from fuzz import Capabilities, CKernel

KERNELS = (CKernel("norm", "rms_norm", Path(__file__).parent / "norm.c", capabilities=Capabilities(strides="pitched")),)
"""
_GH = """#!/bin/sh
case "$*" in *--paginate*) ;; *) echo "$@" > asked ;; esac
"""


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What pip would download, built from the checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    for package in ("fuzz", "oracles"):
        shutil.copytree(CHECKOUT / package, source / package, ignore=shutil.ignore_patterns("tests", "__pycache__"))
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(CHECKOUT / name, source)
    build = "import sys, setuptools.build_meta; setuptools.build_meta.build_wheel(sys.argv[1])"
    command = [sys.executable, "-c", build, str(folder)]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True, check=False, timeout=HANG_S)
    assert done.returncode == 0, done.stderr
    [built] = folder.glob("kernelfuzz-*.whl")
    return built


@pytest.fixture
def installing(tmp_path: Path) -> Runner:
    """A machine whose pip has no network, and a virtual environment that sees what we depend on but not kernelfuzz."""
    fake, beside, venv = tmp_path / "fake", tmp_path / "beside", tmp_path / ".kernelfuzz" / "venv"
    fake.mkdir()
    # It writes nothing, and reads what it is given, or else a pipe breaks.
    (fake / "sudo").write_text('#!/bin/sh\n[ "$1" != tee ] || cat > /dev/null\n')
    (fake / "sudo").chmod(0o755)
    beside.mkdir()
    for folder in dict.fromkeys(str(Path(module.__file__ or "").parents[1]) for module in (numpy, typer, yaml)):
        for path in Path(folder).iterdir():
            if "kernelfuzz" not in path.name and path.suffix != ".pth" and not (beside / path.name).exists():
                (beside / path.name).symlink_to(path)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True, timeout=HANG_S)
    packages = sysconfig.get_path("purelib", "venv", {"base": str(venv), "platbase": str(venv)})
    (Path(packages) / "beside.pth").write_text(f"{beside}\n")
    return Runner(tmp_path, fake, {"PYTHONPATH": "", "KERNELFUZZ_CACHE": str(cache_directory())})


def test_the_action_installs_and_runs_in_a_repository_that_is_not_ours(
    installing: Runner, wheel: Path, planted: Callable[..., Path]
) -> None:
    """The real commands, on the package as pip installs it, in a folder without built-in kernels and corpora."""
    done = installing.run("Install", install=f"--no-deps --no-index {wheel}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no pack is here" in done.stdout
    installed = [*(installing.folder / ".kernelfuzz" / "venv" / "lib").glob("python*/site-packages/fuzz")]
    assert len(installed) == 1, "the package is not the installed one"
    pack = planted(GENERIC).rename(installing.folder / "mine")
    words = f"--pack {pack.name} --target c-planted@native:gcc-O2"
    done = installing.run("Gate", arguments=f"{words} --max-cases 32")
    assert done.returncode == 0, done.stdout + done.stderr
    results = installing.folder / "kernelfuzz-results"
    valid_sarif((results / "kernelfuzz.sarif").read_text())
    assert "no corpora are here" in (installing.folder / "STEP_SUMMARY").read_text()
    done = installing.run("Night", **{"max-time": "1s", "arguments": words})
    # A second may be too short for anything to be judged.
    assert done.returncode in (Exit.OK, Exit.NOTHING_RAN), done.stdout + done.stderr
    assert (results / "state" / "report.html").is_file()
    assert "## kernelfuzz nightly" in (installing.folder / "STEP_SUMMARY").read_text()


def _git(folder: Path, *words: str) -> None:
    identity = ("-c", "user.name=t", "-c", "user.email=t@t", "-c", "init.defaultBranch=main")
    subprocess.run(("git", *identity, *words), cwd=folder, check=True, capture_output=True, timeout=HANG_S)


@pytest.fixture
def empty(tmp_path: Path) -> Runner:
    """A machine with a repository of a right kernel. Steps install what pip brings and nothing else."""
    fake, pack = tmp_path / "fake", tmp_path / "mine"
    for folder in (fake, pack):
        folder.mkdir()
    programs = {"sudo": "#!/bin/sh\ncat > /dev/null\n", "apt-get": "#!/bin/sh\n", "gh": _GH}
    for name, text in programs.items():
        (fake / name).write_text(text)
        (fake / name).chmod(0o755)
    (pack / "pack.py").write_text(_PACK)
    (pack / "norm.c").write_text(GENERIC)
    copy_headers(pack)
    _git(tmp_path, "init")
    _git(tmp_path, "add", "mine")
    _git(tmp_path, "commit", "-m", "a right kernel")
    _git(tmp_path, "checkout", "-b", "change")
    return Runner(tmp_path, fake, {"PYTHONPATH": "", "CI": "true", "GITHUB_ACTIONS": "true", "COLUMNS": "80"})


def test_a_pull_request_is_judged_by_the_wheel_in_an_empty_environment(empty: Runner, wheel: Path) -> None:
    """pip brings what the wheel asks for, in the versions of CI; a change that breaks a kernel is annotated where its
    source is, and the comment has a command that shows it again; mended, the same change passes."""
    done = empty.run("Install", install=f"-c {CHECKOUT / '.ci' / 'constraints.txt'} {wheel}")
    assert done.returncode == 0, done.stdout + done.stderr
    source, results = empty.folder / "mine" / "norm.c", empty.folder / "kernelfuzz-results"
    words = {"base": "main", "arguments": "--pack mine --target *@native:gcc-O2 --max-cases 64 --explain-time 5s"}
    source.write_text(edited("reciprocal_rms(total, n, eps)", "reciprocal_rms(total, n, 0.0f * eps)"))
    _git(empty.folder, "commit", "-a", "-m", "a mistake")

    done = empty.run("Gate", **words)
    assert done.returncode == Exit.FINDINGS, done.stdout + done.stderr
    annotations = re.findall(r"^::error file=(.*?),line=(\d+),title=(.*?)::(.*)$", done.stdout, re.MULTILINE)
    assert annotations, done.stdout
    assert all((empty.folder / file).samefile(source) and int(line) > 0 for file, line, _, _ in annotations)
    assert all("FAIL  norm  " in said and "%0A" in said for _, _, _, said in annotations)
    comment = (results / "comment.md").read_text()
    assert comment.startswith(f"{MARK}\n### kernelfuzz gate: FAILED")
    assert f"**Worse: {len(annotations)}**" in comment
    assert empty.run("Comment").returncode == 0
    assert "-F body=@kernelfuzz-results/comment.md" in (empty.folder / "asked").read_text()

    [repro, *_] = re.findall(r"next: kernelfuzz (repro .*?)(?:  |$)", comment, re.MULTILINE)
    program = empty.folder / ".kernelfuzz" / "venv" / "bin" / "kernelfuzz"
    again = subprocess.run(
        (str(program), *shlex.split(repro)), cwd=empty.folder, env={**os.environ, "PYTHONPATH": ""}, text=True,
        capture_output=True, timeout=HANG_S, check=False,
    )  # fmt: skip
    assert again.returncode == Exit.FINDINGS, again.stdout + again.stderr

    source.write_text(GENERIC + "/* mended */\n")
    _git(empty.folder, "commit", "-a", "-m", "mended")
    done = empty.run("Gate", **words)
    assert done.returncode == Exit.OK, done.stdout + done.stderr
    assert "::error" not in done.stdout
    assert "**Worse: nothing**" in (results / "comment.md").read_text()
