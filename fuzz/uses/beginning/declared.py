"""The text of a pack that is begun: its declaration of a kernel, with comments on what is to be changed."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fuzz.adapters.binding import STATUS, Binding
from fuzz.adapters.shim import caller
from fuzz.base.errors import UsageError
from fuzz.uses.beginning import samples
from fuzz.uses.beginning.functions import c_function, python_function, read
from fuzz.uses.beginning.own_op import MODULE, OwnOp
from fuzz.uses.beginning.wanted import Wanted

_ISAS = {"_mm512_": "avx512", "_mm256_": "avx2", "arm_sve.h": "sve", "arm_neon.h": "neon"}
"""The instruction sets by what a source in C has."""
_GLOBAL = re.compile(r"__global__\s+(?:__launch_bounds__\s*\([^()]*\)\s*)?(void\s[^{};]*\))")
"""A kernel of CUDA, without what only nvcc knows."""
_ABLE = """        # What it takes: dtypes=("f32", "bf16"), strides="any", empty=True, ...
        capabilities=Capabilities({able}),
        # What it promises about its arithmetic, beyond what its platform documents.
        contract={contract},
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
    wanted: Wanted = field(default_factory=Wanted)
    own: OwnOp | None = None
    """What it computes, where that is no op that there is."""

    def about(self, op: str) -> str:
        """The line that names the op, and where it is from."""
        where = f"of {MODULE}: the formula of {self.own.place}" if self.own else "one of `kernelfuzz list ops`"
        return f"        op={_quoted(op)},  # {where}\n"


@dataclass(frozen=True)
class Declared:
    """What is written."""

    files: Mapping[str, str]
    """The texts by the names of files; `pack.py` is the last."""
    taken: Mapping[str, str] = field(default_factory=dict)
    """The meaning that was found for arguments of other names."""


def shared(folder: Path, asked: Beginning) -> Declared:
    """The files for a function of a shared library. Raises UsageError."""
    if asked.given is None:
        binding, library = _sample(asked, "the library"), "libmine.so"
    else:
        binding, library = _by_prototype(asked), _path(asked.given, folder)
    returns = '        returns="status",  # all but 0 refuses the call\n' if binding.returned == STATUS else ""
    lines = (
        f"    SharedKernel(\n        name={_quoted(binding.prototype.name)},\n{asked.about(binding.op.name)}"
        f"        library={_quoted(library)},  # from this folder\n"
        f"        prototype={_quoted(_shown(binding))},\n"
        '        # What arguments of other names are, such as {"count": "x.size", "threads": "1"}.\n'
        f"        arguments={_dict(_given(binding, asked))},\n{returns}"
    )
    own = {} if asked.given is not None else {"mine.c": samples.LIBRARY}
    return Declared({**own, "pack.py": _pack(folder, asked, "SharedKernel", lines)}, _taken(binding))


def cuda(folder: Path, asked: Beginning) -> Declared:
    """The files for a kernel of CUDA C++. Raises UsageError."""
    own, file = {"mine.cu": samples.CUDA}, "mine.cu"
    if asked.given is None:
        binding = _sample(asked, "the file")
    else:
        binding = _by_prototype(asked) if asked.prototype else _in_cuda(asked.given, asked.wanted)
        file, own = _path(asked.given, folder), {}
    lines = (
        f"    CudaKernel(\n        name={_quoted(binding.prototype.name)},\n{asked.about(binding.op.name)}"
        f"        file={_quoted(file)},  # from this folder\n"
        f"        prototype={_quoted(_shown(binding))},\n"
        '        # What arguments of other names are, such as {"count": "x.size", "ld": "x.stride"}.\n'
        f"        arguments={_dict(_given(binding, asked))},\n"
        '        # Blocks and threads, such as "cdiv(n, 256), rows". There are shared="4 * n" and flags=(...) too.\n'
        f"        grid={_quoted(binding.op.batch_name)},\n        block=256,\n"
    )
    return Declared({**own, "pack.py": _pack(folder, asked, "CudaKernel", lines)}, _taken(binding))


