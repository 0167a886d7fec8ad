"""Kernels that are declared by a prototype in C: a symbol of a shared library, or a file in CUDA C++ and the number of
threads that run it. Their tensors, dtypes and layouts follow from the prototype."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import ClassVar

from fuzz.core.adapters.binding import Binding, Prototype, bound, parsed
from fuzz.core.adapters.build import plain_path
from fuzz.core.adapters.c_kernel import CKernel, CompiledKernel
from fuzz.core.adapters.isa import ISAS
from fuzz.core.adapters.shim import shim
from fuzz.core.adapters.signature import Signature, completed, pairs
from fuzz.core.adapters.sites import OwnTarget
from fuzz.core.base.capability import CONTIGUOUS_F32, Capabilities, DeclarationError, Strides, one_of
from fuzz.core.base.kernel import PLAIN, Kernel
from oracles.dtypes import DTYPES, FORMATS
from oracles.formula.contract import Contract
from oracles.operand import AXIS
from oracles.ops import OPS

_LAYOUTS = ("contiguous", "spaced", "pitched", "rows")
"""The strides that arguments of C functions can express. Each includes those before it."""


class PrototypedKernel(Kernel):
    """A kernel that is called by its prototype. Its fields are those of its kind."""

    prototype: str
    arguments: Mapping[str, str] | tuple[tuple[str, str], ...]
    returns: str = ""

    def check_op(self) -> None:
        super().check_op()
        _check_layout(self.able, self.binding, self.told)

    @property
    def told(self) -> Strides:
        """The most general strides that the arguments can express."""
        raise NotImplementedError

    @cached_property
    def function(self) -> Prototype:
        """The function that is called."""
        return parsed(self.prototype)

    @cached_property
    def binding(self) -> Binding:
        """The meaning of each argument."""
        return bound(OPS[self.op], self.function, dict(self.arguments), self.returns, self.capabilities)

    @cached_property
    def able(self) -> Capabilities:
        given = self.binding.handed
        declared, op = self.capabilities, OPS[self.op]
        optional = {name: name in (declared.takes or ()) for name in op.optional if name in given}
        told = {name: True for name in op.neutral if name in self.binding.meanings.values()}
        found = completed(declared, op, Signature({**optional, **told}))
        loosest: Strides = self.told if declared.strides == "contiguous" else declared.strides
        mixed = (*declared.mixed, *self._mixed({name for name, _ in declared.mixed}))
        return replace(found, dtypes=self._dtypes(), strides=loosest, mixed=mixed)

    def _dtypes(self) -> tuple[str, ...]:
        """Return the dtypes of the first input. If its pointer has only one dtype, it need not be declared."""
        declared, argument = self.capabilities.dtypes, self.binding.tensors.get(OPS[self.op].main)
        known = declared if argument is None else tuple(each for each in argument.type.dtypes if each in FORMATS)
        if len(known) == 1 and declared == CONTIGUOUS_F32.dtypes:
            return known
        wrong = [dtype for dtype in declared if dtype not in known]
        if argument is not None and wrong:
            others = f": declare some of {', '.join(known)}" if known else ", nor of any dtype of floats"
            raise DeclarationError(f"capabilities.dtypes: {argument.name} is {argument.type}, not {wrong[0]}{others}")
        return declared

    def _mixed(self, declared: set[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Yield the dtypes of other tensors whose pointers have another dtype than the first input."""
        op, main = OPS[self.op], self._dtypes()
        for name, argument in self.binding.tensors.items():
            operand, known = op.operand(name), argument.type.dtypes
            usual = (operand.dtype,) if operand.dtype in DTYPES else main
            if name != op.main and name not in declared and len(known) == 1 and known != usual:
                yield name, known


def _check_layout(able: Capabilities, binding: Binding, told: Strides) -> None:
    """Raise DeclarationError for layouts that the arguments cannot express."""
    if able.axis != "last":
        raise DeclarationError(f"capabilities.{AXIS}: {able.axis!r}: a function of C is given rows along the last axis")
    if able.stacked:
        raise DeclarationError(f"capabilities.stacked: {able.stacked[0]!r}: a function of C is given one row of it")
    if able.strides not in _LAYOUTS[: _LAYOUTS.index(told) + 1]:
        raise DeclarationError(
            f"capabilities.strides: {able.strides!r}: the arguments of {binding.prototype.name} tell it of"
            f" {told!r} at most"
        )


