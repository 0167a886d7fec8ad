"""A failing case as one file: a C program that needs only a compiler, or a Python program that needs numpy and, if the
kernel does, torch and Triton. The calls, and the allowed outputs of the last call, are plain data in it."""

from __future__ import annotations

from base64 import b85encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from fuzz.core.adapters import abi
from fuzz.core.adapters.build import edited_source
from fuzz.core.adapters.signature import belonging
from fuzz.core.base.case import Case, Output, Tensor
from fuzz.core.base.fill import fill_of, word_of
from fuzz.core.base.kernel import Kernel
from fuzz.core.base.probe import without_probe
from fuzz.core.base.text import printable
from fuzz.core.base.validity import check_case
from oracles.dtypes import DTYPES, ITEMSIZE, Format
from oracles.operand import AXIS
from oracles.ops import OPS

POSITIVE_ZERO, NEGATIVE_ZERO, MAY_BE_NAN, MUST_BE_NAN, MAY_BE_ZERO, OF_EITHER_SIGN = 1, 2, 4, 8, 16, 32
MAY_BE_INFINITE, MAY_BE_MINUS_INFINITE = 64, 128
"""Bits of `Allowed` that let an element be infinite. The bits above are for a zero's sign and for NaN."""


@dataclass(frozen=True)
class Allowed:
    """The allowed values of one element: its flat index in C order, the ends of the allowed interval, and bits for
    special values."""

    index: int
    low: float
    high: float
    rule: int


@dataclass(frozen=True)
class Script:
    """Calls in order, of which the last is judged. In the program, each is named after its op."""

    cases: tuple[Case, ...]
    allowed: Mapping[str, list[Allowed]] = field(default_factory=dict)
    """The allowed values of elements, by output of the last call."""
    invalid: bool = False
    """Whether the last call must be rejected."""
    law: bool = False
    """Whether the last call is the twin, by a law, of the call before it."""
    origins: Mapping[str, list[int]] = field(default_factory=dict)
    """For a law that picks rows, by output: the index of the case's element that each one of the twin must equal."""
    limit_s: int = 0
    """The seconds after which all calls together count as hung; 0 for no limit. Only a call that hung has a limit,
    because a reader's machine may be slow."""

    def __post_init__(self) -> None:
        for case in self.cases:
            check_case(case)

    def wanted(self, number: int, name: str) -> tuple[list[Allowed], list[int] | None]:
        """Return the allowed values and the origins of an output; ([], None) unless the call is the last one."""
        last = number == len(self.cases) - 1
        return (self.allowed.get(name, []), self.origins.get(name)) if last else ([], None)


def hex_words(tensor: Tensor) -> list[str]:
    """Return the bits of each element as a hexadecimal number."""
    size = ITEMSIZE[tensor.dtype]
    return [tensor.bits[i : i + size][::-1].hex() for i in range(0, len(tensor.bits), size)]


_C_TYPES, _C_HARNESS = (Path(__file__).with_name(name) for name in ("standalone.h", "standalone.c"))
_WORDS_PER_LINE = 12


def c_script(code: str, script: Script, about: Sequence[str]) -> str:
    """Return the program's text. `about` is only in its first comment, so it is never run. `code` declares the entries,
    or defines them."""
    return "\n".join(
        [
            _c_comment(about),
            code,
            _C_TYPES.read_text().replace("@most@", str(max(len(case.tensors) for case in script.cases))),
            *_c_formats(),
            *(line for number, case in enumerate(script.cases) for line in _c_call(number, case, script)),
            f"static kfs_call kfs_calls[] = {{{', '.join(f'KFS_CALL_{n}' for n in range(len(script.cases)))}}};",
            f"enum {{ KFS_CALLS = {len(script.cases)}, KFS_INVALID = {int(script.invalid)}, "
            f"KFS_LAW = {int(script.law)}, KFS_LIMIT_S = {script.limit_s} }};",
            _C_HARNESS.read_text(),
        ]
    )


def _c_formats() -> Iterator[str]:
    """Yield the C description of each dtype's format. Integers have no precision."""
    yield "static const struct { int size, precision, emin, infinities; } kfs_formats[] = {"
    for name, each in DTYPES.items():
        bits = (each.precision, each.emin, int(each.infinities)) if isinstance(each, Format) else (0, 0, 0)
        yield f"    [{abi.constant(name)}] = {_c_braced((each.itemsize, *bits))},"
    yield "};"


