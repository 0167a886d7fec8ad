"""Python kernels written inside a test."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fuzz.core.adapters.python_kernel import Device, PythonKernel
from fuzz.core.adapters.registry import expand
from fuzz.core.adapters.target import Target
from fuzz.core.adapters.toolchain import this_host
from fuzz.core.base.case import Case, Layout, contiguous
from fuzz.core.base.outcome import Outcome
from fuzz.core.execute.pool import WorkerPool
from fuzz.tests.common.planted import ANYTHING, a_case

TORCH_HEAD = "import os, sys, time\nimport torch\n\n\ndef rms_norm(x, y, eps, axis):\n"
RETURNS_HEAD = TORCH_HEAD.replace("x, y,", "x,")
TRITON_HEAD = "import torch\nimport triton\nimport triton.language as tl\n\n"

TRITON = """
@triton.jit
def program(x_ptr, y_ptr, pitch, n, BLOCK: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * pitch + column, mask=column < n, other=0.0)
    tl.store(y_ptr + row * n + column, x, mask=column < n)


def rms_norm(x, y, eps, axis):
    if x[0, 0] != x[0, 0]:
        program[(1,)](x, y, x.stride(0), BLOCK=8)
    program[(x.shape[0],)](x, y, x.stride(0), x.shape[1], BLOCK=8)
"""
"""copies x to y; on BAD it forgets an argument first."""

PITCHED = Layout((3, 4), (7, 1))
BEFORE = contiguous((3, 4), guard="before")
BAD = a_case(bits=b"\xff" * 48)
"""a case that some kernels take for their cue."""
CUE = "if x[0, 0] != x[0, 0]: {}\ny.copy_(x)"

RunPython = Callable[..., list[Outcome]]


def python_target(
    folder: Path, text: str, framework: str = "torch", device: Device = "cpu", **declared: object
) -> Target:
    """A target for the text of a source file."""
    source = folder / "planted.py"
    source.write_text(text)
    declared = {"capabilities": ANYTHING, "devices": (device,), **declared}
    kernel = PythonKernel("planted", "rms_norm", source, framework, **declared)  # type: ignore[arg-type]
    [target] = expand([kernel], this_host())
    reason = target.unavailable()
    if device == "cuda" and reason is not None:
        pytest.skip(reason)
    assert reason is None, "tests need torch and triton: sh .ci/setup test"
    return target


def indented(body: str) -> str:
    return "".join(f"    {line}\n" for line in body.strip("\n").splitlines())


def outcomes(target: Target, cache: Path, *cases: Case, **options: object) -> list[Outcome]:
    """What a target did with the cases."""
    with WorkerPool([target], cache=cache, **options) as pool:  # type: ignore[arg-type]
        return [each[target.id] for each in pool.submit(cases).outcomes()]
