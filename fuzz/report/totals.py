"""The end of a session: a table with a line for each kernel, with -v for each target too, as wide as the terminal; the
failures, the targets that did not run, and the outcome."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from fuzz.core.adapters.target import Target, TargetId
from fuzz.core.base.exits import Exit
from fuzz.core.base.kernel import Kernel
from fuzz.core.base.text import counted
from fuzz.core.execute.batch import UNFINISHED
from fuzz.core.generate.capabilities import Undeclared, undeclared
from fuzz.findings.book import FindingBook
from fuzz.findings.tally import Largest, Tally, TargetTally, WorstPass, widest_first
from fuzz.report.console import bare_table, print_failure, print_lines, room
from fuzz.report.progress import minutes
from fuzz.report.use_outcome import NO_CASE, UseOutcome

if TYPE_CHECKING:
    from fuzz.report.outline import Outline


_CELLS = 10
"""The cells of a bar, each a tenth: four columns of numbers fit beside it in 80 columns."""
_LEAST_NAME = 8
"""The least columns for a kernel's name: in a terminal of 60 columns these fit beside the numbers."""
_HEAD = ("targets", "runs", "failing", "largest error")
_NOTE = "largest error: of all passing runs, in % of what is allowed; 100% is still right"


@dataclass(frozen=True)
class KernelLine:
    """The counts of one kernel on all its targets."""

    name: str
    ran: int
    """The number of targets on which something was judged."""
    targets: int
    judged: int
    failing: int
    """The number of failing runs."""
    largest: tuple[str, float] | None
    """The widest dtype with a passing run, and the largest err/budget of passing runs in it. In 16 bits, the rounding
    of the result alone is most of the budget, for any kernel."""
    op: str = ""


def kernel_lines(tally: Tally) -> list[KernelLine]:
    """Return a line for each kernel."""
    groups: dict[str, list[TargetTally]] = {}
    for target in tally.targets.values():
        groups.setdefault(target.kernel, []).append(target)
    return [
        KernelLine(
            name, sum(each.judged > 0 for each in group), len(group), sum(each.judged for each in group),
            sum(each.findings for each in group), largest(each.worst for each in group),
        )
        for name, group in groups.items()
    ]  # fmt: skip


def largest(found: Iterable[dict[str, WorstPass]]) -> tuple[str, float] | None:
    """Return the widest dtype with a passing run and the largest err/budget in it; None without a passing run."""
    everywhere = list(found)
    dtypes = widest_first({dtype for each in everywhere for dtype in each})
    if not dtypes:
        return None
    return dtypes[0], max(each[dtypes[0]].ratio for each in everywhere if dtypes[0] in each)


def bar(ratio: float, *, ascii_only: bool = False) -> str:
    """Return a ratio from 0 to 1 as a bar with its percentage, such as '████······  43%'."""
    full, empty = ("#", ".") if ascii_only else ("█", "·")
    cells = min(round(ratio * _CELLS), _CELLS)
    return f"{full * cells}{empty * (_CELLS - cells)} {min(ratio, 1.0):4.0%}"


def print_kernels(out: Console, lines: Sequence[KernelLine], tally: Tally | None = None) -> None:
    """Print a row for each kernel that was judged, the failing ones first. With a tally, also print a row for each of
    its targets, and where the largest errors were."""
    lines = sorted((line for line in lines if line.ran), key=lambda line: line.failing == 0)
    narrow = not out.encoding.lower().startswith("utf")  # then bars are of ASCII
    rows = [(line, _cells(line, narrow=narrow)) for line in lines]
    # If there is no room for both, the name is cut and not the bar.
    widths = (max(map(len, column)) + 2 for column in zip(*(cells for _, cells in rows), _HEAD, strict=True))
    table = bare_table()
    room = max(out.width - sum(widths), _LEAST_NAME)
    table.add_column("kernel", no_wrap=True)
    for name in _HEAD:
        table.add_column(name, justify="left" if name == _HEAD[-1] else "right", no_wrap=True)
    if tally is not None:
        table.add_column("seen at", overflow="fold")
    for line, cells in rows:
        name = line.name if len(line.name) <= room else f"{line.name[: room - 2]}.."
        table.add_row(name, *cells[:-2], failing_cell(line.failing), cells[-1])
        for target in tally.targets.values() if tally is not None else ():
            if target.kernel == line.name:
                _add_target(table, target, narrow=narrow)
    if lines:
        out.print(table)
        out.print(_NOTE, style="dim", soft_wrap=True)


