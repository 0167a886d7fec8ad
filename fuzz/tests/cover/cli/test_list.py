"""What comes with the tool is listed wherever it is installed, and what a pack has only where there is one."""

from __future__ import annotations

import pytest

from fuzz.cli.exits import Exit
from fuzz.tests.conftest import Cli


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """An installation without a checkout, in a folder without kernels."""
    monkeypatch.setattr("fuzz.adapters.pack._candidates", tuple)


@pytest.mark.usefixtures("alone")
def test_ops_and_laws_are_listed_without_a_pack(cli_here: Cli) -> None:
    ops, laws = cli_here("list", "ops"), cli_here("list", "laws")
    assert (ops.returncode, laws.returncode) == (Exit.OK, Exit.OK), ops.stderr + laws.stderr
    assert "y = x rstd" in ops.stdout
    [rerun] = [line for line in laws.stdout.splitlines() if line.startswith("rerun")]
    assert rerun.split()[-1] == "none", "no kernel declares it"


@pytest.mark.usefixtures("alone")
def test_kernels_need_one_and_the_line_says_how_to_get_it(cli_here: Cli) -> None:
    done = cli_here("list", "kernels")
    assert done.returncode == Exit.USAGE
    assert "--pack DIR; kernelfuzz init DIR writes one" in done.stderr
