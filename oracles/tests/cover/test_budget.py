"""Budgets: against their formulas written a second time in Arb, against what sums really do, and with terms changed."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any as Anything

import flint
import mpmath
import numpy as np
import pytest

from oracles import (
    AnyOrder,
    Blocks,
    Contract,
    Lanes,
    NumericsError,
    Pairwise,
    Sequential,
    Summation,
    Tiles,
    VectorLanes,
)
from oracles.budget import CONFIDENCE, RANDOM_LIMIT, sum_budget
from oracles.dtypes import form
from oracles.problem import Problem
from oracles.rounding import STORAGE
from oracles.simulated.roundings import total
from oracles.tests.common.judged import kernel, results, returned
from oracles.truth import Truth

STRUCTURES: tuple[Summation, ...] = (
    Sequential(),
    AnyOrder(),
    Lanes(4, 1, "scalar"),
    Lanes(16, 4, "scalar"),
    Lanes(8, 4, "predicated"),
    Lanes(12, 2, "predicated"),
    Tiles(1),
    Tiles(37),
    Pairwise(),
    Pairwise(8),
    Blocks(16),
    Blocks(4),
)
EPS = 2.0**-30


class Depth:
    """A number that only counts the additions on its longest path; zero padding counts nothing."""

    def __init__(self, additions: int) -> None:
        self.additions = additions

    def __add__(self, other: object) -> Depth:
        return Depth(max(self.additions, other.additions) + 1) if isinstance(other, Depth) else self

    __radd__ = __add__


@pytest.mark.parametrize("structure", STRUCTURES)
def test_chain_bounds_the_additions_on_any_path(structure: Summation) -> None:
    for n in (*range(1, 71), 127, 128, 129, 300):
        terms = np.array([Depth(0) for _ in range(n)], dtype=object)
        depth = total(terms, structure)
        assert depth.item().additions <= structure.chain(n), n


@pytest.mark.parametrize("structure", [Sequential(), Lanes(8, 2, "scalar"), Pairwise(), Tiles(8)])
def test_sums_of_no_rows_are_none(structure: Summation) -> None:
    assert total(np.zeros((2, 0, 64), np.float32), structure).shape == (2, 0)


def test_vector_lanes_are_chosen_by_the_target() -> None:
    with pytest.raises(NumericsError, match=r"^summation:"):
        VectorLanes(4, "predicated").chain(7)


def test_sum_budget_is_the_smaller_one_and_statistical_only_where_that_is_sound() -> None:
    for name in ("f64", "f32", "f16", "bf16"):
        u = form(name).u
        for chain in (1, 2, 9, 36, 50, 1000, 32769):
            down, up, statistical = sum_budget(form(name), chain, False)
            worst_down, worst_up, never = sum_budget(form(name), chain, True)
            assert not never
            assert (down, up) <= (worst_down, worst_up)
            assert 0 < down <= 1
            assert worst_down >= 1 - (1 - u) ** chain - 1e-12
            if statistical:
                assert chain > CONFIDENCE**2
                assert chain * u <= RANDOM_LIMIT


@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_worst_case_holds_for_stalling_sums(name: str) -> None:
    """Equal terms in 16 bit: the sum stalls, which only the worst case allows."""
    for n in (256, 2048, 4096):
        terms = np.ones((1, n), dtype=STORAGE[name])
        got = float(total(terms, Sequential())[0])
        down, up, statistical = sum_budget(form(name), n, False)
        assert not statistical
        assert n * (1 - down) <= got <= n * (1 + up)


@pytest.mark.some(1)
@pytest.mark.parametrize("power", [2, 4])
@pytest.mark.parametrize("n", [2**14, 2**17, 2**18, 2**19])
def test_a_long_sum_whose_small_terms_are_lost_is_within_its_budget(n: int, power: int) -> None:
    """Terms that fall below the last bit of the sum make 2^18 fourth powers need a lambda of 7."""
    for seed in range(3):
        terms = (np.random.default_rng(seed).standard_normal(n) ** power).astype(np.float32)
        exact = math.fsum(terms.tolist())
        got = float(np.add.accumulate(terms, dtype=np.float32)[-1])
        down, up, _ = sum_budget(form("f32"), n, False)
        assert exact * (1 - down) <= got <= exact * (1 + up)


def expected_root(x: np.ndarray, contract: Contract, eps: float, worst_case: bool) -> tuple[flint.arb, flint.arb]:
    """Ends of the interval of rstd for one row, from the declaration, in Arb. Written apart from the formula's."""
    flint.ctx.prec = 300
    compute = form(contract.compute)
    u = flint.arb(2) ** -compute.precision
    # One rounding for the square besides; a single term is not added to anything.
    n, h = len(x), contract.order("", "n").chain(len(x))
    squares = sum((_exact(v) ** 2 for v in x), flint.arb(0))
    if n == 1:
        down = up = flint.arb(0)
    elif worst_case or h <= 36:
        down, up = 1 - (1 - u) ** h, (1 + u) ** h - 1
    else:
        down = up = flint.arb(6) * flint.arb(h).sqrt() * u + h * u * u
    down, up = 1 - (1 - down) * (1 - u), (1 + up) * (1 + u) - 1
    mean = u if contract.mean == "divide" else 2 * u + u * u
    root = 2 * u / (1 - u) if "rsqrt" not in contract.accuracy else 2 * u * flint.arb(contract.ulp("rsqrt"))
    add = u if eps else flint.arb(0)
    low_mean, high_mean = squares * (1 - down) / n * (1 - mean), squares * (1 + up) / n * (1 + mean)
    low = (1 - root) / ((high_mean + _exact(eps)) * (1 + add)).sqrt()
    high = (1 + root) / ((low_mean + _exact(eps)) * (1 - add)).sqrt()
    return low, high


