"""Explaining where something failed: `python -m fuzz.uses.fleet.explaining` reads what a campaign asks as JSON text,
and prints the causes that it found."""

from __future__ import annotations

import io
import json
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console

from fuzz.execute.pool import WorkerPool
from fuzz.findings.book import book_in
from fuzz.findings.bucket import Bucket
from fuzz.findings.casefile import from_json, to_json
from fuzz.findings.codec import rule_to_text
from fuzz.triage.trial.trial import replayed
from fuzz.uses.explaining import explain_findings
from fuzz.uses.fleet.campaign import Campaign
from fuzz.uses.search.stopping import Interruption


def causes_here(asked: Mapping[str, Any]) -> Sequence[dict[str, Any]]:
    """The causes of failures of one kernel: each with its smallest case, as its case file says it. There is none where
    no case fails again, or time was over first. Raises UsageError."""
    campaign = msgspec.convert(asked["campaign"], Campaign)
    seen = [from_json(each) for each in asked["cases"]]
    _, targets = campaign.loaded(asked["group"])
    mine = [target for target in targets if target.kernel.op in {case.op for case, _ in seen}]
    by_id = {target.id: target for target in mine}
    with (
        tempfile.TemporaryDirectory() as folder,
        WorkerPool(mine, limit=campaign.case_limit, longest=campaign.longest) as pool,
    ):
        book = book_in(Path(folder), asked["seed"])
        for case, found in seen:
            assert found is not None
            again = replayed(pool, by_id, case, found.law).get(found.target)
            if again is not None and again.judgement.verdict.is_finding:
                book.add(by_id[found.target].kernel.name, again.case, again.judgement, {})
        # By the clock: the campaign that asks waits for no longer.
        err, skip = Console(file=io.StringIO()), Interruption()
        explain_findings(book, pool, mine, asked["seconds"], err, skip, clock=time.monotonic)
        return [_cause(bucket) for bucket in book.buckets.values() if bucket.is_explained]


def _cause(bucket: Bucket) -> dict[str, Any]:
    return {
        "case": to_json(bucket.case, bucket.record()),
        "verdicts": dict(bucket.found.verdicts),
        "core": rule_to_text(bucket.core),
        "whole": bucket.found.is_whole,
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(causes_here(json.load(sys.stdin))) + "\n")
