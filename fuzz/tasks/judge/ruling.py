"""The ruling on solutions: one record, which is printed as a JSON object with a published schema."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import msgspec
from rich.console import Console

from fuzz.campaign.measured import Measuring
from fuzz.contracts.accepts import Accepts
from fuzz.contracts.measuring import Measured
from fuzz.core.base.exits import Exit
from fuzz.core.base.probe import MODE
from fuzz.findings.axes import OTHER_MODE, told
from fuzz.findings.book import FindingBook
from fuzz.findings.codec import encoded
from fuzz.findings.tally import Largest, Tally
from fuzz.references.examples import Beyond
from fuzz.report.totals import remarks
from fuzz.report.use_outcome import outcome_of
from fuzz.tasks.judge.asked import Asked

VERSION = 10
Said = Literal["right", "wrong", "undecided", "did not run"]
_ENOUGH = 4
"""The cases that were judged in time are enough for a verdict if they are at least one in this many of those asked
for."""
_RANK: tuple[Said, ...] = ("right", "undecided", "did not run", "wrong")
_SAID: Mapping[Exit, Said] = {Exit.OK: "right", Exit.FINDINGS: "wrong", Exit.NOTHING_RAN: "did not run"}
"""The verdict on a solution by its exit code. Any other code means undecided: nothing fails, but not all was judged."""
EXIT_OF: Mapping[Said, Exit] = {
    **{said: code for code, said in _SAID.items()}, "undecided": Exit.ORACLE_GAVE_UP,
}  # fmt: skip
"""The exit code of a verdict."""
EXITS: Mapping[Exit, str] = {
    Exit.OK: "right: every run that was judged is within what rounding explains",
    Exit.FINDINGS: "wrong, at least one solution",
    Exit.INTERRUPTED: "interrupted, and nothing wrong was found until then: undecided",
    Exit.INTERNAL: "an internal error, which a line tells; the ruling says what was judged",
    Exit.USAGE: "the reference or a solution cannot be read, and there is no ruling: one line says why",
    Exit.NOTHING_RAN: "it did not run; a line says why",
    Exit.ORACLE_GAVE_UP: "undecided: the oracle gave up on a case, most runs have no verdict, or no wrong value of "
    "some output could have been seen",
}
"""The meaning of each exit code of a judge."""


@dataclass(frozen=True)
class BugLine:
    """A line of a solution's source."""

    file: str
    line: int
    """The number of the line, from 1."""
    text: str


@dataclass(frozen=True)
class FoundBug:
    """A bug in a solution, in the form that a program can act on."""

    headline: str
    """The first words of the failure, as the text prints them."""
    verdict: str
    target: str
    runs: int
    """The number of runs that failed in this way."""
    outcome: str
    """What the solution returned in the smallest case, and what it must return; or the error that it raised."""
    cause: str = ""
    """The kind of what the solution does wrong, if an experiment showed it: a `kind` of a mechanism, "contract",
    "declaration", "unset", "unsteady", or "state" if the case passes alone in a new process; by a replay "ignores",
    "slip", "turned", "elements", "mended", "rule", or "again" if the case passes in another call; else ''."""
    about: tuple[str, ...] = ()
    """The dimensions, tensors and parameters that the mechanism and the rule name."""
    when: tuple[str, ...] = ()
    """The conditions under which it fails, in words; several rules are one after the other."""
    only_when: tuple[str, ...] = ()
    """Without a rule, conditions that all failing cases meet, in words: all tried cases that miss one of them pass."""
    passes_at: Mapping[str, tuple[int | float | str, ...]] = field(default_factory=dict)
    """By what was changed in the smallest case, such as an extent or "values", the changes with which it passes."""
    inputs: str = ""
    """An expression of Python that makes a dict of the inputs and parameters of a failing case. It needs `np`, `zlib`,
    `base64` and `fuzz`. Short values are those of the smallest case; long ones are made from a recipe and a seed. '' if
    neither takes a few lines."""
    line: BugLine | None = None
    """The line of the solution that raised the error, launched the program that did, or made the assertion."""
    failure: int | None = None
    """The place in `failures` of everything else that is known. None for a bug that no rule separates from another, and
    for one that shows at the shapes of the task alone."""


@dataclass(frozen=True)
class Exam:
    """What a solution passes of cases that it has no influence on."""

    cases: int
    """The number of cases, and of calls in other ways that are judged like a case."""
    refuses: bool
    """Whether it refuses inputs that the reference takes: then its score is below 1, even if it is right otherwise."""
    values: int
    """The number of values that the cases have on all axes together."""
    failed: Mapping[str, tuple[str, ...]]
    """By axis, the values of the cases that did not pass, were refused or did not run. All cases with each of the other
    values passed."""

    @property
    def share(self) -> float:
        """The share of the values whose cases all passed."""
        return 1.0 - sum(map(len, self.failed.values())) / self.values if self.values else 0.0


NOT_SAT = Exam(0, refuses=False, values=0, failed={})
"""The exam of a solution for which there was no time."""


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
    bugs: tuple[FoundBug, ...] = ()
    """The same failure in the form that a program can act on."""


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
    bugs: tuple[FoundBug, ...] = ()
    """The same failure in the form that a program can act on."""


