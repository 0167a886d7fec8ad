"""The elementary functions. Each has a file of its name with its record, `FUNCTION`. Every file in this folder counts:
there is no list of them. Importing the package lists the files and imports none, so that packs and contracts can name
functions without loading NumPy; a file is imported when its record is first asked for."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING

from oracles.lazy import ReadWhenAsked

if TYPE_CHECKING:
    from oracles.elementary.function import Elementary, FunctionFamily, OfTwo

NAMES = tuple(sorted(each.name for each in iter_modules(__path__)))
"""The names of all functions."""


def function(name: str, constant: float = 0.0, low: float = 0.0) -> Elementary:
    """Return the record of the function of that name, for a family with the constant `constant` + `low`. Raises
    KeyError for an unknown name, FormulaError for a constant that the family does not have."""
    return records()[name].of(constant, low)


@cache
def records() -> ReadWhenAsked[Elementary | FunctionFamily | OfTwo]:
    """Return the records by name. Reading one raises ImportError if its file has no record, and TypeError if the record
    lacks a field."""
    return ReadWhenAsked(NAMES, _record)


def members() -> Mapping[str, Elementary]:
    """Return all functions by name. A family has an entry for each constant that tests try, such as "pow 2.5"."""
    pairs = ((each, constant) for each in records().values() for constant in each.examples)
    return {f"{each.name} {value:.6g}" if value else each.name: each.of(value, 0.0) for each, value in pairs}


def _record(name: str) -> Elementary | FunctionFamily | OfTwo:
    found: Elementary | FunctionFamily | OfTwo | None = getattr(import_module(f"{__name__}.{name}"), "FUNCTION", None)
    if found is None or found.name != name:
        raise ImportError(f"{__name__}.{name}: its FUNCTION must be the record of an elementary function called {name}")
    return found
