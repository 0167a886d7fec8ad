"""The text of a pack that is begun: its declaration of a kernel, with comments on what is to be changed."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fuzz.core.adapters.binding import STATUS, Binding
from fuzz.core.adapters.shim import caller
from fuzz.core.base.errors import UsageError
from fuzz.tasks.beginning.functions import Wanted, c_function, python_function, read

OP = "softmax"
"""What the samples compute, and how those in Python are called."""
PROTOTYPE = "void softmax_f32(const float *x, float *y, int n)"
_TEMPLATES = Path(__file__).parent / "templates"
_SOURCES = {"c": "mine.c", "c++": "mine.cpp", "shared": "mine.c", "cuda": "mine.cu"}
"""The names of the files of samples; others are in Python."""
_DECLARATIONS = {
    "c": "CKernel", "c++": "CKernel", "shared": "SharedKernel", "cuda": "CudaKernel", "command": "CommandKernel",
    **dict.fromkeys(("torch", "numpy", "triton", "dlpack"), "PythonKernel"),
}  # fmt: skip
KINDS = ("c", "c++", "shared", "cuda", "torch", "numpy", "triton", "dlpack", "command")
_ISAS = {"_mm512_": "avx512", "_mm256_": "avx2", "arm_sve.h": "sve", "arm_neon.h": "neon"}
"""The instruction sets by what a source in C has."""
_GLOBAL = re.compile(r"__global__\s+(?:__launch_bounds__\s*\([^()]*\)\s*)?(void\s[^{};]*\))")
"""A kernel of CUDA, without what only nvcc knows."""


@dataclass(frozen=True)
class Beginning:
    """What is asked for."""

    kind: str
    given: Path | None = None
    """Where a kernel is already: a source of it, or a library."""
    prototype: str = ""
    """The prototype of a function in C, or a header that has it."""
    wanted: Wanted = field(default_factory=Wanted)
    own: str = ""
    """The function that says what it computes, where that is no op that there is."""


@dataclass(frozen=True)
class Declared:
    """What is written."""

    files: Mapping[str, str]
    """The texts by the names of files; `pack.py` is the last."""
    taken: Mapping[str, str] = field(default_factory=dict)
    """The meaning that was found for arguments of other names."""


def sample(kind: str) -> str:
    """Return a right softmax of that kind, to be changed into one's own kernel."""
    return (_TEMPLATES / f"{kind}.txt").read_text(encoding="utf-8")


def declared(folder: Path, asked: Beginning) -> Declared:
    """Return the files of a pack with one kernel. Raises UsageError."""
    files, taken = dict[str, str](), dict[str, str]()
    declaration = _DECLARATIONS[asked.kind]
    if asked.given is None:
        _check_sample(asked)
        source = _SOURCES.get(asked.kind, "mine.py")
        files[source] = sample(asked.kind)
        source = "libmine.so" if asked.kind == "shared" else source
    else:
        source = os.path.relpath(asked.given.absolute(), folder.absolute())
    facts: dict[str, Any] = {"name": "mine", "op": OP, "entry": OP, "source": source}
    if declaration in ("SharedKernel", "CudaKernel") or (declaration == "CKernel" and asked.given is not None):
        binding = _binding(asked)
        taken |= {name: meaning for name, meaning in binding.meanings.items() if name != meaning}
        facts |= _of_binding(binding, asked)
        if declaration == "CKernel" and asked.given is not None:
            files["caller.c"] = caller(binding, asked.given)
            isa = next((each for sign, each in _ISAS.items() if sign in read(asked.given)), "")
            facts |= {"caller": True, "isa": isa, "needs": _needs(binding)}
    elif declaration == "PythonKernel":
        if asked.given is not None:
            found = python_function(asked.given, asked.wanted)
            taken |= found.arguments
            facts |= {"name": found.name, "entry": found.name, "op": found.op.name, "arguments": found.arguments}
            facts["options"] = found.options
        facts |= {"framework": _framework(asked), "is_dlpack": asked.kind == "dlpack"}
    elif declaration == "CommandKernel" and asked.given is not None:
        facts["op"] = asked.wanted.meant(asked.given.stem).name
    names = ("Capabilities", declaration, *(() if asked.own else ("Contract",)))
    facts |= {"folder": folder, "own": asked.own, "imports": ", ".join(sorted(names, key=str.lower))}
    return Declared({**files, "pack.py": _rendered(declaration=declaration, **facts)}, taken)