def _c_comment(lines: Sequence[str]) -> str:
    """Return lines as a C comment. Each line starts with ' *', so that no text in it can end the comment early."""
    plain = (printable(line).replace("*/", "* /") for line in lines)
    return "/*" + "\n *".join(f" {line}".rstrip() for line in plain) + "\n */"


def _python_comment(lines: Sequence[str]) -> list[str]:
    """Return lines as Python comments, after a line that declares the encoding. Python looks for one in the first two
    lines, and in some encodings the text of a comment would become code."""
    return ["# -*- coding: utf-8 -*-", *(f"# {printable(line)}".rstrip() for line in lines)]


def _c_call(number: int, case: Case, script: Script) -> Iterator[str]:
    """Yield the data of one call and the call itself, in C."""
    names = list(case.tensors)
    rows = []
    for name, tensor in case.tensors.items():
        stem = f"kfs_{number}_{name}"
        bits = from_ = allowed = "NULL"
        count = 0
        if isinstance(tensor, Tensor):
            bits = f"{stem}_bits"
            yield _c_array(f"uint{8 * ITEMSIZE[tensor.dtype]}_t {bits}", [f"0x{word}" for word in hex_words(tensor)])
        else:
            wanted, origins = script.wanted(number, name)
            if wanted:
                allowed, count = f"{stem}_allowed", len(wanted)
                yield _c_array(f"kfs_allowed {allowed}", [_c_allowed(each) for each in wanted], 2)
            if origins is not None:
                from_ = f"{stem}_from"
                yield _c_array(f"int32_t {from_}", [str(place) for place in origins])
        rows.append(_c_tensor(case, names, name, tensor, [bits, allowed, str(count), from_]))
    members = [f".{name} = kfs_given(&t[{place}])" for place, name in enumerate(names)]
    members += [f".{name} = {_c_param(value)}" for name, value in abi.params(OPS[case.op], case.params).items()]
    yield f"static int kfs_enter_{number}(const kfs_tensor *t) {{"
    yield f"    const kf_{case.op}_call call = {{{', '.join(members)}}};"
    yield f"    return kf_{case.op}(&call);\n}}"
    listed = ",\\\n    ".join(rows)
    yield f"#define KFS_CALL_{number} {{{len(names)}, {{\\\n    {listed}}}, kfs_enter_{number}}}"


def _c_tensor(case: Case, names: Sequence[str], name: str, tensor: Tensor | Output, data: Sequence[str]) -> str:
    layout, own = tensor.layout, tensor.alias
    home = names.index(case.home(own) or own) if own is not None else names.index(name)
    dtype = abi.constant(tensor.dtype)
    numbers = [layout.offset, layout.lowest, layout.extent]
    parts = [
        f'"{name}"', str(int(isinstance(tensor, Output))), str(home), str(int(layout.guard == "after")), dtype,
        str(len(layout.shape)), _c_braced(layout.shape), _c_braced(layout.strides), *map(str, numbers), *data,
    ]  # fmt: skip
    return f"{{{', '.join(parts)}, NULL, NULL, 0}}"


def _c_braced(numbers: Sequence[int]) -> str:
    return "{" + (", ".join(map(str, numbers)) or "0") + "}"


def _c_array(head: str, items: Sequence[str], per_line: int = _WORDS_PER_LINE) -> str:
    lines = [", ".join(items[i : i + per_line]) for i in range(0, len(items), per_line)]
    return f"static const {head}[] = {{\n    " + (",\n    ".join(lines) or "0") + "};"


def _c_allowed(allowed: Allowed) -> str:
    return f"{{{allowed.index}, {abi.real(allowed.low)}, {abi.real(allowed.high)}, {allowed.rule}}}"


def _c_param(value: float | int) -> str:
    return str(value) if isinstance(value, int) else f"(float){abi.real(value)}"


_PYTHON_HARNESS = Path(__file__).with_name("standalone.txt")
_WIDTH = 118


