"""The adapter of kernels in CUDA C++: a cubin, and lines of Python with which a worker launches its function."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cached_property, lru_cache
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from fuzz.core.adapters import toolchain
from fuzz.core.adapters.binding import BYTES, SIZE, STRIDE, Argument, Binding, extents_in, own_dims
from fuzz.core.adapters.build import COPIES, Builder, BuildError, digest_of, edited_source, included_files, plain_path
from fuzz.core.adapters.c_build import below
from fuzz.core.adapters.cuda import capability, no_cuda_device
from fuzz.core.adapters.export import Script, python_script
from fuzz.core.adapters.prototyped_kernel import CudaKernel
from fuzz.core.adapters.python import PythonAdapter
from fuzz.core.adapters.python_kernel import FRAMEWORKS, DevicePlacement, Framework, PythonKernel
from fuzz.core.adapters.python_program import PythonAttestation, PythonProgram
from fuzz.core.adapters.target import Target, TargetId
from fuzz.core.adapters.toolchain import Host, Tool
from fuzz.core.base.errors import UsageError
from fuzz.core.base.kernel import Kernel
from fuzz.core.transport.python import launch

_FUNCTION = re.compile(rb"\0\.text\.([A-Za-z_]\w*)(?=\0)")
"""Matches the name of a section that holds a function's code."""
_ARCH = re.compile(r"-(arch|-gpu-architecture|gencode|-generate-code)\b")
"""Matches a flag that chooses the devices that code is made for, such as -arch=sm_90a."""
_NVRTC = (sys.executable, "-m", "fuzz.core.transport.python.nvrtc")


@dataclass(frozen=True)
class CudaCompiler:
    """The program that compiles CUDA."""

    command: tuple[str, ...]
    version: str
    """The compiler's name and version, such as 'nvcc 13.0.88'."""


def compiler() -> CudaCompiler | None:
    """Return the available compiler; None if there is none. nvcc is preferred, since it also compiles host code."""
    nvcc = toolchain.program("nvcc")
    if nvcc.path is not None:
        return CudaCompiler((*nvcc.command, "-cubin"), f"nvcc {_release(nvcc.path)}")
    version = _nvrtc()
    return None if version is None else CudaCompiler(_NVRTC, f"NVRTC {version}")


@lru_cache(maxsize=4)
def _release(path: str) -> str:
    said = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"\bV(\d[\d.]*)", said)
    return found[1] if found else "of no known version"


@lru_cache(maxsize=1)
def _nvrtc() -> str | None:
    """Return the version of NVRTC, which pip installs with torch; None if it is missing."""
    if not bindings():
        return None
    for name in ("nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu13", "nvidia-cuda-nvrtc-cu12"):
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return None


def bindings() -> bool:
    """Whether NVIDIA's Python bindings of the driver are installed; torch needs them since 2.10."""
    try:
        return find_spec("cuda.bindings") is not None
    except (ImportError, ValueError):
        return False


@dataclass(frozen=True)
class Cubin:
    """A kernel's machine code."""

    path: Path
    symbol: str
    """The name of the kernel's function in the cubin."""
    compiler: str


@dataclass(frozen=True)
class CudaBuild:
    """All that determines a cubin, read from the kernel's files. Raises BuildError if a file cannot be read."""

    kernel: CudaKernel

    @cached_property
    def texts(self) -> Mapping[Path, str]:
        """Every file of the kernel, with its text."""
        kernel, text = self.kernel, edited_source(self.kernel)
        folders = [Path(each) for each in kernel.include]
        return {**included_files(kernel, kernel.source, text, folders), plain_path(kernel.source): text}

    def made(self, builder: Builder) -> Cubin:
        """Return the cubin, compiled unless the cache has it."""
        tool, arch = compiler(), capability()
        assert tool is not None, "no compiler"
        texts = sorted((str(path), text) for path, text in self.texts.items())
        digest = digest_of([tool.version, arch, "-lineinfo", self.kernel.flags, texts])
        path = builder.compiled(f"cuda-{digest[:32]}.cubin", lambda output: self._commands(output, tool, arch))
        return Cubin(path, self._symbol(path), tool.version)

    def _commands(self, output: Path, tool: CudaCompiler, arch: str) -> Iterator[list[str]]:
        root, source = output.parent / COPIES, plain_path(self.kernel.source)
        for path, text in self.texts.items():
            below(root, path).parent.mkdir(parents=True, exist_ok=True)
            below(root, path).write_text(text, encoding="utf-8")
        folders = [plain_path(Path(each)) for each in self.kernel.include]
        folders = [each for folder in (*folders, source.parent) for each in (below(root, folder), folder)]
        # -lineinfo lets tools name lines, and does not change the code.
        yield [
            *tool.command, str(below(root, source)), "-o", str(output), "-lineinfo",
            *([] if any(map(_ARCH.match, self.kernel.flags)) else [f"-arch={arch}"]),
            *(f"-I{folder}" for folder in (*folders, *_headers(tool))), *self.kernel.flags,
        ]  # fmt: skip

    def _symbol(self, path: Path) -> str:
        """Return the name of the function in the cubin: as declared, or mangled as C++ does it. Raises BuildError."""
        wanted, names = self.kernel.function.name, sorted({each.decode() for each in functions(path)})
        mangled = re.compile(rf"_Z{len(wanted)}{wanted}(?![0-9a-z_])\w*")
        found = [each for each in names if each == wanted or mangled.fullmatch(each)]
        if len(found) == 1:
            return found[0]
        file = self.kernel.source.name
        if found:
            raise BuildError(f'{file}: it has {len(found)} functions {wanted!r}: declare one extern "C"')
        plain = {each: re.sub(r"^_Z\d+", "", each) for each in names}
        close = [each for each, name in plain.items() if name.startswith(wanted)] or get_close_matches(wanted, names, 1)
        close = close or get_close_matches(wanted, plain.values(), 1, cutoff=0.5)
        said = f": did you mean {close[0]!r}?" if close else ""
        raise BuildError(f"{file}: it has no function {wanted!r} for the device{said}")