def _rendered(**facts: Any) -> str:
    from jinja2 import Environment

    environment = Environment(trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True)
    environment.filters["quoted"] = lambda value: json.dumps(value, ensure_ascii=False)
    return environment.from_string(sample("pack")).render(facts)


def _check_sample(asked: Beginning) -> None:
    """Raise UsageError where something is asked of a kernel that is not there."""
    if asked.prototype and asked.kind in ("shared", "cuda"):
        raise UsageError(f"--prototype: name the {'library' if asked.kind == 'shared' else 'file'} with --from")
    op = asked.wanted.op
    if op is not None and (asked.own or op.name != OP):
        raise UsageError(f"--op {op.name}: name a kernel of it with --from; without one a {OP} is written")
    if asked.wanted.arguments:
        raise UsageError("--argument: name a kernel with --from")


def _binding(asked: Beginning) -> Binding:
    """Return the function in C that is meant: of a prototype, of the header that it names, or of the source."""
    if asked.given is None:
        return c_function(PROTOTYPE, Wanted(), "the sample")
    if asked.prototype or asked.kind == "shared":
        prototype, path = asked.prototype, Path(asked.prototype)
        in_file = "(" not in prototype
        return c_function(read(path) if in_file else prototype, asked.wanted, prototype if in_file else "--prototype")
    path, text = asked.given, read(asked.given)
    if asked.kind == "cuda":
        text = "".join(f"{each};\n" for each in _GLOBAL.findall(text))
        if not text:
            raise UsageError(f"{path}: there is no __global__ function in it")
    if asked.kind == "c++" and 'extern "C"' not in text:
        raise UsageError(f'{path}: none of its functions is extern "C", by which C calls it: declare one so')
    return c_function(text, asked.wanted, str(path))


def _of_binding(binding: Binding, asked: Beginning) -> dict[str, Any]:
    """Return what is declared of a function in C; of its arguments those that do not follow from the prototype: what
    was given, and numbers of a reference."""
    known = {*asked.wanted.arguments, *(name for name, each in binding.meanings.items() if each[0] in "-0123456789")}
    given = ", ".join(f"{each.type} {each.name}".replace("* ", "*") for each in binding.prototype.arguments)
    return {
        "name": binding.prototype.name, "op": binding.op.name, "grid": binding.op.batch_name,
        "prototype": f"{binding.prototype.result} {binding.prototype.name}({given})",
        "arguments": {name: meaning for name, meaning in binding.meanings.items() if name in known},
        "returns": binding.returned == STATUS,
    }  # fmt: skip


def _needs(binding: Binding) -> str:
    """Return what it is to declare where the function has arguments for tensors that cases may do without: it may read
    them always, and be right."""
    meant_by = {meaning.partition(".")[0] for meaning in binding.meanings.values()}
    names = [each.name for each in binding.op.operands if each.optional and each.name in meant_by]
    return f", needs=({''.join(f'{json.dumps(each)}, ' for each in names).rstrip()})" if names else ""


def _framework(asked: Beginning) -> str:
    """Return what a kernel in Python is written with."""
    if asked.kind != "dlpack":
        return asked.kind
    text = sample(asked.kind) if asked.given is None else read(asked.given)
    named = [each for each in ("jax", "mlx", "cupy") if re.search(rf"^\s*(import|from) {each}\b", text, re.MULTILINE)]
    return (named or ["jax"])[0]
