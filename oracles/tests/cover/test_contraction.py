"""Products of matrices are judged without an array of all products, and as they are with one."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from dataclasses import replace

import mpmath
import numpy as np
import pytest

from oracles.doubledouble import F64
from oracles.formula.contract import Contract
from oracles.formula.exact.arithmetic import Arithmetic, Double, Precise, Values
from oracles.formula.exact.centre import Exact, Inputs
from oracles.formula.exact.contraction import contracted
from oracles.formula.exact.extended import Extended
from oracles.formula.exact.rigorous import Rigorous
from oracles.formula.trace import Kind, trace
from oracles.op import Op
from oracles.problem import Problem
from oracles.rounding import STORAGE
from oracles.summation import AnyOrder, Sequential
from oracles.tests.common.contractions import KINDS, OPS, apart, at_once, hostile, values
from oracles.tests.common.dims import ATTEND, PRODUCT, product, unsound
from oracles.tests.common.judged import known
from oracles.tests.common.tiers import disagreements
from oracles.truth import Truth, settle

ANY = Contract(sums={dim: AnyOrder() for dim in "kdj"})


@pytest.fixture(autouse=True)
def _known() -> Iterator[None]:
    with known(*OPS):
        yield


def of_product(dtype: str, m: int, k: int, n: int, seed: int = 0) -> Problem:
    random = np.random.default_rng(seed)
    a, b = (random.normal(size=shape).astype(STORAGE[dtype]) for shape in ((m, k), (k, n)))
    return Problem("product", {"axis": 1}, {"a": a, "b": b}, {"c": dtype})


def rounded(of: Problem) -> F64:
    """The product of a problem's matrices, in f64."""
    return np.asarray(of.inputs["a"].astype(np.float64) @ of.inputs["b"].astype(np.float64))


def test_products_of_matrices_are_sums_of_products_along_any_axes() -> None:
    random = np.random.default_rng(0)
    for _ in range(300):
        full = random.integers(1, 7, int(random.integers(2, 6)))
        axes = tuple(random.permutation(len(full))[: random.integers(1, len(full) + 1)].tolist())
        shapes = [[1 if random.random() < 0.3 else int(size) for size in full] for _ in "ab"]
        for axis in axes:
            if shapes[0][axis] == 1:
                shapes[1][axis] = int(full[axis])
        a, b = (random.choice([-1.0, -0.0, 0.0, 1.0, 3.0], shape) for shape in shapes)
        found, expected = contracted(a, b, axes), (a * b).sum(axis=axes, keepdims=True)
        assert found.shape == expected.shape
        assert np.array_equal(found, expected)
        assert np.array_equal(np.signbit(found), np.signbit(expected))


@pytest.mark.parametrize("kind", range(KINDS))
def test_every_arithmetic_adds_products_up_in_parts(kind: int) -> None:
    """Each within its bound of the exact sum; what is infinite or NaN is what it is in float64."""
    random = np.random.default_rng(kind)
    a, b = values(kind, (3, 40, 1), "f64", random), values(kind, (1, 40, 4), "f64", random)
    with at_once(8), np.errstate(all="ignore"), mpmath.workprec(3000):
        plain = (a * b).sum(axis=1, keepdims=True)
        arithmetics: tuple[Arithmetic, ...] = (Precise(), Double(), Extended(), Rigorous())
        exact, double, extended, near = (each.dot(each.lift(a), each.lift(b), (1,)) for each in arithmetics)
        for at in zip(*np.isfinite(plain).nonzero(), strict=True):
            terms = [(mpmath.mpf(x), mpmath.mpf(y)) for x, y in zip(a[at[0], :, 0], b[0, :, at[2]], strict=True)]
            right, unit = mpmath.fdot(terms), mpmath.fdot((abs(x), abs(y)) for x, y in terms) * mpmath.mpf(2) ** -95
            fraction = mpmath.mpf(extended.fraction.high[at]) + mpmath.mpf(extended.fraction.low[at])
            assert exact[at] == right
            assert abs(mpmath.mpf(near.value[at]) - right) <= np.broadcast_to(near.error, near.shape)[at]
            assert abs(mpmath.mpf(double.high[at]) + mpmath.mpf(double.low[at]) - right) <= unit + 2.0**-1060
            assert abs(mpmath.ldexp(fraction, int(extended.exponent[at])) - right) <= unit
        special = ~np.isfinite(plain)
        for found in (double.high, near.value):
            assert np.array_equal(found[special], plain[special], equal_nan=True)


