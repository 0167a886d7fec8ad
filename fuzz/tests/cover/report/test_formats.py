"""Report formats: valid by their schemas, stable from run to run, within the limits of those who read them."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from fuzz.core.adapters.c_kernel import CKernel
from fuzz.core.adapters.python_kernel import PythonKernel
from fuzz.core.base.exits import ENDINGS, Exit
from fuzz.core.base.verdict import Verdict
from fuzz.findings.tally import WorstPass
from fuzz.report import github
from fuzz.report.formats import FINGERPRINT, FORMATS, FormatError, junit, parse, sarif, write_reports
from fuzz.report.outline import Failure, Outline, TargetLine
from fuzz.report.source import Location, location_of
from fuzz.report.use_outcome import UseOutcome
from fuzz.tests.common.told import OUTCOMES, PASSED
from fuzz.tests.common.validity import valid_junit, valid_sarif

_FAILURE = Failure(
    kernel="mine",
    verdict=Verdict.FAIL_LAW,
    law="scaling",
    targets=("c-mine@native:gcc-O0", "c-mine@native:gcc-O2"),
    count=7,
    location=Location("kernels/c/mine.c", 12),
    broken="CRASH: mine on c-mine@native:gcc-O0: 100% wrong",
    said="CRASH  mine\n  what  100% wrong, y[0] <&> \x00 \ud800 ````",
)
_TARGETS = tuple(
    TargetLine(
        "mine", "rms_norm", target, 10, 7, {"f32": WorstPass(0.5, "1x4 normal")}, {"scaling": 3, "rerun": 0},
        "" if judged else "no AVX-512 here",
    )
    for target, judged in (("c-mine@native:gcc-O0", 1), ("c-mine@native:gcc-O2", 1), ("c-mine@native:gcc-O3", 0))
)  # fmt: skip
_RED = Outline(
    "gate",
    0,
    {"kernelfuzz": "0.1.0", "python": "3.11"},
    100,
    _TARGETS,
    (_FAILURE,),
    UseOutcome({"mine": 20}, {}, failing=True, complaints=("target x did not run",)),
    notes=("a note",),
)
_GREEN = replace(_RED, failures=(), outcome=PASSED)


@pytest.mark.parametrize("code", [*ENDINGS])
@pytest.mark.parametrize("name", [*FORMATS])
def test_what_did_not_pass_is_said_to_have_passed_by_no_format(name: str, code: Exit) -> None:
    outcome = replace(OUTCOMES[code], unjudged={"idle_one": "gcc is not installed", **OUTCOMES[code].unjudged})
    assert outcome.code is code
    said = FORMATS[name](replace(_GREEN, outcome=outcome))
    assert "idle_one" in said, "a kernel that was not judged is named"
    if name == "json":
        record = json.loads(said)
        assert (record["ok"], record["exit"], record["ending"]) == (code is Exit.OK, code, ENDINGS[code])
    elif name == "sarif":
        [invocation] = valid_sarif(said)["runs"][0]["invocations"]
        assert invocation["exitCode"] == code
        assert invocation["executionSuccessful"] is (code in (Exit.OK, Exit.FINDINGS))
    elif name == "junit":
        root = valid_junit(said)
        assert (root.attrib["errors"] == root.attrib["failures"] == "0") is (code in (Exit.OK, Exit.FINDINGS))
    else:
        assert re.findall(r"\b(?:passed|FAILED|[A-Z][A-Z ]{6,})(?=\n)", said)[0] == ENDINGS[code]
        assert ("passed" in said) is (code is Exit.OK)


@pytest.mark.parametrize("code", [*ENDINGS])
def test_an_annotation_says_what_did_not_pass_where_no_kernel_fails(code: Exit) -> None:
    errors = [line for line in github.commands(replace(_GREEN, outcome=OUTCOMES[code])) if line.startswith("::error ")]
    assert bool(errors) is (code is not Exit.OK)


@pytest.mark.parametrize("name", [*FORMATS])
def test_an_output_of_which_nothing_was_decided_is_named_by_every_format(name: str) -> None:
    said = FORMATS[name](replace(_GREEN, outcome=replace(PASSED, never_decided={"mine": ("the_lse",)})))
    assert "the_lse" in said
    assert f"{ENDINGS[Exit.ORACLE_GAVE_UP]}" in said


def test_what_could_not_be_saved_shakes_everything_and_findings_come_before_what_did_not_run() -> None:
    failing = replace(PASSED, failing=True, missing=("x",), interrupted=True, undecided=1)
    assert failing.code is Exit.FINDINGS
    assert replace(failing, unsaved=("no space left",)).code is Exit.INTERNAL
    assert UseOutcome({}, {"mine": "not changed"}, idle=True).code is Exit.OK


def test_sarif_is_valid_by_the_published_schema_red_green_and_known() -> None:
    for outline in (_RED, _GREEN, replace(_RED, failures=(replace(_FAILURE, known="https://x/1"),))):
        valid_sarif(sarif(outline))
    spaced = replace(_FAILURE, location=Location("my kernels/a.c", 1))
    [run] = valid_sarif(sarif(replace(_RED, failures=(spaced,))))["runs"]
    place = run["results"][0]["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "my%20kernels/a.c"


def test_sarif_points_to_the_source_line_and_keeps_its_fingerprint_when_the_line_moves() -> None:
    [run] = valid_sarif(sarif(_RED))["runs"]
    [result] = run["results"]
    place = result["locations"][0]["physicalLocation"]
    assert (place["artifactLocation"]["uri"], place["region"]["startLine"]) == ("kernels/c/mine.c", 12)
    assert result["partialFingerprints"] == {FINGERPRINT: _FAILURE.fingerprint}
    assert run["invocations"][0]["toolExecutionNotifications"][0]["message"]["text"] == "target x did not run"
    moved = replace(_FAILURE, location=Location("kernels/c/mine.c", 99), count=1, targets=("c-mine@qemu:gcc-O2",))
    assert moved.fingerprint == _FAILURE.fingerprint == "33fefe3e5d6d348b5fd2128f8cbf2540"
    assert replace(_FAILURE, law="rerun").fingerprint != _FAILURE.fingerprint


def test_a_known_failure_is_suppressed_with_its_issue() -> None:
    known = replace(_RED, failures=(replace(_FAILURE, known="https://x/1"),), outcome=PASSED)
    [result] = valid_sarif(sarif(known))["runs"][0]["results"]
    assert result["level"] == "note"
    assert result["suppressions"] == [{"kind": "external", "justification": "https://x/1"}]
    assert valid_junit(junit(known)).attrib["failures"] == "0"


def test_sarif_holds_no_more_results_than_are_shown() -> None:
    many = replace(_RED, failures=(_FAILURE,) * 5003)
    [run] = json.loads(sarif(many))["runs"]
    assert len(run["results"]) == 5000
    assert "3 further buckets" in run["invocations"][0]["toolExecutionNotifications"][-1]["message"]["text"]


def test_junit_has_a_case_per_target_and_law_and_says_what_did_not_run() -> None:
    root = valid_junit(junit(_RED))
    assert (root.attrib["tests"], root.attrib["failures"], root.attrib["skipped"]) == ("11", "3", "5")
    failures = {case.attrib["classname"]: case for case in root.iter("testcase") if case.find("failure") is not None}
    shown = failures["c-mine@native:gcc-O0"].find("failure")
    assert shown is not None
    assert shown.attrib["type"] == "FAIL_LAW"
    assert (shown.text or "").startswith("CRASH  mine\n")
    skipped = [case.find("skipped") for case in root.iter("testcase")]
    reasons = {element.attrib["message"] for element in skipped if element is not None}
    assert reasons == {"NOT_RUN: no AVX-512 here", "no case was checked by this law"}
    assert {p.attrib["name"] for p in root.iter("property")} >= {"seed", "kernelfuzz", "worst passing err/budget f32"}


def test_annotations_are_one_line_each_and_no_more_than_are_shown() -> None:
    lines = github.commands(_RED)
    assert lines[0].startswith("::error file=kernels/c/mine.c,line=12,title=kernelfuzz FAIL_LAW mine::CRASH  mine%0A")
    assert "%0A" in lines[0]
    assert "100%25 wrong" in lines[0]
    assert all("\n" not in line for line in lines)
    many = github.commands(replace(_RED, failures=(_FAILURE,) * 40))
    assert len(many) == 10
    assert many[-1].endswith("::and 32 more: see the summary of this step")


@pytest.mark.parametrize(("text", "wanted"), [("a:b,c%d\r\ne", "a%3Ab%2Cc%25d%0D%0Ae"), ("plain", "plain")])
def test_what_a_workflow_command_would_misread_is_escaped(text: str, wanted: str) -> None:
    assert github.escaped_property(text) == wanted


def test_a_step_summary_is_cut_to_what_is_taken_with_its_fences_closed() -> None:
    long = replace(_FAILURE, said="x" * 1000)
    whole = github.summary(replace(_RED, failures=(long,) * 2000))
    assert len(whole.encode()) <= 1 << 20
    assert whole.endswith("(cut: the rest does not fit into a step summary)\n")
    assert whole.count("````") % 2 == 0
    assert "## kernelfuzz gate: FAILED" in whole
    assert "## kernelfuzz gate: passed" in github.summary(_GREEN)


def test_every_format_is_written_where_it_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    outline = replace(_RED, failures=(replace(_FAILURE, said="plain"),))
    wanted = parse([f"{name}={tmp_path}/deep/{name}" for name in FORMATS] + ["text"])
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    write_reports(outline, wanted)
    assert sorted(path.name for path in (tmp_path / "deep").iterdir()) == sorted(FORMATS)
    printed = capsys.readouterr().out
    assert printed.startswith("::error ")
    assert "kernelfuzz gate: FAILED" in printed
    assert json.loads((tmp_path / "deep" / "json").read_text())["problems"][0]["fingerprint"] == _FAILURE.fingerprint
    with pytest.raises(FormatError, match="the formats are text, json, junit, sarif, github"):
        parse(["html=out.html"])


def test_a_kernel_is_located_by_the_line_that_defines_it(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    folder = tmp_path / "my kernels"
    folder.mkdir()
    (folder / "k.c").write_text('#include "kernelfuzz.h"\n\nint kf_rms_norm(const kf_rms_norm_call *call) {\n')
    (folder / "k.py").write_text("import torch\n\ndef mine(x, eps):\n    return x\n")
    assert location_of(CKernel("k", "rms_norm", folder / "k.c")) == Location("my kernels/k.c", 3)
    assert location_of(PythonKernel("k", "rms_norm", folder / "k.py", "torch", entry="mine")).line == 3
    assert location_of(PythonKernel("k", "rms_norm", folder / "k.py", "torch", entry="gone")).line == 1


def test_every_verdict_that_is_a_finding_has_its_rule() -> None:
    [run] = valid_sarif(sarif(_GREEN))["runs"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert set(rules) == {verdict.value for verdict in Verdict if verdict.is_finding}
    assert all(re.fullmatch("[A-Z_]+", rule) for rule in rules)


_CONTROL = "\x00\x1b[31m\x7f\ud800"
"""What a kernel's exception or a file's name may hold: what XML forbids, a terminal's colours, half of a character."""


