"""Kernels in CUDA C++, as their authors declare them: a file, a prototype, and the number of threads that run it."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import ClassVar

from fuzz.core.adapters.build import plain_path
from fuzz.core.adapters.prototyped_kernel import PrototypedKernel
from fuzz.core.adapters.signature import pairs
from fuzz.core.base.capability import CONTIGUOUS_F32, Capabilities, DeclarationError, Strides
from fuzz.core.base.kernel import PLAIN, Kernel
from oracles.formula.contract import Contract
from oracles.ops import OPS

Size = str | int | tuple[str | int, ...]
"""A size as authors write it: 256, "rows", "(n + 255) // 256, rows" or ("rows", 4)."""
FUNCTIONS = ("cdiv", "min", "max")
"""Functions that an expression may call. cdiv(n, 256) divides and rounds up."""
_MOST = 3
_ALLOWED = (
    ast.Expression, ast.BinOp, ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod, ast.LShift, ast.RShift, ast.UnaryOp,
    ast.USub, ast.IfExp, ast.Compare, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq, ast.Load, ast.Call, ast.Name,
    ast.Constant,
)  # fmt: skip


def expressions(field: str, size: object, names: Collection[str], most: int = _MOST) -> tuple[str, ...]:
    """Return the size as Python expressions, one for each dimension of a grid or block. Raise DeclarationError for
    anything but numbers, `names` and FUNCTIONS."""
    parts = [str(each) for each in (size if isinstance(size, tuple) else (size,)) if isinstance(each, str | int)]
    wrong = f"{field}: {size!r}: write numbers and expressions of {', '.join(names)}, such as "
    wrong += '"cdiv(n, 256)"' if most == 1 else '"rows", or "cdiv(n, 256), rows"'
    try:
        tree = ast.parse(f"({', '.join(parts)},)", mode="eval")
    except (SyntaxError, ValueError) as error:
        raise DeclarationError(wrong) from error
    found = tree.body.elts if isinstance(tree.body, ast.Tuple) else []
    if not 0 < len(found) <= most:
        raise DeclarationError(f"{wrong}; there are {most} dimensions at most" if most > 1 else wrong)
    for node in (node for each in found for node in ast.walk(each)):
        if not isinstance(node, _ALLOWED) or (isinstance(node, ast.Constant) and type(node.value) is not int):
            raise DeclarationError(wrong)
        if isinstance(node, ast.Call) and not (isinstance(node.func, ast.Name) and node.func.id in FUNCTIONS):
            raise DeclarationError(f"{field}: {size!r}: only {', '.join(FUNCTIONS)} can be called")
        if isinstance(node, ast.Name) and node.id not in (*names, *FUNCTIONS):
            raise DeclarationError(f"{field}: {size!r}: {node.id!r} is not one of {', '.join(names)}")
    return tuple(ast.unparse(each) for each in found)


_FAST = ("--use_fast_math", "-use_fast_math")


@dataclass(frozen=True)
class CudaKernel(PrototypedKernel):
    """A `__global__` function in a `.cu` file, compiled by nvcc, or by NVRTC if there is no nvcc. Each call launches
    the function once."""

    name: str
    op: str
    file: Path | str
    """The file. A relative path starts at the pack's folder."""
    prototype: str
    """The function's declaration, such as "void softmax_f32(const float *x, float *y, int rows, int n)". An argument
    with the name of a tensor, dimension or parameter of the op has that meaning."""
    grid: Size = "rows"
    """The number of blocks in up to three dimensions: numbers, or expressions of the op's dimensions, such as "rows" or
    "cdiv(n, 256), rows". If one of them is 0, nothing is launched."""
    block: Size = 256
    """The number of threads of a block, written like `grid`."""
    shared: str | int = 0
    """The number of bytes of dynamic shared memory, written like `grid`, such as "4 * n"."""
    arguments: Mapping[str, str] | tuple[tuple[str, str], ...] = ()
    """The meanings of arguments with other names, by name; see `SharedKernel.arguments`."""
    contract: Contract = PLAIN
    capabilities: Capabilities = CONTIGUOUS_F32
    """The capabilities. Dtypes, layouts and tensors that follow from the prototype need not be declared."""
    flags: tuple[str, ...] = ()
    """The flags of nvcc with which the kernel is shipped, such as ("--use_fast_math",)."""
    include: tuple[Path | str, ...] = ()
    """The folders in which headers are looked up."""
    edits: tuple[tuple[str, str], ...] = ()
    laws: tuple[str, ...] = ("rerun",)
    summary: str = ""
    keeps: tuple[str, ...] = ()
    untrusted: bool = False
    """Whether the kernel's workers run in a sandbox, because nobody vouches for it."""

    shares_memory: ClassVar[bool] = False  # its tensors are torch's, which cannot overlap

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
        """The Python expressions for the grid, the block and the shared memory of a launch."""
        op = OPS[self.op]
        names = dict.fromkeys((op.batch_name, *op.named))
        return {
            "grid": expressions("grid", self.grid, names),
            "block": expressions("block", self.block, names),
            "shared": expressions("shared", self.shared, names, most=1),
        }


def cuda_kernel(kernel: Kernel) -> CudaKernel:
    """Return the kernel, which must be a CudaKernel."""
    assert isinstance(kernel, CudaKernel)
    return kernel
