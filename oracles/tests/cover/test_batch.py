"""The screen of a batch says what the screens of its problems say one by one, bit for bit, and passes what conforms."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from oracles import Lanes, Numerics, blocks
from oracles.blocks import Ask
from oracles.doubledouble import F64
from oracles.lanes import Tracks
from oracles.precise import conforms
from oracles.problem import Problem
from oracles.ragged import Ragged
from oracles.screen import Received
from oracles.simulation import rms_norm
from oracles.tests.common.adversary import probes, store
from oracles.tests.common.batches import Asking, answers, batch, one_by_one
from oracles.tests.common.screens import FORWARD
from oracles.truth import OracleDisagreement, Truth, settle


def _differences(problems: Sequence[Asking]) -> tuple[int, int]:
    """On how many queries a batch differs from what is said one by one, and how many it decides."""
    differing = decided = 0
    for (problem, asked), found in zip(problems, answers(problems), strict=True):
        for mine, theirs in zip(found, one_by_one(problem, asked), strict=True):
            differing += mine != theirs
            decided += mine is not None
    return differing, decided


@pytest.mark.parametrize(("op", "dtype"), [*FORWARD, ("rms_norm", "f16"), ("fused_add_rms_norm", "f32")])
def test_a_batch_says_what_is_said_of_each_problem_by_itself(op: str, dtype: str) -> None:
    differing, decided = _differences(batch(op, dtype, 2, 12, seed=21))
    assert not differing
    assert decided > 150 if dtype != "f64" else not decided, "float64 has no screen"


def test_what_a_problem_is_joined_with_makes_no_difference() -> None:
    problems = batch("rms_norm", "f32", 1, 40, seed=22)
    together = answers(problems)
    assert together == [found for each in problems for found in answers([each])]
    assert together == answers(problems[::-1])[::-1]


def test_how_much_is_joined_makes_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    problems, joined, parts = batch("rms_norm", "f32", 1, 40, seed=22), Tracks.join, [0]
    together = answers(problems)

    def counted(tracks: Tracks) -> None:
        parts[0] += 1
        joined(tracks)

    monkeypatch.setattr(Tracks, "join", counted)
    for most, at_least in ((1 << 30, 1), (1, 10)):
        monkeypatch.setattr("oracles.batch.JOINED_ELEMENTS", most)
        parts[0] = 0
        assert answers(problems) == together
        assert parts[0] >= at_least


def _wider(monkeypatch: pytest.MonkeyPatch) -> None:
    widths = blocks._widths

    def wider(asks: Sequence[Ask], spans: Ragged, tracks: Tracks) -> tuple[F64, F64]:
        below, above = widths(asks, spans, tracks)
        return below + 2.0**-22, above + 2.0**-22

    monkeypatch.setattr(blocks, "_widths", wider)


def _shifted(monkeypatch: pytest.MonkeyPatch) -> None:
    join = Tracks.join

    def shifted(tracks: Tracks) -> None:
        join(tracks)
        tracks.roots, tracks.shares = np.roll(tracks.roots, 1), np.roll(tracks.shares, 1)

    monkeypatch.setattr(Tracks, "join", shifted)


@pytest.mark.parametrize("plant", [_wider, _shifted])
def test_a_batch_that_is_too_wide_or_takes_the_row_before_differs(
    plant: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    problems = batch("rms_norm", "f32", 1, 12, seed=23)
    assert _differences(problems)[0] == 0
    assert callable(plant)
    plant(monkeypatch)
    assert _differences(problems)[0] > 100


def _edges(dtype: str) -> list[Problem]:
    """Equal terms, one large one, sums at overflow and underflow, ties of the last rounding; under no eps and a huge
    one."""
    rng = np.random.default_rng(24)
    top = {"f32": 1e18, "f16": 6e4, "bf16": 1e18}[dtype]
    rows = [
        np.full(8, 1.5), np.full(8, 2.0**-3), np.array([top, *np.full(7, 1.0)]), np.full(8, top), np.full(8, 1e-30),
        rng.standard_normal(8) * 2.0**-70, np.array([1.0, *np.zeros(7)]), rng.standard_normal(8),
    ]  # fmt: skip
    tie = np.array([1 + 2.0**-8, 1 + 2.0**-9, 1 + 2.0**-11, 1 + 2.0**-12, 1.0, -1 - 2.0**-8, 0.0, 3 + 2.0**-10])
    x = np.stack([store(row, dtype) for row in rows])
    found = []
    for eps in (0.0, 1e-12, 1e30):
        for inputs in ({"x": x}, {"x": x, "weight": store(tie, "f32")}):
            found += [
                Problem("rms_norm", {"eps": eps}, inputs, {"y": y, "rstd": "f32"}) for y in ("f16", "bf16", "f32")
            ]
    return found


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
def test_what_a_batch_passes_of_hard_rows_conforms_by_the_precise_tier(dtype: str) -> None:
    rng = np.random.default_rng(25)
    contracts = (Numerics(), Numerics(summation=Lanes(2, 2, "scalar")), Numerics(mean="reciprocal", rsqrt_ulp=2.0))
    problems: list[Asking] = []
    for problem in _edges(dtype):
        for numerics in contracts:
            enclosures = Truth(problem).enclosures(numerics, problem.structured)
            every = zip(*(list(probes(enclosure, rng)) for enclosure in enclosures.values()), strict=True)
            problems.append(
                (problem, [(numerics, Received(dict(zip(enclosures, each, strict=True)))) for each in every])
            )
    passed = 0
    for (problem, asked), found in zip(problems, answers(problems), strict=True):
        truth = Truth(problem)
        known: dict[tuple[str, tuple[int, ...], float], bool] = {}
        for (numerics, received), answer in zip(asked, found, strict=True):
            if answer is None:
                continue
            passed += 1
            for name, got in received.values.items():
                for index in np.ndindex(got.shape):
                    key = name, index, float(got[index])
                    if key not in known:
                        bounds = truth.bounds(numerics, name, index, problem.structured)
                        known[key] = bounds is not None and conforms(bounds, float(got[index]))
                    assert known[key], f"{name}{index} = {key[-1].hex()} {numerics} {problem}"
    assert passed > 20


def _simulated() -> tuple[Truth, Numerics, Received]:
    x = np.random.default_rng(26).standard_normal((3, 20)).astype(np.float32)
    truth = Truth(Problem("rms_norm", {"eps": 1e-5}, {"x": x}, {"y": "f32", "rstd": "f32"}))
    y, root = rms_norm(x, Numerics(), 1e-5, "f32")
    return truth, Numerics(), truth.receive({"y": y, "rstd": root})


def test_what_is_settled_is_what_the_check_of_the_decisive_output_says() -> None:
    truth, numerics, received = _simulated()
    ((settled,),) = settle([(truth, [(numerics, received)])])
    assert settled == max(truth.check(numerics, received), key=lambda check: check.worst_ratio)


def test_the_same_passes_of_a_batch_are_confirmed_as_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    confirmed: list[tuple[str, tuple[int, ...]]] = []
    monkeypatch.setattr(
        Truth, "_confirm", lambda truth, name, numerics, index, got, passing: confirmed.append((name, index))
    )
    monkeypatch.setattr("oracles.truth.SAMPLE", 2)
    problems = batch("fused_add_rms_norm", "bf16", 1, 9, seed=27)
    asked = [(Truth(problem, dict(queries)), queries) for problem, queries in problems]
    found = settle(asked)
    together, confirmed[:] = list(confirmed), []
    for (truth, queries), settled in zip(asked, found, strict=True):
        for (numerics, received), each in zip(queries, settled, strict=True):
            if each is not None:
                truth.check(numerics, received)
    assert together == confirmed
    assert 20 < len(together) < sum(map(len, found))


def test_a_pass_that_the_precise_tier_contradicts_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    truth, numerics, received = _simulated()
    monkeypatch.setattr("oracles.truth.SAMPLE", 1 - 20)
    monkeypatch.setattr("oracles.truth.conforms", lambda bounds, got: False)
    ((settled,),) = settle([(truth, [(numerics, received)])])
    assert isinstance(settled, OracleDisagreement)
    with pytest.raises(OracleDisagreement) as raised:
        truth.check(numerics, received)
    assert str(raised.value) == str(settled)
