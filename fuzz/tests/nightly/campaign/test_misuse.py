"""A Python kernel that cannot be called as it is declared ends no night."""

from __future__ import annotations

from pathlib import Path

from fuzz.tests.conftest import Cli
from fuzz.tests.cover.campaign.test_misuse import FAILS, MISUSED, PACK


def test_a_night_tells_of_it_as_of_one_that_is_broken(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "pack.py").write_text(PACK)
    text, said = MISUSED["returns"]
    (tmp_path / "mine_odd.py").write_text(text)
    (tmp_path / "mine_good.py").write_text(FAILS.replace("3", "2"))
    done = cli("nightly", "--pack", ".", "-j", "1", "--max-time", "1m", "--seed", "1", "--state", "state")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "broken: mine_odd" in done.stdout
    assert said in done.stdout
