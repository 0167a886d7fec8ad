"""What the table of shipped libraries says of a search."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fuzz.quality import libraries
from fuzz.quality.libraries import found_in


def test_a_row_has_what_a_search_said_of_kernels_and_what_is_kept_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    about = {"pack": "some", "kernel": "kept", "also": "like other"}
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "case.json").write_text(json.dumps({"about": about}))
    monkeypatch.setattr(libraries, "TROPHIES", tmp_path)
    targets = [
        {
            "target": "c-kept@native:gcc-O0",
            "judged": 30,
            "worst": {"f32": [0.25, "a"], "f16": [0.5, "b"]},
            "findings": 1,
        },
        {"target": "c-kept@native:gcc-O2", "judged": 1000, "worst": {}, "findings": 0},
        {"target": "c-like@native:gcc-O2", "judged": 1, "worst": {}, "findings": 1},
        {"target": "torch-fails@cpu", "judged": 7, "worst": {}, "findings": 2},
        {
            "target": "torch-right@cpu",
            "judged": 8,
            "worst": {"f32": [1.0, "c"]},
            "findings": 0,
            "not_run": "2 of 10 runs: its bf16 is wrong here",
        },
        {"target": "torch-absent@cpu", "judged": 0, "worst": {}, "findings": 0, "not_run": "it is not here"},
    ]
    versions = {"torch": "2.0", "some": "3.1", "python": "3.11"}
    records: list[dict[str, Any]] = [
        {"kind": "environment", "targets": [{"versions": versions}, {}]},
        {"kind": "run"},
        {"kind": "summary", "targets": [{"not_run": "", **each} for each in targets]},
    ]
    ops = {"kept": "gelu", "like": "gelu", "fails": "matmul", "right": "softmax", "absent": "rope"}
    found = found_in(records, "some", ops)
    link = "[one](../../corpora/trophies/one/report.md)"
    assert [each.row for each in found] == [
        ("some: some 3.1", "gelu", "2", "3", "1,031", "50%", "2", link),
        ("some: some 3.1", "matmul", "1", "1", "7", "none", "1", "**undecided: fails**"),
        ("some: some 3.1", "softmax", "1", "1", "8", "100%", "0", "none"),
    ]
    assert [bool(each.undecided) for each in found] == [False, True, False]
