"""The words of a ruling, for people."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from fuzz.campaign.search.groups import slow_targets_of
from fuzz.core.adapters.target import Target
from fuzz.core.base.text import counted
from fuzz.findings.axes import text_of
from fuzz.findings.tally import OTHER, Tally
from fuzz.references.replay.cases import EXACT
from fuzz.report.totals import and_more, by_reason, largest_text, never_text, partly_run_lines
from fuzz.tasks.judge.ruling import FullSize, Ruling, SolutionRuling
from oracles.ops import OPS

BY_REPLAY = " by replay"


def summary(ruling: Ruling, elapsed: float, *, verbose: bool = False) -> str:
    """Return a line for each solution, and what was not seen; if it is `verbose`, which values of each axis ran."""
    lines, by = list[str](), BY_REPLAY if ruling.oracle == "replay" else ""
    for each in ruling.solutions:
        lines.append(each.headline or headline_of(each, by))
        lines += [f"  {each.reason}"] if each.verdict == "right" and each.reason else []
        lines += [f"  {measured.text}" for measured in each.measured]
        lines += [f"  {beside.text}" for beside in each.accepts if beside.text]
        lines += [f"  {each.right_as}"] if each.right_as else []
        lines += [*_beyond(each), *_in_modes(each, ruling), *_at_own_shapes(each), *causes_told(each, ruling.mode)]
        lines += full_size_told(each.full_size)
        lines += _bits(each)
        lines += [f"  {text_of(name, values)}" for name, values in each.axes.items()] if verbose else []
    floors = ", or ".join(f"{share:.1e} in {dtype}" for dtype, share in ruling.detection_floor.items())
    said = f"half of all outputs that are off by this share of their value are noticed: {floors}"
    floor = said if floors else "not known, as no output of an ordinary case is judged"
    floor = "none: each integer that differs is noticed" if ruling.guarantee == EXACT else floor
    lines += [f"detection floor: {floor}"] if ruling.cases else []
    ran = f"{largest_text(ruling.largest)}; " if ruling.largest else ""
    lines += [f"{ran}{never_text(ruling.never_ran, larger=bool(ran))}"] if ran or ruling.never_ran else []
    lines += [*ruling.not_exercised, *([ruling.guarantee] if ruling.guarantee else [])]
    return "\n".join(
        [*lines, f"{counted(ruling.cases, 'case')} in {elapsed:.1f} s, seed {ruling.seed}, pack {ruling.pack}"]
    )


def headline_of(each: SolutionRuling, by: str) -> str:
    """Return the line that says the verdict on a solution; `by` is BY_REPLAY if a replay judges."""
    return f"{each.verdict:<12} {each.solution}  {_why(each, by)}"


def _why(each: SolutionRuling, by: str) -> str:
    if each.verdict == "wrong" and each.failing:
        return f"{each.failing:,} of {counted(each.judged, 'run')}{by} {'fails' if each.judged == 1 else 'fail'}"
    if each.verdict != "right":
        return each.reason
    known = {dtype: ratio for dtype, ratio in each.largest_error.items() if ratio is not None}
    errors = ", ".join(f"{ratio:.0%} in {dtype}" for dtype, ratio in known.items())
    return f"{counted(each.judged, 'run')}{by}{f', largest error {errors} of what is allowed' if errors else ''}"


def _in_modes(each: SolutionRuling, ruling: Ruling) -> list[str]:
    """Return the lines about a solution in both modes of a module, training and evaluation; [] if one was judged."""
    other = each.other_mode
    if other is None:
        return []
    said = f"{other.verdict} {ruling.other_mode}: {_why(other, BY_REPLAY)}"
    lines = [f"  {each.verdict} {ruling.mode}; {said}"]
    return [*lines, *(f"    {line.strip()}" for some in other.failures for line in some["said"].splitlines())]


def _bits(each: SolutionRuling) -> list[str]:
    """Return which configurations give the bits of the first one, and which others."""
    same = [name for name, counts in each.alike.items() if not counts.get(OTHER)]
    others = [name for name, counts in each.alike.items() if counts.get(OTHER)]
    first = "its first configuration"
    words = {f"the same bits as in {first}": same, f"other bits than in {first}, within what is allowed": others}
    return [f"  {what}: {and_more(names)}" for what, names in words.items() if names]


def _beyond(each: SolutionRuling) -> list[str]:
    """Return the lines about inputs that lack a property which all inputs of the task have."""
    if each.beyond is None or not each.beyond.text:
        return []
    how = "  to have what is wrong beyond counted: --any-values"
    return [f"  {each.beyond.text}", *([how] if each.verdict == "right" else [])]


def _at_own_shapes(each: SolutionRuling) -> list[str]:
    """Return the lines about a solution at the shapes that come with its task."""
    own = each.own_shapes
    if own is None:
        return []
    if own.verdict not in ("right", "wrong"):
        if each.full_size is not None and each.full_size.judged:  # its line says more
            return []
        return [f"  not judged at the task's own shapes: {own.reason}"]
    count = f"{own.failing or own.judged:,} of {counted(own.judged, 'run')}, by replay"
    but = f", but for {own.changed}" if own.changed else ""
    lines = [f"  {own.verdict} at the task's own shapes ({shapes_text(own.shapes)}{but}): {count}"]
    if own.verdict == "wrong":
        return [*lines, *(f"    {line.strip()}" for some in own.failures for line in some["said"].splitlines())]
    if each.failing:
        lines += ["  the shapes that it fails at are the judge's; they count, as the reference takes them, too"]
    alone = "  to judge it at the task's own shapes alone: --own-shapes"
    return [*lines, *([] if each.verdict == "right" else [alone])]


def causes_told(each: SolutionRuling, mode: str) -> list[str]:
    """Return the lines about possible causes: conditions under which a wrong solution is right."""
    # A solution that folds its weights at construction is right only with the weights of its construction.
    seeded = "right where both are constructed from one seed and nothing is trained or loaded, as KernelBench does; "
    told = {
        f"  {seeded}wrong with other weights": each.one_seed,
        f"  right if it is kept {mode.partition(',')[0]}, as Model is: only its mode is wrong": each.kept_mode,
    }
    return [line for line, by in told.items() if by is not None and by.verdict == "right"]


def full_size_told(full: FullSize | None) -> list[str]:
    """Return the lines about a solution at the full size of its task."""
    if full is None:
        return []
    if full.verdict not in ("right", "wrong"):
        return [f"  not judged at full size: {full.reason}"]
    count = f"{full.judged:,} of {counted(full.elements, 'element')} judged, by replay"
    lines = [f"  {full.verdict} at the task's own shapes ({shapes_text(full.shapes)}): {count}"]
    return [*lines, *(f"    {line.strip()}" for line in full.failure.splitlines())]


def shapes_text(shapes: Mapping[str, Sequence[int]]) -> str:
    """Return the shapes of inputs in words, such as "x 4x8, scale scalar"."""
    return ", ".join(f"{name} {'x'.join(map(str, shape)) or 'scalar'}" for name, shape in shapes.items())


def failures_told(kernel: str, failures: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the text of the smallest case that a replay found wrong."""
    smallest = sorted(failures, key=lambda each: sum(map(math.prod, each["shapes"].values())))[:1]
    return [f"FAIL  {kernel}  {each['said']}\n  {each['case']}, by replay" for each in smallest]


def not_given(tally: Tally, targets: Sequence[Target]) -> list[str]:
    """Return the lines on targets that judged only some cases: runs without a verdict, and cases too large for slow
    targets. The number of missed cases is known only for a lone target, which should be given all."""
    reasons, late = dict[str, str](), slow_targets_of(targets)
    for target in targets:
        line = tally.targets.get(target.id)
        if target.size_limit is None or line is None or not line.judged:
            continue
        missed = tally.cases - line.judged - line.not_run
        count = f" {missed:,} of {counted(tally.cases, 'case')}:" if len(targets) == 1 else ""
        waited = ", and those for which quick targets did not wait for it" if target.id in late else ""
        larger = target.size_limit.beyond(OPS[target.kernel.op])
        if missed > 0:
            reasons[target.id] = f"slow:{count} {larger}{waited}"
    alike = by_reason(reasons).items()
    given = [f"not given to {and_more(ids)}, which {'are' if len(ids) > 1 else 'is'} {why}" for why, ids in alike]
    return [*partly_run_lines(tally.targets.values()), *given]
