"""How a kernel of CUDA is built: its file becomes a cubin for the device that is there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property, lru_cache
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from fuzz.adapters import toolchain
from fuzz.adapters.build import COPIES, Builder, BuildError, digest_of, edited_source, included_files, plain_path
from fuzz.adapters.c_build import below
from fuzz.adapters.cuda import capability
from fuzz.adapters.cuda_kernel import CudaKernel

_FUNCTION = re.compile(rb"\0\.text\.([A-Za-z_]\w*)(?=\0)")
"""The name of a section that has a function's code."""
_ARCH = re.compile(r"-(arch|-gpu-architecture|gencode|-generate-code)\b")
"""A flag that says for which devices code is made, such as -arch=sm_90a."""
_NVRTC = (sys.executable, "-m", "fuzz.transport.python.nvrtc")


@dataclass(frozen=True)
class CudaCompiler:
    """What compiles it."""

    command: tuple[str, ...]
    version: str
    """Its name and version: 'nvcc 13.0.88'."""


def compiler() -> CudaCompiler | None:
    """The compiler that there is: nvcc, which takes what NVRTC does not, such as code for the host."""
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
    """The version of NVRTC as pip installed it, which torch needs too; None where it is not there."""
    if not bindings():
        return None
    for name in ("nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu13", "nvidia-cuda-nvrtc-cu12"):
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return None


def bindings() -> bool:
    """Whether NVIDIA's Python bindings of the driver are installed, which torch needs too since 2.10."""
    try:
        return find_spec("cuda.bindings") is not None
    except (ImportError, ValueError):
        return False


@dataclass(frozen=True)
class Cubin:
    """A kernel's machine code."""

    path: Path
    symbol: str
    """What its function is called there."""
    compiler: str


@dataclass(frozen=True)
class CudaBuild:
    """All that decides a cubin, as it was read. Raises BuildError where a file cannot be."""

    kernel: CudaKernel

    @cached_property
    def texts(self) -> Mapping[Path, str]:
        """Every file of the kernel's, and its text."""
        kernel, text = self.kernel, edited_source(self.kernel)
        folders = [Path(each) for each in kernel.include]
        return {**included_files(kernel, kernel.source, text, folders), plain_path(kernel.source): text}

    def made(self, builder: Builder) -> Cubin:
        """The cubin, compiled unless the cache has it."""
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
        # Nothing but what tools need to name lines: the code stays the same.
        yield [
            *tool.command, str(below(root, source)), "-o", str(output), "-lineinfo",
            *([] if any(map(_ARCH.match, self.kernel.flags)) else [f"-arch={arch}"]),
            *(f"-I{folder}" for folder in (*folders, *_headers(tool))), *self.kernel.flags,
        ]  # fmt: skip

    def _symbol(self, path: Path) -> str:
        """What the function is called in the cubin: its name, or one of C++ that begins with it. Raises BuildError."""
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
    """The cubin of a file of ours, which stands alone. Raises BuildError."""
    tool, arch = compiler(), capability()
    if tool is None:
        raise BuildError("nothing compiles CUDA here")
    digest = digest_of([tool.version, arch, *flags, source.read_text(encoding="utf-8")])
    words = [*tool.command, str(source), f"-arch={arch}", *(f"-I{folder}" for folder in _headers(tool)), *flags, "-o"]
    return builder.compiled(f"cuda-{digest[:32]}.cubin", lambda output: [[*words, str(output)]])


def functions(path: Path) -> list[bytes]:
    """The names of the functions in a cubin that can be launched, and of others beside."""
    return _FUNCTION.findall(path.read_bytes())


def _headers(tool: CudaCompiler) -> list[Path]:
    """Where CUDA's own headers are, which nvcc knows by itself."""
    if tool.command != _NVRTC:
        return []
    homes = [Path(home) for name in ("CUDA_HOME", "CUDA_PATH") if (home := os.environ.get(name))]
    spec = find_spec("nvidia")
    wheels = [Path(place) for place in (spec.submodule_search_locations or ())] if spec is not None else []
    found = [home / "include" for home in (*homes, Path("/usr/local/cuda"))]
    found += [folder for place in wheels for folder in sorted(place.glob("c*/include"))]
    return [each for each in found if (each / "cuda_fp16.h").is_file()]
