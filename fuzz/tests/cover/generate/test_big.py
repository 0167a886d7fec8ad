"""Big cases: every kernel that takes them gets each once, at a fixed place of the search, within 2 GiB."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

import pytest

from fuzz.adapters.pack import built_in, load
from fuzz.adapters.registry import expand
from fuzz.adapters.toolchain import this_host
from fuzz.base.case import Case
from fuzz.base.kernel import capabilities_of
from fuzz.base.op import OPS
from fuzz.base.verdict import Verdict
from fuzz.execute.pool import WorkerPool
from fuzz.generate.big import SERIES, big_case, due
from fuzz.generate.capabilities import anything
from fuzz.generate.search import StopSearch, search
from fuzz.judge.judge import Judge

PACK = load(built_in())
SMALL = [big for big in SERIES if big.rows * big.n < 1 << 20]


@pytest.mark.parametrize("op", list(OPS))
def test_each_big_case_comes_once(op: str) -> None:
    everything = (anything(op),)
    late = [case for batch in range(SMALL[-1].after + 1) for case in due(op, everything, batch)]
    cases = [case for batch in range(len(SERIES)) for case in due(op, everything, batch, first=True)]
    assert {case.origin.layout for case in cases} == {big.name for big in SERIES if op in big.ops}
    assert len({case.digest for case in cases}) == len(cases) <= 2 * len(SERIES)
    assert {case.digest for case in late} == {case.digest for case in cases if case.origin.layout != "n8388624"}
    for tensor in [tensor for case in cases for tensor in case.inputs.values()]:
        assert len(tensor.bits) <= 1 << 25


def test_a_search_hands_them_out_alone() -> None:
    seen: list[list[Case]] = []

    def consume(cases: list[Case]) -> None:
        seen.append(cases)
        if len(seen) == 4:
            raise StopSearch

    search("rms_norm", 7, consume, big_first=True)
    assert [len(cases) for cases in seen] == [16, 1, 1, 16]
    assert [case.origin.layout for cases in islice(seen, 1, 3) for case in cases] == ["rows65536"] * 2


@pytest.mark.parametrize("op", list(OPS))
def test_correct_kernels_pass_them(op: str) -> None:
    kernels = [kernel for kernel in PACK.kernels if kernel.op == op]
    cases = [big_case(big, op, optional) for big in SMALL for optional in (False, True)]
    targets = {t.id: t for t in expand(kernels, this_host()) if t.id.startswith("c-") and "native:gcc-O2" in t.id}
    capabilities = capabilities_of([target.kernel for target in targets.values()], op)
    with WorkerPool([t for t in targets.values() if t.unavailable() is None]) as pool:
        results = pool.submit(cases).outcomes()
    for case, outcomes in zip(cases, results, strict=True):
        assert outcomes
        assert any(capability.refusal(case) is None for capability in capabilities)
        judge = Judge(case)
        for name, outcome in outcomes.items():
            judgement = judge.judge(outcome, targets[name].numerics)
            assert judgement.verdict is Verdict.PASS, (name, case.origin.layout, judgement.reason)


def test_what_cannot_hold_them_is_not_given_them() -> None:
    """No emulator reaches far; one that runs unoptimised code is spared very many rows, and is given all the others."""
    targets = [t for t in expand(PACK.kernels, this_host()) if t.id.startswith("c-sve@qemu:vl=256,gcc-O")]
    assert {target.id[-2:] for target in targets} == {"O0", "O2"}
    several = replace(SERIES[0], rows=1 << 15)
    with WorkerPool(targets) as pool:
        results = pool.submit([big_case(big, "rms_norm", False) for big in (several, *SERIES[:-1])]).outcomes()
    given = [{name[-2:] for name in outcomes} for outcomes in results]
    assert given == [{"O0", "O2"}, *({"O2"} if big.pitch is None else set[str]() for big in SERIES[:-1])]
    for target in targets:
        assert target.size_limit is not None
        assert not target.size_limit.holds(big_case(SERIES[-1], "rms_norm", False))
