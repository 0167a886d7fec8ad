"""A twin is judged by the oracle, then by its law; the case file of a broken law replays and cannot be altered."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fuzz.core.adapters.pack import built_in, load
from fuzz.core.adapters.registry import expand
from fuzz.core.adapters.target import Target
from fuzz.core.adapters.toolchain import this_host
from fuzz.core.base.case import Case, CaseError, Layout, Output, Tensor, contiguous
from fuzz.core.base.outcome import Outcome, Status
from fuzz.core.base.verdict import Verdict
from fuzz.core.judge.judge import EntryJudge, Judgement
from fuzz.core.laws.law import LawCheck
from fuzz.core.laws.registry import LAWS, Entry, twin_of
from fuzz.findings.casefile import FoundRecord, from_json, to_json
from fuzz.tests.cover.laws.conftest import honest, nudged

X = np.array([[1.5, -2.0, 0.25], [3.0, 1.0, -1.0]], "<f4")
CASE = Case(
    "rms_norm",
    {"axis": 1, "eps": 0.5},
    {"x": Tensor("f32", contiguous((2, 3)), X.tobytes())},
    {"y": Output("f32", contiguous((2, 3)))},
)
CHECK = LawCheck(LAWS["batch_append"], 7)


def _judged(on_twin: Mapping[str, bytes], laws: tuple[str, ...] = ("batch_append",)) -> tuple[Judgement, EntryJudge]:
    target = _target(laws)
    entry = twin_of(CASE, CHECK)
    before = EntryJudge(Entry(CASE), {target.id: Outcome(target.id, Status.RAN, honest(CASE))})
    judge = EntryJudge(entry, {target.id: Outcome(target.id, Status.RAN, on_twin)}, before)
    return judge.judge(target), judge


def _target(laws: tuple[str, ...]) -> Target:
    generic = load(built_in()).kernel("generic")
    return expand([replace(generic, laws=laws)], this_host())[0]


def test_a_twin_that_follows_passes_and_is_counted() -> None:
    judgement, judge = _judged(honest(CHECK.twin(CASE)))
    assert (judgement.verdict, judgement.law, len(judge.checked)) == (Verdict.PASS, CHECK, 1)


def test_one_bit_breaks_a_law_and_the_case_itself_is_the_evidence() -> None:
    judgement, judge = _judged(_nudged_once(CHECK.twin(CASE)))
    assert judgement.verdict is Verdict.FAIL_LAW
    assert judgement.reason.startswith("batch_append (more rows after the last one): 1 of ")
    assert judge.evidence(judgement) is CASE
    assert judgement.case == CASE.digest


def _nudged_once(case: Case) -> Mapping[str, bytes]:
    return {"y": nudged(case)["y"][:4] + honest(case)["y"][4:]}


def test_a_kernel_that_does_not_declare_the_law_is_not_held_to_it() -> None:
    judgement, judge = _judged(_nudged_once(CHECK.twin(CASE)), laws=("rerun",))
    assert (judgement.verdict, judge.checked) == (Verdict.PASS, [])


def test_what_the_oracle_rejects_needs_no_law() -> None:
    twin = CHECK.twin(CASE)
    judgement, judge = _judged({"y": bytes(len(honest(twin)["y"]))})
    assert judgement.verdict is Verdict.FAIL_NUMERIC
    assert judge.evidence(judgement) == twin


def _record() -> dict[str, Any]:
    found = FoundRecord("c-generic@native:gcc-O2", "FAIL_LAW", 7, "0.1.0", CHECK)
    record: dict[str, Any] = json.loads(json.dumps(to_json(CASE, found)))
    return record


def test_a_law_survives_the_case_file() -> None:
    case, found = from_json(_record())
    assert case == CASE
    assert found is not None
    assert found.law == CHECK


ALTERATIONS: Mapping[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "another law": (lambda found: found["law"].update(name="batch_subset"), "found.law.seal"),
    "another key": (lambda found: found["law"].update(key=f"{8:016x}"), "found.law.seal"),
    "another seal": (lambda found: found["law"].update(seal="0" * 64), "found.law.seal"),
    "no seal": (lambda found: found["law"].pop("seal"), "found.law.seal"),
    "a law that does not apply": (lambda found: found["law"].update(name="in_place"), "does not apply"),
    "no such law": (lambda found: found["law"].update(name="gravity"), "unknown law 'gravity'"),
    "no key": (lambda found: found["law"].update(key="seven"), "found.law.key"),
    "no law": (lambda found: found.pop("law"), "found.law: missing"),
    "no object": (lambda found: found.update(law=3), "found.law"),
}


@pytest.mark.parametrize("name", list(ALTERATIONS))
def test_an_altered_law_is_refused(name: str) -> None:
    alteration, words = ALTERATIONS[name]
    record = _record()
    alteration(record["found"])
    with pytest.raises(CaseError) as caught:
        from_json(record)
    assert words in str(caught.value)


def test_rows_that_share_memory_keep_their_unit_stride_in_other_surroundings() -> None:
    """Wider gaps between rows are not made between their elements, where there is no step from row to row."""
    expanded = Layout((2, 3), (0, 1))
    x = Tensor("f32", expanded, np.tile(X[:1], (2, 1)).tobytes())
    case = replace(CASE, inputs={"x": x})
    for seed in range(16):
        twin = LawCheck(LAWS["surroundings"], seed).twin(case)
        assert twin.inputs["x"].layout.strides == (0, 1)


@pytest.mark.parametrize("law", ["row_permutation", "batch_subset", "batch_append"])
def test_rows_of_weights_are_not_picked_like_rows_of_x(law: str) -> None:
    """They go with the axis beside the normalised one, and may have the shape of x by chance."""
    x = Tensor("f32", contiguous((3, 3)), bytes(36))
    case = replace(CASE, inputs={"x": x}, outputs={"y": Output("f32", contiguous((3, 3)))})
    assert LAWS[law].applies(case)
    assert not LAWS[law].applies(replace(case, inputs={"x": x, "weight": x}))


def test_no_law_moves_one_of_two_inputs_that_are_one() -> None:
    """Else a finding of a law could not be shrunk: probes of it give dy the memory of x, and no such twin is a case."""
    x = Tensor("f32", contiguous((3, 4)), bytes(48))
    inputs = {"x": x, "dy": replace(x, alias="x"), "rstd": Tensor("f32", contiguous((3,)), bytes(12))}
    outputs = {"dx": Output("f32", contiguous((3, 4)), alias="dy")}
    case = Case("rms_norm_backward", {"eps": 1e-5, "weight_offset": 0.0, "axis": 1}, inputs, outputs)
    assert {name for name, law in LAWS.items() if law.applies(case)} == {"rerun", "in_place"}
    for name in ("rerun", "in_place"):
        assert LawCheck(LAWS[name], 1).twin(case).inputs == inputs
