"""One fault in a source of which two kernels are made is one bucket; two faults stay two."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from fuzz.adapters.c_kernel import CKernel
from fuzz.execute.pool import WorkerPool
from fuzz.findings.book import book_in
from fuzz.findings.bucket import Bucket
from fuzz.tests.common.hunting import GENERIC
from fuzz.tests.common.shared_pack import OWN, SHARED, planted
from fuzz.triage.causes import shared_sources
from fuzz.uses.explaining import explain_findings
from fuzz.uses.search.runner import Limits, Runner
from fuzz.uses.search.stopping import Interruption


def _buckets(folder: Path, *bugs: tuple[str, str, str]) -> list[Bucket]:
    targets = planted(folder, *bugs)
    book = book_in(folder / "findings", 1)
    with WorkerPool(targets) as pool:
        runner = Runner(pool, targets, Limits(max_cases=480), book)
        runner.run("rms_norm", 3)
        explain_findings(book, pool, targets, 600.0, Console(file=io.StringIO()), Interruption())
    assert sum(bucket.count for bucket in book.buckets.values()) == runner.tally.findings
    return list(book.buckets.values())


def test_one_bug_in_a_source_that_two_kernels_share_is_one_bucket_that_names_both(tmp_path: Path) -> None:
    """A bug of the one kernel is no part of it, and a bucket of its own."""
    found = _buckets(tmp_path, SHARED, OWN)
    buckets = {bucket.kernel: bucket for bucket in found}
    assert len(found) == 2, [bucket.kernel for bucket in found]
    cores = {name: str(bucket.core) for name, bucket in buckets.items()}
    assert cores == {"generic": "n mod 64 = 63", "routed": "n mod 16 = 5"}
    both = buckets["generic"]
    assert {target.partition("@")[0] for target in both.targets} == {"c-generic", "c-routed"}
    assert both.found.lines()[1].startswith("cause: the shared source generic.c: generic and routed are made of it")


@pytest.mark.parametrize(
    ("one", "other", "shared"),
    [
        ("", '#include "one.c"', ["one.c"]),
        ('#include "common.h"', '#include "common.h"', ["common.h"]),
        ('#include "common.h"', '#include "common.h"\n#include "one.c"', ["one.c"]),
        ('#include "kernelfuzz.h"', '#include "kernelfuzz.h"', []),
    ],
)
def test_what_every_kernel_includes_is_no_shared_source(
    one: str, other: str, shared: list[str], tmp_path: Path
) -> None:
    (tmp_path / "common.h").write_text("/* helpers */")
    (tmp_path / "one.c").write_text(one)
    (tmp_path / "other.c").write_text(other)
    assert shared_sources([_kernel(tmp_path / "one.c"), _kernel(tmp_path / "other.c")]) == shared


def test_two_edits_of_one_source_share_what_it_includes_and_not_the_source(tmp_path: Path) -> None:
    (tmp_path / "one.c").write_text("int a = 1, b = 1;")
    kernel = _kernel(tmp_path / "one.c")
    edited = [replace(kernel, name=name, edits=((f"{name} = 1", f"{name} = 2"),)) for name in "ab"]
    assert shared_sources(edited) == []


def _kernel(source: Path) -> CKernel:
    assert isinstance(GENERIC, CKernel)
    return replace(GENERIC, name=source.stem, source=source)
