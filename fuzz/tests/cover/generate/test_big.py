"""Big cases: every kernel that takes them gets each once, at a fixed place of the search, within 2 GiB."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from fuzz.core.adapters.cuda import sanitized
from fuzz.core.adapters.python_kernel import PythonKernel
from fuzz.core.adapters.registry import expand
from fuzz.core.adapters.toolchain import this_host
from fuzz.core.base.kernel import capabilities_of
from fuzz.core.base.verdict import Verdict
from fuzz.core.execute.pool import WorkerPool
from fuzz.core.generate.big import SERIES, SWEEPS, big_case, series
from fuzz.core.generate.search import Search, batches
from fuzz.core.judge.judge import EntryJudge
from fuzz.core.laws.registry import Entry
from fuzz.tests.common.examples import EACH_OP
from fuzz.tests.common.hunting import PACK
from fuzz.tests.common.planted import ANYTHING
from fuzz.tests.common.python_planted import TORCH_HEAD
from oracles.ops import OPS

ALL = (*SWEEPS, *SERIES)
SMALL = [big for big in ALL if big.rows * big.n < 1 << 20]


BIG = tuple(op for op in OPS if any(big.fits(OPS[op]) for big in ALL))


def test_an_op_of_rows_alone_has_big_cases() -> None:
    assert [*BIG] == [name for name, op in OPS.items() if op.any_axis and not op.further and not op.fixed]
    assert all(Search(op, 1).big_series == () for op in OPS if op not in BIG)


@pytest.mark.some(1)
@pytest.mark.parametrize("op", [op for op in EACH_OP if op in BIG])
def test_each_big_case_has_a_number_that_no_seed_changes(op: str) -> None:
    one, other = Search(op, 1), Search(op, 2)
    made = [one.big(due.number) for due in one.big_series]
    cases = [each.case for each in made if each is not None]
    assert len(cases) == len(made) <= 2 * len(ALL)
    assert {case.origin.layout for case in cases} == {big.name for big in ALL if big.fits(OPS[op])}
    assert len({case.digest for case in cases}) == len(cases)
    assert [case.origin.name for case in cases] == [f"big:{number}" for number in range(1, len(cases) + 1)]
    second = other.big(2)
    assert second is not None
    assert second.case.digest == cases[1].digest
    assert one.big(0) is one.big(len(cases) + 1) is None
    for tensor in [tensor for case in cases for tensor in case.inputs.values()]:
        assert len(tensor.bits) <= 1 << 25


def test_rows_that_are_too_short_for_an_op_are_not_made() -> None:
    assert {due.big.n for due in series("row_sum")} - {due.big.n for due in series("row_var")} == {1}
    assert all(Search("row_var", 1).big(due.number) for due in series("row_var") if due.big in SMALL)


def test_torch_is_given_those_far_apart_but_none_that_run_backwards() -> None:
    search = Search("rms_norm", 1, PACK.kernels)
    torch = [each for each in search.capabilities if not each.shares_memory]
    far = {due.number: due.big.pitch > 0 for due in search.big_series if due.big.pitch is not None}
    assert all(search.big(number) is not None for number in far)
    assert {number: search.big(number, torch) is not None for number in far} == far


def test_a_gpu_is_given_those_far_apart_but_not_under_a_tool_that_watches_it(tmp_path: Path) -> None:
    (tmp_path / "planted.py").write_text(f"{TORCH_HEAD}    y.copy_(x)\n")
    kernel = PythonKernel(
        "planted", "rms_norm", tmp_path / "planted.py", "torch", capabilities=ANYTHING, devices=("cuda",)
    )
    [plain] = expand([kernel], this_host())
    case = big_case(next(big for big in SERIES if big.name == "pitch2^31"), "rms_norm", False)
    watched = [*sanitized(plain)]
    assert plain.dispatch().accepts(case)
    assert watched
    assert not any(each.dispatch().accepts(case) for each in watched)


@pytest.mark.whole
def test_a_search_hands_them_out_alone() -> None:
    seen = list(islice(batches(Search("rms_norm", 7), big_first=True), 4))
    assert [len(cases) for cases in seen] == [16, 1, 1, 16]
    assert [made.case.origin.layout for cases in islice(seen, 1, 3) for made in cases] == ["rows65536"] * 2
    late = islice(batches(Search("rms_norm", 7)), 68)
    assert [index for index, cases in enumerate(late) if len(cases) == 1] == [65, 66]


@pytest.mark.whole
@pytest.mark.parametrize("op", [op for op in EACH_OP if op in BIG])
def test_correct_kernels_pass_them(op: str) -> None:
    kernels = [kernel for kernel in PACK.kernels if kernel.op == op]
    cases = [big_case(due.big, op, due.optional) for due in series(op) if due.big in SMALL]
    targets = {t.id: t for t in expand(kernels, this_host()) if t.id.startswith("c-") and "native:gcc-O2" in t.id}
    capabilities = capabilities_of([target.kernel for target in targets.values()], op)
    with WorkerPool([t for t in targets.values() if t.unavailable() is None]) as pool:
        results = pool.submit(cases).outcomes()
    for case, outcomes in zip(cases, results, strict=True):
        assert outcomes
        assert any(capability.refusal(case) is None for capability in capabilities)
        judge = EntryJudge(Entry(case), outcomes)
        for name in outcomes:
            judgement = judge.judge(targets[name])
            assert judgement.verdict is Verdict.PASS, (name, case.origin.layout, judgement.reason)


@pytest.mark.whole
def test_what_cannot_hold_them_is_not_given_them() -> None:
    """No emulator reaches far; one that runs unoptimised code is spared very many rows, and is given all the others."""
    targets = [t for t in expand(PACK.kernels, this_host()) if t.id.startswith("c-sve@qemu:vl=256,gcc-O")]
    assert {target.id[-2:] for target in targets} == {"O0", "O2"}
    if reason := next(filter(None, (target.unavailable() for target in targets)), None):
        pytest.skip(reason)
    several = replace(SERIES[0], rows=1 << 15)
    with WorkerPool(targets) as pool:
        results = pool.submit([big_case(big, "rms_norm", False) for big in (several, *SERIES[:-1])]).outcomes()
    given = [{name[-2:] for name in outcomes} for outcomes in results]
    assert given == [{"O0", "O2"}, *({"O2"} if big.pitch is None else set[str]() for big in SERIES[:-1])]
    for target in targets:
        assert target.size_limit is not None
        assert not target.size_limit.holds(big_case(SERIES[-1], "rms_norm", False))


def test_one_input_of_what_has_no_sums_gets_every_number_of_16_bits() -> None:
    names = {op: [due.big.name for due in series(op) if due.big.swept is not None] for op in OPS}
    assert names["gelu"] == ["every f16 of 0", "every bf16 of 0"]
    assert names["silu_mul"] == [*names["gelu"], "every f16 of 1", "every bf16 of 1"]
    assert names["softmax"] == names["row_max"] == []
    case = big_case(SWEEPS[2], "silu_mul", False)
    bits = [np.frombuffer(case.inputs[name].bits, np.uint16) for name in ("gate", "up")]
    assert [len(np.unique(each)) == 1 << 16 for each in bits] == [False, True]
