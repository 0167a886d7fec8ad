"""What is learned of a kernel says nothing that its runs cannot show."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fuzz.adapters.python_kernel import PythonKernel
from fuzz.adapters.registry import expand
from fuzz.adapters.toolchain import Host
from fuzz.base.outcome import Outcome, Status
from fuzz.execute.pool import WorkerPool
from fuzz.tests.common.handmade import a_case, dense
from fuzz.tests.common.hunting import PACK, target_of
from fuzz.uses.learn.evidence import KernelRuns
from fuzz.uses.learn.learning import Learning
from oracles.formula.contract import INPUT, Contract
from oracles.formula.within import Within
from oracles.ops import OPS


@pytest.mark.parametrize(("dtypes", "rounds"), [(("f32",), False), (("f32", "f16"), True)])
def test_to_round_to_the_dtype_in_which_everything_is_calculated_is_no_contract(
    dtypes: tuple[str, ...], rounds: bool
) -> None:
    target = target_of(PACK.kernel("weighted"), "O2")
    cases = [a_case("rms_norm", ("weight",), (2, 5), dtype=dtype) for dtype in dtypes]
    evidence = KernelRuns()
    with WorkerPool([target]) as pool:
        for case, outcomes in zip(cases, pool.submit(cases).outcomes(), strict=True):
            evidence.add(case, [(target, outcomes[target.id])])
    near = Learning(OPS["rms_norm"], evidence, lambda: False).near(Contract("f32"))
    assert len(evidence.runs) == len(cases)
    assert any("f16" in each.contract.points.values() for each in near)
    assert any(INPUT in each.contract.points.values() for each in near) == rounds


def test_of_an_exponential_whose_errors_grow_nothing_is_said_on_a_gpu() -> None:
    """No number of ulp says it; what is printed has the platform's bound where it is pasted."""
    kernel = PythonKernel("k", "softmax", Path("k.py"), "triton", devices=("cuda",))
    [target] = expand([kernel], Host("x86_64", frozenset()))
    case = a_case("softmax", (), (64, 2), layout=dense)
    x = np.stack([np.zeros(64), np.linspace(-1, -86, 64)], axis=1).astype(np.float32)
    case = replace(case, inputs={"x": replace(case.inputs["x"], bits=x.tobytes())}, structured=True)
    e = np.exp2((x * np.float32(1.4426950408889634)).astype(np.float64)).astype(np.float32)
    y = e / e.sum(axis=1, keepdims=True, dtype=np.float32)
    evidence = KernelRuns()
    evidence.add(case, [(target, Outcome(target.id, Status.RAN, {"y": y.tobytes()}))])
    [best, *_] = Learning(OPS["softmax"], evidence, lambda: False).learned().fitting
    assert "exp" not in best.contract.accuracy
    assert target.meant(best.contract).bound("exp") == Within(2.5, growth=0.62)


def test_what_is_contradicted_is_shown_where_it_is_as_wide_in_the_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few runs have a mean that is large beside its spread: the variance that they show is of moments, and no other."""
    kernel = PythonKernel("k", "layer_norm", Path("k.py"), "numpy")
    [target] = expand([kernel], Host("x86_64", frozenset()))
    case = a_case("layer_norm", (), (3, 16), layout=dense)
    x = np.float32(10_000) + np.arange(48, dtype=np.float32).reshape(3, 16)
    case = replace(case, inputs={"x": replace(case.inputs["x"], bits=x.tobytes())})
    mean = x.mean(-1, keepdims=True)
    var = (x * x).mean(-1, keepdims=True) - mean * mean
    y = (x - mean) / np.sqrt(var + np.float32(case.params["eps"]))
    evidence = KernelRuns()
    evidence.add(case, [(target, Outcome(target.id, Status.RAN, {"y": y.tobytes()}))])
    monkeypatch.setattr(Learning, "width", lambda *_: 1.0)
    found = Learning(OPS["layer_norm"], evidence, lambda: False).learned()
    assert found.fitting[0].contract.algorithm == {"var": "moments"}
    assert any(not each.contract.algorithm and each.contradicted for each in found.contradicted)
