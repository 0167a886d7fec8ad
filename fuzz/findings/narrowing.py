"""What was measured of a kernel where a failing case was found: its contract is narrower than the declared one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from fuzz.base.case import CaseError
from fuzz.findings.encoding import as_object, small_integer, text
from oracles.formula.contract import MAYBE, Contract
from oracles.summation import Read

_MOST = 1 << 10
"""The most sums, points and numbers of terms in a file."""


@dataclass(frozen=True)
class Narrowing:
    """The orders of sums that were read off, and the casts that it takes for certain, or does not."""

    sums: Mapping[str, Mapping[int, int]]
    """The longest chain by the number of terms."""
    points: Mapping[str, str]
    """The dtype of each cast that was left open; "" of one that it does not take."""

    @classmethod
    def of(cls, measured: Contract, declared: Contract) -> Narrowing:
        """Return what one contract says beyond the other."""
        orders = {name: dict(each.chains) for name, each in measured.sums.items() if isinstance(each, Read)}
        taken = {name: measured.points.get(name, "") for name in declared.points}
        return cls(orders, {name: each for name, each in taken.items() if each != declared.points[name]})

    def applied(self, declared: Contract) -> Contract:
        """Return the contract with that, as far as it leaves it open."""
        orders = {name: Read(tuple(each.items())) for name, each in self.sums.items()}
        open_ = {name for name, dtype in declared.points.items() if dtype.startswith(MAYBE)}
        taken = {**declared.points, **{name: each for name, each in self.points.items() if name in open_}}
        points = {name: dtype for name, dtype in taken.items() if dtype}
        return replace(declared, sums={**declared.sums, **orders}, points=points)

    def record(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        sums = {name: {str(n): chain for n, chain in each.items()} for name, each in self.sums.items()}
        return {"sums": sums, "points": dict(self.points)}


def parsed(value: object, where: str) -> Narrowing | None:
    """Return what a JSON object says. Raises CaseError."""
    if value is None:
        return None
    record = as_object(value, where)
    sums, points = (as_object(record.get(name, {}), f"{where}.{name}") for name in ("sums", "points"))
    orders = {name: _chains(each, f"{where}.sums") for name, each in sums.items()}
    if max(len(sums), len(points)) > _MOST:
        raise CaseError(f"{where}: of more than {_MOST} sums or points")
    return Narrowing(orders, {name: text(points, name, f"{where}.points") for name in points})


def _chains(value: object, where: str) -> Mapping[int, int]:
    found = as_object(value, where)
    if len(found) > _MOST or not all(each.isdecimal() and len(each) < 19 for each in found):
        raise CaseError(f"{where}: expected the longest chain by the number of terms")
    chains = {int(n): small_integer(chain, where) for n, chain in found.items()}
    if any(not 0 <= chain <= n for n, chain in chains.items()):
        raise CaseError(f"{where}: a chain is as long as a sum at most")
    return chains
