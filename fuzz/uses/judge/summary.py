"""What people read at the end of a judgement."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from fuzz.adapters.target import Target
from fuzz.findings.tally import Tally
from fuzz.report.totals import and_more, by_reason, largest_text, never_text, partly_run_lines
from fuzz.uses.judge.ruling import FullSize, Ruling, SolutionRuling
from fuzz.uses.search.groups import slow_targets_of
from oracles.ops import OPS

_BY = " by replay"


def summary(ruling: Ruling, elapsed: float) -> str:
    """Return a line for each solution, and what was not seen."""
    lines, by = list[str](), _BY if ruling.oracle == "replay" else ""
    for each in ruling.solutions:
        lines.append(f"{each.verdict:<12} {each.solution}  {_why(each, by)}")
        lines += [f"  {measured.text}" for measured in each.measured]
        lines += [f"  {beside.text}" for beside in each.accepts if beside.text]
        lines += [f"  {each.right_as}"] if each.right_as else []
        lines += [*_beyond(each), *_in_modes(each, ruling), *_at_own_shapes(each), *_one_seed(each)]
        lines += _at_full_size(each.full_size)
    floors = ", or ".join(f"{share:.1e} in {dtype}" for dtype, share in ruling.detection_floor.items())
    said = f"half of all outputs that are off by this share of their value are noticed: {floors}"
    floor = said if floors else "not known, as no output of an ordinary case is judged"
    lines += [f"detection floor: {floor}"] if ruling.cases else []
    ran = f"{largest_text(ruling.largest)}; " if ruling.largest else ""
    lines += [f"{ran}{never_text(ruling.never_ran, larger=bool(ran))}"] if ran or ruling.never_ran else []
    lines += [*ruling.not_exercised, *([ruling.guarantee] if ruling.guarantee else [])]
    return "\n".join([*lines, f"{ruling.cases} cases in {elapsed:.1f} s, seed {ruling.seed}, pack {ruling.pack}"])


def _why(each: SolutionRuling, by: str) -> str:
    if each.verdict == "wrong":
        return f"{each.failing} of {each.judged} runs{by} fail" if each.failing else each.reason
    if each.verdict != "right":
        return each.reason
    errors = ", ".join(f"{ratio:.0%} in {dtype}" for dtype, ratio in each.largest_error.items())
    return f"{each.judged} runs{by}{f', largest error {errors} of what is allowed' if errors else ''}"


def _in_modes(each: SolutionRuling, ruling: Ruling) -> list[str]:
    """What is said of a solution in both modes."""
    other = each.other_mode
    if other is None:
        return []
    said = f"{other.verdict} {ruling.other_mode}: {_why(other, _BY)}"
    lines = [f"  {each.verdict} {ruling.mode}; {said}"]
    return [*lines, *(f"    {line.strip()}" for some in other.failures for line in some["said"].splitlines())]


def _beyond(each: SolutionRuling) -> list[str]:
    """What a solution does with inputs that those of the task never are."""
    if each.beyond is None or not each.beyond.text:
        return []
    how = "  to have what is wrong beyond counted: --any-values"
    return [f"  {each.beyond.text}", *([how] if each.verdict == "right" else [])]


def _at_own_shapes(each: SolutionRuling) -> list[str]:
    """What is said of a solution at the shapes that come with its task."""
    own = each.own_shapes
    if own is None:
        return []
    if own.verdict not in ("right", "wrong"):
        if each.full_size is not None and each.full_size.judged:  # whose line says more
            return []
        return [f"  not judged at the task's own shapes: {own.reason}"]
    count = f"{own.failing or own.judged} of {own.judged} runs, by replay"
    but = f", but for {own.changed}" if own.changed else ""
    lines = [f"  {own.verdict} at the task's own shapes ({shapes_text(own.shapes)}{but}): {count}"]
    if own.verdict == "wrong":
        return [*lines, *(f"    {line.strip()}" for some in own.failures for line in some["said"].splitlines())]
    if each.failing:
        lines += ["  the shapes that it fails at are the judge's; they count, as the reference takes them, too"]
    return [
        *lines,
        *([] if each.verdict == "right" else ["  to judge it at the task's own shapes alone: --own-shapes"]),
    ]


def _one_seed(each: SolutionRuling) -> list[str]:
    if each.one_seed is None or each.one_seed.verdict != "right":
        return []
    # One that folds its weights when it is constructed computes the same then.
    told = "right where both are constructed from one seed and nothing is trained or loaded, as KernelBench does"
    return [f"  {told}; wrong with other weights"]


def _at_full_size(full: FullSize | None) -> list[str]:
    if full is None:
        return []
    if full.verdict not in ("right", "wrong"):
        return [f"  not judged at full size: {full.reason}"]
    count = f"{full.judged:,} of {full.elements:,} elements judged, by replay"
    lines = [f"  {full.verdict} at the task's own shapes ({shapes_text(full.shapes)}): {count}"]
    return [*lines, *(f"    {line.strip()}" for line in full.failure.splitlines())]


def shapes_text(shapes: Mapping[str, Sequence[int]]) -> str:
    """Return the shapes of inputs in words."""
    return ", ".join(f"{name} {'x'.join(map(str, shape)) or 'scalar'}" for name, shape in shapes.items())


def failures_told(kernel: str, failures: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the smallest case that a replay found wrong, as people read it."""
    smallest = sorted(failures, key=lambda each: sum(map(math.prod, each["shapes"].values())))[:1]
    return [f"FAIL  {kernel}  {each['said']}\n  {each['case']}, by replay" for each in smallest]


def not_given(tally: Tally, targets: Sequence[Target]) -> list[str]:
    """Why targets that judged some cases did not judge all: runs without a verdict, and cases that are too large for
    slow targets. How many these are is known where a target alone was to be given every case that was drawn."""
    reasons, late = dict[str, str](), slow_targets_of(targets)
    for target in targets:
        line = tally.targets.get(target.id)
        if target.size_limit is None or line is None or not line.judged:
            continue
        missed = tally.cases - line.judged - line.not_run
        count = f" {missed:,} of {tally.cases:,} cases:" if len(targets) == 1 else ""
        waited = ", and those for which quick targets did not wait for it" if target.id in late else ""
        larger = target.size_limit.beyond(OPS[target.kernel.op])
        if missed > 0:
            reasons[target.id] = f"slow:{count} {larger}{waited}"
    alike = by_reason(reasons).items()
    given = [f"not given to {and_more(ids)}, which {'are' if len(ids) > 1 else 'is'} {why}" for why, ids in alike]
    return [*partly_run_lines(tally.targets.values()), *given]
