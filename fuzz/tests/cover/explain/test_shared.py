"""One fault in a source of which two kernels are made is one bucket."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from fuzz.campaign.explaining import explain_findings
from fuzz.campaign.search.runner import Runner
from fuzz.campaign.search.stopping import Interruption, SessionLimits
from fuzz.core.adapters.c_kernel import CKernel
from fuzz.core.execute.pool import WorkerPool
from fuzz.explain.causes import shared_sources
from fuzz.findings.book import book_in
from fuzz.findings.bucket import Bucket
from fuzz.tests.common.hunting import GENERIC
from fuzz.tests.common.shared_pack import SHARED, planted


def buckets_of(folder: Path, cases: int, *bugs: tuple[str, str, str]) -> dict[str, Bucket]:
    """What a search of the two kernels finds, sorted by causes and explained, by kernel."""
    targets = planted(folder, *bugs)
    book = book_in(folder / "findings", 1)
    with WorkerPool(targets) as pool:
        runner = Runner(pool, targets, SessionLimits(max_cases=cases), book)
        runner.run("rms_norm", 3)
        explain_findings(book, pool, targets, 600.0, Console(file=io.StringIO()), Interruption())
    found = list(book.buckets.values())
    assert sum(bucket.count for bucket in found) == runner.tally.findings
    assert len(found) == len(bugs), [bucket.kernel for bucket in found]
    return {bucket.kernel: bucket for bucket in found}


@pytest.mark.whole
def test_one_bug_in_a_source_that_two_kernels_share_is_one_bucket_that_names_both(tmp_path: Path) -> None:
    both = buckets_of(tmp_path, 160, SHARED)["generic"]
    assert str(both.core) == "n mod 64 = 63"
    assert {target.partition("@")[0] for target in both.targets} == {"c-generic", "c-routed"}
    attribution = both.told.attribution
    assert attribution is not None
    assert attribution.cause == "the shared source generic.c"
    assert attribution.evidence.startswith("generic and routed are made of it")


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
