"""The explainer: it shares out the time for explaining, and sorts findings into one bucket for each cause."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from fuzz.core.adapters.target import Target
from fuzz.core.base.case import CaseError
from fuzz.core.base.text import counted
from fuzz.core.execute.batch import Pool
from fuzz.core.judge.trouble import error_words
from fuzz.explain.attribute.history import Need
from fuzz.explain.causes import Cause, breadth, by_way, causes_of, fails_on, kernels_within, one_condition, one_fault
from fuzz.explain.diagnosis import TimeAllowance, TimeShares, Workers, diagnose, never, new_workers, silent
from fuzz.explain.finding import Finding
from fuzz.explain.rule.rule import Rule, Traits
from fuzz.explain.trial.kinship import are_kin
from fuzz.explain.trial.trial import Family, OutOfTimeError, Trials, reproduced, traits_for
from fuzz.findings import casefile
from fuzz.findings.book import FindingBook
from fuzz.findings.bucket import Bucket, family_of


@dataclass(frozen=True)
class _OfSource:
    """Findings whose cause is that of another kernel's bucket, and the verdicts on that bucket's case, by target."""

    bucket: Bucket
    findings: Sequence[Finding]
    verdicts: Mapping[str, str]


@dataclass
class Explainer:
    """Explains the waiting buckets of a book."""

    pool: Pool
    targets: Sequence[Target]
    book: FindingBook
    bounds: TimeShares
    stop: Callable[[], bool] = never
    """A function that is called often: whether to stop with what is known by then."""
    say: Callable[[str], None] = silent
    """A function that is told the progress in a few words."""
    workers: Workers = new_workers
    ready: Callable[[Bucket], None] = lambda bucket: None
    """A function that is called with each bucket that is explained while others wait."""

    def __post_init__(self) -> None:
        self.book.targets = self._by_id = {target.id: target for target in self.targets}
        self._ends = math.inf
        self._waiting = 1
        self._number = 0
        self._cut_short = False

    @property
    def waiting(self) -> list[list[Bucket]]:
        """The waiting buckets in piles, each of one kernel and family, without buckets that need earlier calls."""
        piles: dict[str, list[Bucket]] = {}
        for bucket in self.book.buckets.values():
            if bucket.finding is not None and bucket.pending and not bucket.note and not bucket.history:
                piles.setdefault(family_of(bucket), []).append(bucket)
        return list(piles.values())

    def explain_all(self, seconds: float) -> None:
        """Replace the waiting buckets, which are told apart by verdict only, by one bucket for each cause."""
        # A fault in shared source is explained at the kernel nearest to it; the failures of other kernels follow from
        # it.
        piles = sorted(self.waiting, key=lambda pile: len(self.within(pile[0])))
        self._ends = self.bounds.clock() + seconds
        for number, pile in enumerate(piles):
            self._waiting = len(piles) - number
            for bucket in self._sort(pile):
                if bucket.name in self.book.buckets:
                    self.book.buckets[bucket.name] = self.book.buckets.pop(bucket.name)
                    if self._waiting > 1 and bucket.is_explained:
                        self.ready(bucket)
        if self._left < self.bounds.least_s and not self.stop():
            for bucket in self.book.buckets.values():
                if bucket.pending and not bucket.is_explained and not bucket.note and not bucket.history:
                    bucket.note, bucket.option = self._untried(seconds), self.bounds.option

    def _untried(self, seconds: float) -> str:
        """Return the note for a failure that had no turn in the `seconds` for all failures."""
        spent = f"went into {counted(self._number, 'other')}" if self._number else "is too short"
        more = f"; {self.bounds.option} gives more" if self.bounds.option else ""
        return f"not explained, and shown as it was found: the time for all, {seconds:.3g} s, {spent}{more}"

    def explain(self, bucket: Bucket, ends: float) -> None:
        """Replace a bucket by one for each cause, before the time `ends`."""
        self._ends = ends
        self._sort([bucket])

    def recall(self, bucket: Bucket) -> None:
        """Load the finding that an earlier session kept for the bucket, if its case still fails."""
        try:
            case, kept = casefile.load(bucket.path) if bucket.path is not None else (None, None)
        except CaseError:
            return
        if case is None or kept is None or kept.target not in self._by_id or kept.history:
            return
        seen = reproduced(self.pool, self._by_id, case, kept.law)
        if kept.target in seen and seen[kept.target].judgement.verdict.is_finding:
            verdicts = {name: each.judgement.verdict.value for name, each in seen.items()}
            bucket.finding = Finding(case, seen[kept.target].judgement, verdicts, told=kept.explanation)
            self.book.describe(bucket)
            bucket.source, bucket.written = replace(bucket.source, seed=kept.run_seed), True

    @property
    def _left(self) -> float:
        return self._ends - self.bounds.clock()

    def _sort(self, pile: Sequence[Bucket]) -> list[Bucket]:
        """Sort a pile as `_sorted` does. An internal error is noted in its buckets, and spares other piles."""
        try:
            return self._sorted(pile)
        except OutOfTimeError:
            raise
        except Exception as error:
            for bucket in pile:
                bucket.note = f"not explained: internal error: {error_words(error)}; please report it"
            return []

    def _sorted(self, pile: Sequence[Bucket]) -> list[Bucket]:
        """Return the buckets of the causes that were found; an empty list if there was no time."""
        home, *others = pile
        siblings = [each for each in self.book.siblings(home) if each.core is not None and each not in others]
        rules = [each.core for each in siblings if each.core is not None]
        waiting = [finding for bucket in pile for finding in bucket.pile.findings]
        if home.case.digest not in {finding.case.digest for finding in waiting}:
            waiting.append(home.found)
        source = self._of_source(home, waiting)
        told = {id(finding) for finding in source.findings} if source is not None else set()
        waiting = [finding for finding in waiting if id(finding) not in told]
        if source is not None and not waiting:
            for other in others:
                self.book.merge(other, home)
            self.book.join(home, source.bucket, source.verdicts)
            return []
        rules += [source.bucket.core] if source is not None and source.bucket.core is not None else []
        causes = causes_of(waiting, self._by_id, partial(self._diagnosed, rules), self._are_one)
        if not causes:
            return []
        first = causes[0]
        if self.bounds.later and not first.finding.is_whole:
            self.book.explain(home, first.finding)
            return [home]
        for other in others:
            self.book.merge(other, home)
        home.pile.findings.clear()
        unexplained = []
        if self._cut_short:  # only for lack of time, some members were counted as the first cause
            left = (each for each in first.members if not first.explains(each, self._by_id))
            unexplained = [each for each in left if not first.excuses(each)]
        home = self._placed(home, first, siblings)
        made = [home]
        for cause in causes[1:]:
            same = self._same(home.kernel, cause, siblings)
            if same is not None:
                self.book.move(home, same, cause.members)
                self.book.widen(same, cause.finding.core)
                continue
            made.append(self.book.open(home, cause.members))
            made[-1].pile.findings.clear()
            self.book.explain(made[-1], cause.finding)
        for alike in by_way(unexplained):
            self.book.open(home, alike)
        if source is not None:
            self.book.move(home, source.bucket, source.findings)
            self.book.share(source.bucket, frozenset([home.kernel]), source.verdicts)
        for bucket in made:
            self._join(bucket)
        return made

    def within(self, bucket: Bucket) -> list[str]:
        """Return the names of the kernels whose source is part of the bucket's kernel."""
        target = self._by_id.get(bucket.target)
        known = dict.fromkeys(each.kernel for each in self.targets)
        return [each.name for each in kernels_within(target.kernel, known)] if target is not None else []

    def _of_source(self, home: Bucket, waiting: Sequence[Finding]) -> _OfSource | None:
        """Return the findings that the rule of another kernel explains, if that kernel's source is part of this
        kernel's, and each kernel fails on the other's case. These findings need no explanation of their own."""
        within = self.within(home)
        for bucket in list(self.book.buckets.values()):
            if bucket.kernel not in within or bucket.core is None or bucket.target not in self._by_id:
                continue
            told = [each for each in waiting if bucket.core.holds(self._traits(each))]
            if not told:
                continue
            if bucket.finding is None:
                self.recall(bucket)
            if bucket.finding is None or Family.of(bucket.judgement).key != Family.of(home.judgement).key:
                continue
            smallest = min(told, key=lambda finding: finding.size)
            verdicts = self._verdicts(bucket.finding)
            theirs, mine = self._by_id[bucket.target].kernel, self._by_id[smallest.target].kernel
            if fails_on(mine, verdicts, self._by_id) and fails_on(theirs, self._verdicts(smallest), self._by_id):
                return _OfSource(bucket, told, verdicts)
        return None

    def _traits(self, finding: Finding) -> Traits:
        return traits_for(finding.case, self._by_id[finding.target], Family.of(finding.judgement).law)

    def _diagnosed(self, others: Sequence[Rule], finding: Finding, known: Sequence[Rule]) -> Finding | None:
        """Return the finding with its explanation. Return None if a stop cut it short, if it will be explained later,
        or if there is no time for a further cause of a pile. For the first cause, the parts that need no search are
        always found out."""
        self._cut_short = self.stop() or self._left < self.bounds.least_s
        if self.stop() or (self._cut_short and (self.bounds.later or known)):
            return None
        self._number += 1
        head = f"shrinking {self._number} of {max(self._number, self._number - 1 + self._waiting)}"
        self.say(head)
        share = self._left * self.bounds.one_cause / min(self._waiting, self.bounds.queue)
        seconds = 0.0 if self._cut_short else min(self.bounds.most_s, max(share, self.bounds.least_s))
        allowance = TimeAllowance(
            seconds, self.stop, lambda line: self.say(f"{head}: {line}"), self.bounds.option, self.bounds.shrinks,
            self.bounds.clock,
        )  # fmt: skip
        kernel = self._by_id[finding.target].kernel.name
        fresh = any(each.need is Need.HISTORY for each in self.book.buckets.values() if each.kernel == kernel)
        rules = [*others, *known]
        found = diagnose(self.pool, self.targets, finding, allowance, rules, self.workers, fresh=fresh)
        if not self.bounds.later or found.is_whole or found.diagnosis is None:
            return found
        if self.stop():
            return None
        self._cut_short = True
        half = replace(found.diagnosis.conclusion, core=None)
        return replace(found, diagnosis=replace(found.diagnosis, conclusion=half))

    def _are_one(self, one: Finding, other: Finding) -> bool:
        """Return whether two failures of a kernel are one bug because a path of failing values joins them."""
        target, family = self._by_id[other.target], replace(Family.of(other.judgement), clear=0.0, wide=True)
        if Family.of(one.judgement).key != family.key or one.history or other.history:
            return False
        with self.workers([target], None) as own, contextlib.suppress(OutOfTimeError):
            return are_kin(Trials(own, target, family, out_of_time=self.stop), one.case, other.case)
        return False

    def _placed(self, bucket: Bucket, cause: Cause, siblings: Sequence[Bucket]) -> Bucket:
        """Return the bucket of the first cause: the bucket of its findings, unless a sibling has the same cause."""
        same = self._same(bucket.kernel, cause, siblings)
        if cause.finding.core is None and not bucket.is_sorted and siblings:
            same = siblings[0]
        if same is not None and bucket.core is None:
            self.book.merge(bucket, same)
            self.book.widen(same, cause.finding.core)
            return same
        self.book.explain(bucket, cause.finding)
        return bucket

    def _same(self, kernel: str, cause: Cause, siblings: Sequence[Bucket]) -> Bucket | None:
        """Return a bucket of the kernel with the same cause: its rule differs only in numbers, even if the verdict is
        another, or a path of failing values joins the two."""
        known = siblings
        if not self.bounds.later:
            known = [each for each in self.book.buckets.values() if each.kernel == kernel and each.core is not None]
        core = cause.finding.core
        same = next((each for each in known if one_condition(each.core, core)), None)
        there = (each for each in known if each.finding is not None)
        return same or next((each for each in there if self._are_one(each.found, cause.finding)), None)

    def _join(self, bucket: Bucket) -> None:
        """Join a bucket with one of another kernel, if both have one fault in a source that they share."""
        for other in list(self.book.buckets.values()):
            first, second = sorted((bucket, other), key=lambda each: breadth(each.core))
            verdicts = self._verdicts_of_one_fault(first, second)
            if verdicts is not None:
                self.book.join(second, first, verdicts)
                return

    def _verdicts_of_one_fault(self, one: Bucket, other: Bucket) -> dict[str, str] | None:
        """Return the verdicts on the first bucket's case, if both are one fault: each kernel fails on the other's
        case."""
        if one.target not in self._by_id or other.target not in self._by_id:
            return None
        kernels = self._by_id[one.target].kernel, self._by_id[other.target].kernel
        if not one_fault(*kernels, (one.core, other.core)):
            return None
        verdicts = []
        for bucket, kernel in ((one, kernels[1]), (other, kernels[0])):
            if bucket.finding is None:
                self.recall(bucket)
            if bucket.finding is None:
                return None
            verdicts.append(self._verdicts(bucket.finding))
            if not fails_on(kernel, verdicts[-1], self._by_id):
                return None
        alike = Family.of(one.judgement).key == Family.of(other.judgement).key
        return verdicts[0] if alike else None

    def _verdicts(self, finding: Finding) -> dict[str, str]:
        if finding.diagnosis is not None:
            return dict(finding.verdicts)
        seen = reproduced(self.pool, self._by_id, finding.case, finding.judgement.broken_law)
        return {name: each.judgement.verdict.value for name, each in seen.items()}
