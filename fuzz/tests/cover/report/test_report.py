"""Reports: the progress line, tables, and the notes of a run."""

from __future__ import annotations

import re

import pytest

from fuzz.base.verdict import Verdict
from fuzz.findings.tally import Tally, TargetTally, WorstPass
from fuzz.generate.aliasing import aliased_as
from fuzz.judge.judge import Judgement
from fuzz.report.console import PlainTable, markdown_table
from fuzz.report.failure import _head, _other_targets
from fuzz.report.progress import minutes, progress_line
from fuzz.report.totals import run_notes
from fuzz.tests.common.handmade import a_case, dense
from fuzz.tests.common.hunting import PACK, target_of


@pytest.mark.parametrize(
    ("op", "label", "line"),
    [
        ("rms_norm", "y over x", r"y +T\(.*\), .* page, 1 elements after x, in its memory"),
        ("fused_add_rms_norm", "residual is x", r"residual +T\(.* page, one buffer with x"),
    ],
)
def test_memory_that_tensors_share_is_told(op: str, label: str, line: str) -> None:
    case = aliased_as(a_case(op, (), (2, 5), layout=dense), label, 0)
    target = target_of(PACK.kernel("generic"))
    said = "\n".join(_head(case, Judgement(target.id, case.digest, Verdict.FAIL_NUMERIC), target))
    assert re.search(line, said), said
    assert "in place of" not in said


@pytest.mark.parametrize(("seconds", "text"), [(0, "0:00"), (65.9, "1:05"), (3599, "59:59"), (3661, "1:01:01")])
def test_minutes(seconds: float, text: str) -> None:
    assert minutes(seconds) == text


def test_the_progress_line_says_what_a_waiting_person_asks() -> None:
    target = TargetTally("c-k@native:gcc-O2", "k", judged=1200, findings=1, worst={"f32": WorstPass(0.5, "3x4 normal")})
    line = progress_line(Tally({target.target: target}, cases=600), 12.0, 60.0, None)
    assert line == "0:12 of 1:00 · 600 cases · 1,200 judged runs · 100/s · worst err/budget 0.50 f32 · 1 finding"


def test_targets_that_did_not_run_are_named_once_per_reason() -> None:
    names = [f"c-sve@qemu:vl={bits}" for bits in (128, 256, 512)]
    tally = Tally({name: TargetTally(name, "sve", not_run_reason="no QEMU") for name in names})
    tally.targets["c-odd@native"] = TargetTally("c-odd@native", "odd")
    assert run_notes(tally) == [
        "NOT_RUN c-sve@qemu:vl=128 and 2 more: no QEMU",
        "NOT_RUN c-odd@native: no case fits this target",
    ]


def test_attribution_says_who_fails_too_and_who_does_not() -> None:
    others = {
        "c-sve@a": "FAIL_NUMERIC",
        "c-sve@b": "PASS",
        "c-neon@a": "PASS",
        "c-neon@b": "PASS",
        "c-avx@a": "CRASH",
        "c-avx@b": "NOT_RUN",
    }
    assert list(_other_targets("c-sve@c", "FAIL_NUMERIC", others)) == [
        "  also fails    c-sve@a",
        "  otherwise     c-avx@a (CRASH)",
        "  passes on     c-sve@b; c-neon on all 2 targets",
    ]


def test_markdown_escapes_what_would_break_the_table() -> None:
    assert markdown_table(PlainTable(("a", "b"), [("x|y", "z")])) == "| a | b |\n| --- | --- |\n| x\\|y | z |"
