"""What an exported program has of a C kernel, and the commands that build it where its reader is."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from fuzz.adapters import abi
from fuzz.adapters.build import NATIVE, edited_source, edited_sources, included_files
from fuzz.adapters.c_build import Build, compiler_of, is_static, linker_of, runtime_of
from fuzz.adapters.c_kernel import CKernel, c_kernel, language_of
from fuzz.adapters.target import Target
from fuzz.adapters.toolchain import Tool
from fuzz.base.errors import UsageError
from oracles.ops import OPS

_BEGINS, _ENDS = "/* kernelfuzz.h begins */", "/* kernelfuzz.h ends */"
"""The lines between which a program has the header that a kernel's sources include."""
_INCLUDE_LINE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+"([^"]+)"[^\n]*$', re.MULTILINE)


def code_of(target: Target) -> str:
    """All of the kernel, where it is one file of C with what that includes; else the header of its entry."""
    kernel = c_kernel(target.kernel)
    if _is_alone(kernel):
        return _with_includes(kernel, edited_source(kernel))
    header = abi.header(abi.named_ops(OPS[kernel.op], edited_sources(kernel).values()))
    return f"{_BEGINS}\n{header}{_ENDS}"


def commands_of(target: Target, name: str) -> list[str]:
    """The commands that make `repro` of a program of that name. Where the kernel is not in it, its sources are compiled
    where they are. Raises UsageError for one of several files that is edited, whose texts are nowhere."""
    kernel, static = c_kernel(target.kernel), ["-static"] if is_static(target) else []
    flags = [f"-std={kernel.standard_of('c')}", *target.flags]
    if _is_alone(kernel):
        return [_line(compiler_of(target), [*flags, *static, name, *runtime_of(target), "-o", "repro"])]
    if kernel.edits:
        raise UsageError(f"--script: {kernel.name} is an edited kernel of several files: use repro itself")
    build, include = Build(target), [f"-I{each.absolute()}" for each in kernel.include]
    lines = [f"sed -n '{_pattern(_BEGINS)},{_pattern(_ENDS)}p' {shlex.quote(name)} > {abi.HEADER}"]
    lines.append(_line(compiler_of(target), [*flags, "-c", name, "-o", "repro.o"]))
    objects = ["repro.o"]
    for number, unit in enumerate(build.units):
        objects.append(f"{number}-{unit.path.name}.o")
        words = [*unit.words, *target.flags, "-I.", *include, "-c", str(unit.path.absolute()), "-o", objects[-1]]
        lines.append(_line(unit.tool, words))
    words = [*target.flags, *objects, *static, *build.linked, *runtime_of(target), "-o", "repro"]
    return [*lines, _line(linker_of(target), words)]


def _is_alone(kernel: CKernel) -> bool:
    """True where one file of C, with what it includes, is all that the kernel is made of."""
    return len(kernel.written) == 1 and language_of(kernel.source) == "c" and not (kernel.libraries or kernel.include)


def _line(tool: Tool, words: Sequence[str]) -> str:
    return shlex.join([Path(tool.command[0]).name, *tool.prefix, *words])


def _pattern(line: str) -> str:
    """The line as `sed` finds it."""
    return f"/^{line.replace('/', '.').replace('*', '.')}$/"


def _with_includes(kernel: CKernel, source: str) -> str:
    """Every file that is included by quotes in place of its line; headers guard themselves against coming twice."""
    texts = [text for path, text in included_files(kernel, kernel.source, source).items() if path.parent != NATIVE]
    header = abi.header(abi.named_ops(OPS[kernel.op], [source, *texts]))

    def whole(text: str, folder: Path) -> str:
        def inlined(match: re.Match[str]) -> str:
            path = folder / match[1]
            if path.is_file():
                return whole(path.read_text(), path.parent)
            return header if match[1] == abi.HEADER else match[0]

        return _INCLUDE_LINE.sub(inlined, text)

    return whole(source, kernel.source.parent)
