"""The last look of a check: at the longest extents, each in one case. What is wrong there alone is found so; what is
wrong elsewhere too was found already, at less cost."""

from __future__ import annotations

from collections.abc import Sequence

from fuzz.campaign.search.examiner import Examiner
from fuzz.core.adapters.target import Target
from fuzz.core.base.verdict import Verdict
from fuzz.core.execute.pool import Pool
from fuzz.core.generate.limits import far_cases
from fuzz.core.laws.registry import Entry
from fuzz.findings.tally import Tally


def wrong_far(pool: Pool, targets: Sequence[Target], seed: int, tally: Tally) -> list[Entry]:
    """Return the cases that a target gets wrong. The tally notes how large those are that ran."""
    cases = far_cases(targets[0].kernel.capability, seed)
    entries = [Entry(case) for case in cases if targets[0].kernel.capability.accepts(case)]
    if not entries:
        return []
    examiner = Examiner(pool, targets, decides=False)  # it takes long beside so many elements
    [found] = examiner.examined([entries], examiner.submit(entries))
    for dtype, largest in found.tally.largest.items():
        tally.note_largest(dtype, largest)
    return [
        entry
        for entry, judgements in zip(entries, found.judgements, strict=True)
        if any(each.verdict is not Verdict.PASS and each.verdict.is_finding for each in judgements)
    ]
