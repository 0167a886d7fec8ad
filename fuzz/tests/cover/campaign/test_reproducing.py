"""What a replay says of a target that is not among those it ran on, and of the one that a program is written for."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuzz.campaign.reproducing import file_of, fitting_targets, found_lines, script_line, worth_explaining
from fuzz.core.adapters.pack import built_in, load
from fuzz.core.base.errors import UsageError
from fuzz.core.base.verdict import Verdict
from fuzz.core.judge.judge import Judgement
from fuzz.findings.casefile import FoundRecord, formula_of, from_json, to_json
from fuzz.tests.common.hunting import GENERIC, given_case, target_of


def _absent(target: str, strides: str = "contiguous") -> str:
    found = FoundRecord(target, "FAIL_NUMERIC", 1, "1.0")
    *_, last = found_lines(found, given_case((2, 5), 1, strides), {}, load(built_in()))
    return last


def test_a_target_of_the_pack_that_was_not_chosen_is_left_out_by_the_filter() -> None:
    assert _absent("c-generic@native:gcc-O2") == "c-generic@native:gcc-O2 is left out by --target"


def test_a_target_that_does_not_take_the_case_any_more_says_why() -> None:
    assert _absent("c-generic@native:gcc-O2", "column_step").startswith(
        "c-generic@native:gcc-O2 does not take the case any more: "
    )


def test_a_target_of_another_pack_needs_that_pack() -> None:
    assert _absent("c-mine@native:gcc-O2") == (
        "c-mine@native:gcc-O2 is not among the targets here: name its kernels with --pack FOLDER"
    )


def test_a_digest_that_a_store_has_not_either_is_said_to_be_in_neither(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # what was found here is looked at too
    with pytest.raises(UsageError, match=rf"'deadbeef': .* no finding of that name in {tmp_path} and --store; it has"):
        file_of("deadbeef", tmp_path, None, "--store")


def test_a_program_for_a_target_that_passes_says_so_and_who_fails() -> None:
    target = target_of(GENERIC, "O2")
    passes = Judgement(target.id, "", Verdict.PASS)
    fails = Judgement("torch-mine@cpu", "", Verdict.FAIL_NUMERIC)
    path = Path("repro.c")
    shows = f"repro.c: shows it on {target.id}; how to run it is said at its top"
    assert script_line(path, Judgement(target.id, "", Verdict.CRASH), [fails]) == shows
    assert script_line(path, passes, [passes]) == (
        f"repro.c: runs the case on {target.id}, where it passes; no chosen target fails"
    )
    assert script_line(path, passes, [passes, fails]) == (
        f"repro.c: runs the case on {target.id}, where it passes; torch-mine@cpu fails, in another language"
    )


def test_a_replay_tells_of_the_target_that_show_names() -> None:
    """What is known of it, its rule above all, is known of that one alone."""
    targets = {each.id: each for each in (target_of(GENERIC, "O0"), target_of(GENERIC, "O2"))}
    first, second = (Judgement(name, "", Verdict.FAIL_NUMERIC) for name in targets)
    assert worth_explaining([first, second], targets, None) == [first]
    assert worth_explaining([first, second], targets, FoundRecord(second.target, "FAIL_NUMERIC", 1, "1.0")) == [second]
    other = FoundRecord(second.target, "CRASH", 1, "1.0")
    assert worth_explaining([first, second], targets, other) == [second], "it fails, though in another way"
    passes = Judgement(second.target, "", Verdict.PASS)
    assert worth_explaining([first, passes], targets, other) == [first]


def test_a_replay_says_that_what_is_to_be_computed_has_changed() -> None:
    case, said = given_case((2, 5), 1), "something else now: rms_norm, or its reference, was changed since then"
    for formula, is_said in (("", False), (formula_of("rms_norm"), False), (formula_of("softmax"), True)):
        found = FoundRecord("c-mine@native:gcc-O2", "FAIL_NUMERIC", 1, "1.0", formula=formula)
        _, again = from_json(to_json(case, found))
        assert again == found, "the file has it"
        assert any(said in line for line in found_lines(again, case, {}, load(built_in()))) == is_said


def test_a_case_that_a_kernel_promises_to_reject_is_replayed_on_it() -> None:
    case, pack = given_case((2, 5), 1, "column_step"), load(built_in())
    fitting = fitting_targets(pack, case, ["c-generic@native:gcc-O2"])
    assert [each.kernel.capabilities.outside for each in fitting] == ["rejects"]
    assert fitting[0].kernel.capability.refusal(case) is not None
