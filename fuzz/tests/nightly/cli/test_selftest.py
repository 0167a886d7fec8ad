"""`kernelfuzz selftest` on all mutants of the built-in pack, in parts that each take minutes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fuzz.core.adapters.pack import built_in, load
from fuzz.tests.conftest import Cli

_MUTANTS = load(built_in()).mutants
_PARTS = 24


@pytest.mark.parametrize("part", range(_PARTS))
def test_every_mutant_is_killed_for_the_right_reason(part: int, cli: Cli, tmp_path: Path) -> None:
    chosen = " or ".join(mutant.name for mutant in _MUTANTS[part::_PARTS])
    done = cli("selftest", "-j", "1", "-k", chosen, "--json", "selftest.json")
    mutants = json.loads((tmp_path / "selftest.json").read_text())["mutants"]
    assert len(mutants) >= len(_MUTANTS) // _PARTS
    excused = {mutant["mutant"] for mutant in mutants if "this processor has no avx512f" in mutant["not_run"]}
    for mutant in mutants:
        assert mutant["passed"] or mutant["mutant"] in excused, mutant
        assert all(target["verdict"] and not target["trouble"] for target in mutant["targets"])
    assert done.returncode == (10 if excused else 0), done.stdout
