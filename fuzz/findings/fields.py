"""Members of JSON objects with the type that they must have; CaseError names the field that has another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fuzz.base.case import CaseError


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
