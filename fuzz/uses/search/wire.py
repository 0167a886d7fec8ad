"""Messages between a search and its processes: JSON, and the bytes of tensors, outputs and masks behind it.

Nothing of ours is pickled, and JSON alone would take tensors apart into numbers.
"""

from __future__ import annotations

import json
import struct
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, astuple
from dataclasses import fields as fields_of
from typing import Any

import numpy as np

from fuzz.base.capability import Capability
from fuzz.base.case import Case, Layout, Origin, Output, Tensor
from fuzz.base.draw import Draw, Part, Placement
from fuzz.base.outcome import Change, Damage, Fault, Outcome, Status, Unwritten
from fuzz.base.verdict import Verdict
from fuzz.findings.accuracy import Point, WorstRun
from fuzz.findings.tally import Sighting, Tally, TargetTally, WorstPass
from fuzz.generate.conditions import Together
from fuzz.generate.search import Turn
from fuzz.judge.judge import Judgement
from fuzz.laws.law import LawCheck
from fuzz.laws.registry import LAWS
from fuzz.uses.search.guide import Attempt, Elite, Lesson
from fuzz.uses.search.taker import Report, Task
from oracles.truth import OutputCheck

_HEAD = struct.Struct("<Q")
"""The number of bytes of the JSON comes first."""

Json = Any


class Tail:
    """The bytes behind the JSON: put there in order, and taken in the same order."""

    def __init__(self, rest: memoryview | None = None) -> None:
        self.parts: list[bytes] = []
        self._rest = memoryview(b"") if rest is None else rest

    def put(self, data: bytes) -> int:
        """Returns the size, by which it is taken."""
        self.parts.append(data)
        return len(data)

    def take(self, size: int) -> bytes:
        taken, self._rest = bytes(self._rest[:size]), self._rest[size:]
        return taken


def joined(head: Json, tail: Tail) -> bytes:
    """One message."""
    text = json.dumps(head, separators=(",", ":")).encode()
    return b"".join((_HEAD.pack(len(text)), text, *tail.parts))


def parted(message: bytes) -> tuple[Json, Tail]:
    """The inverse of `joined`."""
    (size,) = _HEAD.unpack_from(message)
    end = _HEAD.size + size
    return json.loads(message[_HEAD.size : end]), Tail(memoryview(message)[end:])


def case_to(case: Case, tail: Tail) -> Json:
    """A case; the bits go to the tail."""
    inputs = [
        (name, t.dtype, astuple(t.layout), t.alias, 0 if t.alias else tail.put(t.bits))
        for name, t in case.inputs.items()
    ]
    outputs = [(name, o.dtype, astuple(o.layout), o.alias) for name, o in case.outputs.items()]
    return case.op, dict(case.params), inputs, outputs, case.structured, asdict(case.origin)


def case_from(head: Json, tail: Tail) -> Case:
    """The inverse of `case_to`."""
    op, params, inputs, outputs, structured, origin = head
    found: dict[str, Tensor] = {}
    for name, dtype, layout, alias, size in inputs:
        found[name] = Tensor(dtype, _layout(layout), found[alias].bits if alias else tail.take(size), alias)
    labels = tuple((kind, value) for kind, value in origin.pop("labels"))
    outs = {name: Output(dtype, _layout(layout), alias) for name, dtype, layout, alias in outputs}
    return Case(op, params, found, outs, structured, Origin(labels=labels, **origin))


def _layout(fields: Json) -> Layout:
    shape, strides, guard, offset = fields
    return Layout(tuple(shape), tuple(strides), guard, offset)


def judgement_to(judgement: Judgement, tail: Tail) -> Json:
    """A judgement of a case that the other side knows."""
    law, outcome = judgement.law, judgement.outcome
    return (
        judgement.target, judgement.verdict.value, judgement.ratio,
        None if judgement.worst is None else _check_to(judgement.worst, tail), judgement.reason,
        None if law is None else (law.name, f"{law.key:x}"), None if outcome is None else _outcome_to(outcome, tail),
        judgement.raised,
    )  # fmt: skip


