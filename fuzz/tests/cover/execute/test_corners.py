"""What a run can visit follows from what its targets take and attest; what only slow targets can, they are given."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fuzz.core.adapters.pack import built_in, load
from fuzz.core.adapters.python_program import PythonAttestation
from fuzz.core.adapters.registry import expand
from fuzz.core.adapters.target import Attestation, NotRun, Target
from fuzz.core.adapters.toolchain import this_host
from fuzz.core.base.dispatch import Dispatch
from fuzz.core.base.feature import Feature
from fuzz.core.execute.corners import Reserved, corners_of
from fuzz.core.generate.sketch import ROWS, N
from fuzz.tests.common.examples import first_cases, searched

OP = "fused_add_rms_norm"
NAMES = {
    "add-generic", "add-unrounded", "add-whole-row", "add-whole-row-llama", "add-whole-row-none",
    "add-whole-row-unrounded", "add-chunked", "add-chunked-llama", "add-chunked-none", "add-auto", "add-eager",
}  # fmt: skip
KERNELS = [kernel for kernel in load(built_in()).kernels if kernel.name in NAMES]
"""by name: what can be reached with these does not change with each new kernel."""
TARGETS = expand(KERNELS, this_host())
RIGHT = PythonAttestation("", "interpreted", "interpret", {})
WRONG = replace(RIGHT, bf16="rounded to odd")


def statuses(interpreter: Attestation) -> dict[str, Attestation | NotRun]:
    """CUDA is absent and the interpreter as given."""
    absent: dict[str, Attestation | NotRun] = {t.id: NotRun("absent") for t in TARGETS if t.id.endswith("@cuda")}
    return {**absent, **{t.id: interpreter for t in TARGETS if t.id.endswith("@interpret")}}


def test_what_no_target_accepts_is_no_gap_but_is_told() -> None:
    """Only the interpreter takes rstd in 16 bits, of which it gets bf16 wrong."""
    wrong, right = corners_of(OP, TARGETS, statuses(WRONG)), corners_of(OP, TARGETS, statuses(RIGHT))
    aligned = Feature("alignment", "rstd", operand="bf16")
    steps = tuple(range(0, 64, 2))
    assert wrong.beyond == {Feature("dtype", "rstd"): (("bf16", "x", "bf16"),), aligned: steps}
    assert right.beyond == {}
    assert right.space[aligned] == steps
    assert aligned not in wrong.space
    # Others take bf16 in the other tensors.
    assert wrong.space[Feature("alignment", "x", operand="bf16")] == steps
    assert set(wrong.space[Feature("target")]) == {t.id for t in TARGETS if not t.id.endswith("@cuda")}


def test_a_target_that_gets_its_only_dtype_wrong_can_visit_nothing() -> None:
    target = next(each for each in TARGETS if each.id == "triton-add-chunked@interpret")
    able = replace(target.kernel.capabilities, dtypes=("bf16",), mixed=())
    alone = replace(target, kernel=replace(target.kernel, capabilities=able))
    found = corners_of(OP, [alone], statuses(WRONG))
    assert [*found.space] == [Feature("target")]
    assert found.capabilities == ()


def test_a_target_of_small_cases_alone_reaches_no_large_ones() -> None:
    alone = [target for target in TARGETS if target.id == "triton-add-chunked@interpret"]
    reach = corners_of(OP, alone, statuses(RIGHT))
    assert 265 in reach.beyond[ROWS]
    assert 12 not in reach.beyond[N]
    assert not {*reach.space[ROWS]} & {*reach.beyond[ROWS]}


def _parts() -> tuple[list[Target], list[Target]]:
    running = [target for target in TARGETS if not target.id.endswith("@cuda")]
    return [t for t in running if t.slow], [t for t in running if not t.slow]


@pytest.mark.whole
def test_the_first_case_of_each_corner_of_slow_targets_is_given_to_them() -> None:
    slow, quick = _parts()
    reserved = Reserved(slow, quick, statuses(WRONG))
    cases = first_cases(OP, 1, KERNELS, count=3000)
    given = [cases[index] for index in reserved(cases)]
    seen = {label for case in given for label in case.origin.labels}
    assert {(Feature("alignment", "rstd", operand="f16"), byte) for byte in range(0, 64, 2)} <= seen
    assert len(given) <= 33 + len(slow), "one case for each corner and each target, and none for what others visit"
    assert Reserved([], quick, {})(given) == []


def test_every_slow_target_is_given_the_first_case_that_it_takes() -> None:
    """tile-fast takes rows of whole tiles only: none of the batches that everybody is given may hold one."""
    kernels = [kernel for kernel in load(built_in()).kernels if kernel.op == "rms_norm"]
    running = [target for target in expand(kernels, this_host()) if not target.id.endswith("@cuda")]
    slow, quick = [t for t in running if t.slow], [t for t in running if not t.slow]
    reserved = Reserved(slow, quick, {})
    waiting = {target.id: Dispatch(target.kernel.capability, target.size_limit) for target in slow}
    assert "triton-tile-fast@interpret" in waiting

    for case in searched("rms_norm", 1, kernels):
        wanted = reserved([case])
        taking = [name for name, dispatch in waiting.items() if dispatch.accepts(case)]
        assert not taking or wanted, taking
        for name in taking:
            del waiting[name]
        if not waiting:
            break
