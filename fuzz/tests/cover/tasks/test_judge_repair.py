"""A wrong kernel is repaired from the JSON of its ruling alone, through the command line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from fuzz.tests.common.repairing import kind_of, repaired
from fuzz.tests.conftest import Cli


@pytest.mark.whole
def test_an_agent_repairs_a_kernel_through_the_command_line(cli_here: Cli, tmp_path: Path) -> None:
    def judged(source: str, reference: str, shapes: str) -> Mapping[str, Any]:
        (tmp_path / "mine.py").write_text(source)
        (tmp_path / "ref.py").write_text(reference)
        words = ("--shapes", shapes, "--seed", "1", "--trusted", "--max-cases", "16", "--no-shrink", "--json")
        done = cli_here("judge", "mine.py", "--against", "ref.py", *words)
        found: dict[str, Any] = json.loads(done.stdout)
        assert found["exit_code"] == done.returncode
        return found

    assert repaired("raise", judged) == ["wrong", "right"]


def test_an_edit_follows_from_what_the_ruling_says() -> None:
    plain = {"line": None, "cause": "", "headline": "", "inputs": "{'x': np.ones((2, 3))}"}
    assert kind_of({**plain, "passes_at": {}}) == "axis"
    assert kind_of({**plain, "passes_at": {"n": [1, 8, 16]}}) == "tail"
    assert kind_of({**plain, "passes_at": {"values": ["tiny", "zeros"]}}) == "precision"
    assert kind_of({**plain, "passes_at": {"values": ["ones", "zeros"]}}) == "eps"
