"""Budgets: against their formulas written a second time, against what sums really do, and with terms removed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any as Anything

import flint
import mpmath
import numpy as np
import pytest

import oracles.rms_norm
from oracles import Any, Lanes, Numerics, NumericsError, Pairwise, Sequential, Summation, Tiles, VectorLanes
from oracles.budget import CONFIDENCE, RANDOM_LIMIT, RowBudget, row_budget, sum_budget
from oracles.calibration import calibrate, worst
from oracles.dtypes import form
from oracles.problem import Problem
from oracles.simulation import rms_norm, total
from oracles.truth import Truth

STRUCTURES: tuple[Summation, ...] = (
    Sequential(),
    Any(),
    Lanes(4, 1, "scalar"),
    Lanes(16, 4, "scalar"),
    Lanes(8, 4, "predicated"),
    Lanes(12, 2, "predicated"),
    Tiles(1),
    Tiles(37),
    Pairwise(),
    Pairwise(8),
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


def test_vector_lanes_are_chosen_by_the_target() -> None:
    numerics = Numerics(summation=VectorLanes(4, "predicated"))
    assert numerics.at(384).summation == Lanes(12, 4, "predicated")
    assert numerics.at(None) is numerics
    with pytest.raises(NumericsError, match=r"^summation:"):
        numerics.summation.chain(7)


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
    from oracles.rounding import STORAGE

    for n in (256, 2048, 4096):
        terms = np.ones((1, n), dtype=STORAGE[name])
        got = float(total(terms, Sequential())[0])
        down, up, statistical = sum_budget(form(name), n, False)
        assert not statistical
        assert n * (1 - down) <= got <= n * (1 + up)


def expected_root(x: np.ndarray, numerics: Numerics, eps: float, structured: bool) -> tuple[flint.arb, flint.arb]:
    """Ends of the interval of rstd for one row, from the declaration, in Arb. Written apart from `oracles.budget`."""
    flint.ctx.prec = 300
    u = flint.arb(2) ** -form(numerics.accumulate).precision
    n, h = len(x), numerics.summation.chain(len(x)) + 1
    squares = sum((_exact(v) ** 2 for v in x), flint.arb(0))
    coarse = form("f32").precision < form(numerics.accumulate).precision
    if structured or coarse or h <= 36:
        down, up = 1 - (1 - u) ** h, (1 + u) ** h - 1
    else:
        down = up = flint.arb(6) * flint.arb(h).sqrt() * u + h * u * u
    lost = flint.arb(2) ** (form(numerics.accumulate).emin - form(numerics.accumulate).precision)
    underflowing = sum(1 for v in x if v and float(v) ** 2 < 2.0 ** form(numerics.accumulate).emin)
    mean = u if numerics.mean == "divide" else 2 * u + u * u
    root = 2 * u / (1 - u) if numerics.rsqrt_ulp is None else 2 * u * flint.arb(numerics.rsqrt_ulp)
    add = u if eps else flint.arb(0)
    low_mean = (squares - underflowing * lost) * (1 - down) / n * (1 - mean) - lost
    high_mean = (squares + underflowing * lost) * (1 + up) / n * (1 + mean) + lost
    low = (1 - root) / ((high_mean + _exact(eps)) * (1 + add)).sqrt()
    high = (1 + root) / ((low_mean + _exact(eps)) * (1 - add)).sqrt()
    return low, high


def _exact(value: float) -> flint.arb:
    numerator, denominator = float(value).as_integer_ratio()
    return flint.arb(flint.fmpq(numerator, denominator))


CONTRACTS = (
    Numerics(),
    Numerics(mean="reciprocal", rsqrt_ulp=2.0),
    Numerics(summation=Lanes(16, 4, "scalar"), accumulate="f64"),
)


def deviation(numerics: Numerics, scale: float, eps: float, n: int, structured: bool) -> float:
    """Largest relative difference between the oracle's interval of rstd (both tiers) and the expected one, over u."""
    x = (np.random.default_rng(n).standard_normal(n) * scale).astype(np.float32)
    problem = Problem("rms_norm", {"eps": eps}, {"x": x[None]}, {"rstd": "f32"}, structured=structured)
    truth = Truth(problem)
    bounds = truth.bounds(numerics, "rstd", (0,), structured)
    fast = truth.enclosures(numerics, structured)["rstd"]
    assert bounds is not None
    low, high = expected_root(x, numerics, eps, structured)
    u = form(numerics.accumulate).u
    found = (bounds.low, bounds.high, bounds.centre - fast.below[0], bounds.centre + fast.above[0])
    pairs = zip(found, (low, high, low, high), strict=True)
    differences = [abs(float(flint.arb(mpmath.nstr(value, 60)) / end - 1)) for value, end in pairs]
    # The fast tier's own error is 2^-53 n or so, far below one u of f32; in f64 only the precise tier can show it.
    return max(differences[: 2 if numerics.accumulate == "f64" else 4]) / u


