"""A night as text, as a record, and as the outline from which the formats of `run` and `gate` are made."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from rich.console import Console

from fuzz.core.base.kernel import Kernel, capabilities_of
from fuzz.core.base.text import counted
from fuzz.core.base.verdict import Verdict
from fuzz.core.generate.pairing import PairCoverage, held
from fuzz.findings.database import without_password
from fuzz.findings.database_views import FAILS, PASSES, BucketTotals, Mark, NightView, TargetTotals
from fuzz.findings.tally import NO_TURN, Tally, TargetTally, WorstPass
from fuzz.report import totals
from fuzz.report.brief import Provenance, commands_of
from fuzz.report.console import print_failure, print_lines, room
from fuzz.report.coverage import pairs_words
from fuzz.report.outline import Broken, Failure, Outline, TargetLine, broken_failures, broken_kernels
from fuzz.report.progress import spent
from fuzz.report.source import Location, change_of, location_of
from fuzz.report.use_outcome import UseOutcome, outcome_of

_UNEXPLAINED = "not explained: the share of the night for that was over; a longer --max-time gives more"


def pairs_of(seen: NightView, kernels: Iterable[Kernel]) -> dict[str, PairCoverage]:
    """Return by op the pairs of conditions that held together, among those that the kernels allow which ran and are
    still in the pack."""
    judged = {row.kernel for row in seen.targets if row.judged}
    there = [kernel for kernel in kernels if kernel.name in judged]
    ops = [op for op in seen.together if any(kernel.op == op for kernel in there)]
    return {op: held(capabilities_of(there, op), seen.together[op]) for op in ops}


def print_night(
    console: Console,
    seen: NightView,
    kernels: Iterable[Kernel],
    pairs: Mapping[str, PairCoverage] = MappingProxyType({}),
    outcome: UseOutcome | None = None,
) -> None:
    """Print a line for each kernel that ran, a paragraph for each bug, what was not exercised, and totals."""
    totals.print_kernels(console, kernel_lines_of(seen))
    print_lines(console, (*totals.not_run_lines(idle_reasons(seen)), *totals.not_run_lines(partly_run(seen))), "yellow")
    for bucket in seen.buckets:
        console.print()
        console.print(f"{bucket.status}:", style="bold")
        failure = failure_of(bucket, seen)  # the whole text if there is no case file
        print_failure(console, failure.told(verbose=not failure.commands.case_file, width=room(console)))
    broken = broken_of(seen)
    origin = Provenance(seen.night.seed, seen.night.command, pack_option(seen.night.command))
    for each in broken_failures(broken, {}, origin):
        console.print()
        console.print(each.said)
    console.print()
    print_lines(console, totals.not_exercised(_undeclared(seen, kernels)))
    if pairs:
        print_lines(console, [f"{pairs_words(pairs)}; the page names the others, by op"])
    failing = [(bucket.row.kernel, bucket.told.explained != "not yet") for bucket in seen.failing]
    found = totals.found_words(
        outcome or night_outcome(seen), totals.bugs_words(failing) if failing else "", [each.kernel for each in broken]
    )
    used = seen.night.used_s
    rate = seen.judged / used if used else 0.0
    taken = spent(used, seen.night.limit_s)
    runs = f"{counted(seen.judged, 'judged run')} of {counted(seen.cases, 'case')} in {taken} ({rate:,.0f}/s)"
    print_lines(console, [f"{found}: {runs}, night {seen.night.id}, seed {seen.night.seed}"])


def broken_of(seen: NightView) -> list[Broken]:
    """Return the kernels that could not be built or started."""
    return broken_kernels((row.kernel, row.name, row.reason, row.attested.get("broken", "")) for row in seen.targets)


def tally_of(seen: NightView) -> Tally:
    """Return the counts of the whole night with all sessions, and why targets judged nothing."""
    tally, idle = Tally(), idle_reasons(seen)
    for row in seen.targets:
        counts = TargetTally(row.name, row.kernel, row.judged, row.findings, row.gave_up, row.not_run)
        counts.not_run_reason = row.reason or idle.get(row.name, "")
        counts.broken = row.attested.get("broken", "")
        counts.decided.update(row.decided)
        tally.targets[row.name] = counts
    return tally


def idle_reasons(seen: NightView) -> dict[str, str]:
    """Return why targets judged nothing, by target, except targets whose kernel is broken."""
    reasons = {row.name: row.reason for row in seen.targets if row.judged == 0 and not row.attested.get("broken")}
    searched = Counter[str]()
    for part in seen.slices:
        searched[part.op] += part.cases
    op = {row.name: row.op for row in seen.targets}
    why = {name: "no case that was drawn fitted it" if searched.get(op[name]) else NO_TURN for name in reasons}
    return {name: reason or why[name] for name, reason in reasons.items()}


def partly_run(seen: NightView) -> dict[str, str]:
    """Return why targets did not run some cases although they judged others, by target, for example because a kernel
    hangs."""
    return {row.name: row.reason for row in seen.targets if row.judged and row.not_run and row.reason}


def _undeclared(seen: NightView, kernels: Iterable[Kernel]) -> totals.UndeclaredByOp:
    """Return what the kernels do not declare that ran in the night and are still in the pack."""
    judged = {row.kernel for row in seen.targets if row.judged}
    return totals.undeclared_by_op(kernel for kernel in kernels if kernel.name in judged)


def night_record(
    seen: NightView, kernels: Iterable[Kernel], pairs: Mapping[str, PairCoverage] = MappingProxyType({})
) -> dict[str, Any]:
    """Return the night as one JSON object."""
    night = seen.night
    return {
        "night": night.id,
        "seed": night.seed,
        "started": night.started.isoformat() + "Z",
        "limit_s": night.limit_s,
        "used_s": round(night.used_s, 3),
        "triage_s": round(night.triage_s, 3),
        "ended": night.ended,
        "command": night.command,
        "environment": night.environment,
        "sessions": len(seen.sessions),
        "cases": seen.cases,
        "judged": seen.judged,
        "buckets": [_bucket_record(bucket) for bucket in seen.buckets],
        "targets": [
            {
                name: getattr(row, name)
                for name in ("name", "kernel", "op", "runs", "reason", "judged", "findings", "gave_up", "not_run")
            }
            for row in seen.targets
        ],
        "laws": {row.name: row.compared for row in seen.laws},
        "undeclared": _undeclared(seen, kernels),
        "gaps": [[row.op, row.kind, row.value] for row in seen.coverage if row.wanted and row.visits == 0],
        "pairs": {op: each.record for op, each in pairs.items()},
        "slices": [
            {"number": p.number, "op": p.op, "seed": p.seed, "seconds": round(p.seconds, 3), "cases": p.cases}
            for p in seen.slices
        ],
    }  # fmt: skip


def _bucket_record(bucket: BucketTotals) -> dict[str, Any]:
    of_row = (
        "signature", "kernel", "op", "verdict", "law", "target", "case_file", "digest", "where", "explanation",
        "found_by", "passed_night",
    )  # fmt: skip
    return {
        "status": bucket.status,
        **{name: getattr(bucket.row, name) for name in of_row},
        **{name: getattr(bucket, name) for name in ("first_night", "last_night", "count")},
        "seen": bucket.sightings,
    }


def changes_of(seen: NightView) -> dict[str, list[dict[str, Any]]]:
    """Return the buckets that this night changed: those that failed for the first time, those whose case passes since
    this night, and those that failed again after their case had passed."""
    changes: dict[str, list[dict[str, Any]]] = {"new": [], "fixed": [], "returned": []}
    buckets = {bucket.row.signature: bucket for bucket in seen.buckets}
    for bug in seen.trends.bugs:
        now, earlier = bug.nights.get(seen.night.id, ""), [each for each in bug.nights if each < seen.night.id]
        before = bug.nights[max(earlier)] if earlier else ""
        change = {(FAILS, ""): "new", (PASSES, FAILS): "fixed", (FAILS, PASSES): "returned"}.get((now, before))
        if change is not None:
            changes[change].append(_bucket_record(buckets[bug.signature]))
    return changes


def kernel_lines_of(seen: NightView) -> list[totals.KernelLine]:
    """Return a line for each kernel."""
    worst, groups = _worst(seen.accuracy), dict[tuple[str, str], list[TargetTotals]]()
    for row in seen.targets:
        groups.setdefault((row.kernel, row.op), []).append(row)
    return [
        totals.KernelLine(
            kernel, sum(row.judged > 0 for row in rows), len(rows), sum(row.judged for row in rows),
            sum(row.findings for row in rows), totals.largest(worst.get(row.name, {}) for row in rows), op,
        )
        for (kernel, op), rows in groups.items()
    ]  # fmt: skip


def failure_of(bucket: BucketTotals, seen: NightView, kernels: Mapping[str, Kernel] = MappingProxyType({})) -> Failure:
    """Return a bug of a night in the form of all reports. Its source line is only known if its kernel is given."""
    row, told = bucket.row, bucket.told
    if told.explained == "not yet" and not told.note:
        told = replace(told, note=_UNEXPLAINED)
    place = location_of(kernels[row.kernel]) if row.kernel in kernels else Location(row.kernel, 1)
    origin = Provenance(seen.night.seed, row.found_by, pack_option(seen.night.command))
    path = seen.findings / row.case_file if row.case_file else None
    targets, count = tuple(sorted(bucket.sightings)), sum(bucket.sightings.values())
    change = change_of(kernels[row.kernel]) if row.kernel in kernels else None
    return Failure(
        row.kernel, Verdict(row.verdict), row.law, targets, count, place, told, commands_of(told, path, origin), change
    )


def pack_option(command: str) -> tuple[str, ...]:
    """Return the options of a night's command for its pack and for how kernels are run: ('--pack', FOLDER) and
    '--untrusted'; () for the built-in kernels."""
    try:
        words = shlex.split(command)
    except ValueError:  # the state was written by somebody else
        return ()
    pack = words[words.index("--pack") + 1 :] if "--pack" in words else []
    return (*(("--pack", pack[0]) if pack else ()), *(("--untrusted",) if "--untrusted" in words else ()))


def command_again(option: str, command: str, state: Path, store: str | None) -> str:
    """Return the command line that applies an option of `nightly` to a night; with '', one that begins a similar night.
    `command` is the one in the night's record. The password of a store is left out."""
    others = pack_option(command) if option == "--report-only" else shlex.split(command)[2:]
    where = ["--state", str(state), *(("--store", without_password(store)) if store is not None else ())]
    return shlex.join(["kernelfuzz", "nightly", *([option] if option else []), *where, *others])


