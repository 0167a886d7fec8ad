"""Which program of a Triton kernel rows are given: it decides in which order their elements are added."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from fuzz import PythonKernel
from fuzz.core.adapters.build import Builder
from fuzz.core.adapters.pack import load
from fuzz.core.adapters.python_program import spec_of
from fuzz.core.adapters.registry import expand
from fuzz.core.adapters.toolchain import this_host
from fuzz.core.transport.python.kernel import LoadedKernel

if TYPE_CHECKING:
    import torch

KERNELS = {k.name: k for k in load(Path(__file__).resolve().parents[2]).kernels if isinstance(k, PythonKernel)}
BATCHES = {
    "neighbours": ((4, 32), (32, 1)),
    "far apart": ((4, 32), (48, 1)),
    "at any address": ((4, 32), (40, 1)),
    "in one of three axes": ((4, 1, 32), (40, 32, 1)),
    "and none in another": ((4, 1, 32), (32, 97, 1)),
    "in the second of three": ((1, 4, 32), (97, 32, 1)),
}


def _aligned(name: str, tensors: dict[str, torch.Tensor]) -> bool:
    """Whether the kernel would be launched as the program whose compiler is told that all is aligned."""
    [target] = expand([replace(KERNELS[name], devices=("cuda",))], this_host())
    kernel = LoadedKernel(spec_of(target, Builder())[0])
    module: Any = kernel.module
    before = module.launch
    is_aligned = sys.modules[before.__module__].is_aligned
    found: list[bool] = []

    def launch(program: Any, grid: int, arguments: Any, scalars: Any, warps: int, **constants: Any) -> None:
        found.append(is_aligned(program, arguments, (*[one.data_ptr() for one in arguments], *scalars)))

    module.launch = launch
    try:
        assert kernel.call(tensors, {"eps": 1e-6, "axis": tensors["x"].ndim - 1}) is None
    finally:
        module.launch = before
    (aligned,) = found
    return aligned


def _batch(name: str, shape: tuple[int, ...], strides: tuple[int, ...]) -> dict[str, torch.Tensor]:
    import torch  # it takes seconds, and each of pytest's processes imports each module of tests

    operands = ("x", "residual", "y", "sum") if KERNELS[name].op == "fused_add_rms_norm" else ("x", "y")
    rows = {operand: torch.empty(512).as_strided(shape, strides) for operand in operands}
    return {**rows, "rstd": torch.empty(shape[:-1])}


@pytest.mark.some(2)
@pytest.mark.parametrize("name", ["small", "vector-generic", "multi-wave-reload", "add-whole-row", "add-chunked"])
@pytest.mark.parametrize("batch", BATCHES)
def test_some_of_the_rows_have_the_program_of_all(name: str, batch: str) -> None:
    shape, strides = BATCHES[batch]
    tensors = _batch(name, shape, strides)
    whole = _aligned(name, tensors)
    assert whole is (batch in ("neighbours", "far apart"))
    axis = shape.index(4)
    for first, count in ((0, 1), (1, 1), (1, 3), (2, 2)):
        some = {operand: tensor.narrow(axis, first, count) for operand, tensor in tensors.items()}
        assert _aligned(name, some) is whole
