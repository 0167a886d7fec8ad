"""What `kernelfuzz gate` does."""

from __future__ import annotations

import platform
import shlex
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from fuzz.adapters.pack import built_in, load
from fuzz.base.selection import globs, matches_any
from fuzz.cli.exits import Exit
from fuzz.cli.explaining import explain_findings
from fuzz.cli.fuzzing import bucket_text, missing_targets, open_log, restarted, writable
from fuzz.execute.pool import WorkerPool
from fuzz.findings.book import book_in
from fuzz.judge.oracle_process import OracleProcess
from fuzz.laws.registry import declared
from fuzz.report import console
from fuzz.report.failure import Provenance
from fuzz.report.formats import parse, write_reports
from fuzz.report.outline import Outline, TwinCount, failure_of, target_lines
from fuzz.report.progress import Progress, minutes
from fuzz.report.records import RecordLog, environment
from fuzz.report.totals import and_more, run_notes, run_table
from fuzz.uses.corpus import folder as corpus
from fuzz.uses.gate import accuracy as ratchet
from fuzz.uses.gate.accuracy import Accuracy, Key
from fuzz.uses.gate.changes import changes_since, touched
from fuzz.uses.gate.known import Watch, load_known
from fuzz.uses.gate.plan import SEED, phases
from fuzz.uses.gate.session import Session
from fuzz.uses.search.calls import CallLog, note_histories
from fuzz.uses.starting import not_running, select_targets, started


@dataclass(frozen=True)
class Request:
    """The options of `kernelfuzz gate`."""

    base: str | None
    op: str
    targets: tuple[str, ...]
    keyword: str | None
    max_cases: int
    require: tuple[str, ...]
    known: Path | None
    strict_accuracy: bool
    update_accuracy: bool
    corpora: Path | None
    pack: Path | None
    json: Path | None
    report: tuple[str, ...]
    output: Path
    explain_time: float | None
    case_limit: float | None
    jobs: int


def run_gate(request: Request) -> Exit:
    """Run the plan, print what failed, write the reports; return the exit code."""
    return _Gate(request).run()


