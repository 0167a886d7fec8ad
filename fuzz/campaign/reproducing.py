"""Reproducing a kept case: choosing it and its targets, reporting the result, and writing a program that shows it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.table import Table

from fuzz.campaign.starting import select_targets
from fuzz.core.adapters.cuda import SETTING
from fuzz.core.adapters.pack import Pack
from fuzz.core.adapters.registry import NAMES, adapter_named, expand
from fuzz.core.adapters.target import NO_PROGRAM, Target, TargetId
from fuzz.core.base.case import BIG, Case, Origin
from fuzz.core.base.errors import UsageError
from fuzz.core.base.selection import SelectionError
from fuzz.core.base.validity import unknown_op
from fuzz.core.base.verdict import Verdict
from fuzz.core.generate.search import SHARDS, Search
from fuzz.core.generate.turn import is_proposed
from fuzz.core.judge.judge import Judgement
from fuzz.core.laws.law import LawCheck
from fuzz.core.laws.registry import declared, with_twins
from fuzz.explain.attribute.history import history_line
from fuzz.explain.explanation import Explanation
from fuzz.explain.stages.counterfactuals import edited
from fuzz.explain.trial.trial import Observed
from fuzz.findings import casefile
from fuzz.findings.casefile import FoundRecord
from fuzz.findings.state import SHORTEST, files_in, fitting, folders
from fuzz.report.console import bare_table
from fuzz.report.failure import explanation_lines
from fuzz.report.script import script_of
from oracles.ops import OPS

_PLACE = re.compile(rf"(\d+):(\w+):(\d+|{BIG}):(\d+)")
_WITHOUT_SHARD = re.compile(r"\d+:\w+:\d+")
_LISTED = 5


@dataclass(frozen=True)
class ChosenCase:
    """A case to reproduce, with what is known about its failure."""

    case: Case
    found: FoundRecord | None
    law: LawCheck | None = None
    """The law whose twin follows the case, if any."""
    history: tuple[Case, ...] = ()
    """The calls before the case."""


def chosen_case(text: str, findings: Path, pack: Pack) -> ChosenCase:
    """Return the case that `text` names. Raises UsageError, or CaseError if its file is broken."""
    place = _PLACE.fullmatch(text)
    if place is not None and not Path(text).exists():
        return _searched(place, pack)
    if _WITHOUT_SHARD.fullmatch(text):
        raise UsageError(f"{text}: a case of a search is named SEED:OP:SHARD:NUMBER, as a search prints it")
    case, found = casefile.load(file_of(text, findings, pack.path))
    return ChosenCase(case, found, found.law if found else None, found.history if found else ())


def case_path(text: str, findings: Path, pack: Path | None, elsewhere: str = "") -> Path | None:
    """Return the case file that `text` names, or None if `text` names a case of a search. Raises UsageError."""
    if (_PLACE.fullmatch(text) or _WITHOUT_SHARD.fullmatch(text)) and not Path(text).exists():
        return None
    return file_of(text, findings, pack, elsewhere)


def changed(chosen: ChosenCase, changes: Sequence[str]) -> ChosenCase:
    """Return the case with changes, each written as SUBJECT=VALUE. What is known of the failure is dropped, since it
    need not hold for the changed case. Raises UsageError."""
    case = chosen.case
    for change in changes:
        subject, equals, value = change.partition("=")
        if not equals:
            raise UsageError(f"--set {change}: write it as n=4")
        case = edited(case, subject.strip(), value.strip())
    return replace(chosen, case=case, found=None) if changes else chosen


def file_of(text: str, findings: Path, pack: Path | None, elsewhere: str = "") -> Path:
    """Return the case file with this path, or whose name or digest begins with `text`, also from the folder of a judged
    pack. Raises UsageError, which mentions `elsewhere` too if that was searched in vain."""
    if Path(text).is_file() or Path(text).suffix == ".json":
        return Path(text)
    places = folders(findings, pack)
    files = files_in(places)
    found = fitting(text, files)
    if len(text) >= SHORTEST and len(found) == 1:
        return found[0]
    if len(text) < SHORTEST and found:
        raise UsageError(f"{text!r}: write at least {SHORTEST} characters of a finding's name or digest")
    shown = found or files
    names = ", ".join(path.stem for path in shown[:_LISTED]) + (" ..." if len(shown) > _LISTED else "")
    there = f"{'it may be' if found else 'there are'}: {names}" if shown else "it has none at all; see --findings"
    what = "more than one finding" if found else "no finding"
    where = f"{places[0]} and {elsewhere}" if elsewhere and not found else str(places[0])
    raise UsageError(f"{text!r}: no case file, and {what} of that name in {where}; {there}")


def _searched(place: re.Match[str], pack: Pack) -> ChosenCase:
    """Return the case at a position of a search, as `kernelfuzz run` names it, without running a kernel."""
    seed, op, shard, number = int(place[1]), place[2], place[3], int(place[4])
    if op not in OPS:
        raise UsageError(f"{place[0]}: {unknown_op(repr(op))}")
    search = Search(op, seed, pack.kernels)
    made = search.big(number) if shard == BIG else search.case(int(shard), number)
    if made is None and shard != BIG and is_proposed(Origin(shard=int(shard), number=number)):
        raise UsageError(f"{place[0]}: a guide proposed this case, after what was judged before: run its case file")
    if made is None:
        raise UsageError(f"{place[0]}: the search has no case of that number; its shards are 0 to {SHARDS - 1}")
    twins = with_twins([made.case], declared(kernel for kernel in pack.kernels if kernel.op == op))[1:]
    return ChosenCase(made.case, None, twins[0].check if twins else None)


def is_watched(found: FoundRecord | None) -> bool:
    """Whether a case was found with a sanitizer."""
    return found is not None and SETTING in dict(TargetId.parse(found.target).settings)


def fitting_targets(pack: Pack, case: Case, patterns: Sequence[str], *, sanitize: bool = False) -> tuple[Target, ...]:
    """Return the chosen targets that accept the case, or promise to reject it. Mutants take part only if a pattern
    names them. Raises SelectionError."""
    try:
        chosen = select_targets(pack.kernels, patterns=patterns, sanitize=sanitize)
    except SelectionError:
        mutants = pack.mutated_kernels()
        if not mutants:
            raise
        chosen = select_targets(mutants, patterns=patterns)
    fitting = tuple(target for target in chosen if target.kernel.capability.is_dispatched(case))
    if not fitting:
        of_op = [target.kernel for target in chosen if target.kernel.op == case.op]
        refusals = {kernel.name: kernel.capability.refusal(case) for kernel in of_op}
        reasons = "; ".join(f"{name}: {reason}" for name, reason in refusals.items())
        raise SelectionError(f"no chosen kernel accepts this case ({reasons or f'none is of {case.op}'})")
    return fitting


def found_lines(
    found: FoundRecord | None, case: Case, seen: Mapping[str, Observed], pack: Pack, *, whole: bool = True
) -> Iterator[str]:
    """Yield lines about how the case was found, and why it may not fail now on the target where it was found; with
    `whole`, also those of its explanation."""
    if found is None:
        return
    yield f"found as {found.verdict} on {found.target} by kernelfuzz {found.version}, run seed {found.run_seed}"
    if found.is_of_another_formula(case):
        yield f"what is to be computed is something else now: {case.op}, or its reference, was changed since then"
    if found.history:
        yield history_line(found.history, case, "run in one new process")
    yield from explanation_lines(found.explanation) if whole and found.explanation is not None else ()
    if found.target not in seen:
        yield f"{found.target} {_absence(found.target, case, pack)}"
    elif seen[found.target].judgement.verdict is Verdict.PASS:
        needed = "more calls" if found.history else "calls"
        yield f"it passes there now: the kernel was changed, or the failure needs {needed} before it"


def with_known(told: Explanation, found: FoundRecord | None) -> Explanation:
    """Return the explanation of a failure that was just seen, completed by the recorded one if both are of one
    failure."""
    known = found.explanation if found is not None else None
    if known is None or (known.target, known.verdict) != (told.target, told.verdict):
        return told
    return replace(known, worst=told.worst, reason=told.reason)


def _absence(name: str, case: Case, pack: Pack) -> str:
    """Return why the target of that name did not run the case."""
    target = next((each for each in expand((*pack.kernels, *pack.mutated_kernels())) if each.id == name), None)
    if target is None:
        return "is not among the targets here: name its kernels with --pack FOLDER"
    refusal = target.kernel.capability.refusal(case)
    return f"does not take the case any more: {refusal}" if refusal else "is left out by --target"


def undecided(judgements: Sequence[Judgement], found: FoundRecord | None, *, named: bool) -> str:
    """Return why the judgements do not tell whether the case fails; '' if they do. `named` means that the user chose
    the targets."""
    passed = {judgement.target for judgement in judgements if judgement.verdict is Verdict.PASS}
    failures = {judgement.verdict for judgement in judgements if judgement.verdict.is_finding}
    if found is not None and failures == {Verdict.TIMEOUT} and found.verdict != Verdict.TIMEOUT.value:
        return f"cannot be judged: it hangs, and nobody knows whether it fails as it was found ({found.verdict})"
    if failures:
        return ""
    if any(judgement.verdict is Verdict.ORACLE_GAVE_UP for judgement in judgements):
        return "cannot be judged: the oracle gave up"
    if not passed:
        reasons = dict.fromkeys(f"{each.target}: {each.reason}" for each in judgements if each.reason)
        return "nothing could be judged: no chosen target ran" + "".join(f"\n  {each}" for each in reasons)
    if found is not None and not named and found.target not in passed:
        there = any(judgement.target == found.target for judgement in judgements)
        missing = "did not run" if there else "is not among the targets here"
        where = f"{found.target}, on which the case was found, {missing}"
        return f"cannot be judged: {where}; name the targets that shall decide with --target"
    return ""


def verdict_table(judgements: Sequence[Judgement]) -> Table:
    """Return a table with a line for each target."""
    table = bare_table()
    table.add_column("target", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    table.add_column("err/budget", justify="right", no_wrap=True)
    table.add_column("", overflow="fold")
    for judgement in judgements:
        style = "red" if judgement.verdict.is_finding else ""
        table.add_row(judgement.target, judgement.verdict.value, _ratio(judgement), judgement.reason, style=style)
    return table


def _ratio(judgement: Judgement) -> str:
    return f"{judgement.ratio:.4g}" if judgement.worst is not None else "-"


def worth_explaining(
    judgements: Sequence[Judgement], targets: Mapping[str, Target], found: FoundRecord | None
) -> list[Judgement]:
    """Return the judgements to explain. If the case fails again as it was found, this is that one judgement; else the
    first failure of each kernel and verdict. If all pass, it is that of the recorded target, or the worst pass."""
    distinct: dict[tuple[str, Verdict], Judgement] = {}
    for judgement in sorted(judgements, key=lambda each: found is None or each.target != found.target):
        if judgement.verdict is not Verdict.PASS and judgement.verdict is not Verdict.NOT_RUN:
            distinct.setdefault((targets[judgement.target].kernel.name, judgement.verdict), judgement)
            if found is not None and (judgement.target, judgement.verdict.value) == (found.target, found.verdict):
                return [judgement]
    if distinct:
        return list(distinct.values())
    passing = [judgement for judgement in judgements if judgement.verdict is Verdict.PASS]
    recorded = [judgement for judgement in passing if found is not None and judgement.target == found.target]
    return recorded or sorted(passing, key=lambda judgement: judgement.ratio)[-1:]


def facts(case: Case, judgements: Sequence[Judgement]) -> dict[str, Any]:
    """Return the case and its judgements as the JSON record has them."""
    return {
        "case": casefile.to_json(case),
        "judgements": [
            {"target": j.target, "verdict": j.verdict.value, "ratio": _ratio(j), "reason": j.reason} for j in judgements
        ],
    }


def check_name(path: Path | None) -> None:
    """Raise UsageError if the suffix of a program's file is not that of a known language."""
    ways = sorted({adapter_named(each).suffix for each in NAMES} - {NO_PROGRAM})
    if path is not None and path.suffix not in ways:
        raise UsageError(f"--script {path}: the name must end in {', '.join(ways[:-1])} or {ways[-1]}")