def _cells(line: KernelLine, *, narrow: bool) -> tuple[str, ...]:
    shown = f"{bar(line.largest[1], ascii_only=narrow)} {line.largest[0]}" if line.largest is not None else ""
    return f"{line.ran} of {line.targets}", f"{line.judged:,}", f"{line.failing:,}", shown


def _add_target(table: Table, target: TargetTally, *, narrow: bool) -> None:
    """Add a row for a target, and a row for each of its further dtypes."""
    rows = [
        (f"{bar(target.worst[dtype].ratio, ascii_only=narrow)} {dtype}", target.worst[dtype].where)
        for dtype in widest_first(target.worst)
    ]
    first, *more = rows or [("", "" if target.judged else "NOT_RUN")]
    place = f"  {TargetId.parse(target.target).where}"
    table.add_row(place, "", f"{target.judged:,}", failing_cell(target.findings), *first)
    for row in more:
        table.add_row("", "", "", "", *row)


def failing_cell(failing: int) -> Text:
    """Return the number of failing runs, in red if it is not 0."""
    return Text(f"{failing:,}", style="bold red" if failing else "")


_GROUPS = 3
"""The number of groups of kernels with missing declarations that are named, so that the end of a report stays short."""
_NAMED = 6
"""The number of kernels that the last line names."""
_FEW_LINES = 4
"""The most lines about what was not exercised at the end of a report, unless -v asks for all."""


def largest_text(largest: Mapping[str, Largest]) -> str:
    """Return words about the largest cases: 'extents in f32 up to 8,193 (rows 1,025, elements 16,384)'."""
    found = ((dtype, largest[dtype]) for dtype in widest_first(largest))
    sizes = [f"{dtype} up to {of.extent:,} (rows {of.rows:,}, elements {of.elements:,})" for dtype, of in found]
    return f"extents in {', '.join(sizes)}"


def never_text(ways: Sequence[str], *, larger: bool = True) -> str:
    """Return words about what never ran, such as 'never ran: larger cases, several threads'."""
    return f"never ran: {', '.join([*['larger cases'] * larger, *ways])}"


def session_notes(tally: Tally, *, verbose: bool = False, usual: str = NO_CASE) -> list[str]:
    """Return lines about what the table does not show: targets that did not run, or not always, and runs that the
    oracle could not decide. `usual` is the reason for targets that judged nothing and give no reason."""
    targets = tally.targets.values()
    gave_up = [_gave_up_line(each) for each in targets if each.gave_up]
    told = [each for each in targets if not each.broken]  # a broken kernel is reported as a failure
    late = [each for each in told if each.not_run_reason.startswith(UNFINISHED) and not verbose]
    told = [each for each in told if each not in late]
    idle = {each.target: each.not_run_reason or usual for each in told if each.judged == 0}
    unfinished = [_unfinished_line(late)] if late else []
    return [*gave_up, *not_run_lines(idle), *partly_run_lines(told), *unfinished]


def partly_run_lines(told: Iterable[TargetTally]) -> list[str]:
    """Return lines such as 'NOT_RUN triton-k@interpret: 38 of 87 runs: ...', for targets with runs without verdict."""
    some = {each.target: each for each in told if each.judged and each.not_run}
    partly = {name: each.not_run_reason for name, each in some.items()}
    for reason, names in by_reason(partly).items():
        missed = sum(some[name].not_run for name in names)
        runs = missed + sum(some[name].judged for name in names)
        partly |= dict.fromkeys(names, f"{missed:,} of {counted(runs, 'run')}: {reason}")
    return not_run_lines(partly)


