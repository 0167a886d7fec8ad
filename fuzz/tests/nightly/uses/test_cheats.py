"""No wrong solution is right, however it tries; and what is said of one is the same each time."""

from __future__ import annotations

from pathlib import Path

from fuzz.tests.common.solutions import CHEATS, HONEST, judged
from fuzz.tests.conftest import Cli


def test_no_solution_that_is_wrong_is_right_however_it_tries(cli_here: Cli, tmp_path: Path) -> None:
    code, ruling = judged(cli_here, tmp_path, CHEATS, "--seed", "7", "--no-shrink")
    assert {each["solution"]: each["verdict"] for each in ruling["solutions"]} == {
        f"{name}.py": "wrong" for name in CHEATS
    }
    assert (code, ruling["verdict"]) == (1, "wrong")


def test_the_same_seed_says_the_same(cli_here: Cli, tmp_path: Path) -> None:
    first = judged(cli_here, tmp_path, HONEST, "--seed", "7")
    assert first[0] == 0
    assert judged(cli_here, tmp_path, HONEST, "--seed", "7") == first
