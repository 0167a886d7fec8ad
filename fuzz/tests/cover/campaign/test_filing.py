"""The texts of a night's bugs, and their issues: filed once, closed when the case passes, opened when it fails."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import Engine

from fuzz.campaign.nightly.opening import begin_slice, open_night
from fuzz.campaign.nightly.results import Filing
from fuzz.campaign.nightly.sharing import Slice
from fuzz.core.adapters.python_kernel import PythonKernel
from fuzz.core.base.verdict import Verdict
from fuzz.core.judge.judge import Judgement
from fuzz.explain.finding import Finding
from fuzz.findings import casefile
from fuzz.findings.bucket import Bucket, Source
from fuzz.findings.database import open_state
from fuzz.findings.database_store import DatabaseStore
from fuzz.findings.database_views import NightView, view
from fuzz.findings.store import Unsaved
from fuzz.report.filing import program_of
from fuzz.tests.common.examples import plain
from fuzz.tests.common.told import NOTHING

TARGET = "numpy-mine@cpu"
FACTS = {"kernelfuzz": "0.2.0", "python": "3.12.1", "packages": {"numpy": "2.3", "torch": None}, "commit": "abc123"}
SOURCE = """
import numpy as np

SCALE = 3.0  # a fault


def unused() -> None:
    raise RuntimeError


def _scaled(x: np.ndarray) -> np.ndarray:
    return x * SCALE


def mine(x: np.ndarray, weight: np.ndarray | None = None, *, eps: float, y: np.ndarray) -> None:
    y[...] = _scaled(x)
"""
GH = """#!/bin/sh
printf '%s\\n' "$*" >> "$GH_LOG"
if [ "$2" = create ]; then cat > "$GH_LOG.body"; echo https://github.com/me/mine/issues/7; fi
"""


@pytest.fixture
def kernel(tmp_path: Path) -> PythonKernel:
    (tmp_path / "kernels.py").write_text(SOURCE)
    return PythonKernel("mine", "rms_norm", tmp_path / "kernels.py", "numpy", entry="mine")


def _night(engine: Engine, folder: Path, *, fails: bool) -> NightView:
    """One more night, in which the only bug fails or its case passes."""
    opened = open_night(engine, 1, 10.0, "kernelfuzz nightly", FACTS, resume=False)
    begin_slice(engine, opened.position, Slice(0, "rms_norm", 5, 1.0))
    case = plain(3)
    path = folder / "mine-1.json"
    casefile.write(path, casefile.to_json(case))
    told = replace(NOTHING, kernel="mine", target=TARGET)
    finding = Finding(case, Judgement(TARGET, case.digest, Verdict.FAIL_NUMERIC, 2.0), told=told)
    bucket = Bucket("mine-values", "mine", finding, (3, 0), TARGET, Source(5), path, written=True)
    seen = Counter({("mine-values", TARGET): 4}) if fails else Counter[tuple[str, str]]()
    batch = Unsaved(buckets={bucket.name: bucket}, sightings=seen, passed=set() if fails else {bucket.name})
    store = DatabaseStore(engine, folder, opened.position)
    store.load()
    assert store.commit(batch) == ""
    return view(engine, findings=folder)


def test_the_program_of_a_text_runs_and_shows_what_came(kernel: PythonKernel) -> None:
    program = program_of(kernel, plain(3))
    assert "unused" not in program
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.count(".") >= 3, ran.stdout


def test_an_issue_is_filed_once_closed_and_opened_again(
    kernel: PythonKernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, gh = tmp_path / "log", tmp_path / "bin" / "gh"
    gh.parent.mkdir()
    gh.write_text(GH)
    gh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{gh.parent}:/usr/bin:/bin")
    monkeypatch.setenv("GH_LOG", str(log))
    engine, said = open_state(tmp_path / "state.sqlite"), list[str]()
    filing = Filing(tmp_path / "issues", {"mine": kernel}, said.append, "me/mine")
    for fails in (True, True, False, False, True):
        seen = _night(engine, tmp_path, fails=fails)
        texts = filing.write(seen)
        filing.file(seen, texts, engine)
        assert [path.name for path in filing.folder.iterdir()] == (["mine-1.md"] if fails else [])
    lines = log.read_text().splitlines()
    told = [each.split()[1] for each in lines if each.startswith("issue ")]
    assert told == ["create", "close", "reopen"], said
    assert "--repo me/mine --title mine: " in lines[0]
    assert "passes since night 3; it failed last in night 2." in log.read_text()
    body = (tmp_path / "log.body").read_text()
    assert "kernelfuzz 0.2.0, Python 3.12.1, numpy 2.3" in body
    assert "commit abc123" in body
    assert str(tmp_path) not in body, "the text names nothing of this machine"


def test_a_missing_gh_is_said_and_nothing_is_lost(
    kernel: PythonKernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    engine, said = open_state(tmp_path / "state.sqlite"), list[str]()
    filing = Filing(tmp_path / "issues", {"mine": kernel}, said.append, "me/mine")
    seen = _night(engine, tmp_path, fails=True)
    filing.file(seen, filing.write(seen), engine)
    assert said == ["not filed: mine: [Errno 2] No such file or directory: 'gh'"]
    assert (tmp_path / "issues" / "mine-1.md").read_text().startswith("# mine: ")
