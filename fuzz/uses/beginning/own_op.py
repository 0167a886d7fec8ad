"""An op that somebody's function says, written into a pack as a formula to be read and changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from oracles.op import Op
from oracles.ops import OPS

MODULE = "op.py"
"""The file of the pack that has the op."""
_CONTRACT = """
# A function says neither an order of additions nor how accurate a library is: neither is held against a kernel.
CONTRACT = {contract}
"""


@dataclass(frozen=True)
class OwnOp:
    """What is written of a function."""

    place: str
    """The function."""
    op: Op
    text: str
    """The text of a module with the op, and with what is held against a kernel that promises nothing."""
    constants: Mapping[str, float]
    """The function's numbers beside its tensors, such as an eps."""


def own_op(place: str, shapes: str) -> OwnOp:
    """The op of a function, FILE.py:FUNCTION. Raises UsageError."""
    from fuzz.uses.check.reference import contract_of
    from fuzz.uses.judge.written import contract_text
    from fuzz.uses.reference import derived_at
    from oracles.dtypes import SINGLE
    from oracles.reference.text import identifier

    name = identifier(place.rpartition(":")[2], "reference")
    found = derived_at(place, shapes, name=f"reference_{name}"[:31] if name in OPS else name)
    contract = contract_of(found, "torch", (SINGLE.name,), strict=False)
    orders = {type(order).__name__ for order in contract.sums.values()}
    names = ", ".join(sorted({"Contract", "Op", "Operand", *orders}))
    text = found.module.replace("from fuzz import Op, Operand\n", f"from fuzz import {names}\n")
    constants = {name: value for name, value in found.constants.items() if type(value) in (int, float)}
    return OwnOp(place, found.op, text + _CONTRACT.format(contract=contract_text(contract)), constants)
