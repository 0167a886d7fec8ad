"""What is measured of the built-in kernels agrees with what they declare."""

from __future__ import annotations

import pytest

from fuzz.contracts.bench import SUMS, SumBench, UnmeasurableError, template
from fuzz.contracts.measuring import measured, orders_at
from fuzz.core.adapters.pack import built_in, load
from fuzz.core.adapters.registry import expand
from fuzz.core.base.kernel import Kernel
from fuzz.core.execute.pool import WorkerPool
from fuzz.tasks.check.reference import lenient
from oracles.algorithm import traced
from oracles.op import Op
from oracles.ops import OPS


def _sums(op: Op) -> bool:
    """Whether it has plain sums along `n`: no order is read of a scan's, nor of what has integers as outputs."""
    nodes = traced(op, [*(each.name for each in op.operands), *(each.name for each in op.parameters)]).nodes
    is_sum = any(node.kind in SUMS and node.label == "n" for node in nodes)
    return is_sum and not any(each.integers for each in op.outputs)


_KERNELS = [each for each in load(built_in()).kernels if "n" in each.contract.sums and _sums(OPS[each.op])]

_UNSEEN = frozenset({"layer-norm-backward-persistent", "cross-entropy-online", "row-var-backward-welford"})
"""What has zeros for rows of equal elements, or a sum in an order that is none of those that are known, so that no
output shows its sums."""


@pytest.mark.parametrize("kernel", _KERNELS, ids=lambda each: each.name)
def test_an_order_that_is_declared_is_among_those_that_are_measured(kernel: Kernel) -> None:
    """The real one is never longer than what is measured, and one that fits is no longer than it says."""
    here = [each for each in expand([kernel]) if each.unavailable() is None]
    if not here:
        pytest.skip("this processor has no AVX-512")
    target = here[-1]
    with WorkerPool([target]) as pool:
        try:
            bench = SumBench(pool, target, template(target, "f32").sized("n", 1031))
        except UnmeasurableError as error:
            pytest.skip(f"without a GPU {error}")
        orders, unread = orders_at(bench, "n")
        found = measured(pool, target, lenient(OPS[kernel.op], "torch"))
    assert found.repeats
    assert bool(orders) == (kernel.name not in _UNSEEN), unread
    if not orders:
        return
    seen, declared = orders["n"], target.contract.sums["n"].chain(orders["n"].terms)
    assert any(tree.chain <= declared for tree in seen.trees)
    assert seen.chain >= min(tree.chain for tree in seen.trees)
    if type(target.contract.sums["n"]).__name__ == "Lanes":  # no mere bound
        assert seen.chain >= declared - seen.terms % 8
