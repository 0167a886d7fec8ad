"""Coverage after a search of thousands of cases."""

from __future__ import annotations

import json
from pathlib import Path

from fuzz.tests.conftest import Cli


def test_one_kernel_has_no_gaps_after_a_while(cli_here: Cli, tmp_path: Path) -> None:
    words = ("run", "--max-cases", "8000", "--seed", "1", "--target", "c-composed@native:gcc-O2", "--coverage")
    whole = cli_here(*words, "--json", "whole.jsonl")
    summary = json.loads((tmp_path / "whole.jsonl").read_text().splitlines()[-1])
    gaps = {kind: each["gaps"] for kind, each in summary["coverage"]["rms_norm"].items()}
    assert not {kind: left for kind, left in gaps.items() if left}, whole.stdout
    pairs = summary["pairs"]["rms_norm"]
    assert len(pairs["never"]) < 0.01 * pairs["allowed"]
