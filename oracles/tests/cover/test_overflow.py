"""What overflows on the way, and what is rounded on it: a correct kernel is not blamed, a wrong one still is."""

from __future__ import annotations

import numpy as np
import pytest
from ml_dtypes import bfloat16

from oracles import Contract
from oracles.enclosure import ALLOWED, REQUIRED
from oracles.formula.trace import Node, Outputs, exp, log
from oracles.op import Op
from oracles.operand import Operand
from oracles.problem import Problem
from oracles.rounding import STORAGE
from oracles.simulated.simulation import Order
from oracles.tests.common.judged import X, kernel, known, results, returned, simulated
from oracles.tests.common.tiers import disagreements
from oracles.tiers.problem import FormulaProblem
from oracles.truth import OutputCheck, Truth, settle


def composite(x: Node) -> Outputs:
    """Softplus, as it overflows."""
    return {"y": log(1.0 + exp(x))}


COMPOSITE = Op(composite, inputs=(X,), outputs=(Operand("y", "... n"),))


@pytest.mark.parametrize("dtype", ["f64", "f32"])
def test_a_row_whose_sum_of_squares_overflows_leaves_the_others_to_be_judged(dtype: str) -> None:
    """rstd, which the kernel forms, is 0 there, and so is dx; it is not NaN, as a careless reference has it."""
    rng = np.random.default_rng(0)
    x, dy = (rng.standard_normal((3, 20)).astype(STORAGE[dtype]) for _ in range(2))
    x[1] *= STORAGE[dtype].type({"f64": 1e200, "f32": 1e30}[dtype])
    of = Problem("rms_norm_backward", {"eps": 1e-5}, {"x": x, "dy": dy}, {"dx": dtype, "dw": dtype})
    contract = Contract(dtype)
    got = simulated(of, contract)
    assert (got["dx"][1] == 0).all()
    assert results(of, contract, got) == ["pass", "pass"]
    got["dx"][2, 3] *= STORAGE[dtype].type(1.01)
    wrong, columns = Truth(of).check(contract, got)
    assert (wrong.result, wrong.worst_index, wrong.failing) == ("numeric", (2, 3), 1)
    assert columns.result == "pass", "the row adds nothing to them"


def test_a_nan_that_must_be_is_no_error() -> None:
    x = np.full((2, 4), 1.0, np.float32)
    x[1, 2] = np.inf
    weight = np.array([1.0, np.inf, 2.0, 3.0], np.float32)
    of = Problem("rms_norm", {"eps": 1e-5}, {"x": x, "weight": weight}, {"y": "f32"}, structured=True)
    got = simulated(of)
    assert np.isnan(got["y"]).any()
    (check,) = Truth(of).check(Contract(), got)
    assert check.result == "pass"
    assert check.worst_ratio < 1


def test_dw_is_judged_as_it_must_be_where_x_times_rstd_overflows() -> None:
    """x r is formed first: infinite for a given rstd, though its product with dy would be a number."""
    x = np.array([[1e30, 1.0], [2.0, 1.0]], np.float32)
    dy = np.array([[1e-30, 1.0], [1.0, 1.0]], np.float32)
    root = np.array([1e20, 0.5], np.float32)
    of = Problem("rms_norm_backward", {"eps": 0.0}, {"x": x, "dy": dy, "rstd": root}, {"dw": "f32"})
    got = simulated(of)
    assert np.isinf(got["dw"][0])
    assert results(of, Contract(), got) == ["pass"]
    got["dw"][1] *= np.float32(1.01)
    (wrong,) = Truth(of).check(Contract(), got)
    assert (wrong.result, wrong.worst_index, wrong.failing) == ("numeric", (1,), 1)


