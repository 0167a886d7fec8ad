"""What is asked of a judge, and what is said of solutions: one record, a JSON object with a published schema."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import msgspec
from rich.console import Console

from fuzz.campaign.measured import Measuring
from fuzz.campaign.search.groups import slow_targets_of
from fuzz.contracts.accepts import Accepts
from fuzz.contracts.record import Measured
from fuzz.core.adapters.target import Target
from fuzz.core.base.exits import Exit
from fuzz.core.base.text import counted
from fuzz.findings.book import FindingBook
from fuzz.findings.codec import encoded
from fuzz.findings.tally import Largest, Tally
from fuzz.references.examples import Beyond
from fuzz.report.totals import and_more, by_reason, largest_text, never_text, partly_run_lines, remarks
from fuzz.report.use_outcome import outcome_of
from fuzz.tasks.judge.asked import Asked
from oracles.ops import OPS

VERSION = 6
Said = Literal["right", "wrong", "undecided", "did not run"]
_RANK: tuple[Said, ...] = ("right", "undecided", "did not run", "wrong")


@dataclass(frozen=True)
class OwnShapes:
    """What is said of a solution at the shapes that come with its task, by a replay."""

    shapes: Mapping[str, tuple[int, ...]]
    """Those of the inputs; none where they were not tried."""
    changed: str
    """What is smaller in them than in the task, which would take too long, such as "batch_size = 8"; else ''."""
    verdict: Said
    judged: int
    failing: int
    failures: tuple[dict[str, Any], ...]
    """The case that fails, as of a replay."""
    reason: str
    """Why they were not tried, or are undecided; else ''."""


@dataclass(frozen=True)
class FullSize:
    """What is said of a solution at the shapes of its task where these are too large for a whole replay: it ran once,
    and some of its rows were compared."""

    shapes: Mapping[str, tuple[int, ...]]
    """Those of the inputs; none where it was not tried."""
    verdict: Said
    judged: int
    """The elements that were judged, among the `elements` of all outputs."""
    elements: int
    failure: str
    """What is wrong; else ''."""
    reason: str
    """Why it was not tried, or is undecided; else ''."""


@dataclass(frozen=True)
class SolutionRuling:
    """What is said of one solution."""

    solution: str
    """The file that it came from."""
    verdict: Said
    judged: int
    """The runs that were judged, and `failing` those of them that failed."""
    failing: int
    largest_error: Mapping[str, float]
    """The largest error of a run that passed, as a share of what is allowed, by dtype."""
    failures: tuple[dict[str, Any], ...]
    """What is known of each bug, as `explanation.schema.json` has it; by a replay, the smallest case that fails: its
    shapes, recipes and dtype, the worst element, what it is and must be, and how far it may be off."""
    reason: str
    """Why it did not run, or is undecided; else ''."""
    measured: tuple[Measured, ...] = ()
    """What was measured of it, on each of its targets."""
    accepts: tuple[Accepts, ...] = ()
    """What each of its targets does with strides, dtypes, ranks and extents that it does not declare: that is told, and
    held against nobody."""
    right_as: str = ""
    """What a wrong one is right as, such as "right as TF32; wrong as f32"; '' where it is nothing of that kind."""
    own_shapes: OwnShapes | None = None
    """What is said of it at the shapes that come with the task: those of all other cases are the judge's. None where
    none come with it, or where these alone were asked for."""
    full_size: FullSize | None = None
    """What is said of it at those shapes as they are, where they were made smaller; None if it is wrong
    already."""
    other_mode: SolutionRuling | None = None
    """What a replay says of it in the other mode of a module, such as `eval()`; None where the reference returns the
    same there. It does not change the verdict."""
    one_seed: OwnShapes | None = None
    """What is said at the shapes that come with the task if both modules are constructed from one seed and the solution
    is given no weights, as KernelBench does; only of one that is wrong there else. It does not change the verdict."""
    kept_mode: OwnShapes | None = None
    """What is said at those shapes if the solution is kept in the mode of the reference, whatever calls of `eval()` and
    `train()` it makes; only of one that is wrong there else, where one of the two makes such calls. It does not change
    the verdict."""
    beyond: Beyond | None = None
    """What it does with inputs that those of the task never are, where the cases had what these always are; or with
    such as these, where it is wrong. None where nothing was seen of these."""


@dataclass(frozen=True)
class Ruling:
    """What is said of all solutions of a problem."""

    schema: int
    verdict: Said
    """The verdict of the worst of them: "wrong" before "did not run", "undecided" and "right"."""
    problem: str
    reference: str
    """What was read of the reference, how it was checked, and what is not judged; or what of it cannot be read."""
    oracle: Literal["formula", "replay"]
    """What solutions were judged by: the formula that was read, or the reference itself, replayed in float64."""
    guarantee: str
    """What a replay does not see, which is weaker than a formula; '' of a formula."""
    seed: int
    cases: int
    pack: str
    """The folder of the op and the kernels that were judged."""
    probes: Mapping[str, int]
    """How many calls were made in other ways that a right kernel cannot tell from the usual one, by the probe."""
    detection_floor: Mapping[str, float]
    """By dtype, the error of an output, as a share of it, that is seen in half of the elements of ordinary cases."""
    largest: Mapping[str, Largest]
    """How large the cases were that a formula judged, by the dtype of the first input."""
    never_ran: tuple[str, ...]
    """In which ways else nothing ran."""
    not_exercised: tuple[str, ...]
    solutions: tuple[SolutionRuling, ...]
    mode: str
    """The mode in which a module was judged, such as "in training mode, as constructed"; '' of a function."""
    other_mode: str
    """The other one, where the reference returns something else there; else ''."""

    def text(self) -> str:
        """Return it as a JSON object."""
        return json.dumps(msgspec.to_builtins(self), indent=1)


@dataclass(frozen=True)
class Judged:
    """The ruling, and what people read."""

    ruling: Ruling
    text: str
    code: Exit | None = None
    """The exit code, where that is not the verdict's: it was interrupted, or ended by an error of ours."""


