"""The adapter of kernels in CUDA C++: a cubin, and the few lines of Python by which a worker launches it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from fuzz.adapters import toolchain
from fuzz.adapters.binding import BYTES, SIZE, STRIDE, Binding, extents_in, own_dims
from fuzz.adapters.build import Builder
from fuzz.adapters.cuda import no_cuda_device
from fuzz.adapters.cuda_build import Cubin, CudaBuild, bindings, compiler
from fuzz.adapters.cuda_kernel import CudaKernel, cuda_kernel
from fuzz.adapters.export import Script, python_script
from fuzz.adapters.prototype import Argument
from fuzz.adapters.python import PythonAdapter, PythonAttestation, PythonProgram
from fuzz.adapters.python_kernel import FRAMEWORKS, DevicePlacement, Framework, PythonKernel
from fuzz.adapters.target import Target, TargetId
from fuzz.adapters.toolchain import Host, Tool
from fuzz.base.errors import UsageError
from fuzz.base.kernel import Kernel
from fuzz.transport.python import launch

_WORKER = "torch"
"""The framework in whose workers it runs: its tensors are torch's."""
_CASE_LIMIT_S = 30.0
_IMPORTS = "from fuzz.transport.python import launch\nfrom fuzz.transport.python.launch import cdiv"
_STANDALONE = Path(__file__).with_name("cuda_standalone.txt")
CUDA = Framework(("torch",), (DevicePlacement("cuda", _WORKER, _CASE_LIMIT_S),), FRAMEWORKS[_WORKER].imports)


class CudaAdapter(PythonAdapter):
    """Kernels in CUDA C++. They run in the workers of Python kernels, between the same margins."""

    suffix = ".cu"

    def targets(self, kernel: Kernel, host: Host) -> Iterator[Target]:
        [place] = self.framework.places
        yield Target(
            TargetId(kernel.kind, kernel.name, place.device), kernel, self, (("device", place.device),),
            place.case_limit, costly=True, batched=True, sanitizable=True, shares=not kernel.untrusted,
        )  # fmt: skip

    def unavailable(self, target: Target) -> str | None:
        missing = self.missing_package() or no_cuda_device()
        if missing is None and not bindings():
            missing = "cuda.bindings is not installed: pip install cuda-bindings"
        if missing is None and compiler() is None:
            missing = "nothing compiles CUDA: nvcc is not on PATH, and NVRTC is not installed"
        return missing

    def tools(self, target: Target) -> tuple[Tool, ...]:
        tool = toolchain.program("nvcc", "nvidia-cuda-toolkit")
        return () if no_cuda_device() is not None or compiler() is not None else (tool,)

    def program(self, target: Target, builder: Builder) -> CudaProgram:
        known = cuda_kernel(target.kernel)
        cubin = CudaBuild(known).made(builder)
        text = launching(known, f"{str(cubin.path)!r}, {cubin.symbol!r}")
        made = super().program(replace(target, kernel=_launcher(known, text)), builder)
        sandbox = made.sandbox and made.sandbox.showing(cubin.path)
        return CudaProgram(**{**vars(made), "sandbox": sandbox}, cubin=cubin)

    def export(self, target: Target, script: Script, about: Sequence[str], name: str) -> str:
        known = cuda_kernel(target.kernel)
        texts = {path.name: text for path, text in CudaBuild(known).texts.items()}
        folders = {path.parent for path in CudaBuild(known).texts}
        if len(folders) > 1 or known.include:
            raise UsageError(f"--script: {known.name} includes files of other folders: use repro itself")
        made = f"*build.compiled({known.source.name!r}, {known.function.name!r}, {[*known.flags]!r})"
        caller = _launcher(known, launching(known, made, "from . import build, launch\nfrom .launch import cdiv"))
        texts |= {"launch.py": Path(launch.__file__).read_text(encoding="utf-8"), "build.py": _STANDALONE.read_text()}
        said = [
            *about,
            "",
            f"It needs torch and nvcc, and exits with 1 where the kernel fails:  python {shlex.quote(name)}",
        ]
        return python_script(caller, known.op, {}, "cuda", script, said, _WORKER, beside=[*texts.items()])

    def definition(self, kernel: Kernel) -> str:
        return cuda_kernel(kernel).function.name

    def files(self, kernel: Kernel) -> Mapping[Path, str]:
        return {path.resolve(): text for path, text in CudaBuild(cuda_kernel(kernel)).texts.items()}