def test_dw_of_f16_is_judged_beyond_the_range_of_f16() -> None:
    """Summed in f32 and stored in f32, it is an ordinary number; summed in f16 it may be infinite."""
    x = np.full((64, 4), 100.0, np.float16)
    given: dict[str, np.ndarray] = {"x": x, "dy": x, "rstd": np.full(64, 1.0, np.float32)}
    of = Problem("rms_norm_backward", {"eps": 0.0}, given, {"dw": "f32"}, structured=True)
    dw = np.full(4, 640000.0, np.float32)
    assert results(of, Contract(), {"dw": dw}) == ["pass"]
    assert results(of, Contract(), {"dw": dw * np.float32(1.01)}) == ["numeric"]
    narrow, infinite = Contract(dtypes={"dw": "input"}), dw * np.float32(np.inf)
    assert results(of, Contract(), {"dw": infinite}) == ["nonfinite"]
    assert results(of, narrow, {"dw": infinite}) == results(of, narrow, {"dw": dw}) == ["pass"]
    assert results(of, narrow, {"dw": dw * np.float32(1.1)}) == ["numeric"]


def test_a_sum_that_may_overflow_allows_both_answers_at_no_distance() -> None:
    x = np.full((1, 4096), np.sqrt(2.0**128 / 4096), np.float32)
    truth = Truth(Problem("rms_norm", {"eps": 0.0}, {"x": x}, {"y": "f32"}, structured=True))
    for y in (np.zeros_like(x), np.ones_like(x)):
        (check,) = truth.check(Contract(), {"y": y})
        assert (check.result, check.worst_ratio) == ("pass", 0.0)
        assert truth.explain(Contract(), "y", (0, 0), float(y[0, 0])).ratio == 0.0


def test_what_is_nan_by_the_formula_is_so_although_a_factor_may_be_nan_as_well() -> None:
    """Zero times the reciprocal root of what may be flushed to zero, times an infinite weight."""
    x, weight = np.array([[0.0, 6e-8, 0.0]], np.float16), np.array([1.0, 1.0, np.inf], np.float16)
    of = Problem("rms_norm", {"eps": 1e-12}, {"x": x, "weight": weight}, {"y": "f16"}, structured=True)
    nan = FormulaProblem(of).enclose(Contract("input", denormals="flush"), True)["y"].nan
    assert nan is not None
    assert [nan[0, 0], nan[0, 2]] == [ALLOWED, REQUIRED]


def test_an_operand_that_the_dtype_of_an_operation_does_not_hold_need_not_overflow() -> None:
    """A state of 8e15 is infinite to a recurrence in f16, which an infinity of the other sign makes NaN."""
    x, gate = np.array([[np.inf, 1.0]]), np.array([[-1.5, 0.5]])
    of = Problem("linear_recurrence", {}, {"x": x, "gate": gate, "h0": np.array([8e15])}, {"hs": "f64"})
    contract = Contract("f64", dtypes={"hs": "f16"})
    assert results(of, contract, {"hs": np.array([[np.inf, np.inf]])}) == ["pass"]
    assert results(of, contract, {"hs": np.array([[np.nan, np.nan]])}) == ["pass"]
    assert results(of, contract, {"hs": np.array([[-np.inf, np.inf]])}) == ["nonfinite"]


def test_infinities_in_their_right_place_pass() -> None:
    """An overflow of the last cast, and an infinite sum, are values like any other; no warning escapes."""
    x = np.array([[1.0, 2.0, -3.0]], np.float16)
    of = Problem("rms_norm", {"eps": 1e-5}, {"x": x, "weight": np.full(3, 60000.0, np.float16)}, {"y": "f16"})
    got = simulated(of)
    assert np.isinf(got["y"]).any()
    assert results(of, Contract(), got) == ["pass"]
    assert results(of, Contract(), {"y": -got["y"]}) == ["nonfinite"]
    big = np.full((1, 2), 60000.0, np.float16)
    sums = Problem("fused_add_rms_norm", {"eps": 1e-5}, {"x": big, "residual": big}, {"y": "f16", "sum": "f16"})
    infinite, nan, ones = (np.full((1, 2), value, np.float16) for value in (np.inf, np.nan, 1.0))
    rounded = Contract(points={"added": "sum"})
    assert results(sums, rounded, {"y": nan, "sum": infinite}) == ["pass", "pass"]
    assert results(sums, rounded, {"y": ones, "sum": infinite}) == ["nonfinite", "pass"]
    # Unrounded, the sum is finite where it is normalised.
    assert results(sums, Contract(), {"y": ones, "sum": infinite}) == ["pass", "pass"]


