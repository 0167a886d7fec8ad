"""A gate that knows from a store what failed before the change."""

from __future__ import annotations

from pathlib import Path

from fuzz.report.github import MARK
from fuzz.tests.conftest import run_cli
from fuzz.tests.cover.campaign.test_nightly import PACK
from fuzz.tests.nightly.extras.test_fleet import THREE


def test_a_comment_says_what_a_change_made_worse_and_better_and_what_failed_before(tmp_path: Path) -> None:
    pack = tmp_path / "pack"
    pack.mkdir()
    (pack / "pack.py").write_text(PACK)
    stored = ("--pack", "pack", "--store", "sqlite:///bugs.sqlite")
    before = run_cli(tmp_path, "run", *stored, "--max-cases", "300", "--seed", "3", NO_COLOR="1")
    assert before.returncode == 1, before.stderr
    gate = ("gate", *stored, "--max-cases", "300", "--no-shrink", "--report", "comment=comment.md", "--output", "seen")
    same = run_cli(tmp_path, *gate)
    assert same.returncode == 0, same.stdout
    said = (tmp_path / "comment.md").read_text()
    assert said.startswith(f"{MARK}\n### kernelfuzz gate: passed")
    assert "**Worse: nothing**" in said
    assert "**Better: nothing**" in said
    assert "more failed before, too." in said

    mended = THREE.replace("replace(GENERIC, name=\"loses-eps\",\n    edits=((\"reciprocal_rms(total, n, eps)\", "
                           "\"reciprocal_rms(total, n, 0)\"),))", "replace(GENERIC, name=\"loses-eps\")")  # fmt: skip
    assert mended != THREE
    (pack / "pack.py").write_text(mended)
    changed = run_cli(tmp_path, *gate)
    assert changed.returncode == 1, changed.stdout
    worse, better = (tmp_path / "comment.md").read_text().split("**Better: 1**")
    assert "loses-first" in worse
    assert "next: kernelfuzz repro" in worse
    assert "loses-tail" not in worse
    assert "loses-eps-values, since night 1: " in better
    nights = run_cli(
        tmp_path, "report", "sqlite:///bugs.sqlite", "--output", "page", "--pack", "pack", "--json", "n.json"
    )
    assert nights.returncode == 0
    assert "night 1" in (tmp_path / "page" / "report.html").read_text(), "a gate only reads the store"