def command(folder: Path, asked: Beginning) -> Declared:
    """The files for a program that speaks the workers' protocol. Raises UsageError."""
    program, own, op = "mine.py", {"mine.py": samples.COMMAND}, samples.OP
    if asked.given is None:
        _check_sample(asked)
    else:
        program, own, op = _path(asked.given, folder), {}, asked.wanted.meant(asked.given.stem).name
    interpreter = ("python3",) if program.endswith(".py") else ()
    lines = (
        f'    CommandKernel(\n        name="mine",\n{asked.about(op)}'
        f"        program={_quoted(program)},  # from this folder\n"
        f'        # What runs it, such as ("node",); () where it is executable itself.\n'
        f"        interpreter={str(interpreter).replace(chr(39), chr(34))},\n"
    )
    return Declared({**own, "pack.py": _pack(folder, asked, "CommandKernel", lines)})


def in_c(folder: Path, asked: Beginning) -> Declared:
    """The files for a source in C or C++. Raises UsageError."""
    flags = '        # Your compiler flags, and the instruction set: isa="avx2", "sve", ...\n'
    flags += '        flags=("-ffp-contract=off",),\n'
    if asked.given is None:
        _check_sample(asked)
        source, text = samples.SOURCES[asked.kind]
        lines = f'    CKernel(\n        name="mine",\n{asked.about(samples.OP)}'
        lines += f"        source=Path(__file__).parent / {_quoted(source)},\n{flags}"
        return Declared({source: text, "pack.py": _pack(folder, asked, "CKernel", lines)})
    binding = _by_prototype(asked) if asked.prototype else _in_source(asked.given, asked)
    own = f"Path(__file__).parent / {_quoted(_path(asked.given, folder))}"
    lines = f"    CKernel(\n        name={_quoted(binding.prototype.name)},\n{asked.about(binding.op.name)}"
    lines += f'        sources=({own}, Path(__file__).parent / "caller.c"),\n{flags}'  # reports name the first
    if isa := next((each for sign, each in _ISAS.items() if sign in read(asked.given)), ""):
        lines += f"        isa={_quoted(isa)},\n"
    text = _pack(folder, asked, "CKernel", lines, f"empty=False{_needs(binding)}")
    return Declared({"caller.c": caller(binding, asked.given), "pack.py": text}, _taken(binding))


def in_python(folder: Path, asked: Beginning) -> Declared:
    """The files for a source in Python. Raises UsageError."""
    framework, about = _framework(asked)
    if asked.given is None:
        _check_sample(asked)
        (source, text), name, called = samples.SOURCES[asked.kind], "mine", samples.FUNCTION_IN_PYTHON
        more, arguments, options, op = {source: text}, "", "", samples.OP
    else:
        found = python_function(asked.given, asked.wanted)
        source, name, called, op = _path(asked.given, folder), found.name, found.name, found.op.name
        more, arguments = {}, f"        arguments={_dict(found.arguments)},\n" if found.arguments else ""
        options = f"        options=({_pairs(found.options)}),\n" if found.options else ""
    lines = (
        f"    PythonKernel(\n        name={_quoted(name)},\n{asked.about(op)}"
        f"        source=Path(__file__).parent / {_quoted(source)},\n"
        f"        framework={_quoted(framework)},{about}\n        entry={_quoted(called)},\n{arguments}{options}"
    )
    taken = {} if asked.given is None else found.arguments
    return Declared({**more, "pack.py": _pack(folder, asked, "PythonKernel", lines)}, taken)


def _sample(asked: Beginning, what: str) -> Binding:
    """The function of the sample."""
    if asked.prototype:
        raise UsageError(f"--prototype: name {what} with --from")
    _check_sample(asked)
    return c_function(samples.PROTOTYPE, Wanted(), "the sample")


def _check_sample(asked: Beginning) -> None:
    """Raise UsageError where something is asked of a kernel that is not there."""
    op = asked.wanted.op
    if op is not None and (asked.own is not None or op.name != samples.OP):
        raise UsageError(f"--op {op.name}: name a kernel of it with --from; without one a {samples.OP} is written")
    if asked.wanted.arguments:
        raise UsageError("--argument: name a kernel with --from")


