"""The oracle's own process: it finds what would be found without it, and nothing is lost where it is gone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuzz.base.case import Case
from fuzz.base.dtypes import NUMPY_DTYPE, from_bits
from fuzz.base.op import OPS
from fuzz.judge.oracle_process import OracleProcess
from fuzz.judge.values import CaseOracle, Query, values_of
from fuzz.judge.wire import CaseQueries, decode_answers, decode_queries, encode_answers, encode_queries
from fuzz.tests.common.examples import any_case, plain
from fuzz.tests.conftest import HANG_S
from oracles.enclosure import Mask
from oracles.numerics import Lanes, Numerics
from oracles.truth import OracleDisagreement, OutputCheck, Truth

CONTRACTS = (Numerics(), Numerics(summation=Lanes(8, 2, "scalar")), Numerics(accumulate="f64"))
SOME = [plain(7, 3, dtype, recipe) for dtype in ("f32", "f16") for recipe in ("normal", "one_nan")]


def _asked(case: Case, seed: int = 0) -> list[Query]:
    """Outputs that pass, that are wrong in one element, in all and in their NaN, each under every contract."""
    x = from_bits(case.inputs["x"].bits, case.inputs["x"].dtype, case.inputs["x"].layout.shape).astype(np.float64)
    right = x / np.sqrt((x * x).mean(axis=-1, keepdims=True))
    one, none = right.copy(), np.full_like(right, np.nan)
    one.flat[seed % right.size] *= 1.5
    dtype = NUMPY_DTYPE[case.outputs["y"].dtype]
    every = [each.astype(dtype).tobytes() for each in (right, one, np.zeros_like(right), none)]
    return [(numerics, (bits,)) for bits in every for numerics in CONTRACTS]


def _batch(cases: list[Case] = SOME) -> dict[CaseOracle, list[Query]]:
    return {CaseOracle(values_of(case)): _asked(case, seed) for seed, case in enumerate(cases)}


def _mask(shape: tuple[int, int]) -> Mask:
    mask: Mask = np.arange(shape[0] * shape[1]).reshape(shape) % 3 == 0
    return mask


def _same(found: OutputCheck, expected: OutputCheck) -> bool:
    masks = [None if check.mask is None else (check.mask.dtype, check.mask.tolist()) for check in (found, expected)]
    return masks[0] == masks[1] and repr(replace(found, mask=None)) == repr(replace(expected, mask=None))


def _learned(oracle: OracleProcess, asked: dict[CaseOracle, list[Query]]) -> bool:
    """Ask, and compare all that was learned with what is found here; False where nothing was learned."""
    oracle.ask(asked)
    oracle.learn()
    learned = [wanted in checks.known for checks, every in asked.items() for wanted in every]
    for checks, every in asked.items():
        here = CaseOracle(checks.values)
        for wanted in every:
            assert _same(checks.check(wanted), here.check(wanted))
    assert all(learned) or not any(learned)
    return all(learned)


def test_it_finds_what_is_found_here() -> None:
    with OracleProcess(CONTRACTS) as oracle:
        for cases in (SOME, SOME[:1], [], SOME):
            asked = _batch(cases)
            assert _learned(oracle, asked)
            results = {checks.check(wanted).result for checks, every in asked.items() for wanted in every}
            assert results == ({"pass", "numeric", "nonfinite"} if cases else set())
    assert oracle.trouble == ""


@pytest.mark.parametrize("when", ["before it is asked", "before it answers"])
def test_judging_goes_on_where_it_was_killed(when: str) -> None:
    with OracleProcess(CONTRACTS) as oracle:
        assert oracle.pid is not None
        os.kill(oracle.pid, signal.SIGSTOP)
        if when == "before it answers":
            oracle.ask(_batch())
        os.kill(oracle.pid, signal.SIGKILL)
        oracle.learn()
        assert not _learned(oracle, _batch())
        assert not _learned(oracle, _batch())
        assert "was ended from outside" in oracle.trouble


def test_an_error_there_is_an_error_here(monkeypatch: pytest.MonkeyPatch) -> None:
    check = Truth.check

    def contradict(truth: Truth, *arguments: object) -> tuple[OutputCheck, ...]:
        if truth.problem.input("x").shape[-1] == 5:
            raise OracleDisagreement("the tiers differ")
        return check(truth, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Truth, "check", contradict)
    with OracleProcess(CONTRACTS) as oracle:
        bad = CaseOracle(values_of(plain(5, 3)))
        wanted = _asked(plain(5, 3))
        oracle.ask({bad: wanted})
        oracle.learn()
        with pytest.raises(OracleDisagreement, match="the tiers differ"):
            bad.check(wanted[0])
        assert _learned(oracle, _batch())
    assert oracle.trouble == ""


def test_a_stop_of_all_does_not_reach_it() -> None:
    with OracleProcess(CONTRACTS) as oracle:
        assert _learned(oracle, _batch())
        assert oracle.pid is not None
        assert os.getpgid(oracle.pid) == oracle.pid != os.getpgrp(), "so signals to our group are not for it"
        os.kill(oracle.pid, signal.SIGINT)
        assert _learned(oracle, _batch())


def test_what_is_interrupted_within_a_message_does_not_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(message: bytes) -> list[list[OutputCheck]]:
        raise KeyboardInterrupt

    with OracleProcess(CONTRACTS) as oracle:
        oracle.ask(_batch())
        monkeypatch.setattr("fuzz.judge.oracle_process.decode_answers", interrupted)
        with pytest.raises(KeyboardInterrupt):
            oracle.learn()
        monkeypatch.undo()
        assert not _learned(oracle, _batch())
        assert oracle.trouble == ""


def test_where_no_process_can_be_started_judging_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def fork() -> int:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", fork)
    with OracleProcess(CONTRACTS) as oracle:
        assert oracle.pid is None
        assert not _learned(oracle, _batch())
    assert "could not be started" in oracle.trouble


LEFT_ALONE = """
import os, signal, sys
from fuzz.judge.oracle_process import OracleProcess
with OracleProcess(()) as oracle:
    print(oracle.pid, flush=True)
    if sys.argv[1] == "left while it is busy":
        os.kill(oracle.pid, signal.SIGSTOP)
    if sys.argv[1] == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("how", ["left", "left while it is busy", "killed"])
