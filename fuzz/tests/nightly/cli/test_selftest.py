"""`kernelfuzz selftest` on all mutants of the built-in pack."""

from __future__ import annotations

import json
from pathlib import Path

from fuzz.tests.conftest import Cli


def test_every_mutant_is_killed_for_the_right_reason(cli: Cli, tmp_path: Path) -> None:
    done = cli("selftest", "--json", "selftest.json")
    mutants = json.loads((tmp_path / "selftest.json").read_text())["mutants"]
    assert len(mutants) >= 7
    excused = {mutant["mutant"] for mutant in mutants if "this processor has no avx512f" in mutant["not_run"]}
    for mutant in mutants:
        assert mutant["passed"] or mutant["mutant"] in excused, mutant
        assert all(target["verdict"] and not target["trouble"] for target in mutant["targets"])
    assert done.returncode == (10 if excused else 0), done.stdout
