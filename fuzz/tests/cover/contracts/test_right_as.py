"""What a kernel that is wrong is right as: it errs by as much as that, and not by a thousandth of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fuzz.campaign.measured import right_as
from fuzz.contracts.runs import TargetRun
from fuzz.core.base.outcome import Outcome, Status
from fuzz.tests.common.handmade import a_case, dense
from oracles.formula.contract import Contract

Rounding = Callable[[Any], Any]


def _to_bf16(values: Any) -> Any:
    bits = np.asarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) & np.uint32(0xFFFF0000)).view(np.float32)


def _to_f16(values: Any) -> Any:
    return np.asarray(values, np.float16).astype(np.float32)


def _to_f32(values: Any) -> Any:
    return np.asarray(values, np.float32)


def _gelu(x: Any, rounded: Rounding, off: float) -> Any:
    """Each step is rounded; a constant is off by a share of it, as what is held in too few bits is."""
    inner = rounded(rounded(x * rounded(x * x)) * rounded(0.044715 * (1 + off)))
    angle = rounded(rounded(x + inner) * rounded(np.sqrt(2 / np.pi) * (1 + off)))
    return rounded(rounded(x * np.float32(0.5)) * rounded(1 + rounded(np.tanh(angle))))


@pytest.mark.parametrize(
    ("rounded", "off", "said"),
    [
        (_to_bf16, 0.0, "right as bf16; wrong as f32"),
        (_to_f16, 0.0, "right as f16; wrong as f32"),
        (_to_f32, 2.0**-18, ""),
        (_to_f32, 0.0, ""),
    ],
)
def test_it_is_right_as_what_it_errs_like(rounded: Rounding, off: float, said: str) -> None:
    runs = []
    for scale in (0.5, 1.0, 1.5, 2.0):
        case = a_case("gelu_tanh", grid=(2, 8), layout=dense, scale=scale)
        x = np.frombuffer(case.inputs["x"].bits, np.float32)
        runs.append(TargetRun(case, Outcome("", Status.RAN, {"y": _gelu(x, rounded, off).tobytes()})))
    assert right_as(runs, Contract()) == said
