"""A case is named by its file, by how a finding begins, or by its place in a search."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuzz.campaign.reproducing import chosen_case
from fuzz.core.adapters.pack import Pack, built_in, load
from fuzz.core.base.case import CaseError
from fuzz.core.base.errors import UsageError
from fuzz.core.generate.search import Search
from fuzz.core.generate.turn import Turn
from fuzz.findings.casefile import save
from fuzz.tests.common.examples import plain


def _pack() -> Pack:
    return load(built_in())


def test_a_place_in_a_search_is_the_case_that_the_search_gives_there() -> None:
    search = Search("rms_norm", 7, _pack().kernels)
    state, kinds = b"", len(search.capabilities)
    for number in (1, 1 + kinds):
        made, state = search.cases(Turn(5, number), state)
    case = made[2].case
    assert case.origin.name == f"5:{32 * (1 + kinds) + 3}"
    assert chosen_case(f"7:rms_norm:{case.origin.name}", Path("nowhere"), _pack()).case.digest == case.digest
    big = chosen_case("7:rms_norm:big:2", Path("nowhere"), _pack()).case
    assert big.origin.layout == "rows65536"


def test_a_finding_is_named_by_its_digest_or_the_beginning_of_its_file(tmp_path: Path) -> None:
    folder = tmp_path / "findings"
    cases = {n: plain(n) for n in (5, 6)}
    for n, case in cases.items():
        save(folder / f"k{n}-fail_numeric-{case.digest[:12]}.json", case)
    for where in (folder, tmp_path):
        assert chosen_case(cases[5].digest[:7], where, _pack()).case == cases[5]
        assert chosen_case("k6-fail", where, _pack()).case == cases[6]


@pytest.mark.some(3)
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("k5-", "at least 4"),
        ("same", "more than one finding"),
        ("zzzz", "no finding of that name"),
        ("1:x:0:3", "unknown op"),
        ("1:rms_norm:0:0", "no case of that number"),
        ("1:rms_norm:37", "SEED:OP:SHARD:NUMBER"),
        ("1:rms_norm:64:1", "shards are 0 to 63"),
        ("1:rms_norm:3:17", "record of the search is missing"),
        ("1:rms_norm:big:99", "no case of that number"),
    ],
)
def test_what_names_no_case_says_so(text: str, words: str, tmp_path: Path) -> None:
    for name in ("k5-one", "same-one", "same-two"):
        save(tmp_path / f"{name}.json", plain(5))
    with pytest.raises(UsageError, match=words):
        chosen_case(text, tmp_path, _pack())


def test_a_file_that_is_not_there_is_told_as_a_file(tmp_path: Path) -> None:
    with pytest.raises(CaseError, match="cannot be read"):
        chosen_case(str(tmp_path / "lost.json"), tmp_path, _pack())