@dataclass(frozen=True)
class JudgeView:
    """Where a judge shows how it is going, and how its text is written."""

    screen: Console
    width: int
    verbose: bool


@dataclass(frozen=True)
class JudgeRun:
    """What came of a judge, by a formula or by a replay."""

    said: str
    """What was read of the reference, or why it is replayed."""
    cases: int
    folder: str
    rulings: Mapping[str, SolutionRuling]
    """What is said of each solution, by its kernel."""
    probes: Mapping[str, int]
    floors: Mapping[str, float]
    unseen: Sequence[str]
    """What was not exercised."""
    seconds: float
    missed: Sequence[str] = ()
    """What there was no time for."""
    guarantee: str = ""
    """What a replay does not see; '' by a formula."""
    largest: Mapping[str, Largest] = field(default_factory=dict)
    never: Sequence[str] = ()
    """In which ways nothing ran."""
    told: Sequence[str] = ()
    """What fails, as people read it."""
    code: Exit | None = None
    """The exit code, where that is not the verdict's."""


def of_kernel(tally: Tally, kernel: str) -> Tally:
    """Return what was counted of one kernel's targets."""
    return Tally({name: line for name, line in tally.targets.items() if line.kernel == kernel})


def largest_errors(tally: Tally) -> Mapping[str, float]:
    """Return the largest error of a run that passed, as a share of what is allowed, by dtype."""
    found = dict[str, float]()
    for dtype, worst in (each for line in tally.targets.values() for each in line.worst.items()):
        found[dtype] = max(worst.ratio, found.get(dtype, 0.0))
    return found


def solution_ruling(
    solution: str, kernel: str, tally: Tally, book: FindingBook, measuring: Measuring | None,
    accepting: Mapping[str, Accepts], *, untried: str = "", refuses: str = "", interrupted: bool = False,
    beyond: Beyond | None = None,
) -> SolutionRuling:  # fmt: skip
    """Return what is said of the solution that a kernel was made of. It is undecided where it was not tried, and wrong
    where it refuses what comes with the problem; each says why."""
    own = of_kernel(tally, kernel)
    failures = tuple(encoded(each.told) for each in book.buckets.values() if each.kernel == kernel)
    outcome = outcome_of(own, failing=own.findings > 0, errors=book.errors, interrupted=interrupted)
    said = "undecided" if untried else "wrong" if refuses else _SAID.get(outcome.code, "undecided")
    reason = next(filter(None, (each.broken or each.not_run_reason for each in own.targets.values())), "")
    if untried or refuses:
        reason = untried or refuses
    elif said == "undecided":
        reason = "; ".join(remarks(outcome))
    measured = {} if measuring is None else measuring.records
    records = tuple(measured[name] for name in own.targets if name in measured)
    right_as = {} if measuring is None else measuring.right_as
    right_as_words = next(filter(None, map(right_as.get, own.targets)), "")
    return SolutionRuling(
        solution, said, 0 if untried else own.judged, 0 if untried else own.findings, largest_errors(own), failures,
        "" if said == "right" or (failures and not refuses) else reason, records,
        tuple(accepting[name] for name in own.targets if name in accepting), right_as_words, beyond=beyond,
    )  # fmt: skip


def in_time(asked: Asked, rulings: Sequence[SolutionRuling], missed: Sequence[str]) -> tuple[SolutionRuling, ...]:
    """Return rulings where there was no time to judge all: what is not wrong so far is undecided."""
    if asked.max_time is None or not missed:
        return tuple(rulings)
    [reason] = not_in_time(asked, missed)
    return tuple(
        each if each.verdict == "wrong" else replace(each, verdict="undecided", reason=reason) for each in rulings
    )


