"""Settling: a book's findings, told apart by their verdicts while a run went on, put into one bucket for each cause,
also where it lies in a source of several kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from fuzz.adapters.target import Target, TargetId
from fuzz.findings.book import Bucket, FindingBook
from fuzz.triage.family import Family
from fuzz.triage.shared import breadth, fails_on, one_fault, shared_cause
from fuzz.triage.sorting import Cause, Examine, causes_of, same_bug


def settle(
    book: FindingBook,
    piles: Sequence[Sequence[Bucket]],
    targets: Mapping[str, Target],
    examine: Examine,
    finished: Callable[[], None] = lambda: None,
) -> None:
    """Sort each pile by its causes, as far as `examine` has time for it; `finished` is told after each."""
    settled: list[tuple[Sequence[Bucket], list[Cause]]] = []
    for raw in piles:
        sightings = [sighting for bucket in raw for sighting in bucket.pile.sightings]
        causes = causes_of(sightings, targets, examine)
        finished()
        if causes:
            settled.append((raw, _new(causes, [cause for _, earlier in settled for cause in earlier], raw)))
    _join([causes for _, causes in settled], targets)
    for raw, causes in settled:
        book.settle(raw, causes)


def piles_of(book: FindingBook) -> list[list[Bucket]]:
    """Buckets whose verdicts one cause may mix; those that need other calls first are left as they are."""
    piles: dict[tuple[str, str], list[Bucket]] = {}
    for bucket in book.buckets.values():
        if not bucket.note and not bucket.history:
            piles.setdefault((bucket.kernel, Family.of(bucket.judgement).key), []).append(bucket)
    return list(piles.values())


def note_unexplained(book: FindingBook, option: str) -> None:
    """Say of buckets that nothing explains that `option` would have given them time: call it where time ran out."""
    for bucket in book.buckets.values():
        if bucket.explained is None and not bucket.note and not bucket.history:
            bucket.note = f"not explained: the time for explaining was over; see {option}"


def _join(settled: Sequence[list[Cause]], targets: Mapping[str, Target]) -> None:
    """Leave one cause of those that are one fault in a source of several kernels; it gets their sightings."""
    kept: list[Cause] = []
    for cause in sorted((cause for causes in settled for cause in causes), key=lambda cause: breadth(cause.rule)):
        host = next((each for each in kept if _one_fault(each, cause, targets)), None)
        if host is None:
            kept.append(cause)
            continue
        host.sightings += cause.sightings
        kernels = dict.fromkeys(targets[sighting.judgement.target].kernel for sighting in host.sightings)
        host.explained = replace(host.explained, attribution=shared_cause(kernels))
    for causes in settled:
        causes[:] = [cause for cause in causes if any(cause is each for each in kept)]


def _one_fault(one: Cause, other: Cause, targets: Mapping[str, Target]) -> bool:
    kernels = targets[one.explained.target].kernel, targets[other.explained.target].kernel
    return (
        Family.of(one.explained.judgement).key == Family.of(other.explained.judgement).key
        and one_fault(*kernels, (one.rule, other.rule))
        and fails_on(kernels[1], one.explained.verdicts, targets)
        and fails_on(kernels[0], other.explained.verdicts, targets)
    )


def _new(causes: Sequence[Cause], earlier: Sequence[Cause], raw: Sequence[Bucket]) -> list[Cause]:
    """Those causes that are not one of the earlier ones seen as another verdict; these get their sightings."""
    fresh = []
    for cause in causes:
        kernel = raw[0].kernel
        same = next(
            (e for e in earlier if _kernel(e) == kernel and same_bug(e.explained, cause.explained)),
            None,
        )
        if same is None:
            fresh.append(cause)
        else:
            same.sightings += cause.sightings
    return fresh


def _kernel(cause: Cause) -> str:
    """The kernel's part of a target's name."""
    return TargetId.parse(cause.explained.target).kernel
