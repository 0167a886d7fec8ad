"""What `python3 -m fuzz.quality throughput` prints."""

from __future__ import annotations

import json
from pathlib import Path

from fuzz.quality.__main__ import app
from fuzz.tests.conftest import Cli


def test_there_is_a_line_for_each_target(cli_here: Cli, tmp_path: Path) -> None:
    names = ("c-generic@native:gcc-O2", "c-avx2@native:gcc-O2")
    asked = [word for name in names for word in ("--target", name)]
    words = ("throughput", *asked, "--max-n", "64", "--seconds", "0.2s", "-j", "1", "--json", "pace.json")
    done = cli_here(*words, "--markdown", app=app)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    for name in (*names, "all 2 together"):
        assert len([line for line in lines if line.startswith(f"| {name} |")]) == 1
    assert len([line for line in lines if line.startswith("| 1 |")]) == 1
    assert "of the plain way, which failed 0 of" in done.stdout
    told = json.loads((tmp_path / "pace.json").read_text())
    assert [each["what"] for each in told["targets"]] == [*sorted(names, reverse=True), "all 2 together"]
    assert {each["target"] for each in told["plain"]} == set(names)
    assert all(each["judged"] > 0 for each in told["scaling"])
