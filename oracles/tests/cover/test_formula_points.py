"""Rounding points and narrowings: what every kernel rounds alike is exact from there on, in both tiers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest

from oracles.doubledouble import F64
from oracles.dtypes import Format, form
from oracles.enclosure import compare, passes
from oracles.formula.affine import budget as budgets
from oracles.formula.affine import narrowing
from oracles.formula.affine.budget import Budget
from oracles.formula.affine.narrowing import Narrowed, Spread, narrowed
from oracles.formula.contract import Contract
from oracles.formula.exact.centre import Inputs
from oracles.formula.trace import point, total, trace
from oracles.problem import Problem
from oracles.rounding import STORAGE, round_precise, round_to
from oracles.simulated.simulation import Simulated
from oracles.summation import Lanes, NumericsError
from oracles.tests.common.judged import kernel, known, returned
from oracles.tests.common.points import ADDED, CONTRACTS, LLAMA, SCALED, problem
from oracles.tiers.conformance import Conformance
from oracles.tiers.problem import FormulaProblem
from oracles.truth import Truth, settle


@pytest.fixture(autouse=True)
def _ops() -> Iterator[None]:
    with known(SCALED, ADDED):
        yield


@pytest.mark.some(1)
@pytest.mark.parametrize("name", CONTRACTS)
@pytest.mark.parametrize("dtype", ["bf16", "f16", "f32"])
def test_thousands_of_correctly_rounded_outputs_stop_nothing(
    dtype: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Products of a rounded value and a weight of 8 bits have 16: many are ties in the dtype of the output. All passes
    are confirmed by the precise tier."""
    rng, contract, escalated, elements = np.random.default_rng(3), CONTRACTS[name], 0, 0
    for number in range(24):
        scale = (1.0, 2.0 ** (-70 if dtype != "f16" else -6))[number % 4 == 0]
        of = problem(
            dtype, (3, 8), rng, scale=scale, eps=(1e-5, 0.0)[number % 2], offset=(0.0, 1.0)[number // 2 % 2],
            weight=("", "f32")[number % 5 == 0], out=("", "f32", "bf16")[number % 3],
        )  # fmt: skip
        monkeypatch.setattr("oracles.truth.SAMPLE", 1 - 8)
        truth, right = Truth(of), returned(of, kernel(of, contract, rng))
        ((found,),) = settle([(truth, [(contract, truth.receive(right))])])
        assert found is None or getattr(found, "result", "") == "pass", (number, found)
        (check,) = truth.check(contract, right)
        assert check.result == "pass", (number, check)
        escalated, elements = escalated + check.escalated, elements + right["y"].size
    assert elements == 576
    assert escalated < elements / 20


def test_a_product_that_ties_in_the_dtype_of_the_output_is_rounded_to_even_in_both_tiers() -> None:
    """Products of two numbers of 8 bits, which f32 holds."""
    rng = np.random.default_rng(4)
    x, w = (rng.normal(size=(40, 50)).astype(STORAGE["bf16"]) for _ in range(2))
    graph = trace(lambda x, w: {"y": point(x * w)}, {"x": ("...", "n"), "w": ("...", "n")})
    graph = replace(graph, locals={**graph.locals, "product": graph.outputs["y"].args[0]})
    inputs = Inputs(graph, {"x": x, "w": w}, {})
    exact = x.astype(float) * w.astype(float)
    low, high = (round_to(exact * (1 + side * 2.0**-40), form("bf16")) for side in (-1, 1))
    assert (low != high).sum() > 5, "ties"
    right = np.array([round_precise(mpmath.mpf(each), form("bf16")) for each in exact.ravel()]).reshape(exact.shape)
    for contract, dtype in (
        (Contract("f32", points={"product": "bf16"}), "f32"),
        (Contract("f32"), "bf16"),
        (Contract("bf16"), "bf16"),
    ):
        found = Conformance(inputs, contract, {"y": dtype})
        enclosure = found.enclosure("y")
        for ends in (enclosure.inner, enclosure.outer):
            assert (ends[0] == right).all(), contract
            assert (ends[1] == right).all(), contract
        for at in np.argwhere(low != high)[:5]:
            assert found.bounds("y", tuple(at)).ends == (right[tuple(at)],) * 2


@pytest.mark.some(3)
@pytest.mark.parametrize("dtype", ["bf16", "f16", "f32"])
@pytest.mark.parametrize("weighted", [True, False])
def test_the_sets_are_those_between_the_roundings_of_both_ends(dtype: str, weighted: bool) -> None:
    """Calculated again, in rational numbers: what h may be without the point, rounded, times the weight."""
    rng, several = np.random.default_rng(5), 0
    scale = 2.0**-70 if dtype == "bf16" else 1.0
    of = problem(dtype, (6, 16), rng, eps=0.0, scale=scale, out="f32", without=() if weighted else ("weight",))
    before = FormulaProblem(replace(of, inputs={"x": of.inputs["x"]}, params={"eps": 0.0}))
    plain = before.conformance(Contract("f32"), True, before.tensors).members[0]
    found, truth = Truth(of).enclosures(LLAMA.settled({"x": dtype}), True)["y"], Truth(of)
    width = plain.width("y")
    for row, column in np.ndindex(6, 16):
        with mpmath.workprec(300):
            centre = plain.bounds("y", (row, column)).centre
            ends = [round_precise(centre + side * float(width[row, column]), form(dtype)) for side in (-1, 1)]
        weight = Fraction(float(of.inputs["weight"][column])) if weighted else Fraction(1)
        products = sorted(round_precise(_real(Fraction(each) * weight), form("f32")) for each in ends)
        several += products[0] != products[1]
        bounds = truth.bounds(LLAMA, "y", (row, column), True)
        assert bounds is not None
        fast = [float(end[row, column]) for end in found.outer]
        assert list(bounds.ends) == fast == products, (row, column)
    assert several >= (1 if dtype != "f16" else 0)


def _real(value: Fraction) -> mpmath.mpf:
    with mpmath.workprec(300):
        return mpmath.mpf(value.numerator) / value.denominator


def test_what_all_kernels_hold_alike_is_exact() -> None:
    """n = 257 is 256 in bf16, and eps and an f32 weight are rounded too: the value is that of what kernels hold."""
    rng = np.random.default_rng(7)
    of = problem("bf16", (2, 257), rng, eps=1e-3, weight="f32")
    contract = Contract("bf16")
    x, weight = of.inputs["x"].astype(float), round_to(of.inputs["weight"].astype(float), form("bf16"))
    eps = round_precise(mpmath.mpf(float(np.float32(1e-3))), form("bf16"))
    assert eps != float(np.float32(1e-3))
    bounds = Truth(of).bounds(contract, "y", (1, 5), True)
    assert bounds is not None
    with mpmath.workprec(200):
        squares = sum(mpmath.mpf(each) ** 2 for each in x[1].tolist())
        expected = x[1, 5] / mpmath.sqrt(squares / 256 + eps) * weight[5]
        assert abs(bounds.centre - expected) < abs(expected) * mpmath.mpf(2) ** -150


def test_a_row_longer_than_the_accumulator_counts_is_refused() -> None:
    of = problem("f16", (1, 70_000), np.random.default_rng(8))
    with pytest.raises(NumericsError, match=r"^compute: f16 cannot hold the row length 70000$"):
        Truth(of).check(Contract("f16"), {"y": of.inputs["x"]})


def test_the_sum_of_two_operands_is_what_every_kernel_has() -> None:
    """bf16 x + residual ties in bf16 half of the time; a kernel adds in f32, exactly, and rounds once."""
    rng = np.random.default_rng(9)
    of = problem("bf16", (8, 16), rng, op=ADDED)
    contract = Contract("f32", points={"added": "sum"}, dtypes={"added": "f32"})
    exact = of.inputs["x"].astype(float) + of.inputs["residual"].astype(float)
    right = round_to(exact, form("bf16"))
    found = Truth(of).enclosures(contract, True)["sum"]
    assert (found.inner[0] == right).all()
    assert (found.inner[1] == right).all()
    got = {**returned(of, kernel(of, contract, rng)), "sum": right.astype(STORAGE["bf16"])}
    assert {check.result for check in Truth(of).check(contract, got)} == {"pass"}
    # What is normalised is the rounded sum, so that no other is.
    other = Truth(of).check(Contract("f32", dtypes={"added": "f32"}), returned(of, kernel(of, contract, rng)))
    assert [check.result for check in other] == ["numeric", "pass"]


@pytest.mark.some(1)
@pytest.mark.parametrize("contract", [*CONTRACTS.values(), Contract("f16", points={"h": "bf16"}, denormals="flush")])
def test_rows_are_the_same_by_themselves_and_among_others(contract: Contract) -> None:
    """Also beside rows of subnormal numbers."""
    rng = np.random.default_rng(10)
    for dtype in ("bf16", "f32"):
        of = problem(dtype, (30, 24), rng, eps=0.0, out="f32", offset=1.0)
        of.inputs["x"][:3] *= STORAGE[dtype].type(2.0**-127)
        of.inputs["weight"][:3] *= STORAGE[dtype].type(2.0**-127)
        whole = FormulaProblem(of).enclose(contract, False)["y"]
        for row in range(30):
            one = replace(of, inputs={**of.inputs, "x": of.inputs["x"][row : row + 1]})
            alone = FormulaProblem(one).enclose(contract, False)["y"]
            sure = np.ones(24, bool) if whole.unsure is None else ~whole.unsure[row]
            for side in (0, 1):
                assert np.array_equal(whole.outer[side][row][sure], alone.outer[side][0][sure], equal_nan=True)
            assert np.allclose(whole.below[row], alone.below[0], rtol=2.0**-45, atol=0, equal_nan=True)


def test_what_float64_decides_by_chance_is_left_to_the_precise_tier() -> None:
    """With ends that lie next to the middle between two numbers."""
    graph = trace(lambda x: {"s": total(x, "n")}, {"x": ("n",)})
    some = Budget(Inputs(graph, {"x": np.ones(4, np.float32) / 3}, {}), Contract("f32"))
    value = replace(some.output("s", "f64"), centre=np.array([1.0 + 2.0**-9]))
    middle = 2.0**-8 - 2.0**-9  # from the centre to that between 1 and 1 + 2^-7
    for most, doubtful in ((middle * (1 - 2.0**-30), False), (middle, True), (middle * (1 + 2.0**-30), False)):
        found = narrowed(value, form("bf16"), Contract("f32"), Spread(np.array([most]), np.array([middle * 2.0**-40])))
        assert (found.doubt is not None) == doubtful, most
    assert found.form.centre.tolist() == [1.0 + 2.0**-8]
    assert found.form.spread.tolist() == [2.0**-8]


def test_what_depends_on_such_a_value_is_unsure(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if rows beside others differed by an eighth of what is allowed."""
    rng, contract = np.random.default_rng(17), LLAMA
    of = problem("bf16", (40, 16), rng, eps=0.0, scale=2.0**-70)
    right = returned(of, kernel(of, contract, rng))
    assert Truth(of).enclosures(contract, True)["y"].unsure is None
    monkeypatch.setattr(budgets, "SAME", 2.0**-3)
    unsure = Truth(of).enclosures(contract, True)["y"].unsure
    assert unsure is not None
    assert 0 < unsure.mean() < 0.5
    assert [check.result for check in Truth(of).check(contract, right)] == ["pass"]


def test_a_product_is_rounded_before_it_goes_into_a_sum_of_another_dtype() -> None:
    """However much a contract allows to leave out: a kernel in f16 has no number for it."""
    graph = trace(lambda x, y: {"d": y - x * y}, {"x": ("n",), "y": ("n",)})
    rng = np.random.default_rng(16)
    x, y = (rng.normal(size=500).astype(np.float32) for _ in range(2))
    inputs, contract = Inputs(graph, {"x": x, "y": y}, {}), Contract("f32", dtypes={"d": "f16"})
    found = Conformance(inputs, contract, {"d": "f16"})
    for _ in range(6):
        got = Simulated(inputs, contract, rng, fused=True).output("d", "f16")
        assert not compare(found.enclosure("d"), got).failing.any()
    assert (found.budget.output("d", "f16").spread == 0).mean() > 0.9


def _away(values: F64, dtype: Format) -> F64:
    """Ties away from zero."""
    return np.asarray(round_to(values * (1 + 2.0**-50), dtype))


def _next(narrow: Callable[..., Narrowed]) -> Callable[..., Narrowed]:
    def off(*args: Any, **more: Any) -> Narrowed:
        found = narrow(*args, **more)
        held = found.form.centre * (1 + 2 * found.form.dtype.u)
        return Narrowed(replace(found.form, centre=held), held)

    return off


def _wrong(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if kind == "ties":
        monkeypatch.setattr(narrowing, "round_to", _away)
    elif kind == "no point":
        monkeypatch.setattr(Budget, "pointed", lambda self, node: None)
    elif kind == "the next number":
        monkeypatch.setattr(budgets, "narrowed", _next(narrowed))
    elif kind == "no reach":
        monkeypatch.setattr(Budget, "_reach", lambda self, read, node, form: narrowing.ALIKE)
    else:
        monkeypatch.setattr(narrowing, "_ends", lambda centre, reach, dtype, flush: (round_to(centre, dtype),) * 2)


@pytest.mark.some(2)
@pytest.mark.parametrize("kind", ["ties", "no point", "the next number", "no reach", "one of two"])
def test_a_wrong_rounding_rejects_correct_kernels(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def alarms() -> int:
        rng, found = np.random.default_rng(12), 0
        for number in range(12):
            of = problem(
                "bf16", (8, 32), rng, op=(ADDED, SCALED)[number % 2], eps=0.0, out="f32",
                scale=2.0 ** (-70 * (number % 3)),
            )  # fmt: skip
            contract = Contract("f32", points={"h": "input", "added": "input"})
            with np.errstate(all="ignore"):
                found += not all(
                    passes(each, got) or not compare(each, got).failing.any()
                    for name, got in Truth(of).receive(returned(of, kernel(of, contract, rng))).values.items()
                    for each in [FormulaProblem(of).enclose(contract, True)[name]]
                )
        return found

    assert alarms() == 0
    _wrong(kind, monkeypatch)
    assert alarms() > 0


def test_a_point_that_is_not_declared_fails() -> None:
    rng = np.random.default_rng(13)
    of = problem("bf16", (8, 32), rng, out="f32")
    for did, said in ((LLAMA, Contract("f32")), (Contract("f32"), LLAMA)):
        got = returned(of, kernel(of, did, rng))
        assert [check.result for check in Truth(of).check(said, got)] == ["numeric"]
        assert [check.result for check in Truth(of).check(did, got)] == ["pass"]


def test_a_batch_of_rows_with_points_says_what_each_says() -> None:
    rng, asked = np.random.default_rng(14), []
    for _ in range(6):
        of = problem("bf16", (3, 16), rng)
        truth = Truth(of)
        contracts = (*CONTRACTS.values(), replace(LLAMA, sums={"n": Lanes(4, 2, "scalar")}))
        asked.append((truth, [(each, truth.receive(returned(of, kernel(of, each, rng)))) for each in contracts]))
    for (truth, queries), found in zip(asked, settle(asked), strict=True):
        for (contract, received), each in zip(queries, found, strict=True):
            (check,) = truth.check(contract, received)
            assert check.result == "pass"
            assert each is None or each.worst_ratio == pytest.approx(check.worst_ratio)  # type: ignore[union-attr]


@pytest.mark.parametrize("denormals", ["preserve", "flush"])
def test_a_tie_after_a_sum_that_loses_an_operand_is_one_in_both_tiers(denormals: Any) -> None:
    rng = np.random.default_rng(4)
    x, residual = (
        (rng.normal(size=(2, 512)) * size + size * 4).astype(STORAGE["bf16"]) for size in (2.0**60, 2.0**-20)
    )
    of = Problem("fused_add_rms_norm", {"eps": 0.0}, {"x": x, "residual": residual}, {"y": "bf16", "sum": "bf16"}, True)
    dtypes = {"added": "bf16", "h": "bf16", "y": "bf16"}
    contract = Contract("f64", dtypes=dtypes, points={"added": "input"}, denormals=denormals)
    for check in Truth(of).check(contract, returned(of, kernel(of, contract, rng))):
        assert check.result == "pass", check