@dataclass(frozen=True)
class CudaProgram(PythonProgram):
    """A cubin, ready to be run."""

    cubin: Cubin | None = None

    def attested(self, hello: str) -> PythonAttestation:
        assert self.cubin is not None
        found = super().attested(hello)
        return replace(found, mode=f"compiled by {self.cubin.compiler}")


@dataclass(frozen=True)
class _Launcher(PythonKernel):
    """The lines that launch it, which stand alone."""

    @property
    def kind(self) -> str:
        return "cuda"

    @cached_property
    def modules(self) -> Mapping[str, str]:
        return {}


def _launcher(kernel: CudaKernel, text: str) -> PythonKernel:
    place = kernel.source.with_name("kernelfuzz_launcher.py")
    found = _Launcher(
        kernel.name, kernel.op, place, _WORKER, kernel.contract, kernel.able, devices=("cuda",), laws=kernel.laws,
        untrusted=kernel.untrusted,
    )  # fmt: skip
    found.texts[place] = text
    return found


def launching(kernel: CudaKernel, cubin: str, imports: str = _IMPORTS) -> str:
    """The text of a module with a function that launches the kernel, written from its prototype. Its `cubin` is that,
    and what the kernel is called there, as arguments in Python."""
    binding, launched = kernel.binding, kernel.launched
    op, first = binding.op, binding.op.inputs[0]
    arguments = binding.prototype.arguments
    types = [_type(each) for each in arguments]
    words = {*binding.meanings.values(), *re.findall(r"\w+", " ".join(map(" ".join, launched.values())))}
    sizes = [f"    {dim} = launch.extent({_extent(dim, binding)})" for dim in extents_in(op) if dim in words]
    if op.batch_name in words:
        sizes.append(f"    {op.batch_name} = launch.rows({first.name}, {own_dims(first)})")
    given = ", ".join(_given(each, binding) for each in arguments)
    grid, block = (f"({', '.join(launched[field])},)" for field in ("grid", "block"))
    return "\n".join(
        [
            f'"""Launches {kernel.function.name}. Written by kernelfuzz from a prototype."""',
            "",
            imports,
            "",
            f"_PROGRAM = launch.Program({cubin}, name={kernel.function.name!r}, types={types!r})",
            "",
            "",
            f"def {op.name}({', '.join(_parameters(binding))}):",
            *sizes,
            f"    _PROGRAM({grid}, {block}, {launched['shared'][0]}, {given})",
            "",
        ]
    )


def _parameters(binding: Binding) -> Iterator[str]:
    """What the function is given by keyword."""
    op, told = binding.op, {*binding.meanings.values()}
    yield "*"
    yield from (f"{each.name}=None" if each.optional else each.name for each in op.operands if each.name in told)
    yield from (each.name for each in op.parameters if each.name in told)


def _given(argument: Argument, binding: Binding) -> str:
    meaning = binding.meanings[argument.name]
    tensor, _, what = meaning.partition(".")
    if meaning == "NULL":
        return "0"
    if what == SIZE:
        return f"{tensor}.numel()"
    if what in (STRIDE, BYTES):
        return f"launch.stride({tensor})" + (f" * {tensor}.element_size()" if what == BYTES else "")
    return meaning


def _type(argument: Argument) -> str:
    kind = argument.type
    return "p" if kind.pointer else kind.word[0] if kind.is_float else f"i{kind.size}"


def _extent(dim: str, binding: Binding) -> str:
    """The tensor, there in every call, that has a dimension, and the place of that from its end."""
    operands = sorted(binding.op.operands, key=lambda each: each.optional)
    operand = next(each for each in operands if dim in each.axes)
    return f"{operand.name}, {len(operand.axes) - operand.axes.index(dim)}"
