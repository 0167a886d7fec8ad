"""A case replayed: the targets that take it, and what is said of their judgements."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.table import Table

from fuzz.adapters.pack import Pack
from fuzz.adapters.target import Target
from fuzz.base.case import Case
from fuzz.base.selection import SelectionError
from fuzz.base.verdict import Verdict
from fuzz.findings import casefile
from fuzz.findings.casefile import Found
from fuzz.judge.judge import Judgement
from fuzz.triage.fresh import Seen
from fuzz.triage.history import history_line
from fuzz.uses.starting import select_targets


def fitting_targets(pack: Pack, case: Case, patterns: Sequence[str]) -> tuple[Target, ...]:
    """Targets that match and accept the case. Mutants take part only when they are named."""
    try:
        chosen = select_targets(pack.kernels, patterns=patterns)
    except SelectionError:
        chosen = select_targets(pack.mutated_kernels(), patterns=patterns)
    refusals = {target.kernel.name: target.kernel.capability.refusal(case) for target in chosen}
    fitting = tuple(target for target in chosen if refusals[target.kernel.name] is None)
    if not fitting:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in refusals.items())
        raise SelectionError(f"no chosen kernel accepts this case ({reasons})")
    return fitting


def found_lines(found: Found | None, case: Case, seen: Mapping[str, Seen]) -> Iterator[str]:
    """How the case was found, and why it may not fail there now."""
    if found is None:
        return
    yield f"found as {found.verdict} on {found.target} by kernelfuzz {found.version}, run seed {found.run_seed}"
    if found.history:
        yield history_line(found.history, case, "replayed in one new process")
    yield from (f"  {line}" for line in found.explanation)
    if found.target not in seen:
        yield f"{found.target} is not among the targets here: name its kernels with --pack FOLDER"
    elif seen[found.target].judgement.verdict is Verdict.PASS:
        needed = "more calls" if found.history else "calls"
        yield f"it passes there now: the kernel was changed, or the failure needs {needed} before it"


def verdict_table(judgements: Sequence[Judgement]) -> Table:
    """A line for each target."""
    table = Table(box=None, pad_edge=False, header_style="bold")
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
    judgements: Sequence[Judgement], targets: Mapping[str, Target], found: Found | None
) -> list[Judgement]:
    """The first failure of each kernel and verdict; where all pass, the target it was found on, else the worst pass."""
    distinct: dict[tuple[str, Verdict], Judgement] = {}
    for judgement in judgements:
        if judgement.verdict is not Verdict.PASS and judgement.verdict is not Verdict.NOT_RUN:
            distinct.setdefault((targets[judgement.target].kernel.name, judgement.verdict), judgement)
    if distinct:
        return list(distinct.values())
    passing = [judgement for judgement in judgements if judgement.verdict is Verdict.PASS]
    recorded = [judgement for judgement in passing if found is not None and judgement.target == found.target]
    return recorded or sorted(passing, key=lambda judgement: judgement.ratio)[-1:]


def facts(case: Case, judgements: Sequence[Judgement]) -> dict[str, Any]:
    """For the JSON record."""
    return {
        "case": casefile.to_json(case),
        "judgements": [
            {"target": j.target, "verdict": j.verdict.value, "ratio": _ratio(j), "reason": j.reason} for j in judgements
        ],
    }
