"""Rows in blocks with scales of their own: codes as an implementation of the tests' own finds them, and no others."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from oracles.formula.contract import Contract
from oracles.formula.trace import Node, Outputs
from oracles.op import Op
from oracles.operand import Operand, OpError
from oracles.problem import Problem
from oracles.truth import Truth

F32 = NDArray[np.float32]
EXACT = Contract(points={"edge": "f32", "share": "f32", "quotient": "f32", "ratio": "f32"})
E4M3 = ml_dtypes.float8_e4m3fn
RULES = (0, 1, 2, 3)


class Element(NamedTuple):
    op: str
    dtype: str
    array: type[np.generic]
    top: float
    exponent: int
    carry: float


E4M3FN = Element("quantize_mxfp8", "e4m3fn", E4M3, 448.0, 8, 1.9375)
E5M2 = Element("quantize_mxfp8_e5m2", "e5m2", ml_dtypes.float8_e5m2, 57344.0, 15, 1.875)


def mx_scale(most: float, rule: int, of_infinity: int, to: Element) -> int:
    """The stored exponent, by whole numbers: a mantissa from 1 to 2 and an exponent."""
    if math.isnan(most) or math.isinf(most):
        return 255 if math.isnan(most) else of_infinity
    size = float(np.float32(most) / np.float32(to.top)) if rule == 3 else most
    if size == 0.0:
        return 0
    half, exponent = math.frexp(size)
    up = {0: False, 1: half * 2 >= to.carry, 2: half > 0.5, 3: half > 0.5}[rule]
    return max(exponent - 1 + up - (0 if rule == 3 else to.exponent) + 127, 0)


def mxfp8(x: F32, rule: int, of_infinity: int, to: Element) -> tuple[NDArray[np.generic], NDArray[np.uint8]]:
    rows, n = x.shape
    blocks = -(-n // 32)
    q, scale = np.zeros((rows, n), to.array), np.zeros((rows, blocks), np.uint8)
    for row in range(rows):
        for b in range(blocks):
            part = slice(32 * b, min(32 * b + 32, n))
            sizes = np.abs(x[row, part])
            code = mx_scale(math.nan if np.isnan(sizes).any() else float(sizes.max()), rule, of_infinity, to)
            ratio = x[row, part].astype(np.float64) * 2.0 ** (127 - code)
            codes = np.clip(ratio, -to.top, to.top).astype(np.float32).astype(to.array)
            q[row, part] = math.nan if code == 255 else codes
            scale[row, b] = code
    return q, scale


def hard_rows() -> F32:
    """Blocks whose largest magnitude lies at each edge of each rule and beside it, and blocks of no numbers."""
    random = np.random.default_rng(7)
    edges = [edge * 2.0**k for edge in (1.0, 1.75, 1.875, 1.9375) for k in (-149, -120, -119, -118, -3, 0, 8, 126, 127)]
    mosts = np.array([0.0, *edges], np.float32)
    mosts = np.concatenate([np.nextafter(mosts, np.float32(-np.inf)), mosts, np.nextafter(mosts, np.float32(np.inf))])
    x = (random.uniform(-1, 1, (len(mosts), 32)).astype(np.float32) * np.abs(mosts)[:, None]).astype(np.float32)
    x[:, 1] = np.abs(mosts) * np.float32(17 / 256)  # beside a tie of e4m3
    x[np.arange(len(x)), random.integers(0, 32, len(x))] = mosts
    others = np.zeros((3, 32), np.float32)
    others[0, 3], others[1, 4], others[2, 5], others[0, 6] = np.nan, np.inf, -np.inf, 5.0
    return np.concatenate([x, others]).reshape(-1, 64 if len(x) % 2 else 32)


@pytest.mark.some(1)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(
    ("to", "of_infinity"), [(to, i) for to in (E4M3FN, E5M2) for i in (254, 255 - to.exponent, 255)]
)
def test_mxfp8_has_one_code_at_every_edge(rule: int, to: Element, of_infinity: int) -> None:
    x = hard_rows()[:, :61]
    q, scale = mxfp8(x, rule, of_infinity, to)
    given = {"scale_rule": float(rule), "of_infinity": float(of_infinity)}
    of = Problem(to.op, given, {"x": x}, {"q": to.dtype, "scale": "uint8"}, structured=True)
    truth = Truth(of)
    assert [each.result for each in truth.check(EXACT, {"q": q, "scale": scale})] == ["pass", "pass"]
    for step in (-1, 1):
        codes = q.view(np.uint8)
        inside = ~np.isnan(q.astype(np.float32))
        bent = np.where(inside, codes.astype(int) + step, codes).astype(np.uint8).view(to.array)
        off = np.clip(scale.astype(int) + step, 0, 255).astype(np.uint8)
        first, second = truth.check(EXACT, {"q": bent, "scale": off})
        assert first.failing == inside.sum()
        assert second.failing == (off != scale).sum()


def test_scales_away_from_edges_are_judged_beside_one_that_is_at_an_edge() -> None:
    """With nothing declared, a kernel may have another scale there, and nowhere else."""
    x = np.clip(np.random.default_rng(1).standard_normal((32, 64)), -1.9, 1.9).astype(np.float32)
    x[0, 0] = 1.9375
    q, scale = mxfp8(x, 1, 254, E4M3FN)
    of = Problem("quantize_mxfp8", {"scale_rule": 1.0}, {"x": x}, {"q": "e4m3fn", "scale": "uint8"})
    for step, failing in ((0, 0), (-1, scale.size - 1), (1, scale.size - 1)):
        assert (
            Truth(of).check(Contract(), {"q": q, "scale": (scale.astype(int) + step).astype(np.uint8)})[1].failing
            == failing
        )


LAXEST = Contract(accuracy={"divide": 4.0, "log2": 4.0, "exp2": 4.0}, denormals="flush", zeros="any")
"""What leaves open on which side of an edge a block is."""


@pytest.mark.some(1)
@pytest.mark.parametrize("contract", [Contract(), LAXEST, Contract(algorithm={"share": "reciprocal"})])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("to", [E4M3FN, E5M2])
def test_codes_follow_from_the_scale_that_was_returned(rule: int, to: Element, contract: Contract) -> None:
    """At an edge a kernel may have either scale, but no codes of the other one."""
    x = hard_rows()[:, :61]
    least = 2.0 ** (to.exponent - 126)
    x = x[(np.abs(x) >= least).any(1) & ~((np.abs(x) > 0) & (np.abs(x) < least)).any(1)] if contract is LAXEST else x
    x = np.concatenate([x, np.full((1, x.shape[1]), np.float32(to.carry if rule < 2 else to.top))])
    q, scale = mxfp8(x, rule, 254, to)
    of = Problem(to.op, {"scale_rule": float(rule)}, {"x": x}, {"q": to.dtype, "scale": "uint8"}, structured=True)
    truth = Truth(of)
    assert [each.result for each in truth.check(contract, {"q": q, "scale": scale})] == ["pass", "pass"]
    low, high = truth.enclosures(contract, True)["scale"].outer
    for step in (-1, 1):
        other = scale.astype(int) + step
        open_ = (low <= other) & (other <= high) & (other >= 0) & (other <= 255 - to.exponent)
        moved = np.where(open_, other, scale).astype(np.uint8)
        kept = (~open_).repeat(32, 1)[:, : x.shape[1]]
        with np.errstate(all="ignore"):
            ratio = x.astype(np.float64) * 2.0 ** (127.0 - moved.astype(float).repeat(32, 1)[:, : x.shape[1]])
        codes = (
            np.where(kept, q.astype(np.float64), np.clip(ratio, -to.top, to.top)).astype(np.float32).astype(to.array)
        )
        assert [each.result for each in truth.check(contract, {"q": codes, "scale": moved})] == ["pass", "pass"]
        of_other = codes.view(np.uint8) != q.view(np.uint8)
        first, _ = truth.check(contract, {"q": q, "scale": moved})
        assert (first.failing > 0) == of_other.any()
        if first.mask is not None:
            assert not (first.mask & kept).any()
            assert first.again
            assert first.worst_index is not None
            told = truth.again({"scale": moved}).explain(contract, "q", first.worst_index, float(q[first.worst_index]))
            assert told.ratio > 1


@pytest.mark.some(1)
@pytest.mark.parametrize(
    ("rule", "most", "code", "stored", "beside", "contract"),
    [
        (3, np.float32(3e38), 0.0, 0, 448.0625, Contract(points=dict.fromkeys(EXACT.points, "maybe f16"))),
        (1, np.float64(1e308), 288.0, 1142 % 256, 1.9375, Contract("f64")),
    ],
)
def test_no_code_follows_from_a_scale_that_was_too_large(
    rule: int, most: np.floating, code: float, stored: int, beside: float, contract: Contract
) -> None:
    """A share beyond f16 makes an infinite scale, and a code of 1142 fits no byte: anything is stored. The block beside
    it has one of two scales, and the codes of that one."""
    x = np.concatenate([np.full((1, 32), most), np.full((1, 32), beside, most.dtype)], 1)
    of = Problem("quantize_mxfp8", {"scale_rule": float(rule)}, {"x": x}, {"q": "e4m3fn", "scale": "uint8"}, True)
    truth, low = Truth(of), 127 if rule == 3 else 119
    for scale, half, right in ((low, 1, True), (low + 1, 2, True), (low, 2, False), (low + 1, 1, False)):
        own = min(beside * 2.0 ** (127 - low) / half, 448.0)
        given = {"q": np.array([[code] * 32 + [own] * 32]).astype(E4M3), "scale": np.array([[stored, scale]], np.uint8)}
        codes, scales = truth.check(contract, given)
        assert (codes.failing, codes.again, scales.result) == (0 if right else 32, not right, "pass")


EXACT_4 = Contract(points=dict.fromkeys(("share", "units", "steps", "kept", "step", "ratio"), "f32"))
E2M1 = ml_dtypes.float4_e2m1fn


def nvfp4(x: F32, tensor_scale: np.float32, least_scale: float) -> tuple[NDArray[np.uint8], NDArray[np.generic]]:
    rows, n = x.shape
    padded = np.pad(x, ((0, 0), (0, -n % 16))).reshape(rows, -1, 16)
    most = np.abs(padded).max(-1)
    units = most / np.float32(6.0) / tensor_scale
    scale = np.where(np.isnan(units), units, np.clip(units, np.float32(least_scale), np.float32(448.0))).astype(E4M3)
    step = (scale.astype(np.float32) * tensor_scale)[..., None]
    ratio = np.where(scale.astype(np.float32)[..., None] == 0, np.copysign(np.float32(0.0), padded), padded / step)
    codes = np.clip(ratio, -6.0, 6.0).astype(E2M1).view(np.uint8).reshape(rows, -1)[:, : n + n % 2]
    return (codes[:, ::2] | codes[:, 1::2] << 4).astype(np.uint8), scale


def hard_blocks() -> F32:
    """Ties of both formats and numbers beside them, blocks of zeros of either sign, and of no numbers."""
    random = np.random.default_rng(3)
    ties = np.array([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0, 6.0, 0.5, 4.0], np.float32)
    x: F32 = random.choice(ties, (24, 48)) * random.choice(np.array([-1.0, 1.0], np.float32), (24, 48))
    scales = np.array(
        [1.0, 1.0625, 17 / 16, 9 / 512, 0.5 / 512, 1.5 / 512, 0.25 / 512, 448.0, 464.0, 500.0], np.float32
    )
    x = (x * random.choice(scales, (24, 3)).repeat(16, 1)).astype(np.float32)
    x[::3] = np.nextafter(x[::3], np.float32(np.inf))
    x[1::3] = np.nextafter(x[1::3], np.float32(0.0))
    x[3, :16], x[4, :16], x[5, 3], x[6, 20], x[7, 33] = 0.0, -0.0, np.nan, np.inf, -np.inf
    return x[:, :47]


@pytest.mark.some(1)
@pytest.mark.parametrize("least_scale", [0.0, 2.0**-6])
@pytest.mark.parametrize("tensor_scale", [1.0, 0.1, 3e-39, 1e37])
def test_nvfp4_has_one_code_at_every_tie(tensor_scale: float, least_scale: float) -> None:
    x, unit = hard_blocks(), np.float32(tensor_scale)
    with np.errstate(all="ignore"):
        q, scale = nvfp4(x, unit, least_scale)
    given = {"x": x, "tensor_scale": np.array(unit)}
    of = Problem("quantize_nvfp4", {"least_scale": least_scale}, given, {"q": "uint8", "scale": "e4m3fn"}, True)
    truth = Truth(of)
    assert [each.result for each in truth.check(EXACT_4, {"q": q, "scale": scale})] == ["pass", "pass"]
    known = ~np.isnan(scale.astype(np.float32))
    judged = known.repeat(8, 1)[:, : q.shape[1]].sum() - (2 if tensor_scale == 1e37 else 0)  # of infinity / infinity
    for moved in (1, 16, 8, 128, 17):
        assert truth.check(EXACT_4, {"q": q ^ np.uint8(moved), "scale": scale})[0].failing == judged, moved
    for step in (-1, 1):
        off = (scale.view(np.uint8).astype(int) + step).astype(np.uint8).view(E4M3)
        assert truth.check(EXACT_4, {"q": q, "scale": np.where(known, off, scale)})[1].failing == known.sum()


def test_nvfp4_codes_follow_from_the_scale_that_was_returned() -> None:
    """Either of two scales that are as near may be stored, but not with codes of the other one."""
    random, one = np.random.default_rng(5), np.float32(1.0)
    x = random.uniform(-1.0, 1.0, (8, 32)).astype(np.float32)
    x[:, ::16] = 6 * 1.0625  # in the middle between two numbers of e4m3
    q, scale = nvfp4(x, one, 0.0)
    of = Problem("quantize_nvfp4", {}, {"x": x, "tensor_scale": np.array(one)}, {"q": "uint8", "scale": "e4m3fn"})
    truth, above = Truth(of), np.full_like(scale, 1.125)
    reciprocal = Contract(algorithm=dict.fromkeys(("share", "units", "ratio"), "reciprocal"))
    rounded = Contract("input", points=dict.fromkeys(EXACT_4.points, "maybe input"))
    for contract in (Contract(), reciprocal, rounded):
        assert [each.result for each in truth.check(contract, {"q": q, "scale": scale})] == ["pass", "pass"]
        found = [each.result for each in truth.check(contract, {"q": q, "scale": above})]
        assert found == ["numeric", "pass"]
        ratio = np.clip(x / np.float32(1.125), -6.0, 6.0).astype(E2M1).view(np.uint8)
        codes = (ratio[:, ::2] | ratio[:, 1::2] << 4).astype(np.uint8)
        assert [each.result for each in truth.check(contract, {"q": codes, "scale": above})] == ["pass", "pass"]


def test_nvfp4_codes_do_not_follow_from_a_scale_that_has_lost_bits() -> None:
    """The numbers of e5m2 have three bits: a scale of 1.125 is stored as 1, and the codes were made of 1.125."""
    random, one = np.random.default_rng(5), np.float32(1.0)
    x = random.uniform(-6.0, 6.0, (8, 32)).astype(np.float32)
    x[:, ::16] = 6 * 1.125
    q, scale = nvfp4(x, one, 0.0)
    of = Problem("quantize_nvfp4", {}, {"x": x, "tensor_scale": np.array(one)}, {"q": "uint8", "scale": "e5m2"})
    stored = {"scale": scale.astype(np.float32).astype(ml_dtypes.float8_e5m2)}
    assert [each.result for each in Truth(of).check(Contract(), {"q": q, **stored})] == ["pass", "pass"]
    assert Truth(of).check(Contract(), {"q": q ^ np.uint8(1), **stored})[0].result == "numeric"


def test_what_follows_from_returned_outputs_is_of_the_same_operands() -> None:
    """An output of it is no input of the op, and no tensor is another one."""

    def halves(z: Node, y: Node) -> Outputs:
        return {"w": z * y}

    def doubled(x: Node) -> Outputs:
        return {"y": x + x}

    x, y = Operand("x", "... n"), Operand("y", "... n")
    again = Op(halves, (Operand("z", "... n"), y), (Operand("w", "... n"),))
    for wrong, name in ((again, "z"), (replace(again, inputs=(y,), outputs=(x,)), "x")):
        with pytest.raises(OpError, match=f"from_returned: '{name}'"):
            Op(doubled, (x,), (y,), from_returned=wrong)


@pytest.mark.some(1)
@pytest.mark.parametrize(("denormals", "result"), [("flush results", "pass"), ("flush operands", "numeric")])
def test_codes_do_not_follow_from_a_zero_that_the_cast_of_a_scale_left(denormals: str, result: str) -> None:
    """A subnormal scale may be flushed where it is stored, after the codes were made by it."""
    x, one = np.full((1, 16), 6 * 2.0**-7, np.float32), np.float32(1.0)
    q, scale = nvfp4(x, one, 0.0)
    of = Problem("quantize_nvfp4", {}, {"x": x, "tensor_scale": np.array(one)}, {"q": "uint8", "scale": "e4m3fn"})
    points, truth = dict.fromkeys(EXACT_4.points, "maybe f32"), Truth(of)
    contract = Contract("f32", denormals=denormals, points=points)  # type: ignore[arg-type]
    assert [each.result for each in truth.check(contract, {"q": q, "scale": scale * 0})] == ["pass", result]
    assert truth.check(contract, {"q": q ^ np.uint8(1), "scale": scale * 0})[0].result == "numeric"


@pytest.mark.parametrize("stored", [254, 255])
def test_the_scale_of_what_no_scale_is_large_enough_for_may_be_any(stored: int) -> None:
    """As 255 it makes no NaN of the codes; as another one they do not follow from it either."""
    x = np.array([[1.5 * 2.0**135]])
    of = Problem("quantize_mxfp8", {"scale_rule": 2.0}, {"x": x}, {"q": "e4m3fn", "scale": "uint8"}, True)
    q, scale = np.array([[192.0]], E4M3), np.array([[stored]], np.uint8)
    contract = Contract("f64", points=EXACT.points)
    assert [each.result for each in Truth(of).check(contract, {"q": q, "scale": scale})] == ["pass", "pass"]


def test_codes_follow_from_scales_that_only_f64_is_large_enough_for() -> None:
    """One above that of the largest number of f32 is none of an infinity: the block beside it has one of two scales."""
    x = np.array([[*[384.0 * 2.0**123] * 32, *[448.0] * 32]])
    of = Problem("quantize_mxfp8", {"scale_rule": 3.0}, {"x": x}, {"q": "e4m3fn", "scale": "uint8"}, True)
    scale, contract = np.array([[250, 127]], np.uint8), replace(LAXEST, compute="f64")
    for code, failing in ((384.0, 0), (24.0, 32)):
        q = np.array([[*[code] * 32, *[448.0] * 32]]).astype(E4M3)
        codes, scales = Truth(of).check(contract, {"q": q, "scale": scale})
        assert (codes.failing, scales.result) == (failing, "pass")