def night_outcome(
    seen: NightView, missing: Sequence[str] = (), errors: Sequence[str] = (), unsaved: Sequence[str] = ()
) -> UseOutcome:
    """Return the outcome of the whole night, with all its sessions. A night that was cut off counts as interrupted."""
    tally, ended = tally_of(seen), seen.night.ended
    # The state does not hold the text of internal errors.
    known = ["the night met internal errors, which it printed as it ended"] if ended == "errors" else []
    return outcome_of(
        tally, failing=bool(seen.failing) or tally.findings > 0, missing=missing, errors=errors or known,
        unsaved=unsaved, interrupted=ended not in ("limit", "errors"),
    )  # fmt: skip


def outline_of(seen: NightView, kernels: Iterable[Kernel], outcome: UseOutcome) -> Outline:
    """Return the outline of a night. `kernels` give the sources of the failures."""
    known = {kernel.name: kernel for kernel in kernels}
    worst, idle = _worst(seen.accuracy), idle_reasons(seen)
    lines = tuple(
        TargetLine(
            row.kernel, row.op, row.name, row.judged, row.findings, worst.get(row.name, {}),
            {**dict.fromkeys(known[row.kernel].laws if row.kernel in known else (), 0), **seen.twins.get(row.name, {})},
            idle.get(row.name, ""),
        )
        for row in seen.targets
    )  # fmt: skip
    # In the order of ids, so that buckets with the same fingerprint are numbered alike every night.
    failing = sorted(seen.failing, key=lambda bucket: bucket.row.id)
    passing = [bucket for bucket in seen.buckets if bucket.status == "passes now"]
    return Outline(
        verb="nightly",
        seed=seen.night.seed,
        environment=seen.night.environment,
        cases=seen.cases,
        targets=lines,
        failures=(*(failure_of(bucket, seen, known) for bucket in failing), *broken_failures(broken_of(seen), known)),
        outcome=outcome,
        notes=tuple(
            f"{each.row.kernel} passes now where it was {each.row.verdict}: {each.row.where}" for each in passing
        ),
    )


def _worst(marks: Iterable[Mark]) -> dict[str, dict[str, WorstPass]]:
    """Return the worst passing run by target and dtype."""
    found: dict[str, dict[str, WorstPass]] = {}
    for mark in marks:
        known = found.setdefault(mark.target, {}).get(mark.dtype)
        if known is None or mark.ratio > known.ratio:
            found[mark.target][mark.dtype] = WorstPass(mark.ratio, mark.where)
    return found