CASES = [(numerics, scale, eps) for numerics in CONTRACTS for scale, eps in ((1.0, EPS), (1.0, 0.0), (1e-20, 0.0))]


@pytest.mark.parametrize("n", [1, 8, 40, 300])
@pytest.mark.parametrize("structured", [False, True])
def test_intervals_follow_the_formulas(n: int, structured: bool) -> None:
    for numerics, scale, eps in CASES:
        if numerics.accumulate == "f64" and scale < 1:
            continue
        assert deviation(numerics, scale, eps, n, structured) < 1e-4


@pytest.mark.parametrize("term", ["sum_down", "sum_up", "mean", "add", "root", "quantum"])
@pytest.mark.parametrize("factor", [0.0, 1.1])
def test_a_removed_or_inflated_term_is_noticed(term: str, factor: float, monkeypatch: pytest.MonkeyPatch) -> None:
    def planted(*arguments: Anything) -> RowBudget:
        budget = row_budget(*arguments)
        return replace(budget, **{term: getattr(budget, term) * factor})

    monkeypatch.setattr(oracles.rms_norm, "row_budget", planted)
    noticed = [deviation(n, s, e, 40, True) > 1e-2 for n, s, e in CASES if n.accumulate == "f32"]
    assert any(noticed)


def test_too_small_a_lambda_raises_false_alarms(monkeypatch: pytest.MonkeyPatch) -> None:
    """The calibration can fail: with a tenth of lambda it does."""
    row_budget.cache_clear()
    monkeypatch.setattr("oracles.budget.CONFIDENCE", CONFIDENCE / 20)
    alarms = sum(each.alarms for each in calibrate(2000, 3, ("f32",)))
    row_budget.cache_clear()
    assert alarms > 0


def test_calibration_has_no_false_alarm() -> None:
    table = worst(list(calibrate(6000, 5)))
    assert sum(each.alarms for each in table) == 0
    assert max(each.constant for each in table if each.statistical) < CONFIDENCE / 2


@pytest.mark.parametrize("summation", [Sequential(), Lanes(4, 4, "scalar")])
def test_long_sums_of_coarse_numbers_raise_no_alarm(summation: Sequential | Lanes) -> None:
    """f16 subnormals are small whole multiples of 2^-24: their squares round in one direction, not at random."""
    numerics = Numerics(summation=summation)
    for seed in range(4):
        rng = np.random.default_rng(seed)
        x = (np.rint(rng.standard_normal((4, 32753)) * 47) * 2.0**-24).astype(np.float16)
        y, rstd = rms_norm(x, numerics, 0.0, "f16")
        problem = Problem("rms_norm", {"eps": 0.0}, {"x": x}, {"y": "f16", "rstd": "f32"})
        checks = Truth(problem).check(numerics, {"y": y, "rstd": rstd})
        assert [check.result for check in checks] == ["pass", "pass"]


def test_a_sum_that_may_overflow_allows_both_answers_at_no_distance() -> None:
    x = np.full((1, 4096), np.sqrt(2.0**128 / 4096), np.float32)
    truth = Truth(Problem("rms_norm", {"eps": 0.0}, {"x": x}, {"y": "f32"}, structured=True))
    for y in (np.zeros_like(x), np.ones_like(x)):
        (check,) = truth.check(Numerics(), {"y": y})
        assert check.result == "pass"
        assert check.worst_ratio == 0.0
        assert truth.explain(Numerics(), "y", (0, 0), float(y[0, 0])).ratio == 0.0
    (check,) = truth.check(Numerics(), {"y": x * 0 + 0.5})
    assert check.result == "numeric"


def test_a_zero_where_a_subnormal_is_due_is_as_far_off_as_it_is() -> None:
    """Half a cell of 0 is half the smallest subnormal, not half an ulp of 1."""
    x = np.array([[2.0**-120, 1.0]], np.float32)
    truth = Truth(Problem("rms_norm", {"eps": 2.0**40}, {"x": x}, {"y": "f32"}, structured=True))
    exact = 2.0**-120 / np.sqrt(2.0**40 + 0.5)
    explanation = truth.explain(Numerics(), "y", (0, 0), 0.0)
    assert not explanation.passes
    assert explanation.terms[-1].value == 2.0**-150
    assert explanation.ratio > 1e5
    assert explanation.ulp == pytest.approx(-exact / 2.0**-149)
