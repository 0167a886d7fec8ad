"""Mutants that keep something from call to call: none shows alone, and the best of them only in a sequence."""

from __future__ import annotations

from itertools import islice, pairwise
from pathlib import Path

import pytest

from fuzz import Mutant
from fuzz.core.adapters.pack import load
from fuzz.core.adapters.registry import expand
from fuzz.core.adapters.toolchain import this_host
from fuzz.core.base.case import Case
from fuzz.core.base.verdict import Verdict
from fuzz.core.execute.pool import WorkerPool
from fuzz.core.judge.judge import Judge
from fuzz.tests.common.examples import searched
from fuzz.tests.common.handmade import a_case, dense

PACK = load(Path(__file__).resolve().parents[2])
MUTANTS = {mutant.name: mutant for mutant in PACK.mutants if mutant.needs_history}


def _case(mutant: Mutant, n: int = 13, eps: float = 0.5, dtype: str = "f32") -> Case:
    optional = ("sum",) if mutant.base == "add-generic" else ()
    return a_case(PACK.kernel(mutant.base).op, optional, (2, n), dtype=dtype, eps=eps, layout=dense)


NEEDED = {
    "weighted-eps-of-first-call": {"eps": 1.0},
    "add-buffer-of-first-call": {"n": 5},
    "add-tail-of-longer-row": {"n": 16},
    "weighted-plan-of-last-call": {"dtype": "bf16"},
}
"""by mutant: in what the call before must differ."""


@pytest.mark.some(2)
@pytest.mark.parametrize("name", list(MUTANTS))
def test_a_call_passes_alone_and_fails_after_one_that_differs_in_one_thing(name: str) -> None:
    mutant = MUTANTS[name]
    (target,) = [t for t in expand([mutant.apply(PACK.kernel(mutant.base))], this_host()) if "native:gcc-O2" in t.id]
    case, before = _case(mutant), _case(mutant, **NEEDED[name])  # type: ignore[arg-type]
    verdicts = []
    with WorkerPool([target]) as pool:
        for calls in ([case, case], [before, case]):
            pool.renew()
            outcomes = pool.submit(calls).outcomes()
            verdicts.append(Judge(case).judge(outcomes[-1][target.id], target.contract).verdict)
    assert verdicts[0] is Verdict.PASS
    assert verdicts[1].value in mutant.caught_as


def _would_show_the_plan(first: Case, second: Case) -> bool:
    """Whether the mutant that keeps its plan by all but the dtypes is wrong in the second of two calls."""

    def key(case: Case) -> object:
        x, y = case.inputs["x"].layout, case.outputs["y"].layout
        there = ("weight" in case.inputs, "rstd" in case.outputs)
        return x.shape, x.strides, y.strides, case.params["eps"], case.params.get("weight_offset", 0.0), there

    coarser = (first.outputs["y"].dtype, second.outputs["y"].dtype)
    return key(first) == key(second) and coarser in {(low, "f32") for low in ("f16", "bf16")}


@pytest.mark.whole
@pytest.mark.parametrize(("sequences", "least", "most"), [(True, 2, 99), (False, 0, 0)])
def test_only_a_search_with_sequences_shows_a_plan_that_is_kept_by_all_but_the_dtype(
    sequences: bool, least: int, most: int
) -> None:
    """Counted over 1,600 cases that no kernel has to run: pairs of neighbours that would show it."""
    cases = list(islice(searched("rms_norm", 3, [PACK.kernel("weighted")], sequences=sequences), 1600))
    shown = sum(_would_show_the_plan(*pair) for pair in pairwise(cases))
    assert least <= shown <= most
