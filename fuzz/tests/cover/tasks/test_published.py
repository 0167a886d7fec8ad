"""Every published exploit that is a matter of correctness is there as a solution."""

from __future__ import annotations

import re

from fuzz.tests.common.exploits import ANY_VALUES, NUMPY, PUBLISHED
from fuzz.tests.common.exploits_torch import CUDA, TORCH
from fuzz.tests.common.solutions import CHEATS
from fuzz.tests.conftest import CHECKOUT


def test_each_published_exploit_is_a_solution_and_each_solution_is_one_of_them() -> None:
    known = {**CHEATS, **NUMPY, **TORCH, **CUDA, **ANY_VALUES}
    tried = {name for names in PUBLISHED.values() for name in names}
    assert tried <= {*known}, tried - {*known}
    assert {*known} <= tried, "none is tried that nobody has published"


def test_the_page_counts_them() -> None:
    page = (CHECKOUT / "fuzz" / "docs" / "benchmarks.md").read_text()
    rows = re.findall(r"^\| ([a-zN][^|]+) \| (\d+) \| ", page.partition("| classes |")[2], re.MULTILINE)
    classes = {words: int(count) for words, count in rows}
    assert sorted(", ".join(classes).split(", ")) == sorted(PUBLISHED)
    for words, count in classes.items():
        assert sum(len(PUBLISHED[each]) for each in words.split(", ")) == count, words
    assert f"falls into {len(PUBLISHED)} classes. {sum(classes.values())} small solutions" in page
    assert f"{len(CUDA)} of them only where there is a GPU" in page
