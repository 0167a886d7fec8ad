"""The demonstration, with time for it, says when its kernel fails."""

from __future__ import annotations

from fuzz.tests.conftest import Cli


def test_the_planted_bug_is_explained(cli_here: Cli) -> None:
    done = cli_here("demo", "--explain-time", "5m")
    assert "FAIL  softmax  " in done.stdout
    assert "x = [[1]]  ->  y[0, 0] = 0.25, must be 1" in done.stdout
    assert "none against it" in done.stdout
