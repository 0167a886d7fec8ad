"""The elementary functions, one file each, named after its function, with its record `FUNCTION`. A file is found by
being here: no list names it. Importing this package lists the files and reads none, so that packs and contracts can
name functions without loading NumPy; each is read when its record is first asked for."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING

from oracles.lazy import ReadWhenAsked

if TYPE_CHECKING:
    from oracles.elementary.function import Elementary, FunctionFamily

NAMES = tuple(sorted(each.name for each in iter_modules(__path__)))
"""The names of all functions."""


def function(name: str, constant: float = 0.0, low: float = 0.0) -> Elementary:
    """Return the record of the function of that name; for a family, with that constant plus `low`. Raises KeyError;
    FormulaError for a constant that the family does not have."""
    return records()[name].of(constant, low)


@cache
def records() -> ReadWhenAsked[Elementary | FunctionFamily]:
    """Return the records by name. To ask for one raises ImportError for a file without one, TypeError for one that
    lacks a field."""
    return ReadWhenAsked(NAMES, _record)


def members() -> Mapping[str, Elementary]:
    """Return all functions by name; a family is there with each constant that tests try, as "pow 2.5"."""
    pairs = ((each, constant) for each in records().values() for constant in each.examples)
    return {f"{each.name} {value:.6g}" if value else each.name: each.of(value, 0.0) for each, value in pairs}


def _record(name: str) -> Elementary | FunctionFamily:
    found: Elementary | FunctionFamily | None = getattr(import_module(f"{__name__}.{name}"), "FUNCTION", None)
    if found is None or found.name != name:
        raise ImportError(f"{__name__}.{name}: its FUNCTION must be the record of an elementary function called {name}")
    return found
