"""The processes that a Dask worker starts, so that a kernel's crash ends neither the worker nor another process.

`python -m fuzz.extras.fleet.process DESCRIPTOR` takes turns over the connection with that descriptor. Without a
descriptor, it reads a request for an explanation as JSON text, and prints the causes.
"""

from __future__ import annotations

import io
import json
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console

from fuzz.campaign.explaining import explain_findings
from fuzz.campaign.search.search_process import run_search_process
from fuzz.campaign.search.stopping import Interruption
from fuzz.campaign.search.wire import Failed, packed
from fuzz.campaign.starting import pools_of
from fuzz.core.base.errors import UsageError
from fuzz.core.execute.pool import WorkerPool
from fuzz.explain.trial.trial import reproduced
from fuzz.extras.fleet.cluster import Campaign
from fuzz.findings.book import book_in
from fuzz.findings.bucket import Bucket
from fuzz.findings.casefile import from_json, to_json
from fuzz.findings.codec import rule_to_text


def take_turns(descriptor: int) -> None:
    """Take the turns that are requested over the connection until it is closed."""
    connection = Connection(descriptor)
    told = json.loads(connection.recv_bytes())
    try:
        campaign = msgspec.convert(told["campaign"], Campaign)
        pack, targets = campaign.loaded(told["group"])
        make_pool = pools_of(targets, campaign.case_limit, campaign.longest)
        scope = campaign.scope(pack.kernels)
    except Exception as error:
        usage = isinstance(error, UsageError)
        connection.send_bytes(packed(Failed(str(error), traceback.format_exc(), usage)))
        return
    run_search_process(connection, [], targets, scope, make_pool)


def causes_here(asked: Mapping[str, Any]) -> Sequence[dict[str, Any]]:
    """Return the causes of failures of one kernel, each with its smallest case as in its case file; an empty list if no
    case fails again, or if there was no time. Raises UsageError."""
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
            again = reproduced(pool, by_id, case, found.law).get(found.target)
            if again is not None and again.judgement.verdict.is_finding:
                book.add(by_id[found.target].kernel.name, again.case, again.judgement, {})
        # Wall-clock time counts, since the campaign does not wait longer.
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
    if sys.argv[1:]:
        take_turns(int(sys.argv[1]))
    else:
        sys.stdout.write(json.dumps(causes_here(json.load(sys.stdin))) + "\n")
