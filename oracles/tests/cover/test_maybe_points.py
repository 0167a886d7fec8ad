"""A rounding that is allowed and not required: kernels that round there pass, and so do those that do not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from oracles.dtypes import DtypeError, form
from oracles.formula.contract import Contract
from oracles.formula.trace import Node, Outputs, avg, dot, exp, greatest, log, point, rsqrt, total
from oracles.neighbours import neighbours
from oracles.op import Op
from oracles.operand import Operand
from oracles.problem import Problem
from oracles.rounding import STORAGE, round_to
from oracles.simulated.simulation import simulate
from oracles.tests.common.judged import known, results
from oracles.tests.common.tiers import disagreements
from oracles.tiers.problem import FormulaProblem
from oracles.tiers.terms import terms_of
from oracles.truth import Truth


def llama(x: Node, w: Node) -> Outputs:
    """y = h w, with h = x rstd cast before it."""
    h = x * rsqrt(avg(x * x, "n") + 1e-5)
    return {"y": point(h) * w}


def weights(x: Node, w: Node) -> Outputs:
    """p = softmax(x), which may be rounded where it is multiplied, and not in the sum."""
    e = exp(x - greatest(x, "n"))
    p = e / total(e, "n")
    return {"y": point(p) * w, "p": p}


def attend(q: Node, k: Node, v: Node) -> Outputs:
    """o = softmax(q k) v and the logarithm of the mass, where the shares may be rounded as they are multiplied."""
    s = dot(q, k, "d")
    most = greatest(s, "j")
    p = exp(s - most)
    mass = total(p, "j")
    return {"o": dot(point(p), v, "j") / mass, "lse": most + log(mass)}


ATTEND = Op(
    attend,
    inputs=(Operand("q", "i d"), Operand("k", "j d"), Operand("v", "j e")),
    outputs=(Operand("o", "i e"), Operand("lse", "i", dtype="f32")),
)
OPS = tuple(
    Op(formula, (Operand("x", "... n"), Operand("w", "... n")), tuple(Operand(name, "... n") for name in names))
    for formula, names in ((llama, ("y",)), (weights, ("y", "p")))
)


@pytest.fixture(autouse=True)
def _known() -> Iterator[None]:
    with known(*OPS, ATTEND):
        yield


def _problem(
    op: str, dtype: str, seed: int, scale: float = 1.0, shape: tuple[int, ...] = (4, 24), out: str = ""
) -> Problem:
    random = np.random.default_rng(seed)
    x, w = random.normal(size=shape) * scale, random.normal(size=shape)
    with np.errstate(over="ignore"):
        inputs = {"x": x.astype(STORAGE[dtype]), "w": w.astype(STORAGE[dtype])}
    outputs = {"llama": ("y",), "weights": ("y", "p")}[op]
    return Problem(op, {"axis": 1}, inputs, dict.fromkeys(outputs, out or dtype), structured=True)


def _points(op: str, dtype: str) -> Mapping[str, str]:
    return {"h" if op == "llama" else "p": dtype}


def _of_hand(of: Problem, rounded: NDArray[Any] | bool, dtype: str = "bf16") -> Mapping[str, NDArray[Any]]:
    """What a kernel returns that rounds h at some places."""
    x, w = (of.inputs[name].astype(np.float32) for name in "xw")
    h = x * (1 / np.sqrt((x * x).mean(-1, keepdims=True) + np.float32(1e-5)))
    h = np.where(rounded, round_to(h.astype(np.float64), form(dtype)), h).astype(np.float32)
    return {"y": (h * w).astype(STORAGE[of.outputs["y"]])}


@pytest.mark.some(1)
@pytest.mark.parametrize("out", ["bf16", "f32"])
def test_who_rounds_and_who_does_not_passes_and_so_does_who_rounds_some(out: str) -> None:
    random, of = np.random.default_rng(1), _problem("llama", "bf16", 1, shape=(40, 64), out=out)
    plain, always, maybe = (Contract(points=each) for each in ({}, {"h": "input"}, {"h": "maybe input"}))
    everywhere, nowhere = _of_hand(of, True), _of_hand(of, False)
    assert results(of, always, nowhere) == results(of, plain, everywhere) == ["numeric"]
    for outputs in (everywhere, nowhere, _of_hand(of, random.random((40, 64)) < 0.5)):
        assert results(of, maybe, outputs) == ["pass"]
    assert results(of, maybe, _of_hand(of, True, "e4m3fn")) == ["numeric"]


@pytest.mark.some(1)
@pytest.mark.parametrize("op", ["llama", "weights"])
@pytest.mark.parametrize("scale", [1.0, 1e-30, 1e6])
def test_correct_kernels_pass(op: str, scale: float) -> None:
    """Whatever their dtypes: what overflows in the dtype that is rounded to, and not beside it, is either."""
    found = []
    for seed in range(12):
        random = np.random.default_rng(seed)
        dtype, out = (("f32", ""), ("bf16", "f32"), ("f16", ""), ("f64", ""))[seed % 4]
        to, compute = random.choice(["bf16", "f16", "e4m3fn", "e5m2", "input"]), "f64" if dtype == "f64" else "f32"
        of = _problem(op, dtype, seed, scale, out=out)
        for more in ({}, {"denormals": "flush"}, {"nonfinite": "overflow"}, {"zeros": "any", "fused": False}):
            contract = Contract(compute, points=_points(op, f"maybe {to}"), **more)
            outputs = simulate(of, contract, random)
            found += [
                (seed, dtype, to, more, check) for check in Truth(of).check(contract, outputs) if check.result != "pass"
            ]
    assert not found, found[0]


def scaled(x: Node, w: Node) -> Outputs:
    """y = h w, with h = x + w cast before it."""
    h = x + w
    return {"y": point(h) * w}


def test_what_is_rounded_up_beyond_its_own_dtype_may_be_infinite() -> None:
    """Above 65,408 an f16 rounds to 65,536 in bf16, which f16 does not have: a kernel in f16 has either."""
    op = Op(scaled, inputs=(Operand("x", "... n"), Operand("w", "n")), outputs=(Operand("y", "... n"),))
    x, w = np.array([[65504.0, 65344.0]], np.float16), np.full(2, 2.0**-14, np.float16)
    either, no = (Contract("input", points=points) for points in ({"h": "maybe bf16"}, {}))
    with known(op):
        of = Problem(op.name, {"axis": 1}, {"x": x, "w": w}, {"y": "f16"}, structured=True)
        kept, lost = x * w, np.array([[np.inf, 65344.0 * 2.0**-14]], np.float16)
        assert results(of, no, {"y": kept}) == results(of, either, {"y": kept}) == ["pass"]
        assert results(of, no, {"y": lost}) == ["nonfinite"]
        assert results(of, either, {"y": lost}) == ["pass"]
        assert results(of, either, {"y": lost[:, ::-1].copy()}) == ["nonfinite"]


def test_what_is_rounded_to_a_subnormal_may_be_flushed_as_an_operand() -> None:
    """2^-15 is subnormal in f16 and normal in f32: who casts to f16 and flushes operands has zero from there on."""
    op = Op(scaled, inputs=(Operand("x", "... n"), Operand("w", "n")), outputs=(Operand("y", "... n"),))
    x, w = np.array([[2.0**-15, 1.0]], np.float32), np.ones(2, np.float32)
    flushing = Contract(points={"h": "maybe f16"}, denormals="flush operands")
    with known(op):
        of = Problem(op.name, {"axis": 1}, {"x": x - w, "w": w}, {"y": "f32"}, structured=True)
        for y, said in ((x[0, 0], "pass"), (0.0, "pass"), (3 * x[0, 0], "numeric")):
            assert results(of, flushing, {"y": np.array([[y, 1.0]], np.float32)}) == [said]
        lost = {"y": np.array([[0.0, 1.0]], np.float32)}
        assert results(of, Contract(points={"h": "maybe f16"}), lost) == ["numeric"]


@pytest.mark.some(3)
@pytest.mark.parametrize("to", ["bf16", "f16", "e4m3fn"])
@pytest.mark.parametrize("scale", [1.0, 1e4])
def test_both_tiers_say_the_same(to: str, scale: float) -> None:
    for op in ("llama", "weights"):
        for dtype in ("f32", "f64"):
            contract = Contract(dtype, points=_points(op, f"maybe {to}"))
            compared, _, wrong = disagreements(
                _problem(op, dtype, 3, scale, (2, 4)), contract, np.random.default_rng(0)
            )
            assert compared
            assert not wrong


def test_it_is_wider_than_to_round_never_by_one_rounding() -> None:
    """In f32, of a value that nothing else is done to: u of bf16 and what products of f32 add."""
    of = _problem("llama", "f32", 2)
    widths = [Truth(of).enclosures(Contract(points=each), True)["y"].below for each in ({}, {"h": "maybe bf16"})]
    size = np.abs(_of_hand(of, False)["y"].astype(np.float64))
    assert ((widths[1] - widths[0]) / size).max() <= 2.0**-8 * 1.001
    assert ((widths[1] - widths[0]) / size).min() >= 2.0**-8 * 0.999


def test_where_nothing_can_be_lost_it_changes_nothing() -> None:
    of = _problem("llama", "bf16", 2)
    for contract, name in (
        (Contract("input", points={"h": "maybe input"}), "h"),
        (Contract(points={"h": "maybe f32"}), "h"),
    ):
        plain = Contract(contract.compute)
        found, expected = (Truth(of).enclosures(each, True)["y"].below for each in (contract, plain))
        assert np.array_equal(found, expected), name


def test_the_budget_says_so() -> None:
    of = FormulaProblem(_problem("llama", "bf16", 1, out="f32"))
    contract = of.settled(Contract(points={"h": "maybe input"}))
    conformance = of.conformance(contract, True, of.tensors).members[0]
    terms = terms_of(conformance, "y", (0, 0))
    assert any("point or not, to bf16" in term.formula for term in terms), terms
    width = float(conformance.width("y")[0, 0])
    assert sum(term.value for term in terms) == pytest.approx(width, rel=0.01)


def test_it_is_among_the_neighbours_of_a_contract() -> None:
    found = {each.text for each in neighbours(OPS[0], Contract(points={"h": "input"}))}
    assert {"points={'h': 'maybe input'}", "points={}"} <= found


def test_only_points_are_left_open_and_of_a_dtype() -> None:
    contract = Contract(points={"h": "maybe input", "p": "maybe f16"})
    assert contract.settled({"x": "bf16"}).points == {"h": "maybe bf16", "p": "maybe f16"}
    assert contract.decided(lambda: False).points == {}
    assert contract.decided(lambda: True).points == {"h": "input", "p": "f16"}
    for wrong in (
        Contract(points={"h": "maybe fp4"}),
        Contract(dtypes={"h": "maybe bf16"}),
        Contract(points={"h": "maybe "}),
    ):
        with pytest.raises(DtypeError):
            wrong.settled({"x": "bf16"})


def _flash(of: Problem, wrong: str = "", block: int = 16) -> Mapping[str, NDArray[Any]]:
    """Attention by blocks of keys: shares are rounded under the maximum so far, and rescaled where it grows."""
    single, narrow = np.float32, STORAGE["bf16"]
    q, k, v = (of.inputs[name].astype(single) for name in "qkv")
    s, most = q @ k.T, np.full(len(q), -np.inf, single)
    mass, acc = np.zeros(len(q), single), np.zeros((len(q), v.shape[1]), single)
    for start in range(0, len(k), block):
        before, most = most, np.maximum(most, s[:, start : start + block].max(1))
        p, again = np.exp(s[:, start : start + block] - most[:, None]), np.exp(before - most)
        rounded = p.astype(narrow).astype(single)
        mass = mass * again + (rounded if wrong == "in the mass too" else p).sum(1)
        used = round_to(p.astype(np.float64), form("e4m3fn")).astype(single) if wrong == "to fewer bits" else rounded
        acc = acc * (1 if wrong == "not rescaled" else again[:, None]) + used @ v[start : start + block]
    return {"o": (acc / mass[:, None]).astype(narrow), "lse": (most + np.log(mass)).astype(single)}


def test_shares_that_are_rounded_under_the_maximum_so_far_are_off_by_one_rounding_at_some_scale() -> None:
    """FlashAttention: no rounding of the exact share, as a point that is required says, has the same digits."""
    random, maybe, always = (
        np.random.default_rng(5),
        Contract(points={"p": "maybe input"}),
        Contract(points={"p": "input"}),
    )
    q, k, v = (random.normal(size=(n, 8)).astype(STORAGE["bf16"]) for n in (12, 48, 48))
    of = Problem("attend", {"axis": 1}, {"q": q, "k": k, "v": v}, {"o": "bf16", "lse": "f32"}, structured=True)
    assert results(of, maybe, _flash(of)) == ["pass", "pass"]
    assert results(of, always, _flash(of)) == ["numeric", "pass"]
    assert results(of, always, _flash(of, block=48)) == ["pass", "pass"]
    for wrong in ("in the mass too", "to fewer bits", "not rescaled"):
        assert "numeric" in results(of, maybe, _flash(of, wrong)), wrong