@pytest.mark.some(1)
@pytest.mark.parametrize("n", [2048, 4096])
def test_a_long_sum_of_squares_in_16_bits_has_two_ends(n: int) -> None:
    contract, rng = Contract("input"), np.random.default_rng(n)
    for values in (rng.normal(size=(1, n)), np.ones((1, n))):
        of = Problem(
            "rms_norm", {"eps": 0.0}, {"x": (values / 4).astype(np.float16)}, {"y": "f16", "rstd": "f32"}, True
        )
        truth = Truth(of)
        orders: tuple[Order, ...] = ("declared", "tree")
        for order in orders:
            got = returned(of, kernel(of, contract, rng, order, order == "tree"))
            assert [each.result for each in truth.check(contract, got)] == ["pass", "pass"], order
        for factor in (0.0, -1.0, 0.05, 70.0):
            wrong = {name: (each * factor).astype(each.dtype) for name, each in got.items()}
            assert [each.result for each in truth.check(contract, wrong)] == ["numeric", "numeric"], factor


@pytest.mark.parametrize(("points", "dtype", "taken"), [({"h": "f16"}, "bf16", "pass"), ({}, "f16", "numeric")])
def test_what_has_two_ends_may_be_flushed_where_it_is_rounded_to_fewer_small_numbers(
    points: dict[str, str], dtype: str, taken: str
) -> None:
    """At a rounding point, and in the output: what is normal in bf16 may be subnormal in f16. What lies in f16 is the
    operand of its cast to bf16."""
    x = np.ones((1, 256))
    x[0, 0] = 2.0**-16
    of = Problem("rms_norm", {"eps": 0.0}, {"x": x.astype(bfloat16)}, {"y": dtype}, True)
    got = returned(of, kernel(of, Contract("bf16", points=points), np.random.default_rng(0)))
    flushed = {"y": got["y"].copy()}
    flushed["y"][0, 0] = 0.0
    for contract, said in (
        (Contract("bf16", points=points, denormals="flush results"), "pass"),
        (Contract("bf16", points=points, denormals="flush"), "pass"),
        (Contract("bf16", points=points, denormals="flush operands"), taken),
    ):
        assert results(of, contract, got) == ["pass"]
        assert results(of, contract, flushed) == [said], contract.denormals


def test_what_has_no_upper_end_keeps_its_sign_where_float64_underflows() -> None:
    x, weight = np.array([[3e-314, -2e-314, 5e-314, -1e-314]]), np.array([1e-19, 1e-19, -1e-19, -1e-19])
    of = Problem("rms_norm", {"eps": 0.0}, {"x": x, "weight": weight}, {"y": "f64"}, True)
    contract, y = Contract("f64", denormals="flush operands"), np.array([[1.0, -1.0, -1.0, 1.0]]) * np.inf
    assert results(of, contract, {"y": y}) == ["pass"]
    assert results(of, contract, {"y": -y}) == ["nonfinite"]


def test_squares_that_became_nan_make_nan_of_a_row_that_has_an_infinity_too() -> None:
    x = np.array([[np.inf, 3e38, 1.0], [1.0, 2.0, 3.0]], np.float32)
    of = Problem("rms_norm", {"eps": 1.0}, {"x": x}, {"y": "f32"}, structured=True)
    got = simulated(of)
    assert results(of, Contract(nonfinite="overflow"), got) == ["pass"]
    got["y"][0] = np.nan
    assert results(of, Contract(nonfinite="overflow"), got) == ["pass"]
    assert results(of, Contract(), got) == ["nonfinite"]
    got["y"][1, 0] = np.nan
    assert results(of, Contract(nonfinite="overflow"), got) == ["nonfinite"]