def not_in_time(asked: Asked, missed: Sequence[str]) -> list[str]:
    """Return a line that says what there was no time for, if anything."""
    late = asked.max_time is not None and missed
    return [f"not judged, as --max-time {asked.max_time:g}s was over: {', '.join(missed)}"] if late else []


def worst_of(verdicts: Iterable[Said]) -> Said:
    """Return the worst of the verdicts; without any, nothing ran."""
    return max(verdicts, key=_RANK.index, default="did not run")


_SAID: Mapping[Exit, Said] = {Exit.OK: "right", Exit.FINDINGS: "wrong", Exit.NOTHING_RAN: "did not run"}
"""What is said of the outcome of a solution. It is undecided with any other: nothing fails, and not all was judged."""


def schema() -> dict[str, Any]:
    """Return the JSON schema of a ruling."""
    said = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"kernelfuzz ruling {VERSION}",
        **msgspec.json.schema(Ruling),
    }
    found: dict[str, Any] = json.loads(json.dumps(said))  # a default may be a tuple
    return found


if __name__ == "__main__":
    print(json.dumps(schema(), indent=1))


_BY = " by replay"


def summary(ruling: Ruling, elapsed: float) -> str:
    """Return a line for each solution, and what was not seen."""
    lines, by = list[str](), _BY if ruling.oracle == "replay" else ""
    for each in ruling.solutions:
        lines.append(f"{each.verdict:<12} {each.solution}  {_why(each, by)}")
        lines += [f"  {measured.text}" for measured in each.measured]
        lines += [f"  {beside.text}" for beside in each.accepts if beside.text]
        lines += [f"  {each.right_as}"] if each.right_as else []
        lines += [*_beyond(each), *_in_modes(each, ruling), *_at_own_shapes(each), *_causes(each, ruling.mode)]
        lines += _at_full_size(each.full_size)
    floors = ", or ".join(f"{share:.1e} in {dtype}" for dtype, share in ruling.detection_floor.items())
    said = f"half of all outputs that are off by this share of their value are noticed: {floors}"
    floor = said if floors else "not known, as no output of an ordinary case is judged"
    lines += [f"detection floor: {floor}"] if ruling.cases else []
    ran = f"{largest_text(ruling.largest)}; " if ruling.largest else ""
    lines += [f"{ran}{never_text(ruling.never_ran, larger=bool(ran))}"] if ran or ruling.never_ran else []
    lines += [*ruling.not_exercised, *([ruling.guarantee] if ruling.guarantee else [])]
    return "\n".join(
        [*lines, f"{counted(ruling.cases, 'case')} in {elapsed:.1f} s, seed {ruling.seed}, pack {ruling.pack}"]
    )


def _why(each: SolutionRuling, by: str) -> str:
    if each.verdict == "wrong":
        return (
            f"{each.failing:,} of {counted(each.judged, 'run')}{by} {'fails' if each.judged == 1 else 'fail'}"
            if each.failing
            else each.reason
        )
    if each.verdict != "right":
        return each.reason
    errors = ", ".join(f"{ratio:.0%} in {dtype}" for dtype, ratio in each.largest_error.items())
    return f"{counted(each.judged, 'run')}{by}{f', largest error {errors} of what is allowed' if errors else ''}"


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
    count = f"{own.failing or own.judged:,} of {counted(own.judged, 'run')}, by replay"
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


def _causes(each: SolutionRuling, mode: str) -> list[str]:
    """What a wrong solution is right with."""
    # One that folds its weights when it is constructed computes the same then.
    seeded = "right where both are constructed from one seed and nothing is trained or loaded, as KernelBench does; "
    told = {
        f"  {seeded}wrong with other weights": each.one_seed,
        f"  right if it is kept {mode.partition(',')[0]}, as Model is: only its mode is wrong": each.kept_mode,
    }
    return [line for line, by in told.items() if by is not None and by.verdict == "right"]


def _at_full_size(full: FullSize | None) -> list[str]:
    if full is None:
        return []
    if full.verdict not in ("right", "wrong"):
        return [f"  not judged at full size: {full.reason}"]
    count = f"{full.judged:,} of {counted(full.elements, 'element')} judged, by replay"
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
        count = f" {missed:,} of {counted(tally.cases, 'case')}:" if len(targets) == 1 else ""
        waited = ", and those for which quick targets did not wait for it" if target.id in late else ""
        larger = target.size_limit.beyond(OPS[target.kernel.op])
        if missed > 0:
            reasons[target.id] = f"slow:{count} {larger}{waited}"
    alike = by_reason(reasons).items()
    given = [f"not given to {and_more(ids)}, which {'are' if len(ids) > 1 else 'is'} {why}" for why, ids in alike]
    return [*partly_run_lines(tally.targets.values()), *given]
