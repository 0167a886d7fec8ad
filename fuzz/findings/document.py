"""JSON files that anybody may have written: case files, lists of known failures. Reading one takes bounded time
and memory, and every mistake in it raises CaseError, which names the wrong field. And the parts of a case file: tensors
with named dimensions and exact bits (hexadecimal words, or compressed if there are many), members of checked types."""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
import reprlib
import stat
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from fuzz.core.base.capability import MAX_RANK
from fuzz.core.base.case import Case, CaseError, Guard, Layout, Output, Tensor
from fuzz.core.base.text import printable
from oracles.dtypes import ITEMSIZE
from oracles.op import Op
from oracles.operand import AXIS
from oracles.ops import OPS

_MOST_BYTES = 1 << 28
"""The most bytes of a file. The largest cases of a search, with 2^23 random elements, need less than a tenth."""
_MOST_VALUES = 1_000_000
"""The most values in a file, counted as commas and brackets: in memory each may take a hundred times its text."""
_MOST_DIGITS = 1000
"""The most digits of an integer; Python itself reads at most 4300."""
_SHORT = 80


@dataclass(frozen=True)
class Unusable:
    """A placeholder for a value that JSON lacks or that cannot be read. No field accepts its type, so reading such a
    field raises an error that names the field; in other places it does no harm."""

    why: str

    def __repr__(self) -> str:
        return self.why


def read(path: Path) -> Any:
    """Return the contents of a JSON file. Raises CaseError, which names the file."""
    text = read_text(path)
    try:
        return parsed(text)
    except CaseError as error:
        raise CaseError(f"{path}: {error}") from error


def read_text(path: Path) -> str:
    """Return the text of a file. Raises CaseError, which names the file, also for anything but a regular file, since a
    pipe may never end."""
    try:
        facts = path.stat()
        if stat.S_ISDIR(facts.st_mode):
            raise CaseError(f"{path}: cannot be read: it is a folder")
        if not stat.S_ISREG(facts.st_mode):
            raise CaseError(f"{path}: cannot be read: it is no regular file")
        if facts.st_size > _MOST_BYTES:
            raise CaseError(f"{path}: has more than {_MOST_BYTES >> 20} MiB, which no such file needs")
        with path.open("rb") as file:
            content = file.read(facts.st_size)  # not more, in case the file grows meanwhile
    except OSError as error:
        raise CaseError(f"{path}: cannot be read: {error.strerror}") from error
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CaseError(f"{path}: not UTF-8 text: byte {error.start} is {content[error.start]:#04x}") from error


def parsed(text: str) -> Any:
    """Return the value of a JSON text. Raises CaseError."""
    if sum(map(text.count, ",[{")) > _MOST_VALUES:
        raise CaseError(f"has more than {_MOST_VALUES:,} values, which no such file needs")
    try:
        return json.loads(text, object_pairs_hook=_object, parse_int=_integer, parse_constant=Unusable)
    except json.JSONDecodeError as error:
        raise CaseError(f"not a JSON file: {error}") from error
    except RecursionError as error:
        raise CaseError("not a JSON file that can be read: it is nested too deeply") from error


def told(value: object) -> str:
    """Return the value as a message shows it, shortened to a few words."""
    return _SHORTENED.repr(value)


_SHORTENED = reprlib.Repr()
_SHORTENED.maxstring = _SHORTENED.maxother = _SHORTENED.maxlong = _SHORT


