"""A batch says what is said of its problems one by one, whatever they are joined with, and passes what conforms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from oracles import Contract, Lanes
from oracles.precise import conforms
from oracles.problem import Problem
from oracles.tests.common.adversary import RECIPES, probes, store
from oracles.tests.common.judged import simulated
from oracles.tests.common.problems import CONTRACTS, contract_of, forward
from oracles.tiers.joined import Query, Received
from oracles.truth import OracleDisagreement, OutputCheck, Truth, settle

Asking = tuple[Truth, list[Query]]
"""A problem, and what is asked about it."""


def queries(truth: Truth, contracts: Sequence[Contract], rng: np.random.Generator) -> Iterator[Query]:
    """Outputs on the ends of conformance sets and next to them, under these contracts and under others."""
    for contract in contracts:
        enclosures = truth.enclosures(contract, truth.problem.structured)
        each = [list(probes(enclosure, rng)) for enclosure in enclosures.values()]
        for _ in range(3):
            # An output that is right in most elements, beside others that are so too.
            received = Received({name: _mixed(some[:-3], rng) for name, some in zip(enclosures, each, strict=True)})
            yield contract, received
            yield contracts[int(rng.integers(len(contracts)))], received
        for place in range(0, len(each[0]), 3):
            yield contract, Received({name: some[place] for name, some in zip(enclosures, each, strict=True)})


def _mixed(some: list[NDArray[Any]], rng: np.random.Generator) -> NDArray[Any]:
    first, second = (some[int(rng.integers(len(some)))] for _ in range(2))
    return np.where(rng.uniform(size=first.shape) < 0.9, first, second)


def batch(op: str, dtype: str, limit: int, seed: int) -> list[Asking]:
    """A problem of each recipe, with queries about a few contracts."""
    rng, found = np.random.default_rng(seed), list[Asking]()
    names = [*CONTRACTS]
    for place, recipe in enumerate(RECIPES):
        for problem in forward(op, recipe, dtype, 1, limit):
            contracts = [contract_of(op, names[(place + 4 * each) % len(names)]) for each in range(2)]
            truth = Truth(problem)
            found.append((truth, list(queries(truth, contracts, rng))))
    return found


def said(of: OutputCheck | OracleDisagreement | None) -> tuple[Any, ...] | None:
    """What is said, its ratio to as many digits as a row has whatever it is joined with."""
    assert not isinstance(of, OracleDisagreement)
    return None if of is None else (of.output, of.worst_index, of.blunt, pytest.approx(of.worst_ratio, rel=1e-9))


OPS = [("rms_norm", "f32"), ("fused_add_rms_norm", "f16"), ("fused_add_rms_norm", "bf16"), ("rms_norm", "f64")]


@pytest.mark.some(1)
@pytest.mark.parametrize(("op", "dtype"), OPS)
def test_a_batch_says_what_is_said_of_each_problem_by_itself(op: str, dtype: str) -> None:
    problems, decided = batch(op, dtype, 12, seed=21), 0
    for (truth, asked), found in zip(problems, settle(problems), strict=True):
        for (contract, received), settled in zip(asked, found, strict=True):
            if settled is None:
                continue
            checks = truth.check(contract, received)
            assert {check.result for check in checks} == {"pass"}, (contract, truth.problem)
            decisive = max(checks, key=lambda check: check.worst_ratio)
            assert said(settled) == said(decisive), (contract, truth.problem)
            decided += 1
    assert decided > 20


def test_what_a_problem_is_joined_with_makes_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    problems = batch("rms_norm", "f32", 40, seed=22)
    together = [list(map(said, each)) for each in settle(problems)]
    assert together == [list(map(said, settle([each])[0])) for each in problems]
    assert together == [list(map(said, each)) for each in settle(problems[::-1])[::-1]]
    monkeypatch.setattr("oracles.tiers.joined.JOINED_ELEMENTS", 1)
    assert together == [list(map(said, each)) for each in settle(problems)]


def _edges(dtype: str) -> Iterator[Problem]:
    """Equal terms, one large one, sums at overflow and underflow, ties of the last rounding; under no eps and a huge
    one."""
    rng, top = np.random.default_rng(24), {"f32": 1e18, "f16": 6e4, "bf16": 1e18}[dtype]
    rows = [
        np.full(8, 1.5), np.array([top, *np.full(7, 1.0)]), np.full(8, top), np.full(8, 1e-30),
        rng.standard_normal(8) * 2.0**-70, np.array([1.0, *np.zeros(7)]), rng.standard_normal(8),
    ]  # fmt: skip
    tie = np.array([1 + 2.0**-8, 1 + 2.0**-9, 1 + 2.0**-11, 1 + 2.0**-12, 1.0, -1 - 2.0**-8, 0.0, 3 + 2.0**-10])
    x = np.stack([store(row, dtype) for row in rows])
    for number, eps in enumerate((0.0, 1e-12, 1e30)):
        for inputs in ({"x": x}, {"x": x, "weight": store(tie, "f32")}):
            y = ("f16", "bf16", "f32")[(number + len(inputs)) % 3]
            yield Problem("rms_norm", {"eps": eps}, inputs, {"y": y, "rstd": "f32"})


@pytest.mark.some(1)
@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
def test_what_a_batch_passes_of_hard_rows_conforms_by_the_precise_tier(dtype: str) -> None:
    rng, problems, passed = np.random.default_rng(25), list[Asking](), 0
    for number, problem in enumerate(_edges(dtype)):
        contract = (Contract(), Contract(sums={"n": Lanes(2, 2, "scalar")}), Contract(mean="reciprocal"))[number % 3]
        truth = Truth(problem)
        enclosures = truth.enclosures(contract, problem.structured)
        every = zip(*(list(probes(enclosure, rng)) for enclosure in enclosures.values()), strict=True)
        problems.append((truth, [(contract, Received(dict(zip(enclosures, each, strict=True)))) for each in every]))
    for (truth, asked), found in zip(problems, settle(problems), strict=True):
        known: dict[tuple[str, tuple[int, ...], float], bool] = {}
        for (contract, received), answer in zip(asked, found, strict=True):
            if answer is None:
                continue
            passed += 1
            for name, got in received.values.items():
                for index in np.ndindex(got.shape):
                    key = name, index, float(got[index])
                    if key not in known:
                        bounds = truth.bounds(contract, name, index, truth.problem.structured)
                        known[key] = bounds is not None and conforms(bounds, float(got[index]))
                    assert known[key], f"{name}{index} = {key[-1].hex()} {contract} {truth.problem}"
    assert passed > 10


def _simulated() -> tuple[Truth, Contract, Received]:
    x = np.random.default_rng(26).standard_normal((3, 20)).astype(np.float32)
    truth = Truth(Problem("rms_norm", {"eps": 1e-5}, {"x": x}, {"y": "f32", "rstd": "f32"}))
    return truth, Contract(), truth.receive(simulated(truth.problem))


def test_what_is_settled_is_what_the_check_of_the_decisive_output_says() -> None:
    truth, contract, received = _simulated()
    ((settled,),) = settle([(truth, [(contract, received)])])
    assert said(settled) == said(max(truth.check(contract, received), key=lambda check: check.worst_ratio))


def test_the_same_passes_of_a_batch_are_confirmed_as_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    confirmed: list[tuple[str, tuple[int, ...]]] = []
    monkeypatch.setattr(
        Truth, "_confirm", lambda truth, name, contract, index, got, passing: confirmed.append((name, index))
    )
    monkeypatch.setattr("oracles.truth.SAMPLE", 2)
    asked = batch("fused_add_rms_norm", "bf16", 9, seed=27)
    found = settle(asked)
    together, confirmed[:] = list(confirmed), []
    for (truth, of_truth), settled in zip(asked, found, strict=True):
        for (contract, received), each in zip(of_truth, settled, strict=True):
            if each is not None:
                truth.check(contract, received)
    assert together == confirmed
    assert 10 < len(together) < sum(map(len, found))


def test_a_pass_that_the_precise_tier_contradicts_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    truth, contract, received = _simulated()
    monkeypatch.setattr("oracles.truth.SAMPLE", 1 - 20)
    monkeypatch.setattr("oracles.truth.conforms", lambda bounds, got: False)
    ((settled,),) = settle([(truth, [(contract, received)])])
    assert isinstance(settled, OracleDisagreement)
    with pytest.raises(OracleDisagreement) as raised:
        truth.check(contract, received)
    assert str(raised.value) == str(settled)
