"""Packs of correct kernels: one for each contract, simulated from the op's formula."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fuzz.core.base.capability import Capabilities
from oracles.dtypes import COMPUTED, DOUBLE, FLOATS
from oracles.formula.contract import Contract
from oracles.op import Op

_STORED_ONE_IN = 4
"""One contract in this many is also tried with tensors of formats that only store numbers, whose rounding hides most of
what a budget is about."""
_UPDATED, _SUMMED = 96, 1024
"""The longest rows of kernels that update something term by term, and of others. A term is a step in Python, of some
hundred microseconds in the former and tens in the latter."""
_PACK, _SIMULATED = (Path(__file__).with_name(f"{name}.txt").read_text() for name in ("pack", "simulated"))
_LOAD = """
from fuzz.core.adapters.pack import load

load(Path({pack!r}))"""


@dataclass(frozen=True)
class SimulatedPack:
    """The simulated kernel of one contract of a covering array."""

    op: Op
    contract: Contract
    number: int
    """The index of the contract."""

    def write(self, folder: Path, pack: Path | None) -> None:
        """Write the pack; `pack` is the one that brings the op."""
        folder.mkdir(parents=True, exist_ok=True)
        words = {
            "op": self.op.name,
            "contract": repr(self.contract),
            "load": _LOAD.format(pack=str(pack.resolve())) if pack else "",
            "takes": repr(self.takes),
            "inputs": tuple(each.name for each in self.op.inputs),
            "parameters": self.op.params,
        }
        (folder / "simulated.py").write_text(_SIMULATED.format(**words), encoding="utf-8")
        (folder / "pack.py").write_text(_PACK.format(**words), encoding="utf-8")

    @property
    def takes(self) -> Capabilities:
        """The declared capabilities: all dtypes and optional tensors, but one dtype where the contract names an
        operand's; and rows that the kernel can calculate in some hundredths of a second."""
        op, words = self.op, bool(self.contract.words)
        free = () if words else tuple(dtype for dtype in self._formats if dtype != DOUBLE.name)
        others = [each for each in op.operands if each.name != op.main and not each.integers]
        return Capabilities(
            dtypes=self.main, takes=op.optional, params=tuple(op.neutral),
            mixed=tuple((each.name, tuple(dict.fromkeys((op.main, *free)))) for each in others) if free else (),
            stacked=tuple(each.name for each in op.inputs if each.stackable),
            max=dict.fromkeys(op.named, _UPDATED if self.contract.algorithm else _SUMMED),
        )  # fmt: skip

    @property
    def main(self) -> tuple[str, ...]:
        """The dtypes of the first input."""
        if self.contract.words:
            return (COMPUTED[self.number % len(COMPUTED)],)
        wide = DOUBLE.name in (self.contract.compute, *self.contract.dtypes.values())
        return tuple(dtype for dtype in self._formats if wide or dtype != DOUBLE.name)

    @property
    def _formats(self) -> tuple[str, ...]:
        """The dtypes of the tensors that are tried."""
        return FLOATS if self.number % _STORED_ONE_IN == _STORED_ONE_IN - 1 else COMPUTED
