"""A case is named by its file, by how a finding begins, or by its place in a search."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuzz.adapters.pack import Pack, built_in, load
from fuzz.base.case import Case, CaseError
from fuzz.base.errors import UsageError
from fuzz.findings.casefile import save
from fuzz.generate.search import StopSearch, search
from fuzz.tests.common.examples import plain
from fuzz.uses.replay import chosen_case


def _pack() -> Pack:
    return load(built_in())


def test_a_place_in_a_search_is_the_case_that_the_search_gives_there() -> None:
    made: list[Case] = []

    def consume(cases: list[Case]) -> None:
        made.extend(cases)
        if len(made) > 40:
            raise StopSearch

    search("rms_norm", 7, consume, _pack().kernels)
    assert [case.origin.number for case in made] == list(range(1, len(made) + 1))
    assert chosen_case("7:rms_norm:37", Path("nowhere"), _pack()).case.digest == made[36].digest


def test_a_finding_is_named_by_its_digest_or_the_beginning_of_its_file(tmp_path: Path) -> None:
    folder = tmp_path / "findings"
    cases = {n: plain(n) for n in (5, 6)}
    for n, case in cases.items():
        save(folder / f"k{n}-fail_numeric-{case.digest[:12]}.json", case)
    for where in (folder, tmp_path):
        assert chosen_case(cases[5].digest[:7], where, _pack()).case == cases[5]
        assert chosen_case("k6-fail", where, _pack()).case == cases[6]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("k5-", "at least 4"),
        ("same", "more than one finding"),
        ("zzzz", "no finding of that name"),
        ("1:x:3", "unknown op"),
        ("1:rms_norm:0", "number 1"),
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