def test_a_product_beyond_float64_is_infinite_only_to_who_rounds_it() -> None:
    """inf - mean * mean, fused, is infinite: rstd is 0 then. Rounded, the two infinities leave NaN; a number is left
    to who does without them."""
    x = np.array([[1e200, 2e200, 4e200], [1.0, 2.0, 4.0]])
    of = Problem("layer_norm", {"eps": 0.0}, {"x": x}, {"rstd": "f64"})
    moments = {"var": "moments"}
    got = simulated(of, Contract("f64", algorithm=moments))
    for value in (0.0, np.nan):
        got["rstd"][0] = value
        assert results(of, Contract("f64", algorithm=moments), got) == ["pass"]
    got["rstd"][0] = np.inf
    assert results(of, Contract("f64", algorithm=moments, fused=False), got) == ["nonfinite"]


def test_a_single_term_has_no_squares_to_who_starts_with_it() -> None:
    x = np.array([[np.nan], [2.0]], np.float32)
    of = Problem("layer_norm", {"eps": 0.25}, {"x": x}, {"y": "f32", "rstd": "f32"})
    welford = Contract(algorithm={"var": "welford"})
    got = {"y": np.array([[np.nan], [0.0]], np.float32), "rstd": np.array([2.0, 2.0], np.float32)}
    assert results(of, welford, got) == ["pass", "pass"]
    assert results(of, Contract(), got) == ["pass", "nonfinite"]
    got["rstd"][1] = 2.5
    assert results(of, welford, got) == ["pass", "numeric"]


def test_a_term_has_no_exponential_to_who_starts_with_it() -> None:
    """The logarithm of 1 is 0, and an infinite maximum is left; others have NaN of the difference of two. A share of
    what none has a difference of is NaN to all."""
    x = np.array([[np.inf, 1.0], [-np.inf, -np.inf], [2.0, -np.inf]], np.float32)
    online, rng = Contract(algorithm={"mass": "online"}), np.random.default_rng(0)
    sums, shares = (Problem(op, {}, {"x": x}, {"y": "f32"}) for op in ("logsumexp", "softmax"))
    assert [disagreements(of, online, rng)[2] for of in (sums, shares)] == [[], []]
    for value, plain in ((np.inf, "nonfinite"), (np.nan, "pass")):
        got = {"y": np.array([value, -value, 2.0], np.float32)}
        assert (results(sums, online, got), results(sums, Contract(), got)) == (["pass"], [plain])
    assert results(sums, online, {"y": np.array([np.inf, -np.inf, 2.5], np.float32)}) == ["numeric"]
    got = simulated(shares, online)
    assert results(shares, online, got) == ["pass"]
    got["y"][1] = 0.0
    assert results(shares, online, got) == ["nonfinite"]


def test_a_score_that_is_infinite_has_no_share_to_who_starts_with_it() -> None:
    """Its value is left, and its own logarithm; that of a query that sees nothing is -inf, and a NaN stays one."""
    bias = np.array([[np.inf, 1.0, 2.0], [0.0, np.inf, 1.0], [-np.inf] * 3, [np.inf, np.nan, 0.0]], np.float32)
    q, k, v = np.ones((1, 1, 1, 4, 1)), np.zeros((1, 1, 3, 1)), np.array([5.0, 7.0, 9.0]).reshape(1, 1, 3, 1)
    given = {name: array.astype(np.float32) for name, array in (("q", q), ("k", k), ("v", v))}
    given["bias"] = bias.reshape(1, 1, 4, 3)
    of = Problem("attention", {"softmax_scale": 1.0}, given, {"o": "f32", "lse": "f32"}, structured=True)
    plain, online = Contract(), Contract(algorithm={"mass": "online", "acc": "online"})
    assert not disagreements(of, online, np.random.default_rng(0))[2]
    got = simulated(of, online)
    assert results(of, online, got) == results(of, plain, got) == ["pass", "pass"]
    got["o"][0, 0, 0, :2, 0], got["lse"][0, 0, 0, :2] = (5.0, 7.0), np.inf
    assert results(of, online, got) == ["pass", "pass"]
    assert results(of, plain, got) == ["nonfinite", "nonfinite"]
    for query in (2, 3):
        wrong = {name: array.copy() for name, array in got.items()}
        wrong["o"][0, 0, 0, query], wrong["lse"][0, 0, 0, query] = 5.0, 0.0
        assert "pass" not in results(of, online, wrong)