class _Gate:
    """One gate from its options to its exit code."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.out, self.err = console.results(), console.progress()
        self.wanted, self.pack = parse(request.report), load(request.pack or built_in())
        self.corpora = request.corpora or corpus.built_in()
        self.targets = select_targets(self.pack.kernels, request.op, request.targets, request.keyword)
        self.by_id = {target.id: target for target in self.targets}
        self.nowhere = [
            f"required target {pattern}: no such target; see: kernelfuzz list targets"
            for pattern in globs(request.require)
            if not any(matches_any(name, [pattern]) for name in self.by_id)
        ]
        changes = changes_since(request.base, self.pack.path)
        chosen = {target.kernel.name for target in self.targets}
        every = touched(self.pack.kernels, self.pack.path, changes)
        self.reasons = {name: reason for name, reason in every.items() if name in chosen}
        known = load_known(request.known) if request.known else ()
        self.plan = phases(self.corpora, [entry.case for entry in known if entry.case is not None])
        self.oracle = OracleProcess(target.numerics for target in self.targets)
        self.session = Session(
            self.targets,
            book_in(writable(request.output), SEED),
            Watch(known, datetime.now(UTC).date()),
            declared(self.pack.kernels),
            request.max_cases,
            oracle=self.oracle,
        )
        self.cut = False
        """what was not changed was not run, since what was changed fails."""
        self.complaints: list[str] = []
        self.missing: list[str] = []
        self.notes: list[str] = [changes.note] if changes.note else []

    def run(self) -> Exit:
        began = time.monotonic()
        with ExitStack() as stack:
            stack.enter_context(self.oracle)
            log = stack.enter_context(open_log(self.request.json)) if self.request.json else None
            twins = TwinCount(self.by_id)
            progress = stack.enter_context(Progress(self.err, self.session.tally, None, None))
            calls = CallLog(self.session.book.kept)
            self.session.observers = [progress, twins, calls, *([log] if log else [])]
            measured = self._judge(log, progress, calls)
            self._look_at_accuracy(measured)
            self._look_at_the_rest()
            outline = self._outline(twins)
            if log:
                self._log(log, outline)
                log.summary(self.session.tally, time.monotonic() - began)
        self._print(outline, time.monotonic() - began)
        write_reports(outline, self.wanted)
        troubles = [trouble for trouble in (self.session.book.trouble, log.trouble if log else "") if trouble]
        self._say(self.err, troubles)
        code = self._exit_code(outline)
        return Exit.INTERNAL if troubles and code is Exit.OK else code

    def _judge(self, log: RecordLog | None, progress: Progress, calls: CallLog) -> dict[Key, Accuracy]:
        """Run the plan in workers, and explain what it finds that nobody knew of."""
        request, session = self.request, self.session
        with started(self.targets, request.jobs, self.err, request.case_limit) as pool:
            if log:
                log.header(SEED, pool.statuses)
            session.note_missing(not_running(pool))
            with session.interruption:
                measured = self._run(pool)
            note_histories(session.book, session.target, calls, request.case_limit)
            if session.unknown and request.explain_time is not None and not session.interruption.wanted:
                progress.stop()
                explain_findings(session.book, pool, self.targets, request.explain_time, self.err)
            self._say(self.err, restarted(dict(pool.restarts), self.oracle))
        return measured

    def _run(self, pool: WorkerPool) -> dict[Key, Accuracy]:
        """The corpora, then a search, of what the change touches; unless it failed, the corpora on everything else.

        A red gate is red soon: what the change does not touch is not waited for.
        """
        session = self.session
        touched = [target for target in self.targets if target.kernel.name in self.reasons]
        first = touched or self.targets
        rest = [target for target in self.targets if target not in first]
        measured = session.replay(pool, first, self.plan)
        if touched and session.unknown:
            self.notes.append("not searched: the kept cases fail already")
        elif touched and not session.interruption.wanted:
            session.search(pool, touched)
        self.cut = bool(rest and session.unknown)
        if self.cut:
            self.notes.append(f"not run on the {len(rest)} targets of kernels that were not changed: it fails already")
        elif rest and not session.interruption.wanted:
            measured |= session.replay(pool, rest, self.plan)
        return measured

    def _look_at_accuracy(self, measured: Mapping[Key, Accuracy]) -> None:
        """Compare with the file, or write it."""
        path, machine = self.corpora / "accuracy.json", platform.machine()
        before = ratchet.load_accuracy(path) if path.is_file() else ratchet.Ratchet(machine, {})
        if self.session.interruption.wanted:
            return
        if self.request.update_accuracy:
            names = {kernel.name for kernel in self.pack.kernels}
            kept = before.worst.items() if before.machine == machine else ()
            ratchet.save_accuracy(path, machine, {**{k: v for k, v in kept if k[0] in names}, **measured})
            self.notes.append(f"accuracy of {len(measured)} entries written to {path}")
        elif before.machine != machine:
            self.notes.append(f"accuracy not compared: {path.name} was measured on {before.machine}, this is {machine}")
        else:
            lost = [f"less accurate than before: {change}" for change in ratchet.worse(before.worst, measured)]
            (self.complaints if self.request.strict_accuracy else self.notes).extend(lost)
            new = ratchet.unknown(before.worst, measured)
            if new:
                named = and_more([f"{target} in {dtype}" for _, target, dtype in new])
                self.notes.append(f"no accuracy recorded yet for {named}: kernelfuzz gate --update-accuracy")
            for reason, names_of in ratchet.absent(before.worst, measured, self.by_id).items():
                self.notes.append(f"accuracy not compared for {and_more(names_of)}: {reason}")

    def _look_at_the_rest(self) -> None:
        session = self.session
        judged, searched = session.judged_kernels, session.searched
        self.complaints += session.watch.complaints(judged, searched)
        self.notes += session.watch.notes(judged, searched)
        required = () if self.cut else globs(self.request.require)
        self.missing += [*self.nowhere, *missing_targets(session.tally, required)]
        if not self.request.require:
            self.missing += [
                f"{name} was changed ({reason}) and ran nowhere: {session.why_not(name)}"
                for name, reason in self.reasons.items()
                if self.request.base is not None and name not in judged
            ]
        self.complaints += self.missing

    def _outline(self, twins: TwinCount) -> Outline:
        session, origin = self.session, self._origin()
        problems = []
        for bucket in session.book.buckets.values():
            target, entry = self.by_id[bucket.judgement.target], session.known(bucket)
            text = bucket_text(bucket, target, origin)
            problems.append(failure_of(bucket, target, text, "" if entry is None else entry.issue))
        return Outline(
            verb="gate",
            seed=SEED,
            environment=environment(),
            cases=session.tally.cases,
            targets=target_lines(self.targets, session.tally, twins),
            failures=tuple(problems),
            complaints=tuple(self.complaints),
            notes=tuple(self.notes),
        )

    def _origin(self) -> Provenance:
        """How to run the same gate again."""
        request = self.request
        pack = ("--pack", str(request.pack)) if request.pack else ()
        words = ["kernelfuzz", "gate", *(("--base", request.base) if request.base else ()), *pack]
        words += [word for pattern in request.targets for word in ("--target", pattern)]
        words += ["-k", request.keyword] if request.keyword else []
        words += ["--op", request.op] if request.op != "*" else []
        return Provenance(SEED, shlex.join(words), pack)

    def _log(self, log: RecordLog, outline: Outline) -> None:
        for bucket, problem in zip(self.session.book.buckets.values(), outline.failures, strict=True):
            log.finding(bucket, problem.text)
        facts = {
            "ok": outline.ok,
            "base": self.request.base,
            "touched": dict(self.reasons),
            "cases": dict(self.session.counts),
            "complaints": list(outline.complaints),
            "notes": list(outline.notes),
        }
        log.note("gate", facts)

    def _print(self, outline: Outline, elapsed: float) -> None:
        out, session = self.out, self.session
        out.print(run_table(session.tally))
        self._say(out, [*run_notes(session.tally), *outline.notes])
        for problem in outline.failures:
            known = [f"known failure, {problem.known}:"] if problem.known else []
            self._say(out, ["", *known, problem.text], style="")
        out.print()
        self._say(out, outline.complaints, style="bold red")
        counted = ", ".join(f"{name} {count:,}" for name, count in session.counts.items() if count)
        changed = ", ".join(f"{name} ({reason})" for name, reason in self.reasons.items())
        if self.request.base is not None:
            self._say(out, [f"changed since {self.request.base}: {changed or 'no kernel'}"], style="")
        expected = len(outline.failures) - len(outline.failing)
        named = sorted({f"{problem.kernel} {problem.verdict.value}" for problem in outline.failing})
        ending = "passed" if self._exit_code(outline) is Exit.OK else "FAILED"
        more = (f": {', '.join(named)}" if named else "") + (f"; {expected} known failures" if expected else "")
        self._say(out, [f"cases: {counted or 'none'}", f"gate {ending}{more}: {outline.judged:,} judged runs in "
                        f"{minutes(elapsed)}"], style="")  # fmt: skip

    def _exit_code(self, outline: Outline) -> Exit:
        """Findings first, then what was required and did not run, then what could not be judged."""
        if outline.failing or len(outline.complaints) > len(self.missing):
            return Exit.FINDINGS
        if self.missing:
            return Exit.REQUIRED_NOT_RUN
        if self.session.interruption.wanted:
            return Exit.INTERRUPTED
        if self.session.tally.gave_up:
            return Exit.ORACLE_GAVE_UP
        return Exit.OK if outline.judged else Exit.NOTHING_RAN

    @staticmethod
    def _say(where: Console, lines: Sequence[str], style: str = "yellow") -> None:
        for line in lines:
            where.print(line, style=style, soft_wrap=True)
