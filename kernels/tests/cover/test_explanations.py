"""A planted bug is found, shrunk to the smallest case that fails, and explained by what was planted."""

from __future__ import annotations

import pytest

from fuzz.cli.exits import Exit
from fuzz.cli.selftest import SelftestOptions, selftest


def test_the_explanation_names_what_was_planted(capfd: pytest.CaptureFixture[str]) -> None:
    code = selftest(SelftestOptions(keyword="avx2-tail-dropped-at-31", seed=2, explain=True))
    told = capfd.readouterr().out
    assert code is Exit.OK, told
    assert "1 of 1 mutants explained by what was planted" in told
    assert "1 of 1 shrunk cases are the smallest that fail" in told
