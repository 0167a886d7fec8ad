"""The parts of a case file as JSON: tensors, with exact bits in hex words or compressed where there are many, and
members of the type that they must have. CaseError names the field that is wrong."""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Mapping
from typing import Any, cast

from fuzz.base.case import ITEMSIZE, CaseError, Guard, Layout, Output, Tensor

_READABLE_BYTES = 4096
"""Tensors up to this size are written as hex words, and larger ones are compressed."""
_WORDS_PER_LINE = 16


def as_object(value: object, where: str) -> dict[str, Any]:
    """The JSON object; CaseError, naming the place, if it is none."""
    if not isinstance(value, dict):
        raise CaseError(f"{where}: expected an object, found {type(value).__name__}")
    return value


def member(record: Mapping[str, Any], name: str, where: str) -> dict[str, Any]:
    """A member that is an object."""
    return as_object(record.get(name), where)


def text(record: Mapping[str, Any], name: str, where: str) -> str:
    """A member that is a string."""
    value = record.get(name)
    if not isinstance(value, str):
        raise CaseError(f"{where if where == name else f'{where}.{name}'}: missing, or not a string")
    return value


def flag(record: Mapping[str, Any], name: str) -> bool:
    """A member that is true or false."""
    value = record.get(name)
    if not isinstance(value, bool):
        raise CaseError(f"{name}: missing, or neither true nor false")
    return value


def integer(value: object, where: str) -> int:
    """The integer; true and false are none."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise CaseError(f"{where}: {value!r} is not an integer")
    return value


def integers(record: Mapping[str, Any], name: str, where: str) -> tuple[int, ...]:
    """A member that is a list of integers."""
    value = record.get(name)
    if not isinstance(value, list):
        raise CaseError(f"{where}.{name}: missing, or not a list")
    return tuple(integer(item, f"{where}.{name}") for item in value)


def lines(value: object, where: str) -> tuple[str, ...]:
    """The list of strings."""
    if not isinstance(value, list) or not all(isinstance(line, str) for line in value):
        raise CaseError(f"{where}: not a list of lines")
    return tuple(value)


def _layout(layout: Layout) -> dict[str, Any]:
    return {
        "shape": list(layout.shape),
        "strides": list(layout.strides),
        "guard": layout.guard,
        "offset": layout.offset,
    }


def tensor_record(tensor: Tensor) -> dict[str, Any]:
    """An input as JSON."""
    if tensor.alias is not None:  # the bits are those of the other
        return {"dtype": tensor.dtype, **_layout(tensor.layout), "alias": tensor.alias}
    return {"dtype": tensor.dtype, **_layout(tensor.layout), **_bits(tensor)}


def output_record(output: Output) -> dict[str, Any]:
    """An output as JSON."""
    return {"dtype": output.dtype, **_layout(output.layout), "alias": output.alias}


def _bits(tensor: Tensor) -> dict[str, Any]:
    if len(tensor.bits) > _READABLE_BYTES:
        return {"zlib": base64.b64encode(zlib.compress(tensor.bits, 9)).decode()}
    itemsize = ITEMSIZE[tensor.dtype]
    words = [tensor.bits[i : i + itemsize][::-1].hex() for i in range(0, len(tensor.bits), itemsize)]
    return {"bits": [" ".join(words[i : i + _WORDS_PER_LINE]) for i in range(0, len(words), _WORDS_PER_LINE)]}


def _parse_bits(record: Mapping[str, Any], where: str) -> bytes:
    try:
        if "zlib" in record:
            return zlib.decompress(base64.b64decode(record["zlib"], validate=True))
        words = " ".join(record["bits"]).split()
        return b"".join(bytes.fromhex(word)[::-1] for word in words)
    except (KeyError, TypeError, ValueError, zlib.error, binascii.Error) as error:
        raise CaseError(f"{where}.bits: cannot be decoded: {error}") from error


def _parse_layout(record: Mapping[str, Any], where: str) -> Layout:
    guard = record.get("guard")
    if guard not in ("after", "before"):
        raise CaseError(f"{where}.guard: {guard!r} is neither 'after' nor 'before'")
    try:
        return Layout(
            integers(record, "shape", where),
            integers(record, "strides", where),
            cast(Guard, guard),
            integer(record.get("offset"), f"{where}.offset"),
        )
    except CaseError as error:
        problem = str(error)
        raise CaseError(problem if problem.startswith(where) else f"{where}.{problem}") from error


def parse_inputs(records: Mapping[str, Any]) -> dict[str, Tensor]:
    """Inputs that share the memory of another one are written without bits."""
    inputs: dict[str, Tensor] = {}
    for name, value in records.items():
        record, where = as_object(value, f"inputs.{name}"), f"inputs.{name}"
        alias = _parse_alias(record, where)
        if alias is not None and alias not in inputs:
            raise CaseError(f"{where}.alias: there is no input {alias!r} before it")
        inputs[name] = _parse_tensor(record, where, alias, inputs[alias].bits if alias is not None else None)
    return inputs


def _parse_tensor(record: Mapping[str, Any], where: str, alias: str | None, shared: bytes | None) -> Tensor:
    layout = _parse_layout(record, where)
    bits = _parse_bits(record, where) if shared is None else shared
    try:
        return Tensor(text(record, "dtype", where), layout, bits, alias)
    except CaseError as error:
        raise CaseError(f"{where}.{error}") from error


def parse_output(value: object, where: str) -> Output:
    """An output from JSON; CaseError, naming the field, where it is broken."""
    record = as_object(value, where)
    alias = _parse_alias(record, where)
    try:
        return Output(text(record, "dtype", where), _parse_layout(record, where), alias)
    except CaseError as error:
        problem = str(error)
        raise CaseError(problem if problem.startswith(where) else f"{where}.{problem}") from error


def _parse_alias(record: Mapping[str, Any], where: str) -> str | None:
    alias = record.get("alias")
    if alias is not None and not isinstance(alias, str):
        raise CaseError(f"{where}.alias: {alias!r} is not the name of an input")
    return alias
