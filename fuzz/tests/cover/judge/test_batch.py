"""A batch of cases is settled at once; what comes of it is what each case's own judge would say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fuzz.core.adapters.pack import load
from fuzz.core.adapters.registry import expand
from fuzz.core.base.case import Case
from fuzz.core.base.dtypes import NUMPY_DTYPE, from_bits
from fuzz.core.base.outcome import Change, Outcome, Status, Unwritten
from fuzz.core.base.verdict import Verdict
from fuzz.core.judge.batch import asked_of, settle
from fuzz.core.judge.judge import EntryJudge, Judge
from fuzz.core.judge.values import CaseOracle, Query
from fuzz.core.laws.registry import Entry
from fuzz.tests.common.examples import plain
from oracles.formula.contract import Contract
from oracles.summation import Lanes
from oracles.truth import OracleDisagreement, Truth

CONTRACTS = (Contract(), Contract(sums={"n": Lanes(8, 2, "scalar")}), Contract(compute="f64"))
SOME = [plain(7, 3, dtype, recipe) for dtype in ("f32", "f16", "bf16", "f64") for recipe in ("normal", "one_nan")]


def _right(case: Case) -> np.ndarray:
    x = from_bits(case.inputs["x"].bits, case.inputs["x"].dtype, case.inputs["x"].layout.shape).astype(np.float64)
    return np.asarray(x / np.sqrt((x * x).mean(axis=-1, keepdims=True)))


def _bits(case: Case, y: np.ndarray) -> bytes:
    return y.astype(NUMPY_DTYPE[case.outputs["y"].dtype]).tobytes()


def _asked(case: Case) -> list[Query]:
    """Outputs that pass, that are wrong in one element, in all and in their NaN, each under every contract."""
    right = _right(case)
    one = right.copy()
    one.flat[5] *= 1.5
    every = [_bits(case, each) for each in (right, one, np.zeros_like(right), np.full_like(right, np.nan))]
    return [(contract, (bits,)) for bits in every for contract in CONTRACTS]


def test_what_is_settled_is_what_each_oracle_finds_by_itself() -> None:
    asked = {CaseOracle(case): _asked(case) for case in SOME}
    settle(asked)
    known = sum(len(oracle.known) for oracle in asked)
    for oracle, queries in asked.items():
        assert all(check.result == "pass" for check in map(oracle.check, oracle.known))
        alone = CaseOracle(oracle.case)
        for query in queries:
            found, expected = oracle.check(query), alone.check(query)
            assert repr(found) == repr(expected)
    assert known == len(CONTRACTS) * len(SOME), "right outputs under each contract"


def test_nothing_asked_is_nothing_to_settle() -> None:
    settle({})
    oracle = CaseOracle(SOME[0])
    settle({oracle: []})
    assert not oracle.known


def test_an_op_that_the_oracle_does_not_know_is_left_to_its_own_judge() -> None:
    odd = CaseOracle(Case("no such op", {}, SOME[0].inputs, SOME[0].outputs))
    good = CaseOracle(SOME[0])
    settle({odd: _asked(SOME[0]), good: _asked(SOME[0])})
    assert not odd.known
    assert good.known


def test_an_error_of_ours_is_said_of_its_own_run_only(monkeypatch: pytest.MonkeyPatch) -> None:
    case = SOME[0]
    oracle, (first, second, *_) = CaseOracle(case), _asked(case)
    monkeypatch.setattr("oracles.truth.SAMPLE", 1 - 7)
    monkeypatch.setattr("oracles.truth.conforms", lambda bounds, got: False)
    settle({oracle: [first]})
    monkeypatch.undo()
    settle({oracle: [second]})
    with pytest.raises(OracleDisagreement, match="passes in the fast tier"):
        oracle.check(first)
    assert oracle.check(second).result == "pass"


def test_judging_a_run_that_was_settled_asks_its_truth_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    kernels = [each for each in load(None).kernels if (each.op, each.kind) == ("rms_norm", "c")]
    case, target = SOME[0], expand(kernels)[0]
    outcome = Outcome(target.id, Status.RAN, {"y": _bits(case, _right(case))})
    judge = EntryJudge(Entry(case), {target.id: outcome})
    settle(asked_of([judge], {target.id: target}))
    monkeypatch.setattr(Truth, "check", lambda *_: pytest.fail("it was settled"))
    assert judge.judge(target).verdict is Verdict.PASS


def test_what_other_targets_of_the_pool_did_is_not_asked_about() -> None:
    kernels = [each for each in load(None).kernels if (each.op, each.kind) == ("rms_norm", "c")]
    case, (target, other) = SOME[0], expand(kernels)[:2]
    right = {"y": _bits(case, _right(case))}
    ran = {each.id: Outcome(each.id, Status.RAN, right) for each in (target, other)}
    asked = asked_of([EntryJudge(Entry(case), ran)], {target.id: target})
    assert [len(queries) for queries in asked.values()] == [1]


def test_a_run_that_passes_needs_no_digest_of_its_case() -> None:
    case = plain(9, 2)
    judge = Judge(case)
    settle({judge.oracle: [(Contract(), (_bits(case, _right(case)),))]})
    judgement = judge.judge(Outcome("c-k@native", Status.RAN, {"y": _bits(case, _right(case))}), Contract())
    assert judgement.verdict is Verdict.PASS
    assert "digest" not in vars(case)
    assert judgement.case == case.digest


def test_outputs_that_passed_once_are_judged_with_what_else_is_said_of_a_run() -> None:
    case = plain(9, 2)
    judge, outputs, passed = Judge(case), {"y": _bits(case, _right(case))}, Contract()
    plainly = Outcome("c-k@native", Status.RAN, outputs)
    changed = replace(plainly, changes=(Change("signals", "another handler"),))
    unwritten = replace(plainly, unwritten=(Unwritten("y", 0, 1),))
    seen = [plainly, changed, unwritten, replace(plainly, target="c-k@native:O0")]
    judgements = [judge.judge(each, passed) for each in seen]
    wanted = [Verdict.PASS, Verdict.FAIL_PROCESS, Verdict.FAIL_UNWRITTEN, Verdict.PASS]
    assert [each.verdict for each in judgements] == wanted
    assert [each.target for each in judgements] == [each.target for each in seen]
    assert judgements[3] == replace(judgements[0], target="c-k@native:O0")
    assert replace(judgements[3], target="") == replace(Judge(case).judge(seen[3], passed), target="")
    worse = {"y": _bits(case, 2 * _right(case))}
    assert judge.judge(Outcome("c-k@native", Status.RAN, worse), passed).verdict is Verdict.FAIL_NUMERIC