def python_script(
    kernel: Kernel,
    function: str,
    options: Mapping[str, object],
    device: str,
    script: Script,
    about: Sequence[str],
    library: str = "torch",
    maker: str = "",
    own: Mapping[str, str] = MappingProxyType({}),
    beside: Sequence[tuple[str, str]] = (),
) -> str:
    """Return the text of a Python program that makes the calls. `about` is its first comment. The function `maker`
    makes its tensors, unless they are the library's own. `own` maps names of the op to other names of the function. The
    files `beside` the kernel's source are included."""
    sources = _sources(kernel, dict(beside))
    return "\n".join(
        [
            *_python_comment(about),
            "import base64", "import ctypes", "import dis", "import faulthandler", "import functools",
            "import importlib", "import inspect", "import math", "import mmap", "import os", "import signal",
            "import sys", "import tempfile", "from pathlib import Path", "",
            *(['os.environ["TRITON_INTERPRET"] = "1"', ""] if device == "interpret" else []),
            *(f"os.environ[{name!r}] = {value!r}" for name, value in kernel.variables.items()),
            "import numpy as np", "import torch" if library == "torch" else "torch = None", "",
            f"DEVICE = {'cuda' if device == 'cuda' else 'cpu'!r}",
            f"PACKAGE, MODULE, ENTRY = {'repro_kernel'!r}, {kernel.source.stem!r}, {function!r}",
            f"OPTIONS = {dict(options)!r}",
            f"OWN = {dict(own)!r}",
            f"MAKER = {maker!r}",
            f"INVALID, LAW, LIMIT_S = {script.invalid!r}, {script.law!r}, {script.limit_s!r}",
            f"SIZES = {dict(ITEMSIZE)!r}",
            f"NAMES = {({name: each.spelling for name, each in DTYPES.items()})!r}",
            f"DISPENSABLE = {(*OPS[kernel.op].neutral, AXIS)!r}",
            "SOURCES = {}",
            *(f"SOURCES[{name!r}] = {_quoted(text)}" for name, text in sources.items()),
            "CALLS = [",
            *(line for number, case in enumerate(script.cases) for line in _python_call(number, case, script)),
            "]",
            _PYTHON_HARNESS.read_text(encoding="utf-8"),
        ]
    )  # fmt: skip


def _sources(kernel: Kernel, beside: Mapping[str, str]) -> Mapping[str, str | bytes]:
    """Return the kernel's file and the files that belong to it, by their paths below its folder."""
    text = edited_source(kernel)
    found: dict[str, str | bytes] = {kernel.source.name: text, **beside}
    for name, path in belonging(kernel.source, text).items():
        for each in [path] if path.is_file() else sorted(each for each in path.rglob("*") if each.is_file()):
            place, is_text = str(Path(name) / each.relative_to(path)), each.suffix == ".py"
            found.setdefault(place, each.read_text(encoding="utf-8") if is_text else each.read_bytes())
    return {place: each for place, each in found.items() if "__pycache__" not in place}


def _quoted(text: str | bytes) -> str:
    if isinstance(text, bytes):
        return f'base64.b85decode("{b85encode(text).decode()}")'
    plain = "'''" not in text and not text.endswith(("'", "\\"))
    return f"r'''{text}'''" if plain else repr(text)


def _python_call(number: int, case: Case, script: Script) -> Iterator[str]:
    params = {**OPS[case.op].neutral, **without_probe(case.params)}
    heap = word_of(fill_of(case), "heap") >> 8
    yield f'    {{"params": {params!r}, "heap": {heap}, "tensors": {{'
    for name, tensor in case.tensors.items():
        yield from _python_tensor(name, tensor, *script.wanted(number, name))
    yield "    }},"


def _python_tensor(
    name: str, tensor: Tensor | Output, allowed: list[Allowed], origins: list[int] | None
) -> Iterator[str]:
    layout, size = tensor.layout, ITEMSIZE[tensor.dtype]
    facts: dict[str, object] = {"dtype": tensor.dtype, "shape": layout.shape, "strides": layout.strides}
    facts |= {"guard": layout.guard, "offset": layout.offset}
    yield f"        {name!r}: {{**{facts!r},"
    if tensor.alias is not None:
        yield f'            "alias": {tensor.alias!r},'
    if isinstance(tensor, Tensor):
        words = hex_words(tensor)
        per_line = max(1, (_WIDTH - 20) // (2 * size + 1))
        yield '            "bits": ('
        yield from (f'                "{" ".join(words[i : i + per_line])} "' for i in range(0, len(words), per_line))
        yield '                ""),'
    else:
        yield '            "allowed": ['
        yield from (
            f"                ({a.index}, {_python_real(a.low)}, {_python_real(a.high)}, {a.rule})," for a in allowed
        )
        yield "            ],"
        if origins is not None:
            yield f'            "from": {origins!r},'
    yield "        },"


def _python_real(value: float) -> str:
    if value != value or value in (float("inf"), float("-inf")):
        return f"float({str(value)!r})"
    return repr(value)
