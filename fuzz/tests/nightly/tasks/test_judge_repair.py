"""Wrong kernels of several kinds are repaired from the JSON of their rulings alone, through `fuzz.judge`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import fuzz
from fuzz.tests.common.repairing import KINDS, repaired


@pytest.mark.parametrize("kind", KINDS)
def test_an_agent_repairs_a_kernel_through_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.chdir(tmp_path)  # where the folder is that `inputs` name

    def judged(source: str, reference: str, shapes: str) -> Mapping[str, Any]:
        (tmp_path / "mine.py").write_text(source)
        (tmp_path / "ref.py").write_text(reference)
        ruling = fuzz.judge(
            "mine.py", against="ref.py", shapes=shapes, seed=1, trusted=True, max_cases=64, no_shrink=True
        )
        found: dict[str, Any] = json.loads(ruling.text())
        return found

    assert repaired(kind, judged) == ["wrong", "right"]
