"""The outline of a night, for the formats that `run` and `gate` write too."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from fuzz.base.kernel import Kernel
from fuzz.base.verdict import Verdict
from fuzz.findings.database_views import BucketTotals, Mark, NightView
from fuzz.findings.tally import Worst
from fuzz.report.location import Location, location_of
from fuzz.report.nights import bucket_text
from fuzz.report.outline import Outline, Problem, TargetLine


def outline_of(seen: NightView, kernels: Iterable[Kernel], complaints: Sequence[str] = ()) -> Outline:
    """What failed in this night, and what ran; `kernels` say where their sources are."""
    known = {kernel.name: kernel for kernel in kernels}
    worst = _worst(seen.accuracy)
    lines = tuple(
        TargetLine(
            row.kernel, row.op, row.name, row.judged, row.findings, worst.get(row.name, {}),
            {**dict.fromkeys(known[row.kernel].laws if row.kernel in known else (), 0), **seen.twins.get(row.name, {})},
            "" if row.judged else row.reason or "no case fitted it in the time that there was",
        )
        for row in seen.targets
    )  # fmt: skip
    # By signature: buckets that share a fingerprint are numbered in this order, every night the same.
    failing = sorted(seen.failing, key=lambda bucket: bucket.row.id)
    passing = [bucket for bucket in seen.buckets if bucket.status == "passes now"]
    return Outline(
        verb="nightly",
        seed=seen.night.seed,
        environment=seen.night.environment,
        cases=seen.cases,
        targets=lines,
        problems=tuple(_problem(bucket, known) for bucket in failing),
        complaints=tuple(complaints),
        notes=tuple(f"passes now: {each.row.verdict} {each.row.kernel}, {each.row.where}" for each in passing),
    )


def _problem(bucket: BucketTotals, known: Mapping[str, Kernel]) -> Problem:
    row = bucket.row
    place = location_of(known[row.kernel]) if row.kernel in known else Location(row.kernel, 1)
    targets = tuple(sorted(bucket.sightings))
    count = sum(bucket.sightings.values())
    return Problem(row.kernel, Verdict(row.verdict), row.law, targets, count, bucket_text(bucket), place)


def _worst(marks: Iterable[Mark]) -> dict[str, dict[str, Worst]]:
    """By target and dtype."""
    found: dict[str, dict[str, Worst]] = {}
    for mark in marks:
        known = found.setdefault(mark.target, {}).get(mark.dtype)
        if known is None or mark.ratio > known.ratio:
            found[mark.target][mark.dtype] = Worst(mark.ratio, mark.where)
    return found
