"""What capabilities leave open, and for which ones cases are made besides the kernels' own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from fuzz.base.capability import Capabilities, Capability
from fuzz.base.case import ITEMSIZE
from oracles.op import Operand
from oracles.ops import OPS


def presence(capability: Capability, operand: Operand) -> tuple[str, ...]:
    """Whether an operand may be there, must be, or may not."""
    able, name = capability.able, operand.name
    if not operand.optional or name in able.needs:
        return ("yes",)
    if name not in able.optional or (operand.only_with and operand.only_with not in able.optional):
        return ("no",)
    return ("yes", "no")


@lru_cache(maxsize=4096)
def dtype_pairs(capability: Capability, name: str) -> tuple[tuple[str, str], ...]:
    """The dtypes that a tensor may have, each with that of x."""
    able = capability.able
    if name == "x":
        return tuple((dtype, dtype) for dtype in able.dtypes)
    weighted = "weight" in able.optional
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


_DTYPES = ("f32", "f16", "bf16", "f64")

Undeclared = Mapping[str, Sequence[str]]
"""What an op allows and a kernel does not declare, by the field of `Capabilities` that would declare it."""


def undeclared(capability: Capability) -> Undeclared:
    """What no case for this kernel can have, since it does not declare it. A bound that it does declare is no part of
    it, such as the longest row."""
    able, op = capability.able, OPS[capability.op]
    weighted = "weight" in able.optional
    mixed = [dtype for x in able.dtypes for dtype in able.dtypes_of("weight", x) if dtype != x]
    stackable = any(operand.stackable for operand in op.operands)
    found = {
        "takes": tuple(each.name for each in op.operands if each.optional and each.name not in able.optional),
        "dtypes": tuple(dtype for dtype in _DTYPES if dtype not in able.dtypes),
        "mixed": ("a weight of another dtype than x",) if weighted and not mixed else (),
        "strides": (f"any but {able.strides}",) if able.strides != "any" else (),
        "axis": ("any but the last",) if able.axis != "any" else (),
        "aliases": ("in place",) if not able.aliases else (),
        "overlap": ("an output over an input in part",) if capability.shares_memory and not able.overlap else (),
        "offset": ("added to the weight",) if weighted and not able.offset else (),
        "weight_rows": ("a weight of rank 2",) if weighted and stackable and not able.weight_rows else (),
        "outside": ("invalid input, to be rejected",) if able.outside != "rejects" else (),
    }
    return {field: values for field, values in found.items() if values}


def anything(op: str) -> Capability:
    """The capability that takes all that the op allows."""
    able = _boundless(op, Capabilities(takes=_optional(op), offset=True))
    return Capability(op, replace(able, weight_rows=any(operand.stackable for operand in OPS[op].operands)))


def out_of_capability(capabilities: Sequence[Capability]) -> tuple[Capability, ...]:
    """For each kernel that promises to reject what it does not take, a capability of every dtype, axis, shape and
    layout. Where a kernel's weight has rank 1, also one of nothing more than weights of rank 2, and where it takes no
    empty tensors, one of nothing else: cases for the first are hardly ever wrong in that alone.

    What such a kernel cannot hear of, such as a weight that it has no argument for, is not invalid: it is impossible.
    """
    strict = [each for each in capabilities if each.able.outside == "rejects"]
    found = [replace(each, able=_boundless(each.op, each.able)) for each in strict]
    flat = [each for each in strict if "weight" in (each.able.takes or ()) and not each.able.weight_rows]
    found += [replace(each, able=replace(each.able, weight_rows=True)) for each in flat]
    full = [each for each in strict if not each.able.empty]
    found += [replace(each, able=replace(each.able, empty=True, max_n=0)) for each in full]
    return tuple(each for each in dict.fromkeys(found) if each not in capabilities)


def _boundless(op: str, able: Capabilities) -> Capabilities:
    """The same tensors without any limit."""
    assert {*_DTYPES} == {*ITEMSIZE}
    spec = OPS[op]
    return replace(
        able,
        dtypes=_DTYPES,
        axis="any",
        strides="any",
        aliases=spec.aliases,
        mixed=tuple((operand.name, _DTYPES) for operand in spec.operands if operand.name != "x"),
        weight_rows=True,
        empty=True,
        max_n=None,
        multiple_of=1,
        alignment=1,
    )


def _optional(op: str) -> tuple[str, ...]:
    return tuple(operand.name for operand in OPS[op].operands if operand.optional)
