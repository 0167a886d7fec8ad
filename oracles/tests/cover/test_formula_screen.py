"""The screen of relative forms passes nothing that the enclosures do not, says the same of it in any company, and a
wrong screen is noticed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from oracles.doubledouble import F64
from oracles.enclosure import Enclosure, compare
from oracles.formula.contract import Contract
from oracles.formula.exact import rigorous
from oracles.formula.trace import Node, Outputs
from oracles.op import Op
from oracles.operand import Operand
from oracles.ops import OPS
from oracles.precise import conforms
from oracles.problem import Problem, index_of
from oracles.rounding import round_to
from oracles.summation import Lanes, Pairwise
from oracles.tests.common.adversary import probes
from oracles.tests.common.formulas import HARD
from oracles.tests.common.judged import kernel, known, problem, returned
from oracles.tests.common.whole import WHOLE
from oracles.tiers import centres, joined, screen
from oracles.tiers.joined import Received
from oracles.truth import OracleDisagreement, OutputCheck, Truth, settle

RMS, ADD, SOFTMAX = OPS["rms_norm"], OPS["fused_add_rms_norm"], OPS["softmax"]
CONTRACTS = (
    Contract(), Contract(sums={"n": Lanes(4, 2, "scalar")}), Contract(sums={"n": Pairwise(4)}, mean="reciprocal"),
    Contract(points={"h": "input", "eps": "input"}), Contract(accuracy={"rsqrt": 2.0}), Contract(denormals="flush"),
    Contract(fused=False, nonfinite="unspecified", zeros="any"), Contract(saturate=True),
    Contract(dtypes={"w": "weight"}),
)  # fmt: skip


def _contract(of: Problem, number: int) -> Contract:
    """Each in turn, of every other fused sum with its rounding."""
    contract = CONTRACTS[number % len(CONTRACTS)]
    if of.op != ADD.name or number % 3 == 0:
        return contract
    return replace(contract, points={**contract.points, "added": "sum"})


def _problems(rng: np.random.Generator, count: int) -> Iterator[Problem]:
    kinds = [*HARD]
    for number in range(count):
        op, dtype = (RMS, ADD)[number % 2], ("f32", "f16", "bf16")[number // 2 % 3]
        without = ("weight", "weight_offset") if number % 5 == 0 else ("rstd",) if number % 5 == 1 else ()
        of = problem(op, kinds[number % len(kinds)], dtype, (3, (1, 7, 40)[number % 3]), rng, without=without)
        of = replace(of, params={**of.params, "eps": (1e-5, 0.0, 1.0)[number // 3 % 3]}, structured=number % 4 == 0)
        if number % 3 == 0:
            for array in of.inputs.values():
                array.flat[rng.integers(array.size)] = rng.choice([0.0, -0.0, np.inf, np.nan, -1.0])
        if "weight_offset" in of.params:
            of = replace(of, params={**of.params, "weight_offset": float(rng.choice([0.0, 1.0, -1.0]))})
        yield of


def _probes(enclosure: Enclosure, rng: np.random.Generator) -> Iterator[F64]:
    """Outputs on the ends of the conformance sets, and right ones that are so, or next to it, in one element."""
    right = round_to(np.asarray(enclosure.centre), enclosure.form)
    yield right
    yield from (np.where(np.isnan(end), right, end) for end in enclosure.inner)
    for probe in probes(enclosure, rng):
        got, at = right.copy(), int(rng.integers(right.size))
        got.flat[at] = probe.flat[at]
        yield got


def test_what_the_screen_passes_conforms_and_is_as_far_off_as_the_enclosures_say() -> None:
    rng, passed, decided = np.random.default_rng(5), 0, 0
    for number, of in enumerate(_problems(rng, 63 if WHOLE else 31)):
        truth, contract = Truth(of), _contract(of, number)
        plan = truth.op.plan(contract, of.structured)
        enclosures = truth.enclosures(contract, of.structured)
        each_of = {name: list(_probes(enclosure, rng)) for name, enclosure in enclosures.items()}
        with np.errstate(all="ignore"):
            right = [{name: some[0] for name, some in each_of.items()}]
        outputs = right + [{**right[0], name: got} for name, some in each_of.items() for got in some[1:]]
        queries = [(contract, Received(each)) for each in outputs]
        ((*answers,),) = screen.certain([(truth.op, of.structured, queries)])
        for each, answer in zip(outputs, answers, strict=True):
            comparisons = {name: compare(enclosures[name], got) for name, got in each.items()}
            certain = not any((found.failing | found.unsure).any() for found in comparisons.values())
            passed += certain
            if answer is None:
                continue
            decided += 1
            assert certain, (number, of.op, contract)
            assert plan is not None
            for (name, comparison), worst in zip(comparisons.items(), answer, strict=True):
                if worst.width is not None and not plan.guesses and contract.nonfinite == "ieee":
                    assert worst.ratio == pytest.approx(comparison.ratio.max(), rel=1e-6, abs=2.0**-26)
                    assert worst.width == pytest.approx(enclosures[name].below.flat[worst.flat], rel=2.0**-35)
    assert decided > passed / 2, (decided, passed)


def test_a_sum_of_normal_numbers_loses_none_where_subnormal_ones_are_flushed() -> None:
    """In float16 that is as large as errors of sums are: screens and enclosures must both know."""
    flushing, x = Contract("f16", denormals="flush"), np.array([[0.87, -0.7, 0.52, 1.65, 0.12, 1.07]], np.float16)

    def width(contract: Contract, x: NDArray[np.float16]) -> tuple[float, float | None]:
        truth = Truth(Problem(RMS.name, {"eps": 100.0}, {"x": x}, {"y": "f16"}))
        enclosure = truth.enclosures(contract, False)["y"]
        got = Received({"y": round_to(np.asarray(enclosure.centre), enclosure.form)})
        ((answer,),) = screen.certain([(truth.op, False, [(contract, got)])])
        return float(enclosure.below.flat[0]), answer[0].width if answer else None

    plain, screened = width(flushing, x)
    assert plain == width(replace(flushing, denormals="preserve"), x)[0]
    assert screened == pytest.approx(plain, rel=2.0**-35)
    x[0, 1] = 2.0**-8  # whose square is flushed, and what it is added to may be
    assert width(flushing, x)[0] > width(replace(flushing, denormals="preserve"), x)[0] * (1 + 2.0**-20)
    assert width(flushing, x)[1] is None


def _asked(rng: np.random.Generator, count: int) -> list[tuple[Truth, list[tuple[Contract, Received]]]]:
    asked = []
    for number, of in enumerate(_problems(rng, count)):
        truth, queries = Truth(of), []
        for contract in (_contract(of, number % 3), _contract(of, 3 + number % 5)):
            queries += [(contract, truth.receive(returned(of, kernel(of, contract, rng))))]
            queries += [(CONTRACTS[0], queries[-1][1])]
        asked.append((truth, queries))
    return asked


def test_the_screen_says_the_same_of_a_query_alone_and_in_any_batch() -> None:
    asked = _asked(np.random.default_rng(6), 48)
    about = [(truth.op, truth.problem.structured, queries) for truth, queries in asked]
    together, decided = screen.certain(about), 0
    for (op, structured, queries), answers in zip(about, together, strict=True):
        for query, answer in zip(queries, answers, strict=True):
            ((alone,),) = screen.certain([(op, structured, [query])])
            assert alone == answer
            if alone is not None and answer is not None:
                decided += 1
                assert [(w.centre, w.width) for w in alone] == [(w.centre, w.width) for w in answer]
    assert decided > 100, decided


def test_a_problem_of_many_rows_is_screened_in_parts_that_say_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = _asked(np.random.default_rng(10), 48)
    about = [(truth.op, truth.problem.structured, queries) for truth, queries in asked]
    whole = screen.certain(about)
    monkeypatch.setattr(joined, "JOINED_ELEMENTS", 1)
    in_parts = screen.certain(about)
    assert in_parts == whole
    numbers = [[None if a is None else [(w.centre, w.width) for w in a] for a in each] for each in (*in_parts, *whole)]
    assert numbers[: len(whole)] == numbers[len(whole) :]
    assert any(answer is not None for answers in whole for answer in answers)


def test_problems_are_screened_together_whatever_outputs_and_roundings_they_have() -> None:
    """A group costs its calls of NumPy, however few problems it has."""
    rng, asked = np.random.default_rng(9), []
    for number, without in enumerate([(), ("rstd",), ("sum",), ("rstd", "sum")]):
        of = problem(ADD, "normal", ("f16", "bf16")[number % 2], (3, 7 + number), rng, without=without)
        of = replace(of, params={**of.params, "weight_offset": (0.0, 1.0)[number // 2]})
        truth, queries = Truth(of), []
        for points in ({}, {"h": "input"}, {"added": "sum"}):
            contract = Contract(points=points) if points != {"added": "sum"} or "sum" in of.outputs else Contract()
            queries.append((contract, truth.receive(returned(of, kernel(of, contract, rng)))))
        asked.append((truth.op, of.structured, queries))
    assert len(list(joined.groups_of(asked))) <= 2
    assert sum(answer is None for answers in screen.certain(asked) for answer in answers) <= 2


def test_a_batch_says_what_is_said_of_each_problem_by_itself() -> None:
    asked, decided = _asked(np.random.default_rng(7), 24), 0
    by_screen = screen.certain([(truth.op, truth.problem.structured, queries) for truth, queries in asked])
    for (truth, queries), found, answers in zip(asked, settle(asked), by_screen, strict=True):
        for (contract, received), settled, answer in zip(queries, found, answers, strict=True):
            if answer is not None:
                checks = Truth(truth.problem).check(contract, received)
                assert settled in checks
                assert isinstance(settled, OutputCheck)
                assert settled.worst_ratio == max(check.worst_ratio for check in checks)
                decided += 1
    assert decided > 50, decided


@pytest.mark.parametrize("op", ["rms_norm_backward", "fused_add_rms_norm_backward", "layer_norm", "softmax_backward"])
def test_exact_values_that_are_rounded_conform_by_the_precise_tier(op: str) -> None:
    """Those of gradients that cancel too, with infinities and NaN among the operands; their neighbours are not they."""
    rng, known, unknown = np.random.default_rng(8), 0, 0
    for number, kind in enumerate(HARD):
        of = problem(OPS[op], kind, ("f32", "f16", "bf16", "f64")[number % 4], (3, 6), rng)
        if number % 3 == 0:
            for array in of.inputs.values():
                array.flat[rng.integers(array.size)] = rng.choice([0.0, -0.0, np.inf, np.nan])
        truth, contract = Truth(of), (Contract(), Contract("f64"), Contract(denormals="flush", fused=False))[number % 3]
        plan = truth.op.plan(contract, of.structured)
        assert plan is not None
        nearest = truth.op.nearest(plan)
        right = {name: nearest.rounded(plan, name) for name in of.outputs}
        given = {name: each for name, each in right.items() if each is not None}
        if len(given) < len(right) or not (plan.narrows or plan.is_wide):
            unknown += plan.narrows
            continue
        shapes = {name: each.below.shape for name, each in truth.enclosures(contract, False).items()}
        shaped = {name: each.reshape(shapes[name]) for name, each in given.items()}
        ((answer,),) = screen.certain([(truth.op, False, [(contract, Received(shaped))])])
        known += answer is not None
        if answer is None:
            continue
        for name, each in shaped.items():
            for flat in rng.choice(each.size, min(each.size, 4), replace=False):
                index = index_of(int(flat), each.shape)
                bounds = truth.bounds(contract, name, index, False)
                assert bounds is not None
                assert conforms(bounds, float(each[index])), (number, kind, name, index)
            other, at = each.copy(), int(rng.integers(each.size))
            other.flat[at] = np.nextafter(other.flat[at], np.inf) if np.isfinite(other.flat[at]) else 1.0
            assert screen.certain([(truth.op, False, [(contract, Received({**shaped, name: other}))])]) == [[None]]
    assert known >= unknown, (known, unknown)


OFF = 1.0 + 2.0**-22


def _centre(monkeypatch: pytest.MonkeyPatch) -> None:
    """The exact values of the screen."""
    step = centres.Centres._step
    monkeypatch.setattr(
        centres.Centres, "_step", lambda self, node: step(self, node) * (OFF if node.label == "rsqrt" else 1.0)
    )


def _near(monkeypatch: pytest.MonkeyPatch) -> None:
    """The exact values that outputs are compared with where errors are not in proportion."""
    total = rigorous.Rigorous.total

    def off(self: rigorous.Rigorous, values: rigorous.Near, axis: int) -> rigorous.Near:
        found = total(self, values, axis)
        return rigorous.Near(found.value * OFF, found.error)

    monkeypatch.setattr(rigorous.Rigorous, "total", off)


def _width(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it allows."""
    spread = screen.RowBounds.spread
    monkeypatch.setattr(screen.RowBounds, "spread", lambda self, node, last: spread(self, node, last) + 2.0**-22)


