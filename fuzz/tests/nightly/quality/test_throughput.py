"""What `python3 -m fuzz.quality throughput` prints."""

from __future__ import annotations

import json
from pathlib import Path

from fuzz.quality.__main__ import app
from fuzz.tests.conftest import Cli


def test_there_is_a_line_for_each_op(cli_here: Cli, tmp_path: Path) -> None:
    words = ("throughput", "--op", "softmax,row_sum", "--seconds", "0.2s", "--json", "pace.json")
    done = cli_here(*words, "--markdown", app=app)
    assert done.returncode == 0, done.stderr
    told = json.loads((tmp_path / "pace.json").read_text())
    assert {each["op"] for each in told["ops"]} == {"softmax", "row_sum"}
    for each in told["ops"]:
        assert each["runs"] > 0
        assert f"\n| {each['op']} |" in done.stdout