@pytest.mark.parametrize(
    "outline",
    [
        replace(_RED, failures=(replace(_FAILURE, said=_CONTROL),)),
        replace(_RED, failures=(replace(_FAILURE, kernel=_CONTROL),), outcome=PASSED),
        replace(_RED, failures=(replace(_FAILURE, known=_CONTROL),)),
        replace(_RED, failures=(replace(_FAILURE, location=Location(_CONTROL, 1)),)),
        replace(_RED, outcome=replace(PASSED, complaints=(_CONTROL,), unjudged={_CONTROL: _CONTROL})),
        replace(_RED, environment={"python": _CONTROL}),
        replace(_RED, targets=tuple(replace(line, not_run=_CONTROL) for line in _TARGETS), failures=()),
        replace(_RED, targets=tuple(replace(line, worst={"f32": WorstPass(0.5, _CONTROL)}) for line in _TARGETS)),
    ],
    ids=["text", "kernel", "known", "path", "complaint", "environment", "reason", "place"],
)
def test_control_characters_break_no_format(outline: Outline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    write_reports(outline, parse([f"{name}={tmp_path / name}" for name in FORMATS if name != "github"]))
    valid_junit((tmp_path / "junit").read_text())
    valid_sarif((tmp_path / "sarif").read_text())
    assert json.loads((tmp_path / "json").read_text())["judged"] == 30
    assert github.summary(outline).startswith("## kernelfuzz gate")
    assert all(len(line.splitlines()) == 1 for line in github.commands(outline))


def test_sarif_keeps_the_text_of_a_failure_to_the_character() -> None:
    text = "wrong\x00\x1b[31m\r\n\t\u2028 <&> \U0001f9ee"
    [run] = valid_sarif(sarif(replace(_RED, failures=(replace(_FAILURE, said=text),))))["runs"]
    assert run["results"][0]["message"]["text"] == f"{_FAILURE.headline}\n\n{text}"


def test_junit_replaces_only_what_xml_cannot_hold() -> None:
    text = "wrong\x00\x1b[31m\n\t <&> \U0001f9ee"
    root = valid_junit(junit(replace(_RED, failures=(replace(_FAILURE, said=text),))))
    shown = next(root.iter("failure"))
    assert shown.text == "wrong\ufffd\ufffd[31m\n\t <&> \U0001f9ee"


def test_buckets_with_one_fingerprint_are_numbered_whatever_else_fails() -> None:
    other = replace(_FAILURE, kernel="other")
    [run] = valid_sarif(sarif(replace(_RED, failures=(_FAILURE, other, _FAILURE, _FAILURE))))["runs"]
    prints = [result["partialFingerprints"][FINGERPRINT] for result in run["results"]]
    first = _FAILURE.fingerprint
    assert prints == [first, other.fingerprint, f"{first}:2", f"{first}:3"]


def test_no_part_of_a_text_is_taken_for_a_workflow_command() -> None:
    text = "what\n::add-mask::x\r::stop-commands::y"
    failures, outcome = (replace(_FAILURE, said=text, kernel="a,b::c"),), replace(PASSED, complaints=(text,))
    outline = replace(_RED, failures=failures, outcome=outcome)
    lines = github.commands(outline)
    assert [line.splitlines() for line in lines] == [[line] for line in lines]
    assert lines[0].startswith("::error file=kernels/c/mine.c,line=12,title=kernelfuzz FAIL_LAW a%2Cb%3A%3Ac::")
    assert lines[1] == "::error title=kernelfuzz gate::what%0A::add-mask::x%0D::stop-commands::y"


def test_a_reason_of_several_lines_stays_in_its_cell() -> None:
    idle = tuple(replace(line, not_run="error: a|b\n  in line 2") for line in _TARGETS)
    lines = github.summary(replace(_GREEN, targets=idle)).splitlines()
    assert sum(line.startswith("| mine |") for line in lines) == 3
    assert sum(line.endswith(r"NOT_RUN: error: a\|b   in line 2 |") for line in lines) == 3


def test_a_text_that_holds_a_fence_stays_within_its_own() -> None:
    text = "raised:\n````\n# no heading\n````"
    lines = github.summary(replace(_RED, failures=(replace(_FAILURE, said=text),))).splitlines()
    start = lines.index("`````text")
    assert lines[start + 1 : start + 6] == [*text.splitlines(), "`````"]


def test_where_one_report_cannot_be_written_the_others_do_not_say_that_it_passed(tmp_path: Path) -> None:
    wanted = parse([f"json={tmp_path / 'json'}", "text=/dev/full", f"junit={tmp_path / 'junit'}"])
    written = write_reports(_GREEN, wanted)
    assert written.outcome.code is Exit.INTERNAL
    assert written.outcome.unsaved == ("/dev/full: cannot be written: No space left on device",)
    assert json.loads((tmp_path / "json").read_text())["exit"] == Exit.INTERNAL
    assert valid_junit((tmp_path / "junit").read_text()).attrib["errors"] == "1"
