"""Python kernels written inside a test."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fuzz.case import Case
from fuzz.execute.pool import WorkerPool
from fuzz.execute.python_target import PythonTarget
from fuzz.kernel import Device, Framework, PythonKernel
from fuzz.outcome import Outcome
from fuzz.tests.execute.planted import ANYTHING

TORCH_HEAD = "import os, sys, time\nimport torch\n\n\ndef rms_norm(x, y, eps, axis):\n"
RETURNS_HEAD = TORCH_HEAD.replace("x, y,", "x,")
TRITON_HEAD = "import torch\nimport triton\nimport triton.language as tl\n\n"

RunPython = Callable[..., list[Outcome]]


def python_target(
    folder: Path, text: str, framework: Framework = "torch", device: Device = "cpu", **declared: object
) -> PythonTarget:
    """A target for the text of a source file."""
    source = folder / "planted.py"
    source.write_text(text)
    kernel = PythonKernel("planted", "rms_norm", source, framework, capabilities=ANYTHING, **declared)  # type: ignore[arg-type]
    target = PythonTarget(kernel, device)
    reason = target.unavailable()
    if device == "cuda" and reason is not None:
        pytest.skip(reason)
    assert reason is None, "tests need torch and triton: pip install 'kernelfuzz[test]'"
    return target


def indented(body: str) -> str:
    return "".join(f"    {line}\n" for line in body.strip("\n").splitlines())


def outcomes(target: PythonTarget, cache: Path, *cases: Case, **options: object) -> list[Outcome]:
    """What a target did with the cases."""
    with WorkerPool([target], cache=cache, **options) as pool:  # type: ignore[arg-type]
        return [each[target.id] for each in pool.collect(pool.submit(cases))]
