"""The outline of a use: its outcome and its findings, without anything that differs between two equal runs. All report
formats are made from it."""

from __future__ import annotations

import hashlib
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fuzz.core.adapters.build import NOTE
from fuzz.core.adapters.target import Target
from fuzz.core.base.kernel import Kernel
from fuzz.core.base.text import counted
from fuzz.core.base.verdict import Verdict
from fuzz.explain.explanation import Explanation
from fuzz.findings.book import FindingBook
from fuzz.findings.bucket import Bucket
from fuzz.findings.tally import Tally, WorstPass
from fuzz.report.brief import WIDTH, Commands, Provenance, brief, commands_of, headline
from fuzz.report.failure import HANG, full_text
from fuzz.report.records import environment
from fuzz.report.source import Location, SourceChange, change_of, location_of
from fuzz.report.use_outcome import NO_CASE, UseOutcome, outcome_of
from fuzz.report.wrapping import wrapped_text

VERDICT = Verdict.CRASH
"""The verdict of a broken kernel: it ended before its first case."""
_SHOWN = 12
"""The lines of a compiler's output, from its first error on, that are shown if other kernels are reported too."""


@dataclass(frozen=True)
class Broken:
    """A kernel that cannot be built or started, with the targets where this has the same reason."""

    kernel: str
    targets: tuple[str, ...]
    reason: str
    """The reason in one line."""
    said: str
    """Everything that is known, such as the output of the compiler."""

    @property
    def headline(self) -> str:
        """One line that says what is wrong, and on which targets."""
        more = f" and {len(self.targets) - 1} more targets" if len(self.targets) > 1 else ""
        return f"{VERDICT.value}: {self.kernel} on {self.targets[0]}{more}: {self.reason}"

    def text(self, see_all: str, *, whole: bool) -> str:
        """Return the text as for a failure. Unless the `whole` is shown, `see_all` says how to see the rest."""
        return "\n".join(self._lines(see_all, whole))

    def _lines(self, see_all: str, whole: bool) -> Iterator[str]:
        more = f" and {len(self.targets) - 1} more" if len(self.targets) > 1 else ""
        yield f"{VERDICT.value}  {self.kernel}  {self.targets[0]}{more}"
        yield f"  what          {self.reason}"
        said = self.said.removeprefix(self.reason).strip("\n").splitlines()
        if said:
            quoted = (at for at, line in enumerate(said) if line.strip() and self.reason.endswith(line.strip()))
            first = next(quoted, -1) + 1  # behind the first line that the reason quotes
            ours = [line for line in said[first + _SHOWN :] if line.startswith(NOTE)]
            shown = said if whole else [*said[first:][:_SHOWN], *ours]
            yield from (f"    {line}" for line in shown)
            if len(shown) < len(said):
                yield f"  all of it     {see_all}"


def broken_kernels(targets: Iterable[tuple[str, str, str, str]]) -> list[Broken]:
    """Return the broken kernels. Each target is given as kernel, target, reason and output; targets without output are
    not broken."""
    groups: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for kernel, target, reason, said in targets:
        if said:
            groups.setdefault((kernel, reason), []).append((target, said))
    return [
        Broken(kernel, tuple(target for target, _ in found), reason, found[0][1])
        for (kernel, reason), found in groups.items()
    ]


@dataclass(frozen=True)
class TargetLine:
    """One target, and the counts of what was judged on it."""

    kernel: str
    op: str
    target: str
    judged: int
    findings: int
    worst: Mapping[str, WorstPass]
    """The worst passing run of each dtype."""
    laws: Mapping[str, int]
    """The number of judged twins, by law that the kernel declares."""
    not_run: str
    """The reason why nothing was judged; '' if something was."""

    @property
    def ratios(self) -> str:
        """The worst passing err/budget of each dtype, or the reason why there is none."""
        worst = ", ".join(f"{worst.ratio:.3f} {dtype}" for dtype, worst in self.worst.items())
        return f"NOT_RUN: {self.not_run}" if self.not_run else worst


@dataclass(frozen=True)
class Failure:
    """One bug, as reports show it: a bucket of findings, or a broken kernel."""

    kernel: str
    verdict: Verdict
    law: str
    targets: tuple[str, ...]
    count: int
    location: Location
    explanation: Explanation | None = None
    """The explanation; None for a broken kernel."""
    commands: Commands = field(default_factory=Commands)
    change: SourceChange | None = None
    """The last change to the source of its kernel."""
    known: str = ""
    """The issue, if it is a known failure; known failures do not fail the gate."""
    broken: str = ""
    """The headline of a kernel that cannot be built or started."""
    said: str = ""
    """The output of the compiler or of the start, for a broken kernel."""

    @property
    def fingerprint(self) -> str:
        """A digest that is the same for a bucket in every session, on every machine, and at any line of the source."""
        words = ("kernelfuzz", self.kernel, self.verdict.value, self.law)
        return hashlib.sha256("/".join(words).encode(errors="replace")).hexdigest()[:32]

    @property
    def headline(self) -> str:
        """One line: the kernel, and what is wrong with it."""
        return headline(self.explanation) if self.explanation is not None else self.broken

    @property
    def brief(self) -> str:
        """The first lines, which a person reads first."""
        return brief(self.explanation, self.commands) if self.explanation is not None else self.said

    def told(self, *, verbose: bool, width: int = sys.maxsize) -> str:
        """Return the first lines, and with `verbose` the full text below them, in lines of at most `width` columns."""
        if self.explanation is None:
            return wrapped_text(self.said, width, HANG)
        said = brief(self.explanation, self.commands, min(width, WIDTH))
        return f"{said}\n\n{full_text(self.explanation, self.commands, self._seen, width)}" if verbose else said

    @property
    def text(self) -> str:
        """The full text of everything that is known."""
        return full_text(self.explanation, self.commands, self._seen) if self.explanation is not None else self.said

    @property
    def _seen(self) -> str:
        return f"{counted(self.count, 'time')} on {counted(len(self.targets), 'target')}"