def test_a_pole_times_nothing_is_zero_or_nan_and_decided() -> None:
    """The sum under the root may be nothing in f16, and its middle is: infinity times a weight of zero."""
    points = {"mean_square": "bf16", "eps": "bf16", "h": "bf16"}
    contract = Contract("f16", {"h": "f64", "mean_square": "f64"}, points=points, denormals="flush results")
    x = np.array([[-4.172e-07], [267.8]], np.float16)
    of = Problem("rms_norm", {"eps": 1e-8, "weight_offset": -1.0}, {"x": x, "weight": x[:1] * 0 + 1}, {"y": "f16"})
    for value, said in ((0.0, "pass"), (np.nan, "pass"), (1.0, "numeric"), (np.inf, "numeric")):
        (check,) = Truth(of).check(contract, {"y": np.array([[value], [0.0]], np.float16)})
        assert check.result in (said, "nonfinite" if said == "numeric" else said), value


@pytest.mark.parametrize("op", ["rms_norm_backward", "layer_norm"])
def test_where_partial_sums_overflow_to_either_side_any_order_is_right(op: str) -> None:
    """Two halves that overflow leave NaN, and added by turns they do not: in float64, which holds the centre, too."""
    row, ones = np.repeat([1.2e308, -1.2e308], 256)[None], np.ones((1, 512))
    given = {"x": ones, "dy": row} if op == "rms_norm_backward" else {"x": row}
    output = "dx" if op == "rms_norm_backward" else "y"
    of = Problem(op, {"eps": 1e-5}, given, {output: "f64"}, structured=True)
    for value in (np.nan, np.inf, -np.inf, 0.0, 1.2e308):
        assert results(of, Contract("f64"), {output: np.full((1, 512), value)}) == ["pass"], value
    for some in ([np.nan, 1.0], [np.inf, -np.inf]):  # in no order does that leave a number
        row[0, 3:5] = some
        assert results(of, Contract("f64"), {output: np.full((1, 512), 1.0)}) == ["nonfinite"], some


def test_an_exact_loss_is_right_where_the_sum_of_the_logits_overflows() -> None:
    """A kernel averages what each class has less than the maximum; the formula adds the logits, and comes to minus
    infinity. All else is wrong as ever, and in a row whose sum is a number minus infinity too."""
    x = np.array([[2.5e38, 2e38, 1e38], [1.0, 2.0, 3.0]], np.float32)
    of = Problem("cross_entropy", {"smoothing": 0.1}, {"x": x, "label": np.zeros(2, np.int64)}, {"loss": "f32"})
    below = x.astype(np.float64) - x.max(1, keepdims=True)
    surprise = np.log(np.exp(below).sum(1, keepdims=True)) - below
    loss = (0.9 * surprise[:, 0] + 0.1 * surprise.mean(1)).astype(np.float32)
    assert results(of, Contract(), {"loss": loss}) == ["pass"]
    infinite = loss.copy()
    infinite[0] = -np.inf
    assert results(of, Contract(), {"loss": infinite}) == ["pass"]
    wrong = [(row, value) for row in (0, 1) for value in (np.nan, np.inf, 0.0, 0.999 * loss[row])]
    for row, value in [*wrong, (1, -np.inf)]:
        got = loss.copy()
        got[row] = value
        assert results(of, Contract(), {"loss": got}) == ["numeric" if np.isfinite(value) else "nonfinite"]
    told = Truth(of).explain(Contract(), "loss", (0,), float(loss[0]))
    assert told.passes
    assert told.remarks == ("may also be -inf: the formula overflows on the way",)
    assert not Truth(of).explain(Contract(), "loss", (1,), -np.inf).passes