@pytest.mark.some(1)
@pytest.mark.parametrize("part", range(4))
def test_no_output_may_be_another_where_few_products_are_formed_at_once(part: int) -> None:
    """Wide exponents, subnormal products, ties, zeros of both signs, infinities and NaN, under all contracts."""
    for seed in range(30 * part, 30 * part + 30):
        of, contract = hostile(seed)
        assert not apart(of, contract), f"{seed}: {of.op} {of.outputs} {contract}"


def test_both_tiers_say_the_same_of_hostile_products() -> None:
    random = np.random.default_rng(0)
    with at_once(4):
        for seed in range(12):
            of, contract = hostile(seed, most=9)
            _, _, wrong = disagreements(of, contract, random)
            assert not wrong, wrong[0]


@pytest.mark.parametrize("op", [PRODUCT, ATTEND], ids=lambda op: op.name)
def test_correct_kernels_pass(op: Op) -> None:
    with at_once(16):
        assert unsound(op, range(4, 6)) == []


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16", "f64"])
def test_an_error_of_two_budgets_is_caught(dtype: str) -> None:
    contract = Contract("f64" if dtype == "f64" else "f32", sums={"k": Sequential()})
    of = replace(of_product(dtype, 48, 96, 32), outputs={"c": "f64" if dtype == "f64" else "f32"})
    truth = Truth(of)
    width = truth.enclosures(contract, False)["c"].below[0, 7, 5]
    for budgets, expected in ((0.9, ["pass"]), (2.0, ["numeric"])):
        c = rounded(of)
        c[7, 5] += budgets * width
        [check] = truth.check(contract, {"c": c.astype(STORAGE[of.outputs["c"]])})
        assert [check.result] == expected
        assert check.worst_index == (7, 5)
        assert check.worst_ratio == pytest.approx(budgets, rel=0.1)


@pytest.mark.some(1)
@pytest.mark.parametrize("dtype", ["f32", "bf16", "f64"])
@pytest.mark.parametrize("special", [False, True])
def test_memory_is_that_of_operands_and_results(dtype: str, special: bool) -> None:
    """An array of all products has 2 million elements, 16 MB; there were many of them."""
    of = of_product(dtype, 64, 512, 64)
    if special:
        of.inputs["a"][3, 100:200] = np.nan
    contract, truth = replace(ANY, compute="f64" if dtype == "f64" else "f32"), Truth(of)
    c = rounded(of).astype(STORAGE[dtype])
    c = (c.astype(np.float32) * np.float32(1 + 2.0**-20)).astype(STORAGE[dtype]) if dtype == "f32" else c
    tracemalloc.start()
    try:
        [[check]] = settle([(truth, [(contract, truth.receive({"c": c}))])])
        found = check or truth.check(contract, {"c": c})
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found
    assert peak < 12e6


def test_no_product_is_formed_of_elements_that_nobody_asks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """In mpmath each takes a microsecond. Only where all of them take no longer than the calls they are all formed."""
    formed = list[int]()
    operate = Precise.operate

    def counted(self: Precise, kind: Kind, a: Values, b: Values) -> Values:
        found = operate(self, kind, a, b)
        formed.append(found.size if kind == "multiply" else 0)
        return found

    monkeypatch.setattr(Precise, "operate", counted)
    random, graph = np.random.default_rng(0), trace(product, {"a": ("m", "k"), "b": ("k", "n")})
    for k, expected in ((16, 25 * 16 + 400 * 16), (1024, 40 * 1024)):
        exact = Exact(Inputs(graph, {"a": random.normal(size=(20, k)), "b": random.normal(size=(k, 20))}, {}))
        formed.clear()
        for at in range(40):
            exact.element(graph.outputs["c"], {"m": at % 20, "n": at // 20})
        assert sum(formed) == expected
