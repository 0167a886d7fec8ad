"""What failed on workers with another processor alone, and so is explained there: this machine cannot run it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fuzz.base.verdict import Verdict
from fuzz.findings.book import FindingBook
from fuzz.findings.bucket import Bucket
from fuzz.findings.casefile import Found, from_json, to_json
from fuzz.findings.codec import rule_from_text
from fuzz.judge.judge import Judgement
from fuzz.judge.trouble import error_words
from fuzz.triage.finding import Finding
from fuzz.triage.rule.rule import Rule
from fuzz.triage.trial.family import Family
from fuzz.triage.trial.trial import traits_for
from fuzz.uses.fleet.executor import DaskExecutor

_MOST_CASES = 64
"""At most so many failures are sent, the smallest first: several bugs may be among them."""


@dataclass(frozen=True)
class _Cause:
    """A cause that a worker found."""

    finding: Finding
    core: Rule | None
    whole: bool

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> _Cause:
        """Raises CaseError, ValueError."""
        case, found = from_json(told["case"])
        if found is None:
            raise ValueError("it says nothing of what was found")
        judgement = Judgement(found.target, case, Verdict(found.verdict), law=found.law)
        finding = Finding(case, judgement, told["verdicts"], told=found.explanation)
        return cls(finding, rule_from_text(told["core"]), told["whole"])


def explain_there(
    book: FindingBook, pile: Sequence[Bucket], executor: DaskExecutor, seconds: float, over: Callable[[], bool]
) -> None:
    """Have a worker explain buckets whose verdicts one cause may mix, in so many seconds for each cause, and put one
    bucket for each in their place; or note why none did. It is not waited for once it is `over`."""
    home, *others = pile
    seen = sorted((each for bucket in pile for each in bucket.pile.findings), key=lambda each: each.size)
    sent = {each.case.digest: each for each in (*(bucket.found for bucket in pile), *seen)}
    cases = [to_json(each.case, Found(each.target, each.judgement.verdict.value, 0, "", each.judgement.broken_law))
             for each in list(sent.values())[:_MOST_CASES]]  # fmt: skip
    try:
        causes = [_Cause.of(told) for told in executor.causes(home.target, cases, seconds, over)]
        why = "where it did not fail again, or was not explained in time"
    except Exception as error:
        causes, why = [], f"and not explained there: {error_words(error)}"
    if not causes:
        for bucket in pile:
            bucket.note = f"seen on another machine, {why}"
        return
    for other in others:
        book.merge(other, home)
    home.pile.findings.clear()
    first, *further = causes
    book.tell(home, first.finding, first.core, whole=first.whole)
    for cause in further:
        members = [each for each in seen if _holds(book, cause.core, each)]
        if members:
            fresh = book.open(home, members)
            fresh.pile.findings.clear()
            book.tell(fresh, cause.finding, cause.core, whole=cause.whole)


def _holds(book: FindingBook, core: Rule | None, finding: Finding) -> bool:
    law = Family.of(finding.judgement).law
    return core is not None and core.holds(traits_for(finding.case, book.targets[finding.target], law))
