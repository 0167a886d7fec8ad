"""Each mutant is its base with one defect, and the defect shows where it is said to."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np
import pytest

from fuzz import CKernel, Mutant
from fuzz.core.adapters.build import edited_source
from fuzz.core.adapters.pack import load
from fuzz.core.adapters.registry import expand
from fuzz.core.adapters.toolchain import this_host
from fuzz.core.base.case import Case, Layout, Output, Tensor, contiguous
from fuzz.core.base.outcome import Status
from fuzz.core.base.verdict import Verdict
from fuzz.core.execute.pool import WorkerPool
from fuzz.core.judge.judge import EntryJudge
from fuzz.core.laws.law import LawCheck
from fuzz.core.laws.registry import LAWS, Entry, twin_of
from oracles.ops import OPS

PACK = load(Path(__file__).resolve().parents[2])
BASES = {kernel.name: kernel for kernel in PACK.kernels}
ONLY_BY_LAW = [mutant for mutant in PACK.mutants if mutant.caught_as == ("FAIL_LAW",)]
PLAIN = [m for m in PACK.mutants if BASES[m.base].op == "rms_norm" and not BASES[m.base].able.optional]
"""Those with optional tensors have cases of their own, in test_isolation.py; those of the other ops are hunted."""
BY_VALUE = [m for m in PLAIN if m.caught_as != ("FAIL_LAW",) and "FAIL_ACCEPTED_INVALID" not in m.caught_as]
BY_LAW = {
    "generic-order-by-rows": "batch_append",
    "generic-order-by-alignment": "alignment",
    "generic-order-by-call": "rerun",
    "generic-order-by-place": "in_place",
    "generic-order-by-eps": "scaling",
    "generic-order-by-pitch": "layout",
    "generic-order-by-even-rows": "batch_subset",
    "generic-order-by-line": "surroundings",
    "generic-order-by-row-number": "row_permutation",
    "generic-order-by-sign": "sign_flip",
    "add-order-by-rows": "batch_append",
    "add-order-by-place": "in_place",
    "add-order-by-eps": "scaling",
    "backward-order-by-row-number": "row_permutation",
    "backward-order-by-alignment": "alignment",
    "backward-order-by-call": "rerun",
    "backward-order-by-eps": "scaling",
    "torch-partial-sum-per-thread": "threads",
}
"""the law that each mutant is made to break; no tolerance shows it."""
LENGTH = 127
"""63 modulo 64; a partial last vector at every vector length; longer than the widest vector."""


def _trigger() -> Case:
    layout = contiguous((2, LENGTH))
    x = np.random.default_rng(1).standard_normal(layout.shape).astype("<f4") + 2
    params = {"axis": 1, "eps": 0.5}
    return Case("rms_norm", params, {"x": Tensor("f32", layout, x.tobytes())}, {"y": Output("f32", layout)})


@pytest.mark.parametrize("mutant", PACK.mutants, ids=lambda mutant: mutant.name)
def test_the_edits_fit_and_the_declaration_holds_together(mutant: Mutant) -> None:
    base = BASES[mutant.base]
    planted = mutant.apply(base)
    assert edited_source(planted) != edited_source(base)
    assert set(mutant.caught_as) <= {verdict.value for verdict in Verdict}
    assert mutant not in PLAIN or mutant.fails_when is None or mutant.fails_when(LENGTH)
    for pattern in mutant.targets:
        assert any(fnmatchcase(target.id, pattern) for target in expand([planted], this_host())), pattern


@pytest.mark.some(1)
@pytest.mark.parametrize("mutant", BY_VALUE, ids=lambda mutant: mutant.name)
def test_the_defect_shows_on_every_target_it_names(mutant: Mutant) -> None:
    planted = [
        target
        for target in expand([mutant.apply(BASES[mutant.base])], this_host())
        if any(fnmatchcase(target.id, pattern) for pattern in mutant.targets) and target.unavailable() is None
    ]
    if not planted:
        base = BASES[mutant.base]
        assert isinstance(base, CKernel)
        assert base.isa == "avx512", "tests need every compiler and emulator: kernelfuzz doctor --install"
        pytest.skip("this processor has no AVX-512, and QEMU does not emulate it")
    (generic,) = [target for target in expand(PACK.kernels[:1], this_host()) if target.id == "c-generic@native:gcc-O2"]
    with WorkerPool([*planted, generic]) as pool:
        (outcomes,) = pool.submit([_trigger()]).outcomes()
    right = np.frombuffer(outcomes.pop(generic.id).outputs["y"], "<f4")
    assert len(outcomes) == len(planted)
    for target, outcome in outcomes.items():
        if "FAIL_MEMORY" in mutant.caught_as:
            assert outcome.status is Status.FAULT, target
            assert outcome.fault is not None
            assert (outcome.fault.tensor, outcome.fault.row, outcome.fault.byte) == ("y", 1, 0)
        else:
            wrong = np.frombuffer(outcome.outputs["y"], "<f4")
            assert np.max(np.abs(wrong / right - 1)) > 5e-6, target


@pytest.mark.some(1)
@pytest.mark.parametrize("mutant", ONLY_BY_LAW, ids=lambda mutant: mutant.name)
def test_only_its_law_shows_a_mutant_whose_values_are_right(mutant: Mutant) -> None:
    """The oracle passes every run; the law fails some twins of the mutant and none of its base."""
    targets = expand([mutant.apply(BASES[mutant.base]), BASES[mutant.base]], this_host())
    law = LAWS[BY_LAW[mutant.name]]
    case = _law_trigger(law.name, BASES[mutant.base].op)
    entries = [Entry(case)]
    for key in range(24):
        entries += [twin_of(case, LawCheck(law, key)), Entry(case)]
    seen: dict[str, list[Verdict]] = {target.id: [] for target in targets}
    with WorkerPool(targets) as pool:
        before = None
        for entry, outcomes in zip(entries, pool.submit([e.case for e in entries]).outcomes(), strict=True):
            before = EntryJudge(entry, outcomes, before)
            for target in targets:
                seen[target.id].append(before.judge(target).verdict)
    for target in targets:
        wanted = {Verdict.PASS, Verdict.FAIL_LAW} if target.kernel.name == mutant.name else {Verdict.PASS}
        assert set(seen[target.id]) == wanted, target.id


def _law_trigger(law: str, op: str) -> Case:
    """Rows with gaps, at a multiple of 64 bytes; two of them, a batch that is small. Where every twin is the same, more
    of them, each a chance that another order rounds differently."""
    rows, dice = 40 if law == "threads" else 2, np.random.default_rng(2)
    layout = Layout((rows, 1000), (1024, 1), "before")
    inputs = {
        operand.name: Tensor("f32", layout, (dice.standard_normal(layout.shape) * 0.01).astype("<f4").tobytes())
        for operand in OPS[op].inputs
        if not operand.optional
    }
    output, source = OPS[op].aliases[0]
    outputs = {operand.name: Output("f32", layout) for operand in OPS[op].outputs if operand.name in OPS[op].alike}
    if law == "in_place":
        output, source = ("sum", "residual") if "residual" in inputs else (output, source)
        outputs[output] = Output("f32", layout, source)
    return Case(op, {"axis": 1, "eps": 2.0**-14}, inputs, outputs)


def test_the_mutant_that_takes_any_strides_takes_what_its_base_rejects() -> None:
    (mutant,) = [mutant for mutant in PACK.mutants if mutant.name == "generic-takes-any-strides"]
    layout = Layout((6, 5), (1, 6))
    case = Case(
        "rms_norm",
        {"axis": 1, "eps": 0.0},
        {"x": Tensor("f32", layout, np.ones(30, "<f4").tobytes())},
        {"y": Output("f32", contiguous((6, 5)))},
    )
    base = BASES[mutant.base]
    with WorkerPool(expand([base, mutant.apply(base)], this_host())) as pool:
        (outcomes,) = pool.submit([case]).outcomes()
    taken = {name: outcome.status for name, outcome in outcomes.items() if mutant.name in name}
    rejected = {name: outcome.status for name, outcome in outcomes.items() if mutant.name not in name}
    assert taken
    assert Status.REJECTED not in taken.values()
    assert set(rejected.values()) == {Status.REJECTED}
