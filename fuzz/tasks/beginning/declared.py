"""The text of a new pack: the declaration of a kernel, with comments that say what to change."""

from __future__ import annotations

import ast
import json
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from fuzz.core.adapters.binding import STATUS, Binding, LacksError, UnclearError, bound, parsed
from fuzz.core.adapters.shim import caller
from fuzz.core.base.capability import CONTIGUOUS_F32, DeclarationError
from fuzz.core.base.errors import UsageError
from oracles.dtypes import FLOATS
from oracles.op import Op
from oracles.ops import OPS
from oracles.synonyms import likely

OP = "softmax"
"""The op of the sample kernels, and the name of their function in Python."""
PROTOTYPE = "void softmax_f32(const float *x, float *y, int n)"
_TEMPLATES = Path(__file__).parent / "templates"
_SOURCES = {"c": "mine.c", "c++": "mine.cpp", "shared": "mine.c", "cuda": "mine.cu"}
"""The file names of samples, by kind. Samples of all other kinds are in `mine.py`."""
_DECLARATIONS = {
    "c": "CKernel", "c++": "CKernel", "shared": "SharedKernel", "cuda": "CudaKernel", "command": "CommandKernel",
    **dict.fromkeys(("torch", "numpy", "triton", "dlpack"), "PythonKernel"),
}  # fmt: skip
KINDS = ("c", "c++", "shared", "cuda", "torch", "numpy", "triton", "dlpack", "command")
_ISAS = {"_mm512_": "avx512", "_mm256_": "avx2", "arm_sve.h": "sve", "arm_neon.h": "neon"}
"""The instruction set that a C source needs, by a text that the source contains."""
_GLOBAL = re.compile(r"__global__\s+(?:__launch_bounds__\s*\([^()]*\)\s*)?(void\s[^{};]*\))")
"""A pattern of CUDA kernels. Its group is the declaration without the words that only nvcc knows."""


@dataclass(frozen=True)
class Wanted:
    """What the user says of a function before its file is read."""

    op: Op | None = None
    """The op that the function computes. If None, the function's name tells the op."""
    name: str = ""
    """The name of the function. If empty, the first function that is named like an op and can be called is meant."""
    arguments: Mapping[str, str] = field(default_factory=dict)
    """The meanings of the function's arguments by their names, as given with `--argument`."""
    constants: Mapping[str, float] = field(default_factory=dict)
    """The numbers of a reference, such as an eps, by name. A kernel may have parameters for them."""

    def meant(self, function: str) -> Op:
        """Return the op that a function of this name probably computes. Raises UsageError."""
        found = self.op or _named(function)
        if found is None:
            raise UsageError(
                f"{function}: its name says no op that there is: name one with --op, see kernelfuzz list ops, or a "
                "Python function that computes the same: --op FILE.py:FUNCTION"
            )
        return found

    def chosen(self, names: Collection[str], where: str, call: Callable[[str], _Found]) -> _Found:
        """Return the result of `call` for the function that is meant. If that is unclear, raise UsageError with the
        option to type."""
        if not names:
            raise UsageError(f"{where}: there is no function in it")
        if self.name and self.name not in names:
            raise UsageError(f"{where}: it has no function {self.name!r}: it has {', '.join(names)}")
        tried = [self.name] if self.name else [each for each in names if self._says(each)] or [*names]
        likely = len(tried) < len(names) or self._says(tried[0])
        if not likely and self.op is None and len(names) > 1:
            raise UsageError(
                f"{where}: no function of it has the name of an op: {', '.join(names)}: name one and its op:"
                f" --from {where}:{tried[0]} --op OP, see kernelfuzz list ops"
            )
        found, wrong = dict[str, _Found](), dict[str, UsageError]()
        for name in tried:
            try:
                found[name] = call(name)
            except UsageError as error:
                wrong[name] = error
        if len(found) > 1 and not likely:
            raise UsageError(f"{where}: it has {', '.join(found)}: name one, --from {where}:{tried[0]}")
        if not found:
            first = next(iter(wrong))
            others = f"; another function of it is named by --from {where}:{tried[1]}" if len(tried) > 1 else ""
            raise UsageError(f"{where}: {wrong[first]}{others}")
        return next(iter(found.values()))

    def _says(self, function: str) -> bool:
        named = _named(function)
        return named is not None and (self.op is None or named.name == self.op.name)


