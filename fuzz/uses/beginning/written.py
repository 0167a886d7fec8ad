"""A pack as it is first written: with comments on what is to be changed, and a kernel that is right."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from fuzz.adapters import pack, toolchain
from fuzz.adapters.binding import STATUS, Binding
from fuzz.adapters.shim import caller
from fuzz.base.errors import UsageError
from fuzz.base.files import write_whole
from fuzz.uses.beginning import samples
from fuzz.uses.beginning.functions import c_function, meant, python_function, read

KINDS = ("c", "c++", "shared", "cuda", "torch", "numpy", "triton", "dlpack", "command")
"""The kinds of kernels that a pack is written for."""
_SUFFIXES = {".c": "c", ".cpp": "c++", ".cc": "c++", ".cxx": "c++", ".so": "shared", ".cu": "cuda"}
_PACKAGES = {
    "triton": "triton", "jax": "dlpack", "mlx": "dlpack", "cupy": "dlpack", "torch": "torch", "numpy": "numpy",
}  # fmt: skip
"""The kinds by what a file in Python imports, the most telling first."""
_ISAS = {"_mm512_": "avx512", "_mm256_": "avx2", "arm_sve.h": "sve", "arm_neon.h": "neon"}
"""The instruction sets by what a source in C has."""
_GLOBAL = re.compile(r"__global__\s+(?:__launch_bounds__\s*\([^()]*\)\s*)?(void\s[^{};]*\))")
"""A kernel of CUDA, without what only nvcc knows."""
_ABLE = """        # What it takes: dtypes=("f32", "bf16"), strides="any", empty=True, ...
        capabilities=Capabilities({able}),
        # What it promises of its arithmetic, beside what its platform documents: kernelfuzz learn finds out what fits.
        contract=Contract(),
    ),
)
"""


@dataclass(frozen=True)
class Beginning:
    """What is asked for."""

    kind: str
    given: Path | None = None
    """Where a kernel is already: a source of it, or a library."""
    prototype: str = ""
    """The prototype of a function in C, or a header that has it."""
    op: str = ""


def begin(folder: Path, asked: Beginning) -> list[Path]:
    """Write a pack into that folder, and return what was written. Nothing that is there is overwritten. Raises
    UsageError."""
    asked = replace(asked, kind=asked.kind or _kind_of(asked.given))
    if asked.kind not in KINDS:
        raise UsageError(f"--kind{' ' * bool(asked.kind)}{asked.kind}: it is one of {', '.join(KINDS)}")
    if asked.given is not None and not asked.given.is_file():
        raise UsageError(f"--from {asked.given}: there is no such file")
    if asked.prototype and asked.kind not in ("c", "c++", "shared", "cuda"):
        raise UsageError(f"--prototype: a kernel of {asked.kind} has none")
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file: name a folder")
    files = _WRITERS.get(asked.kind, _of_source)(folder, asked)
    for name in ("pack.py", *files):
        if (folder / name).exists():
            raise UsageError(f"{folder / name} exists: nothing is overwritten")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            write_whole(folder / name, text)
    except OSError as error:
        raise UsageError(f"{folder}: cannot be written: {error.strerror}") from error
    written = [folder / name for name in files]
    try:
        if asked.kind == "shared" and asked.given is None:
            written.append(_compiled(folder))
        pack.load(folder)
    except UsageError:
        for path in written:
            path.unlink(missing_ok=True)
        raise
    return written


def _shared(folder: Path, asked: Beginning) -> Mapping[str, str]:
    if asked.given is None:
        if asked.prototype:
            raise UsageError("--prototype: name the library with --from")
        binding, library = c_function(samples.PROTOTYPE, samples.OP, "the sample"), "libmine.so"
    else:
        if not asked.prototype:
            raise UsageError(f"--from {asked.given}: say how C declares its function: --prototype 'void f(...)'")
        binding, library = _declared(asked.prototype, asked.op), _path(asked.given, folder)
    returns = '        returns="status",  # all but 0 refuses the call\n' if binding.returned == STATUS else ""
    lines = (
        f"    SharedKernel(\n        name={_quoted(binding.prototype.name)},\n"
        f"        op={_quoted(binding.op.name)},  # one of `kernelfuzz list ops`\n"
        f"        library={_quoted(library)},  # from this folder\n"
        f"        prototype={_quoted(_shown(binding))},\n"
        '        # What arguments of other names are, such as {"count": "x.size", "threads": "1"}.\n'
        f"        arguments={{}},\n{returns}"
    )
    own = {} if asked.given is not None else {"mine.c": samples.LIBRARY}
    return {**own, "pack.py": _pack(folder, "SharedKernel", lines)}


def _cuda(folder: Path, asked: Beginning) -> Mapping[str, str]:
    if asked.given is None:
        if asked.prototype:
            raise UsageError("--prototype: name the file with --from")
        binding, file, own = (
            c_function(samples.PROTOTYPE, samples.OP, "the sample"),
            "mine.cu",
            {"mine.cu": samples.CUDA},
        )
    else:
        binding = _declared(asked.prototype, asked.op) if asked.prototype else _in_cuda(asked.given, asked.op)
        file, own = _path(asked.given, folder), {}
    lines = (
        f"    CudaKernel(\n        name={_quoted(binding.prototype.name)},\n"
        f"        op={_quoted(binding.op.name)},  # one of `kernelfuzz list ops`\n"
        f"        file={_quoted(file)},  # from this folder\n"
        f"        prototype={_quoted(_shown(binding))},\n"
        '        # What arguments of other names are, such as {"count": "x.size", "ld": "x.stride"}.\n'
        "        arguments={},\n"
        '        # Blocks and threads, such as "cdiv(n, 256), rows". There are shared="4 * n" and flags=(...) too.\n'
        f"        grid={_quoted(binding.op.batch_name)},\n        block=256,\n"
    )
    return {**own, "pack.py": _pack(folder, "CudaKernel", lines)}


def _command(folder: Path, asked: Beginning) -> Mapping[str, str]:
    if asked.given is None and asked.op not in ("", samples.OP):
        raise UsageError(f"--op {asked.op}: name a program with --from; without one a {samples.OP} is written")
    program, own = "mine.py", {"mine.py": samples.COMMAND}
    op = samples.OP
    if asked.given is not None:
        program, own, op = _path(asked.given, folder), {}, meant(asked.given.stem, asked.op).name
    interpreter = ("python3",) if program.endswith(".py") else ()
    lines = (
        f'    CommandKernel(\n        name="mine",\n        op={_quoted(op)},  # one of `kernelfuzz list ops`\n'
        f"        program={_quoted(program)},  # from this folder\n"
        f'        # What runs it, such as ("node",); () where it is executable itself.\n'
        f"        interpreter={str(interpreter).replace(chr(39), chr(34))},\n"
    )
    return {**own, "pack.py": _pack(folder, "CommandKernel", lines)}


def _in_cuda(path: Path, op: str) -> Binding:
    """The first kernel of a file. Raises UsageError."""
    found = "".join(f"{each};\n" for each in _GLOBAL.findall(read(path)))
    if not found:
        raise UsageError(f"{path}: there is no __global__ function in it")
    return c_function(found, op, str(path))


def _of_source(folder: Path, asked: Beginning) -> Mapping[str, str]:
    """The files of a kernel that has a source, which may be there already."""
    in_c, more, able, isa = asked.kind in ("c", "c++"), dict[str, str](), "empty=False", ""
    if asked.given is None:
        source, text = samples.SOURCES[asked.kind]
        more, where, name, op = {source: text}, f"Path(__file__).parent / {_quoted(source)}", "mine", samples.OP
        if asked.op not in ("", op):
            raise UsageError(f"--op {asked.op}: name a kernel of it with --from; without one a {op} is written")
        declared = f"source={where}"
    elif in_c:
        binding = _declared(asked.prototype, asked.op) if asked.prototype else _in_source(asked.given, asked)
        name, op = binding.prototype.name, binding.op.name
        able = f"{able}{_needs(binding)}"
        text = read(asked.given)
        isa = next((each for sign, each in _ISAS.items() if sign in text), "")
        more = {"caller.c": caller(binding, asked.given)}
        own = f"Path(__file__).parent / {_quoted(_path(asked.given, folder))}"
        declared = f'sources=({own}, Path(__file__).parent / "caller.c")'  # reports name the first
    else:
        name, found = python_function(asked.given, asked.op)
        op = found.name
        declared = f"source=Path(__file__).parent / {_quoted(_path(asked.given, folder))}"
    kind = "CKernel" if in_c else "PythonKernel"
    lines = f"    {kind}(\n        name={_quoted(name)},\n        op={_quoted(op)},  # one of `kernelfuzz list ops`\n"
    lines += f"        {declared},\n"
    if in_c:
        lines += (
            '        # The compiler flags that it is shipped with, and its instruction set: isa="avx2", "sve", ...\n'
        )
        lines += '        flags=("-ffp-contract=off",),\n' + (f"        isa={_quoted(isa)},\n" if isa else "")
    else:
        function = op if asked.given is None else name
        framework, about = _framework(asked)
        lines += f"        framework={_quoted(framework)},{about}\n        entry={_quoted(function)},\n"
    return {**more, "pack.py": _pack(folder, kind, lines, able)}


def _needs(binding: Binding) -> str:
    """What it is to declare where the function has arguments for tensors that cases may do without: it may read them
    always, and be right."""
    meant_by = {meaning.partition(".")[0] for meaning in binding.meanings.values()}
    names = [each.name for each in binding.op.operands if each.optional and each.name in meant_by]
    return f", needs=({''.join(f'{_quoted(each)}, ' for each in names).rstrip()})" if names else ""


def _kind_of(path: Path | None) -> str:
    """What a file is written in, by its name and what it imports; '' where nothing tells."""
    if path is None:
        return ""
    if path.suffix != ".py":
        return _SUFFIXES.get(path.suffix, "")
    imported = re.findall(r"^\s*(?:import|from) (\w+)", read(path), re.MULTILINE) if path.is_file() else []
    return next((kind for package, kind in _PACKAGES.items() if package in imported), "")


def _framework(asked: Beginning) -> tuple[str, str]:
    """What a kernel in Python is written with, and a comment on that."""
    if asked.kind != "dlpack":
        return asked.kind, ""
    text = samples.SOURCES[asked.kind][1] if asked.given is None else read(asked.given)
    named = [each for each in ("jax", "mlx", "cupy") if re.search(rf"^\s*(import|from) {each}\b", text, re.MULTILINE)]
    return (named or ["jax"])[0], '  # or "mlx", "cupy"; "dlpack", with arrays="its.function", for any other'


_WRITERS = {"shared": _shared, "cuda": _cuda, "command": _command}
"""What writes the files of a kind that has its own way."""


def _in_source(path: Path, asked: Beginning) -> Binding:
    text = read(path)
    if asked.kind == "c++" and 'extern "C"' not in text:
        raise UsageError(f'{path}: none of its functions is extern "C", by which C calls it: declare one so')
    return c_function(text, asked.op, str(path))


def _declared(prototype: str, op: str) -> Binding:
    """The function of a prototype, or of the header that it names."""
    path = Path(prototype)
    in_file = "(" not in prototype
    return c_function(read(path) if in_file else prototype, op, prototype if in_file else "--prototype")


def _shown(binding: Binding) -> str:
    given = ", ".join(f"{each.type} {each.name}".replace("* ", "*") for each in binding.prototype.arguments)
    return f"{binding.prototype.result} {binding.prototype.name}({given})"


def _pack(folder: Path, kind: str, lines: str, able: str = "empty=False") -> str:
    path = "from pathlib import Path\n\n" if "Path(" in lines else ""
    names = ", ".join(sorted(("Capabilities", "Contract", kind), key=str.lower))
    head = f'"""Kernels to be searched: kernelfuzz run --pack {folder} --max-cases 200"""\n\n{path}'
    return f"{head}from fuzz import {names}\n\nKERNELS = (\n{lines}{_ABLE.format(able=able)}"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _path(path: Path, folder: Path) -> str:
    """A file's path from the folder."""
    return os.path.relpath(path.absolute(), folder.absolute())


def _compiled(folder: Path) -> Path:
    """The library of the sample. Raises UsageError."""
    tool = toolchain.program("gcc")
    if tool.missing is not None:
        raise UsageError(tool.missing)
    library = folder / "libmine.so"
    words = [*tool.command, "-O2", "-shared", "-fPIC", str(folder / "mine.c"), "-o", str(library), "-lm"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UsageError(f"{library}: cannot be compiled: {done.stderr.strip().splitlines()[-1]}")
    return library
