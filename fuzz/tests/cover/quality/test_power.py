"""How small a wrong term is still caught: it is found rightly, and a blunter budget would be noticed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from fuzz.campaign.tolerance import Tolerance, plain, usual
from fuzz.quality import oracle
from fuzz.quality.__main__ import app
from fuzz.quality.power import ScaledMutant, Smallest, mutants, smallest
from fuzz.quality.subjects import simulated
from fuzz.tests.conftest import Cli
from oracles.doubledouble import F64
from oracles.enclosure import compare
from oracles.formula.affine.budget import Budget
from oracles.formula.affine.forms import Form
from oracles.formula.trace import Node, Outputs, take, total, where
from oracles.op import Op
from oracles.operand import Operand
from oracles.ops import OPS
from oracles.tests.common.dims import ATTEND, GEMM, PRODUCT, TURN
from oracles.tests.common.judged import known
from oracles.tiers.problem import FormulaProblem

_N = 64
_ROWS = 16

CAUGHT: Mapping[str, Mapping[str, int]] = {
    "rms_norm": {
        "a term of sum(x * x) times 1 - d": -12, "eps times 1 + d": -18, "weight_offset times 1 + d": -22,
        "rstd off by k ulp": 4, "last operation of y off by k ulp": 4,
    },
    "layer_norm": {
        "a term of sum(x) times 1 - d": -14, "mean in centred times 1 + d": -16, "eps times 1 + d": -17,
        "last operation of y off by k ulp": 1,
    },
    "layer_norm_backward": {"h * sum(g * h) / n in dx times 1 + d": -16, "a term of dw times 1 - d": -13},
    "softmax": {"a term of mass times 1 - d": -11, "e off by k ulp": 4},
    "softmax_backward": {"dotted in dx times 1 + d": -17, "last operation of dx off by k ulp": 3},
    "log_softmax": {"a term of mass times 1 - d": -11, "log(mass) off by k ulp": 4},
}  # fmt: skip
"""In f32, rows of 64: the exponent at which each is caught, at most. Measured, and one more."""


def _found(op: str) -> Mapping[str, Smallest]:
    return {each.wrong: each for each in smallest(OPS[op], "f32", _ROWS, _N, 1)}


@pytest.mark.parametrize("op", CAUGHT)
def test_what_is_wrong_is_caught_from_the_size_on_that_it_was(op: str) -> None:
    found = _found(op)
    for wrong, most in CAUGHT[op].items():
        caught = found[wrong].caught
        assert caught is not None, wrong
        assert caught <= most, wrong


def test_a_budget_that_is_blunt_catches_only_what_is_larger(monkeypatch: pytest.MonkeyPatch) -> None:
    half_width = Budget.half_width

    def blunt(self: Budget, form: Form) -> F64:
        return half_width(self, form) * 8.0

    before = _found("softmax")
    monkeypatch.setattr(Budget, "half_width", blunt)
    after = _found("softmax")
    for wrong, most in CAUGHT["softmax"].items():
        caught = after[wrong].caught
        assert caught is None or caught > most, wrong
    assert [each.torch for each in after.values()] == [each.torch for each in before.values()]


BENEATH = (
    ("cross_entropy", "bf16", "a term of sum(x) times 1 - d"),
    *(("topk_softmax", dtype, "a term of mass times 1 - d") for dtype in ("f32", "bf16")),
    *(("row_max_backward", dtype, "a term of count times 1 - d") for dtype in ("f32", "bf16")),
)
"""What is smaller than the rounding of what it is in, a tenth of a 64th of one logit; or is divided out again where
weights are renormalised; or counts equal elements, of which the first has all."""
SWITCHES = (
    "relu", "silu", "causal", "window", "blank", "of_zeros", "of_infinity", "of_ties", "scale_rule", "renormalise",
)  # fmt: skip
"""The parameters of which one that is on may be any larger, or that of rows of zeros or of infinities, or of equal
elements, of which there are none."""


@pytest.mark.some(4)
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_of_each_op_a_right_kernel_is_not_caught_and_one_that_is_far_off_is(op: str, dtype: str) -> None:
    """What no output depends on apart: the maximum may be any number, a switch that is on a larger one, and there is no
    row of zeros."""
    problem, contract = FormulaProblem(plain(OPS[op], dtype, _ROWS, _N, 1)), usual(OPS[op], dtype)
    enclosures = problem.enclose(contract, problem.problem.structured)
    right = simulated(problem, contract, 1)
    assert not any(compare(each, right[name]).failing.any() for name, each in enclosures.items())
    for mutant in mutants(problem, contract):
        changed = {mutant.node: _most(mutant)}
        wrong = simulated(problem, contract, 1, mutant.trace, changed)
        is_caught = any(compare(each, wrong[name]).failing.any() for name, each in enclosures.items())
        unseen = mutant.words.startswith("max(") or "m in p" in mutant.words or mutant.words.split()[0] in SWITCHES
        assert is_caught or unseen or (op, dtype, mutant.words) in BENEATH, mutant.words


def _most(mutant: ScaledMutant) -> Callable[[F64], F64]:
    return lambda values: mutant.change(values, 2.0 ** mutant.exponents[-1])


def test_a_tolerance_is_absolute_and_relative() -> None:
    got, expected = np.array([1.0, 1.1, 0.01, np.nan, np.inf, 0.0]), np.array([1.05, 1.0, 0.0, np.nan, np.inf, np.nan])
    assert Tolerance("mine", 0.005, 0.05).failing(got, expected).tolist() == [False, True, True, False, False, True]


def test_the_command_prints_it(cli_here: Cli, tmp_path: Path) -> None:
    words = ("power", "--op", "log_softmax_b*", "--dtype", "f16", "--n", "7", "--rows", "4", "--json", "power.json")
    done = cli_here(*words, "--markdown", app=app)
    assert done.returncode == 0, done.stderr
    assert "| op | wrong | f16, n = 7 |" in done.stdout
    assert "| log_softmax_backward | dy in dx times 1 + d | 2^-" in done.stdout
    found = [Smallest(**each) for each in json.loads((tmp_path / "power.json").read_text())["found"]]
    assert all(each.cell in done.stdout for each in found)
    for arguments, said in ((("--dtype", "f64"), "known: f32, f16, bf16"), (("--op", "nothing"), "no such op")):
        wrong = cli_here("power", *arguments, app=app)
        assert (wrong.returncode, said in wrong.stderr) == (4, True)


def summed(x: Node, places: Node) -> Outputs:
    """The sum of all that is taken."""
    return {"y": total(take(x, places, "n") * 0.5, ("b", "m")) + 1.0}


SUMMED = Op(summed, (Operand("x", "b n"), Operand("places", "b m", index="n", dtype="int32")), (Operand("y", ""),))


@pytest.mark.some(2)
@pytest.mark.parametrize("op", [PRODUCT, GEMM, ATTEND, TURN, SUMMED], ids=lambda op: op.name)
def test_ops_of_any_dimensions_are_measured(op: Op, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the first input lacks a dimension, takes places, or the output has none."""
    monkeypatch.setattr(oracle, "_LENGTHS", (3,))
    with known(op):
        found = list(smallest(op, "f32", 2, 6, 1))
        assert all(each.caught is not None for each in found if each.wrong.startswith("a term of"))
        assert len(found) > 1
        assert sum(each.elements for each in oracle.escalations(op, "f32", 1)) > 0


def kept(x: Node, mask: Node) -> Outputs:
    """The sum of what a mask keeps."""
    return {"y": total(where(mask, x, 0.0), ("n", "m"))}


KEPT = Op(
    kept,
    (Operand("x", "b n m"), Operand("mask", "b n m", values="flags", dtype="bool")),
    (Operand("y", "b"),),
)


def test_the_term_that_is_bent_is_the_last_that_is_not_0() -> None:
    """One of each sum, wherever it is; a sum of zeros is as it was."""
    with known(KEPT):
        problem, contract = FormulaProblem(plain(KEPT, "f32", 3, 4, 1)), usual(KEPT, "f32")
        [term, *_] = mutants(problem, contract)
    values = np.array([[[1.0, 2.0], [3.0, 4.0]], [[1.0, 2.0], [0.0, 0.0]], [[0.0, 0.0], [-0.0, 0.0]]])
    assert np.argwhere(term.change(values, 0.5) != values).tolist() == [[0, 1, 1], [1, 0, 1]]
    assert term.change(values, 0.5)[1, 0, 1] == 1.0
    assert term.change(values[:, :0], 0.5).shape == (3, 0, 2)