def _unfinished_line(late: Sequence[TargetTally]) -> str:
    """Return one line for all targets about the runs that the end of the search cut off."""
    missed = sum(each.not_run for each in late)
    runs = counted(missed + sum(each.judged for each in late), "run")
    return f"NOT_RUN {and_more([each.target for each in late])}: {missed:,} of {runs}: {late[0].not_run_reason}"


def _gave_up_line(line: TargetTally) -> str:
    place = f": kernelfuzz repro SEED:{line.undecided} --target {line.target} shows the last" if line.undecided else ""
    return f"ORACLE_GAVE_UP {counted(line.gave_up, 'time')} on {line.target}{place}"


def not_run_lines(reasons: Mapping[str, str]) -> list[str]:
    """Return lines such as 'NOT_RUN c-neon@qemu:gcc-O0 and 13 more: gcc is not installed', one for each reason.
    `reasons` are by target."""
    return [f"NOT_RUN {and_more(targets)}: {reason}" for reason, targets in by_reason(reasons).items()]


def by_reason(reasons: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the targets by reason, so that a missing QEMU is not reported two dozen times."""
    groups: dict[str, list[str]] = {}
    for target, reason in reasons.items():
        groups.setdefault(reason, []).append(target)
    return groups


def and_more(names: Sequence[str]) -> str:
    """Return the first name, and how many more there are."""
    return f"{names[0]} and {len(names) - 1} more" if len(names) > 1 else names[0]


UndeclaredByOp = Mapping[str, Mapping[str, Undeclared]]
"""What kernels do not declare, by op and kernel."""


def undeclared_by_op(kernels: Iterable[Kernel]) -> UndeclaredByOp:
    """Return what each of these kernels does not declare, by op and kernel."""
    found: dict[str, dict[str, Undeclared]] = {}
    for kernel in kernels:
        found.setdefault(kernel.op, {})[kernel.name] = undeclared(kernel.capability)
    return found


def kernels_judged(targets: Iterable[Target], tally: Tally) -> list[Kernel]:
    """Return the kernels that were judged, in order."""
    return list(dict.fromkeys(target.kernel for target in targets if tally.targets[target.id].judged))


def not_exercised(by_op: UndeclaredByOp) -> list[str]:
    """Return lines about what no case had: for each op, what none or only some of its kernels declare."""
    lines, groups = list[str](), dict[str, list[str]]()
    for op, kernels in by_op.items():
        first, *others = kernels.values()
        common = {
            field: tuple(v for v in first[field] if all(v in o.get(field, ()) for o in others)) for field in first
        }
        who = f"no kernel of {op} declares" if others else f"{next(iter(kernels))} does not declare"
        lines += [f"not exercised, as {who} it: {words}"] if (words := _undeclared_words(common)) else []
        for name, own in kernels.items():
            more = {field: tuple(v for v in values if v not in common.get(field, ())) for field, values in own.items()}
            if words := _undeclared_words(more):
                groups.setdefault(words, []).append(name)
    # A tensor that nobody declares matters most.
    ordered = sorted(groups.items(), key=lambda group: "(takes)" not in group[0])
    lines += [f"not exercised of {and_more(names)}: {words}" for words, names in ordered[:_GROUPS]]
    rest = sum(len(names) for _, names in ordered[_GROUPS:])
    return [*lines, *([f"and {rest} more kernels declare less than others of their op do"] if rest else [])]


def _undeclared_words(found: Undeclared) -> str:
    return "; ".join(f"{', '.join(values)} ({field})" for field, values in found.items() if values)


def print_session(
    out: Console, outline: Outline, tally: Tally, book: FindingBook, undeclared: UndeclaredByOp, elapsed: float,
    processes: str, *, verbose: bool = False, stopped: bool = False,
) -> None:  # fmt: skip
    """Print the table with its notes, the failures, lines about what was not exercised, and the totals."""
    _print_table(out, tally, outline.notes, verbose=verbose, usual=outline.usual)
    for failure in outline.failures:
        out.print()
        print_failure(out, failure.told(verbose=verbose, width=room(out)))
    out.print()
    if tally.laws and verbose:
        # A law with 0 proves nothing, as no case fitted it.
        print_lines(out, [f"laws compared: {', '.join(f'{law} {count:,}' for law, count in tally.laws.items())}"])
    if outline.outcome.largest and verbose:
        print_lines(out, [f"{largest_text(outline.outcome.largest)}; {never_text(outline.outcome.never)}"])
    _print_unexercised(out, undeclared, verbose=verbose)
    rate = tally.judged / elapsed if elapsed else 0.0
    bugs = [(bucket.kernel, bucket.is_explained) for bucket in book.seen]
    bugs_found = bugs_words(bugs) if tally.findings else ""
    broken = [failure.kernel for failure in outline.failures if failure.broken]
    found = found_words(outline.outcome, bugs_found, broken)
    found = f"{bugs_found}, stopped at the first failure" if stopped else found
    counts = (
        f"{counted(tally.judged, 'judged run')} of {counted(tally.cases, 'case')} in {minutes(elapsed)} ({rate:,.0f}/s)"
    )
    print_lines(out, [f"{found}: {counts}, seed {outline.seed}, {processes}"])


def _print_table(out: Console, tally: Tally, notes: Iterable[str], *, verbose: bool, usual: str) -> None:
    """Print the table and its notes; long notes are broken between words."""
    print_kernels(out, kernel_lines(tally), tally if verbose else None)
    print_lines(out, (*session_notes(tally, verbose=verbose, usual=usual), *notes), "yellow")


def _print_unexercised(out: Console, undeclared: UndeclaredByOp, *, verbose: bool) -> None:
    lines = not_exercised(undeclared)
    if len(lines) > _FEW_LINES and not verbose:
        lines = [f"not exercised: what no kernel of {counted(len(undeclared), 'op')} declares to take; -v says what"]
    print_lines(out, lines)


def bugs_words(found: Sequence[tuple[str, bool]]) -> str:
    """Return words about the number of bugs. Each is given by its kernel and whether it is explained: failures of one
    cause are one bug; without explanations, failures of one kind are."""
    unexplained = sum(not explained for _, explained in found)
    kernels = counted(len({kernel for kernel, _ in found}), "kernel")
    if unexplained == 0:
        return f"{counted(len(found), 'bug')} in {kernels}"
    kinds = f"{counted(len(found), 'kind')} of failure in {kernels}"
    return f"{kinds}, not explained" if unexplained == len(found) else f"{kinds}, {unexplained} not explained"


def found_words(outcome: UseOutcome, bugs: str, broken: Iterable[str] = ()) -> str:
    """Return words about what was found, including `bugs` and `broken` kernels, which never look like a clean run
    unless the use passed."""
    if outcome.code is Exit.NOTHING_RAN:
        return outcome.ending
    if outcome.code is Exit.MOSTLY_NOT_JUDGED:
        return f"{outcome.ending}, {mostly_unjudged(outcome)}"
    found = bugs or ("nothing found" if outcome.judged else "")
    if outcome.code not in (Exit.OK, Exit.FINDINGS):
        found = f"{outcome.ending}, {found or 'nothing ran'}"
    found += f", but no turn for {_some(outcome.late)}" if outcome.late and outcome.judged else ""
    named = ", ".join(dict.fromkeys(broken))
    return ", ".join(filter(None, [found, f"broken: {named}" if named else ""]))


def _some(kernels: Sequence[str]) -> str:
    """Return the first names, and how many more there are."""
    more = len(kernels) - _NAMED
    return ", ".join(kernels[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def mostly_unjudged(outcome: UseOutcome) -> str:
    """Return words about the kernels that had no turn, if these are most, or about the runs without a verdict, with the
    reason of the target that has most of them."""
    judged = sum(outcome.judged.values())
    if outcome.not_run <= judged:
        return f"no turn for {counted(len(outcome.late), 'kernel')} ({_some(outcome.late)})"
    runs = outcome.not_run + judged
    return f"{outcome.not_run:,} of {counted(runs, 'run has', 'runs have')} no verdict ({outcome.why_not_run})"


def remarks(outcome: UseOutcome) -> list[str]:
    """Return a line for everything besides the findings that keeps a use from passing."""
    lines = [*outcome.complaints, *outcome.errors, *outcome.unsaved, *outcome.missing]
    lines += ["interrupted before everything was judged"] if outcome.interrupted else []
    lines += [f"the oracle could not decide {counted(outcome.undecided, 'run')}"] if outcome.undecided else []
    lines += [_never_decided(kernel, outputs) for kernel, outputs in outcome.never_decided.items()]
    return [*lines, *([mostly_unjudged(outcome)] if outcome.judged and outcome.is_mostly_unjudged else [])]


def _never_decided(kernel: str, outputs: Sequence[str]) -> str:
    return (
        f"{kernel}: no wrong value of {' and '.join(outputs)} could have been seen: in every case its exact values are "
        "NaN, overflow or may be anything. Give a reference with finite results or more cases, or have NaN and "
        'infinities judged: nonfinite="ieee" in the contract, values="any" beside a reference, judge --values any'
    )


def not_judged(outcome: UseOutcome) -> list[str]:
    """Return a line for each reason why kernels have no judged run, with their names."""
    return [f"not judged: {', '.join(kernels)}: {why}" for why, kernels in by_reason(outcome.unjudged).items()]


def _of_all(some: int, cases: int) -> str:
    return f"{cases:,}" if some == cases else f"{some:,} of {cases:,}"


def print_gate(
    out: Console,
    outline: Outline,
    tally: Tally,
    counts: Mapping[str, tuple[int, int]],
    base: str | None,
    reasons: Mapping[str, str],
    undeclared: UndeclaredByOp,
    elapsed: float,
    *,
    verbose: bool = False,
) -> None:
    """Print the table with its notes, the findings, everything else that fails the gate, what was changed and what was
    not exercised, and the outcome."""
    _print_table(out, tally, outline.notes, verbose=verbose, usual=outline.usual)
    for failure in outline.failures:
        known = [f"known failure, {failure.known}:"] if failure.known else []
        for line in ("", *known):
            print_lines(out, [line])
        print_failure(out, failure.told(verbose=verbose, width=room(out)))
    out.print()
    for line in remarks(outline.outcome):
        print_lines(out, [line], style="bold red")
    cases = ", ".join(f"{name} {_of_all(*count)}" for name, count in counts.items() if count[1])
    cases += "; no target here takes the others" if any(ran < count for ran, count in counts.values()) else ""
    changed = ", ".join(f"{name} ({reason})" for name, reason in reasons.items())
    if base is not None:
        print_lines(out, [f"changed since {base}: {changed or 'no kernel'}"])
    expected = len(outline.failures) - len(outline.failing)
    named = Counter(f"{failure.kernel} {failure.verdict.value}" for failure in outline.failing)
    said = [name if times == 1 else f"{name} ({counted(times, 'bug')})" for name, times in sorted(named.items())]
    more = (f": {', '.join(said)}" if said else "") + (f"; {counted(expected, 'known failure')}" if expected else "")
    _print_unexercised(out, undeclared, verbose=verbose)
    print_lines(out, [f"cases: {cases or 'none'}"])
    judged = f"{counted(outline.judged, 'judged run')} in {minutes(elapsed)}"
    print_lines(out, [f"gate {outline.outcome.ending}{more}: {judged}"])
