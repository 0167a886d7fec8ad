"""What a whole diagnosis says of a declaration that may be wrong."""

from __future__ import annotations

from dataclasses import replace

from fuzz.core.adapters.c_kernel import CKernel
from fuzz.core.base.kernel import Kernel
from fuzz.core.execute.pool import WorkerPool
from fuzz.explain.causes import Pile
from fuzz.explain.diagnosis import TimeAllowance, diagnose
from fuzz.explain.finding import Finding
from fuzz.tests.common.hunting import PACK, failures, target_of
from fuzz.tests.common.told import lines_of
from oracles.formula.contract import Contract


def _found(kernel: Kernel, seed: int = 7) -> Finding:
    target = target_of(kernel, "O2")
    with WorkerPool([target]) as pool:
        (failure,) = failures(pool, target, 1, seed)
        pile = Pile()
        pile.add(Finding(*failure))  # as a run keeps what waits to be explained
        return diagnose(pool, [target], pile.findings[0], TimeAllowance(seconds=600.0))


def test_a_declaration_that_lacks_a_rounding_point_is_asked_for_first() -> None:
    declared = PACK.kernel("weighted-llama")
    assert isinstance(declared, CKernel)
    lines = lines_of(_found(replace(declared, contract=Contract())))
    assert lines[0].startswith("contract: conforms to points={'h': 'input'}, that is, with h = x * rstd rounded to ")
    assert lines[0].endswith("; now it is held to points={}")