@dataclass(frozen=True)
class Beginning:
    """The request for a new pack, as far as the text of `pack.py` depends on it."""

    kind: str
    given: Path | None = None
    """The kernel's source or library, if the user has one already."""
    prototype: str = ""
    """The prototype of a function in C, or the name of a header that declares the function."""
    wanted: Wanted = field(default_factory=Wanted)
    own: str = ""
    """The user's function that says what the kernel computes, as FILE.py:FUNCTION; empty for a known op."""


@dataclass(frozen=True)
class Declared:
    """The files to write for a new pack."""

    files: Mapping[str, str]
    """The text of each file by the file's name; `pack.py` comes last."""
    taken: Mapping[str, str] = field(default_factory=dict)
    """The meanings that were found for arguments whose names differ from the op's, by argument."""


def sample(kind: str) -> str:
    """Return the source of a correct softmax kernel of this kind, for the user to replace by a kernel of their own."""
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
    """Raise UsageError if an option was given that makes sense only together with a kernel (`--from`)."""
    if asked.prototype and asked.kind in ("shared", "cuda"):
        raise UsageError(f"--prototype: name the {'library' if asked.kind == 'shared' else 'file'} with --from")
    op = asked.wanted.op
    if op is not None and (asked.own or op.name != OP):
        raise UsageError(f"--op {op.name}: name a kernel of it with --from; without one a {OP} is written")
    if asked.wanted.arguments:
        raise UsageError("--argument: name a kernel with --from")


def _binding(asked: Beginning) -> Binding:
    """Return the function in C that is meant: the prototype, or a function of the named header or of the source."""
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
    """Return the fields of the declaration of a function in C. Only arguments that do not follow from the prototype are
    stated: given ones and numbers of a reference."""
    known = {*asked.wanted.arguments, *(name for name, each in binding.meanings.items() if each[0] in "-0123456789")}
    given = ", ".join(f"{each.type} {each.name}".replace("* ", "*") for each in binding.prototype.arguments)
    return {
        "name": binding.prototype.name, "op": binding.op.name, "grid": binding.op.batch_name,
        "prototype": f"{binding.prototype.result} {binding.prototype.name}({given})",
        "arguments": {name: meaning for name, meaning in binding.meanings.items() if name in known},
        "returns": binding.returned == STATUS,
    }  # fmt: skip


def _needs(binding: Binding) -> str:
    """Return the `needs` to declare if the function has arguments for optional tensors, which it may always read."""
    meant_by = {meaning.partition(".")[0] for meaning in binding.meanings.values()}
    names = [each.name for each in binding.op.operands if each.optional and each.name in meant_by]
    return f", needs=({''.join(f'{json.dumps(each)}, ' for each in names).rstrip()})" if names else ""


def _framework(asked: Beginning) -> str:
    """Return the framework that a Python kernel is written with, such as "torch" or "jax"."""
    if asked.kind != "dlpack":
        return asked.kind
    text = sample(asked.kind) if asked.given is None else read(asked.given)
    named = [each for each in ("jax", "mlx", "cupy") if re.search(rf"^\s*(import|from) {each}\b", text, re.MULTILINE)]
    return (named or ["jax"])[0]


