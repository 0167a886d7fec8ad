"""What a tool that watches a worker reports, read from what compute-sanitizer 2025.3 wrote on an H100."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuzz.core.transport.python.watched import REPORT, Report

_BEGUN = "========= COMPUTE-SANITIZER\n"
_UNSET = """\
========= Uninitialized __global__ memory read of size 4 bytes
=========     at add+0xf0 in san.py:11
=========     by thread (32,0,0) in block (0,0,0)
=========     Address 0x7fd6d6800480
=========
"""
_RACE = """\
========= Error: Race reported between Write access at race+0x120 in softmax.cu:3
=========     and Read access at race+0x130 in softmax.cu:4 [1024 hazards]
=========
"""
_WARNING = (
    "========= Warning: Race reported between Read access at a+0x1 in b.cu:1\n=========     and Write access at a+0x2\n"
)


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "log"
    path.write_text(_BEGUN)
    monkeypatch.setenv(REPORT, str(path))
    return path


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (
            _UNSET,
            "Uninitialized __global__ memory read of size 4 bytes at add+0xf0 in san.py:11 by thread (32,0,0) in block "
            "(0,0,0)",
        ),
        (
            _RACE,
            "Race reported between Write access at race+0x120 in softmax.cu:3 and Read access at race+0x130 in "
            "softmax.cu:4 [1024 hazards]",
        ),
        (_WARNING, "Race reported between Read access at a+0x1 in b.cu:1 and Write access at a+0x2"),
        ("========= ERROR SUMMARY: 0 errors\n", ""),
    ],
)
def test_it_is_the_first_error_since_it_was_asked(log: Path, said: str, words: str) -> None:
    with log.open("a") as tool:
        report = Report()
        assert report.words() == ""
        tool.write(said + said)
        tool.flush()
        assert report.words() == words
        assert report.words() == ""
    assert not log.exists()