@pytest.mark.some(1)
@pytest.mark.parametrize("dtype", ["f32", "f16", "f64"])
def test_a_kernel_that_scales_its_rows_first_is_right_where_squares_overflow(dtype: str) -> None:
    """One that does not is, too. In f64 nobody knows how far errors go there, and any number is right."""
    scale, stored = {"f32": 2.0**100, "f16": 2.0**9, "f64": 2.0**900}[dtype], STORAGE[dtype]
    rows = np.array([[1.0, -2.0, 0.5, 4.0], [1.0, 2.0, 3.0, 4.0]])
    x = (rows * np.array([[scale], [1.0]])).astype(stored)
    of = Problem("rms_norm", {"eps": 0.0}, {"x": x}, {"y": dtype})
    scaled = (rows / np.sqrt(np.mean(rows**2, axis=1, keepdims=True))).astype(stored)
    contract = Contract(dtype)
    assert results(of, contract, {"y": scaled}) == results(of, contract, simulated(of, contract)) == ["pass"]
    for factor in (1.1, np.nan, np.inf):
        for row in (0, 1):
            got = scaled.copy()
            got[row] *= stored.type(factor)
            said = "pass" if (dtype, row, factor) == ("f64", 0, 1.1) else "numeric" if factor == 1.1 else "nonfinite"
            assert results(of, contract, {"y": got}) == [said]
    scaled[1] = 0.0
    assert results(of, contract, {"y": scaled}) == ["numeric"], "nothing overflows in that row"


def test_anything_is_right_where_moments_overflow_or_cancel() -> None:
    """As the formula is spelled it leaves inf - inf. Without overflow its variance is zero or less to some kernels, so
    that an infinity is no error either; rows that stand by themselves stay judged. Both tiers say so."""
    row, other = np.full(21, 1e4), np.arange(21.0)
    x = np.array([row, other], np.float16)
    of = Problem("layer_norm", {"eps": 1e-12}, {"x": x}, {"y": "f16", "rstd": "f32"}, structured=True)
    contract = Contract("input", algorithm={"var": "moments", "h": "apart"})
    compared, _, wrong = disagreements(of, contract, np.random.default_rng(0))
    assert (compared > 0, wrong) == (True, [])
    got = simulated(of, contract)
    assert np.isnan(got["y"][0]).all()
    for value in (np.nan, 0.0, np.inf, 1.0):
        got["y"][0], got["rstd"][0] = value, value
        assert results(of, contract, got) == ["pass", "pass"], value
    got["y"][1] *= np.float16(1.5)
    assert results(of, contract, got) == ["numeric", "pass"]


def test_what_may_be_a_pole_is_judged_beside_a_row_that_overflows() -> None:
    """The sum of the other row overflows; a variance of this one that is nothing, or nearly so, leaves a large number
    or an infinity."""
    x = np.array([[32.0, 32.0], [-65504.0, -65504.0]], np.float16)
    of = Problem("layer_norm", {"eps": 0.0}, {"x": x}, {"mean": "f32", "rstd": "f32"}, structured=True)
    contract = Contract("input", algorithm={"var": "welford"})
    assert not disagreements(of, contract, np.random.default_rng(0))[2]
    got = simulated(of, contract)
    for value, said in ((np.inf, "pass"), (1e6, "pass"), (1.0, "numeric"), (np.nan, "nonfinite")):
        got["rstd"][0] = value
        assert results(of, contract, got) == ["pass", said], value


@pytest.mark.parametrize(("weight", "right", "wrong"), [(np.inf, (np.inf, np.nan), -np.inf), (6e4, (np.inf, 0.0), 6e4)])
def test_an_infinity_is_right_that_the_exact_value_is(weight: float, right: tuple[float, ...], wrong: float) -> None:
    """The squares overflow: the formula leaves 0 times the weight, and who scales the row first has a number times
    it."""
    x, given = np.array([[1024.0, -512.0]], np.float16), np.array([weight, 1.0], np.float16)
    of = Problem("rms_norm", {"eps": 0.0}, {"x": x, "weight": given}, {"y": "f16"})
    contract, got = Contract("input"), {"y": np.array([[0.0, -0.6323]], np.float16)}
    assert not disagreements(of, contract, np.random.default_rng(0))[2]
    for value in (*right, wrong):
        got["y"][0, 0] = value
        assert (results(of, contract, got) == ["pass"]) == (value is not wrong), value