def _taken(binding: Binding) -> Mapping[str, str]:
    return {name: meaning for name, meaning in binding.meanings.items() if name != meaning}


def _given(binding: Binding, asked: Beginning) -> Mapping[str, str]:
    """The meanings that do not follow from the prototype: those that were given, and numbers of a reference."""
    known = {*asked.wanted.arguments, *(name for name, each in binding.meanings.items() if each[0] in "-0123456789")}
    return {name: meaning for name, meaning in binding.meanings.items() if name in known}


def _in_cuda(path: Path, wanted: Wanted) -> Binding:
    """The kernel of a file that is meant. Raises UsageError."""
    found = "".join(f"{each};\n" for each in _GLOBAL.findall(read(path)))
    if not found:
        raise UsageError(f"{path}: there is no __global__ function in it")
    return c_function(found, wanted, str(path))


def _needs(binding: Binding) -> str:
    """What it is to declare where the function has arguments for tensors that cases may do without: it may read them
    always, and be right."""
    meant_by = {meaning.partition(".")[0] for meaning in binding.meanings.values()}
    names = [each.name for each in binding.op.operands if each.optional and each.name in meant_by]
    return f", needs=({''.join(f'{_quoted(each)}, ' for each in names).rstrip()})" if names else ""


def _framework(asked: Beginning) -> tuple[str, str]:
    """What a kernel in Python is written with, and a comment on that."""
    if asked.kind != "dlpack":
        return asked.kind, ""
    text = samples.SOURCES[asked.kind][1] if asked.given is None else read(asked.given)
    named = [each for each in ("jax", "mlx", "cupy") if re.search(rf"^\s*(import|from) {each}\b", text, re.MULTILINE)]
    return (named or ["jax"])[0], '  # or "mlx", "cupy"; "dlpack", with arrays="its.function", for any other'


def _in_source(path: Path, asked: Beginning) -> Binding:
    text = read(path)
    if asked.kind == "c++" and 'extern "C"' not in text:
        raise UsageError(f'{path}: none of its functions is extern "C", by which C calls it: declare one so')
    return c_function(text, asked.wanted, str(path))


def _by_prototype(asked: Beginning) -> Binding:
    """The function of a prototype, or of the header that it names."""
    prototype, path = asked.prototype, Path(asked.prototype)
    in_file = "(" not in prototype
    return c_function(read(path) if in_file else prototype, asked.wanted, prototype if in_file else "--prototype")


def _shown(binding: Binding) -> str:
    given = ", ".join(f"{each.type} {each.name}".replace("* ", "*") for each in binding.prototype.arguments)
    return f"{binding.prototype.result} {binding.prototype.name}({given})"


def _pack(folder: Path, asked: Beginning, kind: str, lines: str, able: str = "empty=False") -> str:
    path = "from pathlib import Path\n\n" if "Path(" in lines else ""
    contract, own = (
        ("Contract", "") if asked.own is None else ("", f"\nfrom .{Path(MODULE).stem} import CONTRACT, OPS\n")
    )
    names = ", ".join(sorted(filter(None, ("Capabilities", contract, kind)), key=str.lower))
    head = f'"""The kernels of this pack. To search them: kernelfuzz run --pack {folder} --max-cases 200"""\n\n{path}'
    declared = _ABLE.format(able=able, contract="CONTRACT" if own else "Contract()")
    return f"{head}from fuzz import {names}\n{own}\nKERNELS = (\n{lines}{declared}"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _dict(words: Mapping[str, str]) -> str:
    return f"{{{', '.join(f'{_quoted(name)}: {_quoted(word)}' for name, word in words.items())}}}"


def _pairs(numbers: Mapping[str, float]) -> str:
    return " ".join(f"({_quoted(name)}, {value!r})," for name, value in numbers.items())


def _path(path: Path, folder: Path) -> str:
    """A file's path from the folder."""
    return os.path.relpath(path.absolute(), folder.absolute())
