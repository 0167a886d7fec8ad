"""An error of ours over one case ends no run: it is told, kept and counted, and what was found is shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fuzz.tests.common.own_pack import WRONG, unknown_afterwards, write_pack
from fuzz.tests.conftest import Cli
from oracles.formula.contract import Contract
from oracles.formula.trace import FormulaError
from oracles.tiers import terms
from oracles.truth import OracleDisagreement, Truth

_WORDS = "--pack . --seed 1 --max-cases 40 -j 1 --no-shrink --target c-bent@native:gcc-O2,numpy-bent-numpy@cpu"


@pytest.fixture
def pack(tmp_path: Path) -> Path:
    return write_pack(tmp_path, WRONG)


def test_tiers_that_disagree_lose_no_finding(cli_here: Cli, pack: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    confirm = Truth._confirm

    def disagree(self: Truth, name: str, contract: Contract, index: tuple[int, ...], got: float, passing: bool) -> Any:
        if passing:
            raise OracleDisagreement("the tiers disagree")
        return confirm(self, name, contract, index, got, passing)

    monkeypatch.setattr(Truth, "_confirm", disagree)
    monkeypatch.setattr("oracles.truth.SAMPLE", 1)
    with unknown_afterwards():
        done = cli_here("run", *_WORDS.split())
        assert done.returncode == 3, done.stdout + done.stderr
        assert "FAIL  bent  " in done.stdout
        assert "ORACLE_GAVE_UP" in done.stdout
        (line, *_) = [each for each in done.stderr.splitlines() if "the tiers disagree" in each]
        kept = line.partition("kept as ")[2].partition(";")[0]
        again = cli_here("repro", kept, "--pack", ".")
        assert again.returncode == 3, again.stdout + again.stderr
        assert "internal error: the tiers disagree; please report it" in again.stderr


def test_a_budget_that_cannot_be_told_loses_no_finding(
    cli_here: Cli, pack: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def untold(*_: object) -> None:
        raise FormulaError("an index that kernels calculate in different ways takes different elements")

    monkeypatch.setattr(terms, "terms_of", untold)
    with unknown_afterwards():
        done = cli_here("run", *_WORDS.split())
    assert done.returncode == 1, done.stdout + done.stderr
    assert "FAIL  bent  " in done.stdout
    assert "internal error: FormulaError: an index that" in done.stdout
