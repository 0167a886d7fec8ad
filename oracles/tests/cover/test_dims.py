"""Ops with dimensions of any names are judged by both tiers: products of matrices, and attention."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from oracles.formula.contract import Contract
from oracles.formula.trace import Node, Outputs, dot
from oracles.op import Op
from oracles.operand import Operand, OpError
from oracles.problem import Problem, ProblemError
from oracles.summation import AnyOrder, Lanes, Sequential
from oracles.tests.common.dims import ALL, ATTEND, GEMM, PRODUCT, TURN, problem, unsound
from oracles.tests.common.judged import kernel as kernel_of
from oracles.tests.common.judged import known, returned, simulated
from oracles.tests.common.tiers import disagreements
from oracles.truth import Truth

Arrays = dict[str, NDArray[Any]]
SIZES = {"m": 3, "k": 37, "n": 5, "i": 4, "d": 6, "j": 9, "e": 3}
ANY = Contract(sums={dim: AnyOrder() for dim in "kdj"})


@pytest.fixture(autouse=True)
def _known() -> Iterator[None]:
    with known(*ALL):
        yield


@pytest.mark.some(2)
@pytest.mark.parametrize("op", ALL, ids=lambda op: op.name)
def test_correct_kernels_pass(op: Op) -> None:
    assert unsound(op, range(4)) == []


@pytest.mark.parametrize("op", ALL, ids=lambda op: op.name)
def test_both_tiers_say_the_same(op: Op) -> None:
    sizes = {"m": 2, "k": 5, "n": 3, "i": 2, "d": 3, "j": 4, "e": 2, "t": 2, "half": 2, "p": 3}
    for number, contract in enumerate((Contract(), Contract("f64"), Contract(sums={"k": Lanes(2, 1, "scalar")}))):
        of = problem(op, sizes, (2,) if op is not GEMM else (), "f64" if number == 1 else "f32", number)
        compared, _, wrong = disagreements(of, contract, np.random.default_rng(number))
        assert compared
        assert not wrong


def test_outputs_come_back_in_their_own_order() -> None:
    """c lies as (n, m), which is not the order in which the inputs have these dimensions."""
    of = problem(GEMM, SIZES, (), "f32", 1)
    a, b = (of.inputs[name].astype(np.float64) for name in "ab")
    plain = replace(of, inputs={"a": of.inputs["a"], "b": of.inputs["b"]}, outputs={"c": "f32"})
    found = simulated(plain)["c"]
    assert found.shape == (5, 3)
    assert np.allclose(found, (of.params["alpha"] * (a @ b)).T, rtol=1e-4, atol=1e-5)
    found[4, 1] *= np.float32(1.01)
    [check] = Truth(plain).check(Contract(), {"c": found})
    assert (check.result, check.failing, check.worst_index) == ("numeric", 1, (4, 1))
    assert check.mask is not None
    assert check.mask[4, 1]
    told = Truth(plain).explain(Contract(), "c", (4, 1), float(found[4, 1]))
    assert told.facts[:3] == (("m", "3"), ("k", "37"), ("n", "5"))
    assert [name for name, _ in told.facts[3:]] == ["dot of a, exact", "scaled, exact"]
    assert [name for name, text in told.given if text.endswith("along k")] == ["a", "b"]
    assert "dot over k" in told.terms[0].formula


def _without_tail(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    whole = a.shape[-1] // 8 * 8
    return np.asarray(a[..., :whole] @ b[..., :whole, :])


def _coarse(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    """Sums that are kept in 11 bits."""
    total = np.zeros((*a.shape[:-1], b.shape[-1]), np.float16)
    for at in range(a.shape[-1]):
        total = (total + a[..., at, None] * b[..., at, None, :]).astype(np.float16)
    return total


def _sequential(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    total = np.zeros((*a.shape[:-1], b.shape[-1]), np.float32)
    for at in range(a.shape[-1]):
        total = total + a[..., at, None] * b[..., at, None, :]
    return total


@pytest.mark.parametrize(
    ("kernel", "result"), [(_sequential, "pass"), (_without_tail, "numeric"), (_coarse, "numeric")]
)
@pytest.mark.parametrize("contract", [Contract(sums={"k": Sequential()}), ANY], ids=["sequential", "any"])
def test_wrong_products_are_told_from_right_ones(
    kernel: Callable[[NDArray[Any], NDArray[Any]], NDArray[Any]], result: str, contract: Contract
) -> None:
    of = problem(PRODUCT, SIZES, (2,), "f32", 3)
    found = kernel(of.inputs["a"], of.inputs["b"]).astype(np.float32)
    assert [check.result for check in Truth(of).check(contract, {"c": found})] == [result]


def test_a_row_of_attention_that_sees_nothing_is_zero_by_the_formula() -> None:
    of = problem(ATTEND, SIZES, (), "f32", 0)
    mask = np.zeros((4, 9), np.float32)
    mask[2] = -np.inf
    of = replace(of, inputs={**of.inputs, "mask": mask})
    found = simulated(of)
    assert (found["o"][2] == 0).all()
    assert [check.result for check in Truth(of).check(Contract(), found)] == ["pass"]
    found["o"][2] = np.nan
    assert [check.failing for check in Truth(of).check(Contract(), found)] == [3]


def test_probabilities_in_sixteen_bits_are_a_contract_of_their_own() -> None:
    narrow, of = Contract(points={"p": "bf16"}), problem(ATTEND, SIZES, (2,), "f32", 2)
    found = returned(of, kernel_of(of, narrow, np.random.default_rng(1)))
    assert [check.result for check in Truth(of).check(narrow, found)] == ["pass"]
    assert [check.result for check in Truth(of).check(Contract(), found)] == ["numeric"]


def test_shapes_that_contradict_each_other_are_refused() -> None:
    of = problem(PRODUCT, SIZES, (2,), "f32", 0)
    for b, wanted in (((2, 36, 5), r"\(2, 37, 5\)"), ((37, 5), r"\(2, 37, 5\)"), ((5,), "... k n")):
        with pytest.raises(ProblemError, match=f"inputs.b: shape .*, expected {wanted}"):
            Truth(replace(of, inputs={**of.inputs, "b": np.zeros(b, np.float32)}))


def own(a: Node, b: Node) -> Outputs:
    return {"c": a * b}


BAD: Mapping[str, tuple[str, str, str]] = {
    "first input": ("...", "n", "n"),
    "no input that is always there says how long 'n' is": ("m k", "k", "m n"),
    "names may stand there once": ("m k", "k k", "m"),
    "where 'rows' can be the name of none": ("rows k", "k", "rows"),
    "where '...' can be the name of none": ("... m k", "k ...", "m"),
    "and its first input has no '...'": ("m k", "... k", "m"),
}


def test_what_is_fixed_is_so_in_every_case() -> None:
    of = problem(TURN, {"t": 2, "half": 3, "p": 4}, (), "f32", 0)
    with pytest.raises(ProblemError, match=r"inputs\.x: shape"):
        Truth(of)
    for dims, fixed in (("... t half p", {"half": 0}), ("... t half p", {"quarter": 2})):
        with pytest.raises(OpError, match=r"fixed: .* cannot be"):
            Op(own, (Operand("a", dims), Operand("b", dims)), (Operand("c", dims),), fixed=fixed)
        with pytest.raises(OpError, match=r"shapes: .* cannot be"):
            Op(own, (Operand("a", dims), Operand("b", dims)), (Operand("c", dims),), shapes=({}, fixed))


@pytest.mark.parametrize("message", BAD)
def test_dimensions_that_cannot_be_are_refused_in_one_line(message: str) -> None:
    a, b, c = BAD[message]
    with pytest.raises(OpError) as caught:
        Op(own, (Operand("a", a), Operand("b", b)), (Operand("c", c),))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_rows_are_follows_from_the_dimensions() -> None:
    rows = Op(own, (Operand("a", "... k"), Operand("b", "k")), (Operand("c", "... k"),))
    assert (rows.any_axis, [*rows.columns], rows.batch_name) == (True, ["b"], "rows")
    assert not any(op.any_axis or op.columns for op in ALL)
    assert (PRODUCT.further, ATTEND.further, PRODUCT.row) == (("n",), ("j", "e"), "k")
    assert PRODUCT.shape("c", (4, 2, 3, 7), 3, {"n": 5}) == (4, 2, 3, 5)
    assert PRODUCT.extents({"a": (3, 7), "b": (7, 5)}) == {"n": 5}
    assert PRODUCT.possible_shapes("b", (7,), 0, {"n": 5}) == ()


def test_what_a_dimension_is_follows_from_the_formula() -> None:
    """In a product of matrices values meet along k alone; along m too where columns are summed as well. A causal mask
    knows the places of queries and keys, and rotary embeddings the halves."""
    batched = {op.name: {dim.name: set(dim.batched) for dim in op.dimensions.values()} for op in ALL}
    assert batched == {
        "product": {"...": {"c"}, "m": {"c"}, "k": set(), "n": {"c"}},
        "gemm": {"m": {"c"}, "k": set(), "n": {"c", "sums"}},
        "attend": {"...": {"o"}, "i": set(), "d": set(), "j": set(), "e": {"o"}},
        "turn": {"...": {"y"}, "t": {"y"}, "half": set(), "p": {"y"}},
    }
    assert [dim.name for dim in GEMM.dimensions.values() if dim.meets] == ["m", "k"]


def test_what_steps_a_formula_has_and_what_tiles_is_read_off_it() -> None:
    assert [" ".join(sorted(step)) for step in ATTEND.steps] == ["... d i j", "... e i j"]
    assert ATTEND.work({"...": 3, "i": 5, "j": 7, "d": 2, "e": 11}) == 3 * 5 * 7 * 11
    assert TURN.work({"t": 3, "half": 2, "p": 5}) == 30, "what is taken from a table is no product with it"
    assert (PRODUCT.tiled, ATTEND.tiled, TURN.tiled) == (("m", "k", "n"), ("i", "d", "j", "e"), ("p",))
    assert [[d.name for d in op.dimensions.values() if d.reduced] for op in (PRODUCT, ATTEND)] == [["k"], ["d", "j"]]


def test_the_row_of_a_product_may_lie_along_any_axis() -> None:
    """What is said of "... n" holds whatever further dimensions an op has: here those of a matrix."""
    linear = Op(applied, (Operand("x", "... n"), Operand("w", "n p")), (Operand("y", "... p"), Operand("z", "... n")))
    with known(linear):
        x, w = (np.arange(size, dtype=np.float32).reshape(shape) for size, shape in ((24, (2, 4, 3)), (20, (4, 5))))
        of = Problem("applied", {"axis": 1}, {"x": x, "w": w}, {"y": "f32", "z": "f32"})
        y, z = np.einsum("anb,np->abp", x, w), 2 * x
        checks = Truth(of).check(Contract(), {"y": y, "z": z})
        assert [check.result for check in checks] == ["pass", "pass"]
        z[1, 2, 0] += 1
        wrong = Truth(of).check(Contract(), {"y": y, "z": z})[1]
        assert (wrong.failing, wrong.worst_index) == (1, (1, 2, 0))


def applied(x: Node, w: Node) -> Outputs:
    return {"y": dot(x, w, "n"), "z": x + x}


def test_what_is_taken_overflows_nowhere() -> None:
    """A kernel that leaves NaN where numbers overflow takes half of a pair, the other half of which is infinite."""
    of = problem(TURN, {"t": 2, "half": 2, "p": 4}, (), "f32", 0)
    x = of.inputs["x"].copy()
    x[0, 1, 2] = np.inf
    of, contract = replace(of, inputs={**of.inputs, "x": x}), Contract(nonfinite="overflow")
    found = [returned(of, kernel_of(of, contract, np.random.default_rng(seed))) for seed in range(8)]
    assert [check.result for each in found for check in Truth(of).check(contract, each)] == ["pass"] * 8
    assert len({each["y"].tobytes() for each in found}) == 1, "a correct kernel has infinities where IEEE has them"
