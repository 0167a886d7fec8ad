"""More planted bugs are found, shrunk to the smallest case that fails, and explained by what was planted."""

from __future__ import annotations

import pytest

from fuzz.cli.exits import Exit
from fuzz.cli.selftest import SelftestOptions, selftest

_MORE = (
    "weighted-eps-as-x", "weighted-overlap-forgotten", "backward-dw-unwritten",
    "sve-tail-dont-care", "avx2-drops-eps", "generic-writes-past-row", "generic-order-by-rows",
    "weighted-rstd-unwritten", "weighted-reads-weight-as-x", "weighted-second-pass-ignores-stride",
    "add-residual-at-pitch-of-x", "backward-rstd-of-first-row", "backward-dx-over-dy-too-early",
    "avx2-tail-dropped-at-31", "weighted-first-row-of-weights", "weighted-llama-takes-any-weight",
    "add-same-buffer-added-once",
)  # fmt: skip


@pytest.mark.parametrize("name", _MORE)
def test_the_explanation_names_what_was_planted(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    code = selftest(SelftestOptions(keyword=name, explain=True))
    told = capfd.readouterr().out
    assert code is Exit.OK, told
    assert "1 of 1 mutants explained by what was planted" in told
    assert "1 of 1 shrunk cases are the smallest that fail" in told
