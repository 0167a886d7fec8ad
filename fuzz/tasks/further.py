"""The cases of a task besides those of its search: balanced ones, those with the longest extents, and small ones."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, zip_longest

from fuzz.campaign.corpus.folder import in_batches
from fuzz.campaign.search.examiner import Examiner
from fuzz.campaign.session import Session
from fuzz.core.adapters.target import Target
from fuzz.core.base.hints import hints_of
from fuzz.core.execute.batch import Pool
from fuzz.core.generate.balanced import Balanced, balanced, sized_cases
from fuzz.core.generate.limits import apart_cases, far_cases
from fuzz.core.laws.law import LawCheck
from fuzz.core.laws.registry import LAWS, Entry, twin_of


def balanced_entries(targets: Sequence[Target], session: Session, count: int) -> list[list[Entry]]:
    """Return this many cases, twins included, that are balanced over the axes and follow hints in the sources: as many
    for each of the kernels' capabilities."""
    hints = hints_of({each.kernel.name: each.kernel for each in targets}.values())
    able = [*dict.fromkeys(each.kernel.capability for each in targets)]
    share = -(-count // len(able))

    def is_over() -> bool:
        return session.interruption.wanted

    made = [balanced(each, session.seed, share, session.scope.laws, hints, is_over) for each in able]
    groups = [_with_twin(each) for some in zip_longest(*made) for each in some if each is not None]
    starts = accumulate(map(len, groups), initial=0)
    return [*in_batches(group[: count - start] for group, start in zip(groups, starts, strict=False) if start < count)]


def wrong_far(pool: Pool, targets: Sequence[Target], session: Session) -> list[Entry]:
    """Return the cases with the longest extents, each in one case, and those of other sizes, that a target gets wrong.
    What is wrong elsewhere too was found already, at less cost. The tally notes how large those are that ran."""
    capability, seed, tally = targets[0].kernel.capability, session.seed, session.tally
    cases = [*far_cases(capability, seed), *apart_cases(capability, seed)]
    if not session.scope.axes:  # else balanced cases are of all sizes
        cases += sized_cases(capability, seed)
    entries = [Entry(case) for case in cases if capability.accepts(case)]
    if not entries:
        return []
    # Deciding open elements takes long for such large cases.
    examiner = Examiner(pool, targets, axes=session.scope.axes, decides=False)
    [found] = examiner.examined([entries], examiner.submit(entries))
    for dtype, largest in found.tally.largest.items():
        tally.note_largest(dtype, largest)
    tally.threads = max(tally.threads, found.tally.threads)
    for name, line in found.tally.targets.items():
        if name in tally.targets:
            tally.targets[name].note_axes(line.axes)
    return [
        entry
        for entry, judgements in zip(entries, found.judgements, strict=True)
        if any(each.verdict.is_finding for each in judgements)
    ]


def _with_twin(made: Balanced) -> list[Entry]:
    """Return the case, followed by its twin by a probe if one is named and applies to it."""
    if not made.probe or not LAWS[made.probe].applies(made.case):
        return [Entry(made.case)]
    return [Entry(made.case), twin_of(made.case, LawCheck(LAWS[made.probe], int(made.case.digest[:16], 16)))]