def chosen_for_script(
    path: Path, judgements: Sequence[Judgement], targets: Mapping[str, Target], found: FoundRecord | None
) -> Judgement:
    """Return the judgement that the program shows: in the language of `path`, a failure if possible, on the recorded
    target if possible. Raises UsageError if no chosen kernel is in that language."""
    ways = {each.target: targets[each.target].adapter.suffix for each in judgements}
    fitting = [each for each in judgements if ways[each.target] == path.suffix]
    if not fitting:
        names = " or ".join(f"repro{way}" for way in sorted({*ways.values()} - {NO_PROGRAM}))
        can = f"no chosen kernel is written in that language; name it {names}, or choose one with --target"
        raise UsageError(f"--script {path}: {can if names else 'the kernel is a program itself: use repro alone'}")

    def rank(judgement: Judgement) -> tuple[bool, bool]:
        return not judgement.verdict.is_finding, found is None or judgement.target != found.target

    return min(fitting, key=rank)


def script_line(path: Path, shown: Judgement, judgements: Sequence[Judgement]) -> str:
    """Return a line about what the program shows. It may show a target that passes, if others fail in its language."""
    if shown.verdict.is_finding:
        return f"{path}: shows it on {shown.target}; how to run it is said at its top"
    failing = [judgement.target for judgement in judgements if judgement.verdict.is_finding]
    why = f"{failing[0]} fails, in another language" if failing else "no chosen target fails"
    return f"{path}: runs the case on {shown.target}, where it passes; {why}"


def write_script(path: Path, chosen: ChosenCase, judgement: Judgement, target: Target) -> None:
    """Write the program to a file. Raises UsageError if the file cannot be written."""
    case, found = chosen.case, chosen.found
    failing = judgement if judgement.verdict.is_finding else None
    script = script_of(target, case, failing, chosen.law, chosen.history)
    told = found.explanation if found is not None else None
    about = [
        f"{judgement.verdict.value} of {target.id}, case {case.digest[:12]}",
        *([judgement.reason] if judgement.reason else []),
        *(line.strip() for line in (explanation_lines(told) if told is not None else ())),
    ]
    text = target.adapter.export(target, script, about, path.name)
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--script {path}: cannot be written: {error.strerror}") from error
