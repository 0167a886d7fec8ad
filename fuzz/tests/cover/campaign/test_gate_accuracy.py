"""The accuracy ratchet: what is worse, what is new, what cannot be compared."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuzz.campaign.corpus.accuracy import (
    Accuracy,
    Key,
    Ratchet,
    absent,
    compare,
    load_accuracy,
    others,
    require_own,
    save_accuracy,
    unknown,
    update,
    worse,
)
from fuzz.campaign.corpus.folder import CorpusError
from fuzz.core.base.case import CaseError

_KEY: Key = ("mine", "c-mine@native:gcc-O2", "f32")
HERE, ELSEWHERE = "x86_64 here, gcc 12.2.0", "x86_64 elsewhere, gcc 12.2.0"


def test_the_file_holds_what_was_measured_and_on_what_one_line_per_target(tmp_path: Path) -> None:
    table = {
        _KEY: Accuracy(0.25, 0.5, "0123456789ab"),
        ("mine", "c-mine@native:gcc-O0", "f16"): Accuracy(1.0, 0.5, "0123456789ab"),
        ("mine", "c-mine@native:gcc-O0", "f32"): Accuracy(0.0, 0.0, "0123456789ab"),
    }
    on = {"c-mine@native:gcc-O0": HERE, "c-mine@native:gcc-O2": ELSEWHERE}
    path = tmp_path / "accuracy.json"
    save_accuracy(path, Ratchet(table, on))
    assert load_accuracy(path) == Ratchet(table, on)
    assert sum("@" in line for line in path.read_text().splitlines()) == 2


def test_a_quarter_more_is_worse_and_less_is_not() -> None:
    before = {_KEY: Accuracy(0.4, 1.0, "a")}
    assert worse(before, {_KEY: Accuracy(0.5, 1.25, "a")}) == []
    assert len(worse(before, {_KEY: Accuracy(0.51, 1.0, "a")})) == 1
    assert len(worse(before, {_KEY: Accuracy(0.4, 1.3, "a")})) == 1
    assert worse({_KEY: Accuracy(0.0, 0.0, "a")}, {_KEY: Accuracy(0.06, 0.0, "a")}) == []  # next to nothing


def test_ulp_of_different_cases_are_not_compared() -> None:
    """One may be of an element that cancels, where each ulp is small."""
    before = {_KEY: Accuracy(0.4, 1.0, "a")}
    assert worse(before, {_KEY: Accuracy(0.3, 40.0, "b")}) == []


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (
            Accuracy(0.4, 1, "a"),
            Accuracy(0.6, 2, "a"),
            "err/budget rose 0.400 -> 0.600, ulp rose 1.000 -> 2.000 (case a)",
        ),
        (Accuracy(0.4, 1, "a"), Accuracy(0.6, 9, "b"), "err/budget rose 0.400 -> 0.600 (case b)"),
        (
            Accuracy(0.4, 2, "a"),
            Accuracy(0.6, 1, "a"),
            "err/budget rose 0.400 -> 0.600, ulp fell 2.000 -> 1.000 (case a)",
        ),
        (
            Accuracy(0.9, 1, "a"),
            Accuracy(0.5, 2, "a"),
            "ulp rose 1.000 -> 2.000, err/budget fell 0.900 -> 0.500 (case a)",
        ),
        (Accuracy(0.4, 1, "a"), Accuracy(0.4, 2, "a"), "ulp rose 1.000 -> 2.000 (case a)"),
    ],
)
def test_what_is_worse_comes_first_and_every_figure_says_where_it_moved(
    before: Accuracy, after: Accuracy, said: str
) -> None:
    [change] = worse({_KEY: before}, {_KEY: after})
    assert str(change) == f"mine on c-mine@native:gcc-O2 in f32: {said}"


def test_figures_of_other_surroundings_are_not_compared_and_it_says_so(tmp_path: Path) -> None:
    path = tmp_path / "accuracy.json"
    other = ("mine", "c-mine@native:gcc-O0", "f32")
    before, after = Accuracy(0.1, 0.1, "a"), Accuracy(0.9, 0.9, "a")
    save_accuracy(path, Ratchet({_KEY: before, other: before}, {_KEY[1]: ELSEWHERE, other[1]: HERE}))
    now = Ratchet({_KEY: after, other: after}, {_KEY[1]: HERE, other[1]: HERE})
    lost, notes = compare(path, now, [_KEY[1], other[1]])
    assert [line for line in lost if other[1] in line] == lost
    assert len(lost) == 1
    assert notes == [f"accuracy not compared for {_KEY[1]}: measured on {ELSEWHERE}, this is {HERE}"]


def test_writing_it_keeps_what_did_not_run_and_replaces_what_was_measured_elsewhere(tmp_path: Path) -> None:
    path = tmp_path / "accuracy.json"
    idle, half = ("mine", "c-mine@qemu:gcc-O0", "f32"), ("mine", "c-mine@native:gcc-O2", "f16")
    gone = ("gone", "c-gone@native:gcc-O2", "f32")
    old, new = Accuracy(0.1, 0.1, "a"), Accuracy(0.9, 0.9, "b")
    on = {idle[1]: ELSEWHERE, _KEY[1]: ELSEWHERE, gone[1]: HERE}
    save_accuracy(path, Ratchet({idle: old, _KEY: old, half: old, gone: old}, on))
    update(path, Ratchet({_KEY: new}, {_KEY[1]: HERE}), ["mine"])
    assert load_accuracy(path) == Ratchet({idle: old, _KEY: new}, {idle[1]: ELSEWHERE, _KEY[1]: HERE})
    update(path, Ratchet({half: new}, {half[1]: HERE}), ["mine"])
    assert load_accuracy(path).worst == {idle: old, _KEY: new, half: new}


def test_a_file_of_other_kernels_is_neither_compared_nor_written_over(tmp_path: Path) -> None:
    path = tmp_path / "accuracy.json"
    require_own(path, ["mine"])
    save_accuracy(path, Ratchet({_KEY: Accuracy(0.1, 0.1, "a")}, {_KEY[1]: HERE}))
    require_own(path, ["mine", "new"])
    assert (others(path, ["mine"]), others(path, ["new"])) == ([], ["mine"])
    with pytest.raises(CorpusError, match=r"accuracy\.json is of other kernels \(mine\), whose .* with --corpora DIR"):
        require_own(path, ["new"])


def test_where_nothing_kept_ran_nothing_is_written(tmp_path: Path) -> None:
    path = tmp_path / "accuracy.json"
    assert "none ran" in update(path, Ratchet({}, {}), ["mine"])
    assert not path.exists()


def test_entries_that_one_side_does_not_have_are_told_apart() -> None:
    before = {_KEY: Accuracy(0.4, 1.0, "a"), ("far", "c-far@native:gcc-O2", "f32"): Accuracy(0.1, 0.1, "a")}
    after = {("new", "c-new@native:gcc-O2", "f32"): Accuracy(0.1, 0.1, "b")}
    assert unknown(before, after) == [("new", "c-new@native:gcc-O2", "f32")]
    assert absent(before, after, ["c-mine@native:gcc-O2", "c-new@native:gcc-O2"]) == {
        "no such target here": ["c-far@native:gcc-O2"],
        "did not run": ["c-mine@native:gcc-O2"],
    }


@pytest.mark.parametrize("text", ["{", "[]", '{"kernelfuzz accuracy": 1}', '{"kernelfuzz accuracy": 2}'])
def test_a_broken_file_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "accuracy.json"
    path.write_text(text)
    with pytest.raises(CaseError, match=r"accuracy\.json"):
        load_accuracy(path)
