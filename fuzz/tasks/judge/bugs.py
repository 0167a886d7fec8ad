"""The bugs of a solution, each as one object that a program can act on."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from fuzz.core.adapters.target import Target
from fuzz.core.base.case import Case
from fuzz.core.generate.search import Search
from fuzz.explain.explanation import Explanation
from fuzz.explain.facts import explanation_of
from fuzz.findings.book import FindingBook
from fuzz.findings.bucket import Bucket
from fuzz.findings.tally import Tally
from fuzz.references.replay.oracle import ReplayFailure
from fuzz.report.brief import brief_of
from fuzz.report.outline import VERDICT, tally_broken
from fuzz.tasks.judge.inputs import expression_of, replay_expression
from fuzz.tasks.judge.ruling import BugLine, FoundBug

_LINE = re.compile(r"(?P<file>[^\s()\"']+\.py)\"?,? line (?P<line>\d+)")
_WIDE = 10_000


@dataclass(frozen=True)
class BugsOf:
    """What the bugs of solutions are described with."""

    book: FindingBook
    tally: Tally
    targets: Mapping[str, Target]
    """The targets by id."""
    search: Search
    pack: str
    """The folder with the op and the kernels."""

    def of(self, kernel: str, files: Mapping[str, str]) -> Iterator[FoundBug]:
        """Yield the bugs of a kernel, whose own files these are, in the order in which the text prints them."""
        for place, bucket in enumerate(each for each in self.book.buckets.values() if each.kernel == kernel):
            yield from self._of_bucket(bucket, place, files)
        for broken in tally_broken(self.tally):
            if broken.kernel == kernel:
                head = broken.text("", whole=False).splitlines()[0]
                line = line_in(f"{broken.reason}\n{broken.said}", files)
                yield FoundBug(head, VERDICT.value, broken.targets[0], 0, broken.reason, line=line)

    def _of_bucket(self, bucket: Bucket, place: int, files: Mapping[str, str]) -> Iterator[FoundBug]:
        told, diagnosis = bucket.told, bucket.found.diagnosis
        cases = [bucket.case, *([diagnosis.original] if diagnosis is not None else [])]
        yield self._told(told, cases, bucket.count - sum(told.beside.values()), place, files)
        for other in diagnosis.others if diagnosis is not None else ():
            beside = explanation_of(other, self.targets.get(other.target))
            yield self._told(beside, [other.case], told.beside[beside.verdict.value], None, files)

    def _told(
        self, told: Explanation, cases: Sequence[Case], runs: int, failure: int | None, files: Mapping[str, str]
    ) -> FoundBug:  # fmt: skip
        said, rules = brief_of(told, _WIDE), told.rule.alternatives if told.rule is not None else ()
        atoms = [atom for rule in rules for atom in rule.cause.atoms]
        about = [*_about(told), *(atom.trait.subject for atom in atoms)]
        return FoundBug(
            said.headline, told.verdict.value, told.target, runs, said.outcome, _cause(told),
            tuple(dict.fromkeys(filter(None, about))), tuple(map(str, atoms or filter(None, [told.earlier]))),
            tuple(map(str, told.shared.condition.atoms if told.shared is not None else ())),
            {each.subject: each.passing for each in told.counterfactuals if each.passing},
            expression_of(cases, self.search, self.pack), line_in(told.reason, files), failure,
        )  # fmt: skip


def replay_bug(
    kernel: str, found: ReplayFailure, runs: int, files: Mapping[str, str], failure: int | None, against: str = ""
) -> FoundBug:
    """Return the bug that a replay of the reference in the file `against` found."""
    first, *rest = found.words.splitlines()
    outcome = " ".join(line.strip() for line in rest) or first
    line, inputs = line_in(found.words, files), replay_expression(found, against)
    head = f"FAIL  {kernel}  {first}"
    return FoundBug(head, found.verdict.value, found.target, runs, outcome, inputs=inputs, line=line, failure=failure)


def line_in(said: str, files: Mapping[str, str]) -> BugLine | None:
    """Return the last line of a solution's files that a text names, by file name and number; None if it names none."""
    for match in reversed([*_LINE.finditer(said)]):
        lines = files.get(match["file"].rpartition("/")[2], "").splitlines()
        if 0 < int(match["line"]) <= len(lines):
            return BugLine(match["file"].rpartition("/")[2], int(match["line"]), lines[int(match["line"]) - 1].strip())
    return None


def _cause(told: Explanation) -> str:
    if told.contract is not None and told.contract.telling:
        return "contract"
    if told.mechanism is not None:
        return told.mechanism.kind
    known = {"declaration": told.suggestion, "state": told.earlier, "unset": told.unset, "unsteady": told.unsteady}
    return next((name for name, each in known.items() if each is not None), "")


def _about(told: Explanation) -> Sequence[str]:
    found = told.mechanism
    return () if found is None else (found.dim, *re.split(r", | and ", found.about))
