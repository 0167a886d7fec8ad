"""What it takes to see each planted defect: a case with one feature shows it, the same case without it does not."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from fuzz.core.adapters.pack import load
from fuzz.core.adapters.registry import expand
from fuzz.core.adapters.target import Target
from fuzz.core.adapters.toolchain import this_host
from fuzz.core.base.case import Case, Layout, Output, contiguous
from fuzz.core.base.outcome import Outcome
from fuzz.core.execute.pool import WorkerPool
from fuzz.core.generate.big import Big, big_case
from fuzz.core.judge.judge import Judge
from fuzz.tests.common.handmade import a_case, dense, padded

PACK = load(Path(__file__).resolve().parents[2])
MUTANTS = {mutant.name: mutant for mutant in PACK.mutants}


def stepped(shape: tuple[int, ...]) -> Layout:
    """A gap after every element of the last axis."""
    return Layout(shape, tuple(2 * stride for stride in contiguous(shape).strides))


def overlapping(case: Case) -> Case:
    """y one element after x."""
    x = replace(case.inputs["x"], layout=replace(case.inputs["x"].layout, offset=1))
    y = Output(x.dtype, replace(x.layout, offset=0), "x")
    return replace(case, inputs={**case.inputs, "x": x}, outputs={**case.outputs, "y": y})


def one_buffer(case: Case) -> Case:
    """The residual is x."""
    residual = replace(case.inputs["x"], alias="x")
    return replace(case, inputs={**case.inputs, "residual": residual})


def stacked(case: Case, rows: int) -> Case:
    """A weight of rank 2, each row a few columns further on in the same numbers."""
    weight = case.inputs["weight"]
    size = len(weight.bits) // weight.layout.size
    bits = b"".join(weight.bits[7 * size * row :] + weight.bits[: 7 * size * row] for row in range(rows))
    held = replace(weight, layout=contiguous((rows, *weight.layout.shape)), bits=bits)
    return replace(case, inputs={**case.inputs, "weight": held})


def far(pitch: int) -> Case:
    """Two rows so many elements apart, of a storage that is sparse."""
    return big_case(Big("far", 0, rows=2, n=33, pitch=pitch), "rms_norm", True)


forward = partial(a_case, "rms_norm", ("weight", "rstd"), layout=dense)
added = partial(a_case, "fused_add_rms_norm", ("weight", "sum"), layout=dense)
backward = partial(a_case, "rms_norm_backward", ("weight", "rstd", "dw"), layout=dense)
fused = partial(a_case, "fused_add_rms_norm_backward", ("weight", "dsum", "dresidual"), layout=dense)

NEEDED: dict[str, tuple[str, Case, Case]] = {
    "weighted-writes-into-gaps": ("gaps", forward(grid=(9,)), forward(grid=(9,), layouts={"y": stepped})),
    "weighted-second-pass-ignores-stride": ("a stride along the row", forward(), forward(layouts={"x": stepped})),
    "weighted-offset-in-16-bits": ("distance", forward(grid=(2, 16384)), forward(grid=(3, 16384))),
    "weighted-offset-in-32-bits": ("more distance", far(2**31 - 64), far(2**31 + 64)),
    "weighted-rows-of-a-grid": ("many rows", forward(grid=(65535, 1)), forward(grid=(65537, 1))),
    "weighted-rstd-unwritten": ("a stored rstd", a_case("rms_norm", grid=(2, 3)), forward(grid=(2, 3))),
    "weighted-reads-weight-as-x": ("mixed dtypes", forward(dtype="f16"), forward(dtype="f16", mixed={"weight": "f32"})),
    "weighted-ignores-weight-stride": ("a strided weight", forward(), forward(layouts={"weight": padded})),
    "weighted-first-row-of-weights": ("rows of weights", stacked(forward(), 1), stacked(forward(), 3)),
    "weighted-llama-takes-any-weight": ("rows of weights", forward(), stacked(forward(), 3)),
    "weighted-eps-as-x": ("eps that f16 has not", forward(dtype="f16", eps=0.5), forward(dtype="f16", scale=1e-3)),
    "weighted-overlap-forgotten": ("overlap", forward(), overlapping(forward())),
    "add-same-buffer-added-once": ("one buffer twice", added(), one_buffer(added())),
    "add-residual-at-pitch-of-x": ("two pitches", added(layout=padded), added(layouts={"residual": padded})),
    "add-sum-unwritten": ("a sum without a weight", added(), a_case("fused_add_rms_norm", ("sum",))),
    "add-modifies-residual": ("no sum", added(), a_case("fused_add_rms_norm")),
    "backward-takes-any-weight": ("rows of weights", backward(), stacked(backward(), 3)),
    "backward-rstd-of-first-row": ("a second row", backward(grid=(1, 37)), backward(grid=(2, 37))),
    "backward-weight-twice": ("a weight", a_case("rms_norm_backward", ("dw",)), backward()),
    "backward-dw-loses-last-row": ("dw", a_case("rms_norm_backward"), backward()),
    "backward-dw-unwritten": ("a tail of dw", backward(grid=(3, 32)), backward()),
    "backward-dx-over-dy-too-early": ("dx in dy", backward(alias={"dx": "x"}), backward(alias={"dx": "dy"})),
    "add-backward-dsum-left-out": ("dsum", a_case("fused_add_rms_norm_backward", ("dresidual",)), fused()),
    "add-backward-dresidual-unwritten": ("dresidual", a_case("fused_add_rms_norm_backward", ("dsum",)), fused()),
}
"""by mutant: what it takes, a case without it and one with it."""

PLAIN = {"backward-projection-dropped", "backward-projection-halved", "backward-mean-over-n-plus-1"}
"""mutants that any random gradient shows."""


def _judged(case: Case, outcome: Outcome, target: Target) -> str:
    why, judge = target.kernel.capability.refusal(case), Judge(case)
    judgement = judge.judge(outcome, target.contract) if why is None else judge.judge_invalid(outcome, why)
    return judgement.verdict.value


def test_every_mutant_of_these_kernels_that_one_case_shows_is_here() -> None:
    bases = {MUTANTS[name].base for name in NEEDED}
    # One bit less in a result is shown by luck with its rounding, not by a feature of the case.
    fitting = [mutant for mutant in PACK.mutants if mutant.base in bases and not mutant.of_size]
    alone = [mutant for mutant in fitting if not mutant.needs_history]
    assert {mutant.name for mutant in alone if mutant.caught_as != ("FAIL_LAW",)} == {*NEEDED, *PLAIN}


@pytest.mark.some(4)
@pytest.mark.parametrize("name", NEEDED)
def test_only_what_a_mutant_needs_shows_it(name: str) -> None:
    mutant = MUTANTS[name]
    planted = mutant.apply(PACK.kernel(mutant.base))
    (target,) = [target for target in expand([planted], this_host()) if target.id.endswith("native:gcc-O2")]
    _, without, with_it = NEEDED[name]
    with WorkerPool([target]) as pool:
        outcomes = pool.submit([without, with_it]).outcomes()
    verdicts = [
        _judged(case, found[target.id], target) for case, found in zip((without, with_it), outcomes, strict=True)
    ]
    assert verdicts[0] == "PASS"
    assert verdicts[1] in mutant.caught_as
