"""Packs of correct kernels, written from an op's formula: for each contract a simulated kernel and one in C."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from fuzz.core.base.capability import Capabilities
from fuzz.quality.emission.plan import Emission
from fuzz.quality.emission.variant import source
from oracles.dtypes import COMPUTED, DOUBLE, FLOATS
from oracles.formula.contract import Contract
from oracles.formula.trace import FormulaError
from oracles.op import Op
from oracles.problem import ProblemError

_STORED_ONE_IN = 4
"""One contract in this many is also tried with tensors of formats that only store numbers, whose rounding hides most of
what a budget is about."""
_UPDATED, _SUMMED = 96, 1024
"""The longest rows of simulated kernels that update something term by term, and of others. A term is a step in Python,
of some hundred microseconds in the former and tens in the latter."""
_PACK, _SIMULATED = (Path(__file__).with_name(f"{name}.txt").read_text() for name in ("pack", "simulated"))
_KERNEL_SIMULATED = """
    PythonKernel(
        "simulated", "{op}", HERE / "simulated.py", "numpy", CONTRACT, SHORT, "simulated", laws=()
    ),"""
_KERNEL_EMITTED = """
    CKernel("emitted", "{op}", HERE / "emitted.c", "any", CONTRACT, TAKES, {flags}, laws=()),"""
_LOAD = """
from fuzz.core.adapters.pack import load

load(Path({pack!r}))"""


@dataclass(frozen=True)
class Pair:
    """The kernels of one contract of a covering array."""

    op: Op
    contract: Contract
    number: int
    """The index of the contract."""

    def written(self, folder: Path, pack: Path | None) -> str:
        """Write the pack; `pack` is the one that brings the op. Returns why there is no kernel in C, or ''."""
        folder.mkdir(parents=True, exist_ok=True)
        trouble, kernels = "", [_KERNEL_SIMULATED]
        try:
            (folder / "emitted.c").write_text(self._emitted, encoding="utf-8")
            kernels.append(_KERNEL_EMITTED)
        except (FormulaError, ProblemError) as error:
            trouble = str(error)
        words = {
            "op": self.op.name,
            "contract": repr(self.contract),
            "load": _LOAD.format(pack=str(pack.resolve())) if pack else "",
            "takes": repr(self.takes),
            "short": repr(self.short),
            "flags": self._flags,
            "inputs": tuple(each.name for each in self.op.inputs),
            "parameters": self.op.params,
        }
        (folder / "simulated.py").write_text(_SIMULATED.format(**words), encoding="utf-8")
        kernels = [each.format(**words) for each in kernels]
        (folder / "pack.py").write_text(_PACK.format(**words, kernels="".join(kernels)), encoding="utf-8")
        return trouble

    @property
    def takes(self) -> Capabilities:
        """The declared capabilities: all dtypes and optional tensors, but one dtype where the contract names an
        operand's."""
        op, words = self.op, bool(self.contract.words)
        free = () if words else tuple(dtype for dtype in self._formats if dtype != DOUBLE.name)
        others = [each for each in op.operands if each.name != op.main and not each.integers]
        return Capabilities(
            dtypes=self.main, takes=op.optional, params=tuple(op.neutral),
            mixed=tuple((each.name, tuple(dict.fromkeys((op.main, *free)))) for each in others) if free else (),
            stacked=tuple(each.name for each in op.inputs if each.stackable),
        )  # fmt: skip

    @property
    def short(self) -> Capabilities:
        """The capabilities of the simulated kernel, with rows that it can calculate in some hundredths of a second."""
        return replace(self.takes, max=dict.fromkeys(self.op.named, _UPDATED if self.contract.algorithm else _SUMMED))

    @property
    def main(self) -> tuple[str, ...]:
        """The dtypes of the first input."""
        if self.contract.words:
            return (COMPUTED[self.number % len(COMPUTED)],)
        return tuple(dtype for dtype in self._formats if self._wide or dtype != DOUBLE.name)

    @property
    def _formats(self) -> tuple[str, ...]:
        """The dtypes of the tensors that are tried."""
        return FLOATS if self.number % _STORED_ONE_IN == _STORED_ONE_IN - 1 else COMPUTED

    @property
    def _wide(self) -> bool:
        return DOUBLE.name in (self.contract.compute, *self.contract.dtypes.values())

    @property
    def _emitted(self) -> str:
        settled = self.contract.settled(self._dtypes)
        main = self.main
        chosen = Emission(
            self.op, settled, way=self.number, fused=self.number % 2 == 0, turn=self.number, wide=DOUBLE.name in main
        )
        return source(chosen)

    @property
    def _dtypes(self) -> Mapping[str, str]:
        """The dtypes of all operands, by that of the first input."""
        main, found = self.main[0], dict[str, str]()
        for each in self.op.operands:
            found[each.name] = found.get(each.dtype, each.dtype) or main
        return found

    @property
    def _flags(self) -> tuple[str, ...]:
        """The flags for the compiler, which decides by itself where it fuses."""
        return ("-march=native", "-ffp-contract=fast") if self.contract.fused else ("-ffp-contract=off",)
