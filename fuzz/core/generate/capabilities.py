"""The choices that a kernel's capabilities leave open, and further capabilities for cases that kernels must reject."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from fuzz.core.base.capability import Capabilities, Capability
from oracles.dtypes import FLOATS, FORMATS
from oracles.operand import Operand
from oracles.ops import OPS, remembered


def presence(capability: Capability, operand: Operand) -> tuple[str, ...]:
    """Return ("yes",) if the operand must be present, ("no",) if it must not, or ("yes", "no") if either is allowed."""
    able, name = capability.able, operand.name
    if not operand.optional or name in able.needs:
        return ("yes",)
    if name not in able.optional or (operand.only_with and operand.only_with not in able.optional):
        return ("no",)
    return ("yes", "no")


@remembered(4096)
def dtype_pairs(capability: Capability, name: str) -> tuple[tuple[str, str], ...]:
    """Return the (dtype, dtype of the first input) pairs that a tensor may have."""
    main, able = OPS[capability.op].main, capability.able
    if name == main:
        return tuple((dtype, dtype) for dtype in able.dtypes)
    pairs = {
        (dtype, there[main]): None
        for first in able.dtypes
        for there in typings(capability, name, first)
        for dtype in capability.dtypes_of(name, there)
    }
    return tuple(pairs)


@remembered(4096)
def typings(capability: Capability, name: str, main: str) -> Sequence[Mapping[str, str]]:
    """Return the dtypes of other tensors that a tensor's dtype may depend on, as mappings from name to dtype. They are
    the dtype of the first input, `main`, and that of the tensor whose dtype is the default for this one."""
    op = OPS[capability.op]
    followed = op.operand(name).dtype
    alone = {op.main: main}
    is_tensor = any(operand.name == followed for operand in op.operands)
    there = presence(capability, op.operand(followed)) if is_tensor else ("no",)
    found = [{**alone, followed: dtype} for dtype in capability.dtypes_of(followed, alone)] if "yes" in there else []
    may_lack = "no" in there and not (found and op.operand(name).only_with == followed)
    return [*found, *([alone] if may_lack else [])]


def may_share(capability: Capability, output: str, source: str) -> bool:
    """Whether an output and an input may both be present with the same dtype, so that they can share memory."""
    op = OPS[capability.op]
    there = all("yes" in presence(capability, op.operand(name)) for name in (output, source))
    return there and bool({*dtype_pairs(capability, output)} & {*dtype_pairs(capability, source)})


Undeclared = Mapping[str, Sequence[str]]
"""The features that an op allows but a kernel does not declare, by the field of `Capabilities` to declare them."""


def undeclared(capability: Capability) -> Undeclared:
    """Return the features that no case for this kernel can have because the kernel does not declare them. Declared
    bounds, such as the longest row, are left out."""
    able, op = capability.able, OPS[capability.op]
    there = [each.name for each in op.inputs if "yes" in presence(capability, each)]
    columns = [name for name in there if name in op.columns]
    of_one_dtype = [name for name in columns if all(own == main for own, main in dtype_pairs(capability, name))]
    found = {
        "takes": tuple(name for name in op.optional if name not in able.optional),
        "dtypes": tuple(dtype for dtype in _formats(able) if dtype not in able.dtypes),
        "mixed": tuple(f"{name} of another dtype than {op.main}" for name in of_one_dtype),
        "strides": (f"any but {able.strides}",) if able.strides != "any" else (),
        "axis": ("any but the last",) if able.axis != "any" and op.any_axis else (),
        "aliases": ("in place",) if not able.aliases else (),
        "overlap": ("an output over a part of an input",) if capability.shares_memory and not able.overlap else (),
        "params": tuple(
            each.name
            for each in op.parameters
            if each.neutral is not None and each.name not in (able.params or ())
            if not each.only_with or each.only_with in there
        ),
        "stacked": tuple(
            f"{name} of rank 2" for name in there if op.operand(name).stackable and name not in able.stacked
        ),
        "outside": ("invalid input, to be rejected",) if able.outside != "rejects" else (),
        "checks": tuple(
            f"what is no place in {name}" for name in there if op.integers.get(name) and name not in able.checks
        ),
    }
    return {field: values for field, values in found.items() if values}


def anything(op: str) -> Capability:
    """Return the capability of a kernel that accepts everything that the op allows."""
    spec = OPS[op]
    able = _boundless(op, Capabilities(dtypes=FLOATS, takes=spec.optional, params=tuple(spec.neutral)))
    return Capability(op, replace(able, stacked=tuple(each.name for each in spec.operands if each.stackable)))


def out_of_capability(capabilities: Sequence[Capability]) -> tuple[Capability, ...]:
    """Return capabilities for cases that kernels promise to reject. Each kernel with this promise gets one capability
    with every dtype, axis, shape and layout. Cases drawn for it mostly have several things wrong, and rarely the rank
    or the size alone. So a kernel that takes tensors with rank 1 only gets another capability with stacked tensors of
    rank 2, and a kernel that takes no empty tensors gets another with empty tensors only. Each input whose places are
    checked gets one with invalid places. A case that cannot be passed to the kernel at all, for example because it
    has no argument for a tensor, is not invalid but impossible."""
    strict = [each for each in capabilities if each.able.outside == "rejects"]
    found = [replace(each, able=_boundless(each.op, each.able)) for each in strict]
    flat = [each for each in strict if not {*_flat(each)} <= {*each.able.stacked}]
    found += [replace(each, able=replace(each.able, stacked=_flat(each))) for each in flat]
    full = [each for each in strict if each.able.empty is False and not OPS[each.op].counted]
    found += [replace(each, able=replace(each.able, empty=True, max={OPS[each.op].row: 0})) for each in full]
    found += [replace(each, stray=(name,)) for each in capabilities for name in each.able.checks]
    return tuple(each for each in dict.fromkeys(found) if each not in capabilities)


def _boundless(op: str, able: Capabilities) -> Capabilities:
    """Return capabilities with the same tensors but without limits on dtypes, strides or extents."""
    spec, formats = OPS[op], _formats(able)
    return replace(
        able,
        dtypes=formats,
        axis="any" if spec.any_axis else "last",
        strides="any",
        aliases=spec.aliases,
        mixed=tuple((each.name, each.integers or formats) for each in spec.operands if each.name != spec.main),
        stacked=tuple(each.name for each in spec.inputs if each.name in spec.columns),
        empty=True,
        max={},
        multiple_of={},
        alignment=1,
    )


def _formats(able: Capabilities) -> tuple[str, ...]:
    """Return the formats that values can be calculated in. If the kernel takes formats that can only be stored, add all
    of the same size: a kernel that reads e4m3fn may be given e5m2 by mistake, one that reads f32 hardly ever."""
    sizes = {FORMATS[name].itemsize for name in able.formats if FORMATS[name].only_stores}
    return tuple(name for name, each in FORMATS.items() if not each.only_stores or each.itemsize in sizes)


def _flat(capability: Capability) -> tuple[str, ...]:
    """Return the names of the column inputs, which have rank 1 unless they are stacked, that may be present."""
    op = OPS[capability.op]
    columns = [each for each in op.inputs if each.name in op.columns]
    return tuple(each.name for each in columns if "yes" in presence(capability, each))
