"""What comes with the tool is listed wherever it is installed, and what a pack has only where there is one."""

from __future__ import annotations

import pytest

from fuzz.cli.exits import Exit
from fuzz.report.listings import listing
from fuzz.tests.conftest import Cli


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """An installation without a checkout, in a folder without kernels."""
    monkeypatch.setattr("fuzz.adapters.pack._candidates", tuple)


@pytest.mark.usefixtures("alone")
def test_ops_and_laws_are_listed_without_a_pack() -> None:
    ops, laws = (listing(what, None).rows for what in ("ops", "laws"))
    assert ("rms_norm", "formula") in [(name, what) for name, what, _ in ops]
    assert {text for _, what, text in ops if what == "kernels"} == {"none"}
    assert {holders for *_, holders in laws} == {"none"}


@pytest.mark.usefixtures("alone")
def test_kernels_need_one_and_the_line_says_how_to_get_it(cli_here: Cli) -> None:
    done = cli_here("list", "kernels")
    assert done.returncode == Exit.USAGE
    assert "--pack DIR; kernelfuzz init DIR --kind c writes one" in done.stderr
