"""The shim: a few lines of C, generated from a prototype, by which a worker calls a function of a shared library."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from fuzz.core.adapters import abi
from fuzz.core.adapters.binding import (
    BYTES,
    NOTHING,
    SIZE,
    STATUS,
    STRIDE,
    Argument,
    Binding,
    Type,
    extents_in,
    own_dims,
)
from oracles.dtypes import ITEMSIZE

_SHIM, _LOADER = (Path(__file__).with_name(name) for name in ("shim.c", "shim_loader.c"))


def shim(binding: Binding, library: Path, first: Sequence[Path] = ()) -> str:
    """Return the text of the shim. The libraries `first` are loaded before, and their symbols are visible to all."""
    loader = _with(
        _LOADER,
        function=binding.prototype.name,
        result=_c(binding.prototype.result),
        types=_types(binding),
        first="".join(f"{json.dumps(str(each), ensure_ascii=False)}, " for each in first),
        path=json.dumps(str(library), ensure_ascii=False),
    )
    return _text(binding, library, loader, ["if (function == NULL && kf_load() != NULL) abort();"])


def caller(binding: Binding, source: Path) -> str:
    """Return the text of C code that calls a function which is linked with it, given the function's source."""
    name = binding.prototype.name
    declared = f"extern {_c(binding.prototype.result)} {name}({_types(binding)});\n"
    return _text(binding, source, f"{declared}#define function {name}\n\n", [])


def _text(binding: Binding, place: Path, before: str, first: Sequence[str]) -> str:
    name = place.name.replace("*/", "* /")
    items = ", ".join(f"[{abi.constant(name)}] = {size}" for name, size in ITEMSIZE.items())
    head = _with(_SHIM, library=name, items=items, function=binding.prototype.name, before=before)
    lines = [f"    {line}" for line in (*first, *_body(binding))]
    return "\n".join([head, f"{abi.prototype(binding.op)} {{", *lines, "}", ""])


def _with(file: Path, **words: str) -> str:
    """Return the text of a file in which each @name@ is replaced by the word of this name."""
    return re.sub(r"@(\w+)@", lambda name: words[name[1]], file.read_text(encoding="utf-8"))


def _types(binding: Binding) -> str:
    return ", ".join(_c(each.type) for each in binding.prototype.arguments) or "void"


def _c(kind: Type) -> str:
    """Return the type as a compiler without headers knows it."""
    return "void *" if kind.pointer else kind.word or "int"


def _body(binding: Binding) -> Iterator[str]:
    first = binding.op.inputs[0]
    yield f"const kf_tensor *const first = &call->{first.name};"
    yield "int64_t rows = 1;"
    yield f"for (int axis = 0; axis < first->rank - {own_dims(first)}; axis++) rows *= first->shape[axis];"
    call = f"function({', '.join(_given(each, binding) for each in binding.prototype.arguments)})"
    statements = _statements(binding, call)
    if not binding.takes_all_rows:
        yield "const int64_t count = 1;"
        yield "for (int64_t row = 0; row < rows; row++) {"
    else:
        # Rows come one at a time if their distance does not fit the type of its argument, as no caller would pass it.
        fits = " && ".join(_fitting(binding))
        yield f"const int64_t count = {f'rows == 0 || ({fits}) ? rows : 1' if fits else 'rows'};"
        yield "for (int64_t row = 0; row == 0 || row < rows; row += count > 0 ? count : 1) {"
    yield from (f"    {line}" for line in statements)
    yield "}"
    yield "return KF_OK;"


def _statements(binding: Binding, call: str) -> Iterator[str]:
    yield "(void)count;"
    if binding.returned == STATUS:
        yield f"if ({call} != 0) return KF_REJECTED;"
    elif binding.returned == NOTHING:
        yield f"{call};"
    else:
        yield f"*({binding.prototype.result.word} *){_place(binding, binding.returned)} = {call};"


def _fitting(binding: Binding) -> Iterator[str]:
    for each in binding.prototype.arguments:
        if binding.meanings[each.name].endswith((f".{STRIDE}", f".{BYTES}")):
            value = _number(binding.meanings[each.name], binding)
            yield f"({each.type.word or 'int'})({value}) == {value}"


def _place(binding: Binding, name: str) -> str:
    operand = binding.op.operand(name)
    if own_dims(operand) == len(operand.axes):  # all rows share it
        return f"call->{name}.data"
    return f"at(&call->{name}, {own_dims(operand)}, row)"


def _given(argument: Argument, binding: Binding) -> str:
    meaning = binding.meanings[argument.name]
    if argument.type.pointer:
        return "NULL" if meaning == "NULL" else _place(binding, meaning)
    return f"({argument.type.word or 'int'})({_number(meaning, binding)})"


def _number(meaning: str, binding: Binding) -> str:
    op = binding.op
    if any(each.name == meaning for each in op.parameters):
        return f"call->{meaning}"
    if meaning in extents_in(op):
        return _extent(meaning, binding)
    if meaning == op.batch_name:
        return "count"
    tensor, _, what = meaning.partition(".")
    if what == BYTES:
        return f"stride(&call->{tensor}) * item_bytes[call->{tensor}.dtype]"
    return f"{what}(&call->{tensor})" if what in (STRIDE, SIZE) else meaning


def _extent(dim: str, binding: Binding) -> str:
    """Return the extent of a dimension, read from a tensor that is present in every call."""
    operands = sorted(binding.op.operands, key=lambda each: each.optional)
    operand = next(each for each in operands if dim in each.axes)
    return f"extent(&call->{operand.name}, {len(operand.axes) - operand.axes.index(dim)})"