def cubin_of(source: Path, flags: Sequence[str], builder: Builder) -> Path:
    """Return the cubin of a source file of kernelfuzz that includes no other. Raises BuildError."""
    tool, arch = compiler(), capability()
    if tool is None:
        raise BuildError("nothing compiles CUDA here")
    digest = digest_of([tool.version, arch, *flags, source.read_text(encoding="utf-8")])
    words = [*tool.command, str(source), f"-arch={arch}", *(f"-I{folder}" for folder in _headers(tool)), *flags, "-o"]
    return builder.compiled(f"cuda-{digest[:32]}.cubin", lambda output: [[*words, str(output)]])


def functions(path: Path) -> list[bytes]:
    """Return the names of all functions in a cubin that can be launched, and perhaps of some others."""
    return _FUNCTION.findall(path.read_bytes())


def _headers(tool: CudaCompiler) -> list[Path]:
    """Return the folders of CUDA's own headers; an empty list for nvcc, which knows them."""
    if tool.command != _NVRTC:
        return []
    homes = [Path(home) for name in ("CUDA_HOME", "CUDA_PATH") if (home := os.environ.get(name))]
    spec = find_spec("nvidia")
    wheels = [Path(place) for place in (spec.submodule_search_locations or ())] if spec is not None else []
    found = [home / "include" for home in (*homes, Path("/usr/local/cuda"))]
    found += [folder for place in wheels for folder in sorted(place.glob("c*/include"))]
    return [each for each in found if (each / "cuda_fp16.h").is_file()]


_WORKER = "torch"
"""The framework of the workers in which the kernels run: their tensors are torch's."""
_CASE_LIMIT_S = 30.0
_IMPORTS = "from fuzz.core.transport.python import launch\nfrom fuzz.core.transport.python.launch import cdiv"
_STANDALONE = Path(__file__).with_name("cuda_standalone.txt")
CUDA = Framework(("torch",), (DevicePlacement("cuda", _WORKER, _CASE_LIMIT_S),), FRAMEWORKS[_WORKER].imports)


class CudaAdapter(PythonAdapter):
    """The adapter of kernels in CUDA C++. They run in workers of Python kernels, between the same margins."""

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
        known = CudaKernel.of(target.kernel)
        cubin = CudaBuild(known).made(builder)
        text = launching(known, f"{str(cubin.path)!r}, {cubin.symbol!r}")
        made = super().program(replace(target, kernel=_launcher(known, text)), builder)
        sandbox = made.sandbox and made.sandbox.showing(cubin.path)
        return CudaProgram(**{**vars(made), "sandbox": sandbox}, cubin=cubin)

    def export(self, target: Target, script: Script, about: Sequence[str], name: str) -> str:
        known = CudaKernel.of(target.kernel)
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
        return CudaKernel.of(kernel).function.name

    def files(self, kernel: Kernel) -> Mapping[Path, str]:
        return {path.resolve(): text for path, text in CudaBuild(CudaKernel.of(kernel)).texts.items()}


@dataclass(frozen=True)
class CudaProgram(PythonProgram):
    """A cubin that is ready to run."""

    cubin: Cubin | None = None

    def attested(self, hello: str) -> PythonAttestation:
        assert self.cubin is not None
        found = super().attested(hello)
        return replace(found, mode=f"compiled by {self.cubin.compiler}")


@dataclass(frozen=True)
class _Launcher(PythonKernel):
    """The Python lines that launch a kernel, as a Python kernel that imports no module of the pack."""

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
    """Return the text of a module with a function that launches the kernel, written from the kernel's prototype.
    `cubin` is Python text with the cubin's path and the function's name in it, as arguments."""
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
            f"_PROGRAM = launch.CubinFunction({cubin}, name={kernel.function.name!r}, types={types!r})",
            "",
            "",
            f"def {op.name}({', '.join(_parameters(binding))}):",
            *sizes,
            f"    _PROGRAM({grid}, {block}, {launched['shared'][0]}, {given})",
            "",
        ]
    )


def _parameters(binding: Binding) -> Iterator[str]:
    """Yield the keyword parameters of the launching function."""
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
    """Return the expression for a dimension's extent: a tensor of every call, and the axis counted from its end."""
    operands = sorted(binding.op.operands, key=lambda each: each.optional)
    operand = next(each for each in operands if dim in each.axes)
    return f"{operand.name}, {len(operand.axes) - operand.axes.index(dim)}"


ADAPTER = CudaAdapter(CUDA)
