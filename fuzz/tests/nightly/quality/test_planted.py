"""The planted bugs are as true as they say: on fresh cases of a search each kernel fails where its rule says so, and
nowhere else."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from fuzz.campaign.search.runner import Runner
from fuzz.campaign.search.stopping import SessionLimits
from fuzz.campaign.search.turn_runner import SearchScope
from fuzz.core.adapters.pack import load
from fuzz.core.adapters.registry import expand
from fuzz.core.base.case import Case
from fuzz.core.base.kernel import Kernel
from fuzz.core.base.verdict import Verdict
from fuzz.core.execute.pool import WorkerPool
from fuzz.core.generate.search import Search
from fuzz.core.generate.turn import Turn
from fuzz.core.judge.judge import Judgement
from fuzz.core.laws.registry import Entry
from fuzz.findings.book import book_in
from fuzz.findings.tally import Observer
from fuzz.quality.planted.bugs import BUGS
from fuzz.tests.common.planted_calls import fails
from fuzz.tests.conftest import CHECKOUT

_TURNS = 5
_PACK = load(CHECKOUT / "fuzz" / "quality" / "planted")


class Disagreements(Observer):
    """Cases of which the rule and the judge say different things."""

    def __init__(self, bug: str) -> None:
        self.bug, self.judged_cases = bug, 0
        self.found: list[str] = []

    def judged(self, case: Case, judgements: Sequence[Judgement]) -> None:
        is_wrong = bool(self.bug) and fails(BUGS[self.bug], case)
        for each in judgements:
            if each.verdict in (Verdict.ORACLE_GAVE_UP, Verdict.NOT_RUN):
                continue
            self.judged_cases += 1
            if each.verdict.is_finding is not is_wrong:
                self.found.append(f"{case.origin.name}: {each.verdict.value}, and the rule says {is_wrong}")


@pytest.mark.parametrize("kernel", _PACK.kernels, ids=lambda kernel: kernel.name)
def test_a_kernel_fails_where_its_rule_says_so_and_nowhere_else(tmp_path: Path, kernel: Kernel) -> None:
    seen = Disagreements("" if kernel.name.startswith("right-") else kernel.name)
    targets = expand([kernel])
    search = Search(kernel.op, 1, [kernel])
    with WorkerPool(targets) as pool:
        runner = Runner(pool, targets, SessionLimits(), book_in(tmp_path, 1), SearchScope((kernel,)), (seen,))
        turns = (search.cases(Turn(shard, 1), b"")[0] for shard in range(_TURNS))
        runner.run_entries([Entry(made.case) for made in turn] for turn in turns)
    assert seen.found == []
    assert seen.judged_cases > 8 * _TURNS