_COMMENTS = re.compile(r"/\*.*?\*/|//[^\n]*|^[ \t]*#[^\n]*", re.DOTALL | re.MULTILINE)
"""A pattern of comments and preprocessor lines."""
_FUNCTION = re.compile(
    r"(?:^|(?<=[;{}]))\s*((?:[A-Za-z_][\w*]*[\s*]+)+[A-Za-z_]\w*\s*\([^(){};]*\))\s*(?=[;{])", re.MULTILINE
)
_NUMBER = re.compile(r"-?\d+(\.\d+)?([eE][-+]?\d+)?")
_Found = TypeVar("_Found")


def _named(function: str) -> Op | None:
    """Return the op whose name is contained in the function's name, the longest such name if several are; else None."""
    plain = function.lower().replace("_", "")
    found = sorted((each for each in OPS if each.replace("_", "") in plain), key=len)
    return OPS[found[-1]] if found else None


def read(path: Path) -> str:
    """Return the text of a file. Raises UsageError."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"{path}: cannot be read: {getattr(error, 'strerror', '') or 'it is not UTF-8 text'}"
        ) from error


def c_function(text: str, wanted: Wanted, where: str) -> Binding:
    """Return the binding of the function that is meant in a source, a header or a prototype. Raises UsageError."""
    prototypes, wrong = dict[str, str](), list[str]()
    for prototype in _prototypes(text):
        try:
            prototypes[parsed(prototype).name] = prototype
        except DeclarationError as error:
            wrong.append(str(error))
    if wrong and not prototypes:
        raise UsageError(f"{where}: {wrong[0]}")
    return wanted.chosen(prototypes, where, lambda name: _bound(wanted, prototypes[name]))


def _bound(wanted: Wanted, prototype: str) -> Binding:
    function = parsed(prototype)
    op = wanted.meant(function.name)
    integer = not function.is_void and not function.result.is_float
    floats = [each.name for each in function.arguments if each.type.is_float]
    given = {**{name: str(value) for name, value in _constants(floats, wanted).items()}, **wanted.arguments}
    with _typed():
        found = bound(op, function, given, STATUS if integer else "", CONTIGUOUS_F32)
        for name, argument in found.tensors.items():
            if not op.operand(name).integers and not {*argument.type.dtypes} & {*FLOATS}:
                how = f"fuzz.op_of(..., dtypes={{{name!r}: {argument.type.dtypes[0]!r}}}) in a pack says others"
                raise DeclarationError(
                    f"{argument.name} is {argument.type}, and {name} of {op.name} is of floats: {how}"
                )
        return found


@contextmanager
def _typed() -> Iterator[None]:
    """Return a context in which errors about arguments become a UsageError that says what to type."""
    try:
        yield
    except UnclearError as error:
        typed = " ".join(f"--argument {name}={choices[0]}" for name, choices in error.unclear.items())
        raise UsageError(f"{error.what}: {typed}{error.instead}") from error
    except LacksError as error:
        how = "; where that is a number in it, name a function of torch that has the same: --op FILE.py:FUNCTION"
        raise UsageError(f"{error.what}{how if error.is_number else ''}") from error
    except DeclarationError as error:
        raise UsageError(str(error).removeprefix("prototype: ").replace("arguments:", "--argument:", 1)) from error


def _constants(names: Collection[str], wanted: Wanted) -> Mapping[str, float]:
    """Return the reference's numbers for those of the named parameters whose meaning was not given."""
    meant = likely({name: [*wanted.constants] for name in names if name not in wanted.arguments})
    return {name: wanted.constants[constant] for name, constant in meant.items()}


def _prototypes(text: str) -> Iterator[str]:
    plain = _COMMENTS.sub(" ", re.sub(r'extern\s+"C"(\s*\{)?', " ", text))
    plain = plain if plain.rstrip().endswith((";", "}", "{")) else f"{plain.rstrip()};"
    for found in _FUNCTION.findall(plain):
        words = re.sub(r"\b(?:static|inline|extern)\b", "", found).split()
        if words[0] not in ("return", "else", "typedef"):
            yield " ".join(words)


