"""The ruling on solutions: one record, which is printed as a JSON object with a published schema."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
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
from fuzz.findings.axes import MODE, text_of, told
from fuzz.findings.book import FindingBook
from fuzz.findings.codec import encoded
from fuzz.findings.tally import OTHER, Largest, Tally
from fuzz.references.examples import Beyond
from fuzz.report.totals import and_more, by_reason, largest_text, never_text, partly_run_lines, remarks
from fuzz.report.use_outcome import outcome_of
from fuzz.tasks.judge.asked import Asked
from oracles.ops import OPS

VERSION = 7
Said = Literal["right", "wrong", "undecided", "did not run"]
_ENOUGH = 4
"""If one in so many of the cases that were asked for was judged in the time, that is enough for a verdict."""
_RANK: tuple[Said, ...] = ("right", "undecided", "did not run", "wrong")


@dataclass(frozen=True)
class OwnShapes:
    """The result of a replay for a solution, at the shapes that come with its task."""

    shapes: Mapping[str, tuple[int, ...]]
    """The shapes of the inputs; empty if they were not tried."""
    changed: str
    """The extents that were made smaller than in the task to save time, such as "batch_size = 8"; else ''."""
    verdict: Said
    judged: int
    failing: int
    failures: tuple[dict[str, Any], ...]
    """The smallest failing case, in the form of a replay; none if nothing fails."""
    reason: str
    """Why the shapes were not tried, or why the verdict is undecided; else ''."""


@dataclass(frozen=True)
class FullSize:
    """What is said of a solution at the shapes of its task if these are too large for a whole replay. The solution ran
    once, and some rows of its outputs were compared."""

    shapes: Mapping[str, tuple[int, ...]]
    """The shapes of the inputs; empty if they were not tried."""
    verdict: Said
    judged: int
    """The number of elements that were judged, out of the `elements` of all outputs."""
    elements: int
    failure: str
    """The failure in words; '' if there is none."""
    reason: str
    """Why the full size was not tried, or why the verdict is undecided; else ''."""


@dataclass(frozen=True)
class SolutionRuling:
    """The ruling on one solution."""

    solution: str
    """The file that the solution came from."""
    verdict: Said
    judged: int
    """The number of runs that were judged; `failing` is the number of them that failed."""
    failing: int
    largest_error: Mapping[str, float]
    """The largest error of a run that passed, as a share of the allowed error, by dtype."""
    failures: tuple[dict[str, Any], ...]
    """Each bug as described by `explanation.schema.json`. By a replay, only the smallest failing case: its shapes,
    recipes and dtype, the worst element, its value, the expected value, and the allowed error."""
    reason: str
    """Why the solution did not run, why the verdict is undecided, or what a right one was not judged by; else ''."""
    measured: tuple[Measured, ...] = ()
    """What was measured of the solution, on each of its targets."""
    accepts: tuple[Accepts, ...] = ()
    """What each of the solution's targets does with strides, dtypes, ranks and extents that it does not declare. This
    does not change the verdict."""
    right_as: str = ""
    """What a wrong solution would be right as, such as "right as TF32; wrong as f32"; else ''."""
    own_shapes: OwnShapes | None = None
    """The ruling at the shapes that come with the task; all other cases have shapes that the judge chose. None if no
    shapes come with the task, or if only these were asked for."""
    full_size: FullSize | None = None
    """The ruling at the task's full shapes, if `own_shapes` has smaller ones. None if the solution is wrong already."""
    other_mode: SolutionRuling | None = None
    """The result of a replay for the solution in the module's other mode (training or evaluation). None if the
    reference returns the same there. This does not change the verdict."""
    one_seed: OwnShapes | None = None
    """Only for a solution that is wrong at the task's own shapes: the ruling there if both modules are constructed from
    one seed and the solution is given no weights, as in KernelBench. This does not change the verdict."""
    kept_mode: OwnShapes | None = None
    """Only for a solution that is wrong at the task's own shapes and if it or the reference calls `eval()` or
    `train()`: the ruling there if the solution is kept in the reference's mode. This does not change the verdict."""
    beyond: Beyond | None = None
    """What the solution does with inputs that lack a property, such as being triangular, that all inputs of the task
    have; or with inputs that have it, if it is wrong with those. None if nothing was seen of either."""
    alike: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """By target, for each further configuration: how many runs that passed had the same bits as in the first one, and
    how many others. That accuses nobody: another order of sums gives other bits within the bound."""
    axes: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Which values the judged runs had of each thing that it could depend on, and how many runs had them; an axis
    without values was not varied. None at all where no run was judged."""


@dataclass(frozen=True)
class Ruling:
    """The ruling on all solutions of a problem."""

    schema: int
    verdict: Said
    """The verdict on the worst solution: "wrong" before "did not run", "undecided" and "right"."""
    problem: str
    reference: str
    """The text about the reference: how it was read, how that was checked, what is not judged; or why it cannot be
    read."""
    oracle: Literal["formula", "replay"]
    """The judge of the solutions: the formula that was read, or the reference itself, run in float64."""
    guarantee: str
    """The errors that a replay, which is weaker than a formula, does not see; '' for a formula."""
    seed: int
    cases: int
    pack: str
    """The folder with the op and the kernels that were judged."""
    probes: Mapping[str, int]
    """The number of calls in other ways, which a correct kernel cannot tell from the usual way, by probe."""
    detection_floor: Mapping[str, float]
    """The smallest relative error of an output that is seen in half of the elements of ordinary cases, by dtype."""
    largest: Mapping[str, Largest]
    """The size of the largest cases that a formula judged, by the dtype of the first input."""
    never_ran: tuple[str, ...]
    """The ways of calling in which nothing ran."""
    not_exercised: tuple[str, ...]
    solutions: tuple[SolutionRuling, ...]
    mode: str
    """The mode in which a module was judged, such as "in training mode, as constructed"; '' for a function."""
    other_mode: str
    """The mode, training or evaluation, that was tried besides `mode`; '' if the reference is the same there."""

    def text(self) -> str:
        """Return the ruling as a JSON object."""
        return json.dumps(msgspec.to_builtins(self), indent=1)


@dataclass(frozen=True)
class Judged:
    """A ruling, its text for people, and the exit code."""

    ruling: Ruling
    text: str
    code: Exit | None = None
    """The exit code, if it differs from the verdict's: the judge was interrupted, or ended by an internal error."""


