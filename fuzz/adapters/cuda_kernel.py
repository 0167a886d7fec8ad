"""Kernels in CUDA C++ as their authors declare them: a file, a prototype, and how many threads run it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import ClassVar

from fuzz.adapters.build import plain_path
from fuzz.adapters.launch_size import Size, expressions
from fuzz.adapters.prototyped_kernel import PrototypedKernel, pairs
from fuzz.base.capability import CONTIGUOUS_F32, Capabilities, DeclarationError, Strides
from fuzz.base.kernel import PLAIN, Kernel
from oracles.formula.contract import Contract
from oracles.ops import OPS

_FAST = ("--use_fast_math", "-use_fast_math")


@dataclass(frozen=True)
class CudaKernel(PrototypedKernel):
    """A `__global__` function of a `.cu` file, which nvcc compiles, or NVRTC where there is no nvcc. Each call is one
    launch of it."""

    name: str
    op: str
    file: Path | str
    """The file: a path, or one from the folder of the pack."""
    prototype: str
    """The function as the file declares it: "void softmax_f32(const float *x, float *y, int rows, int n)". Arguments
    whose names are those of the op's tensors, dimensions and parameters are these."""
    grid: Size = "rows"
    """How many blocks there are, in up to three dimensions: numbers and expressions of the dimensions of the op, such
    as "rows" or "cdiv(n, 256), rows". Where there are none nothing is launched."""
    block: Size = 256
    """How many threads a block has, in the same way."""
    shared: str | int = 0
    """The bytes of dynamic shared memory, in the same way: "4 * n"."""
    arguments: Mapping[str, str] | tuple[tuple[str, str], ...] = ()
    """What other arguments are, by their names: see `SharedKernel.arguments`."""
    contract: Contract = PLAIN
    capabilities: Capabilities = CONTIGUOUS_F32
    """Dtypes, layouts and tensors that the prototype settles need not be declared."""
    flags: tuple[str, ...] = ()
    """The flags of nvcc that it is shipped with, such as ("--use_fast_math",)."""
    include: tuple[Path | str, ...] = ()
    """The folders in which headers are looked up."""
    edits: tuple[tuple[str, str], ...] = ()
    laws: tuple[str, ...] = ("rerun",)
    summary: str = ""
    keeps: tuple[str, ...] = ()
    untrusted: bool = False
    """Nobody vouches for it: its workers run in a sandbox."""

    shares_memory: ClassVar[bool] = False  # its tensors are torch's, which has none of it

    def __post_init__(self) -> None:
        if not isinstance(self.file, Path | str):
            raise DeclarationError(f"file: {self.file!r} is no path")
        for field in ("flags", "include"):
            given = getattr(self, field)
            if not isinstance(given, tuple) or not all(isinstance(each, Path | str) for each in given):
                raise DeclarationError(f"{field}: write a tuple, {field}=({given!r},) - mind the comma")
        object.__setattr__(self, "file", Path(self.file))
        object.__setattr__(self, "include", tuple(Path(each) for each in self.include))
        object.__setattr__(self, "arguments", pairs(self.arguments))
        super().__post_init__()
        if not self.function.is_void:
            raise DeclarationError(f"prototype: {self.function.name} returns {self.function.result}: a kernel is void")

    def check_op(self) -> None:
        super().check_op()
        _ = self.launched

    def at(self, folder: Path) -> CudaKernel:
        include = tuple(plain_path(folder / each) for each in self.include)
        return replace(self, file=plain_path(folder / self.file), include=include)

    @property
    def kind(self) -> str:
        return "cuda"

    @property
    def arithmetic(self) -> str:
        return f"{self.kind} --use_fast_math" if any(flag in _FAST for flag in self.flags) else self.kind

    @property
    def source(self) -> Path:  # type: ignore[override]
        return Path(self.file)

    @property
    def paths(self) -> Iterator[tuple[str, Path]]:
        yield "file", self.source
        yield from (("include", Path(each)) for each in self.include)

    @property
    def told(self) -> Strides:
        return self.binding.strides_at_once

    @cached_property
    def launched(self) -> Mapping[str, tuple[str, ...]]:
        """What it is launched with: expressions in Python of grid, block and shared memory."""
        op = OPS[self.op]
        names = dict.fromkeys((op.batch_name, *op.named))
        return {
            "grid": expressions("grid", self.grid, names),
            "block": expressions("block", self.block, names),
            "shared": expressions("shared", self.shared, names, most=1),
        }


def cuda_kernel(kernel: Kernel) -> CudaKernel:
    """The kernel, which is one in CUDA C++."""
    assert isinstance(kernel, CudaKernel)
    return kernel
