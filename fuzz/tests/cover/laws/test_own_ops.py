"""Laws of an op that is made here, from what its formula and its declaration say: kernels of several associations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np
import pytest
from numpy.typing import NDArray

from fuzz.core.base.case import Case, Output, Tensor, contiguous
from fuzz.core.laws.law import LawCheck, first_difference
from fuzz.core.laws.registry import LAWS
from oracles.formula.trace import Node, Outputs, avg, exp, rsqrt
from oracles.op import Op
from oracles.operand import Flip, Operand, Parameter
from oracles.ops import OPS, register

F32 = NDArray[np.float32]
ROWS, N = 3, 12


def centred(x: Node, gain: Node | None = None, *, eps: Node) -> Outputs:
    mean = avg(x, "n")
    apart = x - mean
    y = apart * rsqrt(avg(apart * apart, "n") + eps)
    return {"y": y if gain is None else y * gain, "mean": mean}


def hot(x: Node) -> Outputs:
    return {"y": exp(x) * x}


CENTRED = Op(
    centred,
    inputs=(Operand("x", "... n"), Operand("gain", "n", optional=True)),
    outputs=(Operand("y", "... n"), Operand("mean", "...", optional=True)),
    parameters=(Parameter("eps", (1e-5, 0.0), least=0.0, power=2),),
    flips=(Flip(("x",), ("y", "mean"), zeros=True), Flip(("gain",), ("y",), zeros=True)),
    scaling={"x": 1, "mean": 1},
)
HOT = Op(hot, inputs=(Operand("x", "... n"),), outputs=(Operand("y", "... n"),), scaling={"x": 1, "y": 1})


@pytest.fixture(autouse=True)
def known() -> Iterator[None]:
    for op in (CENTRED, HOT):
        register(op)
    yield
    for op in (CENTRED, HOT):
        del OPS[op.name]


def cases(op: str) -> Iterator[Case]:
    """Values of every size, with zeros, equal rows and means far above the spread."""
    for number in range(360):
        random = np.random.default_rng(number)
        x = random.normal(size=(ROWS, N)) * 2.0 ** random.integers(-60, 50) + random.choice([0, 0, 2**20])
        if number % 3 == 0:
            x[random.random(x.shape) < 0.1] = 0
        if number % 5 == 0:
            x[:] = x[0, 0]
        if number % 5 == 1:
            x *= 2.0 ** random.integers(-40, 1, x.shape)
        inputs = {"x": Tensor("f32", contiguous(x.shape), x.astype("<f4").tobytes())}
        if number % 2:
            gain = random.normal(size=N) * 2.0 ** random.integers(-30, 20)
            inputs["gain"] = Tensor("f32", contiguous((N,)), gain.astype("<f4").tobytes())
        outputs = {"y": Output("f32", contiguous(x.shape)), "mean": Output("f32", contiguous((ROWS,)))}
        params = {"axis": 1, "eps": float(np.float32([1e-5, 0.0, 0.0, 1e-30][number % 4]))}
        if op == "hot":
            yield Case(op, {"axis": 1}, {"x": inputs["x"]}, {"y": outputs["y"]})
        else:
            yield Case(op, params, inputs, outputs)


def as_written(x: F32, gain: F32, mean: F32, root: F32) -> F32:
    return (x - mean) / root * gain


def distributed(x: F32, gain: F32, mean: F32, root: F32) -> F32:
    factor = gain * (np.float32(1) / root)
    return x * factor - mean * factor


def gain_first(x: F32, gain: F32, mean: F32, root: F32) -> F32:
    return (x - mean) * gain / root


Association = Callable[[F32, F32, F32, F32], F32]


def kernel(case: Case, association: Association) -> Mapping[str, bytes]:
    x = np.frombuffer(case.inputs["x"].bits, "<f4").reshape(ROWS, N)
    gain = np.frombuffer(case.inputs["gain"].bits, "<f4") if "gain" in case.inputs else np.ones(1, np.float32)
    with np.errstate(all="ignore"):
        mean = x.sum(axis=1, keepdims=True, dtype=np.float32) / np.float32(N)
        squares = np.square(x - mean).sum(axis=1, keepdims=True, dtype=np.float32)
        root = np.sqrt(squares / np.float32(N) + np.float32(case.params["eps"]))
        return {"y": association(x, gain, mean, root).astype("<f4").tobytes(), "mean": mean.astype("<f4").tobytes()}


@pytest.mark.some(2)
@pytest.mark.parametrize("law", ["scaling", "sign_flip"])
@pytest.mark.parametrize("association", [as_written, distributed, gain_first])
def test_correct_kernels_of_any_association_keep_the_laws(law: str, association: Association) -> None:
    applied = 0
    for case in cases("centred"):
        check = LawCheck(LAWS[law], int(case.digest[:16], 16))
        if LAWS[law].applies(case):
            applied += 1
            twin, known = check.twin(case), kernel(case, association)
            expected, leeway = check.expected(case, known), check.leeway(case, known)
            wrong = first_difference(twin.outputs, expected, kernel(twin, association), leeway)
            assert wrong is None, f"{wrong}\n{case}"
    assert applied > 60


def test_an_absolute_constant_breaks_scaling() -> None:
    def clamped(x: F32, gain: F32, mean: F32, root: F32) -> F32:
        return as_written(x, gain, mean, np.maximum(root, np.float32(1e-3)))

    broken = 0
    for case in cases("centred"):
        check = LawCheck(LAWS["scaling"], int(case.digest[:16], 16))
        if check.law.applies(case):
            known, twin = kernel(case, clamped), check.twin(case)
            expected, leeway = check.expected(case, known), check.leeway(case, known)
            broken += first_difference(twin.outputs, expected, kernel(twin, clamped), leeway) is not None
    assert broken > 10


def test_a_formula_that_knows_the_scale_is_not_scaled_whatever_its_op_says() -> None:
    assert not any(LAWS["scaling"].applies(case) for case in cases("hot"))