@pytest.mark.some(1)
@pytest.mark.parametrize("plant", [_centre, _width, _near])
def test_a_screen_that_is_off_is_noticed(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oracles.truth.SAMPLE", 1 - 6)

    def stopped() -> int:
        rng, count = np.random.default_rng(17), 0
        for _ in range(12):
            op, out = (SOFTMAX, "f16") if plant is _near else (RMS, "f32")
            without = ("weight", "weight_offset", "rstd") if op is RMS else ()
            of = problem(op, "normal", "f32", (3, 6), rng, without=without, out=out)
            truth, right = Truth(of), returned(of, kernel(of, Contract(), rng))
            ((found,),) = settle([(truth, [(Contract(), truth.receive(right))])])
            count += isinstance(found, OracleDisagreement)
        return count

    assert stopped() == 0
    plant(monkeypatch)
    assert stopped() > 5


def mixed(a: Node, b: Node, c: Node) -> Outputs:
    """Two shares of one."""
    return {"y": c * a + (1.0 - c) * b}


def test_no_centre_is_known_by_itself_where_an_operand_of_a_rounded_sum_may_be_flushed() -> None:
    """1 - c rounds to 1 + 2^-17, or is 1: to the precise tier neither is the centre."""
    op = Op(mixed, tuple(Operand(name, "m n") for name in "abc"), (Operand("y", "m n"),))
    inputs = {name: np.array([[each]], np.float16) for name, each in (("a", 0.10657), ("b", 1.0), ("c", -129 / 2**24))}
    with known(op):
        truth = Truth(Problem("mixed", {}, inputs, {"y": "f16"}))
        got = truth.receive({"y": np.ones((1, 1), np.float16)})
        for contract, is_known in ((Contract(), True), (Contract(denormals="flush"), False)):
            ((answer,),) = screen.certain([(truth.op, False, [(contract, got)])])
            assert (answer is not None) == is_known
            bounds = truth.bounds(contract, "y", (0, 0), False)
            assert bounds is not None
            for worst in answer or ():
                assert not truth.elements.contradiction("y", (0, 0), contract, False, worst, bounds)
            assert [each.result for each in truth.check(contract, got)] == ["pass"]
