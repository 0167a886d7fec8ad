"""What is learned of a kernel says nothing that its runs cannot show."""

from __future__ import annotations

import pytest

from fuzz.execute.pool import WorkerPool
from fuzz.tests.common.handmade import a_case
from fuzz.tests.common.hunting import PACK, target_of
from fuzz.uses.learn.evidence import KernelRuns
from fuzz.uses.learn.learning import Learning
from oracles.formula.contract import INPUT, Contract
from oracles.ops import OPS


@pytest.mark.parametrize(("dtypes", "rounds"), [(("f32",), False), (("f32", "f16"), True)])
def test_to_round_to_the_dtype_in_which_everything_is_calculated_is_no_contract(
    dtypes: tuple[str, ...], rounds: bool
) -> None:
    target = target_of(PACK.kernel("weighted"), "O2")
    cases = [a_case("rms_norm", ("weight",), (2, 5), dtype=dtype) for dtype in dtypes]
    evidence = KernelRuns()
    with WorkerPool([target]) as pool:
        for case, outcomes in zip(cases, pool.submit(cases).outcomes(), strict=True):
            evidence.add(case, [(target, outcomes[target.id])])
    near = Learning(OPS["rms_norm"], evidence, lambda: False).near(Contract())
    assert len(evidence.runs) == len(cases)
    assert any("f16" in each.contract.points.values() for each in near)
    assert any(INPUT in each.contract.points.values() for each in near) == rounds
