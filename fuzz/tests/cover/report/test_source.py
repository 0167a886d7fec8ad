"""Where a report points to in a kernel's source: the lines that were changed, else where its function is."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from fuzz.core.adapters.c_kernel import CKernel
from fuzz.core.base.git import commit_of
from fuzz.report.source import Location, SourceChange, change_of, location_of

_FIRST = "int helper;\n\nint kf_rms_norm(const kf_rms_norm_call *call) {\n    return 0;\n}\n"


def _git(folder: Path, *words: str) -> str:
    as_somebody = ("-c", "user.name=a", "-c", "user.email=a@b")
    done = subprocess.run(["git", *as_somebody, *words], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def kernel(tmp_path: Path) -> CKernel:
    _git(tmp_path, "init", "-q")
    (tmp_path / "k.c").write_text(_FIRST)
    _git(tmp_path, "add", "-A")
    _git(tmp_path, "commit", "-qm", "Add k")
    return CKernel("k", "rms_norm", tmp_path / "k.c")


def test_a_change_is_told_by_its_lines_wherever_it_is(kernel: CKernel, tmp_path: Path) -> None:
    base = _git(tmp_path, "rev-parse", "HEAD")
    first = change_of(kernel)
    assert first is not None
    assert first.title.endswith(" Add k")
    assert first.lines[2] == (3, "int kf_rms_norm(const kf_rms_norm_call *call) {")
    assert change_of(kernel, base) is None, "nothing has changed since"
    kernel.source.write_text(_FIRST.replace("return 0", "return 1"))
    changed = ((4, "    return 1;"),)
    assert change_of(kernel) == SourceChange("not committed", changed)
    assert commit_of(tmp_path) == f"{base[:7]}, with changes"
    since = change_of(kernel, base)
    assert since == SourceChange(f"since {base[:9]}", changed)
    assert location_of(kernel, since) == Location("k.c", 4)
    assert location_of(kernel) == Location("k.c", 3)
    _git(tmp_path, "commit", "-qam", "Return 1")
    assert change_of(kernel) == SourceChange(f"{_git(tmp_path, 'rev-parse', '--short', 'HEAD')} Return 1", changed)


def test_a_long_change_is_cut_and_none_is_told_where_there_is_no_repository(tmp_path: Path) -> None:
    assert change_of(CKernel("k", "rms_norm", tmp_path / "nowhere" / "k.c")) is None
    _git(tmp_path, "init", "-q")
    (tmp_path / "k.c").write_text("\n".join(map(str, range(30))))
    _git(tmp_path, "add", "-A")
    _git(tmp_path, "commit", "-qm", "Add k")
    found = change_of(CKernel("k", "rms_norm", tmp_path / "k.c"))
    assert found is not None
    assert (len(found.lines), found.more) == (12, 18)
