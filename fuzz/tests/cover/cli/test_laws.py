"""A broken law as a user meets it: found, explained, kept, replayed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fuzz.core.adapters.pack import built_in, load
from fuzz.core.laws.registry import LAWS
from fuzz.tests.conftest import GENERIC, Cli

Planted = Callable[..., Path]


def _pack(planted: Planted, laws: tuple[str, ...]) -> str:
    """A kernel that sums batches of more than two rows in an order of their own."""
    (mutant,) = [mutant for mutant in load(built_in()).mutants if mutant.name == "generic-order-by-rows"]
    source = GENERIC
    for old, new in mutant.edits:
        assert source.count(old) == 1
        source = source.replace(old, new)
    folder = planted(source)
    entry = folder / "pack.py"
    old = "aliases=(('y', 'x'),))),)"
    declared = entry.read_text().replace(old, f"aliases=(('y', 'x'),)), laws={laws!r}),)")
    assert declared != entry.read_text()
    entry.write_text(declared)
    assert repr(laws) in declared
    return str(folder)


def _runs(path: Path) -> list[dict[str, Any]]:
    records = [json.loads(line) for line in path.read_text().splitlines()]
    return [record for record in records if record["kind"] == "run"]


def test_a_broken_law_is_found_explained_kept_and_replayed(cli_here: Cli, planted: Planted, tmp_path: Path) -> None:
    pack = _pack(planted, ("rerun", "batch_append"))
    found = cli_here(
        "run", "--pack", pack, "--max-cases", "240", "--seed", "1", "--no-shrink", "--json", "out.jsonl", "-v"
    )
    assert found.returncode == 1, found.stdout + found.stderr
    (path,) = (tmp_path / "findings").glob("*.json")
    assert path.name.startswith("planted-fail_law-batch_append-")
    (line,) = [line for line in found.stdout.splitlines() if line.startswith("  what ")]
    assert "batch_append (more rows after the last one): " in line
    assert line.count("(0x") == 2
    assert "twin's x" in found.stdout
    assert "laws compared: rerun " in found.stdout

    failing = [record for record in _runs(tmp_path / "out.jsonl") if record["verdict"] == "FAIL_LAW"]
    assert failing
    assert {record["law"] for record in failing} == {"batch_append"}

    again = cli_here("repro", str(path), "--pack", pack, "-v")
    assert again.returncode == 1, again.stdout + again.stderr
    assert " ".join(line.split()) in " ".join(again.stdout.split())
    correct = cli_here("repro", str(path), "--target", "c-generic@*")
    assert correct.returncode == 0, correct.stdout

    record = json.loads(path.read_text())
    record["found"]["law"]["key"] = f"{int(record['found']['law']['key'], 16) ^ 1:016x}"
    path.write_text(json.dumps(record))
    altered = cli_here("repro", str(path), "--pack", pack)
    assert altered.returncode == 4
    assert "found.law.seal" in altered.stderr


@pytest.mark.whole
def test_a_law_that_is_not_declared_is_not_held_against_a_kernel(
    cli_here: Cli, planted: Planted, tmp_path: Path
) -> None:
    pack = _pack(planted, ("rerun",))
    for name in ("one.jsonl", "two.jsonl"):
        done = cli_here("run", "--pack", pack, "--max-cases", "160", "--seed", "1", "--json", name)
        assert done.returncode == 0, done.stdout
    one, two = ([(r["case"], r.get("law")) for r in _runs(tmp_path / name)] for name in ("one.jsonl", "two.jsonl"))
    assert one == two
    assert {law for _, law in one} == {None, "rerun"}


def test_an_unknown_law_is_a_usage_error(cli_here: Cli, planted: Planted) -> None:
    done = cli_here("run", "--pack", _pack(planted, ("gravity",)), "--max-cases", "16")
    assert done.returncode == 4
    assert "'gravity' is not one of rerun, " in done.stderr


@pytest.mark.some(1)
@pytest.mark.parametrize("options", [(), ("--markdown",)])
def test_all_laws_are_listed_with_who_declares_them(cli_here: Cli, options: tuple[str, ...]) -> None:
    shown = cli_here("list", "laws", *options).stdout
    assert all(name in shown for name in LAWS)
    (layout,) = [line for line in shown.splitlines() if "contiguous copy" in line]
    assert "generic" in layout
    assert "dispatch" not in layout