@dataclass(frozen=True)
class JudgeView:
    """The place where a judge shows its progress, and the format of its text."""

    screen: Console
    width: int
    verbose: bool


@dataclass(frozen=True)
class JudgeResults:
    """The results of judging, by a formula or by a replay."""

    said: str
    """The text about how the reference was read, or why it is replayed."""
    cases: int
    folder: str
    rulings: Mapping[str, SolutionRuling]
    """The ruling on each solution, by its kernel."""
    probes: Mapping[str, int]
    floors: Mapping[str, float]
    unseen: Sequence[str]
    """The text about what was not exercised."""
    seconds: float
    missed: Sequence[str] = ()
    """The checks for which there was no time."""
    guarantee: str = ""
    """The errors that a replay does not see; '' if a formula judges."""
    largest: Mapping[str, Largest] = field(default_factory=dict)
    never: Sequence[str] = ()
    """The ways of calling in which nothing ran."""
    told: Sequence[str] = ()
    """The text for people about what fails."""
    code: Exit | None = None
    """The exit code, if it differs from the verdict's."""
    untried: Collection[str] = ()
    """The kernels that refuse the shapes of all cases."""

    def is_enough(self, asked: Asked, *, own: bool) -> bool:
        """Whether the cases are enough for a verdict: a quarter of those asked for, or one at a task's `own` shapes."""
        if own:
            return any(each.judged for each in self.rulings.values())
        return self.cases * _ENOUGH >= (asked.replays if self.guarantee else asked.cases)


def of_kernel(tally: Tally, kernel: str) -> Tally:
    """Return the tally of one kernel's targets."""
    return Tally({name: line for name, line in tally.targets.items() if line.kernel == kernel})


def largest_errors(tally: Tally) -> Mapping[str, float]:
    """Return the largest error of a run that passed, as a share of the allowed error, by dtype."""
    found = dict[str, float]()
    for dtype, worst in (each for line in tally.targets.values() for each in line.worst.items()):
        found[dtype] = max(worst.ratio, found.get(dtype, 0.0))
    return found


def solution_ruling(
    solution: str, kernel: str, tally: Tally, book: FindingBook, measuring: Measuring | None,
    accepting: Mapping[str, Accepts], *, untried: str = "", refuses: str = "", interrupted: bool = False,
    beyond: Beyond | None = None,
) -> SolutionRuling:  # fmt: skip
    """Return the ruling on the solution that a kernel was made of. It is undecided if the solution was `untried`, and
    wrong if it `refuses` inputs that come with the problem; both texts say why."""
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
        alike={name: dict(line.alike) for name, line in own.targets.items() if line.alike}, axes=axes_of(own),
    )  # fmt: skip


