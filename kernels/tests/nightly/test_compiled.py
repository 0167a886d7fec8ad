"""torch.compile on a machine that has never compiled anything."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[3]


def test_the_first_compilation_works_and_leaves_nothing_behind_for_others(tmp_path: Path) -> None:
    """What torch keeps in the folder for temporary files serves every program of this user."""
    [case] = (CHECKOUT / "corpora" / "historical").glob("b001-c2f3ea71f4bb.json")
    shared, cache = tmp_path / "shared", tmp_path / "cache"
    shared.mkdir()
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT), "TMPDIR": str(shared), "KERNELFUZZ_CACHE": str(cache)}
    command = [sys.executable, "-m", "fuzz", "repro", str(case), "--target", "torch-compiled@cpu"]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert list(shared.rglob("*.gch")) == []


def test_a_compiler_that_builds_nothing_accuses_no_kernel(tmp_path: Path) -> None:
    [case] = (CHECKOUT / "corpora" / "historical").glob("b001-c2f3ea71f4bb.json")
    compiler = tmp_path / "g++"
    compiler.write_text('#!/bin/sh\ncase "$*" in *--version*) exec g++ "$@";; esac\necho "error: broken" >&2\nexit 1\n')
    compiler.chmod(0o755)
    environment = {**os.environ, "CXX": str(compiler), "KERNELFUZZ_CACHE": str(tmp_path / "cache")}
    command = [sys.executable, "-m", "fuzz", "repro", str(case), "--target", "torch-compiled@cpu"]
    done = subprocess.run(command, env=environment, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    said = " ".join(done.stderr.split())
    assert "nothing could be judged" in said, done.stdout + done.stderr
    assert "torch-compiled@cpu: torch.compile cannot build x + 1 here either" in said
    assert "error: broken" in said
    assert done.returncode == 125
