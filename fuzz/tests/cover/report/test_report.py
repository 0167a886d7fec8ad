"""Reports: the progress line, tables, and the notes of a run."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from fuzz.campaign.search.wire import RemoteWait
from fuzz.core.adapters.registry import expand
from fuzz.core.adapters.toolchain import this_host
from fuzz.core.base.case import Case, Output, Tensor, contiguous
from fuzz.core.base.dtypes import NUMPY_DTYPE, decimal, from_bits
from fuzz.core.base.exits import Exit
from fuzz.core.base.outcome import Outcome, Status
from fuzz.core.base.verdict import Verdict
from fuzz.core.execute.batch import UNFINISHED
from fuzz.core.execute.corners import corners_of
from fuzz.core.generate.aliasing import aliased_as
from fuzz.core.judge.judge import Judge, Judgement
from fuzz.explain.explanation import Alternative, Counterfactual, Memory, Number, Places, StatedRule, UnsetRead
from fuzz.explain.facts import explanation_of, worst_element
from fuzz.explain.finding import Diagnosis, Finding
from fuzz.explain.rule.rule import Atom, Learned, Rule
from fuzz.explain.stages.conclusion import Conclusion
from fuzz.findings.tally import LATE, NO_TURN, Tally, TargetTally, WorstPass
from fuzz.report.brief import Commands, brief, brief_of
from fuzz.report.console import PlainTable, markdown_table
from fuzz.report.failure import allowance_lines, full_text
from fuzz.report.listings import listing
from fuzz.report.progress import LiveLine, Progress, judging_told, minutes, progress_line
from fuzz.report.totals import bugs_words, found_words, session_notes
from fuzz.report.use_outcome import outcome_of
from fuzz.report.words import rule_lines
from fuzz.tasks.judge.bugs import not_given
from fuzz.tests.common.features import N
from fuzz.tests.common.handmade import a_case, dense
from fuzz.tests.common.hunting import PACK, target_of
from fuzz.tests.common.told import NOTHING
from fuzz.tests.cover.findings.test_codec import FULL
from oracles import escalation
from oracles.dtypes import ITEMSIZE, form
from oracles.escalation import PreciseProgress
from oracles.formula.contract import Contract
from oracles.problem import Problem
from oracles.truth import Truth


@pytest.mark.parametrize(
    ("op", "label", "line"),
    [
        ("rms_norm", ("y", "over", "x"), r"y +T\(.*\), .* page, 1 element after x, in its memory"),
        ("fused_add_rms_norm", ("residual", "is", "x"), r"residual +T\(.* page, one buffer with x"),
    ],
)
def test_memory_that_tensors_share_is_told(op: str, label: tuple[str, str, str], line: str) -> None:
    case = aliased_as(a_case(op, (), (2, 5), layout=dense), label, 0)
    said = "\n".join(_said(case))
    assert re.search(line, said), said
    assert "in place of" not in said


def _said(case: Case) -> list[str]:
    target = target_of(PACK.kernel("generic"))
    finding = Finding(case, Judgement(target.id, case.digest, Verdict.FAIL_NUMERIC))
    return full_text(explanation_of(finding, target), Commands()).splitlines()


def test_the_values_of_small_tensors_can_be_read_off_the_screen() -> None:
    case = a_case("rms_norm", ("weight",), (2, 3))
    bits = {"x": [1.0, -0.0, 0.1, float("inf"), float("nan"), 2.0**-149], "weight": [3.0, 1e-4, 16777215.0]}
    inputs = {name: replace(tensor, bits=np.array(bits[name], "<f4").tobytes()) for name, tensor in case.inputs.items()}
    lines = _said(replace(case, inputs=inputs))
    at = {name: next(i for i, line in enumerate(lines) if line.startswith(f"  {name} ")) for name in inputs}
    assert lines[at["x"] + 1] == "                [[1, -0, 0.1], [inf, nan, 1e-45]]"
    assert lines[at["weight"] + 1] == "                [3, 0.0001, 16777215]"
    for shape, more in (((4, 4), 1), ((1, 17), 0), ((3, 0), 0)):
        lines = _said(a_case("rms_norm", (), shape))
        assert sum(line.startswith("                [") for line in lines) == more, shape


def test_what_looks_like_rounding_is_told_with_a_case_that_does_not() -> None:
    """One by 43% of a value that its terms cancel out to is none."""
    target = target_of(PACK.kernel("generic"))
    case = a_case("rms_norm", (), (1, 2), layout=dense)

    def off(share: float) -> Judgement:
        x = from_bits(case.inputs["x"].bits, "f32", (1, 2)).astype(np.float64)
        y = x / np.sqrt((x * x).mean() + float(case.params["eps"])) * (1 + share)
        outcome = Outcome(target.id, Status.RAN, {"y": y.astype(np.float32).tobytes()})
        return Judge(case).judge(outcome, target.contract)

    def said(smallest: float, other: Judgement) -> str:
        diagnosis = Diagnosis(case, None, Conclusion(None, None), clearest=other)
        return brief_of(explanation_of(Finding(case, off(smallest), diagnosis=diagnosis), target)).outcome

    assert said(1e-5, off(0.43)).endswith("; another case is 43% off")
    assert said(1e-5, off(2.0)).endswith("; another case is more than 100% off")
    assert "another" not in said(0.1, off(0.43))
    assert "another" not in said(1e-5, off(1e-4))
    assert "another" not in said(1e-5, replace(off(0.43), ratio=6.0))


def test_what_one_change_does_is_told_where_there_was_no_time_for_a_rule() -> None:
    """The option that gives more is long, and what it would say took the place of what is known."""
    changes = tuple(Counterfactual(name, 2, (8, 16), (3,), against=20) for name in ("n", "rows"))
    told = replace(NOTHING, counterfactuals=changes, explained="in part", option="--kernelfuzz-explain-time")
    assert brief_of(told, 72).evidence == (
        "passes at n = 8, 16; fails at n = 3; passes at rows = 8, 16; "
        "no rule was found in time; --kernelfuzz-explain-time gives more"
    ), "as much as fits"


def test_what_fits_so_far_is_told_with_the_command_that_goes_on() -> None:
    so_far = "so far n mod 8 != 0 fits all 49 cases that were tried, but is untested on others"
    told = replace(NOTHING, explained="in part", option="--explain-time", note=so_far)
    said = brief(told, Commands("repro", "show", found_by="kernelfuzz run --seed 1"), 120)
    assert f"no rule was found in time: {so_far}; --explain-time gives more" in " ".join(said.split())
    assert said.endswith("\n  more time: kernelfuzz run --seed 1 --explain-time 5m")
    assert full_text(told, Commands()).count("so far") == 1
    untold = replace(told, explained="not yet", note="not explained")
    assert "more time: run --explain-time 5m" in brief(untold, Commands("repro", "show", found_by="run"), 120)
    unset = replace(told, unset=UnsetRead((), ("ones",)))
    assert "more time" not in brief(unset, Commands("repro", "show", found_by="run"), 120), "that says why"


def test_of_many_values_those_that_pass_stand_in_the_first_lines() -> None:
    passing, failing = ("large", "zeros", "spike", "last row"), ("ones", "integers", "normal")
    values = Counterfactual("values", "given", passing, failing, against=20)
    told = replace(NOTHING, counterfactuals=(values,), explained="whole")
    assert brief_of(told).evidence.startswith("passes at values = large, zeros, spike, last row; no simple rule")
    few = replace(told, counterfactuals=(replace(values, against=19),))
    assert brief_of(few).evidence.startswith("this case passes at values = large, "), "held against too few"
    alike = replace(values, passing=(), failing=("ones",))
    assert brief_of(replace(told, counterfactuals=(alike,))).evidence.startswith("fails alike with other values; ")


def test_each_count_says_of_which_cases_it_is() -> None:
    """'1 of 1' and '721 elements' of one page contradict each other where these are not named."""
    text = "\n".join(line.strip() for line in full_text(replace(FULL, places=_EVERYWHERE), Commands()).split("\n"))
    assert (
        "failing       3 of 4 elements of y in this case; more than rounding in the formula's steps can explain" in text
    )
    assert "bad elements  all of y (721 elements of all failing cases that were looked at)" in text


_EVERYWHERE = Places("y", Learned(Rule(), 721, 721))


def _memory(shape: tuple[int, ...], *values: str) -> Memory:
    strides = tuple(int(np.prod(shape[axis + 1 :])) for axis in range(len(shape)))
    return Memory("f32", shape, strides, 0, 0, "before", values)


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ({"x": _memory((1, 4), "1", "2", "3", "4")}, "x = [[1, 2, 3, 4]]"),
        ({"x": _memory((1, 2), "1", "2"), "w": _memory((300,))}, "x = [[1, 2]], w 300 f32 (normal)"),
        ({"x": _memory((1, 4), *["-0.49959484"] * 4), "w": _memory((4,), *["-0.7"] * 4)},
         "x = [[-0.49959484, -0.49959484, -0.49959484, -0.49959484]], w 4 f32 (normal)"),
        ({"x": _memory((8,), *["-0.49959484"] * 8)}, "x 8 f32 (normal)"),
    ],
)  # fmt: skip
def test_few_values_stand_in_the_first_lines_where_a_line_has_room(inputs: dict[str, Memory], words: str) -> None:
    case = replace(NOTHING.case, inputs=inputs)
    assert brief_of(replace(NOTHING, case=case)).case == words
    given = brief_of(replace(NOTHING, case=replace(case, recipe="given"))).case
    assert given == words.replace(" (normal)", ""), "values of its own have no name to speak of"


@pytest.mark.parametrize(
    ("hidden", "met", "first", "whole"),
    [
        (0, 293, "", ""),
        (17, 310, "; values hide it in 17 of 310", "in 17 of 310 that meet it the error is within what is allowed,"),
        (17, 0, "; values hide it in 17", "in 17 more that meet it the error is within what is allowed,"),
    ],
)
def test_a_rule_says_in_how_many_cases_that_meet_it_nothing_shows(
    hidden: int, met: int, first: str, whole: str
) -> None:
    rule = StatedRule((Alternative(Rule((Atom(N, ">=", (3,), 1.0),))),), 549, 276, 125, 320, hidden, met=met)
    told = replace(NOTHING, rule=rule, explained="whole")
    assert brief_of(told).evidence == f"tested on 721 further cases, none against it{first}"
    [(_, line)] = rule_lines(told)
    assert whole in line


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32", "f64"])
def test_a_decimal_is_the_number_again_in_its_dtype(dtype: str) -> None:
    words = f"<u{ITEMSIZE[dtype]}"
    bits = np.random.default_rng(5).integers(0, 2 ** (8 * ITEMSIZE[dtype]), 3000, np.uint64, endpoint=False)
    known = np.array([form(dtype).max, form(dtype).tiny, 0.1, 1 / 3]).astype(NUMPY_DTYPE[dtype])
    values = np.concatenate([from_bits(bits.astype(words).tobytes(), dtype, bits.shape), known])
    with np.errstate(invalid="ignore"):
        wide = values.astype(np.float64)
    shown = [decimal(value, dtype) for value in wide.tolist()]
    again = np.array([float(text) for text in shown]).astype(NUMPY_DTYPE[dtype])
    number = ~np.isnan(wide)
    assert (again.view(words)[number] == values.view(words)[number]).all()
    assert max(map(len, shown)) <= {"f16": 11, "bf16": 11, "f32": 15, "f64": 24}[dtype]


@pytest.mark.parametrize(("seconds", "text"), [(0, "0:00"), (65.9, "1:05"), (3599, "59:59"), (3661, "1:01:01")])
def test_minutes(seconds: float, text: str) -> None:
    assert minutes(seconds) == text


def test_the_progress_line_says_what_a_waiting_person_asks() -> None:
    target = TargetTally("c-k@native:gcc-O2", "k", judged=1200, findings=1, worst={"f32": WorstPass(0.5, "3x4 normal")})
    tally = Tally({target.target: target}, cases=600, known=580)
    line = progress_line(tally, 12.0, 60.0, None)
    assert line == "0:12 of 1:00 · k fails · 600 cases · 1,200 judged runs · 100/s"
    line = progress_line(tally, 12.0, None, 30)
    assert line == "0:12 · k fails · 580 known cases · 20 of 30 cases · 1,200 judged runs · 100/s"


def test_a_live_line_is_one_that_a_terminal_never_breaks_and_is_gone_at_the_end() -> None:
    shown = io.StringIO()
    line = LiveLine(Console(file=shown, force_terminal=True, width=40, color_system=None))
    line.show("word " * 30)
    assert shown.getvalue().replace("\x1b[?25l", "") == "word " * 7 + "word…"  # without what hides the cursor
    line.stop()
    before = shown.getvalue()
    line.show("more")
    assert shown.getvalue() == before
    plain = io.StringIO()
    LiveLine(Console(file=plain)).show("word")
    assert plain.getvalue() == "", "no terminal"


@pytest.mark.parametrize("patience", [0.0, 100.0])
def test_progress_is_a_line_now_and_then_where_there_is_no_terminal(patience: float) -> None:
    shown = io.StringIO()
    with Progress(Console(file=shown, width=200), Tally(), None, 50, patience) as progress:
        for seconds in (1.0, 9.0, 11.0, 12.0, 22.0):
            progress.progress(seconds)
    assert [line[:4] for line in shown.getvalue().splitlines()] == ([] if patience else ["0:11", "0:22"])


def test_an_output_that_takes_the_oracle_long_is_told_of_in_a_log() -> None:
    """A process that searches beside this one is told of once, this one now and then."""
    shown = io.StringIO()
    steps = [PreciseProgress("softmax", "y", done, 5000, float(done)) for done in (1, 6, 7)]
    with Progress(Console(file=shown, width=200), Tally(), None, 50) as progress:
        for step in steps:
            waits = [RemoteWait("the oracle", None, step.seconds, 60.0, step.words, "y of softmax")]
            progress.waiting(waits, step.seconds)
    with judging_told(Console(file=shown, width=200)):
        for step in steps:
            escalation.watch(step)
    escalation.watch(steps[-1])
    words = "y of softmax in many digits, 6 of 5,000 elements in 6 s of 60 s"
    assert shown.getvalue().splitlines() == [f"waiting for the oracle: {words}", f"judging {words}"]


def test_targets_that_did_not_run_are_named_once_per_reason() -> None:
    names = [f"c-sve@qemu:vl={bits}" for bits in (128, 256, 512)]
    tally = Tally({name: TargetTally(name, "sve", not_run_reason="no QEMU") for name in names})
    tally.targets["c-odd@native"] = TargetTally("c-odd@native", "odd")
    assert session_notes(tally) == [
        "NOT_RUN c-sve@qemu:vl=128 and 2 more: no QEMU",
        "NOT_RUN c-odd@native: no case that was drawn fits it",
    ]


def test_what_the_end_of_a_run_cut_off_is_one_line() -> None:
    lines = [
        TargetTally(f"torch-{k}@cpu", k, judged=3, not_run=2, not_run_reason=f"{UNFINISHED} softmax f32 [1, {n}]")
        for n, k in enumerate("abc")
    ]
    tally = Tally({line.target: line for line in lines})
    assert session_notes(tally) == [
        "NOT_RUN torch-a@cpu and 2 more: 6 of 15 runs: the session ended while it was at softmax f32 [1, 0]"
    ]
    assert len(session_notes(tally, verbose=True)) == 3


def test_a_judgement_says_why_a_slow_target_did_not_judge_all_cases() -> None:
    """How many were too large for it is known where it is alone."""
    kernel = PACK.kernel("matmul-tiled")
    slow = next(each for each in expand([kernel], this_host()) if each.size_limit)
    quick = target_of(PACK.kernel("matmul-generic"))
    lines = {slow.id: TargetTally(slow.id, kernel.name, judged=120, not_run=31, not_run_reason="it gets bf16 wrong")}
    wrong = f"NOT_RUN {slow.id}: 31 of 151 runs: it gets bf16 wrong"
    large = "those of more than 8,192 elements in a tensor, or of more than 192 rows"
    head = f"not given to {slow.id}, which is slow:"
    assert not_given(Tally(lines, cases=200), [slow]) == [wrong, f"{head} 49 of 200 cases: {large}"]
    waited = "and those for which quick targets did not wait for it"
    assert not_given(Tally(lines, cases=200), [slow, quick]) == [wrong, f"{head} {large}, {waited}"]
    assert not_given(Tally(lines, cases=151), [slow]) == [wrong]
    other = replace(slow, name=replace(slow.name, kernel="other"))
    lines[other.id] = TargetTally(other.id, kernel.name, judged=120)
    both = f"not given to {slow.id} and 1 more, which are slow: {large}"
    assert not_given(Tally(lines, cases=200), [slow, other]) == [wrong, both], "what is alike is said once"


def test_an_op_without_a_turn_is_no_op_of_which_no_case_fitted() -> None:
    target = target_of(PACK.kernel("generic"))
    tally = Tally(
        {target.id: TargetTally(target.id, "generic")}, corners={"rms_norm": corners_of("rms_norm", [target], {})}
    )
    tally.note_waiting()
    assert session_notes(tally) == [f"NOT_RUN {target.id}: the search ended before its op had a turn"]


@pytest.mark.parametrize(
    ("late", "bugs", "words", "code"),
    [
        (0, "", "nothing found", Exit.OK),
        (2, "", "nothing found, but no turn for c, d", Exit.OK),
        (2, "1 bug in 1 kernel", "1 bug in 1 kernel, but no turn for c, d", Exit.OK),
        (3, "", "MOSTLY NOT JUDGED, no turn for 3 kernels (c, d, e)", Exit.MOSTLY_NOT_JUDGED),
        (9, "", "MOSTLY NOT JUDGED, no turn for 9 kernels (c, d, e, f, g, h and 3 more)", Exit.MOSTLY_NOT_JUDGED),
    ],
)
def test_a_kernel_without_a_turn_is_named_and_no_clean_run(late: int, bugs: str, words: str, code: Exit) -> None:
    """Another target of a kernel may have had one, and what no case fits had its turn."""
    tally = Tally({name: TargetTally(name, name, judged=5) for name in "ab"})
    tally.targets["a@slow"] = TargetTally("a@slow", "a", not_run_reason=LATE)
    tally.targets["picky"] = TargetTally("picky", "picky")
    for name in "cdefghijk"[:late]:
        tally.targets[name] = TargetTally(name, name, not_run_reason=NO_TURN)
    assert found_words(outcome_of(tally), bugs) == words
    assert outcome_of(tally).code is code


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ([("a", True)], "1 bug in 1 kernel"),
        ([("a", True), ("a", True), ("b", True)], "3 bugs in 2 kernels"),
        ([("a", False)], "1 kind of failure in 1 kernel, not explained"),
        ([("a", True), ("b", False)], "2 kinds of failure in 2 kernels, 1 not explained"),
    ],
)
def test_bugs_are_counted_and_not_failing_runs(found: list[tuple[str, bool]], words: str) -> None:
    assert bugs_words(found) == words


def test_a_run_of_which_most_was_not_judged_has_an_ending_and_a_code_of_its_own() -> None:
    line = TargetTally("torch-k@cpu", "k", judged=10, not_run=148, not_run_reason="the run ended")
    tally = Tally({line.target: line, "c-k@native": TargetTally("c-k@native", "k", judged=5, not_run=1)})
    outcome = outcome_of(tally)
    assert found_words(outcome, "") == "MOSTLY NOT JUDGED, 149 of 164 runs have no verdict (the run ended)"
    assert outcome.code is Exit.MOSTLY_NOT_JUDGED
    line.judged = 200
    assert outcome_of(tally).code is Exit.OK


def test_what_the_oracle_gave_up_on_is_named() -> None:
    line = TargetTally("c-k@native", "k", judged=9, gave_up=2, undecided="rms_norm:17:3")
    assert session_notes(Tally({line.target: line})) == [
        "ORACLE_GAVE_UP 2 times on c-k@native: kernelfuzz repro SEED:rms_norm:17:3 --target c-k@native shows the last"
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
    said = full_text(replace(NOTHING, target="c-sve@c", verdicts=others), Commands()).splitlines()
    assert [line for line in said if line.startswith(("  also", "  otherwise", "  passes"))] == [
        "  also fails    c-sve@a",
        "  otherwise     c-avx@a (CRASH)",
        "  passes on     c-sve@b; c-neon on all 2 targets",
    ]


def test_markdown_escapes_what_would_break_the_table() -> None:
    assert markdown_table(PlainTable(("a", "b"), [("x|y", "z")])) == "| a | b |\n| --- | --- |\n| x\\|y | z |"


def test_the_environment_of_a_kernel_is_listed_with_where_it_runs(tmp_path: Path) -> None:
    (tmp_path / "k.py").write_text("def rms_norm(x, eps): return x\n")
    (tmp_path / "pack.py").write_text(
        "from pathlib import Path\nfrom fuzz import PythonKernel\n"
        "KERNELS = (PythonKernel('k', 'rms_norm', Path(__file__).parent / 'k.py', 'torch', devices=('cpu',),\n"
        "                        environment={'BACKEND': 'torch'}),)\n"
    )
    [row] = listing("kernels", tmp_path).rows
    assert "cpu, BACKEND='torch'" in row


def test_a_wrong_sign_of_zero_is_told_from_a_right_one() -> None:
    truth = Truth(Problem("rms_norm", {"eps": 1e-5}, {"x": np.array([[-0.0, 1.0]], "f4")}, {"y": "f32"}))
    found = worst_element(truth.explain(Contract(), "y", (0, 0), 0.0), 1, 2, contradicts=True, dtype="f32")
    assert (found.got, found.expected) == (Number("0", "0x00000000"), Number("-0", "0x80000000"))
    told = "\n".join(allowance_lines(found))
    assert "  exact         -0.0\n  allowed       -0 (0x80000000)\n" in told


@pytest.mark.parametrize(
    ("ways", "row", "words"),
    [
        (("formula", "finite"), [1.0, np.inf], "y[0] = 3, must be inf (or nan)"),
        ("finite", [1.0, np.inf], "y[0] = 3, must be inf"),
        ("formula", [1.0, np.inf], "y[0] = 3, must be nan"),
        (("formula", "finite"), [1.0, 1.0], "y[0] = 3, must be 1.6931472 (or 1.6931467 to 1.6931477)"),
    ],
)
def test_it_is_said_where_nan_is_right_too(ways: Any, row: list[float], words: str) -> None:
    of = Problem("logsumexp", {}, {"x": np.array([row], np.float32)}, {"y": "f32"})
    told = Truth(of).explain(Contract(algorithm={"most": ways}), "y", (0,), 3.0)
    worst = worst_element(told, 1, 1, contradicts=True, dtype="f32")
    assert brief_of(replace(NOTHING, worst=worst)).outcome == words


def test_the_inputs_of_the_worst_element_are_shown_of_tensors_that_are_not() -> None:
    target = target_of(PACK.kernel("generic"))
    for n, shown in ((20, True), (4, False)):
        x = contiguous((2, n))
        tensor = Tensor("f32", x, np.arange(2 * n, dtype="<f4").tobytes())
        case = Case("rms_norm", {"axis": 1, "eps": 0.5}, {"x": tensor}, {"y": Output("f32", x)})
        outcome = Outcome(target.id, Status.RAN, {"y": bytes(8 * n)})
        finding = Finding(case, Judge(case).judge(outcome, Contract()))
        text = full_text(explanation_of(finding, target), Commands())
        assert "  failing       " in text
        assert (
            bool(re.search(r"^  made of       x +\d+\.0 \(0x\w+\); from (0 to 19|20 to 39) along n$", text, re.M))
            == shown
        )
        assert ("made of" in text) == shown