def _exact(value: float) -> flint.arb:
    numerator, denominator = float(value).as_integer_ratio()
    return flint.arb(flint.fmpq(numerator, denominator))


CONTRACTS = (
    Contract("f32"),
    Contract("f32", mean="reciprocal", accuracy={"rsqrt": 2.0}),
    Contract("f32", sums={"n": Lanes(16, 4, "scalar")}),
)


def deviation(contract: Contract, eps: float, n: int, worst_case: bool, expected: Contract) -> float:
    """By how much of it the half-width of rstd (both tiers) differs from what is expected of a contract, at most."""
    x = np.random.default_rng(n).standard_normal(n).astype(np.float32)
    truth = Truth(Problem("rms_norm", {"eps": eps}, {"x": x[None]}, {"rstd": "f32"}, structured=worst_case))
    bounds = truth.bounds(contract, "rstd", (0,), worst_case)
    fast = truth.enclosures(contract, worst_case)["rstd"]
    assert bounds is not None
    low, high = expected_root(x, expected, eps, worst_case)
    wanted = (high - low) / 2
    widths = (flint.arb(mpmath.nstr((bounds.high - bounds.low) / 2, 60)), flint.arb(float(fast.below[0])))
    return max(abs(float(width / wanted - 1)) for width in widths)


@pytest.mark.parametrize("n", [1, 8, 40, 300])
@pytest.mark.parametrize("structured", [False, True])
def test_half_widths_follow_the_formulas(n: int, structured: bool) -> None:
    """A chain of one rounding more or less is what statistics may differ in."""
    for contract in CONTRACTS:
        for eps in (EPS, 0.0):
            likely = not structured and contract.order("", "n").chain(n) > 36
            assert deviation(contract, eps, n, structured, contract) < (0.02 if likely else 1e-3), contract


OTHERS = {
    "mean": Contract("f32", mean="reciprocal"),
    "rsqrt": Contract("f32", accuracy={"rsqrt": 1.1}),
    "sum": Contract("f32", sums={"n": Lanes(4, 1, "scalar")}),
}


@pytest.mark.parametrize("term", OTHERS)
def test_what_another_contract_allows_is_noticed(term: str) -> None:
    """Where the least terms are as large as others: of eight elements."""
    assert deviation(OTHERS[term], EPS, 8, True, Contract("f32")) > 1e-2


@pytest.mark.parametrize("factor", [0.5, 0.9, 1.1])
def test_a_halved_or_inflated_sum_is_noticed(factor: float, monkeypatch: pytest.MonkeyPatch) -> None:
    def planted(*arguments: Anything) -> tuple[float, float, bool]:
        down, up, statistical = sum_budget(*arguments)
        return down * factor, up * factor, statistical

    monkeypatch.setattr("oracles.formula.affine.setting.sum_budget", planted)
    assert deviation(Contract("f32"), EPS, 40, True, Contract("f32")) > 1e-2


def _alarms(rows: int, n: int) -> int:
    """False alarms of simulated kernels, on rows of random values."""
    rng = np.random.default_rng(3)
    contract, found = Contract("f32", fused=False), 0
    for dtype in ("f32", "f16"):
        contract = replace(contract, compute=dtype)
        x = rng.uniform(0, 1, (rows, n)).astype(STORAGE[dtype])
        of = Problem("rms_norm", {"eps": EPS}, {"x": x}, {"y": dtype, "rstd": dtype})
        found += results(of, contract, returned(of, kernel(of, contract, rng))) != ["pass", "pass"]
    return found


def test_too_small_a_lambda_raises_false_alarms(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _alarms(64, 4096) == 0
    monkeypatch.setattr("oracles.budget.CONFIDENCE", CONFIDENCE / 20)
    assert _alarms(64, 4097) > 0, "of another length: screens keep the numbers of those that they have seen"


def test_sums_of_random_values_need_less_than_half_of_lambda() -> None:
    rng, needed = np.random.default_rng(5), 0.0
    for structure in (Sequential(), Lanes(8, 4, "scalar"), Tiles(256), Pairwise(8)):
        for n in (64, 1024, 4097):
            x = rng.standard_normal((40, n)).astype(np.float32)
            exact, chain = np.sum(x.astype(np.float64) ** 2, axis=1), structure.chain(n) + 1
            error = np.max(np.abs(total(x * x, structure) - exact) / exact) / form("f32").u
            if sum_budget(form("f32"), chain, False)[2]:
                needed = max(needed, error / np.sqrt(chain))
    assert 0.1 < needed < CONFIDENCE / 2


def test_a_zero_where_a_subnormal_is_due_is_as_far_off_as_it_is() -> None:
    """Half a cell of 0 is half the smallest subnormal, not half an ulp of 1."""
    x = np.array([[2.0**-120, 1.0]], np.float32)
    truth = Truth(Problem("rms_norm", {"eps": 2.0**40}, {"x": x}, {"y": "f32"}, structured=True))
    exact = 2.0**-120 / np.sqrt(2.0**40 + 0.5)
    explanation = truth.explain(Contract("f32"), "y", (0, 0), 0.0)
    assert not explanation.passes
    assert explanation.terms[-1].value == 2.0**-150
    assert explanation.ratio > 1e5
    assert explanation.ulp == pytest.approx(-exact / 2.0**-149)
