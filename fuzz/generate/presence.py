"""What a kernel leaves open about its tensors: which are there, and of which dtype."""

from __future__ import annotations

from fuzz.base.capability import Capability
from fuzz.base.op import OPS, Operand


def presence(capability: Capability, operand: Operand) -> tuple[str, ...]:
    """Whether an operand may be there, must be, or may not."""
    able, name = capability.able, operand.name
    if not operand.optional or name in able.needs:
        return ("yes",)
    if name not in able.takes or (operand.only_with and operand.only_with not in (*able.takes, *able.needs)):
        return ("no",)
    return ("yes", "no")


def dtype_pairs(capability: Capability, name: str) -> tuple[tuple[str, str], ...]:
    """The dtypes that a tensor may have, each with that of x."""
    able = capability.able
    if name == "x":
        return tuple((dtype, dtype) for dtype in able.dtypes)
    weighted = {"weight"} & {*able.takes, *able.needs}
    pairs = {
        (dtype, x): None
        for x in able.dtypes
        for weight in (able.dtypes_of("weight", x) if weighted else (None,))
        for dtype in able.dtypes_of(name, x, weight)
    }
    return tuple(pairs)


def may_share(capability: Capability, output: str, source: str) -> bool:
    """Whether both may be there with one dtype."""
    op = OPS[capability.op]
    there = all("yes" in presence(capability, op.operand(name)) for name in (output, source))
    return there and bool({*dtype_pairs(capability, output)} & {*dtype_pairs(capability, source)})