def test_an_infinity_times_what_may_vanish_is_anything_where_its_formula_overflows() -> None:
    """The sigmoid of -257 is less than any number of f32, and by its quotient 0: an infinite gradient times that is
    infinite, or NaN."""
    gate, up = np.array([[-257.0, 2.0]], np.float16), np.ones((1, 2), np.float16)
    given = {"gate": gate, "up": up, "dy": np.array([[-np.inf, 1.0]], np.float16)}
    of = Problem("silu_mul_backward", {}, given, {"dgate": "f16", "dup": "f16"}, structured=True)
    contract = Contract(denormals="flush", algorithm={"s": "quotient", "h": "quotient"})
    assert not disagreements(of, contract, np.random.default_rng(0))[2]
    got = simulated(of, contract)
    for value in (np.nan, np.inf, -np.inf):
        got["dgate"][0, 0] = got["dup"][0, 0] = value
        assert results(of, contract, got) == ["pass", "pass"]
    got["dup"][0, 1] *= np.float16(1.1)
    assert results(of, contract, got) == ["pass", "numeric"]


def test_what_is_nan_to_every_kernel_stays_so_beside_a_row_with_a_pole() -> None:
    x = np.array([[0.75, -0.25, 1.0], [-np.inf, -np.inf, -np.inf]]).astype(bfloat16)
    of = Problem("layer_norm", {"eps": 1e-12}, {"x": x}, {"y": "bf16"}, structured=True)
    contract = Contract("input", algorithm={"var": "welford"}, denormals="flush results")
    assert not disagreements(of, contract, np.random.default_rng(0))[2]
    got = simulated(of, contract)
    assert results(of, contract, got) == ["pass"]
    got["y"][1] = 0.0
    assert results(of, contract, got) == ["nonfinite"]


def test_a_number_is_right_where_float64_has_no_room_for_it_either() -> None:
    """No square of 1e200 is a number of f64, and a kernel in f32 has infinities: float64 has 0 of their root alone."""
    of = Problem("rms_norm", {"eps": 0.0}, {"x": np.array([[1e200, -2e200]])}, {"y": "f64"})
    assert not disagreements(of, Contract(), np.random.default_rng(0))[2]
    for y, said in (([0.6324555, -1.264911], "pass"), ([np.inf, np.inf], "nonfinite")):
        assert results(of, Contract(), {"y": np.array([y])}) == [said]


def test_values_of_one_key_are_right_where_scores_overflow() -> None:
    """The exact scores say which key is seen; by the formula they are infinite, and their differences are NaN. No
    infinity is made of numbers."""
    q, k, v = (np.array(each, np.float32) for each in ([[1, 1]], [[1, 1], [2, 2]], [[1, 2], [3, 4]]))
    given = {"q": q.reshape(1, 1, 1, 1, 2) * 1e30, "k": k.reshape(1, 1, 2, 2) * 1e30, "v": v.reshape(1, 1, 2, 2)}
    given = {name: each.astype(np.float32) for name, each in given.items()}
    of = Problem("attention", {"softmax_scale": 1.0}, given, {"o": "f32"})
    for value, said in ((v[1], "pass"), (np.full(2, np.nan), "pass"), (np.full(2, np.inf), "nonfinite")):
        assert results(of, Contract(), {"o": value.astype(np.float32).reshape(1, 1, 1, 1, 2)}) == [said]


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_softplus_is_right_where_its_composite_overflows(dtype: str) -> None:
    """Far beyond that too, where float64 has no room for the exponential: any number is right there, and NaN is not."""
    x = np.array([[1.0, 80.0, 100.0, 600.0, 700.0, 1000.0, 1e6]], STORAGE[dtype])
    with known(COMPOSITE):
        of, y = Problem(COMPOSITE.name, {}, {"x": x}, {"y": dtype}), np.logaddexp(x.astype(np.float64), 0.0)
        right, contract = y.astype(STORAGE[dtype]), Contract(dtype)
        assert results(of, contract, {"y": right}) == ["pass"]
        for value, finite in ((np.inf, 2 if dtype == "f32" else 5), (np.nan, 7)):
            (check,) = Truth(of).check(contract, {"y": right * 0 + STORAGE[dtype].type(value)})
            assert (check.result, check.failing) == ("nonfinite", finite)
        (check,) = Truth(of).check(contract, {"y": right * STORAGE[dtype].type(1.1)})
        assert check.mask is not None
        assert check.mask[0, : 4 if dtype == "f32" else 5].all()


