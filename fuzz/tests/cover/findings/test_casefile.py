"""Case files: exact round trip, and one clear line for whatever is wrong with them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuzz.core.base.case import Case, CaseError, contiguous
from fuzz.findings.casefile import FoundRecord, from_json, load, save, to_json
from fuzz.tests.common.examples import any_case, plain
from fuzz.tests.common.handmade import a_case, dense
from fuzz.tests.common.own_op import cases as own_cases
from fuzz.tests.common.own_op import registered
from oracles.ops import OPS

CASES = st.sampled_from(sorted(OPS)).flatmap(any_case)
FOUND = FoundRecord("c-sve@qemu:vl=256,gcc-O0", "FAIL_NUMERIC", 7, "0.1.0")


@given(CASES)
@settings(max_examples=50, deadline=None)
def test_a_case_survives_the_file_bit_for_bit(case: Case) -> None:
    again, found = from_json(json.loads(json.dumps(to_json(case, FOUND))))
    assert again == case
    assert again.digest == case.digest
    assert found == FOUND


def test_tensors_that_a_file_has_in_another_order_are_in_that_of_the_op() -> None:
    """Sorted by name, a weight stood first: a check that ran such a case again ended explaining in an error of ours."""
    case = a_case("rms_norm_backward", ("weight",), layout=dense)
    again, _ = from_json(json.loads(json.dumps(to_json(case), sort_keys=True)))
    assert [*again.inputs] == [*case.inputs] == ["x", "dy", "weight"]
    assert again == case


@pytest.fixture
def case() -> Case:
    return plain(5, eps=0.25)


BREAKAGES: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "one bit": (
        lambda r: r["inputs"]["x"]["bits"].__setitem__(0, "3f800000" + r["inputs"]["x"]["bits"][0][8:]),
        "digest",
    ),
    "eps": (lambda r: r["params"]["eps"].update(hex="0x1p-3"), "digest"),
    "offset": (lambda r: r["inputs"]["x"].update(offset=3), "digest"),
    "no digest": (lambda r: r.pop("digest"), "digest"),
    "dtype": (lambda r: r["inputs"]["x"].update(dtype="f99"), "inputs.x.dtype"),
    "shape": (lambda r: r["inputs"]["x"].update(shape=[2, 6]), "inputs.x.bits"),
    "shape type": (lambda r: r["inputs"]["x"].update(shape="2x5"), "inputs.x.shape"),
    "strides": (lambda r: r["inputs"]["x"].update(strides=[1]), "inputs.x.strides"),
    "guard": (lambda r: r["inputs"]["x"].update(guard="left"), "inputs.x.guard"),
    "bits": (lambda r: r["inputs"]["x"].update(bits=["xyz"]), "inputs.x.bits"),
    "dims": (lambda r: r["inputs"]["x"].update(dims="... k"), "inputs.x.dims: '... k' does not have 'n' once"),
    "dims of an output": (lambda r: r["outputs"]["y"].update(dims="n ..."), "outputs.y.dims: 'n ...', must be '... n'"),
    "another axis": (lambda r: r["inputs"]["x"].update(dims="n ..."), "outputs.y.dims: '... n', must be 'n ...'"),
    "too few dims": (lambda r: r["inputs"]["x"].update(dims="n"), "inputs.x.dims: 'n', must be 'n ...'"),
    "no dims": (lambda r: r["outputs"]["y"].pop("dims"), "outputs.y.dims: missing"),
    "dims and an axis": (lambda r: r["params"].update(axis=1), "params.axis: the dims of x say it"),
    "alias": (lambda r: r["outputs"]["y"].update(alias="z"), "outputs.y.alias"),
    "params": (lambda r: r.update(params=3), "params"),
    "eps hex": (lambda r: r["params"]["eps"].update(hex="soon"), "params.eps"),
    "version": (lambda r: r.update({"kernelfuzz case": 99}), "format 99, this kernelfuzz reads format 3 alone"),
    "older": (lambda r: r.update({"kernelfuzz case": 2}), "format 2, this kernelfuzz reads format 3 alone"),
    "version type": (lambda r: r.update({"kernelfuzz case": "3"}), "format '3', this kernelfuzz reads"),
    "other": (lambda r: r.pop("kernelfuzz case"), "not a case file"),
}


@pytest.mark.parametrize("name", list(BREAKAGES))
def test_a_broken_file_names_the_field(case: Case, tmp_path: Path, name: str) -> None:
    breakage, expected = BREAKAGES[name]
    record = to_json(case, FOUND)
    breakage(record)
    path = tmp_path / "case.json"
    path.write_text(json.dumps(record))
    with pytest.raises(CaseError) as caught:
        load(path)
    message = str(caught.value)
    assert expected in message
    assert str(path) in message
    assert "\n" not in message


HISTORY = (plain(7, eps=0.5), plain(3, dtype="f16"))


def test_a_history_survives_the_file(case: Case) -> None:
    found = replace(FOUND, history=(HISTORY[0], *HISTORY[:1] * 300, *HISTORY))
    record = json.loads(json.dumps(to_json(case, found)))
    assert from_json(record) == (case, found)
    assert record["digest"] == case.digest


def test_the_dims_of_each_tensor_say_where_the_rows_lie() -> None:
    """The axis is no number of the file."""
    stacked = {"weight": lambda shape: contiguous((1, *shape))}
    middle = a_case("rms_norm", ("weight", "rstd"), (2, 5, 3), 1, layouts=stacked)
    record = to_json(replace(middle, params={**middle.params, "threads": 2}))
    assert sorted(record["params"]) == ["eps", "threads", "weight_offset"]
    assert {name: record["inputs"][name]["dims"] for name in record["inputs"]} == {"x": "... n ...", "weight": "... n"}
    assert {name: record["outputs"][name]["dims"] for name in record["outputs"]} == {
        "y": "... n ...",
        "rstd": "... ...",
    }


def test_a_case_of_an_op_that_nobody_else_knows_survives_the_file() -> None:
    with registered():
        for own in own_cases():
            record = json.loads(json.dumps(to_json(own)))
            assert record["inputs"]["given"]["dims"] == "... k"
            assert from_json(record) == (own, None)
    with pytest.raises(
        CaseError, match=r"op: unknown op 'blend'; kernelfuzz list ops .*; an op of a pack needs --pack"
    ):
        from_json(record)


HISTORY_BREAKAGES: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "call lost": (lambda h: h["calls"].pop(), "found.history.seal"),
    "calls swapped": (lambda h: h["calls"].reverse(), "found.history.seal"),
    "too often": (lambda h: h["calls"][0].update(times=1 << 40), "found.history.calls[0].times: 1099511627776 is not"),
    "never": (lambda h: h["calls"][0].update(times=0), "found.history.calls[0].times: 0 is not"),
    "once more": (lambda h: h["calls"][0].update(times=2), "found.history.seal"),
    "no calls": (lambda h: h.update(calls=[]), "found.history.calls"),
    "no list": (lambda h: h.update(calls={}), "found.history.calls"),
    "no seal": (lambda h: h.pop("seal"), "found.history.seal"),
    "no case": (lambda h: h["calls"].__setitem__(1, 3), "found.history.calls[1]: file: expected an object"),
    "call altered": (lambda h: h["calls"][0]["params"]["eps"].update(hex="0x1p-3"), "found.history.calls[0]: digest"),
}


@pytest.mark.parametrize("name", list(HISTORY_BREAKAGES))
def test_a_broken_history_names_the_field(case: Case, tmp_path: Path, name: str) -> None:
    breakage, expected = HISTORY_BREAKAGES[name]
    record = to_json(case, replace(FOUND, history=HISTORY))
    breakage(record["found"]["history"])
    path = tmp_path / "case.json"
    path.write_text(json.dumps(record))
    with pytest.raises(CaseError) as caught:
        load(path)
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


FOUND_BREAKAGES: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "no object": (lambda r: r.update(found=3), "found: expected an object"),
    "no target": (lambda r: r["found"].pop("target"), "found.target: missing"),
    "verdict type": (lambda r: r["found"].update(verdict=1), "found.verdict: missing, or not a string"),
    "seed type": (lambda r: r["found"].update(run_seed="7"), "found.run_seed: '7' is not an integer"),
    "seed lost": (lambda r: r["found"].pop("run_seed"), "found.run_seed"),
    "explanation": (lambda r: r["found"].update(explanation="n = 5"), "found.explanation: Expected `object`"),
    "original": (lambda r: r["found"].update(original=5), "found.original"),
    "no law": (lambda r: r["found"].update(verdict="FAIL_LAW"), "found.law: missing"),
    "law unknown": (lambda r: r["found"].update(law={"name": "gravity", "key": "0" * 16}), "unknown law 'gravity'"),
    "law key": (lambda r: r["found"].update(law={"name": "rerun", "key": "xyz"}), "not sixteen hexadecimal digits"),
    "law unsealed": (lambda r: r["found"].update(law={"name": "rerun", "key": "0" * 16}), "found.law.seal"),
    "structured": (lambda r: r.update(structured="no"), "structured: missing, or neither true nor false"),
    "origin": (lambda r: r.update(origin=[]), "origin: expected an object"),
    "origin seed": (lambda r: r["origin"].update(seed=1.5), "origin: 1.5 is not an integer"),
    "no inputs": (lambda r: r.pop("inputs"), "inputs: expected an object"),
    "no op": (lambda r: r.pop("op"), "op: missing"),
}


@pytest.mark.parametrize("name", list(FOUND_BREAKAGES))
def test_what_was_seen_is_read_as_strictly_as_the_case(case: Case, tmp_path: Path, name: str) -> None:
    breakage, expected = FOUND_BREAKAGES[name]
    record = to_json(case, FOUND)
    breakage(record)
    path = tmp_path / "case.json"
    path.write_text(json.dumps(record))
    with pytest.raises(CaseError) as caught:
        load(path)
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_large_tensor_is_compressed_and_a_small_one_readable(tmp_path: Path) -> None:
    """The file of a small case can be read by people: numbers in hex words, a shape on one line."""
    for n, packed in ((5, False), (3000, True)):
        case = plain(n)
        save(tmp_path / f"{n}.json", case, FOUND)
        assert load(tmp_path / f"{n}.json") == (case, FOUND)
        text = (tmp_path / f"{n}.json").read_text()
        assert ('"zlib"' in text) is packed
        assert f'"shape": [2, {n}]' in text


@pytest.mark.parametrize("content", ["@@", "AAAA", 3, "eJwDAAAAAAE="])
def test_compressed_bits_that_are_broken_or_too_few_are_named(tmp_path: Path, content: object) -> None:
    record = to_json(plain(3000))
    record["inputs"]["x"]["zlib"] = content
    path = tmp_path / "case.json"
    path.write_text(json.dumps(record))
    with pytest.raises(CaseError, match=r"case\.json: inputs\.x"):
        load(path)


@pytest.mark.parametrize("content", [b"", b"{", b"[1, 2]", b"\xff\xfe", b"null"])
def test_a_file_that_is_no_case_is_said_to_be_none(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "case.json"
    path.write_bytes(content)
    with pytest.raises(CaseError, match=r"case\.json"):
        load(path)


def test_a_missing_file_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(CaseError, match="cannot be read: No such file"):
        load(tmp_path / "nowhere.json")


def test_saving_leaves_nothing_half_written(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full_disk(self: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    path = tmp_path / "case.json"
    save(path, case)
    before = path.read_bytes()
    monkeypatch.setattr(Path, "replace", full_disk)
    with pytest.raises(OSError, match="No space left"):
        save(path, case, FOUND)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["case.json"]
