"""Shrinking and explaining what a check has found, within its share of time."""

from __future__ import annotations

import time
from collections.abc import Sequence

from fuzz.adapters.target import Target
from fuzz.execute.pool import Pool
from fuzz.findings.attribution import note_unexplained, piles_of, settle
from fuzz.findings.book import FindingBook
from fuzz.triage.examination import Allowance, Explained, Workers, examine
from fuzz.triage.rule import Rule
from fuzz.triage.sorting import Sighting
from fuzz.uses.check.plan import GIVEN

_OPTION = "--kernelfuzz-explain-time"
_LEAST_S = 0.5
"""with less time left than that a finding is shown as it is."""


def explain(book: FindingBook, pool: Pool, targets: Sequence[Target], workers: Workers) -> None:
    """Sort the book's findings by their causes, each cause with its smallest case and the rule of when it fails.

    The time that the command line of the tests gives is for all of them: the first may take half of what is left.
    """
    end = time.monotonic() + GIVEN.options.explain_s
    piles = piles_of(book)
    waiting = len(piles)

    def one(sighting: Sighting, known: Sequence[Rule]) -> Explained | None:
        left = end - time.monotonic()
        if left < _LEAST_S:
            return None
        allowance = Allowance(left / (2 if waiting > 1 else 1), option=_OPTION)
        return examine(pool, targets, sighting.case, sighting.judgement, allowance, known, workers)

    def finished() -> None:
        nonlocal waiting
        waiting -= 1

    settle(book, piles, {target.id: target for target in targets}, one, finished)
    if GIVEN.options.explain_s and end - time.monotonic() < _LEAST_S:  # without any it was not asked for
        note_unexplained(book, _OPTION)