def _object(members: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(members)
    if len(found) < len(members):
        seen = set()
        for name, _ in members:
            if name in seen:
                found[name] = Unusable("a field that is there twice")
            seen.add(name)
    return found


def _integer(digits: str) -> int | Unusable:
    return int(digits) if len(digits) <= _MOST_DIGITS else Unusable(f"an integer of {len(digits):,} digits")


_READABLE_BYTES = 4096
"""The largest size in bytes of a tensor that is written as hexadecimal words; larger ones are compressed."""
_WORDS_PER_LINE = 16
_MOST_HELD = 1 << 28
"""The most bytes of all inputs of a case together, and of an output. Those of a search have up to 2^23 elements."""
_MOST_REACH = 1 << 44
"""The most elements between a tensor and its guard page: at eight bytes each, no address space holds more."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,31}")


def as_object(value: object, where: str) -> dict[str, Any]:
    """Return the value if it is a JSON object. Raises CaseError, which names the field, for any other value."""
    if not isinstance(value, dict):
        what = type(value).__name__ if isinstance(value, (str, int, float, list, type(None))) else told(value)
        raise CaseError(f"{where}: expected an object, found {what}")
    return value


def named(record: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return a member whose own members are named like tensors or parameters: these names are written into programs."""
    found = member(record, name, name)
    for each in found:
        if _NAME.fullmatch(each) is None:
            raise CaseError(f"{name}: {told(each)} is not a name")
    return found


def member(record: Mapping[str, Any], name: str, where: str) -> dict[str, Any]:
    """Return a member that is an object."""
    return as_object(record.get(name), where)


def text(record: Mapping[str, Any], name: str, where: str) -> str:
    """Return a member that is a string, as one printable line. All words of a file are read by this function."""
    value = record.get(name)
    if not isinstance(value, str):
        raise CaseError(f"{where if where == name else f'{where}.{name}'}: missing, or not a string")
    return printable(value)


def flag(record: Mapping[str, Any], name: str) -> bool:
    """Return a member that is true or false."""
    value = record.get(name)
    if not isinstance(value, bool):
        raise CaseError(f"{name}: missing, or neither true nor false")
    return value


def integer(value: object, where: str) -> int:
    """Return the value if it is an integer; true and false are not."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise CaseError(f"{where}: {told(value)} is not an integer")
    return value


def small_integer(value: object, where: str) -> int:
    """Return the integer, which must fit into 64 bits."""
    if not -(2**63) <= integer(value, where) < 2**63:
        raise CaseError(f"{where}: {told(value)} is not an integer of 64 bits")
    return cast(int, value)


def integers(record: Mapping[str, Any], name: str, where: str) -> tuple[int, ...]:
    """Return a member that is a list of integers, one for each axis."""
    value = record.get(name)
    if not isinstance(value, list):
        raise CaseError(f"{where}.{name}: missing, or not a list")
    if len(value) > MAX_RANK:
        raise CaseError(f"{where}.{name}: rank {len(value)}, more than {MAX_RANK}")
    return tuple(small_integer(item, f"{where}.{name}") for item in value)


def tensor_record(tensor: Tensor | Output, dims: str) -> dict[str, Any]:
    """Return a tensor as JSON."""
    layout = tensor.layout
    shape = {"shape": [*layout.shape], "strides": [*layout.strides], "guard": layout.guard, "offset": layout.offset}
    record = {"dtype": tensor.dtype, "dims": dims, **shape}
    if isinstance(tensor, Output) or tensor.alias is not None:  # an alias has the bits of another tensor
        return {**record, "alias": tensor.alias}
    return {**record, **_bits(tensor)}


def dims_of(case: Case) -> dict[str, str]:
    """Return the dimensions of every tensor, each as one string; '' if the op is unknown."""
    op, axis = OPS.get(case.op), case.params.get(AXIS)
    main = case.inputs.get(op.main) if op is not None else None
    if op is None or main is None or not isinstance(axis, int) or not 0 <= axis < len(main.layout.shape):
        return dict.fromkeys(case.tensors, "")
    known = {operand.name for operand in op.operands}
    ranks = {name: len(tensor.layout.shape) for name, tensor in case.tensors.items()}
    return {name: op.dims(name, rank, axis) if name in known else "" for name, rank in ranks.items()}


def parse_axis(op: Op, inputs: Mapping[str, Any]) -> int:
    """Return the axis of the rows, which follows from the dims of the first input."""
    where = f"inputs.{op.main}"
    dims = text(as_object(inputs.get(op.main), where), "dims", where)
    if dims.split().count(op.row) != 1:
        raise CaseError(f"{where}.dims: {told(dims)} does not have {op.row!r} once")
    return dims.split().index(op.row)


def check_dims(case: Case, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
    """Raise CaseError if the dims of a tensor are not those of the op."""
    for name, wanted in dims_of(case).items():
        kind, records = ("inputs", inputs) if name in case.inputs else ("outputs", outputs)
        found = text(records[name], "dims", f"{kind}.{name}")
        if found != wanted:
            raise CaseError(f"{kind}.{name}.dims: {told(found)}, must be {told(wanted)}")


def _bits(tensor: Tensor) -> dict[str, Any]:
    if len(tensor.bits) > _READABLE_BYTES:
        return {"zlib": base64.b64encode(zlib.compress(tensor.bits, 9)).decode()}
    itemsize = ITEMSIZE[tensor.dtype]
    words = [tensor.bits[i : i + itemsize][::-1].hex() for i in range(0, len(tensor.bits), itemsize)]
    return {"bits": [" ".join(words[i : i + _WORDS_PER_LINE]) for i in range(0, len(words), _WORDS_PER_LINE)]}


def _parse_bits(record: Mapping[str, Any], where: str, itemsize: int, size: int) -> bytes:
    """Return the bits of `size` elements; no more than that is decompressed."""
    if "zlib" in record and "bits" in record:
        raise CaseError(f"{where}.zlib: the bits are there twice, here and in 'bits'")
    name = "zlib" if "zlib" in record else "bits"
    try:
        return _inflated(record["zlib"], size * itemsize) if name == "zlib" else _from_words(record["bits"], itemsize)
    except (KeyError, TypeError, ValueError, zlib.error, binascii.Error) as error:
        why = f"{error} is missing" if isinstance(error, KeyError) else error
        raise CaseError(f"{where}.{name}: cannot be decoded: {why}") from error


def _inflated(packed: object, wanted: int) -> bytes:
    if not isinstance(packed, str):
        raise TypeError("not a string")
    stream = zlib.decompressobj()
    found = stream.decompress(base64.b64decode(packed, validate=True), wanted + 1)
    if len(found) > wanted:
        raise ValueError(f"more than the {wanted:,} bytes of the tensor")
    if not stream.eof or stream.unused_data:
        raise ValueError("it is cut off" if not stream.eof else "something follows it")
    return found


def _from_words(lines: object, itemsize: int) -> bytes:
    if not isinstance(lines, list):
        raise TypeError("not a list of lines")
    words = " ".join(lines).split()
    if any(len(word) != 2 * itemsize for word in words):
        raise ValueError(f"not every element is of {2 * itemsize} digits")
    return b"".join(bytes.fromhex(word)[::-1] for word in words)


def _parse_layout(record: Mapping[str, Any], where: str, itemsize: int) -> Layout:
    guard = record.get("guard")
    if guard not in ("after", "before"):
        raise CaseError(f"{where}.guard: {told(guard)} is neither 'after' nor 'before'")
    shape, strides = integers(record, "shape", where), integers(record, "strides", where)
    try:
        layout = Layout(shape, strides, cast(Guard, guard), small_integer(record.get("offset"), f"{where}.offset"))
    except CaseError as error:
        problem = str(error)
        raise CaseError(problem if problem.startswith(where) else f"{where}.{problem}") from error
    # An empty tensor is checked too: results that depend on its other axes, such as a sum for each row, may be large.
    if math.prod(max(extent, 1) for extent in shape) * itemsize > _MOST_HELD:
        raise CaseError(f"{where}.shape: {told(shape)} takes more than {_MOST_HELD >> 20} MiB")
    if max(map(abs, strides), default=0) > _MOST_REACH or layout.extent > _MOST_REACH:
        raise CaseError(f"{where}.strides: {told(strides)} reach further than an address space")
    if layout.offset > _MOST_REACH:
        raise CaseError(f"{where}.offset: {layout.offset} is beyond any address space")
    return layout


def parse_inputs(records: Mapping[str, Any]) -> dict[str, Tensor]:
    """Return the inputs. An input that shares the memory of another one has no bits in the file."""
    inputs: dict[str, Tensor] = {}
    for name, value in records.items():
        record, where = as_object(value, f"inputs.{name}"), f"inputs.{name}"
        alias = _parse_alias(record, where)
        if alias is not None and alias not in inputs:
            raise CaseError(f"{where}.alias: there is no input {told(alias)} before it")
        inputs[name] = _parse_tensor(record, where, alias, inputs[alias].bits if alias is not None else None)
        if sum(len(tensor.bits) for tensor in inputs.values()) > _MOST_HELD:
            raise CaseError(f"inputs: take more than {_MOST_HELD >> 20} MiB")
    return inputs


def _parse_tensor(record: Mapping[str, Any], where: str, alias: str | None, shared: bytes | None) -> Tensor:
    dtype = _parse_dtype(record, where)
    layout = _parse_layout(record, where, ITEMSIZE[dtype])
    bits = _parse_bits(record, where, ITEMSIZE[dtype], layout.size) if shared is None else shared
    try:
        return Tensor(dtype, layout, bits, alias)
    except CaseError as error:
        raise CaseError(f"{where}.{error}") from error


def _parse_dtype(record: Mapping[str, Any], where: str) -> str:
    dtype = text(record, "dtype", where)
    if dtype not in ITEMSIZE:
        raise CaseError(f"{where}.dtype: unknown dtype {told(dtype)}; known: {', '.join(ITEMSIZE)}")
    return dtype


def parse_output(value: object, where: str) -> Output:
    """Return an output from JSON. Raises CaseError, which names the field, if it is broken."""
    record = as_object(value, where)
    alias, dtype = _parse_alias(record, where), _parse_dtype(record, where)
    return Output(dtype, _parse_layout(record, where, ITEMSIZE[dtype]), alias)


def _parse_alias(record: Mapping[str, Any], where: str) -> str | None:
    alias = record.get("alias")
    if alias is not None and not isinstance(alias, str):
        raise CaseError(f"{where}.alias: {told(alias)} is not the name of an input")
    return alias
