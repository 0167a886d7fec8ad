"""A snippet: a failing case as a few lines of Markdown that explain themselves, to paste into an issue."""

from __future__ import annotations

import base64
import math
import zlib
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from fuzz.core.adapters.export import hex_words
from fuzz.core.base.case import Case, Tensor, contiguous
from fuzz.core.base.dtypes import from_bits
from fuzz.explain.explanation import Explanation, Memory
from fuzz.report.brief import brief_of
from fuzz.report.words import nested, what_is_wrong
from oracles.dtypes import ITEMSIZE
from oracles.operand import AXIS, OUTER
from oracles.ops import OPS
from oracles.rounding import NATIVE

_WIDTH = 200
"""The columns of a line; a page breaks longer ones."""
_LISTED = 12
"""The most elements that are listed one by one. Chosen."""
_MOST, _FAR = 2000, 20_000
"""The most characters of a packed tensor: that anybody would paste, and that an issue accepts. Chosen."""


def snippet(told: Explanation, case: Case) -> str:
    """Return what is wrong, the inputs bit for bit as Python that needs only NumPy, the result, the expected result,
    and the effect of single changes. Large inputs are cut to the slice of the worst element, if it depends on no other
    slice. Inputs that are still too large are replaced by similar values."""
    said = brief_of(told, _WIDTH)
    inputs, slices = case.inputs, ""
    row = _one_row(told, case)
    if row is not None and not _fits(inputs, _MOST) and (_fits(row, _MOST) or not _fits(inputs, _FAR)):
        inputs, slices = row, " (here only the row of that element, from which follows what must come)"
    lost = [name for name, tensor in inputs.items() if not _fits({name: tensor}, _FAR)]
    given = ", ".join([*inputs, *(name for name in case.params if name != AXIS)])
    unlike = f"{' and '.join(lost)} only like the failing values, which the case file has: " if lost else ""
    packed = any(_is_packed(tensor) for name, tensor in inputs.items() if name not in lost)
    lines = [
        f"**{told.kernel}: {what_is_wrong(told)}** ({said.where})",
        "```python",
        "import base64, zlib, numpy as np" if packed else "import numpy as np",
        *(
            _alike(name, tensor) if name in lost else _line(name, tensor, told.case.inputs.get(name))
            for name, tensor in inputs.items()
        ),
        *(f"{name} = {_number(value)}" for name, value in case.params.items() if name != AXIS),
        f"# {unlike}{told.kernel}({given}): {said.outcome}{slices}",
        "```",
        *([said.evidence] if said.evidence else []),
        f"kernelfuzz {told.kernelfuzz}, op {told.op}, {told.target}, case {case.digest[:12]}",
    ]
    return "\n".join(lines)


def _number(value: float) -> str:
    return repr(value) if math.isfinite(value) else f"float('{value}')"


def _is_packed(tensor: Tensor) -> bool:
    return len({*hex_words(tensor)}) > 1 and tensor.layout.size > _LISTED


def _packed(tensor: Tensor) -> str:
    return base64.b85encode(zlib.compress(tensor.bits, 9)).decode()


def _fits(inputs: Mapping[str, Tensor], most: int) -> bool:
    return all(len(_packed(tensor)) <= most for tensor in inputs.values() if _is_packed(tensor))


def _one_row(told: Explanation, case: Case) -> Mapping[str, Tensor] | None:
    """Return the inputs cut to the worst element's slice along the dimensions of a batch; None if the slice is unknown,
    or is everything."""
    op, worst = OPS.get(case.op), told.worst
    if op is None or worst is None or worst.output not in case.outputs:
        return None
    rank, axes = len(case.outputs[worst.output].layout.shape), op.operand(worst.output).axes
    outer = rank - len(axes) + 1
    if axes[:1] != (OUTER,) or outer < 1 or (op.any_axis and case.params.get(AXIS) not in (-1, rank - 1)):
        return None
    place = tuple(slice(at, at + 1) for at in worst.index[:outer])
    found = {name: _at(tensor, place) if op.operand(name).axes[:1] == (OUTER,) else tensor
             for name, tensor in case.inputs.items()}  # fmt: skip
    return found if found != dict(case.inputs) and all(each.layout.size for each in found.values()) else None


def _at(tensor: Tensor, place: tuple[slice, ...]) -> Tensor:
    values = from_bits(tensor.bits, tensor.dtype, tensor.layout.shape)[place]
    return replace(tensor, layout=contiguous(values.shape), bits=np.ascontiguousarray(values).tobytes(), alias=None)


def _alike(name: str, tensor: Tensor) -> str:
    """Return an assignment of random values that are about as large, in float32 if NumPy lacks the dtype."""
    with np.errstate(all="ignore"):
        values = from_bits(tensor.bits, tensor.dtype, tensor.layout.shape).astype(np.float64)
        finite = values[np.isfinite(values)]
        mean, spread = (float(np.nan_to_num(each)) for each in (finite.mean(), finite.std()))
    known = NATIVE.get(tensor.dtype)
    dtype = known.str if known is not None else "<f4"
    made = f"np.random.default_rng(0).normal({mean:.4g}, {spread:.4g}, {tensor.layout.shape}).astype('{dtype}')"
    return f"{name} = {made}  # {tensor.dtype}, not bit for bit"


def _line(name: str, tensor: Tensor, seen: Memory | None) -> str:
    """Return an assignment of the tensor, contiguous, with a comment on its values if they are few, and on its memory.
    If NumPy lacks the dtype, the assignment is of its bits."""
    size, shape, words = ITEMSIZE[tensor.dtype], tensor.layout.shape, hex_words(tensor)
    if _is_packed(tensor):
        made = f"np.frombuffer(zlib.decompress(base64.b85decode({_packed(tensor)!r})), '<u{size}').copy()"
    elif len({*words}) == 1 and tensor.layout.size > 1:
        made = f"np.full({tensor.layout.size}, 0x{words[0]}, '<u{size}')"
    else:
        made = f"np.array([{', '.join(f'0x{word}' for word in words)}], '<u{size}')"
    known = NATIVE.get(tensor.dtype)
    made += f".view('{known.str}')" if known is not None else ""
    remarks = [tensor.dtype if known is not None else f"the bits of {tensor.dtype}"]
    if seen is not None and seen.shape == shape and 0 < len(seen.values) <= _LISTED:
        remarks.insert(0, nested(seen))
    if tensor.layout.strides != contiguous(shape).strides:
        remarks.append(f"with strides {[*tensor.layout.strides]}")
    if tensor.alias is not None:
        remarks.append(f"the same memory as {tensor.alias}")
    return f"{name} = {made}.reshape({shape})  # {', '.join(remarks)}"
