"""What comes of a turn is the same after it was a message."""

from __future__ import annotations

from collections import Counter
from math import inf

import numpy as np

from fuzz.campaign.search.guide import ClimbStep, Elite, Lesson, lessons_from, packed_lessons
from fuzz.campaign.search.turn_runner import TurnJob, TurnReport
from fuzz.campaign.search.wire import CallsRequest, TurnTaken, answer, order, packed, taken
from fuzz.core.base.feature import Feature
from fuzz.core.base.outcome import Change, Damage, Outcome, Status, Unwritten
from fuzz.core.base.verdict import Verdict
from fuzz.core.generate.conditions import Together
from fuzz.core.generate.search import Search
from fuzz.core.generate.sketch import N
from fuzz.core.generate.turn import Turn
from fuzz.core.judge.judge import Judgement
from fuzz.core.laws.law import LawCheck
from fuzz.core.laws.registry import LAWS
from fuzz.findings.tally import Point, Sighting, Tally, TargetTally, WorstPass, WorstRun
from fuzz.tests.common.examples import plain
from oracles.truth import OutputCheck


def _report(search: Search) -> TurnReport:
    case, mask = plain(5), np.arange(10).reshape(2, 5) % 3 == 0
    outcome = Outcome(
        "one", Status.RAN, {"y": bytes(40)}, None, (Damage("x", "gap", None, -4, "before", 4),),
        (Unwritten("y", 3, 1),), (Change("memory", "64 bytes"),),
    )  # fmt: skip
    check = OutputCheck("y", "numeric", (1, 2), inf, 4, contradicts=True, mask=mask)
    law = LawCheck(LAWS["rerun"], 2**64 - 1)
    wrong = Judgement("one", case, Verdict.FAIL_NUMERIC, inf, check, outcome=outcome)
    broken = Judgement("two", case, Verdict.FAIL_LAW, reason="rerun", law=law, outcome=outcome)
    tally = Tally({"one": TargetTally("one", "k", 3, worst={"f32": WorstPass(0.5, "2x5")}, twins=Counter(rerun=1))}, 2)
    tally.laws, tally.visits = Counter(rerun=1), {"rms_norm": Counter({(N, 5): 2, (Feature("axis"), (0, 2)): 1})}
    tally.accuracy = {Point("one", "f32", 8, False): WorstRun(4, 0.1, 1.0, "2x5")}
    tally.together = {"rms_norm": Together({1 << 300: 1 << 300 | 1})}
    made, _ = search.cases(Turn(0, 0), b"")
    draw = next(each.draw for each in made if each.draw is not None)
    lessons: list[Lesson] = [
        ClimbStep("k", ("1", "f32"), "n", True),
        Elite("k", ("1", "f32"), 0.25, draw, 0),
    ]
    return TurnReport(
        TurnJob(3, "rms_norm", 1, Turn(0, 7)), tally, b"\0\xff",
        [Sighting(case, [wrong, broken], {"one": "FAIL_NUMERIC"})], packed_lessons(lessons), [("error", case)], ["{}"],
    )  # fmt: skip


def test_a_report_is_the_same_after_it_was_a_message() -> None:
    told = _report(Search("rms_norm", 1))
    message = answer(packed(taken(told, 7, {"one": 2})))
    assert isinstance(message, TurnTaken)
    assert (message.resident, message.restarts) == (7, {"one": 2})
    heard = message.report
    assert [type(each) for each in lessons_from(heard.lessons)] == [ClimbStep, Elite]
    beside = [tally.together.pop("rms_norm").beside for tally in (told.tally, heard.tally)]
    assert beside[0] == beside[1]
    [seen] = told.sightings
    for one, two in zip(seen.judgements, heard.sightings[0].judgements, strict=True):
        assert two.of == seen.case.digest
        object.__setattr__(two, "of", seen.case)
        first, second = (each.worst and each.worst.mask for each in (one, two))
        assert (first is None and second is None) or np.array_equal(first, second)  # type: ignore[arg-type]
    assert heard == told


def test_what_a_process_is_told_is_what_was_said() -> None:
    assert order(packed(CallsRequest(("one", "digest")))) == CallsRequest(("one", "digest"))
