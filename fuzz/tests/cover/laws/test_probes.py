"""What a probe calls a kernel with follows from its case; what comes of it is judged by the oracle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fuzz.core.adapters.pack import built_in, load
from fuzz.core.adapters.registry import expand
from fuzz.core.adapters.toolchain import this_host
from fuzz.core.base.case import Case, CaseError, Output, Tensor, contiguous
from fuzz.core.base.errors import InternalError
from fuzz.core.base.outcome import Outcome, Status
from fuzz.core.base.probe import (
    AUTOGRAD,
    CALLER,
    FRESH,
    GHOST,
    MODE,
    OVERWRITE,
    PAUSE,
    PROBE,
    PROBES,
    PROCESS,
    STREAM,
    before,
    place_of,
    probe_of,
    probed,
    unprobed,
)
from fuzz.core.base.validity import check_case
from fuzz.core.base.verdict import Verdict
from fuzz.core.judge.judge import EntryJudge, Judgement
from fuzz.core.laws.law import LawCheck
from fuzz.core.laws.registry import LAWS, Entry, twin_of
from fuzz.tests.common.python_planted import outcomes, python_target
from fuzz.tests.cover.laws.conftest import honest
from oracles.truth import Truth

X = np.array([[1.5, -2.0, 0.0], [3.0, 1.0, -1.0]], "<f4")
CASE = Case(
    "rms_norm",
    {"axis": 1, "eps": 0.5},
    {"x": Tensor("f32", contiguous((2, 3)), X.tobytes())},
    {"y": Output("f32", contiguous((2, 3)))},
)


def _judged(probe: str, came: Mapping[str, bytes] | None, *, usual: Mapping[str, bytes] | None = None) -> Judgement:
    """What is said of a kernel that gives the outputs `came`, or raises, where it is called by a probe."""
    generic = load(built_in()).kernel("generic")
    target = expand([replace(generic, laws=PROBES)], this_host())[0]
    outcome = Outcome(target.id, Status.RAISED, detail="KeyError: 7")
    outcome = outcome if came is None else Outcome(target.id, Status.RAN, came)
    first = EntryJudge(Entry(CASE), {target.id: Outcome(target.id, Status.RAN, usual or honest(CASE))})
    return EntryJudge(twin_of(CASE, LawCheck(LAWS[probe], 5)), {target.id: outcome}, first).judge(target)


def _twin(probe: str) -> Case:
    return LawCheck(LAWS[probe], 5).twin(CASE)


@pytest.mark.whole
@pytest.mark.parametrize("probe", PROBES)
def test_twins_are_cases_and_what_came_before_is_known(some_cases: list[Case], probe: str) -> None:
    law = LAWS[probe]
    found = [case for case in some_cases if law.applies(case)][:60]
    assert len(found) == 60
    for number, case in enumerate(found):
        twin = LawCheck(law, number).twin(case)
        check_case(twin)
        check_case(unprobed(before(twin)))
        assert (probe_of(twin), probe_of(unprobed(twin)), unprobed(twin).params) == (probe, "", case.params)
        changed = [name for name, each in twin.inputs.items() if each != case.inputs[name]]
        # With other values a kernel that is right about the case may be wrong by itself, and be accused of the way.
        assert bool(changed) == (probe in (OVERWRITE, GHOST))
        assert (before(twin).inputs != case.inputs) == (probe != OVERWRITE)
        if probe == OVERWRITE:
            assert changed == [place_of(twin)[0]]
            assert before(twin).inputs == case.inputs


def test_a_case_file_cannot_ask_for_another_probe() -> None:
    for number in (-1, 0.5, 1 << 60):
        with pytest.raises(CaseError, match="is no probe"):
            check_case(replace(CASE, params={**CASE.params, PROBE: number}))


def test_what_is_wrong_about_other_values_is_not_accused_of_their_way() -> None:
    assert _judged(OVERWRITE, honest(_twin(OVERWRITE))).verdict is Verdict.PASS
    assert _judged(OVERWRITE, {"y": np.zeros((2, 3), "<f4").tobytes()}).verdict is Verdict.NOT_RUN


def test_a_wrong_answer_that_the_old_values_allow_is_no_cached_one() -> None:
    """A layer norm of equal elements may be off by far, and one with a wrong variance is so about others."""
    equal = np.full((1, 2), 65536.0, "<f4")
    tensors = {"x": equal, "weight": np.ones(2, "<f4"), "bias": np.ones(2, "<f4")}
    inputs = {name: Tensor("f32", contiguous(each.shape), each.tobytes()) for name, each in tensors.items()}
    outputs = {"y": Output("f32", contiguous((1, 2)))}
    case = Case("layer_norm", {"axis": 1, "eps": 1e-5}, inputs, outputs, structured=True)
    target = expand([replace(load(built_in()).kernel("layer-norm-generic"), laws=PROBES)], this_host())[0]
    gave, gives = ({"y": np.array([each], "<f4").tobytes()} for each in ((1.0, 1.0), (0.29290032, 1.7071)))
    first = EntryJudge(Entry(case), {target.id: Outcome(target.id, Status.RAN, gave)})
    assert first.judge(target).verdict is Verdict.PASS
    old = EntryJudge(Entry(case), {target.id: Outcome(target.id, Status.RAN, gives)})
    assert old.judge(target).verdict is Verdict.PASS, "or it shows nothing"
    twin = twin_of(case, LawCheck(LAWS[OVERWRITE], 5))
    said = {
        came["y"]: EntryJudge(twin, {target.id: Outcome(target.id, Status.RAN, came)}, first).judge(target).verdict
        for came in (gave, gives)
    }
    assert said == {gave["y"]: Verdict.FAIL_LAW, gives["y"]: Verdict.NOT_RUN}


@pytest.mark.some(1)
@pytest.mark.parametrize("probe", [FRESH, CALLER, STREAM])
def test_what_is_right_in_each_way_passes_and_what_is_wrong_has_the_law_broken(probe: str) -> None:
    right = honest(_twin(probe))
    assert _judged(probe, right).verdict is Verdict.PASS
    wrong = _judged(probe, {"y": np.zeros((2, 3), "<f4").tobytes()})
    assert (wrong.verdict, wrong.broken_law_name, wrong.case) == (Verdict.FAIL_LAW, probe, CASE.digest)
    assert "wrong" in wrong.reason
    raised = _judged(probe, None)
    assert raised.verdict is Verdict.FAIL_LAW
    assert raised.reason.endswith("(KeyError: 7)")
    # A kernel that is wrong in the usual call is told of as that.
    zeros = {"y": np.zeros((2, 3), "<f4").tobytes()}
    found = _judged(probe, zeros, usual=zeros)
    assert (found.verdict, found.reason) == (Verdict.NOT_RUN, "only cases that pass are judged by probes, too")


def test_the_answer_of_the_calls_before_is_told_as_such() -> None:
    said = _judged(OVERWRITE, honest(CASE)).reason
    name, element = place_of(_twin(OVERWRITE))
    old = X.reshape(-1)[element]
    assert said == (
        f"the answer did not follow the input: {name}[{element // 3}, {element % 3}] changed from {old:g} to"
        f" {old / 2 if old else 1:g} in place and the output stayed the same (it is cached by address or object)"
    )
    assert _judged(FRESH, honest(before(_twin(FRESH)))).reason.endswith("gave the output of the old one")
    assert _judged(STREAM, honest(before(_twin(STREAM)))).reason.endswith("it read what was there before")


def test_outputs_that_are_right_without_the_kernel_are_an_error_of_ours() -> None:
    """Zeros, and one number over and over, may be right by chance."""
    with pytest.raises(InternalError, match="the judge leaks"):
        _judged(GHOST, honest(_twin(GHOST)))
    assert _judged(GHOST, honest(CASE)).verdict is Verdict.PASS
    assert _judged(GHOST, {"y": np.full((2, 3), np.nan, "<f4").tobytes()}).verdict is Verdict.PASS
    assert _judged(GHOST, None).verdict is Verdict.PASS


def test_no_element_of_what_nothing_computed_is_looked_at_closely(monkeypatch: pytest.MonkeyPatch) -> None:
    """It fails in most cases of a judge, and that took four fifths of the time of its search."""
    asked = list[object]()
    monkeypatch.setattr(Truth, "bounds", lambda *given, **_: asked.append(given))
    wrong = {"y": np.arange(6, dtype="<f4").tobytes()}
    assert _judged(GHOST, wrong).verdict is Verdict.PASS
    assert not asked
    _judged(CALLER, wrong)
    assert asked


def test_a_loop_of_another_caller_is_longer_than_a_cheat_waits(cache: Path, tmp_path: Path) -> None:
    """A known exploit is right in the first calls of a loop, and a benchmark measures the later ones."""
    text = "calls = [0]\n\ndef rms_norm(x, y, eps, axis):\n    calls[0] += 1\n    y[...] = calls[0]\n"
    [outcome] = outcomes(python_target(tmp_path, text, "numpy"), cache, _twin(CALLER))
    assert np.frombuffer(outcome.outputs["y"], "<f4").min() > 5


_LOOKS = {
    (PROCESS, 0): "'train.py' in sys.argv and 'HOME' in os.environ and not {*sys.modules} & {'fuzz', 'oracles.ops'}",
    (AUTOGRAD, 0): "x.requires_grad and torch.is_grad_enabled()",
    (AUTOGRAD, 1): "x.requires_grad and torch.is_grad_enabled()",
    (AUTOGRAD, 2): "not torch.is_grad_enabled()",
    (AUTOGRAD, 3): "torch.is_inference_mode_enabled()",
    (PAUSE, 0): "time.monotonic() - LAST[0] > 0.5",
}  # fmt: skip


@pytest.mark.some(3)
@pytest.mark.parametrize(("probe", "kind"), _LOOKS)
def test_a_probe_gives_the_kernel_what_it_looks_at_and_takes_it_away_again(
    cache: Path, tmp_path: Path, probe: str, kind: int
) -> None:
    text = (
        f"import os, sys, time\nimport torch\nLAST = [time.monotonic()]\n\n\ndef rms_norm(x, eps, axis):\n"
        f"    is_there = {_LOOKS[probe, kind]}\n    LAST[0] = time.monotonic()\n"
        "    return x * 0 + (2.0 if is_there else 1.0)\n"
    )
    asked = [CASE, probed(CASE, probe, kind), CASE]
    found = outcomes(python_target(tmp_path, text), cache, *asked)
    assert [np.frombuffer(each.outputs["y"], "<f4").mean() for each in found] == [1.0, 2.0, 1.0]
    assert not any(each.changes for each in found)


def test_what_refuses_gradients_is_called_as_usual_instead(cache: Path, tmp_path: Path) -> None:
    text = "import torch\n\n\ndef rms_norm(x, eps, axis):\n    return torch.tensor(x.numpy() + 1)\n"
    usual, probed_one = outcomes(python_target(tmp_path, text), cache, CASE, probed(CASE, AUTOGRAD))
    assert usual.outputs == probed_one.outputs


@pytest.mark.parametrize("probe", [PAUSE, PROCESS, AUTOGRAD, MODE])
def test_what_is_wrong_in_such_a_way_alone_is_told_with_the_way(probe: str) -> None:
    assert _judged(probe, honest(_twin(probe))).verdict is Verdict.PASS
    said = _judged(probe, {"y": np.zeros((2, 3), "<f4").tobytes()})
    what = {PAUSE: "the time", PROCESS: "the process or the caller", AUTOGRAD: "autograd", MODE: "the mode"}[probe]
    assert (said.verdict, said.reason.partition(":")[0].partition(",")[0]) == (
        Verdict.FAIL_LAW, f"the answer depends on {what}",
    )  # fmt: skip
