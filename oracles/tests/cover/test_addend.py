"""What is added to a sum may be its first term: an accumulator that starts as the bias, as BLAS with beta = 1."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from oracles.formula.contract import Contract
from oracles.formula.trace import Node, Outputs, dot, rsqrt, total, trace
from oracles.neighbours import neighbours
from oracles.op import Op
from oracles.operand import Operand
from oracles.problem import Problem
from oracles.rounding import STORAGE
from oracles.simulated.simulation import simulate
from oracles.summation import AnyOrder, Lanes, Sequential
from oracles.tests.common.dims import problem
from oracles.tests.common.judged import known, results
from oracles.tests.common.tiers import disagreements
from oracles.truth import Truth

Arrays = Mapping[str, NDArray[Any]]


def linear(x: Node, w: Node, bias: Node | None = None) -> Outputs:
    y = dot(x, w, "k")
    return {"y": y if bias is None else y + bias}


def several(x: Node, b: Node) -> Outputs:
    """Sums that start as what they are subtracted from, and as each other."""
    t = total(x * x, ("c", "s"))
    return {"y": b - t, "z": total(x, "s") + total(x * x, "s"), "r": rsqrt(t + 1e-5)}


LINEAR = Op(
    linear,
    inputs=(Operand("x", "m k"), Operand("w", "k n"), Operand("bias", "n", optional=True)),
    outputs=(Operand("y", "m n"),),
)
SEVERAL = Op(
    several,
    inputs=(Operand("x", "m c s"), Operand("b", "m")),
    outputs=(Operand("y", "m"), Operand("z", "m c"), Operand("r", "m")),
)
EITHER = Contract(sums={"k": AnyOrder()}, addend="either")
MANY: tuple[Mapping[str, Any], ...] = (
    {}, {"fused": False}, {"denormals": "flush"}, {"nonfinite": "overflow"}, {"dtypes": {"y": "bf16", "t": "f16"}},
    {"sums": {"k": Lanes(4, 2, "scalar"), "c s": Lanes(2, 2, "predicated")}}, {"zeros": "any", "saturate": True},
)  # fmt: skip


@pytest.fixture(autouse=True)
def _known() -> Iterator[None]:
    with known(LINEAR, SEVERAL):
        yield


def _linear(k: int, bias: float, seed: int = 0, *, m: int = 6, n: int = 9) -> Problem:
    random = np.random.default_rng(seed)
    x, w = random.normal(size=(m, k)), random.normal(size=(k, n))
    inputs = {"x": x.astype(np.float32), "w": w.astype(np.float32), "bias": np.full(n, bias, np.float32)}
    return Problem("linear", {"axis": 1}, inputs, {"y": "f32"}, structured=True)


def _in_a_loop(of: Problem, first: bool) -> dict[str, NDArray[Any]]:
    x, w, bias = (of.inputs[name] for name in ("x", "w", "bias"))
    y = np.zeros((len(x), len(bias)), np.float32) + (bias if first else np.float32(0))
    for place in range(x.shape[1]):
        y = y + x[:, place, None] * w[place]
    return {"y": y if first else y + bias}


def test_a_bias_far_larger_than_the_terms_may_come_first_or_last() -> None:
    """Last it is rounded once, and first as often as there are terms."""
    right = 0
    for seed in range(20):
        of = _linear(30, 1e4, seed)
        first, last = _in_a_loop(of, True), _in_a_loop(of, False)
        assert results(of, EITHER, first) == results(of, EITHER, last) == results(of, Contract(), last) == ["pass"]
        right += results(of, Contract(), first) == ["pass"]
    assert right < 5


@pytest.mark.parametrize("wrong", ["lost", "twice", "short", "of another column"])
def test_a_wrong_kernel_is_not_excused(wrong: str) -> None:
    of = _linear(30, 2.0)
    of.inputs["bias"][4] = 1.999
    y = _in_a_loop(of, True)["y"]
    if wrong == "short":
        y = y - of.inputs["x"][:, -1, None] * of.inputs["w"][-1]
    elif wrong == "of another column":
        y[:, 4] += np.float32(0.001)
    else:
        y = y + of.inputs["bias"] * np.float32(-1 if wrong == "lost" else 1)
    assert results(of, EITHER, {"y": y.astype(np.float32)}) == ["numeric"]


@pytest.mark.some(1)
@pytest.mark.parametrize("op", [LINEAR, SEVERAL], ids=lambda op: op.name)
def test_correct_kernels_pass(op: Op) -> None:
    found = []
    for seed in range(18):
        random = np.random.default_rng(seed)
        extents = {dim: int(random.choice([0, 1, 2, 3, 9, 17])) for dim in op.named}
        dtype, out = (("f32", ""), ("bf16", "f32"), ("f16", ""), ("f64", ""))[seed % 4]
        of = problem(op, extents, (), dtype, seed, out=out, spread=4 * (seed % 5))
        for more in MANY:
            contract = Contract("f64" if dtype == "f64" else "f32", addend="either", **more)
            checks = Truth(of).check(contract, simulate(of, contract, random))
            found += [(seed, dtype, extents, more, check) for check in checks if check.result != "pass"]
    assert not found, found[0]


@pytest.mark.parametrize("dtype", ["f32", "f16"])
@pytest.mark.parametrize(("y", "right"), [(-1.5 * 2.0**-18, "pass"), (0.0, "pass"), (2.0**-13, "numeric")])
def test_a_sum_of_another_dtype_is_not_rounded_to_its_end_where_it_starts(y: float, right: str, dtype: str) -> None:
    """1.5 (2^10 + 1) 2^-18 is rounded to 1.5 2^-8 in bf16 before the bias is added, and not where it starts as that."""
    x, weight = (np.array([[value]], STORAGE[dtype]) for value in (-(1.0 + 2.0**-10), 1.5 * 2.0**-8))
    of = Problem("conv1d", {"axis": 1, "silu": 0.0}, {"x": x, "weight": weight, "bias": weight[0]}, {"y": dtype})
    got = {"y": np.array([[y]], STORAGE[dtype])}
    assert results(of, Contract(dtypes={"z": "bf16"}, addend="either"), got) == [right]
    assert results(of, Contract(dtypes={"z": "bf16"}), got) == ["numeric" if y else "pass"]


def test_what_overflows_without_its_start_need_not_with_it() -> None:
    x, bias = np.full((1, 3), 0.75 * 2.0**127, np.float32), np.array([-1.5 * 2.0**127], np.float32)
    of = Problem("linear", {"axis": 1}, {"x": x, "w": np.ones((3, 1), np.float32), "bias": bias}, {"y": "f32"})
    assert results(of, EITHER, {"y": x[:, :1]}) == ["pass"]
    assert results(of, EITHER, {"y": np.array([[np.inf]], np.float32)}) == ["pass"]
    assert results(of, Contract(), {"y": x[:, :1]}) == ["pass"], "the exact value is right whatever overflows"
    assert results(of, Contract(), {"y": x[:, :1] / 2}) == ["numeric"]
    bias[0] = 0.0
    assert results(of, EITHER, {"y": np.array([[np.inf]], np.float32)}) == ["pass"]
    assert results(of, EITHER, {"y": np.array([[1.0]], np.float32)}) == ["numeric"]


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_both_tiers_say_the_same(dtype: str) -> None:
    for op in (LINEAR, SEVERAL):
        of = problem(op, dict.fromkeys(op.named, 3), (), dtype, 1, spread=6)
        compared, _, wrong = disagreements(of, Contract(dtype, addend="either"), np.random.default_rng(0))
        assert compared
        assert not wrong


def test_nothing_else_is_wider() -> None:
    """What has no sum under an addition, and a sum that is an output or goes elsewhere too."""

    def others(x: Node, b: Node) -> Outputs:
        t, u = total(x, "n"), total(x * x, "n")
        return {"t": t, "y": t + b, "z": u / 3.0 + b, "v": u * b, "x": x - total(x * 0.5, "n")}

    graph = trace(others, {"x": ("...", "n"), "b": ("...",)})
    assert not graph.started
    of = _linear(8, 0.0)
    bare = Problem("linear", {"axis": 1}, {name: of.inputs[name] for name in "xw"}, {"y": "f32"})
    widths = [Truth(bare).enclosures(each, True)["y"].below for each in (EITHER, Contract(sums={"k": Sequential()}))]
    assert np.array_equal(widths[0], widths[1])


def test_it_is_a_neighbour_where_a_sum_may_start_so() -> None:
    assert "addend='either'" in {each.text for each in neighbours(LINEAR, Contract())}