@dataclass(frozen=True)
class Outline:
    """Everything that a report needs."""

    verb: str
    """The command that reports: 'gate', 'run' or 'nightly'."""
    seed: int
    environment: Mapping[str, Any]
    cases: int
    targets: tuple[TargetLine, ...]
    failures: tuple[Failure, ...]
    outcome: UseOutcome
    better: tuple[str, ...] = ()
    """A line for each bug that failed before and passes now."""
    notes: tuple[str, ...] = ()
    """Lines that a reader should know, but that fail nothing."""
    usual: str = NO_CASE
    """The reason for targets that judged nothing and give no reason."""

    @property
    def failing(self) -> tuple[Failure, ...]:
        """The failures that are not known."""
        return tuple(failure for failure in self.failures if not failure.known)

    def but_unsaved(self, lines: Sequence[str]) -> Outline:
        """Return the outline with more lines about files that could not be written."""
        return replace(self, outcome=replace(self.outcome, unsaved=(*self.outcome.unsaved, *lines)))

    @property
    def judged(self) -> int:
        return sum(line.judged for line in self.targets)


def target_lines(targets: Iterable[Target], tally: Tally, usual: str = NO_CASE) -> tuple[TargetLine, ...]:
    """Return a line for each target. `usual` is the reason for targets that judged nothing and give no reason."""
    lines = []
    for target in targets:
        counted = tally.targets[target.id]
        laws = {law: counted.twins[law] for law in target.kernel.laws}
        not_run = "" if counted.judged else counted.not_run_reason or usual
        lines.append(
            TargetLine(
                target.kernel.name, target.kernel.op, target.id, counted.judged, counted.findings,
                dict(counted.worst), laws, not_run,
            )
        )  # fmt: skip
    return tuple(lines)


def session_outline(
    verb: str,
    book: FindingBook,
    targets: Sequence[Target],
    tally: Tally,
    origin: Provenance,
    known: Callable[[Bucket], str] = lambda bucket: "",
    *,
    usual: str = NO_CASE,
    complaints: Sequence[str] = (),
    missing: Sequence[str] = (),
    unsaved: Sequence[str] = (),
    interrupted: bool = False,
    idle: bool = False,
) -> Outline:
    """Return the outline of a session. `known` is a function that returns the issue of a known failure, or ''."""
    by_id, failures = {target.id: target for target in targets}, []
    for bucket in book.seen:
        failures.append(_failure(bucket, by_id[bucket.judgement.target], origin, known(bucket)))
    failures += broken_failures(tally_broken(tally), {target.kernel.name: target.kernel for target in targets}, origin)
    # A failing run counts even if it is in no bucket.
    failing = any(not failure.known for failure in failures) or (tally.findings > 0 and not failures)
    outcome = outcome_of(
        tally, failing=failing, complaints=complaints, missing=missing, errors=book.errors, unsaved=unsaved,
        interrupted=interrupted, idle=idle, usual=usual,
    )  # fmt: skip
    return Outline(
        verb, origin.seed, environment(target.kernel for target in targets), tally.cases,
        target_lines(targets, tally, usual), tuple(failures), outcome, usual=usual,
    )  # fmt: skip


def _failure(bucket: Bucket, target: Target, origin: Provenance, known: str) -> Failure:
    """Return a bucket in the form of reports."""
    judgement, targets = bucket.judgement, tuple(sorted(bucket.targets))
    commands = commands_of(bucket.told, bucket.path, origin, bucket.case.origin.name)
    change = change_of(target.kernel, origin.since)
    return Failure(
        bucket.kernel, judgement.verdict, judgement.broken_law_name, targets, bucket.count,
        location_of(target.kernel, change if origin.since else None), bucket.told, commands, change, known,
    )  # fmt: skip


def tally_broken(tally: Tally) -> list[Broken]:
    """Return the kernels that could not be built or started."""
    return broken_kernels((t.kernel, t.target, t.not_run_reason, t.broken) for t in tally.targets.values())


def broken_failures(
    broken: Sequence[Broken], kernels: Mapping[str, Kernel], origin: Provenance | None = None
) -> list[Failure]:
    """Return broken kernels as failures. With the origin of a session, long texts are cut if there are several."""
    found = []
    for each in broken:
        words = ("run", *(origin.pack_option if origin else ()), "--target", each.targets[0], "--max-cases", "1")
        text = each.text(f"kernelfuzz {shlex.join(words)}", whole=origin is None or len(broken) == 1)
        place = location_of(kernels[each.kernel]) if each.kernel in kernels else Location(each.kernel, 1)
        found.append(Failure(each.kernel, VERDICT, "", each.targets, 0, place, broken=each.headline, said=text))
    return found
