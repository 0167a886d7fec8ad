"""Which cases a kernel is given: those that its declared capabilities cover."""

from __future__ import annotations

from itertools import pairwise

from fuzz.case import ITEMSIZE, Case, Layout, Output, Tensor, contiguous
from fuzz.kernel import Capabilities, Kernel

MAX_RANK = 6
"""of a tensor that a C kernel is given; KF_MAX_RANK in kernelfuzz.h."""


def is_given(kernel: Kernel, case: Case) -> bool:
    """True when `case` is to be run: within the capabilities, or invalid input that the kernel promises to reject.

    Empty tensors are never invalid: a kernel that returns at once does no harm.
    """
    if accepts(kernel, case):
        return True
    layouts = [tensor.layout for tensor in case.inputs.values()] + [output.layout for output in case.outputs.values()]
    runnable = all(layout.size > 0 and len(layout.shape) <= MAX_RANK for layout in layouts)
    return runnable and case.op == kernel.op and kernel.capabilities.outside == "rejects"


def accepts(kernel: Kernel, case: Case) -> bool:
    """True when `case` is within the kernel's capabilities."""
    return refusal(kernel, case) is None


def refusal(kernel: Kernel, case: Case) -> str | None:
    """Why `case` is outside the kernel's capabilities, in plain words, or None when it is within."""
    if case.op != kernel.op:
        return f"op {case.op}"
    able = kernel.capabilities
    for name, output in case.outputs.items():
        if output.alias is not None and (name, output.alias) not in able.aliases:
            return f"{name} in the memory of {output.alias}"
    tensors: dict[str, Tensor | Output] = {**case.inputs, **case.outputs}
    for name, tensor in tensors.items():
        reason = _layout_refusal(able, case, tensor.layout, tensor.dtype)
        if reason is not None:
            return f"{name}: {reason}"
    return None


def _layout_refusal(able: Capabilities, case: Case, layout: Layout, dtype: str) -> str | None:
    rank = len(layout.shape)
    if dtype not in able.dtypes:
        return f"dtype {dtype}"
    if rank > MAX_RANK:
        return f"rank {rank}"
    if able.axis == "last" and int(case.params.get("axis", -1)) not in (-1, rank - 1):
        return "axis is not the last"
    if not _strides_fit(able, layout):
        return f"strides {layout.strides}"
    if able.alignment > 1 and not _rows_aligned(layout, ITEMSIZE[dtype], able.alignment):
        return f"rows not aligned to {able.alignment} bytes"
    return None


def _strides_fit(able: Capabilities, layout: Layout) -> bool:
    if able.strides == "any" or layout.size == 0:
        return True
    steps = [(extent, stride) for extent, stride in zip(layout.shape, layout.strides, strict=True) if extent != 1]
    if able.strides == "contiguous":
        dense = contiguous(layout.shape).strides
        wanted = [stride for extent, stride in zip(layout.shape, dense, strict=True) if extent != 1]
        return [stride for _, stride in steps] == wanted
    if layout.shape and layout.shape[-1] != 1 and steps.pop()[1] != 1:
        return False
    if able.strides == "rows":
        return True
    # Outer axes must collapse into one axis of rows with one pitch.
    return all(outer[1] == inner[0] * inner[1] for outer, inner in pairwise(steps))


def _rows_aligned(layout: Layout, itemsize: int, alignment: int) -> bool:
    outer = zip(layout.shape[:-1], layout.strides[:-1], strict=True)
    pitches = [stride * itemsize for extent, stride in outer if extent > 1]
    return layout.alignment(itemsize) % alignment == 0 and all(pitch % alignment == 0 for pitch in pitches)