def judgement_from(head: Json, case: Case, tail: Tail) -> Judgement:
    """The inverse of `judgement_to`."""
    target, verdict, ratio, worst, reason, law, outcome, raised = head
    return Judgement(
        target, case.digest, Verdict(verdict), ratio, None if worst is None else _check_from(worst, tail), reason,
        None if law is None else LawCheck(LAWS[law[0]], int(law[1], 16)), raised,
        None if outcome is None else _outcome_from(target, outcome, tail),
    )  # fmt: skip


def _check_to(check: OutputCheck, tail: Tail) -> Json:
    mask = None if check.mask is None else check.mask.shape
    if check.mask is not None:
        tail.put(np.packbits(check.mask).tobytes())
    return (
        check.output, check.result, check.worst_index, check.worst_ratio, check.failing, check.contradicts,
        check.escalated, check.blunt, mask,
    )  # fmt: skip


def _check_from(fields: Json, tail: Tail) -> OutputCheck:
    output, result, index, ratio, failing, contradicts, escalated, blunt, shape = fields
    mask = None
    if shape is not None:
        size = int(np.prod(shape))
        packed = np.frombuffer(tail.take((size + 7) // 8), np.uint8)
        mask = np.unpackbits(packed, count=size).astype(bool).reshape(shape)
    place = None if index is None else tuple(index)
    return OutputCheck(output, result, place, ratio, failing, contradicts, escalated, blunt, mask)


def _outcome_to(outcome: Outcome, tail: Tail) -> Json:
    outputs = [(name, tail.put(bits)) for name, bits in outcome.outputs.items()]
    facts = [[astuple(each) for each in part] for part in (outcome.damage, outcome.unwritten, outcome.changes)]
    return outcome.status.value, outputs, outcome.fault and astuple(outcome.fault), *facts, outcome.detail


def _outcome_from(target: str, head: Json, tail: Tail) -> Outcome:
    status, outputs, fault, damage, unwritten, changes, detail = head
    bits = {name: tail.take(size) for name, size in outputs}
    return Outcome(
        target, Status(status), bits, Fault(*fault) if fault else None, tuple(Damage(*each) for each in damage),
        tuple(Unwritten(*each) for each in unwritten), tuple(Change(*each) for each in changes), detail,
    )  # fmt: skip


def sightings_to(sightings: Iterable[Sighting], tail: Tail) -> Json:
    """Failing runs; the targets of one case follow one another and share it."""
    head: list[Json] = []
    before: Case | None = None
    for each in sightings:
        case = None if each.case is before else case_to(each.case, tail)
        head.append((case, judgement_to(each.judgement, tail), dict(each.verdicts)))
        before = each.case
    return head


def sightings_from(head: Json, tail: Tail) -> list[Sighting]:
    """The inverse of `sightings_to`."""
    found: list[Sighting] = []
    for case, judgement, verdicts in head:
        known = found[-1].case if case is None else case_from(case, tail)
        found.append(Sighting(known, judgement_from(judgement, known, tail), verdicts))
    return found


def draw_to(draw: Draw) -> Json:
    """A draw without values of its own."""
    parts = [(p.name, p.dtype, astuple(p.place), p.recipe, p.alias, p.shift, p.stack) for p in draw.parts]
    return draw.op, draw.n, draw.outer, dict(draw.params), draw.seed, parts, draw.structured, dict(draw.extents)


def draw_from(head: Json) -> Draw:
    """The inverse of `draw_to`."""
    op, n, outer, params, seed, parts, structured, extents = head
    found = [
        Part(name, dtype, _placement(place), recipe, None, alias, tuple(shift) if shift else None, stack)
        for name, dtype, place, recipe, alias, shift, stack in parts
    ]
    return Draw(op, n, tuple(outer), params, seed, tuple(found), structured, extents=extents)


def _placement(fields: Json) -> Placement:
    layout, spread, guard, offset, step, strides = fields
    return Placement(layout, spread, guard, offset, step, None if strides is None else tuple(strides))


def lessons_to(lessons: Iterable[object], capabilities: Sequence[Capability]) -> Json:
    """`capabilities` are those of the search: both sides know them in this order."""
    return [
        (each.kernel, each.cell, each.ratio, draw_to(each.draw), capabilities.index(each.capability))
        if isinstance(each, Elite)
        else (each.kernel, each.cell, each.change, each.worse)
        for each in lessons
        if isinstance(each, Attempt) or (isinstance(each, Elite) and each.capability in capabilities)
    ]


def lessons_from(head: Json, capabilities: Sequence[Capability]) -> list[Lesson]:
    """The inverse of `lessons_to`."""
    return [
        Elite(each[0], tuple(each[1]), each[2], draw_from(each[3]), capabilities[each[4]])
        if len(each) == 5
        else Attempt(each[0], tuple(each[1]), each[2], each[3])
        for each in head
    ]


def tally_to(tally: Tally) -> Json:
    """What was counted."""
    lines = [
        (t.target, t.kernel, t.judged, t.findings, t.gave_up, t.not_run, {d: astuple(w) for d, w in t.worst.items()},
         t.twins, t.not_run_reason, t.undecided)
        for t in tally.targets.values()
    ]  # fmt: skip
    visits = {op: [(*label, count) for label, count in labels.items()] for op, labels in tally.visits.items()}
    accuracy = None
    if tally.accuracy is not None:
        accuracy = [(astuple(point), astuple(worst)) for point, worst in tally.accuracy.items()]
    together = {op: [(f"{b:x}", f"{o:x}") for b, o in each.beside.items()] for op, each in tally.together.items()}
    return tally.cases, tally.laws, lines, visits, accuracy, together


def tally_from(head: Json) -> Tally:
    """The inverse of `tally_to`."""
    cases, laws, lines, visits, accuracy, together = head
    targets: dict[str, TargetTally] = {}
    for name, kernel, judged, findings, gave_up, not_run, worst, twins, reason, undecided in lines:
        passes = {dtype: WorstPass(*each) for dtype, each in worst.items()}
        targets[name] = TargetTally(
            name, kernel, judged, findings, gave_up, not_run, passes, Counter(twins), reason, undecided=undecided
        )
    seen = {op: Counter({(kind, value): count for kind, value, count in labels}) for op, labels in visits.items()}
    points: Mapping[Point, WorstRun] | None = None
    if accuracy is not None:
        points = {Point(*point): WorstRun(*worst) for point, worst in accuracy}
    held = {op: Together({int(bit, 16): int(others, 16) for bit, others in each}) for op, each in together.items()}
    return Tally(targets, cases, Counter(laws), seen, None if points is None else dict(points), held)


def task_to(task: Task) -> Json:
    """A turn to take."""
    turn = task.turn if isinstance(task.turn, int) else (task.turn.shard, task.turn.number)
    fields = {field.name: getattr(task, field.name) for field in fields_of(task)}
    return {**fields, "turn": turn, "state": task.state.hex(), "resting": list(task.resting)}


def task_from(head: Json) -> Task:
    """The inverse of `task_to`."""
    turn = head["turn"] if isinstance(head["turn"], int) else Turn(*head["turn"])
    return Task(**{**head, "turn": turn, "state": bytes.fromhex(head["state"]), "resting": tuple(head["resting"])})


def report_to(report: Report, capabilities: Sequence[Capability], tail: Tail) -> Json:
    """What came of a turn; `capabilities` are those of its search."""
    return {
        "task": task_to(report.task),
        "tally": tally_to(report.tally),
        "state": report.state.hex(),
        "sightings": sightings_to(report.sightings, tail),
        "lessons": lessons_to(report.lessons, capabilities),
        "errors": [(words, case_to(case, tail)) for words, case in report.errors],
        "records": report.records,
    }


def report_from(head: Json, tail: Tail) -> Report:
    """The inverse of `report_to`, but for the lessons: they are only handed on."""
    return Report(
        task_from(head["task"]), tally_from(head["tally"]), bytes.fromhex(head["state"]),
        sightings_from(head["sightings"], tail), head["lessons"],
        [(words, case_from(case, tail)) for words, case in head["errors"]], head["records"],
    )  # fmt: skip
