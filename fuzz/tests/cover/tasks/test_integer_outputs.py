"""Codes of int8 as a kernel returns them: found where the step, the rounding or the ends are wrong, and shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import fuzz
from fuzz import Capabilities, Contract, Op, Operand
from fuzz import formula as f
from fuzz.core.base.verdict import Verdict
from fuzz.tests.common.own_pack import unknown_afterwards
from fuzz.tests.common.told import fails


@pytest.fixture(autouse=True)
def forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    with unknown_afterwards():
        yield


def coded_rows(x: Any) -> Any:
    scale = f.greatest(abs(x), "n") / 127.0
    q = f.round(x / scale)
    low = f.where(q < -128.0, -128.0, q)
    return {"q": f.where(low > 127.0, 127.0, low), "scale": scale}


CODED = Op(
    coded_rows,
    inputs=(Operand("x", "... n", values="finite"),),
    outputs=(Operand("q", "... n", dtype="int8"), Operand("scale", "...")),
)
LENIENT = Contract(nonfinite="unspecified", denormals="flush", zeros="any", accuracy={"divide": 2.0})


def _check(kernel: Callable[..., Any], cases: int) -> None:
    able = Capabilities(empty=False)
    fuzz.check(kernel, op=CODED, contract=LENIENT, capabilities=able, max_cases=cases, max_time=30, seed=1)


def _codes(x: Any, scale: Any) -> Any:
    return torch.clamp(torch.round(x / scale), -128, 127).to(torch.int8)


def right(x: Any) -> Any:
    scale = x.abs().amax(-1, keepdim=True) / 127
    return _codes(x, scale), scale[..., 0]


def by_128(x: Any) -> Any:
    scale = x.abs().amax(-1, keepdim=True) / 127
    return _codes(x, scale * 127 / 128), scale[..., 0]


def cut(x: Any) -> Any:
    scale = x.abs().amax(-1, keepdim=True) / 127
    return torch.trunc(x / scale).to(torch.int8), scale[..., 0]


def wide(x: Any) -> Any:
    q, scale = right(x)
    return q.to(torch.int32), scale


def test_a_right_kernel_passes() -> None:
    _check(right, 60)


@pytest.mark.some(1)
@pytest.mark.usefixtures("unexplained")
@pytest.mark.parametrize(
    ("kernel", "verdict"),
    [(by_128, Verdict.FAIL_NUMERIC), (cut, Verdict.FAIL_NUMERIC), (wide, Verdict.FAIL_DTYPE)],
)
def test_wrong_codes_are_found(kernel: Callable[..., Any], verdict: Verdict) -> None:
    with fails(kernel.__name__, verdict):
        _check(kernel, 60)
