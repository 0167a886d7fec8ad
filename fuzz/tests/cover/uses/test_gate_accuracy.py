"""The accuracy ratchet: what is worse, what is new, what cannot be compared."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuzz.base.case import CaseError
from fuzz.uses.gate.accuracy import Accuracy, Key, absent, load_accuracy, save_accuracy, unknown, worse

_KEY: Key = ("mine", "c-mine@native:gcc-O2", "f32")


def test_the_file_holds_what_was_measured_one_line_per_target(tmp_path: Path) -> None:
    table = {
        _KEY: Accuracy(0.25, 0.5, "0123456789ab"),
        ("mine", "c-mine@native:gcc-O0", "f16"): Accuracy(1.0, 0.5, "0123456789ab"),
        ("mine", "c-mine@native:gcc-O0", "f32"): Accuracy(0.0, 0.0, "0123456789ab"),
    }
    path = tmp_path / "accuracy.json"
    save_accuracy(path, "x86_64", table)
    read = load_accuracy(path)
    assert (read.machine, read.worst) == ("x86_64", table)
    assert sum("@" in line for line in path.read_text().splitlines()) == 2


def test_a_quarter_more_is_worse_and_less_is_not() -> None:
    before = {_KEY: Accuracy(0.4, 1.0, "a")}
    assert worse(before, {_KEY: Accuracy(0.5, 1.25, "b")}) == []
    [by_ratio] = worse(before, {_KEY: Accuracy(0.51, 1.0, "b")})
    assert "err/budget 0.400 -> 0.510" in str(by_ratio)
    assert len(worse(before, {_KEY: Accuracy(0.4, 1.3, "b")})) == 1
    assert worse({_KEY: Accuracy(0.0, 0.0, "a")}, {_KEY: Accuracy(0.06, 0.0, "b")}) == []  # next to nothing


def test_entries_that_one_side_does_not_have_are_told_apart() -> None:
    before = {_KEY: Accuracy(0.4, 1.0, "a"), ("far", "c-far@native:gcc-O2", "f32"): Accuracy(0.1, 0.1, "a")}
    after = {("new", "c-new@native:gcc-O2", "f32"): Accuracy(0.1, 0.1, "b")}
    assert unknown(before, after) == [("new", "c-new@native:gcc-O2", "f32")]
    assert absent(before, after, ["c-mine@native:gcc-O2", "c-new@native:gcc-O2"]) == {
        "no such target here": ["c-far@native:gcc-O2"],
        "did not run": ["c-mine@native:gcc-O2"],
    }


@pytest.mark.parametrize("text", ["{", "[]", '{"kernelfuzz accuracy": 2}', '{"kernelfuzz accuracy": 1}'])
def test_a_broken_file_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "accuracy.json"
    path.write_text(text)
    with pytest.raises(CaseError, match=r"accuracy\.json"):
        load_accuracy(path)