def test_what_overflows_at_a_declared_point_is_no_number_from_there_on() -> None:
    big, y = np.full((1, 3), 60000.0, np.float16), np.ones((1, 3), np.float16)
    of = Problem("fused_add_rms_norm", {"eps": 0.0}, {"x": big, "residual": big}, {"y": "f16"})
    assert results(of, Contract(), {"y": y}) == ["pass"]
    assert results(of, Contract(points={"added": "f16"}), {"y": y}) == ["nonfinite"]


@pytest.mark.parametrize("got", [np.inf, 65504.0, np.nan])
def test_what_overflows_in_the_last_cast_is_judged_unless_it_is_unspecified(got: float) -> None:
    """A kernel may leave infinity there, or the largest number; beside it all is judged as ever."""
    x = np.array([[1.0, 3.0, -2.0]], np.float16)
    weight = np.array([60000.0, 60000.0, 1.0], np.float16)
    of = Problem("rms_norm", {"eps": 1e-5}, {"x": x, "weight": weight}, {"y": "f16"})
    outputs = simulated(of)
    assert np.isposinf(outputs["y"][0, 1])
    outputs["y"][0, 1] = got
    assert results(of, Contract(), outputs) == [
        "pass" if got == np.inf else "nonfinite" if np.isnan(got) else "numeric"
    ]
    fast = Contract(nonfinite="unspecified")
    assert results(of, fast, outputs) == ["pass"]
    outputs["y"][0, 0] *= np.float16(1.01)
    assert results(of, fast, outputs) == ["numeric"]


@pytest.mark.parametrize("algorithm", [{}, {"dx": "products"}])
@pytest.mark.parametrize(("denormals", "result"), [("flush operands", "pass"), ("flush results", "numeric")])
def test_an_overflow_that_hangs_on_an_operand_that_may_be_flushed_is_not_certain(
    algorithm: dict[str, str], denormals: str, result: str
) -> None:
    """The sum is 4, or 0 with dy taken for zero: the largest number times it is an infinity, or zero."""
    limits = np.finfo(np.float64)
    given = {"y": np.array([[-limits.max]]), "dy": np.array([[-np.nextafter(limits.tiny, 0.0)]])}
    of = Problem("softmax_backward", {}, given, {"dx": "f64"}, True)
    contract = Contract("f64", algorithm=algorithm, denormals=denormals)  # type: ignore[arg-type]
    assert [results(of, contract, {"dx": np.array([[got]])}) for got in (np.inf, 0.0)] == [["pass"], [result]]


@pytest.mark.parametrize(
    ("op", "compute", "output", "left"), [("rms_norm", "f64", "y", -0.0), ("gelu_backward", "bf16", "dx", np.nan)]
)
def test_what_the_overflow_leaves_is_what_both_tiers_have_for_it(
    op: str, compute: str, output: str, left: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is compared with the formula as it is spelled, and not with what that comes to without overflow."""
    x, params = np.full((1, 2), -1e160), {"eps": 1e-5} if op == "rms_norm" else {}
    given = {"x": x} if op == "rms_norm" else {"x": x, "dy": np.ones((1, 2))}
    truth = Truth(Problem(op, params, given, {output: "f64"}))
    monkeypatch.setattr("oracles.truth.SAMPLE", 1 - truth.op.cost(output))
    contract, got = Contract(compute, dtypes={output: "f64"}), truth.receive({output: np.full((1, 2), left)})
    ((found,),) = settle([(truth, [(contract, got)])])
    assert isinstance(found, OutputCheck)
    assert found.result == "pass"
