"""`kernelfuzz learn` as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fuzz.tests.conftest import Cli


@pytest.mark.whole
def test_the_contract_of_a_kernel_is_learned_and_printed_to_be_pasted(cli_here: Cli, tmp_path: Path) -> None:
    """Its result is rounded before the weight, which a dozen cases show."""
    path = tmp_path / "learned.jsonl"
    done = cli_here(
        "learn", "weighted-llama", "--target", "*O2", "--max-cases", "12", "--seed", "1", "--json", str(path)
    )
    assert done.returncode == 0, done.stderr
    assert "is the narrowest contract found that fits all" in done.stdout
    pasted = done.stdout.splitlines()[-1]
    assert pasted.startswith("contract=Contract(")
    assert "points={'h': 'input'}" in pasted
    (record,) = [each for each in map(json.loads, path.read_text().splitlines()) if each["kind"] == "learned"]
    assert pasted == f"contract={record['fitting'][0]['contract']}"
    assert record["whole"]
    widths = [each["width"] for each in record["fitting"]]
    assert widths == sorted(widths)
    assert not any(each["contradicted"] for each in record["fitting"])
    assert all(each["contradicted"] and each["first"]["digest"] for each in record["contradicted"])


def test_a_kernel_that_nobody_knows_is_a_usage_error(cli_here: Cli) -> None:
    done = cli_here("learn", "nobody")
    assert done.returncode == 4
    assert done.stderr.startswith("kernelfuzz: nobody: no such kernel; see: kernelfuzz list kernels")


@pytest.mark.whole
def test_a_bug_is_no_contract(cli_here: Cli) -> None:
    done = cli_here("learn", "generic-divides-by-n-plus-1", "--target", "*O2", "--max-cases", "24", "--seed", "1")
    assert done.returncode == 1, done.stdout
    assert "generic-divides-by-n-plus-1: no contract fits" in done.stdout
    head, *rows = done.stdout[done.stdout.index("\ncontract ") :].strip().splitlines()
    assert head.split() == ["contract", "width", "contradicted", "err/budget", "first", "by"], "in one line"
    assert sorted(row.partition("  ")[0] for row in rows)[:2] == ["compute='bf16'", "compute='f16'"]
    assert "contract=" not in done.stdout


_NO_TIME = ("--target", "*O2", "--max-time", "0.001s", "--seed", "1")
"""The time is over before the first contract is made narrower, or repaired."""


@pytest.mark.whole
def test_where_time_is_over_what_fits_is_said_to_be_the_narrowest_found(cli_here: Cli) -> None:
    done = cli_here("learn", "generic", *_NO_TIME)
    assert done.returncode == 0, done.stdout
    assert "is the narrowest contract found that fits all" in done.stdout
    assert "not finished: the time was over, and only " in done.stdout


@pytest.mark.whole
def test_where_time_is_over_nothing_is_said_of_what_was_not_tried(cli_here: Cli) -> None:
    done = cli_here("learn", "generic-divides-by-n-plus-1", *_NO_TIME)
    assert done.returncode == 1, done.stdout
    assert "generic-divides-by-n-plus-1: no contract that was tried in the time fits " in done.stdout
    assert "it has a bug" not in done.stdout
    assert "not finished: the time was over, and only " in done.stdout
