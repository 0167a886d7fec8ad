"""Kept cases as entries to run: each with the twin of the law that it broke."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fuzz.base.case import Case
from fuzz.laws.law import LawCheck
from fuzz.laws.registry import LAWS, Entry, twin_of
from fuzz.uses.corpus.folder import Kept

BATCH_ENTRIES = 16
"""as many as a search hands over at a time."""
BATCH_ELEMENTS = 1 << 17
"""of a batch's inputs: a batch of long rows would keep every worker waiting for the slowest."""


def entries_of(kept: Kept) -> list[Entry]:
    """The calls of its history, the case and, where it was kept because it broke a law or to show that one holds, its
    twin. The calls are judged like any case; earlier ones in the same process may still hide what the history shows."""
    law = kept.found.law if kept.found is not None else None
    if law is None and "law" in kept.about:
        law = LawCheck(LAWS[kept.about["law"]], int(kept.case.digest[:16], 16))
    history = [Entry(call) for call in kept.found.history] if kept.found is not None else []
    return [*history, Entry(kept.case), *([twin_of(kept.case, law)] if law is not None else [])]


def in_batches(groups: Iterable[list[Entry]]) -> Iterator[list[Entry]]:
    """Batches of about BATCH_ENTRIES entries; a case and its twin stay together."""
    batch: list[Entry] = []
    elements = 0
    for group in groups:
        batch += group
        elements += sum(_elements(entry.case) for entry in group)
        if len(batch) >= BATCH_ENTRIES or elements >= BATCH_ELEMENTS:
            yield batch
            batch, elements = [], 0
    if batch:
        yield batch


def _elements(case: Case) -> int:
    return sum(tensor.layout.size for tensor in case.inputs.values())
