"""What `kernelfuzz repro` does."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from fuzz.adapters.pack import Pack, built_in, load
from fuzz.adapters.target import Target
from fuzz.base.capability import refusal
from fuzz.base.case import Case
from fuzz.base.kernel import Kernel
from fuzz.base.selection import SelectionError
from fuzz.base.validity import check_case
from fuzz.base.verdict import Verdict
from fuzz.cli.chosen_case import chosen_case
from fuzz.cli.exits import Exit
from fuzz.cli.scripts import check_name, chosen_for_script, write_script
from fuzz.findings import casefile
from fuzz.findings.casefile import Found
from fuzz.judge.judge import Judgement
from fuzz.report import console
from fuzz.report.failure import judgement_text
from fuzz.report.records import environment
from fuzz.triage.history import history_line
from fuzz.triage.trial import Seen, replayed
from fuzz.uses.starting import select_targets, started


@dataclass(frozen=True)
class Request:
    """The options of `kernelfuzz repro`."""

    case: str
    targets: tuple[str, ...]
    pack: Path | None
    json: Path | None
    case_limit: float | None
    sanitize: bool
    jobs: int
    script: Path | None = None
    findings: Path = Path("findings")


def replay(request: Request) -> Exit:
    """Run the case on every chosen target; print a table, then each distinct failure in full."""
    out, err = console.results(), console.progress()
    check_name(request.script)
    pack = load(request.pack or built_in())
    chosen = chosen_case(request.case, request.findings, lambda: pack)
    case, found = chosen.case, chosen.found
    for each in (case, *chosen.history):
        check_case(each)
    targets = _targets(pack, case, request.targets)
    by_id = {target.id: target for target in targets}
    limit, sanitize = request.case_limit, request.sanitize
    with started(targets, request.jobs, err, limit, sanitize=sanitize, bounded=False) as workers:
        seen = replayed(workers, by_id, case, chosen.law, chosen.history)
    judgements = [each.judgement for each in seen.values()]
    _print_found(out, case, found, seen)
    if len(targets) > 1 and judgements:
        out.print(_table(judgements))
    for judgement in _worth_explaining(judgements, by_id, found):
        out.print()
        shown = seen[judgement.target]
        out.print(
            judgement_text(shown.case, judgement, shown.outcome, by_id[judgement.target]),
            soft_wrap=True,
        )  # fmt: skip
    if request.script is not None:
        told = chosen_for_script(request.script, judgements, by_id, found)
        write_script(request.script, chosen, told, by_id[told.target])
        line = f"{request.script}: shows it on {told.target}; how to run it is said at its top"
        err.print(line)
    if request.json:
        request.json.write_text(json.dumps(_record(case, judgements), indent=1) + "\n", encoding="utf-8")
    code = _exit_code(judgements)
    if code is Exit.CANNOT_JUDGE:
        err.print("nothing could be judged: no chosen target ran")
    return code


def _targets(pack: Pack, case: Case, patterns: Sequence[str]) -> tuple[Target, ...]:
    """Targets that match and accept the case. Mutants take part only when they are named."""
    kernels: tuple[Kernel, ...] = pack.kernels
    try:
        chosen = select_targets(kernels, patterns=patterns)
    except SelectionError:
        chosen = select_targets(pack.mutated_kernels(), patterns=patterns)
    refusals = {target.kernel.name: refusal(target.kernel, case) for target in chosen}
    fitting = tuple(target for target in chosen if refusals[target.kernel.name] is None)
    if not fitting:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in refusals.items())
        raise SelectionError(f"no chosen kernel accepts this case ({reasons})")
    return fitting


def _print_found(out: Console, case: Case, found: Found | None, seen: Mapping[str, Seen]) -> None:
    if found is None:
        return
    lines = [f"found as {found.verdict} on {found.target} by kernelfuzz {found.version}, run seed {found.run_seed}"]
    if found.history:
        lines.append(history_line(found.history, case, "replayed in one new process"))
    lines += [f"  {line}" for line in found.explanation]
    if found.target not in seen:
        lines.append(f"{found.target} is not among the targets here: name its kernels with --pack FOLDER")
    elif seen[found.target].judgement.verdict is Verdict.PASS:
        needed = "more calls" if found.history else "calls"
        lines.append(f"it passes there now: the kernel was changed, or the failure needs {needed} before it")
    for line in lines:
        out.print(line, soft_wrap=True)


def _table(judgements: Sequence[Judgement]) -> Table:
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


def _worth_explaining(
    judgements: Sequence[Judgement], targets: dict[str, Target], found: Found | None
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


def _record(case: Case, judgements: Sequence[Judgement]) -> dict[str, Any]:
    return {
        "environment": environment(),
        "case": casefile.to_json(case),
        "judgements": [
            {"target": j.target, "verdict": j.verdict.value, "ratio": _ratio(j), "reason": j.reason} for j in judgements
        ],
    }


def _exit_code(judgements: Sequence[Judgement]) -> Exit:
    verdicts = {judgement.verdict for judgement in judgements}
    if any(verdict.is_finding for verdict in verdicts):
        return Exit.FINDINGS
    if Verdict.ORACLE_GAVE_UP in verdicts:
        return Exit.ORACLE_GAVE_UP
    return Exit.OK if Verdict.PASS in verdicts else Exit.CANNOT_JUDGE