@dataclass(frozen=True)
class SolutionRuling:
    """The ruling on one solution."""

    solution: str
    """The file that the solution came from."""
    verdict: Said
    judged: int
    """The number of runs that were judged; `failing` is the number of them that failed."""
    failing: int
    largest_error: Mapping[str, float | None]
    """The largest error of all runs whose values were compared, as a share of the allowed error, by dtype: above 1 if a
    value is wrong, and None if it is infinite or no number."""
    failures: tuple[dict[str, Any], ...]
    """Each bug as described by `explanation.schema.json`. By a replay, only the smallest failing case: its shapes,
    recipes and dtype, the worst element, its value, the expected value, the allowed error, and the cause in words."""
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
    headline: str = ""
    """The line of the text that says the verdict."""
    score: float = 0.0
    """1 for a solution that is right and refuses nothing; else half of the share of the exam that it passes."""
    exam: Exam | None = None
    """The exam that the score is of; None if the solution passed all cases that were searched, and refuses none."""
    first_failure: int | None = None
    """The number of runs that were judged until one failed, itself included; None if none failed."""
    bugs: tuple[FoundBug, ...] = ()
    """An object for each bug, also for one that shows at the shapes of the task alone."""


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
    exit_code: int
    """The exit code of the command: 0, 1, 2, 3, 5 or 11, whose meanings the schema has as `exit_codes`."""
    seconds: Mapping[str, float]
    """The seconds that each phase took: to `read` the reference; to build and start solutions, and `try` what they
    take; the `search`, which draws, runs and judges cases; the `exam`; to `explain` failures; and each `replay`."""

    def text(self) -> str:
        """Return the ruling as a JSON object."""
        return json.dumps(msgspec.to_builtins(self), indent=1)


@dataclass(frozen=True)
class Judged:
    """A ruling, and its text for people."""

    ruling: Ruling
    text: str


@dataclass(frozen=True)
class Phases:
    """The seconds that the phases of judging took so far."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def timed(self, phase: str) -> Iterator[None]:
        """Add the time of this context to a phase."""
        began = time.monotonic()
        try:
            yield
        finally:
            self.seconds[phase] = round(self.seconds.get(phase, 0.0) + time.monotonic() - began, 3)


@dataclass(frozen=True)
class JudgeView:
    """The place where a judge shows its progress, and the format of its text."""

    screen: Console
    width: int
    verbose: bool
    phases: Phases = field(default_factory=Phases)
    unread: Mapping[str, str] = field(default_factory=dict)
    """Why solutions cannot be read or called, by the words that name them, if others can be."""


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
    spent_s: float = 0.0
    """The processor seconds that a replay took."""

    def is_enough(self, asked: Asked, *, own: bool) -> bool:
        """Whether the cases are enough for a verdict: a quarter of those asked for, or of the time that a replay may
        take; at a task's `own` shapes one."""
        if own or (self.guarantee and self.spent_s * _ENOUGH >= asked.replay_s):
            return any(each.judged for each in self.rulings.values())
        return self.cases * _ENOUGH >= (asked.replays if self.guarantee else asked.cases)


def of_kernel(tally: Tally, kernel: str) -> Tally:
    """Return the tally of one kernel's targets."""
    return Tally({name: line for name, line in tally.targets.items() if line.kernel == kernel})


def largest_errors(tally: Tally) -> Mapping[str, float | None]:
    """Return the largest error of all runs, as a share of the allowed error, by dtype."""
    found = dict[str, float]()
    for line in tally.targets.values():
        for dtype, ratio in [*((name, each.ratio) for name, each in line.worst.items()), *line.failed.items()]:
            found[dtype] = max(ratio, found.get(dtype, 0.0))
    return {dtype: ratio if math.isfinite(ratio) else None for dtype, ratio in found.items()}


def first_failure(tally: Tally) -> int | None:
    """Return the number of judged runs up to the first failing one, the least of all targets; None if none fails."""
    return min((line.first for line in tally.targets.values() if line.first), default=None)


def solution_ruling(
    solution: str, kernel: str, tally: Tally, book: FindingBook, measuring: Measuring | None,
    accepting: Mapping[str, Accepts], *, untried: str = "", refuses: str = "", interrupted: bool = False,
    beyond: Beyond | None = None, bugs: Sequence[FoundBug] = (), exam: Exam | None = None,
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
        exam=exam, first_failure=first_failure(own), bugs=tuple(bugs),
    )  # fmt: skip


def axes_of(tally: Tally) -> Mapping[str, Mapping[str, int]]:
    """Return which values judged runs had of each axis; nothing where no run was judged."""
    return told(line.axes for line in tally.targets.values()) if tally.judged else {}


def scored(each: SolutionRuling) -> SolutionRuling:
    """Return the ruling with its score. Without an exam, the solution has passed everything, if anything was judged."""
    # Else a solution would score more the slower it is, as less of it is judged in the time.
    is_cut = each.verdict == "right" and each.reason != ""
    share = 0.0 if is_cut else each.exam.share if each.exam is not None else float(each.judged > 0)
    is_whole = each.verdict == "right" and not is_cut and not (each.exam is not None and each.exam.refuses)
    return replace(each, score=1.0 if is_whole else share / 2)


def in_modes(each: SolutionRuling, mode: str, other: str) -> SolutionRuling:
    """Return the ruling with the modes of a module in which runs were judged."""
    probed = each.axes.get(MODE, {}).get(OTHER_MODE, 0)
    modes = {
        mode: each.judged - probed, other: each.other_mode.judged if each.other_mode is not None else 0,
        OTHER_MODE: probed,
    }  # fmt: skip
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


def schema() -> dict[str, Any]:
    """Return the JSON schema of a ruling."""
    said = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"kernelfuzz ruling {VERSION}",
        "exit_codes": {str(int(code)): meaning for code, meaning in EXITS.items()},
        **msgspec.json.schema(Ruling),
    }
    found: dict[str, Any] = json.loads(json.dumps(said))  # a default may be a tuple
    return found


if __name__ == "__main__":
    print(json.dumps(schema(), indent=1))