@dataclass(frozen=True)
class SharedKernel(PrototypedKernel, CompiledKernel):
    """A function of a shared library. Its prototype says how to call it. A few lines of C that are generated from the
    prototype call it: once for each row, or once for all rows if an argument is their number."""

    name: str
    op: str
    library: Path | str
    """The path of the library. A relative path starts at the pack's folder."""
    prototype: str
    """The function's declaration in C, such as "void softmax_f32(const float *x, float *y, int n)". Arguments with the
    names of the op's tensors, dimensions and parameters have these meanings."""
    arguments: Mapping[str, str] | tuple[tuple[str, str], ...] = ()
    """The meanings of other arguments, by their names: a tensor, a dimension, "rows" (the number of rows, so that one
    call computes all), "x.stride" (the elements from one row of x to the next), "x.bytes" (the same in bytes), "x.size"
    (the number of elements of x), a parameter, or a number such as "1"."""
    returns: str = ""
    """The meaning of the result: an output, or of an integer 'status' (all but 0 refuses the call) or 'nothing'."""
    isa: str = "runtime"
    """The instruction set that the library needs, by its name in `core/adapters/isa.py`. The kernel then runs at each
    of the instruction set's settings."""
    contract: Contract = PLAIN
    capabilities: Capabilities = CONTIGUOUS_F32
    """The capabilities. Dtypes, layouts and tensors that follow from the prototype need not be declared."""
    before: tuple[Path | str, ...] = ()
    """Libraries that are loaded before this one, for symbols that it lacks."""
    sysroot: Path | None = None
    """The folder with the system libraries that a library for another architecture needs. By default the compiler's."""
    edits: tuple[tuple[str, str], ...] = ()
    laws: tuple[str, ...] = ("rerun",)
    summary: str = ""
    keeps: tuple[str, ...] = ()
    untrusted: bool = False
    """Whether the kernel's workers run in a sandbox, because nobody vouches for it."""
    fetch: str = ""
    beside: tuple[OwnTarget, ...] = ()
    """Further ways to run the kernel, from the `targets.toml` of its pack."""

    def __post_init__(self) -> None:
        for field in ("library", "before"):
            given = getattr(self, field) if field == "before" else (self.library,)
            if not isinstance(given, tuple) or not all(isinstance(each, Path | str) for each in given):
                raise DeclarationError(f"{field}: write a path, or a tuple of paths for before=(...,)")
        object.__setattr__(self, "library", Path(self.library))
        object.__setattr__(self, "before", tuple(Path(each) for each in self.before))
        object.__setattr__(self, "arguments", pairs(self.arguments))
        super().__post_init__()
        one_of("isa", self.isa, tuple(name for name in ISAS if name != "any"))

    def at(self, folder: Path) -> SharedKernel:
        before = tuple(plain_path(folder / each) for each in self.before)
        return replace(self, library=plain_path(folder / self.library), before=before)

    @property
    def kind(self) -> str:
        return "shared"

    @property
    def source(self) -> Path:  # type: ignore[override]
        return Path(self.library)

    @property
    def written(self) -> tuple[Path, ...]:
        return ()

    @property
    def blamed(self) -> str:
        return f"the library {self.source.name}"

    @property
    def paths(self) -> Iterator[tuple[str, Path]]:
        yield "library", self.source
        yield from (("before", Path(each)) for each in self.before)

    @property
    def told(self) -> Strides:
        return self.binding.strides

    @cached_property
    def compiled(self) -> CKernel:
        """The shim. To the compiler, it lies beside the library."""
        place = self.source.with_name(f"{self.name}.shim.c")
        # the loader would look up a name without a folder among the system's libraries
        library, *before = (plain_path(Path(each)) for each in (self.library, *self.before))
        found = Shim(
            self.name, self.op, place, self.isa, self.contract, self.able, edits=self.edits, untrusted=self.untrusted,
            loads=(library, *before), sysroot=self.sysroot,
        )  # fmt: skip
        found.texts[place] = shim(self.binding, library, before)
        return found


@dataclass(frozen=True)
class Shim(CKernel):
    """The few lines of C that call a function of a library."""

    loads: tuple[Path, ...] = ()
    sysroot: Path | None = None


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