@dataclass(frozen=True)
class PythonFunction:
    """A function in a Python file, and how it is called as a kernel of its op."""

    name: str
    op: Op
    arguments: Mapping[str, str]
    """The op's tensor or parameter by the function's parameter, for those whose names differ."""
    options: Mapping[str, float]
    """The numbers that are passed in every call, by parameter."""


def python_function(path: Path, wanted: Wanted) -> PythonFunction:
    """Return the function that is meant in a Python file. Raises UsageError."""
    try:
        body = ast.parse(read(path)).body
    except (SyntaxError, ValueError) as error:
        raise UsageError(f"{path}: {error}") from error
    found = {each.name: each for each in body if isinstance(each, ast.FunctionDef) and not _is_program(each)}
    public = {name: each for name, each in found.items() if not name.startswith("_") or name == wanted.name}
    return wanted.chosen(public, str(path), lambda name: _called(public[name], wanted))


def _is_program(function: ast.FunctionDef) -> bool:
    """Whether the function runs on a GPU (is a Triton program), so that another function launches it."""
    return any("triton" in ast.unparse(each) for each in function.decorator_list)


def _called(function: ast.FunctionDef, wanted: Wanted) -> PythonFunction:
    op, defaults = wanted.meant(function.name), _defaults(function)
    tensors, parameters = [each.name for each in op.operands], [each.name for each in op.parameters]
    names = [*tensors, *op.params]
    for own, meaning in wanted.arguments.items():
        if own not in defaults:
            raise UsageError(
                f"--argument {own}: {function.name} has no parameter {own!r}: it has {', '.join(defaults)}"
            )
        if meaning not in names and not _NUMBER.fullmatch(meaning):
            raise UsageError(f"--argument {own}: {meaning!r} is not one of {', '.join(names)}, or a number")
    constants = _constants([name for name in defaults if name not in names], wanted)
    rest = {name: default for name, default in defaults.items() if name not in (*constants, *wanted.arguments)}
    taken = {*wanted.arguments.values()}
    may_be = {
        name: names if default is _REQUIRED else [*(tensors if default is None else ()), *parameters]
        for name, default in rest.items()
    }
    meant = {**likely({name: {*some} - taken for name, some in may_be.items()}), **wanted.arguments}
    unclear = [name for name, default in rest.items() if default is _REQUIRED and name not in meant]
    missing = [each.name for each in op.inputs if not each.optional and each.name not in meant.values()]
    if len(unclear) == len(missing) == 1:
        meant[unclear.pop()] = missing.pop()
    if unclear:
        left = [each for each in names if each not in meant.values()]
        with _typed():
            raise UnclearError(function.name, {name: [*left[:1], "1", *left[1:]] for name in unclear})
    missing += [each.name for each in op.parameters if each.neutral is None and each.name not in meant.values()]
    if missing:
        with _typed():
            raise LacksError(f"parameter of {function.name}", op, missing[0])
    options = {
        name: float(each) if {*each} & {*".eE"} else int(each) for name, each in meant.items() if each not in names
    }
    renamed = {name: each for name, each in meant.items() if each in names and each != name}
    return PythonFunction(function.name, op, renamed, {**constants, **options})


_REQUIRED = object()
"""Marks a parameter without a default."""


def _defaults(function: ast.FunctionDef) -> Mapping[str, object]:
    """Return the default of each parameter that can be given by keyword: its constant (a number or None), _REQUIRED if
    there is no default, or Ellipsis for any other expression."""
    given = function.args
    plain: list[ast.expr | None] = [*given.defaults]
    plain = [*([None] * (len(given.posonlyargs) + len(given.args) - len(plain))), *plain][len(given.posonlyargs) :]
    pairs = [*zip(given.args, plain, strict=True), *zip(given.kwonlyargs, given.kw_defaults, strict=True)]
    return {each.arg: _REQUIRED if default is None else getattr(default, "value", ...) for each, default in pairs}