def axes_of(tally: Tally) -> Mapping[str, Mapping[str, int]]:
    """Return which values judged runs had of each axis; nothing where no run was judged."""
    return told(line.axes for line in tally.targets.values()) if tally.judged else {}


def in_modes(each: SolutionRuling, mode: str, other: str) -> SolutionRuling:
    """Return the ruling with the modes of a module in which runs were judged."""
    modes = {mode: each.judged, other: each.other_mode.judged if each.other_mode is not None else 0}
    ran = {name: count for name, count in modes.items() if name and count}
    return replace(each, axes={**each.axes, MODE: ran}) if each.axes and ran else each


def in_time(
    asked: Asked, rulings: Sequence[SolutionRuling], missed: Sequence[str], *, enough: bool
) -> tuple[SolutionRuling, ...]:
    """Return the rulings. If there was no time for everything, a solution that is not wrong so far is undecided, unless
    `enough` was judged, or it is right at the shapes that come with the task; the reason says what was not judged."""
    if asked.max_time is None or not missed:
        return tuple(rulings)
    [reason] = not_in_time(asked, missed)

    def judged(each: SolutionRuling) -> SolutionRuling:
        if each.verdict in ("wrong", "undecided"):
            return replace(each, reason=each.reason or reason) if each.verdict == "undecided" else each
        if enough and each.verdict == "right":
            return replace(each, reason=each.reason or reason)
        if any(own is not None and own.verdict == "right" for own in (each.own_shapes, each.full_size)):
            return by_own(each, reason)
        return replace(each, verdict="undecided", reason=reason)

    return tuple(map(judged, rulings))


def by_own(ruling: SolutionRuling, reason: str) -> SolutionRuling:
    """Return the ruling as right because of the task's own shapes; the reason says what else was not judged."""
    alone = "" if ruling.judged else "right at the task's own shapes alone: "
    return replace(ruling, verdict="right", reason=f"{alone}{reason}")


def not_in_time(asked: Asked, missed: Sequence[str]) -> list[str]:
    """Return a line that says what there was no time for; none if there was time for everything."""
    late = asked.max_time is not None and missed
    return [f"not judged, as --max-time {asked.max_time:g}s was over: {', '.join(missed)}"] if late else []


def worst_of(verdicts: Iterable[Said]) -> Said:
    """Return the worst of the verdicts; "did not run" if there is none."""
    return max(verdicts, key=_RANK.index, default="did not run")


_SAID: Mapping[Exit, Said] = {Exit.OK: "right", Exit.FINDINGS: "wrong", Exit.NOTHING_RAN: "did not run"}
"""The verdict on a solution by its exit code. Any other code means undecided: nothing fails, but not all was judged."""


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


def summary(ruling: Ruling, elapsed: float, *, verbose: bool = False) -> str:
    """Return a line for each solution, and what was not seen; if it is `verbose`, which values of each axis ran."""
    lines, by = list[str](), _BY if ruling.oracle == "replay" else ""
    for each in ruling.solutions:
        lines.append(f"{each.verdict:<12} {each.solution}  {_why(each, by)}")
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
    lines += [f"detection floor: {floor}"] if ruling.cases else []
    ran = f"{largest_text(ruling.largest)}; " if ruling.largest else ""
    lines += [f"{ran}{never_text(ruling.never_ran, larger=bool(ran))}"] if ran or ruling.never_ran else []
    lines += [*ruling.not_exercised, *([ruling.guarantee] if ruling.guarantee else [])]
    return "\n".join(
        [*lines, f"{counted(ruling.cases, 'case')} in {elapsed:.1f} s, seed {ruling.seed}, pack {ruling.pack}"]
    )


def _why(each: SolutionRuling, by: str) -> str:
    if each.verdict == "wrong" and each.failing:
        return f"{each.failing:,} of {counted(each.judged, 'run')}{by} {'fails' if each.judged == 1 else 'fail'}"
    if each.verdict != "right":
        return each.reason
    errors = ", ".join(f"{ratio:.0%} in {dtype}" for dtype, ratio in each.largest_error.items())
    return f"{counted(each.judged, 'run')}{by}{f', largest error {errors} of what is allowed' if errors else ''}"


def _in_modes(each: SolutionRuling, ruling: Ruling) -> list[str]:
    """Return the lines about a solution in both modes of a module, training and evaluation; [] if one was judged."""
    other = each.other_mode
    if other is None:
        return []
    said = f"{other.verdict} {ruling.other_mode}: {_why(other, _BY)}"
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