def test_it_ends_with_the_process_that_asks(how: str) -> None:
    # It holds this pipe too: reading to its end waits for both.
    ended = subprocess.run([sys.executable, "-c", LEFT_ALONE, how], stdout=subprocess.PIPE, check=False, timeout=HANG_S)
    assert ended.returncode == (-signal.SIGKILL if how == "killed" else 0)
    assert not Path(f"/proc/{int(ended.stdout)}/exe").exists()


@given(st.lists(st.sampled_from(list(OPS)).flatmap(any_case), max_size=3), st.data())
def test_questions_arrive_as_they_were_asked(cases: list[Case], data: st.DataObject) -> None:
    questions = []
    for case in cases:
        received = st.tuples(*(st.binary(max_size=9) for _ in case.outputs))
        asked = data.draw(st.lists(st.tuples(st.sampled_from(CONTRACTS), received), max_size=4))
        questions.append(CaseQueries(values_of(case), asked))
    assert decode_queries(encode_queries(questions, CONTRACTS), CONTRACTS) == questions


@given(
    st.lists(
        st.lists(
            st.builds(
                OutputCheck,
                output=st.sampled_from(["y", "rstd"]),
                result=st.sampled_from(["pass", "numeric", "nonfinite", "gave_up"]),
                worst_index=st.none() | st.tuples(st.integers(0, 70000), st.integers(0, 3)),
                worst_ratio=st.floats(0.0),
                failing=st.integers(0, 2**40),
                proven=st.booleans(),
                escalated=st.integers(0, 9),
                blunt=st.booleans(),
                mask=st.none()
                | st.tuples(st.integers(0, 5), st.integers(0, 9)).map(
                    lambda s: np.arange(s[0] * s[1]).reshape(s) % 3 == 0
                ),
            ),
            max_size=3,
        ),
        max_size=3,
    )
)
def test_answers_arrive_as_they_were_given(answers: list[list[OutputCheck]]) -> None:
    arrived = decode_answers(encode_answers(answers))
    assert [len(each) for each in arrived] == [len(each) for each in answers]
    for found, expected in zip(arrived, answers, strict=True):
        assert all(map(_same, found, expected))
