"""Thousands of answers that a kernel may forge; the gate tries some hundred."""

from __future__ import annotations

from pathlib import Path

from fuzz.tests.common.forged import forge


def test_whatever_a_kernel_answers_each_case_has_an_outcome(tmp_path: Path) -> None:
    forge(tmp_path, 10_000, 2)
