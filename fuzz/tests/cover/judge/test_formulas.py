"""An op of a pack, judged from its formula: by the judge, in a batch, and explained by the names of its formula."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from fuzz.core.adapters.pack import load
from fuzz.core.adapters.python_kernel import PythonKernel
from fuzz.core.adapters.registry import expand
from fuzz.core.base.case import Case, Output, Tensor, contiguous
from fuzz.core.base.outcome import Outcome, Status
from fuzz.core.base.verdict import Verdict
from fuzz.core.judge.batch import asked_of, settle
from fuzz.core.judge.judge import EntryJudge
from fuzz.core.laws.registry import Entry
from fuzz.findings import casefile
from fuzz.tests.conftest import Cli
from oracles.formula.contract import Contract
from oracles.ops import OPS
from oracles.tests.common.judged import TOYS, known

PACK = """
from pathlib import Path
from fuzz import Capabilities, Op, Operand, Parameter, PythonKernel, register, formula as f

def blend(x, residual, bias=None, *, scale):
    shifted = x if bias is None else x + bias
    gate = 0.5 * (1.0 + f.erf(shifted * 0.7071067811865476))
    return {"y": shifted * gate * scale * residual}

register(Op(
    blend, inputs=(Operand("x", "... n"), Operand("residual", "... n"), Operand("bias", "n", optional=True)),
    outputs=(Operand("y", "... n"),), parameters=(Parameter("scale", (1.0, 0.5), neutral=1.0),),
))
KERNELS = (PythonKernel("blended", "blend", Path(__file__), "numpy", capabilities=Capabilities(takes=("bias",))),)
"""


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    with known(*TOYS):
        yield


def test_explain_budget_prints_terms_by_the_names_of_the_formula(cli_here: Cli, tmp_path: Path) -> None:
    (tmp_path / "pack.py").write_text(PACK)
    load(tmp_path)  # which makes the op known, for the case below
    shape, rng = contiguous((2, 3)), np.random.default_rng(1)
    inputs = {name: Tensor("f32", shape, rng.normal(size=(2, 3)).astype("<f4").tobytes()) for name in ("x", "residual")}
    inputs["bias"] = Tensor("f32", contiguous((3,)), np.ones(3, "<f4").tobytes())
    case = Case("blend", {"axis": 1, "scale": 0.5}, inputs, {"y": Output("f32", shape)})
    path = tmp_path / "case.json"
    casefile.save(path, case)
    del OPS["blend"]  # as in the process of a user, who has it from the pack
    done = cli_here("explain-budget", str(path), "--index", "1,2", "--pack", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "y[1, 2] under the contract of numpy-blended@cpu" in done.stdout
    for term in ("gate", "y", "rounding"):  # the sum of two operands, "shifted", is the same in every kernel
        assert f" {term} " in done.stdout, term


def test_a_batch_settles_what_passes_and_leaves_what_does_not() -> None:
    [target] = expand([PythonKernel("k", "toy_softmax", Path("k.py"), "numpy", contract=Contract())])
    x = np.random.default_rng(2).normal(size=(2, 5)).astype("<f4")
    e = np.exp(x - x.max(1, keepdims=True))
    right = e / e.sum(1, keepdims=True)
    shape = contiguous((2, 5))
    case = Case("toy_softmax", {"axis": 1}, {"x": Tensor("f32", shape, x.tobytes())}, {"y": Output("f32", shape)})
    judges = []
    for y in (right, right * np.float32(1.0001)):
        outcome = Outcome(target.id, Status.RAN, outputs={"y": y.astype("<f4").tobytes()})
        judges.append(EntryJudge(Entry(case), {target.id: outcome}))
    settle(asked_of(judges, {target.id: target}))
    assert [len(judge.oracle.known) for judge in judges] == [1, 0]
    assert [judge.judge(target).verdict for judge in judges] == [Verdict.PASS, Verdict.FAIL_NUMERIC]
