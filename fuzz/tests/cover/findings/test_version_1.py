"""Case files of version 1, written before there was another one, are read for ever. Never write these files anew."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from fuzz.base.case import CaseError
from fuzz.findings.casefile import from_json, load, to_json

FOLDER = Path(__file__).resolve().parents[2] / "common" / "version_1"
DIGESTS = {
    "backward": "a26b0cf5c8d1aeef754027608b195f8c69968ca58c82a3015fa35c85e66bda60",
    "compressed": "d437acc7d50a4ce384c953182719f1dc0fda89bc3f6795a91575a19966f9c6bb",
    "fused": "81604e0309f8765031fca2a09d40d61d702beb8b813801a9b55a4a8e46a1a586",
    "fused_backward": "3b31170e2b46724ad025718dac04568831df222dae543630af19ee5d3285176d",
    "history": "0bf870fc4daf4052ddb0670ea009d880b467f3640f0882ab2ebeb78d04ebe923",
    "law": "0dc31d6dd9530422f70509320dfc61ba667c6181fe6b7fe85b4259add3b9758e",
    "middle_axis": "0dc31d6dd9530422f70509320dfc61ba667c6181fe6b7fe85b4259add3b9758e",
    "offset": "3d6406bb4f0b26e4da843a6750a72398972ee11a7cbd936be8fd12591bff0792",
    "plain": "f90014039297083fa0398a3945113abf59d57741abc053bd0c52852f3f0c7707",
    "shared": "9d664f163f3ebbbd16922e75302f92e96d9a3481c21cf5a305f97fae22c3b90b",
}
"""They are names of cases, in states and reports too: they stay as they are."""


@pytest.mark.parametrize("name", sorted(DIGESTS))
def test_a_file_of_version_1_is_the_case_that_it_was(name: str) -> None:
    case, _ = load(FOLDER / f"{name}.json")
    assert case.digest == DIGESTS[name]


@pytest.mark.parametrize("name", ["middle_axis", "offset", "shared"])
def test_a_parameter_has_its_name_of_today_and_the_case_its_digest(name: str) -> None:
    case, _ = load(FOLDER / f"{name}.json")
    assert "weight_offset" in case.params
    assert "offset" not in case.params
    again, _ = from_json(to_json(case))
    assert (again, again.digest) == (case, DIGESTS[name])
    assert replace(case, params={**case.params, "weight_offset": -1.0}).digest != case.digest


def test_a_parameter_under_both_its_names_is_refused() -> None:
    record = json.loads((FOLDER / "offset.json").read_text())
    record["params"]["weight_offset"] = record["params"]["offset"]
    with pytest.raises(CaseError, match=r"params\.weight_offset: there is a former name of it too"):
        from_json(record)


def test_what_stands_beside_the_case_is_read_too() -> None:
    _, found = load(FOLDER / "history.json")
    assert found is not None
    middle, _ = load(FOLDER / "middle_axis.json")
    assert found.history[1] == middle
    _, found = load(FOLDER / "law.json")
    assert found is not None
    assert found.law is not None
    assert found.law.law.name == "row_permutation"
